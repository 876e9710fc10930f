"""What the bytes of a stream's file hold: intact lines, damaged lines, and an end that a crash cut short."""

import zlib
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from ctxwrap.stores.base import StreamLine
from ctxwrap.stores.log_format import CHECKSUMS, UNCOVERED, checksums_in, is_intact, parse
from ctxwrap.types import Record

_SECTOR = 512
"""The unit in which a medium loses data."""


class StreamPiece(NamedTuple):
    """The lines in a piece of a stream."""

    lines: list[StreamLine]
    end: int
    """Where the next line is to be written; an incomplete write may follow."""
    check: int
    """The checksum that the next line refers to."""
    synced: int
    """The position up to which the stream is known to be on the medium."""


def found_in(data: bytes, start: int, check: int | None) -> StreamPiece:
    """The lines in `data`, which is at `start` of a stream, behind a line with the checksum `check`, if known."""
    at = int(start > 0 and data.startswith(b"\n"))  # the newline of a line that had none yet when it was read
    reader = _Reader(check)
    read = list(reader.lines(data, start, at))
    kept = _without_torn([line for line, _ in read], data, start)
    return StreamPiece(
        kept,
        kept[-1].end if kept else start + at,
        (read[len(kept) - 1][1] if kept else check) or 0,
        max((_synced(line) or 0 for line in kept), default=0),
    )


class _Reader:
    """Reads line by line and keeps the checksum that the next line must refer to."""

    def __init__(self, check: int | None) -> None:
        self._check = check
        """The last checksum, or None if it is not known."""
        self._by_hand = False
        """Whether lines of other programs follow it."""
        self._seen: set[int] = set()
        """The hashes of all checksums so far."""

    def lines(self, data: bytes, start: int, at: int) -> Iterator[tuple[StreamLine, int | None]]:
        """Each line, and the checksum that the next line must refer to."""
        number = 1
        while at < len(data):
            newline = data.find(b"\n", at)
            stop = newline if newline >= 0 else len(data)
            text, end, stray = data[at:stop], min(stop + 1, len(data)), False
            is_whole = is_intact(text)
            if not is_whole and (length := _whole_within(text)):
                text, end, is_whole = text[:length], _behind(data, at + length), True
                stray = end > at + length
            line = self._sealed(text) if is_whole else self._unsealed(text)
            fault = line.fault or ("its end is damaged" if stray else "")
            yield line._replace(number=number, start=start + at, end=start + end, fault=fault), self._check
            at, number = end, number + 1

    def _sealed(self, text: bytes) -> StreamLine:
        seal, record = checksums_in(text), parse(text)
        assert seal is not None
        follows = self._check in (None, seal.before) or (self._by_hand and not seal.before)
        is_double = not follows and hash(seal) in self._seen
        if not is_double:
            self._check, self._by_hand = seal.check, False
            self._seen.add(hash(seal))
        if is_double or record is None:
            return StreamLine(0, 0, 0, None, "it is a duplicate" if is_double else "it is not a record")
        return StreamLine(0, 0, 0, record, "" if follows else "the line before it is missing")

    def _unsealed(self, text: bytes) -> StreamLine:
        record = parse(text)
        if record and "ctx" not in record and checksums_in(text) is None:
            self._by_hand = True
            return StreamLine(0, 0, 0, record, checked=False)
        self._check = None
        if not record:
            return StreamLine(0, 0, 0, None, "it is not a record")
        return StreamLine(0, 0, 0, None, "its checksum is wrong" if checksums_in(text) else "it has no checksum")


def _whole_within(text: bytes) -> int | None:
    """The length of an intact record at the start of a damaged line: its newline is lost."""
    check = at = 0
    for seal in CHECKSUMS.finditer(text):
        covered = seal.end() - UNCOVERED
        check, at = zlib.crc32(text[at:covered], check), covered
        if check == int(seal[2], 16):
            return seal.end()
    return None


def _behind(data: bytes, end: int) -> int:
    """Where the next line begins after a record whose newline was changed or lost."""
    if data.startswith(b'{"', end):
        return end
    stray = min(end + 1, len(data))
    return stray + (data[stray : stray + 1] == b"\n")


def _without_torn(lines: list[StreamLine], data: bytes, start: int) -> list[StreamLine]:
    """The lines without those at the end that a crash during a write explains."""
    for at, line in enumerate(lines):
        if line.record is None and _cut_short(line, data, start) and not _outlived(line, lines[at + 1 :]):
            lines = lines[:at]
            break
    place, count = (_batch(lines[-1]) if lines else None) or (0, 1)
    first = len(lines) - 1 - place
    begun = [(at, count) for at in range(place + 1)]
    is_half = place + 1 < count and first >= 0 and [_batch(line) for line in lines[first:]] == begun
    return lines[:first] if is_half else lines


def _cut_short(line: StreamLine, data: bytes, start: int) -> bool:
    """Whether the line has no end, or one of its sectors never reached the medium."""
    if data[line.end - start - 1 : line.end - start] != b"\n":
        return True
    edges = [line.start, *range(line.start // _SECTOR * _SECTOR + _SECTOR, line.end, _SECTOR), line.end]
    return any(not data[first - start : last - start].strip(b"\0") for first, last in pairwise(edges))


def _outlived(line: StreamLine, later: Sequence[StreamLine]) -> bool:
    """Whether later lines show that it was on the medium once."""
    known = [_synced(other) for other in later if other.record is not None]
    return any(synced is None or synced > line.start for synced in known)


def _synced(line: StreamLine) -> int | None:
    value = _control(line).get("w")
    return value if isinstance(value, int) and value <= line.start else None


def _batch(line: StreamLine) -> tuple[int, int] | None:
    match _control(line).get("b"):
        case [int(place), int(count)]:
            return place, count
    return None


def _control(line: StreamLine) -> Record:
    control = (line.record or {}).get("ctx") if line.checked else None
    return control if isinstance(control, dict) else {}
