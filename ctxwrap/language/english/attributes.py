"""Attributes: what else the user says they are, have or can."""

import re

from ctxwrap.language.english.values import ADV, I_AM, I_DO, VAGUE, plain, says
from ctxwrap.language.lexicon import LANGUAGES
from ctxwrap.language.statement import LIFE, NAME, PROJECT, RuleMatch, RuleTable, Statement, others, rules

_ATTRIBUTES = (
    "email|e-mail|email address|phone number|birthday|date of birth|address|home address"
    "|time ?zone|pronouns|blood type|shoe size|height|weight"
    "|nickname|last name|first name|middle name|surname|maiden name|nationality|car"
    "|native language|first language|mother tongue|job title|job|profession"
    "|occupation|employer|hometown|home town|hobby|hobbies|hobbies include|major|zodiac sign"
    "|star sign|github username|username|goal|main goal|dream job|wedding anniversary|anniversary"
)


def _attribute(found: RuleMatch) -> Statement | None:
    what, name = plain(found["what"], 90), found["name"].lower()
    if (
        not what
        or (VAGUE.match(what) and name != "pronouns")
        or re.match(
            (
                r"(?i:not|on (?!\d|the \d|[A-Z])|in|at|broken|boring|stressful|hard|difficult|wrong|gone|so"
                r"|too|very|really|getting|killing|coming|going|tomorrow|today|soon|demanding|great|fine|ok"
                r"|okay|at risk|done|making|driving|my|over|near|up|under|dirty|slow|also|still|out|being"
                r"|always|never|easy|important|fun|old|here|late|busy|listed|in the)\b"
            ),
            what,
        )
    ):
        return None
    is_ = (found["is"] or "is").lower()
    sort = NAME if "name" in name and "user" not in name else PROJECT if "goal" in name else LIFE
    return sort.of(f"The user's {name} {is_} {others(what)}.")


def _age(found: RuleMatch) -> Statement | None:
    return LIFE.of(f"The user is {found['age']} years old.") if 4 < int(found["age"]) < 110 else None


def _speaks(found: RuleMatch) -> Statement | None:
    what = plain(found["what"], 60)
    words = re.findall(r"[A-Za-z]+", what)
    languages = frozenset(LANGUAGES.split())
    if not words or not any(word.lower() in languages for word in words):
        return None
    small = {word: word.title() for word in words if word.lower() in languages}
    what = re.sub(r"[A-Za-z]+", lambda word: small.get(word[0], word[0]), what)
    return LIFE.of(f"The user speaks {others(what)}.")


RULES: RuleTable = rules(
    (rf"(?i:my) (?P<name>(?i:{_ATTRIBUTES}))(?: (?P<is>(?i:is|are))|'s|:) (?P<what>.{{2,90}})$", _attribute),
    (rf"{I_AM}(?P<age>\d{{1,3}})(?i: years old| yrs old| y/o| year old)?(?=$|[,;.]| and\b)", _age),
    (rf"(?i:i){ADV} (?i:turned|turn) (?P<age>\d{{1,3}})\b", _age),
    (r"(?i:i was born) (?P<what>(?i:in|on) .{3,60})$", says(LIFE, "The user was born {what}.")),
    (rf"(?:{I_DO}(?i:speak)|{I_AM}(?i:fluent in)) (?P<what>.{{3,60}})$", _speaks),
    (rf"{I_DO}(?i:drive) (?P<what>(?i:an?) .{{2,50}})$", says(LIFE, "The user drives {what}.")),
    (
        (
            rf"{I_DO}(?i:play) (?P<what>(?i:(?:the )?(?:piano|guitar|violin|cello|drums|flute|saxophone"
            rf"|trumpet|clarinet|bass|ukulele|harp|chess|tennis|football|soccer|basketball|volleyball"
            rf"|badminton|golf|rugby|hockey|cricket))\b.{{0,40}})$"
        ),
        lambda found: LIFE.of(f"The user plays {others(plain(found['what']))}."),
    ),
)
