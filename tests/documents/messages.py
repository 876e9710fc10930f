"""Sixty messages about bees and about a choir tour, each with what it names, listed by hand."""

_CHATTER = (
    "I must say it has been a strange week, with all the wind and so little sleep, and nothing went as it should. "
    "Anyway, one gets used to it, I suppose, and there is always some tea left in the kitchen when all else fails. "
    "It is funny how these things always happen at once and never when there would be time for them. "
)
_MORE = (
    "Everybody was in a good mood, although the food was nothing to write home about and the chairs were hard. "
    "Nobody could say why it took so long, but in the end it did not matter much to any of us. "
)

MESSAGES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("Hi! I keep bees near Ghent, in 14 hives.", ("Ghent", "14")),
    ("My oldest hive is from 2011 and came from Mr. Daems.", ("2011", "Daems")),
    ("We harvested 38 kg of honey on 12 July 2024. What a day!", ("38", "12 July 2024")),
    ("The queen in hive 7 is marked blue and is called Odette.", ("7", "Odette")),
    ("Could you remind me to treat hive 7 against varroa on 2024-08-03?", ("7", "2024-08-03")),
    (
        "Thanks! The vet, Dr. Lindqvist, wants a sample by Friday. Her number is +46 70 123 45 67.",
        ("Lindqvist", "+46 70"),
    ),
    ("I bought 3 frames from Beekman & Sons for 59.90 EUR.", ("3", "Beekman", "59.90")),
    ("My neighbour Farid is afraid of them. He moved his table to the far end.", ("Farid",)),
    ("Last Sunday a swarm left hive 2, and Farid called the fire brigade in Aalst.", ("2", "Farid", "Aalst")),
    ("We decided to move the 4 weakest hives to Deinze in March.", ("4", "Deinze", "March")),
    ("The scale under hive 9 has the serial number BX-2209-K.", ("9", "BX-2209-K")),
    ("It showed 41.5 kg this morning at 6:15.", ("41.5", "6:15")),
    ('I read about it in "The Honey Year" by Ruth Okafor.', ("The Honey Year", "Ruth Okafor")),
    ("See https://bees.example.org/varroa/2024 for the table.", ("https://bees.example.org/varroa/2024",)),
    ("Please order 25 jars from Glaswerk by 1 September 2024.", ("25", "Glaswerk", "1 September 2024")),
    ("Lina, my daughter, is allergic to stings, so we keep an EpiPen at home.", ("Lina", "EpiPen")),
    ("Our club meets every second Tuesday at Café Lindenhof.", ("Tuesday", "Lindenhof")),
    ("The club has 63 members and Paulien is its president since 2019.", ("63", "Paulien", "2019")),
    ("How much sugar do I need for 14 hives in October?", ("14", "October")),
    ("Ich habe am 3. Mai 2024 zwei Völker von Imker Huber aus Passau gekauft.", ("3. Mai 2024", "Huber", "Passau")),
    ("Hallo! Die Königin in Stock 5 heißt Berta.", ("5", "Berta")),
    ("Nous avons vendu 12 pots à Claire Fontaine le 6 juin 2024.", ("12", "Claire Fontaine", "6 juin 2024")),
    ("Buenos días. Mi colmena 8 pesa 33 kilos y la compré en Soria.", ("8", "33", "Soria")),
    ("昨天我在Ghent买了3箱蜜蜂。", ("Ghent", "3")),
    (
        f"Hello! {_CHATTER}Yesterday I sold hive 11 to Margot Claes for 240 EUR. {_MORE}She pays on 15 October 2024.",
        ("11", "Margot Claes", "240", "15 October 2024"),
    ),
    (
        f"{_MORE}{_CHATTER}Inspection result IR-8841: hive 3 has foulbrood. {_MORE}The officer was Jan Peeters.",
        ("IR-8841", "3", "Jan Peeters"),
    ),
    (
        f"{_CHATTER}{_CHATTER}We agreed with Paulien to lend the extractor to the school in Zele until 30 June 2025.",
        ("Paulien", "Zele", "30 June 2025"),
    ),
    (
        f"Good morning! {_CHATTER}{_MORE}The new smoker cost 72 EUR. {_CHATTER}The receipt is R-30021.",
        ("72", "R-30021"),
    ),
    ("My brother Wout will help on 9 and 10 August.", ("Wout", "10 August")),
    ("The honey won a silver medal at the fair in Bruges, class C2.", ("Bruges", "C2")),
    ("Hi Sam, our choir tour starts in Vienna on 4 June 2025.", ("Sam", "Vienna", "4 June 2025")),
    ("We are 42 singers and 3 drivers.", ("42", "3")),
    ("The second concert is at the Votivkirche at 19:30.", ("Votivkirche", "19:30")),
    ("Our conductor is Helena Brandt; her assistant is called Mateo.", ("Helena Brandt", "Mateo")),
    ("The bus company is Alpenreisen, contract AR-5512.", ("Alpenreisen", "AR-5512")),
    ("Please book 21 double rooms at Hotel Stefanie.", ("21", "Hotel Stefanie")),
    ("The deposit of 3,150 EUR is due on 2025-03-31.", ("3,150", "2025-03-31")),
    ("Actually, the concert in Graz moved from 6 June 2025 to 7 June 2025.", ("Graz", "7 June 2025")),
    ("Two altos, Greta and Yasmin, only eat vegan food.", ("Greta", "Yasmin")),
    ("Who has the scores of the Bruckner motets?", ("Bruckner",)),
    ('We decided to sing "Locus iste" and drop the Britten.', ("Locus iste", "Britten")),
    ("I sent the list to info@alpenreisen.example on Monday.", ("info@alpenreisen.example", "Monday")),
    ("Helena needs 6 music stands and a keyboard with 88 keys.", ("Helena", "6", "88")),
    ("The tickets cost 18 EUR, or 12 EUR for students.", ("18", "12")),
    ("So far we sold 310 of 480 seats.", ("310", "480")),
    ("My passport expires in November 2025, is that a problem?", ("November 2025",)),
    ("Can you write to Mateo about the piano in Linz?", ("Mateo", "Linz")),
    ("The piano tuner, Frau Egger, comes at 14:00.", ("Egger", "14:00")),
    ("Our rehearsal is in room B-207 from now on.", ("B-207",)),
    ("Wir haben beschlossen, am 8. Juni 2025 in Salzburg zu übernachten.", ("8. Juni 2025", "Salzburg")),
    ("Bitte reserviere 45 Plätze im Gasthof Adler.", ("45", "Adler")),
    ("Le car part de la gare du Nord à 7h45, quai 3.", ("Nord", "7h45", "3")),
    ("Nos hemos quedado sin el tenor Álvaro Ruiz hasta el 5 de junio de 2025.", ("Álvaro Ruiz", "5 de junio de 2025")),
    ("来週、Helenaさんがウィーンに行きます。", ("Helena", "ウィーン")),
    (
        f"Hey! {_CHATTER}The insurance policy is HX-77-1043. {_MORE}It covers 45 people until 12 June 2025. {_CHATTER}",
        ("HX-77-1043", "45", "12 June 2025"),
    ),
    (
        f"{_CHATTER}{_MORE}Mateo found a sponsor: Brauerei Lohmann gives 2,500 EUR. {_MORE}{_CHATTER}",
        ("Mateo", "Lohmann", "2,500"),
    ),
    (
        f"{_MORE}{_MORE}We agreed that Greta keeps the cash box, code 4471. {_CHATTER}{_MORE}Yasmin has the spare key.",
        ("Greta", "4471", "Yasmin"),
    ),
    (
        f"Dear Sam, {_CHATTER}the programme has 12 pieces, the longest by Rheinberger. {_MORE}Please print 600 copies.",
        ("Sam", "12", "Rheinberger", "600"),
    ),
    ("The stage in Graz is 9 m wide and 5 m deep.", ("Graz", "9", "5")),
    ("We fly home with OS 351 on 11 June 2025, gate F12.", ("OS 351", "11 June 2025", "F12")),
)
