"""Requests and names: whom a message greets, what it asks for, and who is who in a document."""

import re

from ctxwrap.entries.persons import is_english, reported
from ctxwrap.entries.vocabulary import GREETING, NO_VERBS, OPENERS

_GREETING = "|".join(GREETING.split())
_GREETED = re.compile(
    rf"\s{{0,20}}(?i:{_GREETING})"
    r"(?: (?i:there|all|everyone|team|morning|afternoon|evening|morgen|tag|abend|días|tardes))?"
    r"(?P<name>(?: [A-Z][\w'’\-]{1,20}){1,2})?\s?[,!.:;–\-\n]{1,3}\s{1,5}(?=\S)"
)
_OPENERS = "|".join(each.strip() for each in OPENERS.split("|"))
_OPENER = re.compile(rf"(?i:{_OPENERS})\s?[,:–!.]\s{{1,3}}(?=\S)")
_HEY = re.compile(
    r"(?i:hi|hey|hello),? (?=(?:can|could|would|will|i|i'm|im|we|what|how|where|when|who|is|are|do|please)\b)"
)
_PLAIN_OPENER = re.compile(
    r"(?i:actually,?|(?:please )?(?:remember|note|keep in mind|be aware)(?: that|,)|just so you know,?) (?=\w)"
)
_PLEASE = re.compile(r"(?i:please|pls|plz),? (?P<what>(?i:don['’]t |do not |never )?[a-z]{2,20}\b.*)", re.S)
_DO_NOT = re.compile(r"(?P<what>(?i:don['’]t |do not )[a-z]{2,20}\b.*)", re.S)
_CAN_YOU = re.compile(
    r"(?i:(?:can|could|would|will) you (?:please |kindly )?|(?:i|we)(?: need| want| would like|['’]d like) you to )"
    r"(?P<what>(?i:not )?[a-z]{2,20}\b.*)",
    re.S,
)
_MINE = re.compile(r"\b(?:me|my)\b")
_NEGATION = re.compile(r"(?i:don['’]t |do not |never |not )")
_ASKED_ELSEWHERE = re.compile(
    r"(?:bitte|merci de|por favor|(?:kannst|könntest|können|könnten) (?:du|sie)|(?:peux-tu|pouvez-vous|pourriez-vous)"
    r"|(?:puedes|podrías|puede))\b[ ,]{1,2}(?P<what>\S.*)",
    re.I | re.S,
)
_NO_VERBS = frozenset(NO_VERBS.split())
_NAMED = re.compile(r"^[-*•] (?P<name>[^\s–][^–\n]{0,60}?) – (?P<role>user|assistant)\b", re.M)


def greeted(text: str) -> tuple[str, str]:
    """Whom a message greets by name, if anybody, and the message without the greeting."""
    found = _GREETED.match(text[:200])
    if not found:
        return "", text
    rest = text[found.end() :]
    return (found["name"] or "").strip(), rest[:1].upper() + rest[1:]


def without_opener(sentence: str) -> str:
    """The sentence without a first word that only leads to it."""
    found = _OPENER.match(sentence[:60]) or _PLAIN_OPENER.match(sentence[:60]) or _HEY.match(sentence[:60])
    rest = sentence[found.end() :] if found else ""
    return rest[:1].upper() + rest[1:] if len(rest.split()) > 2 or len(rest) > 20 else sentence


def asked_to(sentence: str) -> str:
    """What is asked for, from its `to` on and in the third person; nothing if it may be no request."""
    what = _requested(sentence)
    wanted = f"not to {what[4:]}" if what.startswith("not ") else f"to {what}"
    return (what and is_english(wanted) and reported(wanted)) or ""


def asked_elsewhere(sentence: str) -> str:
    """What is asked for in German, French or Spanish, or nothing."""
    found = _ASKED_ELSEWHERE.match(sentence)
    return found["what"] if found else ""


def task_in(sentence: str, who: str) -> str:
    """What a request asks for, as a line of a list, with the name of who asks in the place of `me` and `my`."""
    what = _requested(sentence)
    what = _MINE.sub(lambda found: who if found[0] == "me" else f"{who}'s", what) if '"' not in what else what
    return what[:1].upper() + what[1:] if what else ""


def _requested(sentence: str) -> str:
    """What is to be done, as the one who is asked would be told: `update the tracker`."""
    found = _PLEASE.match(sentence) or _CAN_YOU.match(sentence) or _DO_NOT.match(sentence)
    if not found:
        return ""
    what = found["what"].rstrip(" .!?。")
    negated = _NEGATION.match(what)
    verb = (what[negated.end() :] if negated else what).split(" ")[0].lower()
    if verb in _NO_VERBS:
        return ""
    return f"not {what[negated.end() :]}" if negated else what


def names_in(document: str) -> dict[str, str]:
    """By their roles the names of user and assistant, where a document has exactly one."""
    found = [(match["role"], match["name"].strip("* ")) for match in _NAMED.finditer(document[:20_000])]
    roles = [role for role, _ in found]
    return {role: name for role, name in found if roles.count(role) == 1}
