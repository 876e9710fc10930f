"""The texts of `questions.py`: for each kind its slots, its facts (told, then asked), and its chatter."""

SMALL_TALK = """
who: my sister|my brother|Grandma|the neighbour|Uncle Piet|my boss|Mirela|Tobias|the plumber|our teacher|Oona|Casimir
pet: parrot|hamster|greyhound|tortoise|goat|kitten|rabbit|donkey|ferret|goldfish
city: Trieste|Ghent|Aarhus|Porto|Lublin|Tartu|Bergen|Malaga|Graz|Bilbao|Cork|Turku
food: lentil stew|plum cake|pickled herring|rye bread|saffron rice|onion tart|pumpkin soup|fig jam|barley salad
hobby: pottery|archery|fencing|beekeeping|calligraphy|bookbinding|canoeing|weaving|juggling|origami
thing: violin|telescope|bicycle|typewriter|tent|camera|sewing machine|piano|kayak|chessboard|globe|lantern
colour: turquoise|crimson|mustard|ivory|lavender|olive|charcoal|copper
job: midwife|carpenter|notary|florist|welder|librarian|pilot|baker|optician|surveyor
ill: shingles|a sprained ankle|pneumonia|migraine|an ear infection|hay fever|a broken wrist|tonsillitis
title: The Glass Orchard|Nine Quiet Rivers|A Lamp for Edda|The Salt Ledger|Winter of Owls|The Crooked Pier|Paper Moons
---
How is the {pet} these days? > Poor thing, the vet gave it drops for its eyes, {number} of them a day.
    What medicine does the {pet} get?|How is the {pet} being treated?
{who} moved to {city} and shares a flat above a bakery there.
    Where is {who} living now?|Which town is {who} based in these days?
I finally sold the {thing}, a collector paid {number} for it.
    How much money did the {thing} bring?|What was I paid when I got rid of the {thing}?
For the party I am making {food}, the recipe has been in the family since {number}.
    What did I cook for the celebration, was it {food}?|How old is the family recipe for {food}?
What are you up to on Thursdays? > I joined a course in {hobby}, the instructor is {who}.
    Who teaches the {hobby} class?|Who is in charge of the {hobby} lessons?
{who} has trained as a {job} and starts work in spring.
    What profession did {who} learn?|What does {who} do for a living?
We painted the {thing} {colour} because the old varnish came off.
    Which colour does the {thing} have now?|What shade did the {thing} get?
{who} is in bed with {ill}, the doctor said to wait and drink tea.
    What is {who} suffering from?|Why was {who} unwell?
Read anything good lately? > I devoured "{title}" in two nights, {who} lent it to me.
    Who gave me {title}?|From whom did I borrow the book {title}?
The {thing} is in the cellar behind the boxes, under a grey blanket.
    Where do I keep the {thing}?|Where did I put the {thing}?
{who} turned {number} and we danced until the lights went out.
    What was the birthday of {who} like?|How old is {who}?
{who} came back from {city} {past} and brought presents.
    Who returned on {date}, was it {who}?|What happened on {date}?
We had {food} at the place by the canal, everybody was delighted with the {colour} tablecloths.
    What did we eat {ago}?|Which restaurant meal did I mention {ago}, with {food}?
My old schoolmate {who} married somebody from {city}. >> The person from {city} that I told you about works as a {job}.
    What does the spouse of {who} do for a living?|Which job does the one whom {who} married have?
---
The tram was late again, so I walked half of the way.
It rained all morning and the laundry is still wet.
How was the rest of your week?
{who} called about the summer plans.
We should fix a date for the museum soon.
Did the parcel from {city} ever arrive?
{who} asked whether the {thing} is still for sale.
I dreamt of a {pet} on a {colour} sofa, no idea why.
{who} wants to learn {hobby} one day.
There was a report about {city} on the radio.
Is {food} hard to make?
I saw a {job} on television who collects every kind of {thing}.
That sounds lovely, tell me more!
{who} laughed about it for an hour.
I could not sleep, so I tidied the kitchen.
The shop around the corner sells {food} now.
Do you remember the {pet} of {who}?
{who} and I talked about {hobby} and {ill} the whole evening.
Everybody is reading "{title}" at the moment.
Thank you, that helps a lot.
"""

