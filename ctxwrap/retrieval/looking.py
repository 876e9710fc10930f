"""Looking: which documents are worth a closer look, and where among them the terms are."""

from array import array
from collections.abc import Iterable, Sequence
from functools import cached_property
from math import log
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ctxwrap.retrieval.index import Index
from ctxwrap.retrieval.segments import Postings

Ints = NDArray[Any]
Column = NDArray[np.float64]

K1, _B = 0.9, 0.4
_HITS = 90
"""So many of the best documents by their own words are looked at, with their neighbours."""

_HARDLY = 0.6
"""A term adds hardly more than that much of its rarity."""

_COMMON = 2000
"""Terms in fewer documents are read without asking what they can add."""

_TRIES, _LOWER = 6, 0.75
"""How often the border of what is high is lowered, and how far."""

_FEW = 1000
"""With more documents found nothing else is looked for than what was asked for."""

_OTHERS = 0.3
"""What other words count beside those asked for."""

_ALL = 720
"""Up to so many documents all are looked at."""

REACH = 4
"""So far neighbours reach."""


class Term:
    """A term that documents have."""

    def __init__(self, index: Index, term: str, postings: Sequence[tuple[int, Postings]]) -> None:
        self.term = term
        self._postings = postings
        self.having = sum(len(places) for _, (places, _) in postings)
        """How many documents have it."""
        self.rarity = rarity(index, self.having)

    @cached_property
    def places(self) -> Ints:
        """Where it is, among all documents."""
        sizes = [len(places) for _, (places, _) in self._postings]
        bases = np.repeat(np.array([base for base, _ in self._postings], np.int32), sizes)
        return bases + np.frombuffer(b"".join([places for _, (places, _) in self._postings]), np.uint16)

    @cached_property
    def counts(self) -> Ints:
        """How often it is there."""
        return np.frombuffer(b"".join([counts for _, (_, counts) in self._postings]), np.uint8)


def weighed(index: Index, terms: Iterable[str]) -> list[Term]:
    """Those of the terms that documents have, with how rare they are."""
    known = ((term, index.postings(term)) for term in terms)
    return [Term(index, term, postings) for term, postings in known if postings]


def rarity(index: Index, having: int) -> float:
    return log(1 + (len(index) - having + 0.5) / (having + 0.5))


def snapshot(column: "array[int]") -> Ints:
    """A column as it is now; the column itself may grow meanwhile."""
    return np.frombuffer(column.tobytes(), column.typecode)


