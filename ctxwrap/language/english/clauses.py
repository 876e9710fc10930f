"""Splits an English sentence into clauses and applies the rules to each."""

import re

from ctxwrap.language.english.health import HEALTH_RULES
from ctxwrap.language.english.intents import PLAN_RULES, PREFERENCE_RULES
from ctxwrap.language.english.persons import ATTRIBUTE_RULES, FAMILY_RULES, HOME_RULES, NAME_RULES
from ctxwrap.language.english.values import CONTEXT_DEPENDENT, trim_clause
from ctxwrap.language.english.work import WORK_RULES
from ctxwrap.language.patterns import lazy_pattern
from ctxwrap.language.rules import (
    LIFE,
    MASK,
    TASK,
    AssertedSentence,
    RuleTable,
    Statement,
    first_statement,
    third_person,
    user_clause,
)

_SUBJECT = r"(?:i|i'm|im|i've|my|we|we're|we've|our|please|remember|keep in mind|let's)\b"

_ASKING = (
    r"(?:what|what's|how|which|where|who|why|when|can|could|should|would|will|is|are|do|does|did"
    r"|any|got|has|have you)\b"
)

_CLAUSE_BREAK = lazy_pattern(
    r"(?<!now on)(?<!forward)(?<!future)(?<!here on)(?:\s?[,;–—]|\s-)\s*(?:(?:and|but|so|because"
    r"|since|while|although|though|plus|also|however|yet|then)\s){0,3}"
    rf"(?={_SUBJECT}|{_ASKING})"
    rf"|\s(?:and|but|so|because|since|while|although|though|plus)\s(?:also\s)?(?={_SUBJECT}|(?:what"
    rf"|how|which|can|could)\b)"
    r"|,?\sso\s(?=(?:always|never)\b)",
    re.I,
)

_SHARED_SUBJECT = lazy_pattern(
    r",?\s(?:and|but)\s(?:also\s|currently\s|now\s)?"
    r"(?=(?:live|work|love|like|hate|prefer|enjoy|am|speak|study|don't eat|can't eat|moved|teach"
    r"|have)\b)"
)

_OPENER = lazy_pattern(
    r"(?:(?:hi|hello|hey|howdy|good (?:morning|afternoon|evening))(?: there| everyone| all| claude"
    r"| chatgpt| assistant)?"
    r"|by the way|btw|fyi|for your information|oh|ah|well|so|actually|ok|okay|yes|yeah|sure|no"
    r"|right|anyway|hmm|thanks|thank you"
    r"|just so you know|so you know|you should know(?: that)?|for (?:the record|future reference"
    r"|context|background|what it's worth|reference)"
    r"|as (?:i said|i mentioned|you know|mentioned|background|context)(?: before| earlier)?"
    r"|like i said|i (?:already )?told you(?: that)?"
    r"|and|but|also|plus|(?:please )?(?:note|be aware)(?: that)?|one more thing|another thing"
    r"|first(?:ly)?|second(?:ly)?|finally|lastly"
    r"|quick (?:note|update|intro|correction)|update|correction|to be (?:clear|honest)|honestly"
    r"|in fact|in case (?:it matters|you wonder)"
    r"|if it (?:helps|matters)|given(?: that)?|since|because|context|background|about me|reminder"
    r"|important|info|ps|p\.s\.?"
    r"|a bit about me|a little about me|some (?:background|context)|personally|unfortunately"
    r"|luckily|fortunately|good news|currently"
    r"|these days|nowadays|at work|let me introduce myself|nice to meet you)(?:\s?[,:!.–—-]\s?|\s)",
    re.I,
)

_SCOPE = lazy_pattern(
    r"\b(?:if|unless|whether|when|whenever|until|wish|wishes|would've|had i|were i|as though"
    r"|for example|for instance|e\.g|such as"
    r"|said|says|say|told|tells|asked|asks|wrote|writes|claims|claimed|thinks|thought|believes"
    r"|believed|replied|shouted"
    r"|whispered|dreamed|dreamt|dream that|according to|in the (?:song|book|movie|film|story|game"
    r"|novel))\b",
    re.I,
)

_HEDGED = lazy_pattern(
    r"\b(?:maybe|perhaps|might|probably|possibly|would|could|wouldn't|i think|i guess|i suppose"
    r"|kind of|sort of|not sure"
    r"|supposedly|apparently|almost|no longer|anymore|used to|lol|haha|someday|one day|hopefully"
    r"|so they say)\b"
    rf"|{MASK}",
    re.I,
)

_DOUBTED = lazy_pattern(r"\bi (?:believe|think|guess|suppose|hope|heard|imagine|assume|reckon)$", re.I)


