"""The index terms of a passage: its words, the parts of identifiers, and the days it speaks of."""

from functools import lru_cache
from itertools import chain

from ctxwrap.language.dates import spoken_days
from ctxwrap.language.patterns import lazy_pattern, shape_of
from ctxwrap.language.words import LONGEST_KEPT, MAX_READ, stem, term_of, terms_of, words_in

LONG_WORD = 9
"""Words from this length on can be compounds."""

_LEAST_PART = 4
"""Minimum letters of a part of a compound."""

_LINKS = ("", "s", "n", "e", "es", "en", "er")
"""Letters that link the parts of a compound."""

_DAY = 86_400
_NAME = lazy_pattern(r"\w+")
_INNER_CASE = lazy_pattern(r"[A-Z_](?:(?<=[a-z0-9][A-Z])|(?<=\w_)\w)")  # a set first is found fastest
_PART = lazy_pattern(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


def passage_terms(text: str, time: int = 0) -> list[str]:
    """Return the terms of a passage written at `time`."""
    return [*search_terms(text), *day_terms(text, time)]


def search_terms(text: str) -> tuple[str, ...]:
    """Return the words; an identifier gives its parts and the whole, however it is written."""
    return _kept_terms(text) if len(text) <= LONGEST_KEPT else _search_terms(text)


def _search_terms(text: str) -> tuple[str, ...]:
    found = terms_of(text, words_in(text[:MAX_READ]).every)
    if _may_have_names(text):
        for name in _NAME.findall(text[:MAX_READ]):
            if _INNER_CASE.search(name):
                found += _identifier_terms(name)
    return tuple(found)


_kept_terms = lru_cache(maxsize=512)(_search_terms)
"""The newest message is a query, then a passage, and is later looked through again among the best hits."""


def _may_have_names(text: str) -> bool:
    if "_" in text or not text.isascii():
        return bool(_INNER_CASE.search(text))
    shape = shape_of(text)
    return "aA" in shape or "0A" in shape


def _identifier_terms(name: str) -> list[str]:
    """Return what `terms_of` leaves out: parts by case, and the whole without underscores."""
    words = [word for word in name.split("_") if word]
    cased = [_PART.findall(word) if _INNER_CASE.search(word) and word.isascii() else [] for word in words]
    whole = [term_of("".join(words)[:32])] if len(words) > 1 else []
    return [term for term in chain(map(term_of, chain.from_iterable(cased)), whole) if term]


def day_terms(text: str, time: int) -> tuple[str, ...]:
    """Return artificial terms for the days that a text written at `time` names."""
    if not time:
        return ()
    return (_kept_day_terms if len(text) <= LONGEST_KEPT else _day_terms)(text, time // _DAY)


def _day_terms(text: str, today: int) -> tuple[str, ...]:
    return tuple([f"@{day}" for day in spoken_days(text, today)])


_kept_day_terms = lru_cache(maxsize=512)(_day_terms)


def splits_of(word: str) -> list[tuple[str, list[str]]]:
    """Return the possible splits of a compound: its second part, and forms of its first one."""
    if len(word) < LONG_WORD or not word.isalpha():
        return []
    return [
        (word[cut:], [stem(word[: cut - len(link)]) for link in _LINKS if _fits(word, cut, link)])
        for cut in range(_LEAST_PART, len(word) - _LEAST_PART + 1)
    ]


def _fits(word: str, cut: int, link: str) -> bool:
    return cut - len(link) >= _LEAST_PART - 1 and word[:cut].endswith(link)
