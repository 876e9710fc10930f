"""Topics: words of everyday talk that stand for one another when somebody asks: a pet is asked for, a dog was told of."""

from collections.abc import Iterable

from ctxwrap.retrieval.words import term_of

_TOPICS = """
    pet animal dog puppy pup cat kitten kitty turtle bird parrot fish rabbit bunny hamster guinea horse pony lizard snake
    vehicle car truck van motorcycle scooter bike drive garage mechanic engine tire license
    sport game team play match tournament league coach basketball football soccer baseball tennis hockey volleyball golf
    exercise workout fitness gym yoga run jog marathon swim hike bike pilates weights training strength stretch
    outdoors nature hike camp trail mountain forest park lake river beach surf kayak climb fish ski
    hobby activity pastime enjoy fun paint draw read knit garden bake cook collect craft pottery photography
    music song band concert album singer musician genre jazz rock classical pop lyrics
    instrument guitar piano violin drums saxophone clarinet flute cello ukulele trumpet keyboard
    art paint painting drawing sculpture sketch artist gallery museum canvas pottery exhibit
    book novel story author read series fantasy fiction poem poetry memoir biography library literature genre
    movie watch cinema series show documentary actor director theater trilogy screenplay script
    videogame game gaming console play nintendo playstation xbox pc controller tournament
    food meal dish recipe cook dinner lunch breakfast restaurant cuisine eat snack ingredient bake
    dessert cake pie cookie icecream pastry chocolate brownie bake sweet
    drink coffee tea wine beer juice cocktail smoothie
    job work career profession occupation employ hire boss office company position internship interview promotion
    school college university class course degree study student teacher education exam major graduate
    business company startup store shop venture entrepreneur customer market brand investor
    money finance financial debt pay afford save budget loan rent salary cost price expensive
    health doctor hospital sick illness disease diagnosis surgery injury medicine therapy pain symptom allergy
    injury hurt ankle knee sprain broke fracture rehab recovery
    mental stress anxiety depression therapy therapist counsel calm relax meditation mindfulness
    relax unwind calm peaceful destress meditation bath soothe
    family mother father parent sister brother sibling son daughter child grandmother grandfather aunt uncle cousin
    spouse husband wife partner married marriage wedding engaged fiance divorce
    relationship date boyfriend girlfriend single partner breakup love romantic
    friend buddy pal friendship bestie
    travel trip vacation journey visit tour flight abroad country city destination roadtrip hotel
    country nation state city town place location england france spain italy germany japan china india canada mexico
    city town downtown paris london rome york tokyo chicago boston seattle berlin barcelona
    home house apartment flat condo move neighborhood rent roommate mortgage renovate
    religion faith church pray god spiritual belief temple mosque bible
    charity volunteer donate fundraiser cause nonprofit community shelter help homeless
    politics election campaign vote office government policy candidate military veteran
    activism rights pride protest rally march advocacy equality parade
    environment climate nature recycle pollution conservation sustainable wildlife
    gift present bought gave receive surprise birthday
    party celebrate birthday wedding anniversary festival event ceremony parade
    event conference meeting workshop festival fair competition concert show parade race fundraiser
    award prize trophy medal win champion honor contest recognition
    goal dream plan aim ambition aspire hope future
    fear afraid scared worry anxious nervous phobia
    feel emotion happy sad excited proud grateful angry upset disappointed joy
    clothes dress shirt shoes jacket outfit fashion wear necklace jewelry bracelet ring hat
    childhood kid grow young child born hometown
    origin born native hometown immigrant roots move country
    language spanish french german english italian japanese chinese learn fluent speak
    technology computer laptop phone app software program code website internet online
    photo camera shot selfie snapshot album
    plant garden flower tree grow seed vegetable herb
    weather rain snow storm sunny winter summer hot cold
    accident crash collision emergency rescue fire damage broke
    loss died death passed grief mourn funeral
    decorate furniture decor design interior paint room
    collection collect memorabilia item poster figurine souvenir
    personality trait kind thoughtful caring supportive driven honest brave strong
    nickname name call
    address street avenue road live
    deadline due submit date finish
    appointment meeting schedule calendar booked
    password code pin key login
    phone number call contact mobile
    email mail address contact
    diet vegan vegetarian gluten dairy lactose eat allergic
    sleep bed night insomnia tired nap rest
    child baby pregnant birth newborn toddler adopt adoption
"""


def _by_term() -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for number, line in enumerate(_TOPICS.strip().splitlines()):
        for term in dict.fromkeys(map(term_of, line.split())):
            found[term] = (*found.get(term, ()), f"#{number}")
    return found


TOPICS = _by_term()
"""The topics of a term, in the form of terms that no text has."""


def topics_of(terms: Iterable[str]) -> set[str]:
    """The topics that these terms belong to."""
    return {topic for term in terms for topic in TOPICS.get(term, ())}
