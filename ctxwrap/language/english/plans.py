"""Plans: decisions, budgets, deadlines, tasks and what occupies the user for some weeks."""

import re

from ctxwrap.language.english.values import ADV, DATED, I_AM, POINTS, plain, specific
from ctxwrap.language.patterns import lazy_pattern
from ctxwrap.language.statement import (
    BUDGET,
    DEADLINE,
    DECISION,
    PROJECT,
    TASK,
    RuleMatch,
    RuleTable,
    Statement,
    others,
    rules,
)

_PASSING = lazy_pattern(
    r"(?i:know|think|say|ask|understand|be|see|hear|feel|admit|confess|pee|sleep|rest|hurry|leave"
    r"|stop|wait|learn how|vent|talk|find out"
    r"|figure|rant|go(?! to| back to| see)|go to (?:bed|sleep|the bathroom|work|the toilet)|run\b"
    r"(?! (?:a|an|the)\b)|eat|get (?:going|up|out|back|home|some)|wake|shower|relax|focus)\b"
)

_ERRAND = lazy_pattern(
    r"(?i:file|book|renew|pay|buy|cancel|schedule|submit|return|register|apply|hand in|order"
    r"|pick up|sign up|reschedule|call (?:my|the)|email (?:my|the)"
    r"|send|finish|prepare|replace|repair|deliver|present|review)\b (?:my|our|the|an?|for|two"
    r"|three|\d|[A-Z])"
)


def _task(found: RuleMatch) -> Statement | None:
    what = plain(found["what"], 130)
    dated = DATED.search(what)
    if (
        not what
        or _PASSING.match(what)
        or len(what.split()) < 3
        or re.search(r"\b(?:you|your|this|that|it|these)\b", what)
    ):
        return None
    if not dated and not _ERRAND.match(what):
        return None
    return TASK.of(f"The user needs to {others(what)}.")


def _reminder(found: RuleMatch) -> Statement | None:
    what = plain(found["what"], 140)
    return (
        TASK.of(f"The user wants to be reminded {others(what)}.")
        if what and not re.search(r"\b(?:this|that|it)\b", what)
        else None
    )


def _appointment(found: RuleMatch) -> Statement | None:
    what = plain(found["what"], 120)
    return PROJECT.of(f"The user has {others(what)}.") if DATED.search(what) else None


def _decided(found: RuleMatch) -> Statement | None:
    what = plain(found["what"], 140)
    link = (found["link"] or "").lower()
    if not what or re.match(
        (
            r"(?i:yet|what|which|whether|how|where|when|it|that it|the (?:first|second|third|last|latter"
            r"|former|other)|this|option|these|those|them|nothing)\b"
        ),
        what,
    ):
        return None
    if re.search(r"\b(?:yet|nothing)\b", what) or POINTS.search(what):
        return None
    return DECISION.of(f"{_who(found)} decided {link} {others(what)}.")


def _who(found: RuleMatch) -> str:
    """Who decides: with others, nobody is named."""
    return "The user" if found["who"].lower().startswith("i") else "The user and others"


def _chose(found: RuleMatch) -> Statement | None:
    what = specific(found["what"])
    what = what or (
        ""
        if not re.match(r"the (?!first|second|third|last|latter|former|other|one)\w+ \w+", found["what"])
        else others(plain(found["what"]))
    )
    if not what or len(what.split()) > 12:
        return None
    return DECISION.of(f"{_who(found)} decided to go with {what}.")


_MONEY = (
    r"(?:[$€£¥₹]\s?\d|\d[\d.,]*\s?(?:k\b|usd|eur|gbp|chf|dollars?|euros?|pounds?|bucks|yen|francs?"
    r"|thousand|million|€|\$|£|a month|per month|grand)|\d{2,})"
)


def _budget(found: RuleMatch) -> Statement | None:
    what = plain(found["what"], 80)
    if not re.search(_MONEY, what, re.I) or len(what) > 70 or re.search(r"[{}\[\]=_]", what):
        return None
    kind = found.groupdict().get("kind") or ""
    purpose = f" for {others(plain(found['of']))}" if found["of"] else ""
    return BUDGET.of(f"The user's {kind.lower()}budget{purpose} is {what}.")


def _deadline(found: RuleMatch) -> Statement | None:
    what, of = plain(found["what"], 60), found["of"]
    if not _WHEN.match(what):
        return None
    of = f" for {others(plain(of))}" if of else ""
    return DEADLINE.of(f"The deadline{of} is {what}.")


_WHEN = lazy_pattern(
    r"(?i:(?:on |by |at |the |this |next |in |end of |coming ){0,3}(?:mon|tue|wed|thu|fri|sat|sun"
    r"|jan|feb|mar|apr|may\b|jun|jul|aug|sep|oct|nov|dec|tomorrow|tonight|today"
    r"|week|month|quarter|year|q[1-4]|noon|midnight|christmas|easter|spring|summer|autumn|fall"
    r"|winter|\d|two|three|four|five|six|eod))"
)


def _due(found: RuleMatch) -> Statement | None:
    when, what = plain(found["when"], 60), found["what"]
    if not _WHEN.match(when) or len(what.split()) > 8 or re.search(r"\b(?:baby|train|bus|flight)\b", what):
        return None
    what = re.sub(r"^(?:my|our) ", "The user's ", what, flags=re.I)
    return DEADLINE.of(f"{what[:1].upper()}{what[1:]} is due {when}.")


