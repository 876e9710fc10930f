"""Word lists about persons: professions, relatives, illnesses, places and the like."""

PROFESSIONS = """
    accountant actor actress actuary admin administrator advisor analyst anesthetist animator archaeologist
    architect archivist artist assistant astronomer attorney auditor author baker banker barber barista
    bartender beekeeper biologist blacksmith blogger bookkeeper botanist brewer bricklayer broker builder
    butcher cardiologist caregiver caretaker carpenter cashier ceo cfo chef chemist chiropractor cleaner coach
    composer conductor consultant contractor cook copywriter coo counselor courier cto curator dancer dentist
    dermatologist designer detective developer dietitian director doctor driver economist editor electrician
    engineer entrepreneur estimator executive farmer filmmaker firefighter fisherman florist founder
    freelancer gardener geographer geologist hairdresser headteacher historian housekeeper illustrator
    instructor interpreter investigator investor janitor jeweler joiner journalist judge landscaper lawyer
    lecturer librarian lifeguard linguist locksmith logistician machinist manager marketer mason masseur
    mathematician mechanic meteorologist microbiologist midwife miner musician nanny neurologist
    neuroscientist notary novelist nurse nutritionist oceanographer officer optician optometrist painter
    paralegal paramedic pastor pathologist pediatrician performer pharmacist photographer physician physicist
    physiotherapist pianist pilot planner plasterer plumber podcaster poet policeman policewoman postdoc
    potter priest principal producer professor programmer psychiatrist psychologist publicist radiologist
    realtor receptionist recruiter reporter researcher retiree roofer sailor salesperson salesman saleswoman
    scientist sculptor seamstress secretary singer sociologist soldier solicitor statistician steward
    stewardess streamer student superintendent supervisor surgeon surveyor tailor teacher technician
    technologist teller tester therapist tiler trader trainee trainer translator trucker tutor undergraduate
    underwriter veterinarian vet violinist waiter waitress welder winemaker writer zookeeper zoologist
    apprentice intern paediatrician freshman sophomore widow widower veteran
"""
"""Head nouns of what people say they are."""

FIELDS = """
    accounting advertising aerospace agriculture architecture aviation banking biotech construction consulting
    cybersecurity education engineering fashion finance healthcare hospitality hr insurance it journalism law
    logistics manufacturing marketing media medicine mining nursing pharma photography politics publishing
    recruiting retail robotics sales shipping software tech telecom tourism
"""

BUSINESSES = """
    agency bakery bar bookshop bookstore brewery business café cafe clinic company consultancy distillery farm
    firm foundation garage gallery gym hostel hotel kindergarten nonprofit nursery pharmacy practice pub
    restaurant salon school shop startup store studio vineyard winery workshop
"""

RELATIVES = """
    wife husband spouse partner fiancé fiancée fiance fiancee girlfriend boyfriend daughter son child kid baby
    mother mom mum mama father dad papa parents sister brother twin grandmother grandma granny grandfather
    grandpa grandson granddaughter aunt uncle niece nephew cousin stepson stepdaughter stepmother stepfather
    mother-in-law father-in-law sister-in-law brother-in-law roommate flatmate boss manager neighbor neighbour
    friend colleague
"""
"""Includes relations of which a user may have several."""

PETS = """
    dog puppy cat kitten parrot rabbit hamster horse pony turtle tortoise snake lizard gecko goldfish bird budgie ferret
"""

CONDITIONS = """
    adhd add ocd ptsd ibs pcos copd als ms hiv lupus asthma eczema epilepsy diabetes arthritis endometriosis
    fibromyalgia gout hypertension hypothyroidism hyperthyroidism insomnia migraine migraines psoriasis
    scoliosis tinnitus vertigo dyslexia dyscalculia dyspraxia autism narcolepsy glaucoma osteoporosis rosacea
    anemia anaemia haemophilia hemophilia parkinson's crohn's alzheimer's hashimoto's celiac coeliac bipolar
    depression anxiety sciatica tinnitus gerd reflux
"""

STATES = """
    vegan vegetarian pescatarian celiac coeliac diabetic asthmatic dyslexic epileptic autistic deaf blind
    colorblind colourblind color-blind colour-blind lactose-intolerant left-handed right-handed pregnant
    retired unemployed self-employed married divorced widowed engaged single bilingual gluten-intolerant
    wheelchair-bound hearing-impaired hard-of-hearing nearsighted farsighted bipolar muslim jewish catholic
    buddhist hindu nonbinary non-binary transgender
"""
"""Lasting states of a person."""

