"""First person: what somebody says of themselves, told with their name; only where nobody else can be meant."""

import re

from ctxwrap.entries.vocabulary import NAMED_PERSONS, OTHER_PERSONS
from ctxwrap.language.lexicon import OFTEN, PAST

_TOKEN = re.compile(r"[\w'’]+")
_I = re.compile(rf"I (?P<adverb>(?:{'|'.join(OFTEN.split())}) )?(?P<verb>[a-z]+(?:['’]t)?)\b(?P<rest>.*)", re.S)
_SHORT = re.compile(r"I['’](?P<verb>m|ve|ll) (?P<rest>.*)", re.S)
_MY = re.compile(r"My (?P<rest>.*)", re.S)
_SECOND_VERB = re.compile(r"\b(?:and|but|or)\b|[,;]")
_SELVES, _OTHERS = frozenset(NAMED_PERSONS.split()), frozenset(OTHER_PERSONS.split())
_AMBIGUOUS = frozenset(["put", "read", "set", "quit", "cut", "hurt", "let", "left", "found"])
"""They are of the present or of the past, or other verbs altogether."""
_PAST = frozenset(PAST.split()) - _AMBIGUOUS | frozenset(["was", "can", "can't", "cannot", "will", "won't", "must"])
_PRESENT = dict(
    pair.split(":")
    for pair in [
        "am:is",
        "have:has",
        "don't:doesn't",
        "haven't:hasn't",
        "live:lives",
        "work:works",
        "like:likes",
        "love:loves",
        "hate:hates",
        "need:needs",
        "want:wants",
        "use:uses",
        "prefer:prefers",
        "play:plays",
        "speak:speaks",
        "teach:teaches",
        "own:owns",
        "drive:drives",
        "m:is",
        "ve:has",
    ]
)


def speaks_of_oneself(sentence: str) -> bool:
    """Whether `I`, `my` or the like stands in it, in one of some languages."""
    return not _SELVES.isdisjoint(_words(sentence)) or "我" in sentence.replace("我们", "")


def in_third_person(sentence: str, name: str) -> str | None:
    """The sentence with a name for its speaker; as it is if it tells of no person, None if that cannot be done.

    Only an `I` or `My` at the start is replaced, in a sentence of no other person: `her` behind a name may be the
    named one's.
    """
    words = _words(sentence)
    selves = sum(word in _SELVES for word in words)
    if "我" in sentence:
        return None
    if not selves:
        return sentence if _OTHERS.isdisjoint(words) else None
    if selves > 1 or not _OTHERS.isdisjoint(words) or re.search(r"[\"“”„«»]", sentence):
        return None
    if found := _MY.fullmatch(sentence):
        return f"{name}'s {found['rest']}"
    found = _SHORT.fullmatch(sentence) or _I.fullmatch(sentence)
    return _with_name(found, name) if found else None


def _with_name(found: re.Match[str], name: str) -> str | None:
    verb, rest = found["verb"].replace("’", "'"), found["rest"]
    adverb = found.groupdict().get("adverb") or ""
    if verb == "ll":
        return f"{name} will {rest}"
    if verb in _PAST or (verb.endswith("ed") and verb != "need"):
        return f"{name} {adverb}{verb}{rest}"
    if verb not in _PRESENT or _SECOND_VERB.search(rest):
        return None
    space = "" if rest.startswith((" ", ".", "!")) else " "
    return f"{name} {adverb}{_PRESENT[verb]}{space}{rest}"


def _words(sentence: str) -> list[str]:
    return [word.lower().replace("’", "'") for word in _TOKEN.findall(sentence[:600])]
