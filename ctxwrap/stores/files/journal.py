"""One stream of a session: an append-only file of lines with checksums."""

import contextlib
import errno
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from ctxwrap.stores.base import RecordChange, StreamLine
from ctxwrap.stores.files import disk, handles
from ctxwrap.stores.files.format import is_of_format_0, upgraded
from ctxwrap.stores.files.handles import OpenFile
from ctxwrap.stores.files.lines import StreamPiece, found_in
from ctxwrap.stores.files.lookup import RecordPicker, span_of
from ctxwrap.stores.files.redo import Piece
from ctxwrap.stores.log_format import (
    CHECKSUM_LENGTH,
    OWN_CHECKSUM,
    contains_any,
    encode_batch,
    last_checksum,
    number_in,
    numbered,
    rechained,
    spellings_of,
    without_checksums,
)
from ctxwrap.types import Record

logger = logging.getLogger("ctxwrap")

_FLAGS = os.O_RDWR | os.O_CREAT | os.O_APPEND


class Journal:
    """Writers hold the session's lock. A reader without it may miss a batch that is being written."""

    def __init__(self, stream: str, path: str) -> None:
        self.stream, self.path = stream, path
        self._file = 0
        """The inode of the file that the following fields describe; rewriting creates another one."""
        self.end = 0
        """The position up to which it was checked; after an append, where that ends."""
        self._check = 0
        """The checksum of the line before that position."""
        self._tail = b""
        """The bytes before that position."""
        self._before = (0, 0, b"")
        """These three fields before the last append."""
        self._synced = 0
        """The position up to which it is known to be on the medium."""
        self._seen: OpenFile | None = None
        """The open file that these fields describe, if it is still open since they were read."""
        self.is_current = False
        """Whether the holder of the lock saw that the path names this file and that they describe all of it."""
        self._reported: set[int] = set()
        self._picking = RecordPicker()

    def read(self, after: int = 0, *, is_locked: bool = False) -> tuple[list[Record], int]:
        """The records behind a position, and the position behind them."""
        try:
            known = os.stat(self.path, follow_symlinks=False)
            if known.st_size == after:
                if is_locked:
                    self.is_current = (known.st_ino, after) == (self._file, self.end) and not disk.is_doubtful(known)
                return [], after
            with disk.opened(self.path, os.O_RDONLY) as handle:
                known = os.fstat(handle)
                found = _look_through(handle, after)
                self._know(handle, known.st_ino, found)
        except FileNotFoundError:
            return [], 0
        return [line.record for line in found.lines if line.record is not None], found.end

    def between(self, first: int, last: int) -> list[Record]:
        """The records with these numbers; the whole stream is read only if it is not numbered in order."""
        found = [record for record in self._near(first, last) if first <= (number_in(record) or 0) <= last]
        if len(found) == last - first + 1 and all(number_in(each) == at for at, each in enumerate(found, first)):
            return found
        return [record for number, record in numbered(self.read()[0]) if first <= number <= last]

    def _near(self, first: int, last: int) -> list[Record]:
        try:
            with disk.opened(self.path, os.O_RDONLY) as handle:
                start, end = span_of(handle, first, last)
                check = (
                    last_checksum(os.pread(handle, CHECKSUM_LENGTH, max(0, start - CHECKSUM_LENGTH)) if start else b"")
                    or 0
                )
                found = found_in(disk.read_all(handle, start, end), start, check)
        except FileNotFoundError:
            return []
        return [line.record for line in found.lines if line.record is not None]

    def pick(self, numbers: Iterable[int]) -> dict[int, Record]:
        """The records with these numbers in their `ctx`."""
        try:
            with disk.opened(self.path, os.O_RDONLY) as handle:
                return self._picking.pick(handle, sorted(set(numbers)))
        except FileNotFoundError:
            return {}

    def lines(self) -> Iterator[StreamLine]:
        """Every line; an incomplete end of the file counts as one."""
        try:
            with disk.opened(self.path, os.O_RDONLY) as handle:
                data = disk.read_all(handle)
        except FileNotFoundError:
            return
        found = found_in(data, 0, 0)
        yield from found.lines
        if found.end < len(data):
            yield StreamLine(len(found.lines) + 1, found.end, len(data), None, "it was cut short by a crash")

    def is_of_format_0(self) -> bool:
        """Whether the first line has that format."""
        try:
            with disk.opened(self.path, os.O_RDONLY) as handle:
                return is_of_format_0(_first_line(handle))
        except FileNotFoundError:
            return False

    def upgrade(self) -> None:
        """Convert a stream of format 0, atomically."""
        with disk.opened(self.path, os.O_RDONLY) as handle:
            lines = upgraded(disk.read_all(handle))
        disk.replace(self.path, lines, lasting=True)

    def end_at(self, position: int) -> bytes:
        """The checksum at the end of the line before a position, which covers everything before it."""
        if not position:
            return b""
        with disk.opened(self.path, os.O_RDONLY) as handle:
            return _tail(handle, position)

    def append(self, records: Sequence[Record], *, lasting: bool, waits: bool) -> "Written | None":
        """Append records; returns, if the caller `waits` for this file to be on the medium, how to do so.

        Lines of `lasting` records say up to where the stream is known to be there. A file to wait for is opened anew:
        the system reports a failed write once to each opening of the file.
        """
        file = OpenFile(self.path, _FLAGS) if waits else handles.take(self.path, _FLAGS)
        if not self.is_current or file is not self._seen:
            file = self._cleared(file)
        end, check, tail = self.end, self._check, self._tail
        try:
            lines = encode_batch(records, check, self._synced if lasting else None)
            if tail and not tail.endswith(b"\n"):
                lines = b"\n" + lines
            disk.write_all(file.handle, lines)
        except BaseException:
            with contextlib.suppress(OSError):  # else the next writer cuts it off
                os.ftruncate(file.handle, end)
            file.close()
            raise
        self._before = end, check, tail
        self.end, self._tail = end + len(lines), lines[-CHECKSUM_LENGTH:]
        self._check = int(self._tail[OWN_CHECKSUM], 16)
        if waits:
            return Written(file, [self.state()])
        handles.keep(file)
        return None

    def appended_since(self, position: int) -> Piece:
        """The bytes from a position on, and at least those of the last append."""
        start = min(position, self._before[0])
        with disk.opened(self.path, os.O_RDONLY) as handle:
            return Piece(start, disk.read_all(handle, start, self.end))

    def whole(self) -> "Written | None":
        """The whole file, to wait for the medium; None if there is no file."""
        if not os.path.exists(self.path):
            return None
        file, known = self._certain(OpenFile(self.path, _FLAGS))
        return Written(file, [JournalState(self, known.st_ino, known.st_size)])

    def state(self) -> "JournalState":
        return JournalState(self, self._file, self.end)

    def take_back(self) -> None:
        """Undo the last append because another part of its batch could not be written."""
        with contextlib.suppress(OSError), disk.opened(self.path, os.O_WRONLY) as handle:
            os.ftruncate(handle, self._before[0])
            self.end, self._check, self._tail = self._before

    def rewrite(
        self, change: RecordChange, new: Sequence[Record], banned: Sequence[str], before: Callable[[], None]
    ) -> None:
        """Change every record and append `new` ones; `before` is called right before the file is replaced."""
        lines = self._all_changed(change, banned)
        lines += encode_batch(new, last_checksum(lines) or 0)
        before()
        handles.close_idle(self.path)  # it would keep what is erased
        disk.replace(self.path, lines, lasting=True)

    def know_synced(self, file: int, position: int) -> None:
        if file == self._file:
            self._synced = max(self._synced, position)

    def _certain(self, file: OpenFile) -> tuple[OpenFile, os.stat_result]:
        """The open file, or another if the path names another; after a failed sync it is written again."""
        try:
            while (known := file.look()) is None or disk.is_doubtful(known):
                if known is not None:  # its data may be lost
                    disk.replace(self.path, disk.read_all(file.handle), lasting=True)
                file.close()
                file = OpenFile(self.path, _FLAGS)
        except BaseException:
            file.close()
            raise
        return file, known

    def _cleared(self, file: OpenFile) -> OpenFile:
        """The file to append to, after learning what is new in it and setting aside an incomplete end."""
        file, known = self._certain(file)
        try:
            if file is not self._seen or known.st_size != self.end:
                self._clear_end(file.handle, known)
                self._seen = file
        except BaseException:
            file.close()
            raise
        return file

    def _clear_end(self, handle: int, known: os.stat_result) -> None:
        # the tail is compared because a new file may reuse the inode of a replaced one
        if known.st_ino != self._file or known.st_size < self.end or _tail(handle, self.end) != self._tail:
            self._file, self.end, self._check, self._tail, self._synced = known.st_ino, 0, 0, b"", 0
        if known.st_size != self.end:
            self._know(handle, known.st_ino, _look_through(handle, self.end))
        if known.st_size != self.end:
            self._set_aside(handle, self.end)

    def _set_aside(self, handle: int, good: int) -> None:
        torn = disk.read_all(handle, good)
        disk.replace(f"{self.path}.torn-{good}-{os.urandom(4).hex()}", torn, lasting=True)
        os.ftruncate(handle, good)
        logger.warning("%s: %d bytes of an incomplete write were set aside", self.path, len(torn))

    def _know(self, handle: int, file: int, found: StreamPiece) -> None:
        if file != self._file:
            self._file, self._synced, self._seen = file, 0, None
        self.end, self._check, self._synced = found.end, found.check, max(self._synced, found.synced)
        self._tail = _tail(handle, found.end)
        for line in found.lines:
            if line.fault and line.start not in self._reported:
                self._reported.add(line.start)
                logger.error("%s: the line at byte %d is damaged: %s", self.path, line.start, line.fault)

    def _all_changed(self, change: RecordChange, banned: Sequence[str]) -> bytes:
        """The stream with every record changed and new checksums; unchanged records keep their other bytes."""
        try:
            with disk.opened(self.path, os.O_RDONLY) as handle:
                data = disk.read_all(handle)
        except FileNotFoundError:
            return b""
        spellings = spellings_of(banned)
        found = [(line, data[line.start : line.end].removesuffix(b"\n")) for line in found_in(data, 0, 0).lines]
        kept = [(line, text) for line, text in found if line.record is not None or not contains_any(text, spellings)]
        lines, check = [], 0
        for line, text in kept:
            if line.record is None:
                lines.append(text + b"\n")
            else:
                record = change(line.record)
                stays = record == line.record and not line.fault and (len(kept) == len(found) or not _in_batch(record))
                lines.append(rechained(text, check) if stays else encode_batch([without_checksums(record)], check))
            check = last_checksum(lines[-1]) or check
        return b"".join(lines)


