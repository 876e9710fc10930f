"""Rules about preferences, instructions, decisions, budgets, deadlines and tasks."""

import re

from ctxwrap.language.english.values import ADVERBS, CONTEXT_DEPENDENT, DATED, I_AM, VAGUE, specific_value, trim_clause
from ctxwrap.language.patterns import lazy_pattern
from ctxwrap.language.rules import (
    BUDGET,
    DEADLINE,
    DECISION,
    INSTRUCTION,
    LIKING,
    PROJECT,
    TASK,
    RuleMatch,
    RuleTable,
    Statement,
    compile_rules,
    third_person,
)
from ctxwrap.language.vocabulary import parse_pairs

_VERB_PAIRS = """
    like=likes|love=loves|enjoy=enjoys|prefer=prefers|adore=adores|hate=hates|dislike=dislikes
    |don't like=does not like|do not like=does not like|can't stand=cannot stand|cannot stand=cannot stand
    |detest=detests|loathe=loathes|despise=despises|don't enjoy=does not enjoy|am a big fan of=is a big fan of
    |am a huge fan of=is a huge fan of|am a fan of=is a fan of|am into=is into|am not a fan of=is not a fan of
    |am fond of=is fond of|collect=collects|am passionate about=is passionate about
    |am obsessed with=is obsessed with
"""
_VERBS = parse_pairs(_VERB_PAIRS)

_NO_PREFERENCE = lazy_pattern(
    r"(?i:.*\b(?:idea|suggestion|suggestions|approach|solution|plan|question|recommendation"
    r"|last one|first one|second one|other one|one|job you|way)$"
    r"|.*\b(?:better|so far|already|yet)$|(?:to (?:get|go|know|learn more|start|make|try)|option"
    r"|when|doing that|sarcasm)\b)"
)


def _likes(found: RuleMatch) -> Statement | None:
    verb = _VERBS.get(found["verb"].lower().replace("'m", " am").strip())
    what = specific_value(found["what"])
    if not verb or not what or _NO_PREFERENCE.match(what) or len(what.split()) > 14:
        return None
    return LIKING.of(f"The user {verb} {what}.")


def _instructs(found: RuleMatch) -> Statement | None:
    what = trim_clause(found["what"], 140)
    how = (found["how"] or "").lower()
    if not what or re.search(r"\b(?:this|these|it|us|that day|never)\b", what):
        return None
    what = re.sub(r"\b(?:me|i)\b", "the user", what[:1].lower() + what[1:], flags=re.I)
    what = re.sub(r"\bmy\b", "the user's", what, flags=re.I)
    wants = {"never": "never to", "always": "to always"}.get(how, "not to" if how else "to")
    return INSTRUCTION.of(f"The user wants the assistant {wants} {what}.")


def _favourite(found: RuleMatch) -> Statement | None:
    of, what = third_person(found["of"]), trim_clause(found["what"], 90)
    if (
        not what
        or VAGUE.match(what.removeprefix("the "))
        or re.match(r"(?i:part|thing|things|one|bit|moment|line|option|of yours|so far|is)\b", of)
        or "?" in what
    ):
        return None
    is_ = (found["is"] or "is").lower()
    return LIKING.of(f"The user's favourite {of} {is_} {third_person(what)}.")


def _likes_being(found: RuleMatch) -> Statement | None:
    what = specific_value(found["what"])
    return (
        LIKING.of(f"The user is{found['verb'][2:].lower()} {what}.")
        if what and not _NO_PREFERENCE.match(what)
        else None
    )


_ASSISTANT_VERBS = (
    "answer|reply|respond|use|write|give(?! up)|show|include|add|call|address|ask|explain|keep"
    "|put|format|cite|check|say|mention|suggest|recommend"
    "|send|translate|speak|talk|start|end|begin|avoid|refer|provide|list|return|quote|convert"
    "|tell|sign|run|make (?:sure|a|an|the|all|every|my)|commit|push|delete|remind"
    "|prefer|greet|apologi[sz]e|assume|omit|skip|double-check|be (?:brief|concise|polite|formal"
    "|honest|direct|terse)|summari[sz]e|follow|stick|treat|round|spell"
)

