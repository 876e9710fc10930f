"""Finishing: which open task a sentence says is done."""

import re
from collections.abc import Sequence

from ctxwrap.entries.sameness import bare, gist_of
from ctxwrap.entries.telling import is_question, words_of
from ctxwrap.entries.vocabulary import DONE, DONE_UNSPACED, NOT_YET
from ctxwrap.language.words import term_of, terms_of

_DONE, _NOT_YET = frozenset(DONE.split()), frozenset(NOT_YET.split())
_DONE_TERMS = frozenset(terms_of(DONE))
_TICKED = re.compile(r"\s{0,20}[-*•+]\s\[[xX]\]\s")
_ENOUGH = 0.6
"""So much of what a task speaks of must be spoken of again."""


def is_ticked(line: str) -> bool:
    return _TICKED.match(line) is not None


def finished_by(sentence: str, tasks: Sequence[str]) -> int | None:
    """The place of the task that is done now; None if no sentence of that kind, or no task can be told."""
    if is_question(sentence) or not _NOT_YET.isdisjoint(words_of(sentence)):
        return None
    scores = [_score(sentence, task) for task in tasks]
    best = max(scores, default=0.0)
    return scores.index(best) if best >= _ENOUGH else None


def says_only_done(sentence: str) -> bool:
    """Whether it says that something is done without saying what."""
    words = words_of(sentence)
    return _says_done(sentence) and len(words) <= 4 and set(terms_of(sentence)) <= _DONE_TERMS


def _says_done(sentence: str) -> bool:
    return not _DONE.isdisjoint(words_of(sentence)) or any(map(sentence.__contains__, DONE_UNSPACED))


def _score(sentence: str, task: str) -> float:
    wanted, said = gist_of(task), gist_of(sentence)
    about = wanted.terms | wanted.numbers
    common = about & (said.terms | said.numbers)
    if len(common) < min(2, len(about)) or wanted.names - said.terms:
        return 0.0
    return len(common) / len(about) if _says_done(sentence) or _did(sentence, task) else 0.0


def _did(sentence: str, task: str) -> bool:
    """Whether the sentence has the task's verb in another form that tells of the past."""
    verb = next(iter(words_of(bare(task))), "")
    return bool(term_of(verb)) and any(
        term_of(word) == term_of(verb) and word != verb and not word.endswith(("ing", "s"))
        for word in words_of(sentence)
    )
