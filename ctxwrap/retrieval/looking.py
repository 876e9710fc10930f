"""Looking: which documents are worth a closer look, and where among them the terms are."""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from heapq import nlargest
from itertools import chain
from math import log
from typing import NamedTuple

from ctxwrap.retrieval.index import Index
from ctxwrap.retrieval.segments import Postings

K1, _B = 0.9, 0.4
_HITS = 90
"""So many of the best documents by their own words are looked at, with their neighbours."""

_HARDLY = 0.6
"""A term adds hardly more than that much of its rarity."""

_OTHERS = 0.3
"""What other words count beside those asked for."""

_ALL = 720
"""Up to so many documents all are looked at."""

REACH = 4
"""So far neighbours reach."""


class Term(NamedTuple):
    """A term that documents have."""

    term: str
    rarity: float
    postings: list[tuple[int, Postings]]


def weighed(index: Index, terms: Iterable[str]) -> list[Term]:
    """Those of the terms that documents have, with how rare they are."""
    known = ((term, index.postings(term)) for term in terms)
    return [Term(term, _rarity(index, postings), postings) for term, postings in known if postings]


def _rarity(index: Index, postings: list[tuple[int, Postings]]) -> float:
    having = sum(len(places) for _, (places, _) in postings)
    return log(1 + (len(index) - having + 0.5) / (having + 0.5))


class Looking:
    """Documents in blocks of neighbours, each block within one group; `at` is a place among them."""

    def __init__(
        self, index: Index, terms: Sequence[Term], others: Sequence[Term] = (), also: Sequence[int] = ()
    ) -> None:
        """Looks for `terms`, for `others` where these are in few documents, and at the places `also` given."""
        self.index = index
        average = index.words / len(index) if len(index) else 1.0
        self._norms = [K1 * (1 - _B + _B * length / (average or 1.0)) for length in range(256)]
        self.terms = terms
        if len(index) <= _ALL:
            self.blocks = [index.group_range(group) for group in range(len(index.groups))]
        else:
            self.blocks = self._around(chain(self._best(others), also))
        self.places = [place for start, end in self.blocks for place in range(start, end)]
        self.bounds: list[tuple[int, int]] = []
        """From where to where each block reaches."""
        self.bound_of: list[tuple[int, int]] = []
        """The same for each document."""
        for start, end in self.blocks:
            at = len(self.bound_of)
            self.bounds.append((at, at + end - start))
            self.bound_of += [self.bounds[-1]] * (end - start)

    def hits(self, term: Term) -> dict[int, float]:
        """How much each of the documents says of a term."""
        found: dict[int, float] = {}
        blocks = iter(zip(self.blocks, self.bounds, strict=True))
        (start, end), (at, _) = next(blocks, ((0, 0), (0, 0)))
        lengths, norms = self.index.lengths, self._norms
        for base, (places, counts) in term.postings:
            position, size = 0, len(places)
            while position < size:
                place = places[position] + base
                if place >= end:
                    following = next(blocks, None)
                    if following is None:
                        return found
                    (start, end), (at, _) = following
                elif place < start:
                    position = bisect_left(places, start - base, position)
                else:
                    count = counts[position]
                    found[at + place - start] = (K1 + 1) * count / (count + norms[lengths[place]])
                    position += 1
        return found

    def _best(self, others: Sequence[Term]) -> list[int]:
        """The documents that say most of the terms, of equals the newer.

        Rare terms come first, and the common ones are not read when they can hardly lift another document up. How
        often a document has a term is left for the closer look.
        """
        scores: dict[int, float] = {}
        left = sum(term.rarity for term in self.terms)
        for term in sorted(self.terms, key=_rarest_first):
            if len(scores) > _HITS and nlargest(_HITS, scores.values())[-1] > left * _HARDLY:
                break
            left -= term.rarity
            self._count(term, 1.0, scores)
        for term in sorted(others, key=_rarest_first):
            if len(scores) > _HITS:
                break
            self._count(term, _OTHERS, scores)
        return [place for _, place in nlargest(_HITS, zip(scores.values(), scores, strict=True))]

    def _count(self, term: Term, share: float, scores: dict[int, float]) -> None:
        lengths, get = self.index.lengths, scores.get
        worth = [share * term.rarity / (1 + norm) for norm in self._norms]
        for base, (places, _) in term.postings:
            for place in places:
                place += base
                scores[place] = get(place, 0.0) + worth[lengths[place]]

    def _around(self, best: Iterable[int]) -> list[tuple[int, int]]:
        blocks: list[tuple[int, int]] = []
        for place in sorted(set(best)):
            if blocks and place + REACH < blocks[-1][1]:
                continue
            first, last = self.index.group_range(self.index.group_of(place))
            start, end = max(first, place - REACH), min(last, place + REACH + 1)
            if blocks and blocks[-1][1] > start:
                start = blocks.pop()[0]
            blocks.append((start, end))
        return blocks


def _rarest_first(term: Term) -> tuple[float, str]:
    return -term.rarity, term.term
