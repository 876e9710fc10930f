"""Selects the candidate passages of a query and gathers their postings."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ctxwrap.retrieval.lookup import Ints, Lookup, Term, between

FeatureColumn = NDArray[Any]
Entry = tuple[Term, int, float]
"""A term, the row of its query word, and its weight."""

K1, _B = 0.9, 0.4
_LEAST_BEST = 90
"""The best passages that are examined, with their neighbours, for a small budget."""

_MAX_POSTINGS = 30_000
"""Maximum postings read to find them, rarest terms first; more rarely change the result."""

_ENOUGH_POSTINGS = 1000
"""With more postings than this, other forms are not considered."""

_FORM_WEIGHT = 0.3
"""Weight of other forms relative to query terms."""

_COMMON_TERM = 4000
"""Of terms with more passages, only postings within the candidates are read."""

_THRESHOLD_STEPS, _THRESHOLD_FACTOR = 6, 0.75
"""How often the score threshold is lowered, and by what factor."""

_EXAMINE_ALL = 720
"""Up to this many passages all are examined."""

REACH = 4
"""How many passages count as neighbours on each side."""


class CandidateScan:
    """Candidate passages in blocks of neighbours, each within one group."""

    def __init__(
        self,
        lookup: Lookup,
        terms: Sequence[Term],
        others: Sequence[Term],
        also: Ints,
        most: int,
    ) -> None:
        """Look for `terms`, for `others` if few passages have them, and at the places `also`.

        Examine the best `most` passages with their neighbours.
        """
        self.lookup, self.terms = lookup, terms
        self._most = max(_LEAST_BEST, most)
        index = lookup.index
        self._count = len(index)
        average = index.words / self._count if self._count else 1.0
        self._norms = (K1 * (1 - _B + _B / (average or 1.0) * _LENGTHS)).astype(np.float32)
        opening = lookup.column("group_starts").astype(np.int64)
        groups: Ints = np.arange(len(opening))
        starts, ends = opening, np.append(opening, self._count)[1:]
        if self._count > _EXAMINE_ALL:
            best = np.union1d(self._best(others), also)
            groups = np.searchsorted(opening, best, side="right") - 1
            starts, ends = np.maximum(best - REACH, starts[groups]), np.minimum(best + REACH + 1, ends[groups])
            starts, ends, groups = _merge_blocks(starts, ends, groups)
        self._lay_out(starts, ends, groups)
        self.opening = self.firsts[starts == opening[groups]]
        """Positions where a group begins."""

    def _lay_out(self, starts: Ints, ends: Ints, groups: Ints) -> None:
        """Arrange the blocks one after another; `slots` leaves gaps so that neighbours never cross blocks."""
        self._edges = np.column_stack((starts, ends)).astype(np.int32).ravel()
        sizes = ends - starts
        self.firsts: Ints = np.cumsum(sizes) - sizes
        """The first position of each block."""
        self.places: Ints = between(starts, ends)
        self.groups: Ints = np.repeat(groups, sizes)
        """The group of each passage."""
        apart = np.repeat(np.arange(REACH, REACH * len(sizes) + 1, REACH), sizes)
        self.slots: Ints = apart + np.arange(len(self.places))
        self.width = len(self.places) + REACH * (len(sizes) + 1)
        self.lengths = self.column("lengths")
        self._slot_of = np.zeros(self._count, np.int32)
        self._slot_of[self.places] = self.slots
        self._norm_of = np.ones(self.width, np.float32)
        self._norm_of[self.slots] = self._norms[self.lengths]

    def column(self, name: str) -> Ints:
        """Return a column of the index for the candidates."""
        return self.lookup.column(name)[self.places]

    def rows(self, count: int) -> FeatureColumn:
        """Return zeroed rows with one slot per passage."""
        return np.zeros((count, self.width), np.float32)

    def slots_with(self, terms: Sequence[Term]) -> tuple[Ints, Ints, Ints]:
        """Return rows, slots and counts of the terms' postings."""
        rows, places, counts = self.lookup.postings_within(terms, self._edges, _COMMON_TERM)
        slots = self._slot_of[places]
        if len(self.places) == self._count:
            return rows, slots, counts
        here = slots.nonzero()[0]
        return rows[here], slots[here], counts[here]

    def weigh(self, entries: Sequence[Entry], meant: Sequence[Entry], count: int) -> tuple[FeatureColumn, Ints]:
        """Return the weight of each query word in each slot, by the best of its terms, and how many words it has.

        What a word may stand for has a weight, but is not the word.
        """
        both = sorted([*entries, *meant], key=_weight)  # what is assigned last stays
        which, slots, counts = self.slots_with([term for term, _, _ in both])
        rows = self.rows(count)
        weights = np.array([weight for _, _, weight in both], np.float32)[which]
        words = np.array([word for _, word, _ in both], np.intp)[which]
        rows[words, slots] = weights * (np.float32(K1 + 1) * counts / (counts + self._norm_of[slots]))
        if not meant:
            return rows, np.count_nonzero(rows, axis=0)
        has, own = np.zeros(rows.shape, bool), {id(entry) for entry in entries}
        here = np.array([id(entry) in own for entry in both])[which]
        has[words[here], slots[here]] = True
        return rows, np.count_nonzero(has, axis=0)

    def _best(self, others: Sequence[Term]) -> Ints:
        """Return the passages with the highest term scores, newer ones first among equals.

        Term counts are only used in the closer examination.
        """
        read, weights, count = list[Term](), list[float](), 0
        for term in sorted(self.terms, key=_rarest_first):
            if read and count + term.having > _MAX_POSTINGS:
                break
            read.append(term)
            weights.append(term.rarity)
            count += term.having
        for term in sorted(others, key=_rarest_first):
            if count > _ENOUGH_POSTINGS:
                break
            read.append(term)
            weights.append(_FORM_WEIGHT * term.rarity)
            count += term.having
        lengths, worth = self.lookup.column("lengths"), 1 / (1 + self._norms)
        rows, places, _ = self.lookup.all_postings(read)
        scores: FeatureColumn = np.bincount(
            places, np.array(weights, float)[rows] * worth[lengths[places]], minlength=self._count
        )
        if not self.lookup.index.answers_at_length:
            return _best_places(scores, self._most)
        # a model's long answers repeat the question's words, so they would leave no place for the user's own
        is_user = np.array([role == "user" for role, _ in self.lookup.index.names])[self.lookup.column("speaker_ids")]
        return np.concatenate(
            (_best_places(scores * is_user, self._most), _best_places(scores * ~is_user, self._most // 2))
        )


_LENGTHS = np.arange(256)


def _best_places(scores: FeatureColumn, most: int) -> Ints:
    """Return the places of the highest scores; among equals the last."""
    places = _high_places(scores, most)
    found = scores[places]
    if len(found) <= most:
        return places
    least = np.partition(found, -most)[-most]
    above = places[found > least]
    return np.concatenate((above, places[found == least][len(above) - most :]))


def _high_places(scores: FeatureColumn, most: int) -> Ints:
    """Return slightly more places than needed, without sorting all: most passages have a single common word."""
    border = float(scores.max())
    for _ in range(_THRESHOLD_STEPS):
        border *= _THRESHOLD_FACTOR
        high = scores > border
        if np.count_nonzero(high) >= most:
            return np.flatnonzero(high)
    return np.flatnonzero(scores)


def _merge_blocks(starts: Ints, ends: Ints, groups: Ints) -> tuple[Ints, Ints, Ints]:
    """Merge overlapping blocks."""
    opens = np.ones(len(starts), bool)
    opens[1:] = (starts[1:] > ends[:-1]) | (groups[1:] != groups[:-1])
    closes = np.append(opens[1:], True)[: len(starts)]
    return starts[opens], ends[closes], groups[opens]


def _rarest_first(term: Term) -> tuple[float, str]:
    return -term.rarity, term.term


def _weight(entry: Entry) -> float:
    return entry[2]
