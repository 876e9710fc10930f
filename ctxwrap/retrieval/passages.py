"""Passages: a long text cut into short ones, at the ends of lines and sentences."""

import re

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
