"""Home: where the user lives and comes from."""

import re

from ctxwrap.language.english.values import ADV, I_AM, I_DO, PROPER, known_place
from ctxwrap.language.lexicon import NO_PLACES
from ctxwrap.language.statement import LIFE, RuleMatch, RuleTable, Statement, rules

A_PLACE = (
    rf"(?:(?:downtown|central|inner|upstate|greater|(?:north|south|west|east)(?:ern)?|northern"
    rf"|southern|(?:north|south)(?:east|west)(?:ern)?) )?"
    rf"{PROPER}(?:, {PROPER}){{0,2}}"
)

_NEAR_PLACE = (
    rf"(?:(?:a|an|the) (?:[a-z\-]{{2,14}} ){{1,4}}?(?:in|near|outside|outside of|of|called|by"
    rf"|close to|north of|south of|west of|east of) )?{A_PLACE}"
)

NO_HOMES = frozenset(NO_PLACES.split())


def place_in(text: str) -> str:
    first = re.sub(r"^(?:the|a|an) ", "", text).split(" ")[0].strip(",").lower()
    return "" if first in NO_HOMES or text.endswith("'s") else text.rstrip(".,' ")


def _lives(found: RuleMatch) -> Statement | None:
    place = place_in(found["place"])
    return LIFE.of(f"The user lives in {place}.") if place else None


def _lives_near(found: RuleMatch) -> Statement | None:
    place = place_in(found["place"])
    return LIFE.of(f"The user lives {found['at'].lower()} {place}.") if place else None


def _lives_small(found: RuleMatch) -> Statement | None:
    place = known_place(found["place"])
    return LIFE.of(f"The user lives in {place}.") if place else None


def _moved(found: RuleMatch) -> Statement | None:
    place = place_in(found["place"])
    told = place and (
        known_place(place) or re.match(r", | from | with my | for (?:work|college|university|school)", found["rest"])
    )
    return LIFE.of(f"The user lives in {place}.") if told or "," in place else None


def _from(found: RuleMatch) -> Statement | None:
    place = place_in(found["place"])
    return LIFE.of(f"The user is from {place}.") if place else None


RULES: RuleTable = rules(
    (
        (
            rf"(?i:(?:i|my (?:family|wife|husband|partner|girlfriend|boyfriend) and i|we){ADV} (?:live"
            rf"|reside)|{I_AM}(?:living|based|located)|i've been living|(?i:we're|we are) (?:living|based)"
            rf"|my home is) in (?P<place>(?-i:{_NEAR_PLACE}))(?![\w'])(?! (?:time|terms|style))(?! for "
            rf"(?:the|a few|two|three) )"
        ),
        _lives,
    ),
    (
        (
            rf"{I_DO}(?i:live|reside) (?P<at>(?i:near|outside|just outside|close to|at|on)) (?P<place>"
            rf"(?:\d{{1,5}} )?{A_PLACE})(?![\w'])"
        ),
        _lives_near,
    ),
    (r"(?:i|we)(?: now| currently)? (?:live|reside) in (?P<place>[a-zü']{2,12}(?:,? [a-z]{3,12}){0,2})", _lives_small),
    (r"(?:i'm|im|i am) (?:based|living|located) in (?P<place>[a-zü']{2,12}(?:,? [a-z]{3,12}){0,2})", _lives_small),
    (
        (
            rf"(?i:(?:i|we|i've|we've|my family and i){ADV} (?:moved|relocated)(?: back| over| away)?) to "
            rf"(?P<place>{A_PLACE})(?![\w'])(?P<rest>.{{0,60}})"
        ),
        _moved,
    ),
    (rf"(?:{I_AM}|{I_DO}(?i:come|hail) )(?i:originally )?(?i:from) (?P<place>{A_PLACE})(?![\w'])", _from),
)
