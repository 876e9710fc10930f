"""Ranks passages for a query by a weighted sum of features.

Age never lowers a score. The weights were fitted to questions about conversations. Where messages are long, neighbours
say little, so the weights shift towards `LONG`. Then the question and its answer are brought together (`paired`), and
passages that share rare words with the best ones are raised (`follow`).
"""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from math import inf
from operator import neg
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from ctxwrap.retrieval.features import FeatureMatrix, Flags
from ctxwrap.retrieval.hops import BEST, second_hop
from ctxwrap.retrieval.index import Index
from ctxwrap.retrieval.layout import Ints
from ctxwrap.retrieval.passages import TextFeature
from ctxwrap.retrieval.scan import FeatureColumn

if TYPE_CHECKING:
    from ctxwrap.retrieval.vectors import Vectors

WEIGHTS = {
    "words": 1.2,
    "rank": 1.2,
    "cover": 0.3,
    "before": 0.65,
    "around": 3.11,
    "group": 1.19,
    "speaker": 0.94,
    "month": 3.5,
    "day": 7.14,
    "question": -0.54,
    "answers": 0.66,
    "time": 1.27,
    "figure": 1.06,
    "title": 1.08,
    "place": 0.77,
    "opens": 0.9,
    "gap": -1e9,
    "hop": 0.7,
    "meaning": 3.0,
    "meaning around": 4.5,
}
"""Weights for short turns; a gap between passages is never a hit."""

LONG = {
    "words": 5.0,
    "rank": 0.0,
    "cover": 8.0,
    "before": 0.2,
    "around": 0.0,
    "group": 0.0,
    "speaker": 0.94,
    "month": 3.5,
    "day": 7.14,
    "question": 0.0,
    "answers": 0.0,
    "time": 0.0,
    "figure": 0.0,
    "title": 0.0,
    "place": 0.0,
    "opens": 0.0,
    "gap": -1e9,
    "hop": 0.7,
    "meaning": 3.0,
    "meaning around": 0.5,
}
"""Weights for long turns: a passage speaks for itself."""

_SHORT_WORDS, _LONG_WORDS = 20, 40
"""Average terms per passage up to which turns are short, and from which they are long."""


_SHORT_MARGIN, _LONG_MARGIN = 5.5, 7.0
"""Hits that score this much less than the best are not relevant: a question has few answers."""

_CLOSE_MEANING = 0.8
"""Passages with at least this share of the closest meaning are kept."""

_TOKENS_PER_TERM, _TOKENS_PER_LINE = 2.0, 5
_LEAST_HITS, _MAX_HITS, _SPARE = 200, 2000, 6


TextOf = Callable[[int, int], str | None]
"""Returns the text of a passage by message number and part, or None if it is gone."""


class RankedPassage(NamedTuple):
    """A passage with its score."""

    place: int
    number: int
    part: int
    score: float


_ranked_passage: Callable[[tuple[int, int, int, float]], RankedPassage] = partial(tuple.__new__, RankedPassage)
"""Like `_make`, without a call in Python for each of the hits."""


class ExcludedMessages(Protocol):
    """Message numbers to leave out."""

    def __bool__(self) -> bool: ...

    def __contains__(self, number: int) -> bool: ...


