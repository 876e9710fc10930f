"""Finds the terms of a query in an index, with related terms, and caches their postings."""

from array import array
from bisect import bisect_left
from collections.abc import Callable, Container, Iterable, Sequence
from functools import partial
from itertools import groupby
from math import log
from operator import itemgetter
from typing import NamedTuple

import numpy as np

from ctxwrap.language.words import terms_of
from ctxwrap.retrieval.concepts import query_terms
from ctxwrap.retrieval.index import Index
from ctxwrap.retrieval.layout import Ints, WholeLayout, between
from ctxwrap.retrieval.segments import Postings
from ctxwrap.retrieval.terms import LONG_WORD, splits_of

PREFIX = 5
"""Words that share this many first letters count as forms of one word."""

_PREFIX_OF = itemgetter(slice(PREFIX))

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

_COMMON_TERM = 4000
"""Of terms in more passages, only postings within the candidates are read."""

_COMMON_SHARE, _COMMON_COUNT = 0.3, 20
"""A term is common if more than this share of passages has it, and more than this many."""

_MAX_FOUND = 1000
"""Maximum words whose terms are cached."""

_NONE: list[str] = []
_NO_TERMS: "list[Term]" = []

_SEGMENTS_PER_QUERY = 1
"""Segments whose prefixes are read per query, a few milliseconds each."""


class FullPostings:
    """The postings of a term in the full segments."""

    def __init__(self) -> None:
        self.found: list[tuple[int, Postings]] = []
        self.having = 0
        self._arrays: tuple[Ints, Ints] | None = None

    def between(self, edges: Ints | None) -> tuple[Ints, Ints]:
        """Return places in ascending order, and counts; of many only those between each pair of edges, if given."""
        places, counts = self._arrays = self._arrays or self._joined()
        if edges is None or len(places) <= _COMMON_TERM:
            return places, counts
        cuts = places.searchsorted(edges)
        here = between(cuts[::2], cuts[1::2])
        return places[here], counts[here]

    def before(self, end: int) -> int:
        """Return how many of its passages are before a place."""
        places, _ = self._arrays = self._arrays or self._joined()
        return int(places.searchsorted(end))

    def _joined(self) -> tuple[Ints, Ints]:
        sizes = [len(places) for _, (places, _) in self.found]
        bases = np.repeat(np.array([base for base, _ in self.found], np.int32), sizes)
        places = bases + np.frombuffer(b"".join([places for _, (places, _) in self.found]), np.uint16)
        counts = np.frombuffer(b"".join([counts for _, (_, counts) in self.found]), np.uint8)
        self.found = []
        return places, counts


class Term(NamedTuple):
    """A term that occurs in the index."""

    term: str
    having: int
    """The number of passages with the term."""
    rarity: float
    full: FullPostings | None
    last: Postings | None
    """Postings in the last segment."""


_made_term: Callable[[tuple[str, int, float, FullPostings | None, Postings | None]], Term] = partial(
    tuple.__new__, Term
)
"""Like `_make`, without a call in Python for each term."""


