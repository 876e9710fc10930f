"""Word lists of common languages, shared by all rules about text, and the parsers of such lists."""


def split_phrases(text: str) -> tuple[str, ...]:
    """Split `one phrase|another` into phrases."""
    return tuple(phrase.strip() for phrase in text.split("|"))


def parse_pairs(text: str) -> dict[str, str]:
    """Parse `key=value|key=value`."""
    return dict(pair.split("=") for pair in split_phrases(text))


STOP = """
    a about after again all also always am an and any anything are aren as at be because been before being both
    but by can cannot come could couldn d did didn do does doesn doing don done down each else ever every
    few for from get gets getting give go goes going gonna got gotta had hadn has hasn have haven having he her
    here hers herself hey hi him himself his how however i if in into is isn it its itself just keep know last let
    like likely ll look lot m make many may maybe me might mine more most much must my myself need no nor not now
    of off oh ok okay on once one only or other our ours ourselves out over own quite re really s same say see
    shall she should shouldn so some something still such t take than thank that the their theirs them themselves
    then there these they thing think this those though through to too try um under until up us use ve very want
    was wasn way we well were weren what when where whether which while who whom whose why will with within
    without would wouldn wow yeah yep yes yet you your yours yourself
    der das dem den des ein eine einen einem einer eines und oder aber nicht ist sind bin bist waren hat habe
    haben ich du er sie es wir ihr mich dich mir dir sich mein meine dein deine auf aus bei mit nach von vor zu
    zum zur für über auch noch nur schon wie wer wann warum dass wenn
    le la les un une des du de et ou mais ne pas est sont suis été avoir ai as avons avez ont je tu il elle nous
    vous ils elles mon ma mes ta ce cet cette ces dans sur par avec sans que qui quoi quand où
    pourquoi au aux
    el los las una unos unas y o pero es soy ser estar está están fue yo él ella nosotros ellos mi mis su sus
    lo se del al en por para que quién cuándo dónde cómo qué
    gli uno di che chi non sono sei siamo ho hai ha io lui lei noi voi loro mio mia nel nella sul sulla per tra
    os uma e do da dos das no na nos nas em eu ele ela eles elas meu minha seu sua não mais foi são
    het een en van ik jij zij wij jullie niet maar ook naar voor zijn was heeft hebben mijn jouw
    и в на не что я ты он она мы вы они это как с по из за у к о а но да
"""
"""Stop words."""

FORMS = """
    begin began begun
    bite bit bitten
    blow blew blown
    break broke broken
    bring brought
    build built
    buy bought
    catch caught
    choose chose chosen choice
    deal dealt
    die died dying dead death
    draw drew drawn
    dream dreamt
    drink drank drunk
    drive drove driven
    eat ate eaten
    fall fell fallen
    feed fed
    feel felt
    fight fought
    find found
    fly flew flown flight
    forget forgot forgotten
    forgive forgave forgiven
    freeze froze frozen
    give gave given
    grow grew grown growth
    hang hung
    hear heard
    hide hid hidden
    hold held
    lead led
    learn learnt
    leave left
    lend lent
    lose lost loss
    marry married marriage
    mean meant
    meet met
    pay paid
    ride rode ridden
    rise rose risen
    run ran
    sell sold sale
    send sent
    shake shook shaken
    shine shone
    shoot shot
    show shown
    shrink shrank
    sing sang sung song
    sink sank sunk
    sit sat
    sleep slept asleep
    speak spoke spoken speech
    spend spent
    stand stood
    steal stole stolen
    stick stuck
    strike struck
    swear swore sworn
    sweep swept
    swim swam swum
    teach taught
    tear tore torn
    tell told
    think thought
    throw threw thrown
    understand understood
    wake woke woken awake
    wear wore worn
    weigh weight
    win won
    write wrote written
    child children kid kids kiddo
    foot feet
    life lives
    man men
    mouse mice
    person people
    tooth teeth
    wife wives
    woman women
    mother mom mum mommy mama
    father dad daddy papa
    grandmother grandma granny
    grandfather grandpa
    family fam
    photo photograph photography photographer pic picture
    television tv
    bicycle bike
    vacation holiday
    business biz
    favorite favourite fave
    color colour
    movie film
"""
"""Irregular forms; the first word of each line is the canonical one."""

FIRST_PERSON = """
    i me my mine we us our ich mir mein meine wir je mon mes yo mis io mio eu meu minha
"""
"""First-person pronouns."""

TIME = """
    yesterday today tonight tomorrow ago last next recently since monday tuesday wednesday thursday friday
    saturday sunday weekend week weeks month months year years january february march april june july august
    september october november december gestern heute morgen letzte nächste hier demain ayer mañana ieri domani
    ontem amanhã
"""
"""Time expressions."""

FIGURE = """
    two three four five six seven eight nine ten eleven twelve dozen twenty thirty hundred thousand first second
    third twice couple
"""
"""Number words."""

STANDING = """
    always never prefer preferred preference preferences remember whenever allergic immer nie niemals bevorzuge
    toujours jamais préfère siempre nunca prefiero recuerda sempre mai preferisco ricorda prefiro lembre
"""
"""Words of lasting instructions and preferences."""

STANDING_PHRASES = """
    from now on|going forward|make sure|keep in mind|don't forget|call me|my name is|want you to|like you to
    |need you to|please use|please avoid|please include|please don't|please do not|when i ask|if i ask|at all times
    |every time|merk dir|vergiss nicht|总是|永远|记住|以后|请不要|喜欢
"""