class Ranking:
    """The best passages for a query; among equals the newer first."""

    def __init__(
        self,
        index: Index,
        text: str,
        limit: int = 300,
        vectors: "Vectors | None" = None,
        now: int = 0,
        end: int | None = None,
    ) -> None:
        """Rank the passages before the place `end`, as if there were no others."""
        self._end = len(index) if end is None else end
        self._evidence, self._limit = FeatureMatrix(index, text, vectors, now, limit // 2, self._end), limit
        self._layout, self._names = self._evidence.scan.layout, self._evidence.names
        weights, self._margin = _weights_at(self._evidence.lookup.average_length)
        self._weights = weights
        self._counted = self._evidence.values
        """What each feature that is no property counts for the score of each slot."""
        self._counted *= _weight_column(self._evidence.lookup.average_length, tuple(self._names))
        self._scores = self._evidence.score_properties(weights) + np.add.reduce(self._counted, 0)
        self._evidence.pair(self._scores)
        self._hop: FeatureColumn | None = None
        self._kept: Flags | None = None
        self._sorted: Ints | None = None
        self._hits: list[RankedPassage] | None = None

    @property
    def _ranked(self) -> Ints:
        """Slots of the hits, best first."""
        if self._sorted is None:
            ranked = (self._scores + self._evidence.scan.steps).argsort()[: -self._evidence.passages - 1 : -1]
            if self._kept is not None:
                ranked = ranked[self._kept[ranked]]
            self._sorted, rest = ranked[: self._limit], ranked[self._limit :]
            if len(rest) and self._evidence.answers_at_length:
                # standing instructions have a share of the budget of their own, whatever the question
                stands = self._layout.marks[rest] & TextFeature.STANDING != 0
                self._sorted = np.concatenate((self._sorted, rest[stands]))
        return self._sorted

    @property
    def hits(self) -> list[RankedPassage]:
        if self._hits is None:
            self._hits = self._hits_at(self._ranked)
        return self._hits

    def best_numbers(self, count: int) -> list[int]:
        """Return the message numbers of the best hits."""
        numbers = self._evidence.index.numbers
        return [numbers[place] for place in self._layout.places[self._ranked[:count]].tolist()]

    def _hits_at(self, ranked: Ints) -> list[RankedPassage]:
        numbers, parts = self._evidence.index.numbers, self._evidence.index.parts
        rows = zip(self._layout.places[ranked].tolist(), self._scores[ranked].tolist(), strict=True)
        return [_ranked_passage((place, numbers[place], parts[place], score)) for place, score in rows]

    def leave_out(self, below: int, left: ExcludedMessages) -> None:
        """Keep only messages numbered lower than `below` and not in `left`."""
        numbers = self._evidence.index.numbers
        end = bisect_left(numbers, below)
        if end < self._end or left:
            kept = [place < end and numbers[place] not in left for place in self._layout.places.tolist()]
            self._kept = np.array(kept, bool)
            self._sorted = self._hits = None

    def follow(self, text_of: TextOf) -> None:
        """Raise passages that share rare words with the best hits: what they name may be told in another place."""
        best, index = self._ranked[:BEST], self._evidence.index
        texts = [text_of(index.numbers[place], index.parts[place]) for place in self._layout.places[best].tolist()]
        column = second_hop(self._evidence, best, self._scores[best].tolist(), texts)
        if column is not None:
            self._hop = column.astype(float) * self._weights["hop"]
            self._scores += self._hop
            self._sorted = self._hits = None

    def related(self) -> list[RankedPassage]:
        """Return the hits that have anything in common with the query.

        That is in what they say or what is said around them. Who speaks and how only orders hits.
        """
        return self._hits_at(self._ranked[self._are_related(self._ranked)])

    def relevant(self, limit: int) -> list[RankedPassage]:
        """Return the best related hits whose scores are close to the best one's."""
        ranked = self._ranked
        if not len(ranked):
            return []
        least = max(0.0, self._scores.item(ranked.item(0))) - self._margin
        if "meaning" in self._names:
            # scores add up words and meaning, so a passage without a common word is far below one that has some
            meaning = self._counted[self._names.index("meaning")][ranked]
            is_close = (meaning > 0) & (meaning >= _CLOSE_MEANING * meaning.max(initial=0.0))
            ranked = ranked[is_close | (self._scores[ranked] >= least)]
            least = -inf
        best = ranked[:limit]
        best = best[self._scores[best] >= least]
        if 0.0 in self._counted[self._names.index("around")][best].tolist():  # else all are related, as is usual
            best = ranked[self._are_related(ranked)][:limit]
            best = best[self._scores[best] >= least]
        return self._hits_at(best)

    def _are_related(self, ranked: Ints) -> Flags:
        most = np.maximum.reduce(self._counted[self._names.index("words") :], 0)
        related: Flags = (most if self._hop is None else most + self._hop)[ranked] > 0
        return related

    def reasons(self, hits: Sequence[RankedPassage]) -> list[tuple[str, ...]]:
        """Return for each hit the features that contribute most, in descending order."""
        names, slots, counted, hop = self._names, self._layout.slots, self._counted, self._hop
        found = []
        for place, _, _, _ in hits:
            slot = slots.item(place)
            most = [*zip(map(neg, counted[:, slot].tolist()), names, strict=True), *self._evidence.properties_of(slot)]
            if hop is not None:
                most.append((-hop.item(slot), "hop"))
            most.sort()
            found.append(tuple([name for value, name in most[:3] if value < 0]))
        return found


def hits_for(index: Index, budget: int, end: int | None = None) -> int:
    """Return how many hits can fill a budget of tokens, with some to spare."""
    average = index.average_length(len(index) if end is None else end)
    tokens = _TOKENS_PER_TERM * average + _TOKENS_PER_LINE
    return min(_MAX_HITS, max(_LEAST_HITS, round(_SPARE * budget / tokens)))


def weights_for(index: Index, end: int | None = None) -> tuple[dict[str, float], float]:
    """Interpolate the weights, and the margin of relevant hits, by average passage length."""
    return _weights_at(index.average_length(len(index) if end is None else end))


@lru_cache(maxsize=64)
def _weights_at(average: float) -> tuple[dict[str, float], float]:
    long = min(1.0, max(0.0, (average - _SHORT_WORDS) / (_LONG_WORDS - _SHORT_WORDS)))
    weights = {name: (1 - long) * weight + long * LONG[name] for name, weight in WEIGHTS.items()} if long else WEIGHTS
    return weights, (1 - long) * _SHORT_MARGIN + long * _LONG_MARGIN


@lru_cache(maxsize=64)
def _weight_column(average: float, names: tuple[str, ...]) -> FeatureColumn:
    weights, _ = _weights_at(average)
    return np.array([[weights[name]] for name in names])