class Lookup:
    """Cached lookups in the passages of an index up to a place. Obtain it with `lookup_in`.

    The index may have more, which count for nothing: what is found depends on these passages only.
    """

    def __init__(self, index: Index) -> None:
        self.index, self._size = index, 0
        """`_size` is the number of all passages that are known."""
        self.count, self.average_length = 0, 0.0
        """The number of passages up to the place, and their average length."""
        self.common = 0.0
        """Terms in more passages than this distinguish nothing."""
        self._open = 0
        """How many of them are in the last segment; less than 0 if not all before it are."""
        self.whole = WholeLayout()
        self.scan: object = None
        """The scan of all passages, which its module keeps here until the index grows."""
        self._columns: dict[str, tuple[Ints, int]] = {}
        self._names: list[frozenset[str]] = []
        self._are_named = False
        self._full = self._registered = 0
        """The number of full segments, and of those whose prefixes are known."""
        self._segments_with: dict[str, int] = {}
        """A bit mask of the full segments for each prefix."""
        self._families: dict[str, dict[str, FullPostings]] = {}
        self._kept = 0
        self._starting: dict[str, set[str]] = {}
        self._ending: dict[str, set[str]] = {}
        """Long terms by their first and by their last letters."""
        self._query_terms = query_terms()
        self.meant: dict[str, set[str]] = {}
        """Terms that occur, by the words that may stand for them."""
        self._newest: dict[str, list[str]] = {}
        """Terms of the last segment by their prefix."""
        self._last: Callable[[str], Postings | None] = lambda _: None
        """Returns the postings of a term in the last segment."""
        self._seen_segment = self._seen_terms = 0
        self._found: dict[str, tuple[Term | None, list[Term]]] = {}
        """What was found for words in as many passages."""

    def follow_index(self, end: int) -> None:
        """Register what is new, and look for passages before `end`; of segments that became full, a few per query."""
        segments, size = self.index.segments, len(self.index.numbers)
        if size == self._size and end == self.count and not self._full and len(self._found) <= _MAX_FOUND:
            return  # the same query, as a rule
        full = max(0, len(segments) - 1)
        if self._full < full or self._kept > _MAX_CACHED or len(self._families) > _MAX_PREFIXES:
            self._full, self._families, self._kept = full, {}, 0
        for ordinal in range(self._registered, min(full, self._registered + _SEGMENTS_PER_QUERY)):
            known, bit = self._segments_with, 1 << ordinal
            for start in {term[:PREFIX] for term in segments[ordinal].terms()}:
                known[start] = known.get(start, 0) | bit
            self._registered = ordinal + 1
        if self._size != size:
            self._size, self.count, self.scan = size, -1, None
            self._register_terms()
        if self.count != end or len(self._found) > _MAX_FOUND:
            self.count, self.average_length, self._found = end, self.index.average_length(end), {}
            self.common = max(_COMMON_COUNT, _COMMON_SHARE * end)
            self._open = end - self.index.bases[-1] if segments else 0

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
        """Return the terms of each speaker's name; nothing if none has one."""
        if len(self._names) < len(self.index.names):
            self._names += [frozenset(terms_of(name)) for _, name in self.index.names[len(self._names) :]]
            self._are_named = any(self._names)
        return self._names if self._are_named else []

    def rarity(self, having: int) -> float:
        """Return the weight of a term, or of several together, whose passages may be counted more than once."""
        return log((self.count + 1) / (min(having, self.count) + 0.5))

    def find(self, word: str) -> tuple[Term | None, list[Term]]:
        """Return the term of a word, if it occurs, and related terms: other forms, compounds and their parts."""
        found = self._found.get(word)
        if found is None:
            related = self._related_to(word)
            found = self._found[word] = self._term(word), self.known(related) if related else _NO_TERMS
        return found

    def meant_by(self, word: str, wanted: Container[str]) -> list[Term]:
        """Return terms that a query word may stand for, without those that are wanted anyway."""
        meant = self.meant.get(word)
        return self.known([each for each in sorted(meant) if each not in wanted]) if meant else []

    def known(self, words: Iterable[str]) -> list[Term]:
        """Return the terms that occur."""
        return [term for word in words if (term := self._term(word))]

    def _term(self, word: str) -> Term | None:
        having, full = bisect_left(last[0], self._open) if (last := self._last(word)) else 0, None
        if self._full and (full := self._family(word[:PREFIX]).get(word)):
            having += full.having if self._open >= 0 else full.before(self.count)
        return _made_term((word, having, log((self.count + 1) / (having + 0.5)), full, last)) if having else None

    def rare(self, words: Iterable[str], most: float, count: int) -> list[Term]:
        """Return the rarest of the words that are in more than one and at most so many passages."""
        found = []
        for word in words:
            having = bisect_left(last[0], self._open) if (last := self._last(word)) else 0
            if self._full and (full := self._family(word[:PREFIX]).get(word)):
                having += full.having if self._open >= 0 else full.before(self.count)
            if 1 < having <= most:
                found.append((having, word))
        found.sort()
        return self.known([word for _, word in found[:count]])

    def _related_to(self, word: str) -> list[str]:
        """Return terms with the same prefix and about the same length, then compounds with the word, then its parts."""
        size, forms, compounds = len(word), _NONE, _NONE
        if size >= PREFIX:
            alike = self._newest.get(word[:PREFIX], _NONE)
            if self._full:
                alike = [*{*alike, *self._family(word[:PREFIX])}]
            if len(alike) > (word in alike):
                forms = [each for each in alike if each != word and abs(len(each) - size) < PREFIX]
                forms = sorted(forms)[:_MAX_FORMS]
        if size >= _LEAST_START:
            begin, end = self._starting.get(word[:_LEAST_START]), self._ending.get(word[-PREFIX:])
            if begin or end:
                found = {each for each in begin or () if each.startswith(word)}
                found.update([each for each in end or () if each.endswith(word)])
                compounds = sorted(found - {word})[:_MAX_COMPOUNDS]
        if size >= LONG_WORD:
            compounds = compounds + [part for part in self._parts_of(word) if part not in compounds]
        return forms + compounds if compounds else forms

    def _parts_of(self, word: str) -> list[str]:
        """Return the parts of a compound if both occur."""
        for second, firsts in splits_of(word):
            if self.known([second]) and (found := self.known(firsts)):
                return [*dict.fromkeys((found[0].term, second))]
        return []

    def _register_terms(self) -> None:
        """Register the terms of segments, and of the last one those that are new."""
        last = len(self.index.segments) - 1
        while self._seen_segment <= last:
            segment, is_open = self.index.segments[self._seen_segment], self._seen_segment == last
            terms, self._seen_terms = segment.terms_from(self._seen_terms if is_open else 0)
            for term in terms:
                for word in self._query_terms.get(term, ()):
                    self.meant.setdefault(word, set()).add(term)
                if len(term) >= LONG_WORD and term.isalpha():
                    self._starting.setdefault(term[:_LEAST_START], set()).add(term)
                    self._ending.setdefault(term[-PREFIX:], set()).add(term)
            if is_open:
                for start, alike in groupby(terms, _PREFIX_OF):
                    self._newest.setdefault(start, []).extend(alike)
                self._last = segment.reader()
                break
            self._seen_segment, self._seen_terms, self._newest = self._seen_segment + 1, 0, {}

    def rarest(self, words: Sequence[str], count: int) -> list[str]:
        """Return the words with the fewest passages."""
        return [term.term for term in sorted(self.known(words), key=lambda term: term.having)[:count]]

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

    def postings(self, terms: Sequence[Term], edges: Ints | None = None) -> tuple[int, Ints, Ints, Ints]:
        """Return all postings of terms, in one or two runs of all terms, the size of each part, places and counts.

        Of a common term, if `edges` are given, only those between each pair of ascending edges.
        """
        newest = [term.last or _NO_POSTINGS for term in terms]
        all_places, all_counts = zip(*newest, strict=True) if newest else ((), ())
        sizes = [*map(len, all_places)]
        places: Ints = np.frombuffer(b"".join(all_places), np.uint16)
        counts: Ints = np.frombuffer(b"".join(all_counts), np.uint8)
        if not self._full:
            return 1, np.array(sizes, np.intp), places.astype(np.intp), counts
        full = [term.full.between(edges) if term.full else _NO_FULL for term in terms]
        full_places, full_counts = zip(*full, strict=True) if full else ((), ())
        return (
            2,
            np.array([*map(len, full_places), *sizes], np.intp),
            np.concatenate((*full_places, places + np.intp(self.index.bases[-1]))),
            np.concatenate((*full_counts, counts)),
        )


_NO_POSTINGS: Postings = array("H"), array("B")
_NO_FULL: tuple[Ints, Ints] = np.empty(0, np.int32), np.empty(0, np.uint8)


def lookup_in(index: Index, end: int | None = None) -> Lookup:
    """Return the cached lookup of an index for the passages before a place; valid until the next one."""
    lookup = index.cache
    if not isinstance(lookup, Lookup):
        lookup = index.cache = Lookup(index)
    lookup.follow_index(len(index) if end is None else end)
    return lookup