PREFERENCE_RULES: RuleTable = compile_rules(
    (
        r"(?i:my (?:all-time |absolute )?(?:favou?rite)) (?P<of>[\w' \-]{2,40}?)(?: (?P<is>(?i:is|are"
        r"|has always been|have always been))|'s) (?P<what>.{2,90})$",
        _favourite,
    ),
    (
        r"(?P<what>(?!(?i:this|that|it|it's|these|those|the|he|she|they|which|what|your|who|one|some"
        r"|option)\b)\w.{1,50}?) (?P<is>(?i:is|are)) (?i:my (?:all-time |absolute )?favou?rite) "
        r"(?P<of>[\w' \-]{3,40})$",
        _favourite,
    ),
    (rf"(?i:i){ADVERBS} (?P<verb>(?i:{'|'.join(_VERBS)})) (?P<what>.{{2,110}})$", _likes),
    (
        r"(?i:i(?='m)|im(?=\b))(?P<verb>(?i:'m(?: really| also| very| not| pretty)? (?:a (?:big "
        r"|huge )?fan of|into|fond of|passionate about|obsessed with))) (?P<what>.{3,90})$",
        _likes_being,
    ),
    (
        rf"(?i:please |and |so |you should |you must |i want you to |i'd like you to |i need you to "
        rf"|can you ){{0,2}}(?P<how>(?i:always|never)) (?P<what>(?i:{_ASSISTANT_VERBS})\b.{{3,130}})$",
        _instructs,
    ),
    (
        rf"(?i:from now on|going forward|from here on(?: out)?|in (?:the )?future|in all (?:your )?"
        rf"(?:answers|replies|responses)|whenever you (?:answer|reply|respond))[,:]? (?i:please "
        rf"|you should |i want you to |i'd like you to )?(?P<how>(?i:always|never|don't|do not))? ?"
        rf"(?P<what>(?i:{_ASSISTANT_VERBS})\b.{{3,130}})$",
        _instructs,
    ),
    (
        rf"(?i:please )?(?P<how>(?i:don't|do not))? ?(?P<what>(?i:{_ASSISTANT_VERBS})\b.{{3,120}} "
        rf"(?i:from now on|going forward|in (?:the )?future|from here on|in all (?:your )?(?:answers"
        rf"|replies|responses)|every time|at all times))$",
        _instructs,
    ),
    (
        r"(?i:please )?(?i:refer to|address) me (?P<what>(?i:as|by|with) .{2,50})(?P<how>)$",
        lambda found: INSTRUCTION.of(f"The user wants to be addressed {third_person(trim_clause(found['what']))}."),
    ),
)