TECHNICAL = """
part: ledger exporter|session cache|image resizer|billing gateway|audit writer|search crawler|mail relay|job \
scheduler|rate limiter|tenant router|webhook sender|schema migrator
tool: Terraform|Postgres|Redis|Kafka|Nginx|Prometheus|Docker|Ansible|SQLite|RabbitMQ
verb: parse|load|fetch|build|merge|flush|resolve|encode|validate|retry|schedule|drop
noun: user|config|token|queue|index|batch|header|region|invoice|buffer|cursor|policy|shard|record
person: Ilse|Marcin|Priya|Tomas|Yuki|Fatima|Bram|Leonie
city: Frankfurt|Dublin|Oregon|Mumbai|Stockholm|Sydney
reason: the vendor raised its prices|nobody could operate it|it lost writes during failover|the licence changed|it \
was too slow on cold starts
---
For the {part} we ended up with a limit of {number} seconds before it gives up on a request.
    What timeout did we settle on for the {part}?|How long may a call to the {part} take before it is aborted?
We are not going to use {tool} for the {part} after all, {reason}.
    Why did I reject {tool} for the {part}?|What made us drop {tool} when we planned the {part}?
{person} owns the {part} from now on, please address all reviews there.
    Who is responsible for the {part}?|Whom do I ask for a review of the {part}?
The function `{camel}` swallows every exception, that is where the missing rows come from.
    What is wrong with the {camel_apart} function?|Which problem did we find in {camel}?
I set `{snake}` to {number} in production because the default was far too low.
    What value does {snake_apart} have in production?|To what did I change {snake}?
The nightly run in {city} fails whenever the {part} restarts at the same moment.
    What breaks the nightly run in {city}?|When does the batch job of {city} go wrong?
We keep backups of the {part} for {number} days and then move them to cold storage.
    How long are backups of the {part} retained?|What is the retention period for {part} data?
Please always answer questions on the {part} with a diff and never with whole files.
    How should you answer when I ask about the {part}?|In which form do I want changes to the {part}?
The deadline for the {part} rewrite moved, {person} wants it done {number} hours before the freeze.
    By when must the {part} be rewritten?|What is the new due date of the {part} rework?
The codename of the {part} rewrite is Project {city}. >> Project {city} was approved with a budget of {number} euros.
    How much money was granted for the rewrite of the {part}?|What does the new {part} cost us?
---
The {part} reads from {tool} and writes a summary for {person} every few minutes.
When the {part} is under load, the queue grows and latency of the {part} goes up with it.
I looked at the metrics of the {part} and there is a clear pattern around midnight.
```python\\ndef {camel}(request, {noun}):\\n    value = {camel2}(request.{noun})\\n    return {snake}(value, \
retries=3)\\n```
```\\n2024-03-0{number} ERROR {part}: {snake} failed, code={number2}, host={city}-{number3}\\n2024-03-09 INFO \
{part}: retry scheduled\\n```
It might help to split the {part} so that {tool} is only touched by one process.
There are three options: leave the {part} alone, put {tool} in front of it, or move the {noun} handling to {city}.
{person} suggested to measure first, and I think that is right for the {part} as well as for the {part2}.
The test of `{camel}` is flaky on slow machines, but that is not what this is about.
In general a timeout should be shorter than the one of the caller, for the {part} and everywhere else.
Backups, retention and deadlines are questions for a later meeting, first the {part} has to be stable in production.
A function such as `{snake}` should raise an exception that says which {noun} was missing.
The {noun} of a {noun2} is immutable, so the {part} can cache it without a risk.
Reviewers of the {part} often ask why the {noun} is encoded twice, and the honest answer is history.
With {tool} the default value is usually too low for production, so check `{snake}` and `{snake2}` before the rollout.
```json\\n{{"{snake}": {number}, "{noun}": "{city}", "{snake2}": [{number2}, {number3}]}}\\n```
Note that {tool} behaves differently in {city}, where the disks are slower and the {noun} service restarts every night.
Could you explain how the {part} finds the right {noun} when two of them arrive at the same time?
The order of the steps matters here: validate the {noun}, flush the {noun2}, and only then notify the {part}.
I would write a small script that replays the {noun} log against the {part} and compares the results.
"""

