"""Rules about the user as a person: name, home, family and other attributes."""

import re

from ctxwrap.language.english.health import NO_ALLERGENS
from ctxwrap.language.english.values import (
    ADVERBS,
    I_AM,
    I_DO,
    KIN,
    KIN_WORDS,
    NAME_WORD,
    NO_HOMES,
    PET_WORDS,
    PROPER,
    TRADES,
    VAGUE,
    alternation,
    known_place,
    specific_value,
    template_rule,
    trim_clause,
)
from ctxwrap.language.lexicon import KNOWN_PLACES, LANGUAGES, NATIONS, NOT_NAMES, PROFESSIONS, STATES
from ctxwrap.language.patterns import lazy_pattern
from ctxwrap.language.rules import LIFE, NAME, PROJECT, RuleMatch, RuleTable, Statement, compile_rules, third_person

_INITIAL = r"[A-Z]\."

A_NAME = (
    rf"{NAME_WORD}(?: (?:{NAME_WORD}|{_INITIAL}|(?:de|van|von|da|bin|al|del|la|der|di|dos) {NAME_WORD}"
    rf"(?: {NAME_WORD})?)){{0,3}}"
)

NO_NAMES = frozenset(f"{NOT_NAMES} {LANGUAGES} {NATIONS} {STATES}".split())

AFTER_NAME = r"(?=$|[,;(–—]| (?:and|but|from|here|by the way|btw|if|so|though|–|-|—)\b| -)"

_NO_NAME_ENDING = lazy_pattern(r".{3,}(?:ing|ed|able|ful|ous|less|ly|tion|ive|ese|ish)$")


def proper_name(text: str, *, sure: bool = True) -> str:
    """Return the name, or "" if it may be something else."""
    words = text.split(" ")
    small = words[0].lower()
    if small in NO_NAMES or (not sure and (_NO_NAME_ENDING.match(small) or text.isupper())):
        return ""
    return text


def _named(found: RuleMatch) -> Statement | None:
    name = proper_name(found["name"])
    return NAME.of(f"The user's name is {name}.") if name else None


def _named_lower(found: RuleMatch) -> Statement | None:
    name = found["name"]
    if any(word in NO_NAMES or _NO_NAME_ENDING.match(word) for word in name.split(" ")):
        return None
    return NAME.of(f"The user's name is {name.title()}.")


def _introduced(found: RuleMatch) -> Statement | None:
    name = proper_name(found["name"], sure=False)
    known = name.lower() in KNOWN_PLACES or (name.split(" ")[0].lower() in TRADES)
    return NAME.of(f"The user's name is {name}.") if name and not known else None


NAME_RULES: RuleTable = compile_rules(
    (
        rf"(?i:my (?:full |first |real |given )?name is|my name's|i am called|i'm called|i go by"
        rf"|i am named){ADVERBS} (?P<name>{A_NAME}){AFTER_NAME}",
        _named,
    ),
    (
        rf"(?i:(?:(?:and |but )?you can |please |just |people |everyone |friends |everybody "
        rf"|my friends )*?(?:all )?calls? me) (?P<name>{A_NAME}){AFTER_NAME}",
        _introduced,
    ),
    (
        r"(?:my name is|my name's|i am called|you can call me) (?P<name>[a-z]{2,14}(?: [a-z]{3,14})?)$",
        _named_lower,
    ),
    (rf"(?i:i'm|i am) (?P<name>{A_NAME})(?=$|,| here\b| from [A-Z]| and (?:i|i'm|my)\b)(?! here to)", _introduced),
)


A_PLACE = (
    rf"(?:(?:downtown|central|inner|upstate|greater|(?:north|south|west|east)(?:ern)?|northern"
    rf"|southern|(?:north|south)(?:east|west)(?:ern)?) )?"
    rf"{PROPER}(?:, {PROPER}){{0,2}}"
)

_NEAR_PLACE = (
    rf"(?:(?:a|an|the) (?:[a-z\-]{{2,14}} ){{1,4}}?(?:in|near|outside|outside of|of|called|by"
    rf"|close to|north of|south of|west of|east of) )?{A_PLACE}"
)


def place_in(text: str) -> str:
    first = re.sub(r"^(?:the|a|an) ", "", text).split(" ")[0].strip(",").lower()
    return "" if first in NO_HOMES or text.endswith("'s") else text.rstrip(".,' ")


def _lives(found: RuleMatch) -> Statement | None:
    place = place_in(found["place"])
    return LIFE.of(f"The user lives in {place}.") if place else None


def _lives_near(found: RuleMatch) -> Statement | None:
    place = place_in(found["place"])
    return LIFE.of(f"The user lives {found['at'].lower()} {place}.") if place else None


def _lives_lower(found: RuleMatch) -> Statement | None:
    place = known_place(found["place"])
    return LIFE.of(f"The user lives in {place}.") if place else None


