"""Strings in damaged JSON: where they end, and what they say."""

import json
import re
from collections.abc import Callable
from typing import NamedTuple

from ctxwrap.patterns import lazy_pattern
from ctxwrap.protocol.repair.marks import CLOSING, COLON, COMMAS, GAP, QUOTE

scan_string: Callable[[str, int, bool], tuple[str, int]] = json.decoder.scanstring  # type: ignore[attr-defined]
_CLOSE = {quote: lazy_pattern(rf"\\.|[{re.escape(close)}]", re.DOTALL) for quote, close in CLOSING.items()}
"""What may close a string, by what opened it; a mark behind a backslash does not."""
_TRIPLES = ('"""', "'''", "```")


class Text(NamedTuple):
    """A string's value, where it ends, and what was mended in it."""

    value: str
    end: int
    repair: str = ""


def read_string(text: str, at: int, ends: Callable[[str, int], bool]) -> Text | None:
    """The string that opens at `at` and ends where something legal follows, or None if the text ends before."""
    triple = next((triple for triple in _TRIPLES if text.startswith(triple, at)), "")
    if triple:
        return _read_triple(text, at, triple, ends)
    if text[at] == '"':
        strict = _read_strictly(text, at)
        if strict is not None and ends(text, strict.end):
            return _without_swallowed(text, at, strict.end - 1) or strict
    for close in _CLOSE[text[at]].finditer(text, at + 1):
        end = close.end() - 1
        if close[0][0] != "\\" and ends(text, end + 1):
            value, fault = decoded(text[at + 1 : end])
            name = "inner-quotes" if text[at] == '"' else "quotes"
            return _without_swallowed(text, at, end) or Text(value, end + 1, fault or name)
    return None


_STRICT = lazy_pattern(r'"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*+"')


def _read_strictly(text: str, at: int) -> Text | None:
    # the scanner's own errors count the lines before them
    return Text(*scan_string(text, at + 1, True)) if _STRICT.match(text, at) else None


def _read_triple(text: str, at: int, triple: str, ends: Callable[[str, int], bool]) -> Text | None:
    end = text.find(triple, at + 3)
    while end >= 0:
        if ends(text, end + 3):
            return Text(decoded(text[at + 3 : end])[0], end + 3, "triple-quotes")
        end = text.find(triple, end + 1)
    return None


_REST_OF_KEY = lazy_pattern(rf"\w[\w-]*{QUOTE}{GAP}{COLON}")
_LAST_COMMA = lazy_pattern(rf"[{COMMAS}]{GAP}\Z")


def _without_swallowed(text: str, at: int, end: int) -> Text | None:
    """The string without the comma that it swallowed for want of its closing quote, if a key then shows that it did."""
    inside = text[at + 1 : end]
    comma = _LAST_COMMA.search(inside)
    if comma is None or not _REST_OF_KEY.match(text, end + 1):
        return None
    return Text(decoded(inside[: comma.start()])[0], at + 1 + comma.start(), "missing-quote")


_ESCAPE = lazy_pattern(r"\\(u\{[0-9a-fA-F]{1,6}\}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|x[0-9a-fA-F]{2}|.)", re.DOTALL)
_MEANINGS = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "'": "'", "`": "`"}
_PAIR = lazy_pattern("([\ud800-\udbff])([\udc00-\udfff])")


def decoded(raw: str) -> tuple[str, str]:
    """What the inside of a string says, and what was mended in its escapes.

    A string with an escape that JSON does not have was written without escaping: its backslashes are backslashes.
    """
    if "\\" not in raw:
        return raw, ""
    escapes = [match[1] for match in _ESCAPE.finditer(raw)]
    if any(len(escape) == 1 and escape not in _MEANINGS for escape in escapes):
        return re.sub(r'\\(["\\])', r"\1", raw), "backslashes"
    fault = "escapes" if any(escape[0] in "xU'`" or escape.startswith("u{") for escape in escapes) else ""
    try:
        plain = _ESCAPE.sub(_meaning, raw)
    except ValueError:
        return raw, "backslashes"
    return _PAIR.sub(lambda pair: pair[0].encode("utf-16", "surrogatepass").decode("utf-16"), plain), fault


def _meaning(match: re.Match[str]) -> str:
    escape = match[1]
    return chr(int(escape[1:].strip("{}"), 16)) if len(escape) > 1 else _MEANINGS[escape]