TICKETS = """
item: vacuum cleaner|coffee grinder|standing desk|e-reader|headset|dishwasher|smart lock|baby monitor|air fryer|\
projector
city: Leeds|Utrecht|Basel|Gdansk|Lyon|Seville|Odense|Turin|Brno|Limerick
name: Mr Halvorsen|Ms Adeyemi|Mrs Kowalczyk|Mr Okafor|Ms Lindqvist|Mr Bianchi|Mrs Tanaka|Ms Duarte
fault: does not switch on any more|makes a burning smell|loses its connection every hour|shows a blank screen|leaks \
at the back|arrived with a cracked lid
code: E-104|E-221|F-09|ERR-77|X-530|TMP-12|NET-404|PWR-3
step: hold the power key for ten seconds|replace the rubber seal|update the firmware by cable|clean the contacts \
with alcohol|reset the router first
---
This is {name}, my {item} {fault} and I have tried everything in the manual.
    What is the matter with the {item} of {name}?|Which defect did {name} report?
The display of the {item} says {code} since this morning and nothing else helps.
    Which error does the {item} show?|What code appears on the {item}?
After a long search it turned out that one has to {step} when {code} comes up.
    How is {code} solved?|What is the remedy for error {code}?
{name} lives in {city} now, please send the replacement there and not to the old address.
    To which town does the new device for {name} go?|Where should we ship the exchange for {name}?
My order number is {number}, it was the {item} in white with the long cable.
    What is the order number for the white {item}?|Under which number was the {item} ordered?
{name} was offered a voucher worth {number} and accepted it.
    What compensation did {name} get?|How was {name} reimbursed?
The {item} in {city} was sent back today because it {fault}.
    What came back from {city} {ago}?|Which product did a customer return {ago}?
The customer who complained about {code} is {name}. >> We agreed with {name} on a refund of {number} by bank transfer.
    How much did the customer with the {code} problem get back?|What was paid to the person who had {code}?
---
Thank you for your message, we are looking into it.
I have attached a picture of my {item} and of the receipt.
Could you tell us when the {item} was bought, and where?
I am sorry to hear that your {item} {fault}.
The warranty covers the {item} for two years.
Please note that {code} can have several causes.
We have forwarded your case to the workshop in {city}.
I already wrote to you twice and nobody answered.
In many cases it helps to {step}, please try that first.
{name} from our team will call you back.
The parcel has left our store in {city} and should arrive soon.
My neighbour has the same {item} and never had any trouble.
Our records show an order for a {item} and one for a {item2}.
If the light blinks, {step} and wait for a minute.
I do not want a voucher, I want a {item} that works.
Kind regards
"""

