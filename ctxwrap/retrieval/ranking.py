"""Ranking: how much each document matters for a query, as a weighted sum of evidence.

How old something is never counts against it. The weights were fitted to what people ask about conversations; where
messages are long their neighbours tell little, so the weights move towards those of `LONG`.
"""

from typing import NamedTuple

from ctxwrap.retrieval.evidence import Evidence
from ctxwrap.retrieval.index import Index

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
    "opens": 0.0,
    "length": 0.5,
}
"""What it counts where they are long."""

_SHORT_WORDS, _LONG_WORDS = 20, 40
"""Up to so many telling words on average turns are short, and from so many on they are long."""


class Hit(NamedTuple):
    """A document and what speaks for it."""

    place: int
    number: int
    part: int
    score: float


class Ranking:
    """The documents that matter most for a query, best first; of equals the newer comes first."""

    def __init__(self, index: Index, text: str, limit: int = 400) -> None:
        self._evidence = Evidence(index, text)
        self._weights = weights_for(index)
        places = self._evidence.looking.places
        scores = self._scores()
        ranked = sorted(zip(scores, places, range(len(scores)), strict=True), reverse=True)[:limit]
        self.hits = [Hit(place, index.numbers[place], index.parts[place], score) for score, place, _ in ranked]
        self._at = {place: at for _, place, at in ranked}

    def _scores(self) -> list[float]:
        evidence, weights = self._evidence, self._weights
        marked = {mark: sum(weight for _, weight in self._marked(mark)) for mark in set(evidence.marks)}
        scores = [marked[mark] for mark in evidence.marks]
        for name, column in evidence.columns.items():
            weight = weights[name]
            scores = [score + weight * value for score, value in zip(scores, column, strict=True)]
        return scores

    def _marked(self, mark: int) -> list[tuple[str, float]]:
        return [(name, self._weights[name]) for name, bit in self._evidence.kinds.items() if mark & bit]

    def reasons(self, hit: Hit) -> tuple[str, ...]:
        """The kinds of evidence that count most for a hit, the first one most of all."""
        at = self._at[hit.place]
        counted = [(name, self._weights[name] * column[at]) for name, column in self._evidence.columns.items()]
        counted += self._marked(self._evidence.marks[at])
        best = sorted(counted, key=lambda each: (-each[1], each[0]))[:3]
        return tuple(name for name, value in best if value > 0)


def weights_for(index: Index) -> dict[str, float]:
    """The weights by how long the documents are on average."""
    average = index.words / len(index) if len(index) else 0.0
    long = min(1.0, max(0.0, (average - _SHORT_WORDS) / (_LONG_WORDS - _SHORT_WORDS)))
    return {name: (1 - long) * weight + long * LONG[name] for name, weight in WEIGHTS.items()}
