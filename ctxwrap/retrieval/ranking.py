"""Ranking: how much each document matters for a query, as a weighted sum of evidence.

How old something is never counts against it. The weights were fitted to what people ask about conversations; where
messages are long their neighbours tell little, so the weights move towards those of `LONG`.
"""

from typing import TYPE_CHECKING, NamedTuple, Protocol

from ctxwrap.retrieval.index import Index

if TYPE_CHECKING:
    from ctxwrap.retrieval.scan import Ints
    from ctxwrap.retrieval.vectors import Vectors

WEIGHTS = {
    "words": 1.12,
    "cover": 0.17,
    "before": 0.65,
    "around": 3.11,
    "group": 1.19,
    "forms": 2.25,
    "forms around": 1.72,
    "topic": 1.48,
    "topic around": 0.55,
    "speaker": 0.94,
    "month": 3.5,
    "day": 7.14,
    "question": -0.54,
    "asks": -0.1,
    "answers": 0.66,
    "answers words": 0.44,
    "first person": 0.38,
    "time": 1.27,
    "figure": 1.06,
    "title": 1.08,
    "name": 0.21,
    "place": 0.77,
    "length": 0.1,
    "opens": 0.98,
    "meaning": 3.0,
    "meaning around": 4.5,
}
"""What each kind of evidence counts where turns are short."""

LONG = WEIGHTS | {
    "words": 5.0,
    "cover": 4.0,
    "before": 0.2,
    "around": 0.6,
    "group": 0.3,
    "forms around": 0.2,
    "topic around": 0.1,
    "answers": 0.2,
    "meaning around": 0.5,
    "opens": 0.0,
    "length": 0.5,
}
"""What it counts where they are long."""

_SHORT_WORDS, _LONG_WORDS = 20, 40
"""Up to so many telling words on average turns are short, and from so many on they are long."""


_TELLING = frozenset(
    {"words", "cover", "around", "before", "forms", "forms around", "topic", "topic around", "month", "day"}
    | {"answers words", "meaning", "meaning around"}
)
"""Evidence of what is said, not of who says it and how."""


class RankedPassage(NamedTuple):
    """A document and what speaks for it."""

    place: int
    number: int
    part: int
    score: float


class Left(Protocol):
    """Numbers of messages that are passed over, if any."""

    def __bool__(self) -> bool: ...

    def __contains__(self, number: int) -> bool: ...


class Ranking:
    """The documents that matter most for a query, best first; of equals the newer comes first."""

    def __init__(self, index: Index, text: str, limit: int = 300, vectors: "Vectors | None" = None) -> None:
        # numpy takes a tenth of a second to import: whoever never searches does not wait for it
        import numpy as np

        from ctxwrap.retrieval.features import FeatureMatrix

        evidence, weights = FeatureMatrix(index, text, vectors), weights_for(index)
        self._names = sorted(evidence.columns)
        self._places = evidence.looking.places
        self._numbers, self._parts = (evidence.looking.gathered(name) for name in ("numbers", "parts"))
        self._counted = np.empty((len(self._names), len(self._places)))
        """What each kind of evidence adds to each score."""
        for row, name in zip(self._counted, self._names, strict=True):
            np.multiply(evidence.columns[name], weights[name], out=row)
        self._scores = np.add.reduce(self._counted)
        self._ranked = np.argsort(self._scores, kind="stable")[::-1][:limit]
        self._hits: list[RankedPassage] | None = None

    @property
    def hits(self) -> list[RankedPassage]:
        if self._hits is None:
            self._hits = self._hits_at(self._ranked)
        return self._hits

    @hits.setter
    def hits(self, hits: list[RankedPassage]) -> None:
        self._ranked = self._places.searchsorted([hit.place for hit in hits])
        self._hits = hits

    def _hits_at(self, ranked: "Ints") -> list[RankedPassage]:
        columns = (self._places, self._numbers, self._parts, self._scores)
        return list(map(RankedPassage, *(column[ranked].tolist() for column in columns)))

    def leave_out(self, below: int, left: Left) -> None:
        """Keep only messages of lower numbers than `below` that are not `left`."""
        numbers = self._numbers[self._ranked]
        kept = numbers < below
        if left:
            kept &= [number not in left for number in numbers.tolist()]
        self._ranked, self._hits = self._ranked[kept], None

    def relevant(self, share: float, limit: int | None = None) -> list[RankedPassage]:
        """The first hits for which it speaks what is said in them or around them: so much of what speaks for the best.

        Who speaks, and how, tells hits apart; by itself it makes none.
        """
        rows = [at for at, name in enumerate(self._names) if name in _TELLING]
        told = self._counted[rows].sum(axis=0)[self._ranked]
        least = share * told.max(initial=0.0)
        return self._hits_at(self._ranked[(told > 0) & (told >= least)][:limit])

    def reasons(self, hit: RankedPassage) -> tuple[str, ...]:
        """The kinds of evidence that count most for a hit, the first one most of all."""
        counted = self._counted[:, self._places.searchsorted(hit.place)]
        best = (-counted).argsort(kind="stable")[:3].tolist()
        return tuple(self._names[at] for at in best if counted[at] > 0)


def weights_for(index: Index) -> dict[str, float]:
    """The weights by how long the documents are on average."""
    average = index.words / len(index) if len(index) else 0.0
    long = min(1.0, max(0.0, (average - _SHORT_WORDS) / (_LONG_WORDS - _SHORT_WORDS)))
    return {name: (1 - long) * weight + long * LONG[name] for name, weight in WEIGHTS.items()}
