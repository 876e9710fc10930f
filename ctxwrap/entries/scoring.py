"""Scoring: how much a sentence tells, by the names, dates, numbers and ids in it."""

import re
from functools import lru_cache

from ctxwrap.entries.filler import is_filler
from ctxwrap.entries.sentences import words_of
from ctxwrap.entries.vocabulary import DECIDED, DECIDED_PHRASES, FINITE, NO_NAMES, TASK, TASK_PHRASES, UNDECIDED
from ctxwrap.language.dates import days_in
from ctxwrap.language.vocabulary import FIRST_PERSON, STANDING, STOP, TIME
from ctxwrap.language.words import plain

_READ = 600
"""So many characters of a sentence are looked at; no more of it is ever kept."""

_SCORED_WORD = re.compile(r"\d[\d.,:]*\d(?![\w\-/])|\w[\w'’.\-/@+#%€$]*")
ADDRESS = re.compile(r"\b(?:https?://|www\.)\S+|\b[\w.+\-]{1,64}@[\w\-]{1,64}\.[\w.\-]{1,64}")
_QUOTED = re.compile(r"[\"“„«「『]([^\"“”„«»「」『』]{2,80})[\"”“»」』]")
_FOREIGN = re.compile(r"[ァ-ヴー]{2,20}|(?<![A-Za-z])[A-Za-z][A-Za-z0-9]{1,20}")
_SCRIPTS_WITHOUT_SPACES = re.compile(r"[\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")

_STOP, _DECIDED, _TASK, _CLOCK_TIME = (
    frozenset(STOP.split()),
    frozenset(DECIDED.split()),
    frozenset(TASK.split()),
    frozenset(TIME.split()),
)
_FINITE, _NO_NAMES = frozenset(FINITE.split()), frozenset(f"{NO_NAMES} {STOP}".split())
_PERSONAL = frozenset(FIRST_PERSON.split()) | frozenset(STANDING.split())


def addresses_in(sentence: str) -> frozenset[str]:
    return frozenset(address.rstrip(".,;:)") for address in ADDRESS.findall(sentence))


def facts_in(sentence: str) -> frozenset[str]:
    """What it names: people and things by a capital, days, numbers, ids, addresses, titles between quotes."""
    return _facts_in(sentence[:_READ])


@lru_cache(maxsize=1024)
def _facts_in(sentence: str) -> frozenset[str]:
    found = {day.name for day in days_in(sentence)}
    found |= addresses_in(sentence)
    found |= set(_QUOTED.findall(sentence))
    found |= set(_FOREIGN.findall(sentence)) if _SCRIPTS_WITHOUT_SPACES.search(sentence) else set()
    words = [word.rstrip(".'’-/") for word in _SCORED_WORD.findall(sentence)]
    found |= {word for word in words if any(map(str.isdigit, word)) or any(map(str.isupper, word[1:]))}
    found |= {word for word in words[1:] if _may_be_name(word)}
    if len(words) > 1 and _may_be_name(words[0]) and words[1] in _FINITE:
        found.add(words[0])  # what begins a sentence has a capital anyway
    return frozenset(found)


def _may_be_name(word: str) -> bool:
    return word[:1].isupper() and plain(word) not in _STOP and word.lower() not in _NO_NAMES


def worth(sentence: str) -> float:
    """From 0 for filler up; what counts are the facts, and what was decided or is to be done."""
    return _worth(sentence[:_READ])


@lru_cache(maxsize=1024)
def _worth(sentence: str) -> float:
    if is_filler(sentence):
        return 0.0
    words = set(words_of(sentence))
    total = 2.0 * len(facts_in(sentence)) + 4.0 * decides(sentence) + 3.0 * assigns(sentence)
    total += (not _CLOCK_TIME.isdisjoint(words)) + (not _PERSONAL.isdisjoint(words))
    return total + 0.5 + 0.05 * min(len(words - _STOP), 20)


def tells(sentence: str) -> bool:
    """Whether it names something, or says what was decided or is to be done."""
    return bool(facts_in(sentence)) or decides(sentence) or assigns(sentence)


def decides(sentence: str) -> bool:
    """Whether it tells what was decided, rather than asks or doubts it."""
    return (
        not is_question(sentence) and _has(sentence, _DECIDED, DECIDED_PHRASES) and not _has(sentence, _UNDECIDED, ())
    )


_MUST = re.compile(
    r"\b(?:[Ii]|[Ww]e|(?!It\b|This\b|That\b)[A-Z][a-z]{1,20}) must (?!not\b|be\b|have\b|say\b|admit\b)"
    r"|\b[Ii](?:['’]ll| will) (?!be\b|have\b|not\b|never\b|always\b)"
    r"|\b(?:have|has) to (?!say\b|admit\b|do with\b|be\b)"
)
_UNDECIDED = frozenset(UNDECIDED.split())


def assigns(sentence: str) -> bool:
    """Whether it tells what is to be done."""
    return _has(sentence, _TASK, TASK_PHRASES) or _MUST.search(sentence[:_READ]) is not None


def is_question(sentence: str) -> bool:
    return sentence.rstrip("\"'”’») ").endswith(("?", "？", "؟"))


def _has(sentence: str, words: frozenset[str], phrases: tuple[str, ...]) -> bool:
    small = sentence[:_READ].lower().replace("’", "'")
    return not words.isdisjoint(words_of(small)) or any(map(small.__contains__, phrases))
