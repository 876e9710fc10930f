"""Finds the terms of a query in an index, with related terms, and caches their postings."""

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

_MAX_FOUND = 1000
"""Maximum words whose terms are cached."""

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
        self._found: dict[str, tuple[Term | None, list[Term]]] = {}
        self._found_in = 0
        """What was found for words, and the number of passages then."""

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
        if self._found_in != len(self.index) or len(self._found) > _MAX_FOUND:
            self._found, self._found_in = {}, len(self.index)
        found = self._found.get(word)
        if found is None:
            found = self._found[word] = self._find(word)
        return found

    def _find(self, word: str) -> tuple[Term | None, list[Term]]:
        last = self.index.segments[-1] if self.index.segments else None
        if len(word) < PREFIX:
            own = self._term(word, self._family(word), {word: last.postings(word) if last else None})
            return own, self.known(self._compounds_of(word))
        full = self._family(word[:PREFIX])
        newest: dict[str, Postings | None] = dict(last.starting_with(word[:PREFIX])) if last else {}
        alike = sorted({each for each in (*full, *newest) if each != word and abs(len(each) - len(word)) < PREFIX})
        forms = [self._term(each, full, newest) for each in alike[:_MAX_FORMS]]
        related = self.known([*self._compounds_of(word), *self._parts_of(word)])
        return self._term(word, full, newest), [form for form in [*forms, *related] if form]

    def term(self, word: str) -> Term | None:
        last = self.index.segments[-1] if self.index.segments else None
        return self._term(word, self._family(word[:PREFIX]), {word: last.postings(word) if last else None})

    def known(self, words: Iterable[str]) -> list[Term]:
        """Return the terms that occur."""
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
        having = [(found, word) for word in words if (found := self.having(word))]
        return [word for _, word in sorted(having, key=lambda each: each[0])[:count]]

    def having(self, word: str) -> int:
        """Return the number of passages with the word."""
        full = self._family(word[:PREFIX]).get(word)
        last = self.index.segments[-1].postings(word) if self.index.segments else None
        return (full.having if full else 0) + (len(last[0]) if last else 0)

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
