"""Selects the candidate passages of a query and gathers their postings."""

from array import array
from collections.abc import Iterable, Sequence
from math import log
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ctxwrap.language.words import terms_of
from ctxwrap.retrieval.index import Index
from ctxwrap.retrieval.segments import Postings
from ctxwrap.retrieval.terms import LONG_WORD, splits_of

Ints = NDArray[Any]

PREFIX = 5
"""Words that share this many first letters count as forms of one word."""

_MAX_FORMS = 6
"""Maximum other forms of a word."""

_MAX_COMPOUNDS = 12
"""Maximum compounds of a word."""

_LEAST_START = 4
"""Minimum letters of a word at the start of a compound."""

_MAX_CACHED = 2_000_000
"""Maximum cached postings, about five bytes each."""

_MAX_PREFIXES = 50_000
"""Maximum cached prefixes."""


_SEGMENTS_PER_QUERY = 1
"""Segments whose prefixes are read per query, a few milliseconds each."""


class FullPostings:
    """The postings of a term in the full segments."""

    def __init__(self) -> None:
        self.found: list[tuple[int, Postings]] = []
        self.having = 0
        self._arrays: tuple[Ints, Ints] | None = None

    def arrays(self) -> tuple[Ints, Ints]:
        """Return places in ascending order, and counts."""
        if self._arrays is None:
            sizes = [len(places) for _, (places, _) in self.found]
            bases = np.repeat(np.array([base for base, _ in self.found], np.int32), sizes)
            places = bases + np.frombuffer(b"".join([places for _, (places, _) in self.found]), np.uint16)
            counts = np.frombuffer(b"".join([counts for _, (_, counts) in self.found]), np.uint8)
            self._arrays, self.found = (places, counts), []
        return self._arrays


class Term(NamedTuple):
    """A term that occurs in the index."""

    term: str
    having: int
    """The number of passages with the term."""
    rarity: float
    full: FullPostings | None
    last: Postings | None
    """Postings in the last segment."""


