"""Packing: filling a budget of tokens with what matters most, told in the order it was said."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from typing import NamedTuple

from ctxwrap.language.words import terms_of
from ctxwrap.retrieval.index import Index
from ctxwrap.retrieval.passages import TextFeature
from ctxwrap.retrieval.ranking import RankedPassage, Ranking

TextOf = Callable[[int, int], str | None]
"""The text of a message's passage by its number and part, None if it is gone."""

CountTokens = Callable[[str], int]
"""How many tokens a text takes."""

STANDING = 0.15
"""So much of the budget is for instructions and preferences where a model answers at length."""

ANSWERS = 0.15
"""And so much for what it answered."""

_LEAST = 8
"""With fewer tokens left nothing fits."""

_PATIENCE = 12
"""After so many that do not fit no further one is tried."""

_MISSED = 6
_DAY = 86_400
_WORD = re.compile(r"\w{3,}|\d+")
_SAME = 0.9
_FEWEST = 4


class SelectedPassage(NamedTuple):
    """One passage that was considered."""

    number: int
    part: int
    score: float
    tokens: int
    reasons: tuple[str, ...]
    """What speaks for it most; or the one thing that kept it out."""


@dataclass(frozen=True, slots=True)
class PassageSelection:
    """What fits the budget."""

    text: str = ""
    tokens: int = 0
    chosen: tuple[SelectedPassage, ...] = ()
    """Best first."""
    missed: tuple[SelectedPassage, ...] = ()
    """What came next, best first."""


def select_passages(
    index: Index, ranking: Ranking, text_of: TextOf, budget: int, count: CountTokens
) -> PassageSelection:
    """The best hits that fit, under a heading for each day or group; never more than `budget` tokens."""
    filling = _filled(index, ranking, text_of, budget, count)
    text, tokens = filling.trim(budget)
    return PassageSelection(text, tokens, *filling.result())


def choose(
    index: Index, ranking: Ranking, text_of: TextOf, budget: int, count: CountTokens
) -> tuple[tuple[SelectedPassage, ...], tuple[SelectedPassage, ...]]:
    """What a pack would hold and what it would miss, best first, line by line: for whoever renders it otherwise."""
    return _filled(index, ranking, text_of, budget, count).result()


def _filled(index: Index, ranking: Ranking, text_of: TextOf, budget: int, count: CountTokens) -> "_Filling":
    filling = _Filling(index, ranking, text_of, count)
    for hits, share in _slices(index, ranking):
        filling.fill(hits, budget, round(budget * share))
    return filling


def _slices(index: Index, ranking: Ranking) -> list[tuple[Sequence[RankedPassage], float]]:
    """Who gets how much of the budget, one after the other; the last one gets what is left."""
    hits = ranking.hits
    if not index.answers_at_length:
        return [(hits, 1.0)]
    user = [hit for hit in hits if index.role(hit.place) == "user"]
    standing = [hit for hit in user if index.signs[hit.place] & TextFeature.STANDING]
    answers = [hit for hit in hits if index.role(hit.place) == "assistant"]
    return [(standing, STANDING), (user, 1 - STANDING - ANSWERS), (answers, ANSWERS), (hits, 1.0)]


@dataclass(slots=True)
class _Line:
    hit: RankedPassage
    heading: str
    text: str
    tokens: int
    passage: str