def statements_of(sentence: AssertedSentence) -> list[Statement]:
    text = _without_openers(sentence.text)
    if _DOUBTED.search(text):
        return []
    scope = _SCOPE.search(text)
    found: list[Statement] = []
    for start, clause in _clauses(text, sentence.asks):
        if scope and start + len(clause) > scope.start():
            break
        statement = _statement_of(clause)
        if not statement and ": " in clause:
            break  # text after a colon may be somebody else's
        found += [statement] if statement else []
    return found


def _clauses(text: str, asks: bool) -> list[tuple[int, str]]:
    starts = [0, *(found.end() for found in _CLAUSE_BREAK.finditer(text))]
    ends = [*(found.start() for found in _CLAUSE_BREAK.finditer(text)), len(text)]
    pieces = [(start, text[start:end]) for start, end in zip(starts, ends, strict=True)]
    if asks:
        asked = re.match(_ASKING, pieces[-1][1], re.I)
        pieces = pieces[:-1] if asked else []
    return [part for start, clause in pieces for part in _split_shared_subject(start, clause)]


def _split_shared_subject(start: int, clause: str) -> list[tuple[int, str]]:
    """Split the clause if a second verb shares its subject."""
    joint = _SHARED_SUBJECT.search(clause)
    if not joint or not re.match(r"(?:i|i'm|my name is)\b", clause, re.I) or not _match_rules(clause[: joint.start()]):
        return [(start, clause)]
    return [(start, clause[: joint.start()]), (start + joint.end() - 2, f"I {clause[joint.end() :]}")]


def _without_openers(text: str) -> str:
    for _ in range(4):
        opener = _OPENER.match(text)
        if not opener:
            return text
        text = text[opener.end() :].lstrip()
    return text


def _statement_of(clause: str) -> Statement | None:
    clause = _without_openers(clause).strip(" ,;:–—-")
    if asked := _REMEMBER.match(clause):
        return _remembered(_without_openers(asked["what"]))
    return _match_rules(clause)


def _match_rules(clause: str) -> Statement | None:
    if _HEDGED.search(clause):
        return None
    return first_statement(clause, _RULES)


_REMEMBER = lazy_pattern(
    r"(?i:please |and |also |always ){0,2}(?i:remember|keep in mind|bear in mind|don't forget"
    r"|do not forget|make a note|take note)"
    r"(?:(?i: for (?:next time|later|the future|ever)| forever| always))?(?:(?i:,? that\b|:|,"
    r"|\s[–—-]) ?| )(?P<what>\S.{2,160})$"
)

_NO_FACT = lazy_pattern(
    r"(?i:what|when|how|who|where|why|which|me\b|us\b|this|that|it\b|him|her|them|these|those"
    r"|about|of|you|your|time|day|the time"
    r"|guy|movie|song|one\b)"
)

_FACTUAL = lazy_pattern(
    r"(?i:the|our|my|i|we|all|no|every|each|there)\b|.*\d"
    r"|[A-Z]\w+ (?:is|has|likes|loves|hates|prefers|lives|works|can|can't|cannot|needs|wants|will"
    r"|does|doesn't) "
)

_ADVICE = lazy_pattern(
    r"(?i:to (?:be|have|breathe|smile|relax|stay|keep|enjoy|take care|believe|love|live"
    r"|prepare emotionally|dream|trust|rest|stop))\b"
)


def _remembered(what: str) -> Statement | None:
    if _HEDGED.search(what) or _SCOPE.search(what):
        return None
    if statement := _match_rules(what):
        return statement
    if what.lower().startswith("to "):
        vague = _ADVICE.match(what) or CONTEXT_DEPENDENT.search(what) or not trim_clause(what)
        return None if vague else TASK.of(f"The user asks to remember {third_person(trim_clause(what))}.")
    if not _FACTUAL.match(what) or re.search(r"\b(?:you|your|yourself)\b", what, re.I):
        return None
    if _NO_FACT.match(what) or len(what.split()) < 3 or not (value := trim_clause(what)):
        return None
    if re.match(r"i ", value, re.I):
        return LIFE.of(f"{user_clause(value[2:])}.")
    if mine := re.match(r"(?:my|our) ", value, re.I):
        return LIFE.of(f"The user's {third_person(value[mine.end() :])}.")
    if re.match(r"(?:we|i'\w+|please)\b", value, re.I):
        return None
    return LIFE.of(f"{value[:1].upper()}{third_person(value[1:])}.")


_RULES: RuleTable = (
    *NAME_RULES,
    *HOME_RULES,
    *WORK_RULES,
    *HEALTH_RULES,
    *FAMILY_RULES,
    *PREFERENCE_RULES,
    *PLAN_RULES,
    *ATTRIBUTE_RULES,
)