def _engaged_in(found: RuleMatch) -> Statement | None:
    what = specific(found["what"])
    if (
        not what
        or len(what.split()) > 14
        or re.match(
            (
                r"(?:hard|late|on|from|with|for|too|out|more|things|about|how|a (?:new )?(?:project|problem"
                r"|task|few)$|the (?:project|problem|task|issue|code|same)$|stuff|myself|themselves)\b"
            ),
            what,
        )
    ):
        return None
    return PROJECT.of(f"The user is {found['verb'].lower()} {what}.")


RULES: RuleTable = rules(
    (
        (
            r"(?i:(?:my|our|the|total|overall|maximum|max)? ?(?:total |overall |maximum )?(?P<kind>"
            r"(?:monthly |weekly |yearly |annual |wedding |travel |marketing |project |grocery |food "
            r"|renovation |hardware )?)budget)(?: (?i:for) (?P<of>[\w' \-]{3,50}?))?(?i:(?: is| was set to"
            r"| has been set to| will be|:| =|'s)(?: (?:about|around|roughly|now|only|up to|at most|max"
            r"|capped at|limited to|set to|set at))*) (?P<what>.{1,80})$"
        ),
        _budget,
    ),
    (
        (
            rf"(?i:(?:i|we|i've|we've){ADV} (?:have|got)) (?i:an? )?(?:[a-z]+ )?(?i:budget of|budget:)"
            rf"(?i: about| around| roughly| up to)? (?P<what>{_MONEY}[^,;]{{0,20}}?)(?: (?i:for) "
            rf"(?P<of>[^,;]{{3,60}}))?$"
        ),
        _budget,
    ),
    (
        (
            rf"(?i:(?:i|we){ADV} (?:can|want to|am willing to|are willing to|can only|can't|cannot)"
            rf"(?: only)? spend(?: about| around| up to| at most| no more than| a maximum of| more than"
            rf"| max)*) (?P<what>{_MONEY}[^,;]{{0,20}}?)(?: (?i:on|for) (?P<of>[^,;]{{3,60}}))?$"
        ),
        _budget,
    ),
    (
        (
            r"(?i:(?:the|my|our)? ?(?:final |hard |submission |application |project |tax )?deadline)(?: "
            r"(?i:for|of) (?P<of>[\w' \-]{3,60}?))?(?i: is| has been moved to| was moved to| moved to|:|'s"
            r"| has been set to| is now| is set for)(?i: now)? (?P<what>.{2,70})$"
        ),
        _deadline,
    ),
    (
        (
            r"(?P<what>(?i:my|our|the) [\w' \-]{3,50}?) (?i:is due|are due|has to be (?:finished|submitted"
            r"|done|ready) by|must be (?:finished|submitted|done|ready) by|needs to be (?:finished"
            r"|submitted|done|ready) by)(?i: by| on| in| at)? (?P<when>.{3,50})$"
        ),
        _due,
    ),
    (
        (
            rf"(?P<who>(?i:i|we|i've|we've|my team and i|my wife and i|my husband and i"
            rf"|the team and i)){ADV}(?i: finally| all| now| together| have| both){{0,2}} (?i:decided"
            rf"|agreed|opted|resolved) (?P<link>(?i:to|on|for|against|that|not to)) (?P<what>.{{2,130}})$"
        ),
        _decided,
    ),
    (
        (
            rf"(?P<who>(?i:i|we|i've|we've)){ADV}(?i: finally| have){{0,2}} (?i:chosen|chose|settled on"
            rf"|picked|went with|gone with) (?P<what>[A-Z0-9].{{1,80}}|an? .{{3,80}}"
            rf"|the [a-z]+ [a-z]+.{{0,60}})$"
        ),
        _chose,
    ),
    (
        (
            r"(?P<who>(?i:we're|we are|i'm|i am|let's|we'll|we will|i'll|i will))(?i: definitely| just"
            r"| all)? (?i:going with|going to go with|go with|going to use|stick with|sticking with) "
            r"(?P<what>.{2,80})$"
        ),
        _chose,
    ),
    (
        r"(?P<who>(?i:decision|final decision|decided))[:,] (?P<what>.{3,120})$",
        lambda found: DECISION.of(f"Decided: {others(plain(found['what']))}.") if specific(found["what"]) else None,
    ),
    (
        (
            rf"(?i:(?:i|we|i've|we've){ADV} (?:need to|have to|must|got to|gotta|am supposed to)) "
            rf"(?P<what>.{{5,130}})$"
        ),
        _task,
    ),
    (
        (
            r"(?i:please |can you |could you )?(?i:remind me) (?P<what>(?i:to|about|that|of|in|on|at"
            r"|tomorrow) .{3,130})$"
        ),
        _reminder,
    ),
    (
        r"(?i:to-?do|task|my task is|my next task is|action item)(?:[:,]| to) (?P<what>.{5,120})$",
        lambda found: (
            TASK.of(
                f"The user needs to "
                f"{others(plain(found['what'])[:1].lower() + plain(found['what'])[1:]).removeprefix('to ')}."
            )
            if specific(found["what"])
            else None
        ),
    ),
    (
        (
            rf"(?i:i|i've|we){ADV} (?i:have|got) (?P<what>(?i:an?|my) (?:[\w\-']{{2,16}} ){{0,3}}"
            rf"(?i:interview|exam|appointment|meeting|flight|presentation|test|surgery|wedding|race"
            rf"|marathon|conference|recital|hearing|viva|defense|defence)\b.{{3,70}})$"
        ),
        _appointment,
    ),
    (
        (
            rf"{I_AM}(?P<verb>(?i:learning|training for|preparing for|planning|building|writing|working on"
            rf"|developing|renovating|organizing|organising|studying for|researching|trying to lose"
            rf"|trying to quit|saving for|saving up for|designing)) (?P<what>.{{3,110}})$"
        ),
        _engaged_in,
    ),
)
