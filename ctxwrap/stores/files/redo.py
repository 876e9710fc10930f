"""The redo log of a session: its newest appends to both streams in one file, so that an append waits for one sync.

The streams get the same lines without a sync. After a power cut they may lack some, which `restore` writes again. An
entry has for each stream all bytes behind those that are on the medium or in an earlier entry.
"""

import contextlib
import logging
import os
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from ctxwrap.stores.base import STREAMS
from ctxwrap.stores.files import disk
from ctxwrap.stores.files.handles import OpenFile
from ctxwrap.stores.log_format import CHECKSUM_LENGTH, checksums_in, last_checksum, parse

logger = logging.getLogger("ctxwrap")

LARGEST = 256 * 1024
"""The bytes after which a redo log is emptied, and the most that one append enters: else the streams are synced."""

_MAGIC = b"redo"
_SEAL = struct.Struct(">4sI")
"""Magic, and the checksum of all that follows."""

_PLACES = struct.Struct(">" + "QI" * len(STREAMS))
"""For each stream where its bytes begin and how many there are."""


class Piece(NamedTuple):
    """Bytes of a stream."""

    start: int
    data: bytes

    @property
    def end(self) -> int:
        return self.start + len(self.data)


Pieces = Mapping[str, Piece]
"""By stream."""


class RedoLog:
    """Use it inside the session's lock, but for `note_synced`."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._forget()

    def _forget(self) -> None:
        self._edition: int | None = None
        """The edition of the log that these fields describe."""
        self._file = 0
        """The inode of the file that was read."""
        self._end = 0
        """The position behind its last entry."""
        self._entered: dict[str, int] = {}
        """The position in each stream up to which it is in the redo log."""
        self._before: tuple[int, dict[str, int]] = 0, {}
        """These two fields when `covered` was called."""
        self._synced: dict[str, int] = {}
        """The position in each stream up to which the stream itself was synced."""

    def note_synced(self, edition: int | None, stream: str, position: int) -> None:
        """Note that a stream itself is on the medium up to a position."""
        if edition == self._edition:
            self._synced[stream] = max(self._synced.get(stream, 0), position)

    def covered(self, edition: int | None) -> Mapping[str, int]:
        """The position in each stream behind which an entry can follow; nothing if the streams must be synced."""
        if edition is None or edition != self._edition:
            self._forget()
            self._edition = edition
        known = self._look()
        if known is None or disk.is_doubtful(known) or known.st_size > LARGEST:
            if not self._synced or any(self._synced.get(stream, 0) < end for stream, end in self._entered.items()):
                return {}
            disk.replace(self.path, b"", lasting=True)
            self._file, self._end, self._entered = os.stat(self.path).st_ino, 0, {}
        self._before = self._end, self._entered
        streams = self._entered.keys() | self._synced.keys()
        return {stream: max(self._entered.get(stream, 0), self._synced.get(stream, 0)) for stream in streams}

    def _look(self) -> os.stat_result | None:
        """What the system says of the file, after reading what other processes entered; None if there is none."""
        try:
            known = os.stat(self.path, follow_symlinks=False)
        except FileNotFoundError:
            known = None
        if known is None or known.st_ino != self._file or known.st_size < self._end:
            if self._file:  # the streams may be others too
                self._synced = {}
            self._file, self._end, self._entered = known.st_ino if known else 0, 0, {}
        if known is not None and known.st_size > self._end:
            with disk.opened(self.path, os.O_RDONLY) as handle:
                data = disk.read_all(handle, self._end)
            for pieces, size in _entries_in(data):
                self._end += size
                self._entered = self._entered | {stream: piece.end for stream, piece in pieces.items()}
        return known

    def append(self, pieces: Pieces) -> OpenFile:
        """Enter the pieces, after `covered`; sync the file that is returned."""
        file, entry = OpenFile(self.path, os.O_WRONLY | os.O_APPEND), _encoded(pieces)
        try:
            if os.fstat(file.handle).st_size != self._end:  # an entry that was cut short
                os.ftruncate(file.handle, self._end)
            disk.write_all(file.handle, entry)
        except BaseException:
            file.close()
            raise
        self._end += len(entry)
        self._entered = self._entered | {stream: piece.end for stream, piece in pieces.items()}
        return file

    def take_back(self) -> None:
        """Remove what was entered since `covered`."""
        self._end, self._entered = self._before
        with contextlib.suppress(OSError), disk.opened(self.path, os.O_WRONLY) as handle:
            os.ftruncate(handle, self._end)  # else the next writer cuts it off

    def clear(self) -> None:
        """Leave nothing in it, on the medium too; the streams must have been synced."""
        self._forget()
        with contextlib.suppress(FileNotFoundError), disk.opened(self.path, os.O_WRONLY) as handle:
            os.ftruncate(handle, 0)
            disk.sync(handle)

    def entries(self) -> list[Pieces]:
        try:
            with disk.opened(self.path, os.O_RDONLY) as handle:
                return [pieces for pieces, _ in _entries_in(disk.read_all(handle))]
        except FileNotFoundError:
            return []


def is_missing(entries: Iterable[Pieces], path_of: Callable[[str], str]) -> bool:
    """Whether a stream lacks a part of what was entered."""
    return any(_missing(path_of(stream), piece) for pieces in entries for stream, piece in pieces.items())


def restore(entries: Iterable[Pieces], path_of: Callable[[str], str]) -> None:
    """Write what the streams lack, inside the session's lock, and wait until it is on the medium."""
    for pieces in entries:
        for stream, piece in pieces.items():
            if _missing(path_of(stream), piece):
                with disk.opened(path_of(stream), os.O_WRONLY) as handle:
                    os.lseek(handle, piece.start, os.SEEK_SET)
                    disk.write_all(handle, piece.data)
                    disk.sync(handle)
                logger.warning("%s: restored %d bytes that a power cut lost", path_of(stream), len(piece.data))


