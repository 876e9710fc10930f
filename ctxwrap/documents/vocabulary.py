"""Word lists of several languages for greetings, decisions, tasks and changes."""

GREETING = """
    hi hello hey dear howdy greetings hallo moin servus liebe lieber guten salut bonjour bonsoir coucou cher
    chère hola buenos buenas querido querida ciao olá
"""
"""Greetings before a name."""

FILLER = """
    hi hello hey howdy greetings good morning afternoon evening night day there everyone all team thanks thank
    you very much so a lot again ok okay k sure great perfect awesome cool nice fine alright right yeah yep yup
    hmm hm um uh oh ah wow lol haha well got it understood noted bye goodbye see later soon cheers regards best
    kind sincerely take care have nice weekend one how are is going it's i'm doing today hope this finds that
    for your the help of course no problem welcome you're glad to happy can i anything else let me know if
    sounds absolutely certainly definitely exactly and too interesting just please appreciate really big many
    hallo moin guten tag morgen abend danke dank schön vielen dir ihnen bitte gerne gern okay klar super prima
    toll alles gut ja na ach tschüss bis bald dann grüße liebe viele beste freundliche mit freundlichen grüßen
    wie geht's geht es salut bonjour bonsoir merci beaucoup bien sûr d'accord parfait super génial oui à bientôt
    plus tard au revoir cordialement ça va de rien je vous en prie s'il plaît te et hola buenos buenas días
    tardes noches gracias muchas mil vale claro perfecto genial sí hasta luego pronto adiós saludos de nada qué
    tal cómo estás está por favor muy amable
"""
"""A sentence with only these words is filler."""

FILLER_UNSPACED = """
    你好|您好|谢谢|谢谢你|多谢|好的|再见|没问题|こんにちは|ありがとう|ありがとうございます|はい|了解です|了解しました|よろしくお願いします|おはよう|おはようございます|太好了|哈|早上好|晚安|好|안녕하세요
    |감사합니다|네
"""

PRAISE = """
    amazing wonderful fantastic lovely exciting excited proud inspiring impressive incredible brilliant excellent
    beautiful sweet adorable congrats congratulations birthday christmas merry fun nicely done job work best luck thx
    wundervoll glückwunsch herzlichen felicidades haha hahaha lol yay woohoo
"""
FUNCTION_WORDS = """
    that that's this it it's is was sounds looks seems such an i'm i am we you're you your yours me my to of on in at
    so much be been what how he she they us everyone everything hear see for and the a for with too all more
"""
"""Next to filler or praise, these words do not make a sentence informative."""

YES_OR_NO = "yes no oui non ja nein sí si not never nicht pas"
"""Short words that are real answers."""

OPENERS = """
    well|haha|lol|wow|hm|oh|ah|ok|okay|alright|great|perfect|cool|anyway|btw|by the way|actually|fyi|also|so|hmm|sure
    |of course|thanks|thank you|good news|quick update|quick note|just a quick note
    |one more thing|übrigens|also gut|na ja|gut|alors|bon|au fait
    |bueno|pues|por cierto
"""
"""Introductory words before a comma or colon."""

DECIDED = """
    decide decided decides decision decisions agreed approve approved approves chose chosen settled finalized
    finalised signed-off resolved ratified beschlossen beschließen beschluss entschieden entscheidung vereinbart
    festgelegt genehmigt geeinigt décidé décidons décision convenu approuvé choisi validé decidido decidimos
    decisión acordado acordamos aprobado elegido elegimos decidí deciso decisione decidido decisão besloten
"""
DECIDED_PHRASES = """
    we'll go with|we will go with|going with|let's go with|go ahead with|we are using|final answer|wir nehmen
    |on prend|vamos con|nos quedamos con|on a retenu|决定|決定|同意|決めました|결정
"""

TASK = """
    todo to-do task tasks deadline due assign assigned reminder remind aufgabe erledigen frist muss müssen soll
    sollen sollte tâche échéance dois doit devons devez faut rappelle tarea pendiente plazo debo debe debemos
    deben recuérdame
"""
TASK_PHRASES = """
    need to|needs to|action item|remember to|don't forget to|is responsible for|will take care of|follow up
    |nicht vergessen|ne pas oublier|hay que|tiene que|tengo que|tenemos que|a faire|à faire|需要|必须|请
    |しなければ|してください|해야
"""

DONE = """
    done finished completed complete completes shipped closed fixed delivered submitted solved cancelled
    canceled erledigt fertig abgeschlossen gemacht fertiggestellt terminé terminée fini finie livré réglé faite
    hecho hecha terminado terminada completado completada entregado listo lista
"""
DONE_UNSPACED = ("完成", "做完", "終わりました", "済み", "끝났")
NOT_YET = """
    not n't never isn't haven't hasn't wasn't don't didn't aren't without nicht noch kein pas jamais no nunca
    todavía aún if when once until before wenn sobald bevor quand avant si cuando antes
"""

