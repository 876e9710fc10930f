"""The tokens of damaged JSON: keys and strings."""

import json
import re
from collections.abc import Callable
from typing import NamedTuple

from ctxwrap.language.patterns import lazy_pattern
from ctxwrap.protocol.repair.strict import (
    BRACES,
    CLOSERS,
    CLOSING,
    COLON,
    COMMAS,
    GAP,
    OPENERS,
    QUOTE,
    is_at,
    skip,
    skip_commas,
)
from ctxwrap.protocol.vocabulary import KNOWN_KEYS, canonical_tier

_KNOWN = "|".join(sorted((key.replace("_", r"(?:[\s-]|\\?_)?") for key in KNOWN_KEYS), key=len, reverse=True))
KNOWN_NAME = "|".join(sorted(KNOWN_KEYS, key=len, reverse=True))
_NAME = r"[A-Za-z_][\w-]{0,39}"
_LITERAL = r"(?:true|false|null|none|nil|undefined|nan|[+-]?infinity|void 0)\b"

KNOWN_KEY = lazy_pattern(rf"(?:{QUOTE}{GAP})?({_KNOWN}|capability){GAP}{QUOTE}?{GAP}{COLON}", re.IGNORECASE)
_KNOWN_WITHOUT_COLON = lazy_pattern(rf"{QUOTE}({_KNOWN}){QUOTE}{GAP}(?={QUOTE}|[\d.\[{{+-])", re.IGNORECASE)
_OTHER = lazy_pattern(rf"(?:{QUOTE}([^{QUOTE[1:-1]}\n{{}}\[\]]{{1,40}}){QUOTE}|({_NAME})){GAP}{COLON}{GAP}")
_HALF_QUOTED = lazy_pattern(rf"({_NAME}){QUOTE}{GAP}{COLON}{GAP}")
_WITHOUT_COLON = lazy_pattern(rf'{QUOTE}({_NAME}){QUOTE}{GAP}(?=(?:{_LITERAL}|[\d.+-]+|"[^"\n]*"){GAP}[,}}\]])')
_BEFORE_OBJECT = lazy_pattern(rf"{QUOTE}([\w.-]{{1,40}}){QUOTE}{GAP}(?=[{BRACES}])")
_CUT = lazy_pattern(rf"{QUOTE}?[\w -]{{0,30}}{QUOTE}?{GAP}:?{GAP}\Z")
_SIMPLE_VALUE = lazy_pattern(
    rf'"(?:[^"\\\n]|\\.)*+"|-?\d[\d.eE+-]*|\[[^\[\]{{}}]*\]|{_LITERAL}|{QUOTE}[^{QUOTE[1:-1]}\n]*{QUOTE}', re.IGNORECASE
)


class Key(NamedTuple):
    """A key as written, and where its value begins."""

    name: str
    value_at: int


def key_at(text: str, at: int) -> Key | None:
    """Return the key at `at`, if any."""
    for pattern in (KNOWN_KEY, _KNOWN_WITHOUT_COLON, _OTHER, _HALF_QUOTED, _WITHOUT_COLON, _BEFORE_OBJECT):
        match = pattern.match(text, at)
        if match:
            name = next(group for group in match.groups() if group is not None)
            return Key(name.replace("\\", ""), skip(text, match.end()))
    return None


def is_cut_key(text: str, at: int) -> bool:
    """Whether the text ends here, in what may be the start of a key."""
    return _CUT.match(text, at) is not None


def starts_pair(text: str, at: int, *, after_comma: bool = False) -> bool:
    """Whether a snapshot key begins here, or another pair that is complete."""
    if any(pattern.match(text, at) for pattern in (KNOWN_KEY, _KNOWN_WITHOUT_COLON, _WITHOUT_COLON)):
        return True
    if after_comma and is_cut_key(text, at):
        return True
    other = _OTHER.match(text, at) or (_HALF_QUOTED.match(text, at) if after_comma else None)
    if other is None:
        return False
    at = skip(text, other.end())
    if is_at(text, at, OPENERS) and canonical_tier(next(filter(None, other.groups()))):
        return True
    if is_at(text, at, BRACES):
        return KNOWN_KEY.match(text, skip(text, at + 1)) is not None
    value = _SIMPLE_VALUE.match(text, at)
    return value is not None and _ends_pairs(text, skip(text, value.end()))


def _ends_pairs(text: str, at: int) -> bool:
    """Whether a pair may end here: the object ends, or a snapshot key follows, possibly after other pairs."""
    for _ in range(_MOST_PAIRS):
        if not is_at(text, at, COMMAS):
            return at >= len(text) or ends_object(text, at)
        at = skip_commas(text, at)
        if at >= len(text) or text[at] in CLOSERS or KNOWN_KEY.match(text, at):
            return True
        other = _OTHER.match(text, at)
        value = _SIMPLE_VALUE.match(text, skip(text, other.end())) if other else None
        if other is None or value is None:
            return other is not None and is_at(text, skip(text, other.end()), OPENERS)
        at = skip(text, value.end())
    return False


_MOST_PAIRS = 8


