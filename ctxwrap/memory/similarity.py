"""Decides without a model whether two texts state the same fact; in doubt, they do not."""

import re
from collections.abc import Iterator, Set
from functools import lru_cache
from hashlib import blake2b
from itertools import filterfalse, pairwise
from typing import Any, NamedTuple

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
    first, second = _wording(one), _wording(other)
    if first.key == second.key:
        return True
    if first.fixed != second.fixed:
        return False
    return _are_near(first, second) or (_terms(one) == _terms(other) and len(_terms(one)) > 1)


def fact_digests(text: str) -> set[str]:
    """Return digests by which a fact is recognised without its text: of its words, and of its terms in any order."""
    wording = _wording(text)
    forms = {wording.key, " ".join(sorted({*_terms(text), *wording.fixed}))}
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


class _Wording(NamedTuple):
    """The words of a text, as far as they decide whether another text states the same fact."""

    key: str
    length: int
    distinct: frozenset[str]
    fixed: tuple[str, ...]
    """What must not differ."""


def _wording(text: str) -> _Wording:
    return _wording_of_short(text) if len(text) <= _MAX_CACHED else _wording_in(text)


def _wording_in(text: str) -> _Wording:
    words = _words(text)
    return _Wording(" ".join(words), len(words), frozenset(words), _fixed_words(words))


def _words(text: str) -> list[str]:
    return _WORD.findall(text.casefold())


class Facts:
    """Texts by id, analysed once, to find equal facts without reading all texts again."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        self._ids: dict[str, set[str]] = {}
        """Ids by key."""
        self._alike: dict[_Profile, set[str]] = {}
        self._by_terms: dict[tuple[str, ...], set[str]] = {}

    def put(self, id: str, text: str) -> None:
        if id in self._texts:
            self.remove(id)
        wording = _wording(text)
        self._texts[id] = text
        self._ids.setdefault(wording.key, set()).add(id)
        self._alike.setdefault((wording.fixed, len(wording.distinct)), set()).add(id)
        self._by_terms.setdefault(_terms(text), set()).add(id)

    def remove(self, id: str) -> None:
        if id not in self._texts:
            return
        text = self._texts.pop(id)
        wording = _wording(text)
        _discard(self._ids, wording.key, id)
        _discard(self._alike, (wording.fixed, len(wording.distinct)), id)
        _discard(self._by_terms, _terms(text), id)

    def same(self, text: str) -> Set[str]:
        """Return the ids of texts with the same key."""
        return self._ids.get(_wording(text).key, frozenset())

    def near(self, text: str) -> set[str]:
        """Return the ids of texts that state the same fact in other words."""
        wording, terms = _wording(text), _terms(text)
        found: set[str] = set()
        for size in _near_sizes(len(wording.distinct)):
            for id in self._alike.get((wording.fixed, size), ()):
                if _are_near(wording, _wording(self._texts[id])):
                    found.add(id)
        for id in self._by_terms.get(terms, ()) if len(terms) > 1 else ():
            if _wording(self._texts[id]).fixed == wording.fixed:
                found.add(id)
        return found


_Profile = tuple[tuple[str, ...], int]
"""What texts of the same fact share: the fixed words, and roughly the number of distinct words."""


@lru_cache(maxsize=1024)
def _near_sizes(count: int) -> tuple[int, ...]:
    """The numbers of distinct words that a text may have to be near one that has `count`."""
    sizes = range(count // 2, 2 * count)
    return tuple(size for size in sizes if min(size, count) / max(size, count) >= _MIN_OVERLAP)


def _discard(groups: dict[Any, set[str]], key: object, id: str) -> None:
    groups[key].discard(id)
    if not groups[key]:
        del groups[key]


def _are_near(one: _Wording, other: _Wording) -> bool:
    """Whether nearly all words are the same, and there are enough of them."""
    if min(one.length, other.length) < _MIN_WORDS:
        return False
    return len(one.distinct & other.distinct) / len(one.distinct | other.distinct) >= _MIN_OVERLAP


def _terms(text: str) -> tuple[str, ...]:
    return _terms_of_short(text) if len(text) <= _MAX_CACHED else _terms_in(text)


def _terms_in(text: str) -> tuple[str, ...]:
    terms = terms_of(text.replace("用户", " "))
    return tuple([term for term in terms if term != "user"] if "user" in terms else terms)


_MAX_CACHED = 500
"""Item contents are analysed repeatedly; longer texts are not worth caching."""
_wording_of_short = lru_cache(maxsize=8192)(_wording_in)
_terms_of_short = lru_cache(maxsize=8192)(_terms_in)
_subjects_of_short = lru_cache(maxsize=8192)(lambda text: frozenset(_terms_of_short(text)))


def _fixed_words(words: list[str]) -> tuple[str, ...]:
    """Return what must not differ: numbers, negations, directions, letters that may be names (vitamin D, plan A)."""
    fixed = [word for word in filterfalse(str.isalpha, words) if any(map(str.isdigit, word))]
    if not _FIXED_WORDS.isdisjoint(words):
        fixed += [word for word in words if word in _FIXED_WORDS]
    if 1 in map(len, words):
        fixed += [word for word in words if len(word) == 1 and word not in "ai"]
        fixed += [word for word in words[-1:] if word in ("a", "i")]
    return tuple(sorted(fixed))


_FIXED_WORDS = _NEGATIONS | _DIRECTIONS
