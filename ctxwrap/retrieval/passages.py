"""Splits long texts into passages, and detects features of a text."""

import re
from enum import IntFlag

from ctxwrap.language.patterns import Runs, has_any, lazy_pattern, shape_of
from ctxwrap.language.vocabulary import FIGURE, STANDING, STANDING_PHRASES, TIME, split_phrases
from ctxwrap.language.words import WordHints

MAX_WHOLE = 800
"""Texts up to this many bytes, about four per token, are not split."""

MAX_PASSAGE = 480
"""Maximum bytes of a passage of a longer text."""

MAX_PARTS = 256
"""Maximum passages indexed per message."""

_BORDER = re.compile(r"\n|[.!?…]\s|[。！？]")


def passages(text: str) -> list[str]:
    """Split the text into pieces that concatenate to the text; a short text is one piece."""
    if _size(text) <= MAX_WHOLE:
        return [text]
    pieces: list[str] = []
    start = 0
    while start < len(text):
        end = _end(text, start)
        pieces.append(text[start:end])
        start = end
    return pieces


def _end(text: str, start: int) -> int:
    """Return the end of the passage at `start`: after the last sentence that fits, else after a word."""
    window = _fitting(text[start : start + MAX_PASSAGE])
    if start + len(window) == len(text):
        return len(text)
    borders = [match.end() for match in _BORDER.finditer(window)]
    at = borders[-1] if borders and borders[-1] * 4 >= len(window) else window.rfind(" ") + 1
    return start + (at if at * 4 >= len(window) else len(window))


def _fitting(window: str) -> str:
    """Shorten the window to the size limit, or slightly below."""
    while (size := _size(window)) > MAX_PASSAGE:
        window = window[: len(window) * MAX_PASSAGE // size]
    return window


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


_MAX_READ = 4000
"""Maximum characters examined."""


class TextFeature(IntFlag):
    """Properties of a text that single terms do not show."""

    QUESTION = 1
    """Ends with a question."""
    TIME = 4
    """States a time."""
    FIGURE = 8
    """Contains a number."""
    NAME = 16
    """Contains a name: a capitalised word within a sentence."""
    STANDING = 32
    """States a lasting instruction or preference."""
    ASKS = 64
    """Contains a question."""
    QUOTE = 128
    """Contains a quotation, such as a title."""


_QUESTION_BIT, _TIME_BIT, _FIGURE_BIT, _NAME_BIT, _STANDING_BIT, _ASKS_BIT, _QUOTE_BIT = map(int, TextFeature)
_PHRASE_BIT = 1 << 16
"""Hints at a standing phrase."""

_WORDS = Runs(r"\w")
_NAME = lazy_pattern(r"[A-Z](?<=[\w,;] .)[a-z]")  # a set first is found fastest
_QUOTES = ("“", "”", "«", "»", "„")
_ENDS_ASKING = lazy_pattern(r"[?？][\s\"'”’)]*$")

_TIME, _FIGURE, _STANDING = (frozenset(words.split()) for words in (TIME, FIGURE, STANDING))
_STANDING_PHRASES = split_phrases(STANDING_PHRASES)
_PHRASE_WORDS = lazy_pattern("|".join(max(phrase.split(), key=len) for phrase in _STANDING_PHRASES))
_UNSPACED_TIME = ("昨天", "今天", "明天", "去年", "上周", "昨日", "今日", "明日")


def text_features(text: str) -> int:
    text = text[:_MAX_READ] if len(text) > _MAX_READ else text
    # words are known one by one, unless underscores are a part of them
    bits = _hints_of(text) if "_" in text else _HINTS.of(text)
    if bits & _PHRASE_BIT:
        bits ^= _PHRASE_BIT
        bits |= _STANDING_BIT * has_any(text.lower(), _STANDING_PHRASES)
    if "?" in text or "？" in text or "¿" in text:
        bits |= _ASKS_BIT
        if text.endswith("?") or _ENDS_ASKING.search(text[-60:]):
            bits |= _QUESTION_BIT
    if '"' in text:
        bits |= _QUOTE_BIT
    if text.isascii():
        shape = shape_of(text)
        has_name = " Aa" in shape and ("a Aa" in shape or "A Aa" in shape or "0 Aa" in shape)
        return bits | _NAME_BIT * has_name
    bits |= _TIME_BIT * has_any(text, _UNSPACED_TIME) | _QUOTE_BIT * has_any(text, _QUOTES)
    return bits | _NAME_BIT * bool(_NAME.search(text))


def _hints_of(text: str) -> int:
    """Return the features that words show by themselves."""
    small = text.lower()
    words = {small} if small.isalnum() else set(_WORDS.findall(small))
    bits = _TIME_BIT * (not words.isdisjoint(_TIME)) | _STANDING_BIT * (not words.isdisjoint(_STANDING))
    bits |= _FIGURE_BIT * (not words.isdisjoint(_FIGURE) or any(word[0].isdigit() for word in words))
    return bits | _PHRASE_BIT * bool(_PHRASE_WORDS.search(small))


_HINTS = WordHints(_hints_of)
