"""JSON read strictly: no key twice, no NaN, no abyss."""

import json
import math
from typing import Any

from ctxwrap.patterns import lazy_pattern
from ctxwrap.protocol.words import MAX_DEPTH

_LONE_SURROGATE = lazy_pattern("[\ud800-\udfff]")


class Unreadable(ValueError):
    """The text is no snapshot that can be read with certainty."""


class Ambiguous(Unreadable):
    """The text can be read in several ways, none better than the others."""


def strict_prefix(text: str, *, control: bool = False) -> tuple[dict[str, Any], int]:
    """The object that `text` begins with, and where it ends; a ValueError, with `pos` if known, if there is none.

    `control` lets strings hold line breaks and other control characters as they are.
    """
    data, end = value_at(text, 0, control=control)
    if not isinstance(data, dict):
        raise Unreadable("it is no JSON object")
    return data, end


def value_at(text: str, at: int, *, control: bool = False) -> tuple[Any, int]:
    """The value that stands at `at`, and where it ends."""
    try:
        return (_LENIENT if control else _DECODER).raw_decode(text, at)
    except RecursionError:
        raise Unreadable(f"it is nested deeper than {MAX_DEPTH}") from None


def is_wild(value: Any, depth: int = MAX_DEPTH) -> bool:
    """Whether `value` is nested too deeply, or holds a number or a text that no JSON file can hold."""
    if isinstance(value, str):
        return not value.isascii() and _LONE_SURROGATE.search(value) is not None
    if isinstance(value, (dict, list)):
        if depth == 0:
            return True
        for child in (*value, *value.values()) if isinstance(value, dict) else value:
            if is_wild(child, depth - 1):
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
