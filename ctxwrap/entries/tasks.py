"""Tasks: which open task of a document a sentence says is done."""

import re
from collections.abc import Sequence

from ctxwrap.entries.comparison import bare, gist_of
from ctxwrap.entries.scoring import is_question
from ctxwrap.entries.sentences import words_of
from ctxwrap.entries.vocabulary import DONE, DONE_UNSPACED, NOT_YET
from ctxwrap.language.vocabulary import TIME
from ctxwrap.language.words import term_of, terms_of

_DONE, _NOT_YET = frozenset(DONE.split()), frozenset(NOT_YET.split())
_DONE_TERMS, _TIME_TERMS = frozenset(terms_of(DONE)), frozenset(terms_of(TIME))
_OPEN = re.compile(r"\s{0,20}[-*•+]\s(?:\[ \]\s)?(?!\[)")
_TICKED = re.compile(r"\s{0,20}[-*•+]\s\[[xX]\]\s")
_BEHIND_OBJECT = re.compile(r"\s(?:to|by|for|with|from|on|until|before|at|bei|mit|bis|an|von|chez|con|à|a)\s")
_TO_DO = re.compile(r"(?P<lead>.{0,60}?\b(?:needs|has|have|must|faut|que) (?:to )?)(?=\w)")


def is_open(line: str) -> bool:
    return _OPEN.match(line) is not None


def is_ticked(line: str) -> bool:
    return _TICKED.match(line) is not None


def ticked(line: str, day: str) -> str:
    """The line of a task as one that is done."""
    mark = _OPEN.match(line)
    return f"- [x] {line[mark.end() :] if mark else line}{f' – done {day}' if day else ''}"


def finished_by(sentence: str, tasks: Sequence[str]) -> int | None:
    """The place of the task that is done now; None if the sentence does not say so, or says it of several."""
    if is_question(sentence) or not _NOT_YET.isdisjoint(words_of(sentence)):
        return None
    shares = [_shared(sentence, task) for task in tasks]
    best = max(shares, default=0.0)
    return shares.index(best) if best and shares.count(best) == 1 else None


def says_only_done(sentence: str) -> bool:
    """Whether it says that something is done without saying what."""
    words = words_of(sentence)
    return _says_done(sentence) and len(words) <= 4 and set(terms_of(sentence)) <= _DONE_TERMS


def _says_done(sentence: str) -> bool:
    return not _DONE.isdisjoint(words_of(sentence)) or any(map(sentence.__contains__, DONE_UNSPACED))


def _shared(sentence: str, task: str) -> float:
    """How much of a task is spoken of as done; 0 if not all of what is to be done something with."""
    text = bare(task)
    lead = _TO_DO.match(text)
    verb, _, rest = text[lead.end() if lead else 0 :].partition(" ")
    object = set(terms_of(_BEHIND_OBJECT.split(f"{rest} ", maxsplit=1)[0])) - _TIME_TERMS
    wanted, said = gist_of(task), gist_of(sentence)
    spoken = said.terms | said.numbers
    about = (wanted.terms | wanted.numbers) - _TIME_TERMS - {term_of(verb)}
    elsewhere = (wanted.names - said.terms - _TIME_TERMS) and (said.names - wanted.terms - _TIME_TERMS)
    if not object or not object <= spoken | _DONE_TERMS or not object & spoken or elsewhere:
        return 0.0
    return len(about & spoken) / len(about) if _says_done(sentence) or _did(sentence, verb) else 0.0


def _did(sentence: str, verb: str) -> bool:
    """Whether the sentence has a verb in another form that tells of the past."""
    return bool(term_of(verb)) and any(
        term_of(word) == term_of(verb) and word != verb.lower() and not word.endswith(("ing", "s"))
        for word in words_of(sentence)
    )
