"""Names: what an English clause says of what the user is called."""

from ctxwrap.language.english.values import ADV, KNOWN_PLACES, PART
from ctxwrap.language.english.work import TRADES
from ctxwrap.language.lexicon import LANGUAGES, NATIONS, NOT_NAMES, STATES
from ctxwrap.language.patterns import lazy_pattern
from ctxwrap.language.statement import NAME, RuleMatch, RuleTable, Statement, rules

_INITIAL = r"[A-Z]\."

A_NAME = (
    rf"{PART}(?: (?:{PART}|{_INITIAL}|(?:de|van|von|da|bin|al|del|la|der|di|dos) {PART}"
    rf"(?: {PART})?)){{0,3}}"
)

NO_NAMES = frozenset(f"{NOT_NAMES} {LANGUAGES} {NATIONS} {STATES}".split())

BEHIND_NAME = r"(?=$|[,;(–—]| (?:and|but|from|here|by the way|btw|if|so|though|–|-|—)\b| -)"

_NO_NAME_ENDING = lazy_pattern(r".{3,}(?:ing|ed|able|ful|ous|less|ly|tion|ive|ese|ish)$")


def proper_name(text: str, *, sure: bool = True) -> str:
    """The name in its usual spelling, or nothing if it may be something else."""
    words = text.split(" ")
    small = words[0].lower()
    if small in NO_NAMES or (not sure and (_NO_NAME_ENDING.match(small) or text.isupper())):
        return ""
    return text


def _named(found: RuleMatch) -> Statement | None:
    name = proper_name(found["name"])
    return NAME.of(f"The user's name is {name}.") if name else None


def _named_small(found: RuleMatch) -> Statement | None:
    name = found["name"]
    if any(word in NO_NAMES or _NO_NAME_ENDING.match(word) for word in name.split(" ")):
        return None
    return NAME.of(f"The user's name is {name.title()}.")


def _named_shortly(found: RuleMatch) -> Statement | None:
    name = proper_name(found["name"], sure=False)
    known = name.lower() in KNOWN_PLACES or (name.split(" ")[0].lower() in TRADES)
    return NAME.of(f"The user's name is {name}.") if name and not known else None


RULES: RuleTable = rules(
    (
        (
            rf"(?i:my (?:full |first |real |given )?name is|my name's|i am called|i'm called|i go by"
            rf"|i am named){ADV} (?P<name>{A_NAME}){BEHIND_NAME}"
        ),
        _named,
    ),
    (
        (
            rf"(?i:(?:(?:and |but )?you can |please |just |people |everyone |friends |everybody "
            rf"|my friends )*?(?:all )?calls? me) (?P<name>{A_NAME}){BEHIND_NAME}"
        ),
        _named_shortly,
    ),
    (r"(?:my name is|my name's|i am called|you can call me) (?P<name>[a-z]{2,14}(?: [a-z]{3,14})?)$", _named_small),
    (rf"(?i:i'm|i am) (?P<name>{A_NAME})(?=$|,| here\b| from [A-Z]| and (?:i|i'm|my)\b)(?! here to)", _named_shortly),
)
