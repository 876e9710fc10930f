"""Looking: which documents are worth a closer look, and where among them the terms are."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ctxwrap.retrieval.lookup import Ints, Lookup, Term, between

Column = NDArray[Any]

K1, _B = 0.9, 0.4
_HITS = 90
"""So many of the best documents by their own words are looked at, with their neighbours."""

_READ = 30_000
"""Of the terms, the rarest first, so many places are read to find these; further ones hardly lift a document up."""

_FEW = 1000
"""With more places read nothing else is looked for than what was asked for."""

_OTHERS = 0.3
"""What other words count beside those asked for."""

_MANY = 4000
"""Of terms that more documents have only the places within what is looked at are read."""

_TRIES, _LOWER = 6, 0.75
"""How often the border of what is high is lowered, and how far."""

_ALL = 720
"""Up to so many documents all are looked at."""

REACH = 4
"""So far neighbours reach."""


class Looking:
    """Documents in blocks of neighbours, each block within one group; `at` is a place among them."""

    def __init__(
        self,
        lookup: Lookup,
        terms: Sequence[Term],
        others: Sequence[Term] = (),
        topics: Sequence[tuple[float, int]] = (),
        also: Sequence[int] = (),
    ) -> None:
        """Looks for `terms`, for `others` and `topics` where these are in few documents, and at the places `also`."""
        self.lookup, self.terms = lookup, terms
        index = lookup.index
        self._count = len(index)
        average = index.words / self._count if self._count else 1.0
        self._norms = (K1 * (1 - _B + _B / (average or 1.0) * _LENGTHS)).astype(np.float32)
        opening = lookup.column("group_starts").astype(np.int64)
        groups: Ints = np.arange(len(opening))
        starts, ends = opening, np.append(opening, self._count)[1:]
        if self._count > _ALL:
            best = np.union1d(self._best(others, topics), np.array(also, np.int64))
            groups = np.searchsorted(opening, best, side="right") - 1
            starts, ends = np.maximum(best - REACH, starts[groups]), np.minimum(best + REACH + 1, ends[groups])
            starts, ends, groups = _joined(starts, ends, groups)
        self._lay_out(starts, ends, groups)
        self.opening = self.firsts[starts == opening[groups]]
        """Where a group begins."""

    def _lay_out(self, starts: Ints, ends: Ints, groups: Ints) -> None:
        """Put the blocks one after the other; in `slots` they are so far apart that no neighbour reaches another."""
        self._edges = np.column_stack((starts, ends)).astype(np.int32).ravel()
        sizes = ends - starts
        self.firsts: Ints = np.cumsum(sizes) - sizes
        """Where each block begins."""
        self.places: Ints = between(starts, ends)
        self.groups: Ints = np.repeat(groups, sizes)
        """The group of each document."""
        apart = np.repeat(np.arange(REACH, REACH * len(sizes) + 1, REACH), sizes)
        self.slots: Ints = apart + np.arange(len(self.places))
        self.width = len(self.places) + REACH * (len(sizes) + 1)
        self.lengths = self.gathered("lengths")
        self._slot_of = np.zeros(self._count, np.int32)
        self._slot_of[self.places] = self.slots
        self._norm_of = np.ones(self.width, np.float32)
        self._norm_of[self.slots] = self._norms[self.lengths]

    def gathered(self, name: str) -> Ints:
        """What a column of the index has for the documents looked at."""
        return self.lookup.column(name)[self.places]

    def rows(self, count: int) -> Column:
        """Empty rows with a slot for each document."""
        return np.zeros((count, self.width), np.float32)

    def slots_with(self, terms: Sequence[Term]) -> tuple[Ints, Ints, Ints]:
        """Where among the slots the terms are: which of them, where, and how often."""
        rows, places, counts = self.lookup.gathered_within(terms, self._edges, _MANY)
        slots = self._slot_of[places]
        if len(self.places) == self._count:
            return rows, slots, counts
        here = slots.nonzero()[0]
        return rows[here], slots[here], counts[here]

    def hits(self) -> Column:
        """How much each of the documents says of each term."""
        rows = self.rows(len(self.terms))
        which, slots, counts = self.slots_with(self.terms)
        rows[which, slots] = np.float32(K1 + 1) * counts / (counts + self._norm_of[slots])
        return rows

    def _best(self, others: Sequence[Term], topics: Sequence[tuple[float, int]]) -> Ints:
        """The documents that say most of the terms, of equals the newer.

        How often a document has a term is left for the closer look.
        """
        read, weights, count = list[Term](), list[float](), 0
        for term in sorted(self.terms, key=_rarest_first):
            if read and count + term.having > _READ:
                break
            read.append(term)
            weights.append(term.rarity)
            count += term.having
        more: list[tuple[float, str, Term | int]] = [(term.rarity, term.term, term) for term in others]
        more += [(rare, "", topic) for rare, topic in topics]
        of_topics: list[tuple[float, Ints]] = []
        for rare, _, other in sorted(more, key=lambda each: each[:2], reverse=True):
            if count > _FEW:
                break
            if isinstance(other, Term):
                read.append(other)
                weights.append(_OTHERS * rare)
                count += other.having
            else:
                of_topics.append((_OTHERS * rare, self._of_topic(other)))
                count += len(of_topics[-1][1])
        lengths, worth = self.lookup.column("lengths"), 1 / (1 + self._norms)
        rows, places, _ = self.lookup.gathered(read)
        scores: Column = np.bincount(
            places, np.array(weights, float)[rows] * worth[lengths[places]], minlength=self._count
        )
        for rare, places in of_topics:
            scores[places] += rare * worth[lengths[places]]
        return _best_places(scores)

    def _of_topic(self, topic: int) -> Ints:
        return np.flatnonzero(self.lookup.column("topics") & np.uint64(1 << topic))


_LENGTHS = np.arange(256)


def _best_places(scores: Column) -> Ints:
    """Where the highest scores are; of equals the last."""
    places = _high_places(scores)
    found = scores[places]
    if len(found) <= _HITS:
        return places
    least = np.partition(found, -_HITS)[-_HITS]
    above = places[found > least]
    return np.concatenate((above, places[found == least][len(above) - _HITS :]))


def _high_places(scores: Column) -> Ints:
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
