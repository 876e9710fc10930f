"""Decides without a model whether two texts state the same fact; in doubt, they do not."""

import re
from collections.abc import Container, Iterator, Set
from functools import lru_cache
from hashlib import blake2b
from itertools import pairwise
from typing import Any

from ctxwrap.language.words import MAX_READ, terms_of

_WORD = re.compile(r"\w+(?:['’]\w+)?")
_NEGATIONS = {"no", "not", "never", "none", "without", "don't", "doesn't", "isn't", "aren't", "can't", "won't"}
_DIRECTIONS = {"from", "before", "after", "until", "since", "against"}
_FUNCTION_WORDS = frozenset(
    ["a", "an", "the", "is", "are", "was", "be", "of", "to", "in", "on", "at", "for", "and", "has", "user's", "user"]
)
_MIN_OVERLAP = 0.9
_MIN_WORDS = 4
"""Shorter texts must match in all words."""


def key_of(text: str) -> str:
    """Return a key that ignores case, punctuation and white space."""
    return " ".join(_words(text))


def same_fact(one: str, other: str) -> bool:
    """Whether two texts state the same fact: equal numbers and negations, and nearly all words.

    Alternatively the same terms in the same order.
    """
    first, second = _words(one), _words(other)
    if first == second:
        return True
    is_same = _are_near(first, second) or (_terms(one) == _terms(other) and len(_terms(one)) > 1)
    return is_same and _fixed_words(first) == _fixed_words(second)


def fact_digests(text: str) -> set[str]:
    """Return digests by which a fact is recognised without its text: of its words, and of its terms in any order."""
    forms = {key_of(text), " ".join(sorted({*_terms(text), *_fixed_words(_words(text))}))}
    return {blake2b(form.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest() for form in forms if form}


def content_words(text: str) -> set[str]:
    """Return the words of `text` without function words."""
    return set(_words(text)) - _FUNCTION_WORDS


def fingerprints(text: str) -> set[str]:
    """Return what identifies a text among other words: pairs of adjacent terms, and codes."""
    lines = (line[start : start + MAX_READ] for line in text.split("\n") for start in range(0, len(line), MAX_READ))
    return {mark for line in lines for mark in (*_neighbours(line), *codes(line))}


def codes(text: str) -> set[str]:
    """Return words that identify one thing: numbers, addresses, passwords and the like."""
    return {code for code in _CODE.findall(text.casefold()) if len(code) >= _SHORTEST_CODE and _NAMING.search(code)}


_CODE = re.compile(r"\w+(?:[-.@:/+]\w+)*")
_NAMING = re.compile(r"[\d@]")
_SHORTEST_CODE = 6


def _neighbours(line: str) -> Iterator[str]:
    return map(" ".join, pairwise(terms_of(line)))


def subjects(text: str) -> Set[str]:
    """Return the terms of `text`."""
    return _subjects_of_short(text) if len(text) <= _MAX_CACHED else frozenset(_terms_in(text))


def mentions(said: Set[str], content: str, share: float = 0.8) -> bool:
    """Whether the terms in `said` include this share of the terms of `content`."""
    wanted = subjects(content)
    return not wanted.isdisjoint(said) and len(wanted) > 1 and len(wanted & said) / len(wanted) >= share


class Facts:
    """Texts by id, analysed once, to find equal facts without reading all texts again."""

    def __init__(self) -> None:
        self._keys: dict[str, str] = {}
        self._ids: dict[str, set[str]] = {}
        """Ids by key."""
        self._alike: dict[_Profile, set[str]] = {}
        self._by_terms: dict[tuple[str, ...], set[str]] = {}
        self._terms: dict[str, tuple[str, ...]] = {}

    def put(self, id: str, text: str) -> None:
        self.remove(id)
        words = _words(text)
        key, terms = " ".join(words), _terms(text)
        self._keys[id], self._terms[id] = key, terms
        self._ids.setdefault(key, set()).add(id)
        self._alike.setdefault(_profile(words), set()).add(id)
        self._by_terms.setdefault(terms, set()).add(id)

    def remove(self, id: str) -> None:
        key = self._keys.pop(id, None)
        if key is not None:
            _discard(self._ids, key, id)
            _discard(self._alike, _profile(key.split()), id)
            _discard(self._by_terms, self._terms.pop(id), id)

    def same(self, text: str) -> Set[str]:
        """Return the ids of texts with the same key."""
        return self._ids.get(key_of(text), frozenset())

    def near(self, text: str, among: Container[str]) -> Iterator[str]:
        """Return the ids in `among` whose texts state the same fact, in any order."""
        words = _words(text)
        fixed, count = _profile(words)
        sizes = (size for size in range(count // 2, 2 * count) if min(size, count) / max(size, count) >= _MIN_OVERLAP)
        for id in (id for size in sizes for id in self._alike.get((fixed, size), ())):
            if id in among and _are_near(words, self._keys[id].split()):
                yield id
        for id in self._by_terms.get(_terms(text), ()) if len(_terms(text)) > 1 else ():
            if id in among and _fixed_words(self._keys[id].split()) == fixed:
                yield id


_Profile = tuple[tuple[str, ...], int]
"""What texts of the same fact share: the fixed words, and roughly the number of words."""


def _profile(words: list[str]) -> _Profile:
    return _fixed_words(words), len(set(words))


def _discard(groups: dict[Any, set[str]], key: object, id: str) -> None:
    groups[key].discard(id)
    if not groups[key]:
        del groups[key]


def _are_near(first: list[str], second: list[str]) -> bool:
    """Whether nearly all words are the same, and there are enough of them."""
    left, right = set(first), set(second)
    return min(len(first), len(second)) >= _MIN_WORDS and len(left & right) / len(left | right) >= _MIN_OVERLAP


def _words(text: str) -> list[str]:
    return _WORD.findall(text.casefold())


def _terms(text: str) -> tuple[str, ...]:
    return _terms_of_short(text) if len(text) <= _MAX_CACHED else _terms_in(text)


def _terms_in(text: str) -> tuple[str, ...]:
    return tuple(term for term in terms_of(text.replace("用户", " ")) if term != "user")


_MAX_CACHED = 500
"""Item contents are analysed repeatedly; longer texts are not worth caching."""
_terms_of_short = lru_cache(maxsize=8192)(_terms_in)
_subjects_of_short = lru_cache(maxsize=8192)(lambda text: frozenset(_terms_of_short(text)))


def _fixed_words(words: list[str]) -> tuple[str, ...]:
    """Return what must not differ: numbers, negations, directions, letters that may be names (vitamin D, plan A)."""
    names = [word for at, word in enumerate(words, 1) if len(word) == 1 and (word not in "ai" or at == len(words))]
    return tuple(sorted([*names, *(word for word in words if word in _FIXED_WORDS or any(map(str.isdigit, word)))]))


_FIXED_WORDS = _NEGATIONS | _DIRECTIONS