def ends_object(text: str, at: int) -> bool:
    """Whether a closing brace is here, followed by something legal."""
    return is_at(text, at, "}｝") and closes(text, at)


def closes(text: str, at: int) -> bool:
    """Whether the brackets at `at` close something: a list or object continues after them, or nothing does."""
    end = at
    while is_at(text, at, CLOSERS):
        end = at + 1
        at = skip(text, end)
    if at >= len(text) or text[at] in BRACES or text.startswith(("...", "…"), at):
        return True
    if text[at] in COMMAS:
        return continues_after_comma(text, skip_commas(text, at), OPENERS[:2] + CLOSERS)
    return text[at] in "`~<" or "\n" in text[end:at] or starts_pair(text, at)


def continues_after_comma(text: str, at: int, marks: str) -> bool:
    """Whether one of `marks`, a pair, an ellipsis or the end follows a comma."""
    return (
        at >= len(text)
        or text[at] in marks
        or text.startswith(("...", "…"), at)
        or starts_pair(text, at, after_comma=True)
    )


def ends_value(text: str, at: int) -> bool:
    """Whether a value of an object may end before `at`."""
    at = skip(text, at)
    if at >= len(text) or ends_object(text, at):
        return True
    if text[at] in COMMAS:
        at = skip_commas(text, at)
        if is_at(text, at, BRACES):
            return KNOWN_KEY.match(text, skip(text, at + 1)) is not None
        return closes(text, at) if is_at(text, at, CLOSERS) else continues_after_comma(text, at, "")
    if text[at] in "]］":
        return closes(text, at)
    if text[at] == "+":
        return re.compile(rf"\+\s*{QUOTE}").match(text, at) is not None
    return starts_pair(text, at)


def ends_element(text: str, at: int) -> bool:
    """Whether a string of a list may end before `at`."""
    at = skip(text, at)
    if at >= len(text):
        return True
    if text[at] in "]］":
        return closes(text, at)
    if text[at] in COMMAS:
        at = skip_commas(text, at)
        return (
            bool(re.compile(QUOTE).match(text, at)) or is_at(text, at, "]］") or starts_pair(text, at, after_comma=True)
        )
    return ends_object(text, at) or bool(re.compile(QUOTE).match(text, at)) or starts_pair(text, at)


scan_string: Callable[[str, int, bool], tuple[str, int]] = json.decoder.scanstring  # type: ignore[attr-defined]
_CLOSE = {quote: lazy_pattern(rf"\\.|[{re.escape(close)}]", re.DOTALL) for quote, close in CLOSING.items()}
"""What may close a string, by its opening quote; an escaped mark does not."""
_TRIPLES = ('"""', "'''", "```")


class RepairedString(NamedTuple):
    """A string's value, its end, and the repair."""

    value: str
    end: int
    repair: str = ""


def read_string(text: str, at: int, ends: Callable[[str, int], bool]) -> RepairedString | None:
    """Read the string at `at` up to an end that something legal follows; None if the text ends first."""
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
            value, fault = decode_string(text[at + 1 : end])
            name = "inner-quotes" if text[at] == '"' else "quotes"
            return _without_swallowed(text, at, end) or RepairedString(value, end + 1, fault or name)
    return None


_STRICT = lazy_pattern(r'"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*+"')


def _read_strictly(text: str, at: int) -> RepairedString | None:
    # the scanner's errors would count the lines before them
    return RepairedString(*scan_string(text, at + 1, True)) if _STRICT.match(text, at) else None


def _read_triple(text: str, at: int, triple: str, ends: Callable[[str, int], bool]) -> RepairedString | None:
    end = text.find(triple, at + 3)
    while end >= 0:
        if ends(text, end + 3):
            return RepairedString(decode_string(text[at + 3 : end])[0], end + 3, "triple-quotes")
        end = text.find(triple, end + 1)
    return None


_REST_OF_KEY = lazy_pattern(rf"\w[\w-]*{QUOTE}{GAP}{COLON}")
_LAST_COMMA = lazy_pattern(rf"[{COMMAS}]{GAP}\Z")


def _without_swallowed(text: str, at: int, end: int) -> RepairedString | None:
    """Return the string without a comma that it includes because its closing quote is missing, if the next key shows
    that.
    """
    inside = text[at + 1 : end]
    comma = _LAST_COMMA.search(inside)
    if comma is None or not _REST_OF_KEY.match(text, end + 1):
        return None
    return RepairedString(decode_string(inside[: comma.start()])[0], at + 1 + comma.start(), "missing-quote")


_ESCAPE = lazy_pattern(r"\\(u\{[0-9a-fA-F]{1,6}\}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|x[0-9a-fA-F]{2}|.)", re.DOTALL)
_MEANINGS = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "'": "'", "`": "`"}
_PAIR = lazy_pattern("([\ud800-\udbff])([\udc00-\udfff])")


def decode_string(raw: str) -> tuple[str, str]:
    """Decode the inside of a string, and name the repair of its escapes.

    An escape that JSON does not have shows that the string was not escaped: its backslashes are literal.
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
