"""Tastes: what the user likes, and how they want to be answered."""

import re

from ctxwrap.language.english.values import ADV, VAGUE, plain, specific
from ctxwrap.language.patterns import lazy_pattern
from ctxwrap.language.statement import INSTRUCTION, LIKING, RuleMatch, RuleTable, Statement, others, rules

_VERBS = {
    "like": "likes",
    "love": "loves",
    "enjoy": "enjoys",
    "prefer": "prefers",
    "adore": "adores",
    "hate": "hates",
    "dislike": "dislikes",
    "don't like": "does not like",
    "do not like": "does not like",
    "can't stand": "cannot stand",
    "cannot stand": "cannot stand",
    "detest": "detests",
    "loathe": "loathes",
    "despise": "despises",
    "don't enjoy": "does not enjoy",
    "am a big fan of": "is a big fan of",
    "am a huge fan of": "is a huge fan of",
    "am a fan of": "is a fan of",
    "am into": "is into",
    "am not a fan of": "is not a fan of",
    "am fond of": "is fond of",
    "collect": "collects",
    "am passionate about": "is passionate about",
    "am obsessed with": "is obsessed with",
}

_LIKED_ONCE = lazy_pattern(
    r"(?i:.*\b(?:idea|suggestion|suggestions|approach|solution|plan|question|recommendation"
    r"|last one|first one|second one|other one|one|job you|way)$"
    r"|.*\b(?:better|so far|already|yet)$|(?:to (?:get|go|know|learn more|start|make|try)|option"
    r"|when|doing that|sarcasm)\b)"
)


def _likes(found: RuleMatch) -> Statement | None:
    verb = _VERBS.get(found["verb"].lower().replace("'m", " am").strip())
    what = specific(found["what"])
    if not verb or not what or _LIKED_ONCE.match(what) or len(what.split()) > 14:
        return None
    return LIKING.of(f"The user {verb} {what}.")


def _instructs(found: RuleMatch) -> Statement | None:
    what = plain(found["what"], 140)
    how = (found["how"] or "").lower()
    if not what or re.search(r"\b(?:this|these|it|us|that day|never)\b", what):
        return None
    what = re.sub(r"\b(?:me|i)\b", "the user", what[:1].lower() + what[1:], flags=re.I)
    what = re.sub(r"\bmy\b", "the user's", what, flags=re.I)
    wants = {"never": "never to", "always": "to always"}.get(how, "not to" if how else "to")
    return INSTRUCTION.of(f"The user wants the assistant {wants} {what}.")


def _favourite(found: RuleMatch) -> Statement | None:
    of, what = others(found["of"]), plain(found["what"], 90)
    if (
        not what
        or VAGUE.match(what.removeprefix("the "))
        or re.match(r"(?i:part|thing|things|one|bit|moment|line|option|of yours|so far|is)\b", of)
        or "?" in what
    ):
        return None
    is_ = (found["is"] or "is").lower()
    return LIKING.of(f"The user's favourite {of} {is_} {others(what)}.")


def _likes_being(found: RuleMatch) -> Statement | None:
    what = specific(found["what"])
    return (
        LIKING.of(f"The user is{found['verb'][2:].lower()} {what}.") if what and not _LIKED_ONCE.match(what) else None
    )


_ASSISTS = (
    "answer|reply|respond|use|write|give(?! up)|show|include|add|call|address|ask|explain|keep"
    "|put|format|cite|check|say|mention|suggest|recommend"
    "|send|translate|speak|talk|start|end|begin|avoid|refer|provide|list|return|quote|convert"
    "|tell|sign|run|make (?:sure|a|an|the|all|every|my)|commit|push|delete|remind"
    "|prefer|greet|apologi[sz]e|assume|omit|skip|double-check|be (?:brief|concise|polite|formal"
    "|honest|direct|terse)|summari[sz]e|follow|stick|treat|round|spell"
)

RULES: RuleTable = rules(
    (
        (
            r"(?i:my (?:all-time |absolute )?(?:favou?rite)) (?P<of>[\w' \-]{2,40}?)(?: (?P<is>(?i:is|are"
            r"|has always been|have always been))|'s) (?P<what>.{2,90})$"
        ),
        _favourite,
    ),
    (
        (
            r"(?P<what>(?!(?i:this|that|it|it's|these|those|the|he|she|they|which|what|your|who|one|some"
            r"|option)\b)\w.{1,50}?) (?P<is>(?i:is|are)) (?i:my (?:all-time |absolute )?favou?rite) "
            r"(?P<of>[\w' \-]{3,40})$"
        ),
        _favourite,
    ),
    (rf"(?i:i){ADV} (?P<verb>(?i:{'|'.join(_VERBS)})) (?P<what>.{{2,110}})$", _likes),
    (
        (
            r"(?i:i(?='m)|im(?=\b))(?P<verb>(?i:'m(?: really| also| very| not| pretty)? (?:a (?:big "
            r"|huge )?fan of|into|fond of|passionate about|obsessed with))) (?P<what>.{3,90})$"
        ),
        _likes_being,
    ),
    (
        (
            rf"(?i:please |and |so |you should |you must |i want you to |i'd like you to |i need you to "
            rf"|can you ){{0,2}}(?P<how>(?i:always|never)) (?P<what>(?i:{_ASSISTS})\b.{{3,130}})$"
        ),
        _instructs,
    ),
    (
        (
            rf"(?i:from now on|going forward|from here on(?: out)?|in (?:the )?future|in all (?:your )?"
            rf"(?:answers|replies|responses)|whenever you (?:answer|reply|respond))[,:]? (?i:please "
            rf"|you should |i want you to |i'd like you to )?(?P<how>(?i:always|never|don't|do not))? ?"
            rf"(?P<what>(?i:{_ASSISTS})\b.{{3,130}})$"
        ),
        _instructs,
    ),
    (
        (
            rf"(?i:please )?(?P<how>(?i:don't|do not))? ?(?P<what>(?i:{_ASSISTS})\b.{{3,120}} "
            rf"(?i:from now on|going forward|in (?:the )?future|from here on|in all (?:your )?(?:answers"
            rf"|replies|responses)|every time|at all times))$"
        ),
        _instructs,
    ),
    (
        r"(?i:please )?(?i:refer to|address) me (?P<what>(?i:as|by|with) .{2,50})(?P<how>)$",
        lambda found: INSTRUCTION.of(f"The user wants to be addressed {others(plain(found['what']))}."),
    ),
)
