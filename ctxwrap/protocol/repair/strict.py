"""Strict JSON, the marks of JSON as models write them, and the effort limit of all repairs."""

import json
import math
import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

from ctxwrap.language.patterns import lazy_pattern
from ctxwrap.protocol.vocabulary import MAX_DEPTH

LONE_SURROGATE = lazy_pattern("[\ud800-\udfff]")


class Unreadable(ValueError):
    """The text is not a snapshot that can be read with certainty."""


class Ambiguous(Unreadable):
    """The text has several equally good readings."""


class RecoveredObject(NamedTuple):
    """An object, the repairs, and whether the text ended inside it."""

    data: dict[str, Any]
    repairs: tuple[str, ...] = ()
    cut: bool = False


def read_strictly(text: str) -> RecoveredObject | None:
    """Read a text that is one strict JSON object."""
    try:
        data, end = strict_prefix(text)
    except ValueError:
        return None
    return RecoveredObject(data) if end == len(text) else None


def strict_prefix(text: str, *, control: bool = False) -> tuple[dict[str, Any], int]:
    """Return the object at the start of `text` and its end; raise ValueError, with `pos` if known, if there is none.

    `control` allows unescaped line breaks and other control characters in strings.
    """
    data, end = value_at(text, 0, control=control)
    if not isinstance(data, dict):
        raise Unreadable("it is no JSON object")
    return data, end


def value_at(text: str, at: int, *, control: bool = False) -> tuple[Any, int]:
    """Return the value at `at` and its end."""
    try:
        return (_LENIENT if control else _DECODER).raw_decode(text, at)
    except RecursionError:
        raise Unreadable(f"it is nested deeper than {MAX_DEPTH}") from None


def is_unstorable(value: Any, depth: int = MAX_DEPTH) -> bool:
    """Whether `value` is nested too deeply, or contains a number or text that no JSON file can hold."""
    if isinstance(value, str):
        return not value.isascii() and LONE_SURROGATE.search(value) is not None
    if isinstance(value, (dict, list)):
        if depth == 0:
            return True
        for child in (*value, *value.values()) if isinstance(value, dict) else value:
            if is_unstorable(child, depth - 1):
                return True
        return False
    return not math.isfinite(value) if isinstance(value, float) else not isinstance(value, (int, type(None)))


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise Unreadable("a key stands twice in one object")
    return value


def _no_constant(name: str) -> Any:
    raise Unreadable(f"{name} is no JSON number")


_DECODER = json.JSONDecoder(object_pairs_hook=_no_duplicates, parse_constant=_no_constant)
_LENIENT = json.JSONDecoder(object_pairs_hook=_no_duplicates, parse_constant=_no_constant, strict=False)


MAX_STEPS = 42_000
"""Maximum steps per reply. A step is about a microsecond: a token, or a hundred characters skipped.

Steps are counted, not timed, so that a reply is read in the same way on every machine.
"""


class Exhausted(Exception):
    """The effort is used up."""


class Effort:
    """The remaining steps."""

    def __init__(self, left: int = MAX_STEPS) -> None:
        self.left = left


_CURRENT: ContextVar[Effort] = ContextVar("effort")


@contextmanager
def limit_effort(effort: Effort) -> Iterator[None]:
    """Charge everything spent inside to `effort`."""
    token = _CURRENT.set(effort)
    try:
        yield
    finally:
        _CURRENT.reset(token)


def spend(steps: int) -> None:
    """Charge `steps`; raise Exhausted if none are left."""
    effort = _CURRENT.get()
    effort.left -= steps
    if effort.left < 0:
        raise Exhausted


def remaining_steps() -> int:
    """Return the remaining steps."""
    return _CURRENT.get().left


ZERO_WIDTH = "\u200b\u200c\u200d\u2060\ufeff\u00ad"
OPENERS, CLOSERS = "{｛[［", "}｝]］"
BRACES = "{｛"
COMMAS = ",;，；、"
COLON = r"(?:=>|->|[:=：＝])"
ELLIPSES = ("...", "…")

LITERALS: dict[str, bool | None] = {
    **dict.fromkeys(("null", "none", "nil", "undefined", "nan", "infinity", "-infinity", "+infinity")),
    **dict.fromkeys(("true", "yes"), True),
    **dict.fromkeys(("false", "no"), False),
}

CLOSING = {
    '"': '"',
    "'": "'",
    "`": "`",
    "“": '”“"',
    "”": '”“"',
    "„": '”“"',
    "‟": '”“"',
    "‘": "’‘'",
    "’": "’‘'",
    "＂": "＂",
    "＇": "＇",
    "«": "»",
    "「": "」",
}
"""For each opening quote, the quotes that may close it."""

QUOTES = "".join(CLOSING)
QUOTE = f"[{re.escape(''.join(sorted({*QUOTES, *''.join(CLOSING.values())})))}]"
GAP = rf"[\s{ZERO_WIDTH}]*+"

_COMMENT = 400
BLOCK_COMMENT = rf"/\*[^*]{{0,{_COMMENT}}}+(?:\*(?!/)[^*]{{0,{_COMMENT}}}+){{0,20}}+\*/"
_NEVER_BLANK = frozenset("{}[],:\"'0123456789abcdefghijklmnopqrstuvwxyz")
_BLANK = lazy_pattern(rf"(?:[\s{ZERO_WIDTH}]|//[^\n]{{0,{_COMMENT}}}|#[^\n]{{0,{_COMMENT}}}|{BLOCK_COMMENT})*")


def skip(text: str, at: int) -> int:
    """Skip white space and comments."""
    if at < len(text) and text[at] in _NEVER_BLANK:
        return at
    match = _BLANK.match(text, at)
    return match.end() if match else at


def skip_commas(text: str, at: int) -> int:
    """Skip one or more commas and white space between them."""
    at = skip(text, at)
    while is_at(text, at, COMMAS):
        at = skip(text, at + 1)
    return at


def is_at(text: str, at: int, marks: str) -> bool:
    """Whether one of `marks` is at `at`."""
    return at < len(text) and text[at] in marks