CODE = """
verb: parse|load|fetch|build|merge|flush|resolve|encode|validate|read|write|open
noun: user|config|token|queue|index|batch|header|region|invoice|buffer|cursor|policy|shard|record|cache|socket
host: atlas|borealis|cygnus|draco|eridanus|fornax|gemini|hydra|indus|lynx
why: no space left on device|connection refused|permission denied|certificate expired|too many open files|out of memory
limit: retry|timeout|length|depth|window|backlog|memory|rate
---
```python\\ndef {camel}(path):\\n    with open(path) as file:\\n        return decode(file.read(), {number})\\n```
    Where is the {camel_apart} function?|Show me {camel_apart}
```python\\nclass Settings:\\n    {snake}: int = {number}\\n```
    What is the default of {snake_apart}?|How is the setting for {snake_apart} initialised?
`{camel}` is called by `{camel2}` whenever the process starts.
    Who calls {camel_apart}?|What is the caller of {camel}?
[error] {host}: {snake}: {why} (code {number})
    What went wrong with {snake_apart}?|Why did {snake} fail on {host}?
[warn] {host}-{number}: slow request of {camel}, {number2} ms
    Which requests of {camel_apart} were slow?|How slow was {camel} on {host}?
The {limit} limit of the {noun} {noun2} service is {number}.
    How high is the {limit} limit for the {noun} {noun2} service?|What {limit} limit does the {noun} {noun2} service \
have?
`{camel}` is broken on {host}. >> The fix for `{camel}` is in commit c{number}, it closes the {noun} twice no more.
    Which commit repairs {camel_apart}?|How was the {camel_apart} bug of {host} fixed?
---
[info] {host}-{number}: {camel} finished in {number2} ms
[info] {host}: {snake} = {number}
[error] {host}: {camel}: {why}
[debug] {host}: {noun} {number} moved to {noun2} {number2}
```python\\nfor {noun} in {snake}({noun2}):\\n    {camel}({noun}, limit={number})\\n```
```python\\nif not {noun}.{snake}():\\n    raise ValueError("{noun2}")\\n```
```python\\nfrom {noun}.{noun2} import {camel}, {camel2}\\n```
The {noun} test passes again.
Please look at the {noun} of the {noun2} on {host}.
Run it once more with a larger {noun}.
What does the log of {host} say about the {noun}?
"""

GERMAN = """
wer: Herr Brandner|Frau Yilmaz|mein Schwager|die Hausverwaltung|Tante Gisela|unser Lehrling|Doktor Weidinger|die \
Nachbarin
sache: Pumpe|Garage|Küche|Treppe|Markise|Dusche|Lampe|Terrasse
ding: Fenster|Dach|Wasser|Keller|Garten|Strom|Brief|Haus
stadt: Regensburg|Osnabrück|Graz|Winterthur|Görlitz|Kassel|Bregenz|Flensburg
sport: Bogenschießen|Rudern|Handball|Klettern|Fechten|Tischtennis
essen: Zwiebelkuchen|Linseneintopf|Apfelstrudel|Kartoffelsuppe|Grünkohl
---
Die {sache}nwartung kostet {number} Euro, der Termin steht noch nicht.
    Was kostet die Wartung der {sache}?|Wie teuer ist es, die {sache} warten zu lassen?
Für den {ding}schaden kommt die Versicherung auf, sie zahlt {number} Euro.
    Wer bezahlt den Schaden am {ding}?|Wie viel gibt es für den Schaden mit dem {ding}?
Den {ding}schlüssel hat {wer}, bitte dort abholen.
    Wer hat den Schlüssel zum {ding}?|Bei wem liegt der Schlüssel für {ding}?
{wer} zieht nach {stadt} und sucht dort eine Wohnung.
    Wo sucht {wer} eine Wohnung?|Wohin zieht {wer} um?
Die Reparatur der {sache} übernimmt {wer} am Wochenende.
    Wer macht die {sache}nreparatur?|Wer kümmert sich darum, dass die {sache} repariert wird?
{wer} hat mit {sport} angefangen und trainiert dreimal in der Woche.
    Welchen Sport treibt {wer}?|Womit hat {wer} angefangen?
Die {ding}rechnung vom letzten Jahr war um {number} Euro zu hoch.
    Was stimmte mit der Rechnung für {ding} nicht?|Um wie viel war die Rechnung für {ding} falsch?
Für das Fest bringt {wer} {essen} mit.
    Was bringt {wer} zum Essen mit?|Wer sorgt für {essen}?
Der Vertrag für {ding} läuft im Herbst aus, {wer} kümmert sich darum.
    Wann endet der {ding}vertrag?|Wer ist für den {ding}vertrag zuständig?
---
Das Wetter war wieder scheußlich.
Kannst du dich noch an {wer} erinnern?
In {stadt} gab es einen Stau von zwei Stunden.
Die {sache} ist schon alt, aber sie tut es noch.
Am Abend gab es {essen} für alle.
{wer} hat angerufen und nach der {sache} gefragt.
Ich muss noch das {ding}problem lösen.
Die {ding}firma hat sich nicht gemeldet.
Vielen Dank, das hilft mir sehr.
{wer} interessiert sich auch für {sport}.
Wie war dein Wochenende?
Über das {ding} reden wir ein anderes Mal.
Das kostet sicher mehrere hundert Euro.
"""

