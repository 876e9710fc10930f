"""Where in a stream the records of certain numbers lie, found without reading all of it."""

import json
import os
from collections.abc import Iterator
from typing import Any, NamedTuple

_BLOCK = 1 << 16
"""So many bytes are read at once, and rather looked through than searched."""

_SLACK = 64
"""So many records behind the wanted ones are read as well, so that the batch of the last one is whole."""


class Span(NamedTuple):
    start: int
    """Where a line begins."""
    end: int
    """Where a line ends."""


def span_of(handle: int, first: int, last: int) -> Span:
    """A part of a stream that holds the records of these numbers, if its lines are numbered and in order."""
    size = os.fstat(handle).st_size
    start, _ = _around(handle, first, 0, size)
    _, stop = _around(handle, last + _SLACK, start, size)
    return Span(start, _line_end(handle, stop, size))


def _around(handle: int, number: int, low: int, high: int) -> tuple[int, int]:
    """Two places near each other: a line at or before the one of that number, and where all later ones are above it."""
    while high - low > _BLOCK:
        middle = (low + high) // 2
        place, found = _next_number(handle, middle, high)
        if found is not None and found < number:
            low = place
        else:
            high = middle
    return low, high


def _next_number(handle: int, at: int, size: int) -> tuple[int, int | None]:
    """The first numbered line that begins behind `at`, and its number."""
    at = _line_end(handle, at, size)
    while at < size:
        end = _line_end(handle, at, size)
        number = _number_at(os.pread(handle, end - at, at))
        if number is not None:
            return at, number
        at = end
    return size, None


def _line_end(handle: int, at: int, size: int) -> int:
    for start, block in _blocks(handle, at, size):
        newline = block.find(b"\n")
        if newline >= 0:
            return start + newline + 1
    return size


def _blocks(handle: int, at: int, size: int) -> Iterator[tuple[int, bytes]]:
    while at < size and (block := os.pread(handle, min(_BLOCK, size - at), at)):
        yield at, block
        at += len(block)


def _number_at(line: bytes) -> int | None:
    try:
        record: Any = json.loads(line)
        number = record["ctx"]["seq"]
    except (ValueError, RecursionError, LookupError, TypeError):
        return None
    return number if isinstance(number, int) else None