class JournalState(NamedTuple):
    """A journal as it was after an append."""

    journal: Journal
    file: int
    """The inode of its file."""
    end: int


class Written:
    """What was written to a file and may not be on the medium yet."""

    def __init__(self, opened: OpenFile, journals: Sequence[JournalState], *, is_redo: bool = False) -> None:
        """`journals` is whose lines are on the medium with it: its own, or those that the redo log has."""
        self.journals = journals
        self.is_redo = is_redo
        self._opened = opened
        self._lasts = False

    @property
    def file(self) -> int:
        return self._opened.inode

    def wait(self) -> None:
        """Wait until it is on the medium. After a failure its state is unknown, and trying again does not help."""
        if self._lasts:
            return
        if not self._opened.is_open:
            raise OSError(errno.EIO, "an earlier sync of it failed")
        try:
            disk.sync(self._opened.handle)
            for journal, file, end in self.journals:
                journal.know_synced(file, end)
            self._lasts = True
        finally:
            self.close()

    def close(self) -> None:
        self._opened.close()


def _first_line(handle: int) -> bytes:
    pieces: list[bytes] = []
    while piece := os.pread(handle, 1 << 16, len(pieces) << 16):
        line, newline, _ = piece.partition(b"\n")
        pieces.append(line)
        if newline:
            break
    return b"".join(pieces)


def _look_through(handle: int, after: int) -> StreamPiece:
    return found_in(disk.read_all(handle, after), after, last_checksum(_tail(handle, after)) if after else 0)


def _tail(handle: int, position: int) -> bytes:
    """The checksums at the end of the line before a position."""
    return os.pread(handle, min(position, CHECKSUM_LENGTH), max(0, position - CHECKSUM_LENGTH))


def _in_batch(record: Record) -> bool:
    """Whether it is part of a batch: alone, it would look like an incomplete batch."""
    return "b" in (record.get("ctx") or ())
