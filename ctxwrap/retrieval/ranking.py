"""Ranks passages for a query by a weighted sum of features.

Age never lowers a score. The weights were fitted to questions about conversations. Where messages are long, neighbours
say little, so the weights shift towards `LONG`. Then the question and its answer are brought together (`paired`), and
passages that share rare words with the best ones are raised (`follow`).
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, Protocol

from ctxwrap.retrieval.index import Index
from ctxwrap.retrieval.passages import TextFeature

if TYPE_CHECKING:
    from ctxwrap.retrieval.features import Flags
    from ctxwrap.retrieval.lookup import Ints
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
    "hop": 0.7,
    "meaning": 3.0,
    "meaning around": 4.5,
}
"""Weights for short turns."""

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
    "hop": 0.7,
    "meaning": 3.0,
    "meaning around": 0.5,
}
"""Weights for long turns: a passage speaks for itself."""

_SHORT_WORDS, _LONG_WORDS = 20, 40
"""Average terms per passage up to which turns are short, and from which they are long."""


_SHORT_MARGIN, _LONG_MARGIN = 5.5, 7.0
"""Hits that score this much less than the best are not relevant: a question has few answers."""

_TINY = 1e-9
"""Added per passage when sorting, so that the newer of equals comes first."""

_CLOSE_MEANING = 0.8
"""Passages with at least this share of the closest meaning are kept."""

_TOKENS_PER_TERM, _TOKENS_PER_LINE = 2.0, 5
_LEAST_HITS, _MAX_HITS, _SPARE = 200, 2000, 6


_CONTENT_FEATURES = frozenset(
    {"words", "rank", "cover", "around", "before", "hop", "month", "day", "meaning", "meaning around"}
)
"""Features of what is said, as opposed to who says it and how."""


TextOf = Callable[[int, int], str | None]
"""Returns the text of a passage by message number and part, or None if it is gone."""


class RankedPassage(NamedTuple):
    """A passage with its score."""

    place: int
    number: int
    part: int
    score: float


class ExcludedMessages(Protocol):
    """Message numbers to leave out."""

    def __bool__(self) -> bool: ...

    def __contains__(self, number: int) -> bool: ...


class Ranking:
    """The best passages for a query; among equals the newer first."""

    def __init__(
        self, index: Index, text: str, limit: int = 300, vectors: "Vectors | None" = None, now: int = 0
    ) -> None:
        # importing numpy takes 0.1 s, which callers that never search should not pay
        import numpy as np

        from ctxwrap.retrieval.features import FeatureMatrix

        self._evidence, self._limit = FeatureMatrix(index, text, vectors, now, limit // 2), limit
        weights, self._margin = weights_for(index)
        columns = self._evidence.columns
        self._names = [*sorted(columns), "hop"]
        self._hop_weight = weights["hop"]
        self._places = self._evidence.scan.places
        self._numbers, self._parts = (self._evidence.scan.column(name) for name in ("numbers", "parts"))
        self._counted = np.zeros((len(self._names), len(self._places)))
        """The contribution of each feature to each score."""
        for row, name in zip(self._counted, self._names[:-1], strict=False):
            np.multiply(columns[name], weights[name], out=row)
        self._scores = self._evidence.paired(self._counted.sum(axis=0))
        self._order = np.arange(len(self._places)) * _TINY
        self._kept: Flags | None = None
        self._sorted: Ints | None = None
        self._hits: list[RankedPassage] | None = None

    @property
    def _ranked(self) -> "Ints":
        """Positions of the hits, best first."""
        if self._sorted is None:
            ranked = (self._scores + self._order).argsort()[::-1]
            if self._kept is not None:
                ranked = ranked[self._kept[ranked]]
            self._sorted, rest = ranked[: self._limit], ranked[self._limit :]
            if len(rest) and self._evidence.index.answers_at_length:
                import numpy as np

                # standing instructions have a share of the budget of their own, whatever the question
                stands = self._evidence.scan.column("features")[rest] & TextFeature.STANDING != 0
                self._sorted = np.concatenate((self._sorted, rest[stands]))
        return self._sorted

    @property
    def hits(self) -> list[RankedPassage]:
        if self._hits is None:
            self._hits = self._hits_at(self._ranked)
        return self._hits

    @hits.setter
    def hits(self, hits: list[RankedPassage]) -> None:
        self._sorted = self._places.searchsorted([hit.place for hit in hits])
        self._hits = hits

    def best(self, count: int) -> list[RankedPassage]:
        return self._hits_at(self._ranked[:count])

    def _hits_at(self, ranked: "Ints") -> list[RankedPassage]:
        columns = (self._places, self._numbers, self._parts, self._scores)
        return list(map(RankedPassage._make, zip(*(column[ranked].tolist() for column in columns), strict=True)))

    def leave_out(self, below: int, left: ExcludedMessages) -> None:
        """Keep only messages numbered lower than `below` and not in `left`."""
        self._kept = self._numbers < below
        if left:
            self._kept &= [number not in left for number in self._numbers.tolist()]
        self._sorted = self._hits = None

    def follow(self, text_of: TextOf) -> None:
        """Raise passages that share rare words with the best hits: what they name may be told in another place."""
        from ctxwrap.retrieval.hops import BEST, second_hop

        hits = self.best(BEST)
        texts = [text_of(hit.number, hit.part) for hit in hits]
        column = second_hop(self._evidence, self._ranked[:BEST], [hit.score for hit in hits], texts)
        if column is not None:
            self._counted[-1] = self._hop_weight * column
            self._scores += self._counted[-1]
            self._sorted = self._hits = None

    def related(self) -> list[RankedPassage]:
        """Return the hits that have anything in common with the query.

        That is in what they say or what is said around them. Who speaks and how only orders hits.
        """
        return self._hits_at(self._ranked[self._is_related(self._ranked)])

    def relevant(self, limit: int) -> list[RankedPassage]:
        """Return the best related hits whose scores are close to the best one's."""
        ranked = self._ranked
        scores = self._scores[ranked]
        kept = scores >= scores.max(initial=0.0) - self._margin
        if "meaning" in self._names:
            # scores add up words and meaning, so a passage without a common word is far below one that has some
            meaning = self._counted[self._names.index("meaning")][ranked]
            kept |= (meaning > 0) & (meaning >= _CLOSE_MEANING * meaning.max(initial=0.0))
        ranked = ranked[kept]
        return self._hits_at(ranked[self._is_related(ranked)][:limit])

    def _is_related(self, ranked: "Ints") -> "Flags":
        rows = [at for at, name in enumerate(self._names) if name in _CONTENT_FEATURES]
        related: Flags = self._counted[rows][:, ranked].max(axis=0, initial=0.0) > 0
        return related

    def reasons(self, hit: RankedPassage) -> tuple[str, ...]:
        """Return the features that contribute most to a hit, in descending order."""
        counted = self._counted[:, self._places.searchsorted(hit.place)]
        best = (-counted).argsort(kind="stable")[:3].tolist()
        return tuple(self._names[at] for at in best if counted[at] > 0)


def hits_for(index: Index, budget: int) -> int:
    """Return how many hits can fill a budget of tokens, with some to spare."""
    tokens = _TOKENS_PER_TERM * index.words / len(index) + _TOKENS_PER_LINE if len(index) else 1.0
    return min(_MAX_HITS, max(_LEAST_HITS, round(_SPARE * budget / tokens)))


def weights_for(index: Index) -> tuple[dict[str, float], float]:
    """Interpolate the weights, and the margin of relevant hits, by average passage length."""
    average = index.words / len(index) if len(index) else 0.0
    long = min(1.0, max(0.0, (average - _SHORT_WORDS) / (_LONG_WORDS - _SHORT_WORDS)))
    weights = {name: (1 - long) * weight + long * LONG[name] for name, weight in WEIGHTS.items()}
    return weights, (1 - long) * _SHORT_MARGIN + long * _LONG_MARGIN
