"""Selects the candidate passages of a query and weighs its words in them."""

from collections.abc import Callable, Sequence
from functools import lru_cache
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ctxwrap.retrieval.layout import REACH, Ints, Layout, first_of_each, lay_out
from ctxwrap.retrieval.lookup import Lookup, Term

FeatureColumn = NDArray[Any]

OWN, FORM, MEANT = range(3)
"""The term of a query word, of another form of it, or of what it may stand for."""

Entry = tuple[Term, int, float, int]
"""A term, the row of its query word, its weight, and which of these it is."""

K1, _B = 0.9, 0.4
_LEAST_BEST = 90
"""The best passages that are examined, with their neighbours, for a small budget."""

_MAX_POSTINGS = 30_000
"""Maximum postings read to find them, rarest terms first; more rarely change the result."""

_FEW_SCORES = 4000
"""Up to this many are sorted as they are."""

_ENOUGH_POSTINGS = 1000
"""With more postings than this, other forms are not considered."""

_FORM_WEIGHT = 0.3
"""Weight of other forms relative to query terms."""

_THRESHOLD_STEPS, _THRESHOLD_FACTOR = 6, 0.75
"""How often the score threshold is lowered, and by what factor."""

_SPARSE = 128
"""Places are sorted if there are fewer than one in so many."""

_TINY = 1e-9
_STEPS = np.arange(2048) * _TINY

_EXAMINE_ALL = 720
"""Up to this many passages all are examined."""


class CandidateScan:
    """Candidate passages, laid out in slots."""

    def __init__(self, lookup: Lookup, layout: Layout, edges: Ints | None = None) -> None:
        """`edges` are the first places and ends of the blocks, unless they hold all passages."""
        self.lookup, self.layout, self._edges = lookup, layout, edges
        self.width = len(layout.marks)
        self._average, self._norms = lookup.average_length, self._normed()
        self.steps = _STEPS[: self.width] if self.width <= len(_STEPS) else np.arange(self.width) * _TINY
        """Added to scores when sorting, so that the newer of equals comes first."""
        self._by_marks: dict[object, FeatureColumn] = {}

    def _normed(self) -> FeatureColumn:
        least, per_term = _norms(self.lookup.average_length)
        norms: FeatureColumn = self.layout.lengths * per_term + least
        return norms

    def follow_lookup(self) -> None:
        """Go on with another number of passages."""
        if self._average != self.lookup.average_length:
            self._average, self._norms = self.lookup.average_length, self._normed()

    def by_marks(self, values: FeatureColumn, key: object) -> FeatureColumn:
        """Return for each slot what its marks are worth; the values of a key must stay the same."""
        if (known := self._by_marks.get(key)) is None:
            known = self._by_marks[key] = values.take(self.layout.marks)
        return known

    @property
    def seen(self) -> int:
        """The number of slots up to the last passage of the lookup."""
        end = self.lookup.count
        if self._edges is not None or end >= self.layout.passages:
            return self.width
        return self.layout.slots.item(end - 1) + 1 if end else 0

    def column(self, name: str) -> Ints:
        """Return a column of the index by slot; what it has for empty slots means nothing."""
        return self.lookup.column(name)[self.layout.places]

    def postings(self, terms: Sequence[Term], weights: Sequence[float], *columns: Sequence[int]) -> list[Ints]:
        """Return the slots of the terms' postings, the weights there, and each posting's value in columns of terms."""
        runs, sizes, places, counts = self.lookup.postings(terms, self._edges)
        slots = self.layout.slots[places]
        found: FeatureColumn = np.array([*weights] * runs, np.float32).repeat(sizes)
        counts, norms = counts.astype(np.float32), self._norms[slots]
        norms += counts
        counts /= norms
        found *= counts
        rows = [slots, found, *[np.array([*column] * runs).repeat(sizes) for column in columns]]
        if self._edges is None:
            return rows
        here = slots.nonzero()[0]
        return [row[here] for row in rows]

    def weigh(self, entries: Sequence[Entry], words: int) -> tuple[FeatureColumn, FeatureColumn]:
        """Return for each query word and slot the weight of its best term there, and how many words each slot has.

        What a word may stand for has a weight, but is not the word. Empty slots precede and follow the weights.
        """
        weights, width = np.zeros(words * self.width + 2 * REACH, np.float32), self.width
        if not entries:
            return weights, np.zeros(width)
        in_order = sorted(entries, key=itemgetter(2))  # what is assigned last stays
        terms, rows, rarities, kinds = zip(*in_order, strict=True)
        starts = [row * width + REACH for row in rows]
        own = ([kind != MEANT for kind in kinds],) if MEANT in kinds else ()
        slots, found, at, *said = self.postings(terms, rarities, starts, *own)
        at += slots
        weights[at] = found
        if FORM not in kinds:
            return weights, np.bincount(slots, said[0] if said else None, width)
        has = np.zeros(len(weights), np.float32)  # of several forms of a word, one counts
        has[at[said[0]] if said else at] = 1.0
        return weights, np.add.reduce(has[REACH:-REACH].reshape(words, width), 0)


