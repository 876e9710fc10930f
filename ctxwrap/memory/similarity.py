"""Whether two texts say the same, told without a model: rather not at all than wrongly."""

import re
from collections.abc import Container, Iterator, Set
from functools import lru_cache
from itertools import pairwise
from typing import Any

from ctxwrap.language.words import MAX_READ, terms_of

_WORD = re.compile(r"\w+(?:['’]\w+)?")
_NEGATIONS = {"no", "not", "never", "none", "without", "don't", "doesn't", "isn't", "aren't", "can't", "won't"}
_DIRECTIONS = {"from", "before", "after", "until", "since", "against"}
_EMPTY = {
    "a",
    "an",
    "the",
    "is",
    "are",
    "was",
    "be",
    "of",
    "to",
    "in",
    "on",
    "at",
    "for",
    "and",
    "has",
    "user's",
    "user",
}
_NEAR = 0.9
_FEWEST = 4
"""Texts with fewer words than that are the same only if all of them are."""


def key_of(text: str) -> str:
    """Equal for texts that differ only in case, punctuation and white space."""
    return " ".join(_words(text))


def same_fact(one: str, other: str) -> bool:
    """Whether `one` and `other` say the same thing: the same numbers, as often yes or no, and nearly all words.

    Or all words that say something, in their order, whatever form they have.
    """
    first, second = _words(one), _words(other)
    if first == second:
        return True
    is_same = _are_near(first, second) or (_terms(one) == _terms(other) and len(_terms(one)) > 1)
    return is_same and _fixed(first) == _fixed(second)


def telling_words(text: str) -> set[str]:
    """The words of `text` that say something."""
    return set(_words(text)) - _EMPTY


def marks(text: str) -> set[str]:
    """What gives a text away in a line of other words: two words that follow each other, and codes."""
    lines = (line[start : start + MAX_READ] for line in text.split("\n") for start in range(0, len(line), MAX_READ))
    return {mark for line in lines for mark in (*_neighbours(line), *codes(line))}


def codes(text: str) -> set[str]:
    """The words that name one thing only: numbers, addresses, passwords and the like."""
    return {code for code in _CODE.findall(text.casefold()) if len(code) >= _SHORTEST_CODE and _NAMING.search(code)}


_CODE = re.compile(r"\w+(?:[-.@:/+]\w+)*")
_NAMING = re.compile(r"[\d@]")
_SHORTEST_CODE = 6


def _neighbours(line: str) -> Iterator[str]:
    return map(" ".join, pairwise(terms_of(line)))


def subjects(text: str) -> Set[str]:
    """What `text` is about: its terms, in any script and whatever form its words have."""
    return frozenset(_terms(text))


def mentions(said: Set[str], content: str, share: float = 0.8) -> bool:
    """Whether what was said, by its `subjects`, has so much of what `content` says."""
    wanted = subjects(content)
    return len(wanted) > 1 and len(wanted & said) / len(wanted) >= share


class Facts:
    """Texts by their ids, read once, so that one that says the same is found without reading all of them again."""

    def __init__(self) -> None:
        self._keys: dict[str, str] = {}
        self._ids: dict[str, set[str]] = {}
        """By key."""
        self._alike: dict[_Kind, set[str]] = {}
        self._by_terms: dict[tuple[str, ...], set[str]] = {}
        self._terms: dict[str, tuple[str, ...]] = {}

    def put(self, id: str, text: str) -> None:
        self.remove(id)
        words = _words(text)
        key, terms = " ".join(words), _terms(text)
        self._keys[id], self._terms[id] = key, terms
        self._ids.setdefault(key, set()).add(id)
        self._alike.setdefault(_kind(words), set()).add(id)
        self._by_terms.setdefault(terms, set()).add(id)

    def remove(self, id: str) -> None:
        key = self._keys.pop(id, None)
        if key is not None:
            _take_out(self._ids, key, id)
            _take_out(self._alike, _kind(key.split()), id)
            _take_out(self._by_terms, self._terms.pop(id), id)

    def same(self, text: str) -> Set[str]:
        """The ids of the texts that differ from `text` only as `key_of` allows."""
        return self._ids.get(key_of(text), frozenset())

    def near(self, text: str, among: Container[str]) -> Iterator[str]:
        """The ids `among` the given ones whose texts are the `same_fact`, in no order."""
        words = _words(text)
        fixed, count = _kind(words)
        sizes = (size for size in range(count // 2, 2 * count) if min(size, count) / max(size, count) >= _NEAR)
        for id in (id for size in sizes for id in self._alike.get((fixed, size), ())):
            if id in among and _are_near(words, self._keys[id].split()):
                yield id
        for id in self._by_terms.get(_terms(text), ()) if len(_terms(text)) > 1 else ():
            if id in among and _fixed(self._keys[id].split()) == fixed:
                yield id


_Kind = tuple[tuple[str, ...], int]
"""What texts have in common that may say the same: all that must not differ, and about the number of words."""


def _kind(words: list[str]) -> _Kind:
    return _fixed(words), len(set(words))


def _take_out(groups: dict[Any, set[str]], key: object, id: str) -> None:
    groups[key].discard(id)
    if not groups[key]:
        del groups[key]


def _are_near(first: list[str], second: list[str]) -> bool:
    """Whether the words are nearly all the same, and not too few to say so."""
    left, right = set(first), set(second)
    return min(len(first), len(second)) >= _FEWEST and len(left & right) / len(left | right) >= _NEAR


def _words(text: str) -> list[str]:
    return _WORD.findall(text.casefold())


def _terms(text: str) -> tuple[str, ...]:
    return _terms_of_short(text) if len(text) <= _SHORT else _terms_in(text)


def _terms_in(text: str) -> tuple[str, ...]:
    return tuple(term for term in terms_of(text.replace("用户", " ")) if term != "user")


_SHORT = 500
"""What items say is asked for again and again; what people and models say at length is not worth keeping."""
_terms_of_short = lru_cache(maxsize=8192)(_terms_in)


def _fixed(words: list[str]) -> tuple[str, ...]:
    """What must not differ: numbers, negations and directions, and letters that may be names (vitamin D, plan A)."""
    names = [word for at, word in enumerate(words, 1) if len(word) == 1 and (word not in "ai" or at == len(words))]
    return tuple(sorted([*names, *(word for word in words if word in _FIXED or any(map(str.isdigit, word)))]))


_FIXED = _NEGATIONS | _DIRECTIONS
