"""Rules about the user's occupation and employer."""

import re

from ctxwrap.language.english.values import (
    ADVERBS,
    I_AM,
    I_DO,
    NO_HOMES,
    TRADES,
    VAGUE,
    alternation,
    template_rule,
    trim_clause,
)
from ctxwrap.language.lexicon import BUSINESSES, FIELDS, WEEKDAYS
from ctxwrap.language.patterns import lazy_pattern
from ctxwrap.language.rules import LIFE, RuleMatch, RuleTable, Statement, compile_rules, third_person

_A_TRADE = lazy_pattern(
    r"(?P<what>(?:an?|the|currently an?|still an?) (?:[\w\-/&'+#.]{1,20} ){0,4}?"
    r"(?P<trade>[a-zA-Z]{2,20}))"
    r"(?P<rest>$|(?:,? (?:at|for|in|from|with|working|on|of|by|specializing|specialising|who|based"
    r"|living|and|but)\b| \()?.*)$"
)

_NO_TRADE = lazy_pattern(
    r"\b(?:bit|little|huge|big|terrible|bad|good|great|lousy|role|better|worst|best|horrible|total"
    r"|fast|slow|quick)\b"
)

_OF_TRADE = lazy_pattern(
    r",? (?:at|for|in|from|of|with|working (?:at|for|in)|specializing in|specialising in) [^,;]{2,60}"
)


def _is_a(found: RuleMatch) -> Statement | None:
    """Accept a noun phrase whose head is a profession."""
    match = _A_TRADE.match(found["what"])
    if not match:
        return None
    words = found["what"].split(" ")
    heads = [at for at, word in enumerate(words[:7]) if word.lower().strip(",") in TRADES]
    if not heads:
        return None
    head = _last_of_run(words, heads)
    what, rest = " ".join(words[: head + 1]), " ".join(words[head + 1 :])
    if (
        _NO_TRADE.search(what)
        or re.search(r"\b(?:of|fan|to|for|with|in|like|who|married)\b", what)
        or "'" in words[head]
    ):
        return None
    if (
        rest
        and not what.endswith(",")
        and not re.match(
            r"(?:at|for|in|from|with|working|on|of|by|and|but|who|speciali[sz]ing|based|living|so|now|\W)", rest
        )
    ):
        return None
    hangs = _OF_TRADE.match(f" {rest}") if not what.endswith(",") else None
    detail = trim_clause(hangs[0]) if hangs else ""
    return LIFE.of(f"The user is {what.rstrip(',')}{third_person(detail)}.")


def _last_of_run(words: list[str], heads: list[int]) -> int:
    head = heads[0]
    while head + 1 in heads and not words[head].endswith(","):
        head += 1
    return head


def _works(found: RuleMatch) -> Statement | None:
    what = trim_clause(found["what"], 80)
    if (
        not what
        or VAGUE.match(what.removeprefix("the "))
        or re.match(
            r"(?i:home|night|least|most|first|last|free|fun|me|myself|my|now|once|all|noon|the moment|same)\b", what
        )
    ):
        return None
    if not re.match(r"(?:an?|the) ", what) and not re.search(r"[A-Z]", what):
        return None
    if what.split(" ")[0].lower() in _WEEK:
        return None
    return LIFE.of(f"The user works {found['at'].lower()} {third_person(what)}.")


_WEEK = frozenset(WEEKDAYS.split())


def _works_in_field(found: RuleMatch) -> Statement | None:
    return LIFE.of(f"The user works {found['at'].lower()} {found['what']}.")


def _runs_business(found: RuleMatch) -> Statement | None:
    what = trim_clause(found["what"], 90)
    verb = {"run": "runs", "own": "owns", "manage": "manages", "co-own": "co-owns"}.get(
        found["verb"].lower(), found["verb"].lower()
    )
    return LIFE.of(f"The user {verb} {third_person(what)}.") if what else None


def _joined(found: RuleMatch) -> Statement | None:
    what = trim_clause(
        re.sub(
            r" (?:last|this|in|on|two|three|a) (?:week|month|year|monday|january|20\d\d|spring|summer"
            r"|weeks ago|months ago|few).*$",
            "",
            found["what"],
            flags=re.I,
        ),
        60,
    )
    if (
        not what
        or what.split(" ")[0].lower() in NO_HOMES | _WEEK
        or re.match("an? (?:new|fresh|long|diet|band|book|project|blog|game)", what)
    ):
        return None
    if not found["at"] and not re.search(" as an? ", what):
        return None  # people also join clubs
    return LIFE.of(f"The user works {(found['at'] or 'at').lower()} {third_person(what)}.")


_TRADE_FIELDS = alternation(FIELDS)

WORK_RULES: RuleTable = compile_rules(
    (rf"{I_AM}(?P<what>(?i:an?|the|currently an?|still an?) .{{3,110}})$", _is_a),
    (
        rf"{I_DO}(?i:work|freelance)(?i: full-time| full time| part-time| part time| remotely)? (?P<at>"
        rf"(?i:at|for|as)) (?P<what>.{{2,100}})$",
        _works,
    ),
    (rf"{I_AM}(?i:employed|working) (?P<at>(?i:at|for|as|by)) (?P<what>.{{2,100}})$", _works),
    (
        rf"{I_DO}(?i:work) (?P<at>(?i:in)) (?P<what>(?i:(?:the )?(?:[a-z]{{3,14}} )?(?:{_TRADE_FIELDS})"
        rf"(?: industry| sector| department| business| field)?))(?=$|[,;]| (?:and|at|for|in)\b)",
        _works_in_field,
    ),
    (
        rf"{I_DO}(?i:work) (?P<at>(?i:from home|remotely|night shifts?|nights|shifts|part[- ]time"
        rf"|weekends))(?P<what>)(?=$|[,;]| (?:and|on|most|at)\b)",
        template_rule(LIFE, "The user works {at}."),
    ),
    (
        rf"{I_DO}(?P<verb>(?i:run|own|manage|founded|co-founded|co-own)) (?P<what>(?:an?|my own|the|our) "
        rf"(?:[\w\-'&]{{2,16}} ){{0,3}}(?i:{alternation(BUSINESSES)})\b.{{0,60}})$",
        _runs_business,
    ),
    (
        rf"{I_DO}(?i:teach) (?P<what>(?!(?i:you|him|her|them|people how|me|myself)\b).{{3,70}})$",
        template_rule(LIFE, "The user teaches {what}."),
    ),
    (
        rf"(?i:(?:{I_AM}|{I_DO})(?:study|studying|majoring in|doing a (?:phd|master's|masters|degree) in)) "
        rf"(?P<what>(?!(?i:for|hard|a lot|every|at|with|this|all|too|late)\b).{{3,70}})$",
        template_rule(LIFE, "The user is studying {what}."),
    ),
    (
        rf"(?i:i|i've|we){ADVERBS} (?i:joined|(?:started|begun)(?: working| a new job| a job| an internship"
        rf"| my new job)? (?P<at>at|for|as)) (?P<what>[A-Z].{{1,60}}|an? .{{3,60}})$",
        _joined,
    ),
)
