"""Whether two texts say the same, told without a model: rather not at all than wrongly."""

import re

_WORD = re.compile(r"\w+(?:['’]\w+)?")
_NEGATIONS = {"no", "not", "never", "none", "without", "don't", "doesn't", "isn't", "aren't", "can't", "won't"}
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
    """Whether `one` and `other` say the same thing: the same numbers, as often yes or no, and nearly all words."""
    first, second = _words(one), _words(other)
    if first == second:
        return True
    if min(len(first), len(second)) < _FEWEST or _fixed(first) != _fixed(second):
        return False
    left, right = set(first), set(second)
    return len(left & right) / len(left | right) >= _NEAR


def telling_words(text: str) -> set[str]:
    """The words of `text` that say something."""
    return set(_words(text)) - _EMPTY


def mentions(text: str, content: str) -> bool:
    """Whether `text` restates what `content` says."""
    return covers(telling_words(text), telling_words(content))


def covers(said: set[str], wanted: set[str]) -> bool:
    """Whether so many of the words of a memory were said that it was meant."""
    return len(wanted) > 1 and len(wanted & said) / len(wanted) >= 0.8


def _words(text: str) -> list[str]:
    return _WORD.findall(text.casefold())


def _fixed(words: list[str]) -> list[str]:
    """What must not differ: numbers and negations."""
    return sorted(word for word in words if word in _NEGATIONS or any(map(str.isdigit, word)))
