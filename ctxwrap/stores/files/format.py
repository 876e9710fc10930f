"""The format number in `meta.json`: raised whenever the content of a file changes."""

import json
import re
import zlib
from collections.abc import Iterator

from ctxwrap.stores.log_format import encode_batch, last_checksum, parse, without_checksums

FORMAT = 3
"""The format that this version writes. It reads formats from 1 on, and `upgrade` converts format 0."""

_OLD_SEAL = re.compile(rb',"c":"([0-9a-f]{8})"\}\}')
_OLD_LENGTH = len(b',"c":"00000000"}}')


def format_number_in(meta: bytes) -> int | None:
    """The format number in a `meta.json`, if there is one."""
    try:
        number = json.loads(meta)["format"]
    except (ValueError, RecursionError, LookupError, TypeError):
        return None
    return number if isinstance(number, int) and not isinstance(number, bool) else None


def is_of_format_0(line: bytes) -> bool:
    return _OLD_SEAL.fullmatch(line, max(0, len(line) - _OLD_LENGTH)) is not None


def upgraded(lines: bytes) -> bytes:
    """A stream of format 0 in the present format; a line with a wrong checksum stays damaged."""
    return b"".join(_upgraded(lines))


def _upgraded(lines: bytes) -> Iterator[bytes]:
    old = new = 0
    for line in filter(None, lines.split(b"\n")):
        seal = _OLD_SEAL.fullmatch(line, max(0, len(line) - _OLD_LENGTH))
        record = parse(line) if seal and zlib.crc32(line[:-_OLD_LENGTH], old) == int(seal[1], 16) else None
        old = int(seal[1], 16) if seal else old
        written = line + b"\n" if record is None else encode_batch([without_checksums(record)], new)
        new = last_checksum(written) or new
        yield written