SPANISH = """
quien: mi prima|el fontanero|la vecina|don Anselmo|mi cuñado|la profesora|Remedios|el casero
cosa: la bicicleta|el piano|la lavadora|el coche|la guitarra|el tejado|la impresora|el horno
lugar: Cuenca|Oviedo|Rosario|Valparaíso|Mérida|Arequipa|Girona
oficio: carpintero|enfermera|abogada|panadero|electricista|traductora
plato: gazpacho|empanadas|arroz con leche|lentejas|tortilla
---
{quien} se mudó a {lugar} y alquiló un piso pequeño.
    ¿Dónde vive ahora {quien}?|¿A qué ciudad se ha mudado {quien}?
Vendí {cosa} por {number} euros a un coleccionista.
    ¿Cuánto dinero me dieron por {cosa}?|¿A qué precio se vendió {cosa}?
¿Quién arregló {cosa}? > Fue {quien}, tardó dos horas y no quiso cobrar.
    ¿Quién ha reparado {cosa}?|¿Quién se ocupó de arreglar {cosa}?
{quien} trabaja de {oficio} desde la primavera.
    ¿A qué se dedica {quien}?|¿Cuál es el trabajo de {quien}?
Para la fiesta prepararemos {plato}, la receta es de {quien}.
    ¿De quién es la receta de {plato}?|¿Qué vamos a preparar para la fiesta con la receta de {quien}?
Las llaves de {cosa} están en el cajón de abajo, junto a las pilas.
    ¿Dónde dejé las llaves de {cosa}?|¿En qué sitio se guardan las llaves de {cosa}?
{quien} estuvo enferma con fiebre y no pudo viajar a {lugar}.
    ¿Por qué no viajó {quien} a {lugar}?|¿Qué le pasó a {quien} antes del viaje?
---
Ayer llovió toda la tarde.
¿Te acuerdas de {quien}?
En {lugar} hace mucho calor en verano.
{quien} preguntó por {cosa}.
Todavía no sé qué hacer con {cosa}.
Me encanta el {plato} de la esquina.
Gracias, eres muy amable.
¿Qué tal la semana?
{quien} quiere visitar {lugar} algún día.
Busco un {oficio} de confianza.
"""

CHINESE = """
谁: 王老师|李阿姨|我表哥|张经理|隔壁邻居|小陈|外婆|房东
物: 自行车|钢琴|洗衣机|照相机|书架|空调|吉他|电饭锅
地: 昆明|厦门|西安|哈尔滨|桂林|青岛|兰州
事: 书法|游泳|下棋|摄影|太极拳|烘焙
菜: 红烧肉|饺子|酸辣汤|糖醋鱼|炒面
---
{谁}搬到{地}去了，在那里租了一间小房子。
    {谁}现在住在哪里？|{谁}搬去了哪个城市？
我把{物}卖掉了，卖了{number}块钱。
    {物}卖了多少钱？|卖{物}得到了多少？
{谁}最近开始学{事}，每周上两次课。
    {谁}在学什么？|{谁}每周上什么课？
{物}坏了，{谁}帮我修好了。
    谁修好了{物}？|{物}是谁修理的？
{物}的钥匙放在门口的抽屉里。
    {物}的钥匙在哪里？|钥匙放哪儿了，{物}的那把？
生日那天{谁}做了{菜}，大家都说好吃。
    {谁}生日做了什么菜？|{菜}是谁做的？
{谁}感冒发烧，医生让他休息{number}天。
    {谁}生了什么病？|{谁}为什么要休息？
---
今天下了一整天的雨。
你还记得{谁}吗？
{地}的天气怎么样？
{谁}问起了{物}的事。
我不知道{物}该怎么办。
附近新开了一家卖{菜}的店。
谢谢你，帮了大忙。
周末过得怎么样？
{谁}想去{地}旅行。
我也想试试{事}。
"""
