"""Lookup of records in a stream by number, with a few small reads each."""

import json
import os
from array import array
from bisect import bisect_right
from collections.abc import Iterator, Sequence, Set
from typing import Any, NamedTuple

from ctxwrap.stores.log_format import decode_line, number_in
from ctxwrap.types import Record

_CHUNK = 1 << 13
"""How many bytes are read at once."""

_LONGEST = 1 << 24
"""A record is not found behind so many bytes without a number."""

_GUESSES, _TRIES = 8, 64
"""After so many guesses the search bisects, and after so many tries it gives up, or when it has read too much."""

_NEAR = 4
"""So few lines ahead are read one by one instead of guessed."""

_REMEMBERED = 4096
"""How many offsets are kept, in 16 bytes each: a process may keep many sessions open."""

_SAYS = b'"seq":'


class RecordOffset(NamedTuple):
    number: int
    start: int
    """The byte where the line begins."""


class NumberGap(NamedTuple):
    """Numbers that no record has."""

    before: int
    """The last number before them."""
    next: RecordOffset
    """The first record behind them."""

    def __contains__(self, number: object) -> bool:
        return isinstance(number, int) and self.before < number < self.next.number


class RecordPicker:
    """Finds records and keeps their offsets for the next search."""

    def __init__(self) -> None:
        self._file = 0
        self._gap: NumberGap | None = None
        """The gap that was found last: many lines may have no number."""
        self._forget()
        self._end = RecordOffset(0, 0)
        """The last number of the file, and the file's length then."""

    def pick(self, handle: int, numbers: Sequence[int]) -> dict[int, Record]:
        known = os.fstat(handle)
        if known.st_ino != self._file:
            self._file, self._end = known.st_ino, RecordOffset(0, 0)
            self._forget()
        if known.st_size != self._end.start:
            self._end = RecordOffset(_last_number(handle, known.st_size), known.st_size)
        if self._gap is not None and not _is_at(handle, self._gap.next):
            self._gap = None
        wanted, found = [number for number in numbers if 0 < number <= self._end.number], dict[int, Record]()
        for at, number in enumerate(wanted):
            try:
                record = self._found(handle, number)
            except _GaveUp:
                return found | _scan(handle, frozenset(wanted[at:]))
            if record is not None:
                found[number] = record
        return found

    def _found(self, handle: int, number: int) -> Record | None:
        if self._gap is not None and number in self._gap:
            return None
        search = _Search(handle, number, *self._around(number))
        record = search.run()
        if record is None:  # offsets may be of another file, and a damaged line may have misled the search
            search = _Search(handle, number, RecordOffset(0, 0), self._after_all(), only_whole=True)
            record = search.run()
            if record is not None:
                self._forget()
            elif search.gap is not None:
                self._gap = search.gap
        if record is not None and len(self._numbers) < _REMEMBERED:
            self._remember(RecordOffset(number, search.at))
        return record

    def _around(self, number: int) -> tuple[RecordOffset, RecordOffset]:
        """The nearest known offsets below and above a number."""
        at = bisect_right(self._numbers, number)
        low = RecordOffset(self._numbers[at - 1], self._starts[at - 1]) if at else RecordOffset(1, 0)
        high = RecordOffset(self._numbers[at], self._starts[at]) if at < len(self._numbers) else self._after_all()
        return RecordOffset(low.number - 1, low.start), high

    def _after_all(self) -> RecordOffset:
        return RecordOffset(self._end.number + 1, self._end.start)

    def _remember(self, place: RecordOffset) -> None:
        at = bisect_right(self._numbers, place.number)
        if not at or self._numbers[at - 1] != place.number:
            self._numbers.insert(at, place.number)
            self._starts.insert(at, place.start)

    def _forget(self) -> None:
        self._numbers, self._starts, self._gap = array("Q"), array("Q"), None


class _GaveUp(Exception):
    """Too many lines have no number, so a search is no faster than a pass through the whole file."""


