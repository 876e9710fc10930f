"""The files of a session's index: segments, each of which says which log it is of and where in it it ends.

They are a cache. Each file stands for itself, and those that follow each other from the first one on make an index of
the messages up to the last of them, whoever wrote which of them when: for the same log the same segment has the same
bytes, and only the last one grows. So nothing has to be written together, and what is missing, damaged, of another
edition or of another log is left out with all behind it.
"""

import json
import logging
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import NamedTuple

from ctxwrap.retrieval.index import Index
from ctxwrap.storage import CACHE, Log

logger = logging.getLogger("ctxwrap")

_FORMAT = 1
"""Of these files; another one whenever that, or what of a message is indexed, changes."""

_HEAD = 512
"""So many bytes hold the head of a file."""


class Segment(NamedTuple):
    before: int
    """The highest number of the messages before it, -1 for none."""
    highest: int
    body: bytes


def load(log: Log) -> Index:
    """The index as far as the files hold it; those that do not belong to it are removed, inside `locked`."""
    index, kept = Index(), set[str]()
    with _at_best("loaded"):
        segments = segments_of(log)
        index = Index.from_segments([segment.body for segment in segments])
        kept = {_name(ordinal) for ordinal in range(len(segments))}
    with _at_best("cleared"):
        for entry in log.files.entries(CACHE):
            if entry.name not in kept:
                log.files.remove(entry.name)
    return index


def segments_of(log: Log) -> list[Segment]:
    """The segments that follow each other and are of this log."""
    edition, before = log.edition(), -1
    found: list[tuple[_Head, Segment]] = []
    for ordinal in count():
        read = _read(log.files.load(_name(ordinal)) or b"")
        if read is None or read[0].edition != edition or read[0].before != before:
            break
        head, body = read
        found.append((head, Segment(head.before, head.highest, body)))
        before = head.highest
    while found and found[-1][0].mark != _mark(log, found[-1][0].highest):
        found.pop()
    return [segment for _, segment in found]


def save(log: Log, index: Index) -> None:
    """Write down what is new in an index, inside `locked`; what another process wrote of more messages stays."""
    ends = [*index.bases[1:], len(index)]
    with _at_best("saved"):
        for ordinal, body in index.unsaved().items():
            first, end = index.bases[ordinal], ends[ordinal]
            if first < end:
                _save(log, ordinal, Segment(index.numbers[first - 1] if first else -1, index.numbers[end - 1], body))


def outlived(log: Log, rewrite: Callable[[], int]) -> None:
    """Rewrite the log, inside `locked`; segments that hold only messages before the number that this gives stay."""
    segments: list[Segment] = []
    with _at_best("read"):
        segments = segments_of(log)
    below = rewrite()
    with _at_best("kept"):
        for ordinal, segment in enumerate(segments):
            if segment.highest >= below:
                break
            _save(log, ordinal, segment)


@contextmanager
def _at_best(done: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        logger.debug("an index could not be %s: %r", done, error)


def _save(log: Log, ordinal: int, segment: Segment) -> None:
    edition, mark = log.edition(), _mark(log, segment.highest)
    there = _head_in(log.files.load(_name(ordinal), _HEAD) or b"")
    is_behind = there is not None and there.edition == edition and there.highest >= segment.highest
    if mark is not None and not is_behind:
        head = _Head(_FORMAT, edition, segment.before, segment.highest, mark)
        log.files.save(_name(ordinal), _written(head, segment.body))


class _Head(NamedTuple):
    format: int
    edition: int
    before: int
    highest: int
    mark: int
    """A checksum of the last message. Where lines are sealed it vouches for all before it, too."""


def _name(ordinal: int) -> str:
    return f"{CACHE}/{ordinal}"


def _mark(log: Log, number: int) -> int | None:
    record = log.pick("messages", [number]).get(number)
    return None if record is None else zlib.crc32(json.dumps(record, sort_keys=True, default=str).encode())


def _written(head: _Head, body: bytes) -> bytes:
    line = json.dumps(head).encode() + b"\n"
    return b"%08x " % zlib.crc32(body, zlib.crc32(line)) + line + body


def _read(data: bytes) -> tuple[_Head, bytes] | None:
    head, (line, newline, body) = _head_in(data), data.partition(b"\n")
    if head is None or data[:8] != b"%08x" % zlib.crc32(body, zlib.crc32(line[9:] + newline)):
        return None
    return head, body


def _head_in(data: bytes) -> _Head | None:
    try:
        head = _Head(*json.loads(data[9:].partition(b"\n")[0]))
    except (ValueError, TypeError, RecursionError):
        return None
    return head if head.format == _FORMAT and all(type(value) is int for value in head) else None
