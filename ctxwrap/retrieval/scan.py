"""Candidate scan: which documents have the query's terms, and where."""

from array import array
from collections.abc import Sequence
from math import log
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ctxwrap.language.words import terms_of
from ctxwrap.retrieval.index import Index
from ctxwrap.retrieval.segments import Postings

Ints = NDArray[Any]

ALIKE = 5
"""Words with so many first letters in common are taken for forms of one word."""

_FORMS = 6
"""So many other forms of a word are looked for."""

_KEPT = 2_000_000
"""So many places of terms are kept at hand, about five bytes for each."""

_FAMILIES = 50_000
"""And so many beginnings of words."""


_NOTED_AT_ONCE = 1
"""So many segments are read for one question to know what is in them, some milliseconds each."""


class Full:
    """Where a term is among the full segments."""

    def __init__(self) -> None:
        self.found: list[tuple[int, Postings]] = []
        self.having = 0
        self._arrays: tuple[Ints, Ints] | None = None

    def arrays(self) -> tuple[Ints, Ints]:
        """Where it is, ascending, and how often there."""
        if self._arrays is None:
            sizes = [len(places) for _, (places, _) in self.found]
            bases = np.repeat(np.array([base for base, _ in self.found], np.int32), sizes)
            places = bases + np.frombuffer(b"".join([places for _, (places, _) in self.found]), np.uint16)
            counts = np.frombuffer(b"".join([counts for _, (_, counts) in self.found]), np.uint8)
            self._arrays, self.found = (places, counts), []
        return self._arrays


class Term(NamedTuple):
    """A term that documents have."""

    term: str
    having: int
    """How many documents have it."""
    rarity: float
    full: Full | None
    last: Postings | None
    """Where it is in the last segment."""


class Lookup:
    """Use it as long as nothing else is done with the index; `lookup_in` gives it."""

    def __init__(self, index: Index) -> None:
        self.index = index
        self._columns: dict[str, tuple[Ints, int]] = {}
        self._names: list[frozenset[str]] = []
        self._full = self._noted = 0
        """So many segments are full, and of so many of them it is known which beginnings of words they have."""
        self._segments_with: dict[str, int] = {}
        """For each beginning of a word the full segments that have one, a bit for each."""
        self._families: dict[str, dict[str, Full]] = {}
        self._kept = 0

    def catch_up(self) -> None:
        """Take note of segments that are full by now, of a few at a time what is in them."""
        full = max(0, len(self.index.segments) - 1)
        if self._full < full or self._kept > _KEPT or len(self._families) > _FAMILIES:
            self._full, self._families, self._kept = full, {}, 0
        for ordinal in range(self._noted, min(full, self._noted + _NOTED_AT_ONCE)):
            known, bit = self._segments_with, 1 << ordinal
            for start in {term[:ALIKE] for term in self.index.segments[ordinal].terms()}:
                known[start] = known.get(start, 0) | bit
            self._noted = ordinal + 1

    def column(self, name: str) -> Ints:
        """A column of the index as it is now."""
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
        """The words in the name of each who speaks."""
        self._names += [frozenset(terms_of(name)) for _, name in self.index.names[len(self._names) :]]
        return self._names

    def rarity(self, having: int) -> float:
        return log(1 + (len(self.index) - having + 0.5) / (having + 0.5))

    def find(self, word: str) -> tuple[Term | None, list[Term]]:
        """The word itself if documents have it, and other words with the same beginning."""
        last = self.index.segments[-1] if self.index.segments else None
        if len(word) < ALIKE:
            return self._term(word, self._family(word), {word: last.postings(word) if last else None}), []
        full = self._family(word[:ALIKE])
        newest: dict[str, Postings | None] = dict(last.starting_with(word[:ALIKE])) if last else {}
        alike = sorted({each for each in (*full, *newest) if each != word and abs(len(each) - len(word)) < ALIKE})
        forms = (self._term(each, full, newest) for each in alike[:_FORMS])
        return self._term(word, full, newest), [form for form in forms if form]

    def rarest(self, words: Sequence[str], count: int) -> list[str]:
        """Those of the words that the fewest documents have."""
        having = []
        for word in words:
            full = self._family(word[:ALIKE]).get(word)
            last = self.index.segments[-1].postings(word) if self.index.segments else None
            if found := (full.having if full else 0) + (len(last[0]) if last else 0):
                having.append((found, word))
        return [word for _, word in sorted(having, key=lambda each: each[0])[:count]]

    def _term(self, word: str, full: dict[str, Full], newest: dict[str, Postings | None]) -> Term | None:
        before, last = full.get(word), newest.get(word)
        having = (before.having if before else 0) + (len(last[0]) if last else 0)
        return Term(word, having, self.rarity(having), before, last) if having else None

    def _family(self, start: str) -> dict[str, Full]:
        """The terms of full segments that start so; of less than `ALIKE` letters, only the one that is these."""
        known = self._families.get(start)
        if known is not None:
            return known
        found: dict[str, Full] = {}
        bits = self._segments_with.get(start, 0) | (1 << self._full) - (1 << self._noted)
        while bits:
            ordinal = (bits & -bits).bit_length() - 1
            bits &= bits - 1
            base, segment = self.index.bases[ordinal], self.index.segments[ordinal]
            for term, postings in segment.starting_with(start):
                if len(start) == ALIKE or term == start:
                    full = found.setdefault(term, Full())
                    full.found.append((base, postings))
                    full.having += len(postings[0])
                    self._kept += len(postings[0])
                else:
                    break
        self._families[start] = found
        return found

    def gathered(self, terms: Sequence[Term]) -> tuple[Ints, Ints, Ints]:
        """All places of the terms: which of them it is, where, and how often; a place has its terms in their order."""
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

    def gathered_within(self, terms: Sequence[Term], edges: Ints, most: int) -> tuple[Ints, Ints, Ints]:
        """The same, of terms that more than `most` documents have only between each two of these ascending edges."""
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
    """All numbers from each start up to its end."""
    sizes = ends - starts
    upto = np.cumsum(sizes)
    return np.repeat(starts - upto + sizes, sizes) + np.arange(int(upto[-1]) if len(upto) else 0)


def lookup_in(index: Index) -> Lookup:
    """The one beside an index."""
    if not isinstance(index.beside, Lookup):
        index.beside = Lookup(index)
    index.beside.catch_up()
    return index.beside


FeatureColumn = NDArray[Any]

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


class CandidateScan:
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

    def rows(self, count: int) -> FeatureColumn:
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

    def hits(self) -> FeatureColumn:
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
        scores: FeatureColumn = np.bincount(
            places, np.array(weights, float)[rows] * worth[lengths[places]], minlength=self._count
        )
        for rare, places in of_topics:
            scores[places] += rare * worth[lengths[places]]
        return _best_places(scores)

    def _of_topic(self, topic: int) -> Ints:
        return np.flatnonzero(self.lookup.column("topics") & np.uint64(1 << topic))


_LENGTHS = np.arange(256)


def _best_places(scores: FeatureColumn) -> Ints:
    """Where the highest scores are; of equals the last."""
    places = _high_places(scores)
    found = scores[places]
    if len(found) <= _HITS:
        return places
    least = np.partition(found, -_HITS)[-_HITS]
    above = places[found > least]
    return np.concatenate((above, places[found == least][len(above) - _HITS :]))


def _high_places(scores: FeatureColumn) -> Ints:
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
