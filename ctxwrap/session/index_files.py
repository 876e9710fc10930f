"""The files of a session's index: segments, each with the log's identity and the message where it ends.

They are a cache. Consecutive segments from the first one on form the index of the messages up to the last of them. For
the same log a segment has the same bytes, whichever process wrote it, and only the last segment grows; so files need
not be written together. A segment that is missing, damaged, or of another edition or log is ignored, with all after it.

There are segments of words and, if a model is installed, segments of vectors; neither needs the other.
"""

import json
import logging
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from typing import NamedTuple, Protocol, TypeVar

from ctxwrap.stores.base import CACHE, Log

logger = logging.getLogger("ctxwrap")

_HEAD = 512
"""The most bytes of a file's header."""

_MEANING = "meaning-"
"""The prefix of their file names."""


class IndexKind(NamedTuple):
    """Words, or vectors by one model."""

    prefix: str
    format: int
    """The format of these files; increment it when the format, or what is indexed, changes."""


WORDS = IndexKind("", 1)


def meanings(model: str) -> IndexKind:
    return IndexKind(_MEANING, zlib.crc32(f"1 {model}".encode()))


class Segmented(Protocol):
    """An object stored in segments: an index, or vectors."""

    @property
    def highest(self) -> int: ...

    @property
    def ends(self) -> list[int]: ...

    def unsaved(self) -> dict[int, bytes]: ...


T = TypeVar("T", bound=Segmented)


class IndexSegment(NamedTuple):
    before: int
    """The highest message number before it; -1 for none."""
    highest: int
    body: bytes


def load(log: Log, kind: IndexKind, made_of: Callable[[Sequence[bytes]], T]) -> T:
    """Load the segments of a kind and remove stale files of it; call inside `locked`."""
    whole, kept = made_of([]), set[str]()
    with _at_best("loaded"):
        segments = segments_of(log, kind)
        whole = made_of([segment.body for segment in segments])
        kept = {_name(kind, ordinal) for ordinal in range(len(segments))}
    with _at_best("cleared"):
        for entry in log.files.entries(CACHE):
            is_meant = entry.name.startswith(f"{CACHE}/{_MEANING}")
            if is_meant == (kind.prefix == _MEANING) and entry.name not in kept:
                log.files.remove(entry.name)
    return whole


def segments_of(log: Log, kind: IndexKind = WORDS) -> list[IndexSegment]:
    """The consecutive segments of this log."""
    edition, before = log.edition(), -1
    found: list[tuple[_Head, IndexSegment]] = []
    for ordinal in count():
        read = _read(log.files.load(_name(kind, ordinal)) or b"")
        if read is None or (read[0].format, read[0].edition, read[0].before) != (kind.format, edition, before):
            break
        head, body = read
        found.append((head, IndexSegment(head.before, head.highest, body)))
        before = head.highest
    while found and found[-1][0].mark != _mark(log, found[-1][0].highest):
        found.pop()
    return [segment for _, segment in found]


def save(log: Log, kind: IndexKind, whole: Segmented) -> None:
    """Save new segments, inside `locked`; a file with more messages by another process stays."""
    with _at_best("saved"):
        ends = [-1, *whole.ends]
        for ordinal, body in whole.unsaved().items():
            before, highest = ends[ordinal : ordinal + 2]
            if before < highest:
                _save(log, kind, ordinal, IndexSegment(before, highest, body))


def outlived(log: Log, rewrite: Callable[[], int]) -> None:
    """Rewrite the log, inside `locked`; keep segments that hold only messages before the returned number."""
    segments: list[tuple[IndexKind, int, IndexSegment]] = []
    with _at_best("read"):
        for kind in _kinds_of(log):
            segments += [(kind, *each) for each in enumerate(segments_of(log, kind))]
    below = rewrite()
    with _at_best("kept"):
        for kind, ordinal, segment in segments:
            if segment.highest < below:
                _save(log, kind, ordinal, segment)


def is_file_of_ours(name: str) -> bool:
    """Whether a file can be a segment."""
    return name.removeprefix(_MEANING).isdecimal()


def _kinds_of(log: Log) -> list[IndexKind]:
    """Words, and vectors by any model."""
    head = _head_in(log.files.load(f"{CACHE}/{_MEANING}0", _HEAD) or b"")
    return [WORDS, *([IndexKind(_MEANING, head.format)] if head else [])]


@contextmanager
def _at_best(done: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        logger.debug("could not have an index %s: %r", done, error)


def _save(log: Log, kind: IndexKind, ordinal: int, segment: IndexSegment) -> None:
    name, edition, mark = _name(kind, ordinal), log.edition(), _mark(log, segment.highest)
    there = _head_in(log.files.load(name, _HEAD) or b"")
    is_behind = there is not None and there[:2] == (kind.format, edition) and there.highest >= segment.highest
    if mark is not None and not is_behind:
        head = _Head(kind.format, edition, segment.before, segment.highest, mark)
        log.files.save(name, _written(head, segment.body))


class _Head(NamedTuple):
    format: int
    edition: int
    before: int
    highest: int
    mark: int
    """A checksum of the last message; with chained checksums it covers all messages before it, too."""


def _name(kind: IndexKind, ordinal: int) -> str:
    return f"{CACHE}/{kind.prefix}{ordinal}"


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
    return head if all(type(value) is int for value in head) else None
