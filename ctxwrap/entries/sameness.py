"""Sameness: whether two lines speak of the same thing, and whether they say the same of it."""

import re
from functools import lru_cache
from typing import Literal, NamedTuple

from ctxwrap.entries.telling import ADDRESS, addresses_in, words_of
from ctxwrap.entries.vocabulary import CHANGED, CONFIRMED, COPULAS, DECIDED, NEGATIONS, TENTATIVE
from ctxwrap.language.dates import days_in
from ctxwrap.language.words import terms_of

Verdict = Literal["other", "same", "confirmed", "changed"]

_MARK = re.compile(r"^\s{0,20}[-*•+]\s(?:\[[ xX]\]\s)?")
_SAID = re.compile(r"\s?\((?:[^()]{1,60}, )?\d{4}-\d{2}-\d{2}\)$")
_TOKEN = re.compile(r"\d[\d.,:]*\d|\d|[^\W\d][\w'’\-]*|[=:→]")
_NAME = re.compile(r"(?<=[\w,;–] )[A-Z][\w\-]{1,30}|\b[A-Z]{2,20}\b")
_NOISE = frozenset(terms_of(f"{CHANGED} {TENTATIVE} {CONFIRMED} {DECIDED} user assistant likes"))
_TENTATIVE, _COPULAS = frozenset(TENTATIVE.split()), frozenset(COPULAS.split())
_NEGATIONS = frozenset(NEGATIONS.split())
_TENTATIVE_WORD = re.compile(rf"\b(?:{'|'.join(sorted(_TENTATIVE, key=len, reverse=True))})\b", re.I)
_NEAR, _NEARER = 0.75, 0.85
_FEWEST = 0.6


class Gist(NamedTuple):
    """What a line speaks of, and what it says of it."""

    text: str
    terms: frozenset[str]
    names: frozenset[str]
    days: frozenset[str]
    numbers: frozenset[str]
    negated: bool
    tentative: bool


def bare(line: str) -> str:
    """The line without its mark and without when it was said."""
    return _SAID.sub("", _MARK.sub("", line[:600]).rstrip())


@lru_cache(maxsize=4096)
def gist_of(line: str) -> Gist:
    whole = bare(line)
    addresses = addresses_in(whole)
    text = ADDRESS.sub(" ", whole)
    days = days_in(text)
    for day in reversed(days):
        text = f"{text[: day.start]} to {text[day.end :]}"
    about, numbers = _parted(text)
    words = set(words_of(text))
    return Gist(
        whole,
        frozenset(terms_of(about)) - _NOISE | addresses,
        frozenset(terms_of(" ".join(_NAME.findall(about)))) - _NOISE | addresses,
        frozenset(day.name for day in days),
        frozenset(numbers),
        not _NEGATIONS.isdisjoint(words),
        not _TENTATIVE.isdisjoint(words),
    )


def _parted(text: str) -> tuple[str, list[str]]:
    """What is spoken of, and the numbers that are said of it: those behind a verb or the like."""
    about: list[str] = []
    numbers: list[str] = []
    said = False
    for token in _TOKEN.findall(text):
        said = said or token.lower() in _COPULAS
        (numbers if said and token[0].isdigit() else about).append(token)
    return " ".join(about), numbers


def verdict(old: Gist, new: Gist) -> Verdict:
    """How what is new stands to what is known; rather `other` than wrong."""
    share = _share(old, new)
    if not share:
        return "other"
    values, known = new.days | new.numbers, old.days | old.numbers
    if values <= known and new.negated == old.negated:
        if old.tentative and not new.tentative and new.days:
            return "confirmed"
        return "same" if share >= _NEARER or (values and share >= _NEAR) else "other"
    if (new.days and old.days and new.days != old.days) or (new.numbers and old.numbers and new.numbers != old.numbers):
        return "changed"
    if new.negated != old.negated:
        return "changed"
    return "changed" if share >= _NEARER and known < values else "other"


def _share(old: Gist, new: Gist) -> float:
    """How much of what they speak of is the same; 0 if it may be two things."""
    common, either = old.terms & new.terms, old.terms | new.terms
    if not common or (len(common) < 2 and old.terms != new.terms):
        return 0.0
    if (old.names - new.terms) and (new.names - old.terms):
        return 0.0
    share = len(common) / len(either)
    within = old.terms <= new.terms or new.terms <= old.terms
    return share if share >= _NEAR or (within and share >= _FEWEST) else 0.0


def as_confirmed(line: str) -> str:
    """The line with its first word of doubt taken back."""
    return _TENTATIVE_WORD.sub("**confirmed**", line, count=1)


def with_day(line: str, day: str) -> str:
    """The line with the only day that it names, beside when it was said, replaced."""
    said = _SAID.search(line)
    body, tail = (line[: said.start()], line[said.start() :]) if said else (line, "")
    days = days_in(body)
    return (
        f"{body[: days[0].start]}{day}{body[days[0].end :]}{tail}" if len({each.name for each in days}) == 1 else line
    )
