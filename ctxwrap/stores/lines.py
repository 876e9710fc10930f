"""The lines of a stream: how records become bytes that vouch for each other, and what bytes hold of them.

Every line closes, in its `ctx`, with a checksum `c` over itself and the checksum before it. `b` says which of how many
lines of one batch it is. `w` is how much of the stream was known to be on the medium when the line was written; it is
there if somebody waits for that, and tells what a power cut left half done from what was damaged later.
"""

import json
import zlib
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from ctxwrap.types import Line, Record

SEAL = len(b',"c":"00000000"}}\n')
"""The length of what a line closes with."""

_SECTOR = 512
"""The unit in which a medium forgets."""

_MANY = 64
"""So many ways to continue a damaged line, or ends of a record within one, are looked at."""


def encoded(record: Record) -> bytes:
    try:
        return json.dumps(record, ensure_ascii=False, separators=(",", ":"), default=str).encode()
    except UnicodeEncodeError:  # lone surrogates, which only an escape can carry
        return json.dumps(record, separators=(",", ":"), default=str).encode()


def sealed(records: Sequence[Record], check: int, synced: int | None = None) -> bytes:
    """The records as the lines of one batch behind the checksum `check`."""
    lines = []
    for place, record in enumerate(records):
        said = {name: value for name, value in record.items() if name != "ctx"}
        control = dict(record["ctx"])
        if synced is not None:
            control["w"] = synced
        if len(records) > 1:
            control["b"] = [place, len(records)]
        head = encoded({**said, "ctx": control})[:-2]
        check = zlib.crc32(head, check)
        lines.append(head + seal(check))
    return b"".join(lines)


def seal(check: int) -> bytes:
    return b',"c":"%08x"}}\n' % check


def resealed(line: bytes, check: int) -> bytes:
    """The line as it is, with its checksum, if it has one, over another line before it."""
    head = line[: 1 - SEAL]
    return line + b"\n" if _stored(line) is None else head + seal(zlib.crc32(head, check))


def unsealed(record: Record) -> Record:
    """A record that was read, as one to be written."""
    control = record.get("ctx") or {}
    return {
        **record,
        "ctx": {"v": 1, **{name: value for name, value in control.items() if name not in ("c", "b", "w")}},
    }


def check_in(lines: bytes) -> int:
    """The checksum that a line written behind these continues: that of the last one, or 0."""
    return _stored(lines.removesuffix(b"\n")) or 0


def _stored(line: bytes) -> int | None:
    tail = line[1 - SEAL :]
    digits = tail[6:14]
    if not tail.startswith(b',"c":"') or not tail.endswith(b'"}}') or digits.strip(b"0123456789abcdef"):
        return None
    return int(digits, 16)


class Found(NamedTuple):
    """What a piece of a stream holds."""

    lines: list[Line]
    end: int
    """Where the next line is to be written; behind it lies what a crash cut short."""
    synced: int
    """How much of the stream is known to be on the medium."""


def found_in(data: bytes, start: int, check: int, number: int = 1) -> Found:
    """The lines in `data`, which begins at `start` of a stream, behind a line with the checksum `check`."""
    lines = list(_each(data, start, frozenset({check}), number))
    kept = _without_torn(lines, data, start)
    end = kept[-1].end if kept else start
    return Found(kept, end, max((_synced(line) or 0 for line in kept), default=0))


def _parsed(line: bytes) -> Record | None:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None


def _each(data: bytes, start: int, checks: frozenset[int], number: int) -> Iterator[Line]:
    at = 0
    while at < len(data):
        newline = data.find(b"\n", at)
        stop = newline if newline >= 0 else len(data)
        text, end = data[at:stop], min(stop + 1, len(data))
        whole = _whole_within(text, checks) if newline < 0 or not _is_sealed_by(text, checks) else None
        if whole is not None:
            text, end = text[:whole], _behind(data, at + whole)
        line, checks = _line(text, checks)
        fault = line.fault or ("its end is damaged" if whole is not None and end > at + whole else "")
        yield line._replace(number=number, start=start + at, end=start + end, fault=fault)
        at, number = end, number + 1


def _behind(data: bytes, end: int) -> int:
    """Where the next line begins behind a record whose newline is another byte now, or missing altogether."""
    stray = min(end + 1, len(data))
    return stray + (data[stray : stray + 1] == b"\n")


def _line(text: bytes, checks: frozenset[int]) -> tuple[Line, frozenset[int]]:
    """What a line says, and the checksums that the next one may continue."""
    stored, record = _stored(text), _parsed(text)
    if stored is not None and record is not None and _is_sealed_by(text, checks):
        return Line(0, 0, 0, record), frozenset({stored})
    if len(checks) < _MANY:
        checks |= {stored or 0, *(zlib.crc32(text[: 1 - SEAL], check) for check in checks)}
    if stored is None and record and "ctx" not in record:
        return Line(0, 0, 0, record, checked=False), checks
    fault = "it is no record" if not record else "its checksum is wrong" if stored is not None else "it has no checksum"
    return Line(0, 0, 0, None, fault), checks


def _is_sealed_by(line: bytes, checks: frozenset[int]) -> bool:
    stored = _stored(line)
    return stored is not None and any(zlib.crc32(line[: 1 - SEAL], check) == stored for check in checks)


def _whole_within(text: bytes, checks: frozenset[int]) -> int | None:
    """Where a whole record ends with which a damaged line begins: its newline is gone."""
    end = 0
    for _ in range(_MANY):
        end = text.find(b'"}}', end) + 3
        if end < 3:
            return None
        if _is_sealed_by(text[:end], checks):
            return end
    return None


def _without_torn(lines: list[Line], data: bytes, start: int) -> list[Line]:
    """The lines without the last ones, as far as a crash in the middle of writing explains what they look like."""
    for at, line in enumerate(lines):
        if line.record is None and _cut_short(line, data, start) and not _outlived(line, lines[at + 1 :]):
            lines = lines[:at]
            break
    batch = _batch(lines[-1]) if lines else None
    if batch is None or batch[0] + 1 >= batch[1]:
        return lines
    return lines[: -batch[0] - 1]


def _cut_short(line: Line, data: bytes, start: int) -> bool:
    """Whether the line was not written to its end, or a sector of it never reached the medium."""
    if data[line.end - start - 1 : line.end - start] != b"\n":
        return True
    edges = [line.start, *range(line.start // _SECTOR * _SECTOR + _SECTOR, line.end, _SECTOR), line.end]
    return any(not data[first - start : last - start].strip(b"\0") for first, last in pairwise(edges))


def _outlived(line: Line, later: Sequence[Line]) -> bool:
    """Whether it was on the medium once, as far as the lines behind it know."""
    known = [_synced(other) for other in later if other.record is not None]
    return any(synced is None or synced > line.start for synced in known)


def _synced(line: Line) -> int | None:
    value = _control(line).get("w")
    return value if isinstance(value, int) and value <= line.start else None


def _batch(line: Line) -> tuple[int, int] | None:
    match _control(line).get("b"):
        case [int(place), int(count)]:
            return place, count
    return None


def _control(line: Line) -> Record:
    control = (line.record or {}).get("ctx") if line.checked else None
    return control if isinstance(control, dict) else {}