def _moved(found: RuleMatch) -> Statement | None:
    place = place_in(found["place"])
    is_home = place and (
        known_place(place) or re.match(r", | from | with my | for (?:work|college|university|school)", found["rest"])
    )
    return LIFE.of(f"The user lives in {place}.") if is_home or "," in place else None


def _from(found: RuleMatch) -> Statement | None:
    place = place_in(found["place"])
    return LIFE.of(f"The user is from {place}.") if place else None


HOME_RULES: RuleTable = compile_rules(
    (
        rf"(?i:(?:i|my (?:family|wife|husband|partner|girlfriend|boyfriend) and i|we){ADVERBS} (?:live"
        rf"|reside)|{I_AM}(?:living|based|located)|i've been living|(?i:we're|we are) (?:living|based)"
        rf"|my home is) in (?P<place>(?-i:{_NEAR_PLACE}))(?![\w'])(?! (?:time|terms|style))(?! for "
        rf"(?:the|a few|two|three) )",
        _lives,
    ),
    (
        rf"{I_DO}(?i:live|reside) (?P<at>(?i:near|outside|just outside|close to|at|on)) (?P<place>"
        rf"(?:\d{{1,5}} )?{A_PLACE})(?![\w'])",
        _lives_near,
    ),
    (
        r"(?:i|we)(?: now| currently)? (?:live|reside) in (?P<place>[a-zü']{2,12}(?:,? [a-z]{3,12}){0,2})",
        _lives_lower,
    ),
    (
        r"(?:i'm|im|i am) (?:based|living|located) in (?P<place>[a-zü']{2,12}(?:,? [a-z]{3,12}){0,2})",
        _lives_lower,
    ),
    (
        rf"(?i:(?:i|we|i've|we've|my family and i){ADVERBS} (?:moved|relocated)(?: back| over| away)?) to "
        rf"(?P<place>{A_PLACE})(?![\w'])(?P<rest>.{{0,60}})",
        _moved,
    ),
    (rf"(?:{I_AM}|{I_DO}(?i:come|hail) )(?i:originally )?(?i:from) (?P<place>{A_PLACE})(?![\w'])", _from),
)


def _relative(found: RuleMatch) -> Statement | None:
    name = proper_name(found["name"], sure=bool(found["named"]))
    if not name or (not found["named"] and (known_place(name) or name.lower() in NO_NAMES)):
        return None
    return LIFE.of(f"The user's {found['who'].lower()} is called {name}.")


def _relative_is(found: RuleMatch) -> Statement | None:
    who = found["who"].lower()
    named = f" {found['name']}" if found["name"] else ""
    what = specific_value(found["what"])
    if not what or (found["name"] and not proper_name(found["name"], sure=False)):
        return None
    if found["verb"].startswith("is allergic") and NO_ALLERGENS.match(what):
        return None
    if found["verb"].startswith(("live", "work")) and not re.search("[A-Z]|^an? ", what):
        return None
    return LIFE.of(f"The user's {who}{named} {found['verb'].lower()} {what}.")


def _has(found: RuleMatch) -> Statement | None:
    what = trim_clause(found["what"], 90)
    return LIFE.of(f"The user has {third_person(what)}.") if what else None


FAMILY_RULES: RuleTable = compile_rules(
    (
        rf"(?i:my) {KIN}(?P<named>(?i:'s name is|'s called| is called| is named|'s named| goes by"
        rf"| are called| are named)) (?P<name>{A_NAME}(?:(?:, {NAME_WORD})* and {NAME_WORD})?){AFTER_NAME}",
        _relative,
    ),
    (rf"(?i:my) {KIN}(?P<named>)(?:(?i: is|'s) |, )(?P<name>{A_NAME})(?=$|,| and\b)(?!, (?i:in|on|at)\b)", _relative),
    (
        rf"(?i:my) {KIN}(?:,? (?P<name>{NAME_WORD})(?: {NAME_WORD})?,?)? (?P<verb>(?i:lives? in|works at"
        rf"|works for|works as|is allergic to|is severely allergic to|is studying|studies|was born on"
        rf"|was born in|has type|suffers from)) (?P<what>.{{2,80}})$",
        _relative_is,
    ),
    (
        rf"(?i:my) {KIN}(?:,? (?P<name>{NAME_WORD}),?)? (?P<verb>(?i:is|just turned|turned|turns)) (?P<what>"
        rf"(?:an? (?:{alternation(PROFESSIONS)})|(?:\d{{1,2}}|two|three|four|five|six|seven|eight|nine|ten)"
        rf"(?: (?:years|months) old)?|vegan|vegetarian|diabetic|autistic|pregnant|celiac))(?=$|[,;.]"
        rf"| and\b)",
        _relative_is,
    ),
    (
        rf"(?i:i|i've|we|we've){ADVERBS} (?i:have|got|adopted) (?P<what>(?i:(?:an?|one|two|three|four|five"
        rf"|six|\d{{1,2}}|twin) (?:[a-z\-]{{2,14}} |\d{{1,2}}[- ]year[- ]old ){{0,2}}(?:{KIN_WORDS}"
        rf"|{PET_WORDS}|kids|children|sons|daughters|dogs|cats|sisters|brothers|siblings|rabbits|horses"
        rf"|puppies|kittens|twins|grandchildren|chickens|parrots))(?:,? (?i:named|called|who is called"
        rf"|whose name is) {A_NAME}(?:(?:, {NAME_WORD})*,? and {NAME_WORD})?|: {NAME_WORD}(?:, {NAME_WORD})*"
        rf"(?:,? and {NAME_WORD})?| and (?i:an?|one|two|three) (?:[a-z\-]{{2,14}} )?(?i:{KIN_WORDS}"
        rf"|{PET_WORDS}|sons|daughters|dogs|cats|sisters|brothers))?)(?=$|[,;.(]| (?:and|who|but|so"
        rf"|aged)\b)",
        _has,
    ),
    (
        rf"{I_AM}(?P<how>(?i:married to|engaged to|dating)) (?P<what>{A_NAME}|an? "
        rf"(?:{alternation(PROFESSIONS)}))(?=$|[,;.]| and\b)",
        template_rule(LIFE, "The user is {how} {what}."),
    ),
)


