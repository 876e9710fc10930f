"""Text for a terminal."""

import json
import re
from typing import Any

_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: str) -> str:
    """`text` without the characters that move a cursor, colour a screen, turn the direction of writing, or are none."""
    return _CONTROLS.sub("", text)


def one_line(text: str) -> str:
    """`text`, printable, with every run of white space as one space."""
    return " ".join(printable(text).split())


def as_name(text: str) -> str:
    """An id as it is or, if it could be taken for another one on a screen, as Python writes it."""
    is_plain = text.isprintable() and text == one_line(text) and not text.startswith(("'", '"'))
    return text if text and is_plain else repr(text)


def as_time(text: str) -> str:
    """A moment of a log, to the second."""
    return re.sub(r"^(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)(?:\.\d+)?Z$", r"\1 \2", text)


def as_size(count: int | None) -> str:
    """Bytes in three digits or so."""
    if count is None:
        return ""
    size, units = float(count), iter(("B", "kB", "MB", "GB"))
    unit = next(units)
    while size >= 1000 and (larger := next(units, None)):
        size, unit = size / 1000, larger
    return f"{count} B" if unit == "B" else f"{size:.1f} {unit}"


def json_text(value: Any, *, indent: int | None = 2) -> str:
    """In ASCII, so that nothing gets lost and nothing steers a terminal."""
    return json.dumps(value, indent=indent, default=str).replace("\x7f", "\\u007f")