class Looking:
    """Documents in blocks of neighbours, each block within one group; `at` is a place among them."""

    def __init__(
        self,
        index: Index,
        terms: Sequence[Term],
        others: Sequence[Term] = (),
        topics: Sequence[tuple[float, int]] = (),
        also: Sequence[int] = (),
    ) -> None:
        """Looks for `terms`, for `others` and `topics` where these are in few documents, and at the places `also`."""
        self.index, self.terms = index, terms
        average = index.words / len(index) if len(index) else 1.0
        self._norms = K1 * (1 - _B + _B / (average or 1.0) * np.arange(256))
        opening = snapshot(index.group_starts).astype(np.int64)
        groups: Ints = np.arange(len(opening))
        starts, ends = opening, np.append(opening, len(index))[1:]
        if len(index) > _ALL:
            best = np.union1d(self._best(others, topics), np.array(also, np.int64))
            groups = np.searchsorted(opening, best, side="right") - 1
            starts, ends = np.maximum(best - REACH, starts[groups]), np.minimum(best + REACH + 1, ends[groups])
            starts, ends, groups = _joined(starts, ends, groups)
        self._lay_out(starts, ends, groups)
        self.opening = self.firsts[starts == opening[groups]]
        """Where a group begins."""

    def _lay_out(self, starts: Ints, ends: Ints, groups: Ints) -> None:
        """Put the blocks one after the other; in `slots` they are so far apart that no neighbour reaches another."""
        self._blocks = list(zip(starts.tolist(), ends.tolist(), strict=True))
        sizes = ends - starts
        self.firsts: Ints = np.cumsum(sizes) - sizes
        """Where each block begins."""
        at = np.arange(int(sizes.sum()))
        self.places: Ints = np.repeat(starts - self.firsts, sizes) + at
        self.groups: Ints = np.repeat(groups, sizes)
        """The group of each document."""
        self.slots: Ints = np.repeat(np.arange(REACH, REACH * len(sizes) + 1, REACH), sizes) + at
        self.width = len(at) + REACH * (len(sizes) + 1)
        self.lengths = self.gathered(self.index.lengths)
        self._slot_of = np.zeros(len(self.index), np.int32)
        self._slot_of[self.places] = self.slots
        self._norm_of = np.ones(self.width)
        self._norm_of[self.slots] = self._norms[self.lengths]

    def gathered(self, column: "array[int]") -> Ints:
        """What a column of the index has for the documents looked at."""
        return np.frombuffer(b"".join([column[start:end] for start, end in self._blocks]), column.typecode)

    def rows(self, count: int) -> Column:
        """Empty rows with a slot for each document."""
        return np.zeros((count, self.width))

    def slots_with(self, term: Term) -> tuple[Ints, Ints]:
        """Where among the slots a term is, and how often."""
        slots = self._slot_of[term.places]
        here = np.flatnonzero(slots)
        return slots[here], term.counts[here]

    def hits(self) -> Column:
        """How much each of the documents says of each term."""
        rows = self.rows(len(self.terms))
        for row, term in zip(rows, self.terms, strict=True):
            slots, counts = self.slots_with(term)
            row[slots] = (K1 + 1) * counts / (counts + self._norm_of[slots])
        return rows

    def _best(self, others: Sequence[Term], topics: Sequence[tuple[float, int]]) -> Ints:
        """The documents that say most of the terms, of equals the newer.

        Rare terms come first, and the common ones are not read when they can hardly lift another document up. How
        often a document has a term is left for the closer look.
        """
        scores = np.zeros(len(self.index), np.float32)
        lengths = snapshot(self.index.lengths)
        worth = 1 / (1 + self._norms)
        left = sum(term.rarity for term in self.terms)
        for term in sorted(self.terms, key=_rarest_first):
            if term.having > _COMMON and np.count_nonzero(scores > left * _HARDLY) >= _HITS:
                break
            left -= term.rarity
            scores[term.places] += term.rarity * worth[lengths[term.places]]
        more: list[tuple[float, str, Term | int]] = [(term.rarity, term.term, term) for term in others]
        more += [(rare, "", topic) for rare, topic in topics]
        for rare, _, other in sorted(more, key=lambda each: each[:2], reverse=True):
            if np.count_nonzero(scores) > _FEW:
                break
            places = other.places if isinstance(other, Term) else self._of_topic(other)
            scores[places] += _OTHERS * rare * worth[lengths[places]]
        return _best_places(scores)

    def _of_topic(self, topic: int) -> Ints:
        return np.flatnonzero(snapshot(self.index.topics) & np.uint64(1 << topic))


def _best_places(scores: NDArray[np.float32]) -> Ints:
    """Where the highest scores are; of equals the last."""
    places = _high_places(scores)
    found = scores[places]
    if len(found) <= _HITS:
        return places
    least = np.partition(found, -_HITS)[-_HITS]
    above = places[found > least]
    return np.concatenate((above, places[found == least][len(above) - _HITS :]))


def _high_places(scores: NDArray[np.float32]) -> Ints:
    """Where enough of the highest scores are, and not many more: most documents have but one common word."""
    border = float(scores.max())
    for _ in range(_TRIES):
        border *= _LOWER
        high = scores > border
        if np.count_nonzero(high) >= _HITS:
            return np.flatnonzero(high)
    return np.flatnonzero(scores)


def _joined(starts: Ints, ends: Ints, groups: Ints) -> tuple[Ints, Ints, Ints]:
    """Blocks in their order, with those that overlap made one."""
    opens = np.ones(len(starts), bool)
    opens[1:] = (starts[1:] > ends[:-1]) | (groups[1:] != groups[:-1])
    closes = np.append(opens[1:], True)[: len(starts)]
    return starts[opens], ends[closes], groups[opens]


def _rarest_first(term: Term) -> tuple[float, str]:
    return -term.rarity, term.term