def scan_for(lookup: Lookup, entries: Sequence[Entry], also: Callable[[int], Ints], most: int) -> CandidateScan:
    """Return the best `most` passages of the lookup with their neighbours, and `also` what words would not find.

    Of few passages it has all, whatever the query, with those that follow them in the index.
    """
    end = lookup.count
    if lookup.count <= _EXAMINE_ALL:
        if not isinstance(lookup.scan, CandidateScan):
            lookup.scan = CandidateScan(lookup, lookup.whole.of(lookup.index))
        lookup.scan.follow_lookup()
        return lookup.scan
    best = np.concatenate((_best(lookup, entries, max(_LEAST_BEST, most)), also(most)))
    best, opening = _distinct(best[best < end], end), lookup.column("group_starts")
    bounds = np.full(len(opening) + 1, end)
    np.minimum(opening, end, out=bounds[:-1])
    groups = bounds.searchsorted(best, "right") - 1
    starts, ends = np.maximum(best - REACH, bounds[groups]), np.minimum(best + REACH + 1, bounds[groups + 1])
    starts, ends, groups = _merge_blocks(starts, ends, groups)
    edges = np.empty(2 * len(starts), np.int32)
    edges[::2], edges[1::2] = starts, ends
    return CandidateScan(lookup, lay_out(lookup.column, starts, ends, groups), edges)


def _norms(average: float) -> tuple[float, float]:
    """Return how much the least passage, and each of its terms, lowers the weight of one term."""
    return K1 * (1 - _B), K1 * _B / (average or 1.0)


def _best(lookup: Lookup, entries: Sequence[Entry], most: int) -> Ints:
    """Return the passages with the highest term scores, newer ones first among equals.

    Term counts are only used in the closer examination.
    """
    read, weights, count = list[Term](), list[float](), 0
    for term in sorted([term for term, _, _, kind in entries if kind == OWN], key=_rarest_first):
        if read and count + term.having > _MAX_POSTINGS:
            break
        read.append(term)
        weights.append(term.rarity)
        count += term.having
    others = {term.term: term for term, _, _, kind in entries if kind != OWN}
    for term in sorted(others.values(), key=_rarest_first):
        if count > _ENOUGH_POSTINGS:
            break
        read.append(term)
        weights.append(_FORM_WEIGHT * term.rarity)
        count += term.having
    runs, sizes, places, _ = lookup.postings(read)
    worth = _worth_by_length(lookup.average_length)[lookup.column("lengths")[places]]
    found = np.array(weights * runs, float).repeat(sizes) * worth
    scores: FeatureColumn = np.bincount(places, found)
    places = places[places < lookup.count]
    if not lookup.index.answers_at_length:
        return best_places(scores, places, most)
    # a model's long answers repeat the question's words, so they would leave no place for the user's own
    is_user = np.array([role == "user" for role, _ in lookup.index.names])[lookup.column("speaker_ids")[places]]
    user, others = places[is_user], places[~is_user]
    return np.concatenate((best_places(scores, user, most), best_places(scores, others, most // 2)))


_LENGTHS = np.arange(256)


@lru_cache(maxsize=64)
def _worth_by_length(average: float) -> FeatureColumn:
    """Return what a single term counts in passages of each length."""
    least, per_term = _norms(average)
    worth: FeatureColumn = 1 / (1 + least + per_term * _LENGTHS)
    return worth


def best_places(scores: FeatureColumn, read: Ints, most: int) -> Ints:
    """Return the places of the highest scores among those `read`; among equals the last."""
    places = _distinct(read, len(scores))
    found = scores[places]
    if len(found) <= most:
        return places
    if len(found) > _FEW_SCORES:
        high = _are_high(found, most)
        places, found = places[high], found[high]
    least = np.sort(found)[-most]  # `partition` takes ten times as long for many equal scores
    above = places[found > least]
    return np.concatenate((above, places[found == least][len(above) - most :]))


def _are_high(found: FeatureColumn, most: int) -> Ints:
    """Return which are at least `most` of the highest, without sorting: most passages have a single common word."""
    border = float(found.max())
    for _ in range(_THRESHOLD_STEPS):
        border *= _THRESHOLD_FACTOR
        high: Ints = found > border
        if np.count_nonzero(high) >= most:
            return high
    return np.ones(len(found), bool)


def _distinct(places: Ints, size: int) -> Ints:
    """Return each of the places below `size` once, in order."""
    if len(places) * _SPARSE < size:
        places = np.sort(places)
        return places[first_of_each(places)]
    found = np.zeros(size, bool)  # which is faster than sorting many
    found[places] = True
    return found.nonzero()[0]


def _merge_blocks(starts: Ints, ends: Ints, groups: Ints) -> tuple[Ints, Ints, Ints]:
    """Merge overlapping blocks."""
    opens, closes = first_of_each(groups), np.ones(len(starts), bool)
    opens[1:] |= starts[1:] > ends[:-1]
    closes[:-1] = opens[1:]
    return starts[opens], ends[closes], groups[opens]


def _rarest_first(term: Term) -> tuple[float, str]:
    return -term.rarity, term.term