def _missing(path: str, piece: Piece) -> bool:
    """Whether a stream lacks a part of the piece, and has nothing else in its place."""
    try:
        with disk.opened(path, os.O_RDONLY) as handle:
            before = disk.read_all(handle, max(0, piece.start - CHECKSUM_LENGTH), piece.start)
            there = disk.read_all(handle, piece.start, piece.end)
    except FileNotFoundError:
        return False
    if there == piece.data or len(before) < min(piece.start, CHECKSUM_LENGTH):
        return False
    return _follows(piece.data, before) and not _has_others(there, piece.data)


def _follows(data: bytes, before: bytes) -> bool:
    """Whether the lines may follow what ends with `before`."""
    first, last = checksums_in(data.lstrip(b"\n").partition(b"\n")[0]), last_checksum(before) if before else 0
    if first is None or last is None:  # a line of another program
        return before.endswith(b"\n") or data.startswith(b"\n")
    return first.before == last


def _has_others(there: bytes, data: bytes) -> bool:
    """Whether there is a readable line that is not in `data` at the same place: somebody went on without it."""
    at = 0
    for line in there.split(b"\n"):
        if parse(line) is not None and data[at : at + len(line)] != line:
            return True
        at += len(line) + 1
    return False


def _encoded(pieces: Pieces) -> bytes:
    ordered = [pieces.get(stream, Piece(0, b"")) for stream in STREAMS]
    places = _PLACES.pack(*[number for piece in ordered for number in (piece.start, len(piece.data))])
    sealed = b"".join([places, *[piece.data for piece in ordered]])
    return _SEAL.pack(_MAGIC, zlib.crc32(sealed)) + sealed


def _entries_in(data: bytes) -> Iterator[tuple[Pieces, int]]:
    """The entries and their sizes, up to the first that is not whole."""
    at = 0
    while at + _SEAL.size + _PLACES.size <= len(data):
        magic, check = _SEAL.unpack_from(data, at)
        places = _PLACES.unpack_from(data, at + _SEAL.size)
        starts, lengths, begin = places[::2], places[1::2], at + _SEAL.size + _PLACES.size
        end = begin + sum(lengths)
        if magic != _MAGIC or end > len(data) or zlib.crc32(data[at + _SEAL.size : end]) != check:
            return
        pieces = {}
        for stream, start, length in zip(STREAMS, starts, lengths, strict=True):
            if length:
                pieces[stream] = Piece(start, data[begin : begin + length])
            begin += length
        yield pieces, end - at
        at = end
