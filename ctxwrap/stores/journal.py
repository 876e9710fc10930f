"""One stream of a session: a file of sealed lines that only grows."""

import contextlib
import json
import logging
import os
from collections.abc import Callable, Iterator, Sequence

from ctxwrap.records import number_in, numbered
from ctxwrap.stores import disk
from ctxwrap.stores.lines import SEAL, Found, check_in, found_in, resealed, sealed, unsealed
from ctxwrap.stores.seeking import span_of
from ctxwrap.types import Change, Line, Record

logger = logging.getLogger("ctxwrap")


class Journal:
    """Write inside the session's lock. What is read without it may lack what is being written."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._file = 0
        """The inode of the file that what follows is known of; rewriting makes another one."""
        self._end = 0
        """How far it was looked through."""
        self._synced = 0
        """How much of it is known to be on the medium."""
        self._reported: set[int] = set()

    def read(self, after: int = 0) -> tuple[list[Record], int]:
        """The records behind a position, and the position behind them."""
        try:
            with disk.opened(self.path, os.O_RDONLY) as handle:
                known = os.fstat(handle)
                if known.st_size == after:
                    return [], after
                found = self._look_through(handle, after)
                self._know(known.st_ino, found)
        except FileNotFoundError:
            return [], 0
        return [line.record for line in found.lines if line.record is not None], found.end

    def between(self, first: int, last: int) -> list[Record]:
        """The records of these numbers; more of the stream is read only if it is not numbered as it should be."""
        found = [record for record in self._near(first, last) if first <= (number_in(record) or 0) <= last]
        if len(found) == last - first + 1 and all(number_in(each) == at for at, each in enumerate(found, first)):
            return found
        return [record for number, record in numbered(self.read()[0]) if first <= number <= last]

    def _near(self, first: int, last: int) -> list[Record]:
        try:
            with disk.opened(self.path, os.O_RDONLY) as handle:
                start, end = span_of(handle, first, last)
                check = check_in(os.pread(handle, SEAL, max(0, start - SEAL)) if start else b"") or 0
                found = found_in(disk.read_all(handle, start, end), start, check)
        except FileNotFoundError:
            return []
        return [line.record for line in found.lines if line.record is not None]

    def lines(self) -> Iterator[Line]:
        """Every line, the torn end of the file as one."""
        try:
            with disk.opened(self.path, os.O_RDONLY) as handle:
                data = disk.read_all(handle)
        except FileNotFoundError:
            return
        found = found_in(data, 0, 0)
        yield from found.lines
        if found.end < len(data):
            yield Line(len(found.lines) + 1, found.end, len(data), None, "it was cut short by a crash")

    def end_at(self, position: int) -> bytes:
        """The checksum that closes what stands before a position, and so vouches for all of it."""
        if not position:
            return b""
        with disk.opened(self.path, os.O_RDONLY) as handle:
            return os.pread(handle, min(position, SEAL), max(0, position - SEAL))

    def append(self, records: Sequence[Record], *, lasting: bool) -> tuple[int, Callable[[], None] | None]:
        """Add records; the position behind them and, if they are to last, what waits for the medium."""
        handle = disk.opened_for_good(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND)
        try:
            end = self._cleared_end(handle)
            tail = os.pread(handle, SEAL, max(0, end - SEAL))
            lines = sealed(records, check_in(tail), self._synced if lasting else None)
            self._write(handle, end, lines if not tail or tail.endswith(b"\n") else b"\n" + lines)
        except BaseException:
            os.close(handle)
            raise
        if not lasting:
            os.close(handle)
        position = self._end
        return position, (lambda: self._sync(handle, position)) if lasting else None

    def rewrite(self, change: Change, new: Sequence[Record], banned: Sequence[str], before: Callable[[], None]) -> None:
        """Change every record and add `new` ones; `before` is called when all is ready but nothing is changed."""
        lines = self._all_changed(change, banned)
        lines += sealed(new, check_in(lines))
        before()
        disk.replace(self.path, lines, lasting=True)

    def _write(self, handle: int, end: int, lines: bytes) -> None:
        try:
            disk.write_all(handle, lines)
        except BaseException:
            with contextlib.suppress(OSError):  # else it is cut off by whoever writes next
                os.ftruncate(handle, end)
            raise
        self._end = end + len(lines)

    def _sync(self, handle: int, position: int) -> None:
        try:
            disk.sync(handle)
            self._synced = max(self._synced, position)
        finally:
            os.close(handle)

    def _cleared_end(self, handle: int) -> int:
        """Where to write, after what a crash cut short was set aside."""
        known = os.fstat(handle)
        if known.st_ino != self._file or known.st_size < self._end:
            self._file, self._end, self._synced = known.st_ino, 0, 0
        if known.st_size != self._end:
            self._know(known.st_ino, self._look_through(handle, self._end))
        if known.st_size != self._end:
            self._set_aside(handle, self._end)
        return self._end

    def _set_aside(self, handle: int, good: int) -> None:
        torn = disk.read_all(handle, good)
        disk.replace(f"{self.path}.torn-{good}-{os.urandom(4).hex()}", torn, lasting=True)
        os.ftruncate(handle, good)
        logger.warning("%s: %d bytes that a crash cut short were set aside", self.path, len(torn))

    def _look_through(self, handle: int, after: int) -> Found:
        check = check_in(os.pread(handle, SEAL, max(0, after - SEAL)) if after else b"")
        return found_in(disk.read_all(handle, after), after, check)

    def _know(self, file: int, found: Found) -> None:
        if file != self._file:
            self._file, self._synced = file, 0
        self._end, self._synced = found.end, max(self._synced, found.synced)
        for line in found.lines:
            if line.fault and line.start not in self._reported:
                self._reported.add(line.start)
                logger.error("%s: the line at byte %d is damaged: %s", self.path, line.start, line.fault)

    def _all_changed(self, change: Change, banned: Sequence[str]) -> bytes:
        """The stream with every record changed and the checksums made anew; what stays keeps its bytes."""
        try:
            with disk.opened(self.path, os.O_RDONLY) as handle:
                data = disk.read_all(handle)
        except FileNotFoundError:
            return b""
        spellings = [spelling for text in banned for spelling in _spellings(text)]
        lines, check = [], 0
        for line in found_in(data, 0, 0).lines:
            text = data[line.start : line.end].removesuffix(b"\n")
            if line.record is not None:
                lines.append(_changed(line, text, change(line.record), check))
            elif not any(spelling in text for spelling in spellings):
                lines.append(text + b"\n")
            check = check_in(lines[-1]) if lines else 0
        return b"".join(lines)


def _changed(line: Line, text: bytes, record: Record, check: int) -> bytes:
    return resealed(text, check) if record == line.record and not line.fault else sealed([unsealed(record)], check)


def _spellings(text: str) -> set[bytes]:
    """The text as it may stand in a file, plain or in JSON."""
    texts = {text, json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1]}
    return {spelling.encode("utf-8", "surrogatepass") for spelling in texts}
