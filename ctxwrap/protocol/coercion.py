"""What a model meant by a field of the wrong type, as far as there is no doubt."""

import math
from collections.abc import Callable, Mapping
from typing import Any

from ctxwrap.patterns import lazy_pattern
from ctxwrap.protocol.numerals import han_number, in_ascii
from ctxwrap.protocol.words import MAX_WORD

_NUMBER = lazy_pattern(r"\s*[+-]?(?:\d{1,18}(?:[.,]\d{0,18})?|\.\d{1,18})\s*%?\s*")
_TAG_COMMA = lazy_pattern("[,，、;；]")
_LONE = lazy_pattern("[\ud800-\udfff]")


def _number(value: Any) -> Any:
    if not isinstance(value, str) or len(value) > MAX_WORD:
        return value
    given, value = value, han_number(value.strip()) or in_ascii(value)
    if not _NUMBER.fullmatch(value):
        return given
    number = float(value.strip().rstrip("% ").replace(",", "."))
    return number / 100 if value.strip().endswith("%") else number


def _decay(value: Any) -> Any:
    value = _number(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        return value
    return value if 0 <= value <= 1 else float(value > 0)


def _round(value: Any) -> Any:
    value = _number(value)
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _tags(value: Any) -> Any:
    if isinstance(value, str):
        return [tag.strip() for tag in _TAG_COMMA.split(value) if tag.strip()]
    if value == {}:
        return []  # notations with one kind of bracket
    return [as_text(tag) for tag in value] if isinstance(value, list) else value


def as_text(value: Any) -> Any:
    """A number as text; half of a surrogate pair, which no file can hold, as the mark for what is lost."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return str(value)
    return _LONE.sub("\N{REPLACEMENT CHARACTER}", value) if isinstance(value, str) else value


COERCIONS: Mapping[str, Callable[[Any], Any]] = {
    "id": as_text,
    "type": as_text,
    "content": as_text,
    "decay": _decay,
    "round": _round,
    "tags": _tags,
}
