"""Records as lines of JSON that end with checksums.

The `ctx` of every line ends with `c`: the checksum of the line before it, then its own over everything up to there. A
line can be checked alone, and the last checksum covers all lines before it. `b` gives a line's place in its batch and
the batch's length. `w` is present in batches that someone waits for: how much of the stream was known to be on the
medium when the line was written. It separates what a power cut left incomplete from what was damaged later.
"""

import json
import re
import zlib
from collections.abc import Sequence
from typing import NamedTuple

from ctxwrap.types import Record

CHECKSUM_LENGTH = len(b',"c":"0000000000000000"}}\n')
"""The length of the end of a line that holds its checksums."""

CHECKSUMS = re.compile(rb',"c":"([0-9a-f]{8})([0-9a-f]{8})"\}\}')

UNCOVERED = len(b'00000000"}}')
"""The length of the end of a line that its own checksum does not cover."""

_encode = json.JSONEncoder(ensure_ascii=False, check_circular=False, separators=(",", ":"), default=str).encode
"""Created once: `json.dumps` with options creates an encoder for every record."""


def encode_record(record: Record) -> bytes:
    try:
        return _encode(record).encode()
    except UnicodeEncodeError:  # lone surrogates need an escape
        return json.dumps(record, separators=(",", ":"), default=str).encode()


def encode_batch(records: Sequence[Record], check: int, synced: int | None = None) -> bytes:
    """The records as the lines of one batch behind a line with the checksum `check`."""
    lines = []
    for place, record in enumerate(records):
        said = {name: value for name, value in record.items() if name != "ctx"}
        control = dict(record["ctx"]) or {"v": 1}
        if synced is not None:
            control["w"] = synced
        if len(records) > 1:
            control["b"] = [place, len(records)]
        covered = encode_record({**said, "ctx": control})[:-2] + b',"c":"%08x' % check
        check = zlib.crc32(covered)
        lines.append(covered + b'%08x"}}\n' % check)
    return b"".join(lines)


def encode_line(record: Record) -> bytes:
    """A record as a line that follows no other, without a newline."""
    return encode_batch([record], 0).removesuffix(b"\n")


def decode_line(line: bytes) -> Record | None:
    """The record in a line; None if its own checksum is wrong."""
    return parse(line) if is_intact(line) else None


def change_line(line: bytes, before: Record, after: Record) -> bytes:
    """The line of a record that was read as `before`; the same bytes if it did not change."""
    return line if after == before else encode_line(without_checksums(after))


def with_checksums(head: bytes, check: int) -> bytes:
    """A whole line from all of it but its checksums, behind a line with the checksum `check`."""
    covered = head + b',"c":"%08x' % check
    return covered + b'%08x"}}\n' % zlib.crc32(covered)


def rechained(line: bytes, check: int) -> bytes:
    """The same line behind a line with another checksum; a line without checksums stays as it is."""
    return line + b"\n" if checksums_in(line) is None else with_checksums(line[: 1 - CHECKSUM_LENGTH], check)


def without_checksums(record: Record) -> Record:
    """A record that was read, as one to be written."""
    control = record.get("ctx") or {}
    return {
        **record,
        "ctx": {"v": 1, **{name: value for name, value in control.items() if name not in ("c", "b", "w")}},
    }


class Checksums(NamedTuple):
    before: int
    """The checksum of the line before."""
    check: int


def checksums_in(line: bytes) -> Checksums | None:
    found = CHECKSUMS.fullmatch(line, max(0, len(line) - CHECKSUM_LENGTH + 1))
    return Checksums(int(found[1], 16), int(found[2], 16)) if found else None


def last_checksum(lines: bytes) -> int | None:
    """The checksum of the last of these lines, if it has one."""
    found = checksums_in(lines.removesuffix(b"\n"))
    return found.check if found else None


def is_intact(line: bytes) -> bool:
    found = checksums_in(line)
    return found is not None and zlib.crc32(line[:-UNCOVERED]) == found.check


def parse(line: bytes) -> Record | None:
    """The JSON object in a line, whatever its checksum."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None


def contains_any(line: bytes, spellings: Sequence[bytes]) -> bool:
    return any(spelling in line for spelling in spellings)


def spellings_of(texts: Sequence[str]) -> list[bytes]:
    """The bytes that texts may have in a line: plain, or escaped as JSON."""
    spelled = {
        each for text in texts for each in (text, json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1])
    }
    return [each.encode("utf-8", "surrogatepass") for each in spelled]