_ATTRIBUTES = (
    "email|e-mail|email address|phone number|birthday|date of birth|address|home address"
    "|time ?zone|pronouns|blood type|shoe size|height|weight"
    "|nickname|last name|first name|middle name|surname|maiden name|nationality|car"
    "|native language|first language|mother tongue|job title|job|profession"
    "|occupation|employer|hometown|home town|hobby|hobbies|hobbies include|major|zodiac sign"
    "|star sign|github username|username|goal|main goal|dream job|wedding anniversary|anniversary"
)


def _attribute(found: RuleMatch) -> Statement | None:
    what, name = trim_clause(found["what"], 90), found["name"].lower()
    if (
        not what
        or (VAGUE.match(what) and name != "pronouns")
        or re.match(
            r"(?i:not|on (?!\d|the \d|[A-Z])|in|at|broken|boring|stressful|hard|difficult|wrong|gone|so"
            r"|too|very|really|getting|killing|coming|going|tomorrow|today|soon|demanding|great|fine|ok"
            r"|okay|at risk|done|making|driving|my|over|near|up|under|dirty|slow|also|still|out|being"
            r"|always|never|easy|important|fun|old|here|late|busy|listed|in the)\b",
            what,
        )
    ):
        return None
    is_ = (found["is"] or "is").lower()
    category = NAME if "name" in name and "user" not in name else PROJECT if "goal" in name else LIFE
    return category.of(f"The user's {name} {is_} {third_person(what)}.")


def _age(found: RuleMatch) -> Statement | None:
    return LIFE.of(f"The user is {found['age']} years old.") if 4 < int(found["age"]) < 110 else None


def _speaks(found: RuleMatch) -> Statement | None:
    what = trim_clause(found["what"], 60)
    words = re.findall(r"[A-Za-z]+", what)
    languages = frozenset(LANGUAGES.split())
    if not words or not any(word.lower() in languages for word in words):
        return None
    small = {word: word.title() for word in words if word.lower() in languages}
    what = re.sub(r"[A-Za-z]+", lambda word: small.get(word[0], word[0]), what)
    return LIFE.of(f"The user speaks {third_person(what)}.")


ATTRIBUTE_RULES: RuleTable = compile_rules(
    (rf"(?i:my) (?P<name>(?i:{_ATTRIBUTES}))(?: (?P<is>(?i:is|are))|'s|:) (?P<what>.{{2,90}})$", _attribute),
    (rf"{I_AM}(?P<age>\d{{1,3}})(?i: years old| yrs old| y/o| year old)?(?=$|[,;.]| and\b)", _age),
    (rf"(?i:i){ADVERBS} (?i:turned|turn) (?P<age>\d{{1,3}})\b", _age),
    (r"(?i:i was born) (?P<what>(?i:in|on) .{3,60})$", template_rule(LIFE, "The user was born {what}.")),
    (rf"(?:{I_DO}(?i:speak)|{I_AM}(?i:fluent in)) (?P<what>.{{3,60}})$", _speaks),
    (rf"{I_DO}(?i:drive) (?P<what>(?i:an?) .{{2,50}})$", template_rule(LIFE, "The user drives {what}.")),
    (
        rf"{I_DO}(?i:play) (?P<what>(?i:(?:the )?(?:piano|guitar|violin|cello|drums|flute|saxophone"
        rf"|trumpet|clarinet|bass|ukulele|harp|chess|tennis|football|soccer|basketball|volleyball"
        rf"|badminton|golf|rugby|hockey|cricket))\b.{{0,40}})$",
        lambda found: LIFE.of(f"The user plays {third_person(trim_clause(found['what']))}."),
    ),
)