class _Search:
    """Narrows the range of bytes in which a record can be until it is found."""

    def __init__(
        self, handle: int, number: int, low: RecordOffset, high: RecordOffset, *, only_whole: bool = False
    ) -> None:
        self._handle = handle
        self._number = number
        self._low = low
        """A line begins there, and the line before it has that number or a lower one."""
        self._high = high
        """The wanted line begins before it."""
        self._only_whole = only_whole
        """Whether every line's checksum is verified."""
        self._is_over = False
        self.at = 0
        """Where the record was found."""
        self.gap: NumberGap | None = None
        """The gap in which the number is, if there is no such record."""

    def run(self) -> Record | None:
        left = 2 * (self._high.start - self._low.start) + 8 * _CHUNK
        for tried in range(_TRIES):
            at, before = self._guess(tried), (self._low, self._high)
            start, lines = _lines_from(self._handle, at, is_line=at == self._low.start)
            left -= len(lines)
            record = self._walk(start, lines, at) if start < self._high.start else None
            if record is not None or self._is_over:
                return record
            if (self._low, self._high) == before:
                if at == self._low.start:
                    return None
                self._high = self._high._replace(start=at)
            if left < 0:
                break
        raise _GaveUp

    def _guess(self, tried: int) -> int:
        low, high = self._low, self._high
        ahead, room = self._number - low.number - 1, high.start - low.start
        if ahead < _NEAR or room <= _CHUNK:
            return low.start
        if tried >= _GUESSES:
            return low.start + room // 2
        guess = low.start + room * ahead // max(1, high.number - low.number - 1)
        return max(low.start, min(guess - _CHUNK // 4, high.start - 1))

    def _walk(self, start: int, lines: bytes, at: int) -> Record | None:
        """Go through lines, skipping as many as the numbers allow; one by one if numbers are missing."""
        here, longest = 0, len(lines)
        behind = -1  # where the last line of a lower number ends, if one was passed
        seen_all = True  # whether every line since then was looked at
        while (end := lines.find(b"\n", here)) >= 0:
            number = self._number_of(lines, here, end)
            if number == self._number:
                self.at, self._is_over = start + here, True
                return self._checked(lines[here:end])
            if number is not None and number > self._number:
                if seen_all:
                    self._is_over = behind >= 0 or at == self._low.start
                    self.gap = (
                        NumberGap(self._low.number, RecordOffset(number, start + here)) if self._is_over else None
                    )
                    self._high = RecordOffset(number, at if behind < 0 else start + here)
                    return None
                self._high, here, longest, seen_all = RecordOffset(number, start + here), behind, 1, True
                continue
            step = 1
            if number is not None:
                behind = end + 1
                self._low = RecordOffset(number, start + behind)
                step = min(longest, self._number - number)
                seen_all = step == 1
            here = _skip(lines, end + 1, step - 1)
            if here < 0:
                break
        return None

    def _number_of(self, lines: bytes, start: int, end: int) -> int | None:
        if self._only_whole and decode_line(lines[start:end]) is None:
            return None
        return _number(lines, start, end)

    def _checked(self, line: bytes) -> Record | None:
        record = decode_line(line)
        return record if record is not None and number_in(record) == self._number else None


def _skip(lines: bytes, here: int, count: int) -> int:
    """Where the line begins that is so many behind the one that begins here, or -1."""
    for _ in range(count):
        here = lines.find(b"\n", here) + 1
        if not here:
            return -1
    return here


def _lines_from(handle: int, at: int, *, is_line: bool) -> tuple[int, bytes]:
    """Where the first line begins at `at` or behind, and what stands there up to a line that is numbered, or more."""
    start, size = at if is_line else at - 1, _CHUNK
    while True:
        data = os.pread(handle, size, start)
        first = 0 if is_line else data.find(b"\n") + 1
        if (is_line or first) and data.find(_SAYS, first, data.rfind(b"\n") + 1) >= 0:
            return start + first, data[first:]
        if len(data) < size or size >= _LONGEST:
            return start + len(data), b""
        size *= 4


def _scan(handle: int, numbers: Set[int]) -> dict[int, Record]:
    """The records of these numbers in the whole file."""
    found = dict[int, Record]()
    with open(os.dup(handle), "rb") as file:
        file.seek(0)
        for line in file:
            number = _number(line, 0, len(line))
            if number is not None and number in numbers:
                record = decode_line(line.removesuffix(b"\n"))
                if record is not None and number_in(record) == number:
                    found[number] = record
    return found


def _is_at(handle: int, place: RecordOffset) -> bool:
    """Whether a line of that number begins there."""
    start, lines = _lines_from(handle, place.start, is_line=True)
    return start == place.start and _number(lines, 0, lines.find(b"\n") + 1) == place.number


def _last_number(handle: int, size: int) -> int:
    """The number of the last numbered line near the end of a file, or 0."""
    length = _CHUNK
    while True:
        tail = os.pread(handle, length, max(0, size - length))
        number = _number(tail, 0, len(tail))
        if number is not None or length >= min(size, _LONGEST):
            return number or 0
        length *= 4


def _number(lines: bytes, start: int, end: int) -> int | None:
    """The number that a line seems to have; the record found by it is checked."""
    at = lines.rfind(_SAYS, start, end) + len(_SAYS)
    digits = lines[at : at + 15].partition(b",")[0] if at >= len(_SAYS) else b""
    return int(digits) if digits.isdigit() else None


_BLOCK = 1 << 16
"""How many bytes are read at once; so few are scanned instead of searched."""

_SLACK = 64
"""How many records behind the wanted ones are read as well, so that the last batch is complete."""


class ByteSpan(NamedTuple):
    start: int
    """Where a line begins."""
    end: int
    """Where a line ends."""


def span_of(handle: int, first: int, last: int) -> ByteSpan:
    """A part of a stream with the records of these numbers, if its lines are numbered in order."""
    size = os.fstat(handle).st_size
    start, _ = _around(handle, first, 0, size)
    _, stop = _around(handle, last + _SLACK, start, size)
    return ByteSpan(start, _line_end(handle, stop, size))


def _around(handle: int, number: int, low: int, high: int) -> tuple[int, int]:
    """A small range: from a line at or before that number, to where all later numbers are higher."""
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
