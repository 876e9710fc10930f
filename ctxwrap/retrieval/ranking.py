"""Ranking: how much each document matters for a query, as a weighted sum of evidence.

How old something is never counts against it. The weights were fitted to what people ask about conversations; where
messages are long their neighbours tell little, so the weights move towards those of `LONG`.
"""

from typing import TYPE_CHECKING, NamedTuple

from ctxwrap.retrieval.index import Index

if TYPE_CHECKING:
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


class Hit(NamedTuple):
    """A document and what speaks for it."""

    place: int
    number: int
    part: int
    score: float


class Ranking:
    """The documents that matter most for a query, best first; of equals the newer comes first."""

    def __init__(self, index: Index, text: str, limit: int = 300, vectors: "Vectors | None" = None) -> None:
        # numpy takes a tenth of a second to import: whoever never searches does not wait for it
        import numpy as np

        from ctxwrap.retrieval.evidence import Evidence

        evidence, weights = Evidence(index, text, vectors), weights_for(index)
        self._names = list(evidence.columns)
        self._counted = np.empty((len(self._names), len(evidence.looking.places)))
        """What each kind of evidence adds to each score."""
        for row, name in zip(self._counted, self._names, strict=True):
            np.multiply(evidence.columns[name], weights[name], out=row)
        scores = np.add.reduce(self._counted)
        ranked = np.argsort(scores, kind="stable")[::-1][:limit]
        places: list[int] = evidence.looking.places[ranked].tolist()
        numbers, parts = [index.numbers[place] for place in places], [index.parts[place] for place in places]
        self.hits = list(map(Hit, places, numbers, parts, scores[ranked].tolist()))
        self._at = dict(zip(places, ranked.tolist(), strict=True))

    def relevant(self, share: float) -> list[Hit]:
        """The hits for which it speaks what is said in them or around them: so much of what speaks for the best.

        Who speaks, and how, tells hits apart; by itself it makes none.
        """
        told = self._counted[[at for at, name in enumerate(self._names) if name in _TELLING]].sum(axis=0)
        counts = [float(told[self._at[hit.place]]) for hit in self.hits]
        least = share * max(counts, default=0.0)
        return [hit for hit, count in zip(self.hits, counts, strict=True) if count > 0 and count >= least]

    def reasons(self, hit: Hit) -> tuple[str, ...]:
        """The kinds of evidence that count most for a hit, the first one most of all."""
        counted = zip(self._counted[:, self._at[hit.place]].tolist(), self._names, strict=True)
        best = sorted((-value, name) for value, name in counted if value > 0)[:3]
        return tuple(name for _, name in best)


def weights_for(index: Index) -> dict[str, float]:
    """The weights by how long the documents are on average."""
    average = index.words / len(index) if len(index) else 0.0
    long = min(1.0, max(0.0, (average - _SHORT_WORDS) / (_LONG_WORDS - _SHORT_WORDS)))
    return {name: (1 - long) * weight + long * LONG[name] for name, weight in WEIGHTS.items()}