LANGUAGES = """
    afrikaans albanian amharic arabic armenian basque bengali bulgarian cantonese catalan chinese croatian
    czech danish dutch english estonian farsi finnish french galician georgian german greek hebrew hindi
    hungarian icelandic indonesian irish italian japanese korean latvian lithuanian malay mandarin norwegian
    persian polish portuguese punjabi romanian russian serbian slovak slovenian spanish swahili swedish
    tagalog tamil telugu thai turkish ukrainian urdu vietnamese welsh
"""

NATIONS = """
    american argentinian australian austrian belgian brazilian british canadian chilean colombian cuban
    egyptian ethiopian filipino ghanaian indian iranian iraqi israeli kenyan lebanese mexican moroccan
    nigerian pakistani peruvian scottish singaporean swiss syrian taiwanese tunisian venezuelan
"""

PLACES = """
    abu dhabi|accra|adelaide|afghanistan|alaska|albania|alberta|algeria|alicante|amsterdam|andalusia
    |ankara|antwerp|argentina |arizona|armenia|athens|atlanta|auckland|austin|australia|austria
    |baku|baltimore|bangalore|bangkok|bangladesh|barcelona |basel|bavaria|beijing|beirut|belfast
    |belgium|belgrade|bengaluru|bergen|berkeley|berlin|bern|bilbao|birmingham|bogota|bogotá
    |bologna|bolivia|bonn|bordeaux|boston|bratislava|brazil|bremen|brighton|brisbane|bristol|brno
    |brooklyn|brussels|bucharest |budapest|buenos aires|bulgaria|cairo|calgary|california|cambridge
    |canada|cape town|cardiff|casablanca|catalonia|chengdu |chennai|chicago|chile|china|cincinnati
    |cleveland|cologne|colombia|colorado|connecticut|copenhagen|cork|costa rica|croatia|cuba
    |curitiba|cyprus|czechia|dallas|delhi|denmark|denver|detroit|doha|dortmund|dresden|dubai
    |dublin|durham|düsseldorf|ecuador |edinburgh|egypt|eindhoven|england|estonia|ethiopia|finland
    |florence|florida|france|frankfurt|galway|gdańsk|gdansk|geneva |genoa|georgia|germany|ghana
    |ghent|glasgow|gothenburg|granada|graz|greece|guadalajara|guangzhou|haifa|hamburg|hangzhou
    |hanoi |hanover|hawaii|heidelberg|helsinki|hong kong|houston|hungary|hyderabad|iceland|illinois
    |india|indonesia|iran|iraq|ireland |israel|istanbul|italy|jakarta|japan|jerusalem|johannesburg
    |jordan|kansas city|karachi|kazakhstan|kenya|kiev|kobe|kolkata |krakow|kraków|kuala lumpur|kyiv
    |kyoto|lagos|lahore|latvia|lausanne|lebanon|leeds|leipzig|liège|lille|lima|limerick|linz
    |lisbon |lithuania|liverpool|ljubljana|london|los angeles|luxembourg|lyon|madrid|malaga|málaga
    |malaysia|malmö|malta|manchester|manila |marrakesh|marseille|medellín|medellin|melbourne|memphis
    |mexico|mexico city|miami|michigan|milan|minneapolis|minnesota|minsk |montana|montenegro
    |monterrey|montevideo|montreal|morocco|moscow|mumbai|munich|nagoya|nairobi|nantes|naples
    |nashville |nepal|netherlands|the netherlands|new delhi|new jersey|new orleans|new york|new york
    city|new zealand|nice|nigeria|norway|nova scotia |nuremberg|nyc|oakland|ohio|ontario|oregon
    |osaka|oslo|ottawa|oxford|pakistan|palermo|panama|paraguay|paris|pennsylvania|perth|peru
    |philadelphia|phoenix|pittsburgh|poland|portland|porto|portugal|prague|pune|puerto rico|qatar
    |quebec|queens|reykjavik|riga |rio de janeiro|romania|rome|rotterdam|russia|sacramento|salzburg
    |san antonio|san diego|san francisco|san jose|santiago |são paulo|sao paulo|sapporo|sarajevo
    |saudi arabia|scotland|seattle|senegal|seoul|serbia|seville|shanghai|sheffield|shenzhen |sicily
    |singapore|slovakia|slovenia|sofia|south africa|south korea|spain|st louis|stockholm|strasbourg
    |stuttgart|suzhou|sweden |switzerland|sydney|taipei|taiwan|tallinn|tampa|tanzania|tbilisi
    |tehran|tel aviv|tennessee|texas|thailand|the hague|thessaloniki |tirana|tokyo|toronto|toulouse
    |trieste|tucson|tunis|tunisia|turin|turkey|uganda|ukraine|uruguay|utah|utrecht|valencia
    |vancouver |venice|vermont|vienna|vietnam|vilnius|virginia|wales|warsaw|washington|wellington
    |winnipeg|wisconsin|wroclaw|wrocław|wuhan|xi'an |yokohama|york|zagreb|zaragoza|zurich|zürich
"""