class Lookup:
    """Cached lookups in an index; valid until the index changes. Obtain it with `lookup_in`."""

    def __init__(self, index: Index) -> None:
        self.index = index
        self._columns: dict[str, tuple[Ints, int]] = {}
        self._names: list[frozenset[str]] = []
        self._full = self._registered = 0
        """The number of full segments, and of those whose prefixes are known."""
        self._segments_with: dict[str, int] = {}
        """A bit mask of the full segments for each prefix."""
        self._families: dict[str, dict[str, FullPostings]] = {}
        self._kept = 0
        self._starting: dict[str, set[str]] = {}
        self._ending: dict[str, set[str]] = {}
        """Long terms by their first and by their last letters."""
        self._seen_segment = self._seen_terms = 0

    def register_segments(self) -> None:
        """Register segments that became full, a few per query."""
        full = max(0, len(self.index.segments) - 1)
        if self._full < full or self._kept > _MAX_CACHED or len(self._families) > _MAX_PREFIXES:
            self._full, self._families, self._kept = full, {}, 0
        for ordinal in range(self._registered, min(full, self._registered + _SEGMENTS_PER_QUERY)):
            known, bit = self._segments_with, 1 << ordinal
            for start in {term[:PREFIX] for term in self.index.segments[ordinal].terms()}:
                known[start] = known.get(start, 0) | bit
            self._registered = ordinal + 1
        self._register_compounds()

    def column(self, name: str) -> Ints:
        """Return a column of the index as an array."""
        source: array[int] = getattr(self.index, name)
        known, size = self._columns.get(name, (np.empty(0, source.typecode), 0))
        if size < len(source):
            if len(known) < len(source):
                known, short = np.empty(len(source) * 5 // 4 + 64, source.typecode), known
                known[:size] = short[:size]
            known[size : len(source)] = np.frombuffer(source[size:], source.typecode)
            self._columns[name] = known, len(source)
        return known[: len(source)]

    def names(self) -> list[frozenset[str]]:
        """Return the terms of each speaker's name."""
        self._names += [frozenset(terms_of(name)) for _, name in self.index.names[len(self._names) :]]
        return self._names

    def rarity(self, having: int) -> float:
        return log(1 + (len(self.index) - having + 0.5) / (having + 0.5))

    def find(self, word: str) -> tuple[Term | None, list[Term]]:
        """Return the term of a word, if it occurs, and related terms: other forms, compounds and their parts."""
        last = self.index.segments[-1] if self.index.segments else None
        if len(word) < PREFIX:
            own = self._term(word, self._family(word), {word: last.postings(word) if last else None})
            return own, self._known(self._compounds_of(word))
        full = self._family(word[:PREFIX])
        newest: dict[str, Postings | None] = dict(last.starting_with(word[:PREFIX])) if last else {}
        alike = sorted({each for each in (*full, *newest) if each != word and abs(len(each) - len(word)) < PREFIX})
        forms = [self._term(each, full, newest) for each in alike[:_MAX_FORMS]]
        related = self._known([*self._compounds_of(word), *self._parts_of(word)])
        return self._term(word, full, newest), [form for form in [*forms, *related] if form]

    def term(self, word: str) -> Term | None:
        last = self.index.segments[-1] if self.index.segments else None
        return self._term(word, self._family(word[:PREFIX]), {word: last.postings(word) if last else None})

    def _known(self, words: Iterable[str]) -> list[Term]:
        return [term for term in map(self.term, dict.fromkeys(words)) if term]

    def _compounds_of(self, word: str) -> list[str]:
        """Return long terms that begin or end with the word."""
        if len(word) < _LEAST_START:
            return []
        begin = [each for each in self._starting.get(word[:_LEAST_START], ()) if each.startswith(word)]
        end = [each for each in self._ending.get(word[-PREFIX:], ()) if each.endswith(word)]
        return sorted({*begin, *end} - {word})[:_MAX_COMPOUNDS]

    def _parts_of(self, word: str) -> list[str]:
        """Return the parts of a compound if both occur."""
        for second, firsts in splits_of(word):
            if (after := self.term(second)) and (before := next(filter(None, map(self.term, firsts)), None)):
                return [before.term, after.term]
        return []

    def _register_compounds(self) -> None:
        """Register the long terms of segments, and of the last one those that are new."""
        last = len(self.index.segments) - 1
        while self._seen_segment <= last:
            is_open = self._seen_segment == last
            terms, seen = self.index.segments[self._seen_segment].terms_from(self._seen_terms if is_open else 0)
            for term in terms:
                if len(term) >= LONG_WORD and term.isalpha():
                    self._starting.setdefault(term[:_LEAST_START], set()).add(term)
                    self._ending.setdefault(term[-PREFIX:], set()).add(term)
            self._seen_terms = seen
            if is_open:
                break
            self._seen_segment, self._seen_terms = self._seen_segment + 1, 0

    def rarest(self, words: Sequence[str], count: int) -> list[str]:
        """Return the words with the fewest passages."""
        having = []
        for word in words:
            full = self._family(word[:PREFIX]).get(word)
            last = self.index.segments[-1].postings(word) if self.index.segments else None
            if found := (full.having if full else 0) + (len(last[0]) if last else 0):
                having.append((found, word))
        return [word for _, word in sorted(having, key=lambda each: each[0])[:count]]

    def _term(self, word: str, full: dict[str, FullPostings], newest: dict[str, Postings | None]) -> Term | None:
        before, last = full.get(word), newest.get(word)
        having = (before.having if before else 0) + (len(last[0]) if last else 0)
        return Term(word, having, self.rarity(having), before, last) if having else None

    def _family(self, start: str) -> dict[str, FullPostings]:
        """Return the terms of full segments with this prefix; a shorter word only matches itself."""
        known = self._families.get(start)
        if known is not None:
            return known
        found: dict[str, FullPostings] = {}
        bits = self._segments_with.get(start, 0) | (1 << self._full) - (1 << self._registered)
        while bits:
            ordinal = (bits & -bits).bit_length() - 1
            bits &= bits - 1
            base, segment = self.index.bases[ordinal], self.index.segments[ordinal]
            for term, postings in segment.starting_with(start):
                if len(start) == PREFIX or term == start:
                    full = found.setdefault(term, FullPostings())
                    full.found.append((base, postings))
                    full.having += len(postings[0])
                    self._kept += len(postings[0])
                else:
                    break
        self._families[start] = found
        return found

    def all_postings(self, terms: Sequence[Term]) -> tuple[Ints, Ints, Ints]:
        """Return rows, places and counts of all postings; `rows` tells the term."""
        full = [(row, *term.full.arrays()) for row, term in enumerate(terms) if term.full]
        last = [(row, *term.last) for row, term in enumerate(terms) if term.last]
        return self._joined(full, last)

    def _joined(
        self, full: Sequence[tuple[int, Ints, Ints]], last: Sequence[tuple[int, "array[int]", "array[int]"]]
    ) -> tuple[Ints, Ints, Ints]:
        places: Ints = np.frombuffer(b"".join([places for _, places, _ in last]), np.uint16)
        counts: Ints = np.frombuffer(b"".join([counts for _, _, counts in last]), np.uint8)
        which = [row for row, _, _ in full] + [row for row, _, _ in last]
        sizes = [len(each) for _, each, _ in full] + [len(each) for _, each, _ in last]
        rows = np.repeat(np.array(which, np.intp), sizes)
        if last and self.index.bases[-1]:
            places = places + np.int32(self.index.bases[-1])
        if full:
            places = np.concatenate([*(each for _, each, _ in full), places])
            counts = np.concatenate([*(each for _, _, each in full), counts])
        return rows, places, counts

    def postings_within(self, terms: Sequence[Term], edges: Ints, most: int) -> tuple[Ints, Ints, Ints]:
        """Like `all_postings`, but for terms in more than `most` passages only between each pair of ascending edges."""
        full = []
        for row, term in enumerate(terms):
            if term.full:
                places, counts = term.full.arrays()
                if len(places) > most:
                    cuts = places.searchsorted(edges)
                    here = between(cuts[::2], cuts[1::2])
                    places, counts = places[here], counts[here]
                full.append((row, places, counts))
        return self._joined(full, [(row, *term.last) for row, term in enumerate(terms) if term.last])


def between(starts: Ints, ends: Ints) -> Ints:
    """Return all integers from each start up to its end."""
    sizes = ends - starts
    upto = np.cumsum(sizes)
    return np.repeat(starts - upto + sizes, sizes) + np.arange(int(upto[-1]) if len(upto) else 0)


def lookup_in(index: Index) -> Lookup:
    """Return the cached lookup of an index."""
    if not isinstance(index.cache, Lookup):
        index.cache = Lookup(index)
    index.cache.register_segments()
    return index.cache


FeatureColumn = NDArray[Any]

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

    def weigh(self, entries: Sequence[tuple[Term, int, float]], count: int) -> FeatureColumn:
        """Return the weight of each query word in each slot, by the best of its terms."""
        entries = sorted(entries, key=_weight)  # what is assigned last stays
        which, slots, counts = self.slots_with([term for term, _, _ in entries])
        rows = self.rows(count)
        weights = np.array([weight for _, _, weight in entries], np.float32)[which]
        words = np.array([word for _, word, _ in entries], np.intp)[which]
        rows[words, slots] = weights * (np.float32(K1 + 1) * counts / (counts + self._norm_of[slots]))
        return rows

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


def _weight(entry: tuple[Term, int, float]) -> float:
    return entry[2]
