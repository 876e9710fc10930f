"""Passages: long texts cut into short ones, and features of a text."""

import re
from collections.abc import Iterable
from enum import IntFlag
from operator import itemgetter

from ctxwrap.language.patterns import lazy_pattern
from ctxwrap.language.vocabulary import FIGURE, FIRST_PERSON, STANDING, STANDING_PHRASES, TIME, TOPICS
from ctxwrap.language.words import term_of

WHOLE = 800
"""A text of so many bytes, about four a token, stays whole."""

LIMIT = 480
"""Else no passage is longer than that."""

PARTS = 256
"""So many passages of a message are found, at most."""

_BORDER = re.compile(r"\n|[.!?…]\s|[。！？]")


def passages(text: str) -> list[str]:
    """The text in pieces that, put together, are the text again; one piece for a short text."""
    if _size(text) <= WHOLE:
        return [text]
    pieces: list[str] = []
    start = 0
    while start < len(text):
        end = _end(text, start)
        pieces.append(text[start:end])
        start = end
    return pieces


def _end(text: str, start: int) -> int:
    """Where a passage that begins at `start` ends: behind the last border that it reaches, else behind a word."""
    window = _fitting(text[start : start + LIMIT])
    if start + len(window) == len(text):
        return len(text)
    borders = [match.end() for match in _BORDER.finditer(window)]
    at = borders[-1] if borders and borders[-1] * 4 >= len(window) else window.rfind(" ") + 1
    return start + (at if at * 4 >= len(window) else len(window))


def _fitting(window: str) -> str:
    """As much of the start as the limit allows, or a little less."""
    while (size := _size(window)) > LIMIT:
        window = window[: len(window) * LIMIT // size]
    return window


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


_READ = 4000
"""So many characters of a text are looked at."""


class TextFeature(IntFlag):
    """What the ranking wants to know of a text and no word of it tells."""

    QUESTION = 1
    """It ends by asking something."""
    FIRST_PERSON = 2
    """Somebody speaks of themselves."""
    TIME = 4
    """It says when."""
    FIGURE = 8
    """It has a number in it."""
    NAME = 16
    """It has a name in it, told by a capital within a sentence."""
    STANDING = 32
    """It is to be followed or known from then on: an instruction, a preference."""
    ASKS = 64
    """It asks something somewhere."""
    QUOTE = 128
    """It quotes something, such as a title."""


_WORD = lazy_pattern(r"\w+")
_NAME = lazy_pattern(r"(?<=[\w,;] )[A-Z][a-z]")
_QUOTES = ('"', "“", "”", "«", "»", "„")
_ASKING = ("?", "？", "¿")
_ENDS_ASKING = lazy_pattern(r"[?？][\s\"'”’)]*$")

_FIRST_PERSON, _TIME = frozenset(FIRST_PERSON.split()), frozenset(TIME.split())
_FIGURE, _STANDING = frozenset(FIGURE.split()), frozenset(STANDING.split())
_UNSPACED_TIME = ("昨天", "今天", "明天", "去年", "上周", "昨日", "今日", "明日")


def signs_of(text: str) -> int:
    text = text[:_READ] if len(text) > _READ else text
    small = text.lower()
    words = set(_WORD.findall(small))
    asks = _has(text, _ASKING)
    tests = (
        (TextFeature.QUESTION, asks and _ENDS_ASKING.search(text[-60:]) is not None),
        (TextFeature.FIRST_PERSON, not words.isdisjoint(_FIRST_PERSON) or "我" in text),
        (TextFeature.TIME, not words.isdisjoint(_TIME) or _has(text, _UNSPACED_TIME)),
        (TextFeature.FIGURE, not words.isdisjoint(_FIGURE) or any(map(str.isdigit, map(itemgetter(0), words)))),
        (TextFeature.NAME, _NAME.search(text) is not None),
        (TextFeature.STANDING, not words.isdisjoint(_STANDING) or _has(small, STANDING_PHRASES)),
        (TextFeature.ASKS, asks),
        (TextFeature.QUOTE, _has(text, _QUOTES)),
    )
    return sum(int(sign) for sign, holds in tests if holds)


def _has(text: str, pieces: Iterable[str]) -> bool:
    return any(map(text.__contains__, pieces))


def _by_term() -> dict[str, int]:
    found: dict[str, int] = {}
    for number, line in enumerate(TOPICS.strip().splitlines()):
        for term in map(term_of, line.split()):
            found[term] = found.get(term, 0) | 1 << number
    return found


TOPICS_OF = _by_term()
"""The topics of a term, a bit for each; there are no more than 64."""


def topics_of(terms: Iterable[str]) -> int:
    """The topics that these terms belong to."""
    topics = 0
    for term in terms:
        topics |= TOPICS_OF.get(term, 0)
    return topics


def bits(topics: int) -> list[int]:
    """The numbers of these topics."""
    found = []
    while topics:
        found.append((topics & -topics).bit_length() - 1)
        topics &= topics - 1
    return found