KNOWN_PLACES = frozenset(" ".join(place.split()) for place in PLACES.split("|"))
"""Place names that need no capital or further evidence."""

NOT_NAMES = """
    monday tuesday wednesday thursday friday saturday sunday january february march april june july august
    september october november december ok okay fine good great sorry back home here there late tired happy
    sad sick ready done maybe later tomorrow today crazy old young lost stuck new mud hard difficult long
    short common rare unique spelled pronounced misspelled misspelt wrong right important confidential
    irrelevant legion on in not the a an at my your his her our their its it that this what known well already
    still also only just being listed missing written mentioned taken used everywhere now never always same
    different unusual weird funny sure glad afraid curious trying going looking from about into legally
    actually android ios linux windows mac java python javascript anonymous none nobody muslim jewish catholic
    buddhist hindu christian protestant orthodox atheist agnostic vegan vegetarian diabetic bipolar autistic
    deaf blind pregnant retired married single divorced engaged busy free online offline hungry thirsty
    working writing using doing having looking calling so very too like as to of with for and or but if all
    both one two no yes please thanks mr mrs ms dr batman spartacus groot human taurus gemini virgo libra
    scorpio sagittarius capricorn aquarius pisces aries leo cancer gen team plan foreign ugly boring
"""
"""Words after `I'm` and `my name is` that are not names."""

NO_PLACES = """
    linux windows mac macos ubuntu vim neovim emacs vscode python java javascript typescript rust go kotlin
    swift react vue postgres postgresql mysql kubernetes docker aws azure gcp slack jira notion github gitlab
    excel word outlook firefox chrome android ios iphone narnia hogwarts mars jupiter hell heaven neverland i
    monday tuesday wednesday thursday friday january february march april may june july august september
    october november december python3 zoom teams discord
"""
"""Names after `live in` and `moved to` that are not places."""

WEEKDAYS = """
    monday mondays tuesday tuesdays wednesday wednesdays thursday thursdays friday fridays saturday saturdays
    sunday sundays weekends
"""

CIRCUMSTANCES = """
    pregnant retired unemployed self-employed married divorced widowed engaged single bilingual left-handed
    right-handed
"""
"""The states that do not concern health."""

SINGLE_RELATIONS = """
    mother mom mum father dad wife husband partner spouse girlfriend boyfriend fiancé fiancée fiance fiancee boss
    manager landlord
"""
"""A user has one of each."""

PLURAL_RELATIONS = """
    brother sister son daughter child kid friend cousin uncle aunt niece nephew colleague roommate flatmate neighbor
    neighbour dog cat
"""
"""A user may have several; only a name tells them apart."""

PAST_FORMS = """
    had did went got made took came saw left bought sold met lost won began broke built chose found gave grew kept
    knew paid put read ran said set spent thought told wrote became quit cut hurt let
"""
"""Irregular past forms."""

FREQUENCY_ADVERBS = "always never often usually also still only just really mostly sometimes rarely normally"
"""Adverbs that precede a verb."""

WORD_SYNONYMS = """
    mom:mother mum:mother dad:father fiancée:fiancé fiance:fiancé fiancee:fiancé 妈妈:mother 妈:mother
    母亲:mother 爸爸:father 爸:father 父亲:father 老婆:wife 妻子:wife 太太:wife 老公:husband 丈夫:husband
    女朋友:girlfriend 女友:girlfriend 男朋友:boyfriend 男友:boyfriend color:colour film:movie 颜色:colour
    电影:movie 书:book
"""
"""Each word with its canonical synonym."""

ATTRIBUTE_SYNONYMS = """
    location=home|city=home|residence=home|home city=home|lives in=home|full name=name|company=employer
    |job title=job|profession=job|occupation=job|date of birth=birthday|time zone=timezone
    |preferred language=language|mother tongue=native language|first language=native language
    |email address=email|e-mail=email|phone number=phone|home address=address|birth place=birthplace
    |place of birth=birthplace|姓名=name|名字=name|年龄=age|生日=birthday|职业=job|母语=native language
    |邮箱=email|电话=phone|手机号=phone|住址=address|地址=address|身高=height|体重=weight|血型=blood type
    |时区=timezone|居住地=home|现居地=home|雇主=employer|公司=employer
"""
"""Each attribute with its canonical synonym."""
