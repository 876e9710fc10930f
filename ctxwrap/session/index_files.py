"""The files of a session's index: segments, each of which says which log it is of and where in it it ends.

They are a cache. Each file stands for itself, and those that follow each other from the first one on make an index of
the messages up to the last of them, whoever wrote which of them when: for the same log the same segment has the same
bytes, and only the last one grows. So nothing has to be written together, and what is missing, damaged, of another
edition or of another log is left out with all behind it.

There are files of words, and beside them files of what is meant, if somebody makes these; neither needs the other.
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
"""So many bytes hold the head of a file."""

_MEANING = "meaning-"
"""How the names of such files begin."""


class IndexKind(NamedTuple):
    """Words, or meanings by one model."""

    prefix: str
    format: int
    """Of these files; another one whenever that, or what of a message is indexed, changes."""


WORDS = IndexKind("", 1)


def meanings(model: str) -> IndexKind:
    return IndexKind(_MEANING, zlib.crc32(f"1 {model}".encode()))


class Segmented(Protocol):
    """What is kept in segments: an index, or vectors."""

    @property
    def highest(self) -> int: ...

    @property
    def ends(self) -> list[int]: ...

    def unsaved(self) -> dict[int, bytes]: ...


T = TypeVar("T", bound=Segmented)


class IndexSegment(NamedTuple):
    before: int
    """The highest number of the messages before it, -1 for none."""
    highest: int
    body: bytes


def load(log: Log, kind: IndexKind, made_of: Callable[[Sequence[bytes]], T]) -> T:
    """What the files of a kind hold; those of the kind that do not belong to it are removed, inside `locked`."""
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
    """The segments that follow each other and are of this log."""
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
    """Write down what is new, inside `locked`; what another process wrote of more messages stays."""
    with _at_best("saved"):
        ends = [-1, *whole.ends]
        for ordinal, body in whole.unsaved().items():
            before, highest = ends[ordinal : ordinal + 2]
            if before < highest:
                _save(log, kind, ordinal, IndexSegment(before, highest, body))


def outlived(log: Log, rewrite: Callable[[], int]) -> None:
    """Rewrite the log, inside `locked`; segments that hold only messages before the number that this gives stay."""
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
    """Whether a file beside the segments can be one of them."""
    return name.removeprefix(_MEANING).isdecimal()


def _kinds_of(log: Log) -> list[IndexKind]:
    """Words, and meanings by whatever model."""
    head = _head_in(log.files.load(f"{CACHE}/{_MEANING}0", _HEAD) or b"")
    return [WORDS, *([IndexKind(_MEANING, head.format)] if head else [])]


@contextmanager
def _at_best(done: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        logger.debug("an index could not be %s: %r", done, error)


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
    """A checksum of the last message. Where lines are sealed it vouches for all before it, too."""


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
