"""Shared by the English rules: value clean-up, rule templates and pattern parts."""

import re

from ctxwrap.language.lexicon import KNOWN_PLACES, NO_PLACES, PETS, PROFESSIONS, RELATIVES
from ctxwrap.language.patterns import lazy_pattern
from ctxwrap.language.rules import MASK, RuleAction, RuleMatch, Statement, StatementCategory, third_person


def alternation(words: str) -> str:
    return "|".join(re.escape(word) for word in sorted(words.split(), key=len, reverse=True))


_TAIL = lazy_pattern(
    r"(?:,?\s(?:too|as well|by the way|btw|though|now|currently|these days|nowadays|actually"
    r"|thanks|please|right now|also"
    r"|at the moment|you know|in general|generally|if you must know|for sure|fyi|a lot|very much"
    r"|so much|most of all|at present))+$",
    re.I,
)

_SUBCLAUSE = lazy_pattern(
    r"\s[–—-]{1,2}\s.*$|,\s(?:the|it|it's|they|they're|he|he's|she|she's|there|there's|'cause"
    r"|cause|cuz|you|what|but|this|thanks|right)\b.*$"
    r"|(?:,|\s[–—-])?\s(?:because|'cause|cuz|since|so that|so|but|which|who|whose|where|although"
    r"|though|while|whereas|even|except when|hence"
    r"|and (?:i|i'm|we|my|it|it's|that|this|he|she|they|then|so|not)|as (?:i|we|it|you)|thanks to"
    r"|due to)\b.*$",
    re.I,
)

VAGUE = lazy_pattern(
    r"(?:to$|i|i'm|i've|we|a few|a ton|a lot|myself|me$|it|its|it's|that|that's|this|these|those"
    r"|them|him|her|you|your|how|what|what's|when|where|why|who|the|to (?:think|say|see|know|be)"
    r"|some|something|someone|somebody|everything|everyone|anything|anyone|nothing|both|all|either"
    r"|neither|one|ones|option|version|plan [ab\d]"
    r"|neither|none|more|most|much|as|so|such|there|here|his|their|he|she|they|being (?:here|able"
    r"|honest|told)|having|seeing|if|whichever|whatever"
    r"|saying|to (?:admit|break|bother|ask|disappoint|do|hear|imagine|believe|say|tell)|number"
    r"|choice|answer|another|other|any|every)\b",
    re.I,
)


def trim_clause(text: str, max_length: int = 120) -> str:
    """Remove subclauses and closing phrases; return "" if the rest is too long."""
    value = _TAIL.sub("", _SUBCLAUSE.sub("", text).rstrip(" ,.;:!–—-")).rstrip(" ,.;:!–—-")
    return value if 0 < len(value) <= max_length and MASK not in value else ""


CONTEXT_DEPENDENT = lazy_pattern(
    r"\b(?:you|your|this|that one|these|those|them|today|tonight|it|(?:to|in|of|at|with|for|about"
    r"|on) that)\b|[{}]",
    re.I,
)


def specific_value(text: str) -> str:
    """Return the value in the third person, or "" if its meaning depends on this conversation."""
    value = trim_clause(text)
    return "" if VAGUE.match(value) or CONTEXT_DEPENDENT.search(value) else third_person(value)


NAME_WORD = r"[A-ZÀ-ÖØ-ÞŁŚŻČŠŽ][\w'\-]{1,24}"

NO_HOMES, TRADES = frozenset(NO_PLACES.split()), frozenset(PROFESSIONS.split())

PROPER = (
    rf"(?:(?:the|New|San|St\.|El|La|Los|Las) )?{NAME_WORD}(?:(?: |-| (?:de|of|am|an der|upon|sur|do|da"
    rf"|la|del) ){NAME_WORD}){{0,3}}"
)


def known_place(text: str) -> str:
    words = re.split(r",? ", text.lower())
    for many in (3, 2, 1):
        if (place := " ".join(words[:many])) in KNOWN_PLACES:
            return place.title().replace("The ", "the ")
    return ""


def template_rule(category: StatementCategory, template: str) -> RuleAction:
    """Return an action that fills the template with the value; it produces nothing for a vague value."""

    def action(found: RuleMatch) -> Statement | None:
        values = {key: value or "" for key, value in found.groupdict().items()}
        if values["what"]:
            values["what"] = specific_value(values["what"])
            if not values["what"]:
                return None
        return category.of(" ".join(template.format(**values).split()).replace(" .", "."))

    return action


DATED = lazy_pattern(
    r"(?i:\b(?:tomorrow|(?:by|before|on|until|till|this|next|for|due|no later than) (?:the )?"
    r"(?:end of|next|this|mon|tue|wed|thu|fri|sat|sun|jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov"
    r"|dec|week|month|quarter|noon"
    r"|midnight|spring|summer|autumn|fall|winter|christmas|easter|tomorrow|eod|eow|\d)\w*|in "
    r"(?:two|three|four|\d{1,2}|a) (?:days?|weeks?|months?))\b)"
)

ADVERBS = (
    r"(?i:(?: (?:now|currently|actually|really|also|still|just|recently|absolutely|do|personally"
    r"|generally|usually|mostly|honestly|truly|quite"
    r"|particularly|especially|already|have|only|both|always|much|very much|simply|normally"
    r"|originally|strongly|strictly|sadly|even|truthfully|officially)){0,3})"
)

I_DO = rf"(?i:i){ADVERBS} "

I_AM = rf"(?i:i am|i'm|im|i'm){ADVERBS} "

KIN_WORDS, PET_WORDS = alternation(RELATIVES), alternation(PETS)

KIN = (
    rf"(?P<who>(?i:(?:(?:older|younger|elder|little|big|oldest|youngest|best|late|baby|twin|new"
    rf"|ex) ?-?)?(?:{KIN_WORDS}|{PET_WORDS})))"
)
