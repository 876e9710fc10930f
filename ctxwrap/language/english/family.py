"""Family: who belongs to the user, and what is said of them."""

import re

from ctxwrap.language.english.health import NO_ALLERGENS
from ctxwrap.language.english.names import A_NAME, BEHIND_NAME, NO_NAMES, proper_name
from ctxwrap.language.english.values import (
    ADV,
    I_AM,
    KIN,
    KIN_WORDS,
    PART,
    PET_WORDS,
    any_of,
    known_place,
    plain,
    says,
    specific,
)
from ctxwrap.language.lexicon import PROFESSIONS
from ctxwrap.language.statement import LIFE, RuleMatch, RuleTable, Statement, others, rules


def _relative(found: RuleMatch) -> Statement | None:
    name = proper_name(found["name"], sure=bool(found["named"]))
    if not name or (not found["named"] and (known_place(name) or name.lower() in NO_NAMES)):
        return None
    return LIFE.of(f"The user's {found['who'].lower()} is called {name}.")


def _relative_is(found: RuleMatch) -> Statement | None:
    who = found["who"].lower()
    named = f" {found['name']}" if found["name"] else ""
    what = specific(found["what"])
    if not what or (found["name"] and not proper_name(found["name"], sure=False)):
        return None
    if found["verb"].startswith("is allergic") and NO_ALLERGENS.match(what):
        return None
    if found["verb"].startswith(("live", "work")) and not re.search("[A-Z]|^an? ", what):
        return None
    return LIFE.of(f"The user's {who}{named} {found['verb'].lower()} {what}.")


def _has(found: RuleMatch) -> Statement | None:
    what = plain(found["what"], 90)
    return LIFE.of(f"The user has {others(what)}.") if what else None


RULES: RuleTable = rules(
    (
        (
            rf"(?i:my) {KIN}(?P<named>(?i:'s name is|'s called| is called| is named|'s named| goes by"
            rf"| are called| are named)) (?P<name>{A_NAME}(?:(?:, {PART})* and {PART})?){BEHIND_NAME}"
        ),
        _relative,
    ),
    (rf"(?i:my) {KIN}(?P<named>)(?:(?i: is|'s) |, )(?P<name>{A_NAME})(?=$|,| and\b)(?!, (?i:in|on|at)\b)", _relative),
    (
        (
            rf"(?i:my) {KIN}(?:,? (?P<name>{PART})(?: {PART})?,?)? (?P<verb>(?i:lives? in|works at"
            rf"|works for|works as|is allergic to|is severely allergic to|is studying|studies|was born on"
            rf"|was born in|has type|suffers from)) (?P<what>.{{2,80}})$"
        ),
        _relative_is,
    ),
    (
        (
            rf"(?i:my) {KIN}(?:,? (?P<name>{PART}),?)? (?P<verb>(?i:is|just turned|turned|turns)) (?P<what>"
            rf"(?:an? (?:{any_of(PROFESSIONS)})|(?:\d{{1,2}}|two|three|four|five|six|seven|eight|nine|ten)"
            rf"(?: (?:years|months) old)?|vegan|vegetarian|diabetic|autistic|pregnant|celiac))(?=$|[,;.]"
            rf"| and\b)"
        ),
        _relative_is,
    ),
    (
        (
            rf"(?i:i|i've|we|we've){ADV} (?i:have|got|adopted) (?P<what>(?i:(?:an?|one|two|three|four|five"
            rf"|six|\d{{1,2}}|twin) (?:[a-z\-]{{2,14}} |\d{{1,2}}[- ]year[- ]old ){{0,2}}(?:{KIN_WORDS}"
            rf"|{PET_WORDS}|kids|children|sons|daughters|dogs|cats|sisters|brothers|siblings|rabbits|horses"
            rf"|puppies|kittens|twins|grandchildren|chickens|parrots))(?:,? (?i:named|called|who is called"
            rf"|whose name is) {A_NAME}(?:(?:, {PART})*,? and {PART})?|: {PART}(?:, {PART})*"
            rf"(?:,? and {PART})?| and (?i:an?|one|two|three) (?:[a-z\-]{{2,14}} )?(?i:{KIN_WORDS}"
            rf"|{PET_WORDS}|sons|daughters|dogs|cats|sisters|brothers))?)(?=$|[,;.(]| (?:and|who|but|so"
            rf"|aged)\b)"
        ),
        _has,
    ),
    (
        (
            rf"{I_AM}(?P<how>(?i:married to|engaged to|dating)) (?P<what>{A_NAME}|an? "
            rf"(?:{any_of(PROFESSIONS)}))(?=$|[,;.]| and\b)"
        ),
        says(LIFE, "The user is {how} {what}."),
    ),
)