TENTATIVE = """
    tentative tentatively provisional provisionally planned proposed draft expected maybe possibly perhaps
    probably tbc tbd vorläufig geplant voraussichtlich vielleicht provisoire prévu prévue peut-être
    provisionalmente previsto quizás tentativo tentativa
"""
CONFIRMED = "confirmed confirm confirms bestätigt confirmé confirmée confirmado confirmada"

CHANGED = """
    moved move moves changed change changes rescheduled postponed shifted now new instead updated update
    correction actually increased raised lowered reduced delayed brought forward earlier later longer confirmed
    date day verschoben geändert jetzt nun neu neue neuer neues statt déplacé reporté maintenant nouveau
    nouvelle désormais movido cambiado ahora nuevo nueva aplazado pasa cambia cambió
"""
"""Words that signal a change, but not of what."""

ABBREVIATIONS = """
    mr mrs ms dr prof st sr jr vs etc e.g i.e eg ie no nr vol fig approx inc ltd co corp dept est jan feb mar
    apr jun jul aug sep sept oct nov dec z.b d.h u.a bzw ca usw evtl inkl str tel hr fr abs art m mme mlle p.ex
    c.-à-d av env sra srta dra ud uds pág núm a.m p.m u.s u.k
"""

COPULAS = """
    is are was were be been am has have had costs cost equals to at for by of will = : → moved reaches became
    becomes ist sind war waren hat haben kostet beträgt auf um wird liegt est sont était a ont coûte passe à au
    sera es son era fue cuesta tiene tienen pasa será al
"""
"""A number after one of these is a value; before it, part of the subject."""

FINITE = """
    is are was were has have had will would can could should must may might does do did don't doesn't didn't
    isn't aren't wasn't won't can't they're they've they'll they'd it's there's that's went got took made met
    saw left sold paid bought sent wrote told found chose began built broke lost won gave came became ran needs
    costs likes lives works starts ends wants prefers leaves arrives opens closes meets live work like need want
    prefer love hate use moves owns takes cost comes keeps gives says shows includes uses
"""
"""Verbs that complete a sentence."""

NO_NAMES = """
    the this that it he she there here what who my our your today yesterday everything das der die es le la ce
    el ella her his their one everyone everybody nobody somebody something nothing anyone
"""
"""Capitalised words that are never names."""

NEGATIONS = """
    not never no don't doesn't isn't aren't won't can't nicht kein keine pas jamais nunca
"""

UNDECIDED = """
    not haven't hasn't didn't if whether yet undecided nicht noch ob pas encore aún todavía
"""
"""These words leave a decision open."""

FIRST_PERSON_SINGULAR = """
    i i'm i've i'll i'd me my mine myself im ive ich mir mich mein meine meinen meinem meiner je j'ai moi mon ma mes yo
    mi mis
"""
"""First person singular."""

OTHER_PERSONS = """
    we we're we've we'll we'd us our ours ourselves you you're you've you'll you'd your yours yourself u ur he he's
    him his himself she she's her hers herself they they're they've them their theirs themselves wir uns unser unsere
    du dir dich dein er sie ihn ihm ihr nous notre vous votre il elle nosotros nuestro tú usted él ella
"""
"""Pronouns that become ambiguous once a name replaces `I`."""

UNRESOLVED = """
    he he's she she's it it's they they're this that that's these those there there's his her their its him them er sie
    es das il elle ce ça él ella eso yes no yeah nope ja nein oui non sí
"""
"""A sentence that starts with one of these depends on earlier text."""

UNCERTAIN = """
    if maybe perhaps might could would should probably possibly unless whether imagine suppose hopefully guess think
    wish vielleicht wenn falls könnte würde sollte peut-être si quizás tal
"""
"""These words make a sentence uncertain."""

STATE_VERBS = """
    is are was were has have had costs cost weighs equals opens closes starts ends belongs needs ist sind war waren hat
    haben kostet beträgt liegt est sont était ont coûte es son era cuesta tiene pesa
"""
"""A number after one of these is a value of the subject."""

TO_DO = """
    update order call send book buy pay sign email mail phone ring reserve cancel renew schedule arrange deliver submit
    contact invite return repair clean ship transfer confirm register deploy install print remind collect fetch
    forward invoice refund
"""
"""Actions outside the chat, which an answer alone cannot complete."""

MOVED = """
    moved moves postponed rescheduled shifted pushed delayed brought_forward put_off is_now are_now now_on changed
    verschoben verlegt reporté reportée déplacé aplazado aplazada movido
"""
"""Verbs of a date change."""