_TRIVIAL = lazy_pattern(
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
    what = trim_clause(found["what"], 130)
    dated = DATED.search(what)
    if (
        not what
        or _TRIVIAL.match(what)
        or len(what.split()) < 3
        or re.search(r"\b(?:you|your|this|that|it|these)\b", what)
    ):
        return None
    if not dated and not _ERRAND.match(what):
        return None
    return TASK.of(f"The user needs to {third_person(what)}.")


def _reminder(found: RuleMatch) -> Statement | None:
    what = trim_clause(found["what"], 140)
    return (
        TASK.of(f"The user wants to be reminded {third_person(what)}.")
        if what and not re.search(r"\b(?:this|that|it)\b", what)
        else None
    )


def _appointment(found: RuleMatch) -> Statement | None:
    what = trim_clause(found["what"], 120)
    return PROJECT.of(f"The user has {third_person(what)}.") if DATED.search(what) else None


def _decided(found: RuleMatch) -> Statement | None:
    what = trim_clause(found["what"], 140)
    link = (found["link"] or "").lower()
    if not what or re.match(
        r"(?i:yet|what|which|whether|how|where|when|it|that it|the (?:first|second|third|last|latter"
        r"|former|other)|this|option|these|those|them|nothing)\b",
        what,
    ):
        return None
    if re.search(r"\b(?:yet|nothing)\b", what) or CONTEXT_DEPENDENT.search(what):
        return None
    return DECISION.of(f"{_deciders(found)} decided {link} {third_person(what)}.")


def _deciders(found: RuleMatch) -> str:
    """Name the deciders: the user, or the user and others."""
    return "The user" if found["who"].lower().startswith("i") else "The user and others"


def _chose(found: RuleMatch) -> Statement | None:
    what = specific_value(found["what"])
    what = what or (
        ""
        if not re.match(r"the (?!first|second|third|last|latter|former|other|one)\w+ \w+", found["what"])
        else third_person(trim_clause(found["what"]))
    )
    if not what or len(what.split()) > 12:
        return None
    return DECISION.of(f"{_deciders(found)} decided to go with {what}.")


def _decision(found: RuleMatch) -> Statement | None:
    what = trim_clause(found["what"])
    return DECISION.of(f"Decided: {third_person(what)}.") if specific_value(found["what"]) else None


def _to_do(found: RuleMatch) -> Statement | None:
    what = trim_clause(found["what"])
    task = third_person(what[:1].lower() + what[1:]).removeprefix("to ")
    return TASK.of(f"The user needs to {task}.") if specific_value(found["what"]) else None


_MONEY = (
    r"(?:[$€£¥₹]\s?\d|\d[\d.,]*\s?(?:k\b|usd|eur|gbp|chf|dollars?|euros?|pounds?|bucks|yen|francs?"
    r"|thousand|million|€|\$|£|a month|per month|grand)|\d{2,})"
)


def _budget(found: RuleMatch) -> Statement | None:
    what = trim_clause(found["what"], 80)
    if not re.search(_MONEY, what, re.I) or len(what) > 70 or re.search(r"[{}\[\]=_]", what):
        return None
    kind = found.groupdict().get("kind") or ""
    purpose = f" for {third_person(trim_clause(found['of']))}" if found["of"] else ""
    return BUDGET.of(f"The user's {kind.lower()}budget{purpose} is {what}.")


def _deadline(found: RuleMatch) -> Statement | None:
    what, of = trim_clause(found["what"], 60), found["of"]
    if not _WHEN.match(what):
        return None
    of = f" for {third_person(trim_clause(of))}" if of else ""
    return DEADLINE.of(f"The deadline{of} is {what}.")


_WHEN = lazy_pattern(
    r"(?i:(?:on |by |at |the |this |next |in |end of |coming ){0,3}(?:mon|tue|wed|thu|fri|sat|sun"
    r"|jan|feb|mar|apr|may\b|jun|jul|aug|sep|oct|nov|dec|tomorrow|tonight|today"
    r"|week|month|quarter|year|q[1-4]|noon|midnight|christmas|easter|spring|summer|autumn|fall"
    r"|winter|\d|two|three|four|five|six|eod))"
)


def _due(found: RuleMatch) -> Statement | None:
    when, what = trim_clause(found["when"], 60), found["what"]
    if not _WHEN.match(when) or len(what.split()) > 8 or re.search(r"\b(?:baby|train|bus|flight)\b", what):
        return None
    what = re.sub(r"^(?:my|our) ", "The user's ", what, flags=re.I)
    return DEADLINE.of(f"{what[:1].upper()}{what[1:]} is due {when}.")


def _engaged_in(found: RuleMatch) -> Statement | None:
    what = specific_value(found["what"])
    if (
        not what
        or len(what.split()) > 14
        or re.match(
            r"(?:hard|late|on|from|with|for|too|out|more|things|about|how|a (?:new )?(?:project|problem"
            r"|task|few)$|the (?:project|problem|task|issue|code|same)$|stuff|myself|themselves)\b",
            what,
        )
    ):
        return None
    return PROJECT.of(f"The user is {found['verb'].lower()} {what}.")


PLAN_RULES: RuleTable = compile_rules(
    (
        r"(?i:(?:my|our|the|total|overall|maximum|max)? ?(?:total |overall |maximum )?(?P<kind>"
        r"(?:monthly |weekly |yearly |annual |wedding |travel |marketing |project |grocery |food "
        r"|renovation |hardware )?)budget)(?: (?i:for) (?P<of>[\w' \-]{3,50}?))?(?i:(?: is| was set to"
        r"| has been set to| will be|:| =|'s)(?: (?:about|around|roughly|now|only|up to|at most|max"
        r"|capped at|limited to|set to|set at))*) (?P<what>.{1,80})$",
        _budget,
    ),
    (
        rf"(?i:(?:i|we|i've|we've){ADVERBS} (?:have|got)) (?i:an? )?(?:[a-z]+ )?(?i:budget of|budget:)"
        rf"(?i: about| around| roughly| up to)? (?P<what>{_MONEY}[^,;]{{0,20}}?)(?: (?i:for) "
        rf"(?P<of>[^,;]{{3,60}}))?$",
        _budget,
    ),
    (
        rf"(?i:(?:i|we){ADVERBS} (?:can|want to|am willing to|are willing to|can only|can't|cannot)"
        rf"(?: only)? spend(?: about| around| up to| at most| no more than| a maximum of| more than"
        rf"| max)*) (?P<what>{_MONEY}[^,;]{{0,20}}?)(?: (?i:on|for) (?P<of>[^,;]{{3,60}}))?$",
        _budget,
    ),
    (
        r"(?i:(?:the|my|our)? ?(?:final |hard |submission |application |project |tax )?deadline)(?: "
        r"(?i:for|of) (?P<of>[\w' \-]{3,60}?))?(?i: is| has been moved to| was moved to| moved to|:|'s"
        r"| has been set to| is now| is set for)(?i: now)? (?P<what>.{2,70})$",
        _deadline,
    ),
    (
        r"(?P<what>(?i:my|our|the) [\w' \-]{3,50}?) (?i:is due|are due|has to be (?:finished|submitted"
        r"|done|ready) by|must be (?:finished|submitted|done|ready) by|needs to be (?:finished"
        r"|submitted|done|ready) by)(?i: by| on| in| at)? (?P<when>.{3,50})$",
        _due,
    ),
    (
        rf"(?P<who>(?i:i|we|i've|we've|my team and i|my wife and i|my husband and i"
        rf"|the team and i)){ADVERBS}(?i: finally| all| now| together| have| both){{0,2}} (?i:decided"
        rf"|agreed|opted|resolved) (?P<link>(?i:to|on|for|against|that|not to)) (?P<what>.{{2,130}})$",
        _decided,
    ),
    (
        rf"(?P<who>(?i:i|we|i've|we've)){ADVERBS}(?i: finally| have){{0,2}} (?i:chosen|chose|settled on"
        rf"|picked|went with|gone with) (?P<what>[A-Z0-9].{{1,80}}|an? .{{3,80}}"
        rf"|the [a-z]+ [a-z]+.{{0,60}})$",
        _chose,
    ),
    (
        r"(?P<who>(?i:we're|we are|i'm|i am|let's|we'll|we will|i'll|i will))(?i: definitely| just"
        r"| all)? (?i:going with|going to go with|go with|going to use|stick with|sticking with) "
        r"(?P<what>.{2,80})$",
        _chose,
    ),
    (
        r"(?P<who>(?i:decision|final decision|decided))[:,] (?P<what>.{3,120})$",
        _decision,
    ),
    (
        rf"(?i:(?:i|we|i've|we've){ADVERBS} (?:need to|have to|must|got to|gotta|am supposed to)) "
        rf"(?P<what>.{{5,130}})$",
        _task,
    ),
    (
        r"(?i:please |can you |could you )?(?i:remind me) (?P<what>(?i:to|about|that|of|in|on|at"
        r"|tomorrow) .{3,130})$",
        _reminder,
    ),
    (
        r"(?i:to-?do|task|my task is|my next task is|action item)(?:[:,]| to) (?P<what>.{5,120})$",
        _to_do,
    ),
    (
        rf"(?i:i|i've|we){ADVERBS} (?i:have|got) (?P<what>(?i:an?|my) (?:[\w\-']{{2,16}} ){{0,3}}"
        rf"(?i:interview|exam|appointment|meeting|flight|presentation|test|surgery|wedding|race"
        rf"|marathon|conference|recital|hearing|viva|defense|defence)\b.{{3,70}})$",
        _appointment,
    ),
    (
        rf"{I_AM}(?P<verb>(?i:learning|training for|preparing for|planning|building|writing|working on"
        rf"|developing|renovating|organizing|organising|studying for|researching|trying to lose"
        rf"|trying to quit|saving for|saving up for|designing)) (?P<what>.{{3,110}})$",
        _engaged_in,
    ),
)
