"""Signs: what a text is like, whatever it is about."""

from collections.abc import Iterable
from enum import IntFlag
from operator import itemgetter

from ctxwrap.language.vocabulary import FIGURE, FIRST_PERSON, STANDING, STANDING_PHRASES, TIME
from ctxwrap.patterns import lazy_pattern

_READ = 4000
"""So many characters of a text are looked at."""


class Sign(IntFlag):
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
        (Sign.QUESTION, asks and _ENDS_ASKING.search(text[-60:]) is not None),
        (Sign.FIRST_PERSON, not words.isdisjoint(_FIRST_PERSON) or "我" in text),
        (Sign.TIME, not words.isdisjoint(_TIME) or _has(text, _UNSPACED_TIME)),
        (Sign.FIGURE, not words.isdisjoint(_FIGURE) or any(map(str.isdigit, map(itemgetter(0), words)))),
        (Sign.NAME, _NAME.search(text) is not None),
        (Sign.STANDING, not words.isdisjoint(_STANDING) or _has(small, STANDING_PHRASES)),
        (Sign.ASKS, asks),
        (Sign.QUOTE, _has(text, _QUOTES)),
    )
    return sum(int(sign) for sign, holds in tests if holds)


def _has(text: str, pieces: Iterable[str]) -> bool:
    return any(map(text.__contains__, pieces))