@dataclass(slots=True)
class _Filling:
    index: Index
    ranking: Ranking
    text_of: TextOf
    count: CountTokens
    known: dict[int, _Line | None] = field(default_factory=dict)
    """The lines of hits that were read, None for one without a text."""
    lines: list[_Line] = field(default_factory=list)
    missed: dict[int, tuple[RankedPassage, str]] = field(default_factory=dict)
    used: int = 0
    headings: dict[str, int] = field(default_factory=dict)
    said: dict[str, list[frozenset[str]]] = field(default_factory=dict)
    taken: set[int] = field(default_factory=set)

    def fill(self, hits: Iterable[RankedPassage], budget: int, share: int) -> None:
        """Take what fits, best first, until a share of the budget is used up."""
        limit = min(budget, self.used + share)
        misfits = 0
        for hit in hits:
            if limit - self.used < _LEAST or misfits >= _PATIENCE:
                self._miss(hit, "no room was left")
                if len(self.missed) >= _MISSED:
                    return
            elif hit.place not in self.taken:
                misfits += not self._take(hit, limit)

    def _take(self, hit: RankedPassage, limit: int) -> bool:
        """Take a hit if it fits; whether there was nothing to say about room."""
        line = self._line(hit)
        if line is None:
            return True
        heading = line.heading
        more = line.tokens + (self.count(heading) if heading and heading not in self.headings else 0)
        if self.used + more > limit:
            self._miss(hit, "it did not fit")
            return False
        terms = _said_in(line.passage)
        if self._is_said(terms):
            self._miss(hit, "nearly the same is there")
            return True
        self.missed.pop(hit.place, None)
        self.headings[heading] = self.headings.get(heading, 0) + 1
        self.lines.append(line)
        self.taken.add(hit.place)
        self.used += more
        for end in _ends(terms):
            self.said.setdefault(end, []).append(terms)
        return True

    def _line(self, hit: RankedPassage) -> _Line | None:
        if hit.place not in self.known:
            text, line = self.text_of(hit.number, hit.part), None
            if text is not None and text.strip():
                told = f"{self.index.speaker(hit.place)}: {_indented(text)}\n"
                line = _Line(hit, _heading(self.index, hit.place), told, self.count(told), text)
            self.known[hit.place] = line
        return self.known[hit.place]

    def _is_said(self, terms: frozenset[str]) -> bool:
        """Whether a text with nearly the same words is taken; such texts begin or end alike in the alphabet."""
        if len(terms) < _FEWEST:
            return False
        others = (other for end in _ends(terms) for other in self.said.get(end, ()))
        return any(_alike(terms, other) for other in others)

    def _miss(self, hit: RankedPassage, why: str) -> None:
        if hit.place not in self.taken:
            self.missed.setdefault(hit.place, (hit, why))

    def trim(self, budget: int) -> tuple[str, int]:
        """What was taken as one text, without the worst of it should that be longer than its lines; and its tokens."""
        text = _rendered(self.lines)
        tokens = self.count(text) if text else 0
        while self.lines and tokens > budget:
            worst = min(self.lines, key=lambda line: (line.hit.score, line.hit.place))
            self.lines.remove(worst)
            self.missed[worst.hit.place] = (worst.hit, "it did not fit")
            text = _rendered(self.lines)
            tokens = self.count(text) if text else 0
        return text, tokens

    def result(self) -> tuple[tuple[SelectedPassage, ...], tuple[SelectedPassage, ...]]:
        missed = sorted(self.missed.values(), key=lambda each: (-each[0].score, -each[0].place))[:_MISSED]
        chosen = sorted(self.lines, key=lambda line: (-line.hit.score, -line.hit.place))
        return (
            tuple(_packed(line.hit, line.tokens, self.ranking.reasons(line.hit)) for line in chosen),
            tuple(_packed(hit, 0, (why,)) for hit, why in missed),
        )


def _packed(hit: RankedPassage, tokens: int, reasons: tuple[str, ...]) -> SelectedPassage:
    return SelectedPassage(hit.number, hit.part, hit.score, tokens, reasons)


def _ends(terms: frozenset[str]) -> tuple[str, ...]:
    return (min(terms), max(terms)) if terms else ()


def _rendered(lines: Iterable[_Line]) -> str:
    """The lines in the order they were said, each heading once for those in a row."""
    parts: list[str] = []
    heading = ""
    for line in sorted(lines, key=lambda line: line.hit.place):
        if line.heading != heading:
            heading = line.heading
            parts.append(heading)
        parts.append(line.text)
    return "".join(parts)


def _alike(terms: frozenset[str], other: frozenset[str]) -> bool:
    fewer, more = sorted((len(terms), len(other)))
    return fewer >= _SAME * more and len(terms & other) >= _SAME * len(terms | other)


@lru_cache(maxsize=512)
def _said_in(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(text.lower()) if text.isascii() else terms_of(text))


def _heading(index: Index, place: int) -> str:
    """The day, else the group."""
    time = index.times[place]
    if time:
        return _day(time // _DAY)
    group = index.groups[index.group_of(place)]
    return f"## {' '.join(group.split())}\n" if group else ""


@lru_cache(maxsize=4096)
def _day(number: int) -> str:
    return f"## {datetime.fromtimestamp(number * _DAY, UTC):%Y-%m-%d}\n"


def _indented(text: str) -> str:
    """The text such that no line of it can pass for a heading or another speaker."""
    return text.strip().replace("\n", "\n  ")
