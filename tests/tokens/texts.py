"""Sample texts in several scripts and forms."""

SAMPLES = {
    "english": "The harbour was quiet when we arrived, and the last of the fishing boats lay on the sand.",
    "german": "Als wir am Hafen ankamen, war es still, und die letzten Fischerboote lagen schon auf dem Sand.",
    "russian": "Когда мы приехали, в порту было тихо, и последние рыбацкие лодки уже лежали на песке.",
    "greek": "Όταν φτάσαμε, το λιμάνι ήταν ήσυχο και τα τελευταία ψαροκάικα ήταν στην άμμο.",
    "arabic": "عندما وصلنا كان الميناء هادئا، وكانت آخر قوارب الصيد قد سحبت إلى الرمال.",
    "hindi": "जब हम पहुँचे तो बंदरगाह शांत था और आखिरी नावें रेत पर खींची जा चुकी थीं।",
    "thai": "เมื่อเรามาถึง ท่าเรือเงียบสงบ และเรือประมงลำสุดท้ายถูกลากขึ้นมาบนหาดทรายแล้ว",
    "chinese": "我们到达的时候，港口很安静，最后几条渔船已经被拉到沙滩上。没有人问我们从哪里来。",
    "japanese": "私たちが着いたとき、港は静かで、最後の漁船はもう砂の上に引き上げられていた。",
    "korean": "우리가 도착했을 때 항구는 조용했고 마지막 고깃배들은 이미 모래 위로 끌어올려져 있었다.",
    "python": "def add(self, book: Book) -> None:\n    insort(self._books[book.author.lower()], book, key=year)\n",
    "json": '{"order_id":"A-20931","lines":[{"sku":"LMP-004","qty":2,"unit_price":18.5}],"paid":true,"note":null}',
    "emoji": "Great day 🎉🎉 we went 🚢 to the island 🏝️ and ate 🍞🐟, so happy 😀👍🏽",
}
