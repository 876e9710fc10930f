"""A store in eight methods: a backend moves lines and small files, and this module builds sessions from them."""

import logging
import os
import re
import secrets
import threading
import weakref
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import groupby
from typing import Protocol
from urllib.parse import quote, unquote

from ctxwrap.stores.base import CACHE, Checkpoint, FileEntry, RecordChange, StreamLine
from ctxwrap.stores.log_format import (
    change_line,
    contains_any,
    decode_line,
    encode_line,
    number_in,
    numbered,
    spellings_of,
)
from ctxwrap.stores.names import file_parts, owner_kind
from ctxwrap.types import Record, SessionKey

logger = logging.getLogger("ctxwrap")

_EDITION = ".edition"
_CHECKPOINT = ".checkpoint"
_WRITER = re.compile(r"[0-9a-f]{16}")


class Locks(Protocol):
    """Named locks. Whoever may use the store at the same time must use the same locks.

    `ThreadLocks` serve one process, `ctxwrap.stores.files.locks.FileLocks` all processes of one machine.
    """

    def acquire(self, name: str, *, wait: bool) -> Callable[[], None] | None:
        """Take a lock and return the function that releases it; without `wait`, None while another holder has it.

        A lock is released when its holder's process ends, however it ends. Releasing twice has no effect.
        """


class ThreadLocks:
    """Locks between the threads of one process."""

    def __init__(self) -> None:
        self._holders: dict[str, object] = {}
        self._changed = threading.Condition()

    def acquire(self, name: str, *, wait: bool) -> Callable[[], None] | None:
        holder = object()
        with self._changed:
            while name in self._holders:
                if not wait:
                    return None
                self._changed.wait()
            self._holders[name] = holder
        return partial(self._release, name, holder)

    def _release(self, name: str, holder: object) -> None:
        with self._changed:
            if self._holders.get(name) is holder:
                del self._holders[name]
                self._changed.notify_all()


class SimpleStore(ABC):
    """A store whose backend implements eight methods.

    Names of sessions and files are ASCII: letters, digits and `_.-~%/`; compare them exactly. When a method that
    writes returns, its data must survive a crash of the process. Writers hold the session's lock, readers do not.
    Raise `ctxwrap.errors.StoreUnavailable` when the backend cannot be reached.
    """

    def __init__(self, locks: Locks) -> None:
        self.locks = locks
        self._writer, self._process = "", 0

    @abstractmethod
    def list_sessions(self) -> Iterable[str]:
        """The names of all sessions that have a line."""

    @abstractmethod
    def read_lines(self, session: str, stream: str, start: int, count: int | None = None) -> Sequence[bytes]:
        """The lines of a stream from index `start` on, or `count` of them; none for an unknown session."""

    @abstractmethod
    def append_lines(self, session: str, batches: Mapping[str, Sequence[bytes]]) -> Mapping[str, int]:
        """Add lines to the end of each stream, all or nothing; return how many lines each of them has then."""

    @abstractmethod
    def replace_lines(self, session: str, stream: str, lines: Sequence[bytes]) -> None:
        """Put `lines` in the place of all lines of a stream; a reader sees the old ones or the new ones."""

    @abstractmethod
    def list_files(self, session: str) -> Iterable[FileEntry]:
        """All files of a session, in any order."""

    @abstractmethod
    def read_file(self, session: str, name: str) -> bytes | None:
        """The content of a file, or None if there is no such file."""

    @abstractmethod
    def write_file(self, session: str, name: str, data: bytes) -> None:
        """Create or replace a file; a reader sees the old content or the new one."""

    @abstractmethod
    def delete_file(self, session: str, name: str) -> None:
        """Delete a file, if there is one."""

    def open(self, key: SessionKey) -> "SimpleLog":
        return SimpleLog(self, "/".join(_encode_name(part) for part in key))

    def sessions(self, tenant: str, agent: str) -> Iterator[str]:
        return (key.session for key in self._all_keys() if (key.tenant, key.agent) == (tenant, agent))

    def agents(self, tenant: str) -> Iterator[str]:
        return iter(sorted({key.agent for key in self.keys() if key.tenant == tenant}))

    def keys(self) -> Iterator[SessionKey]:
        return (key for key in self._all_keys() if not owner_kind(key.agent))

    def _all_keys(self) -> Iterator[SessionKey]:
        """Those of users and teams, too."""
        return iter(sorted(SessionKey(*map(_decode_name, name.split("/"))) for name in self.list_sessions()))

    def close(self) -> None:  # noqa: B027 (a backend without connections has nothing to close)
        """Release connections."""

    @property
    def writer(self) -> str:
        """This process's name; a forked child has another one. Its lock shows others that the process runs."""
        if self._process != os.getpid():
            name = secrets.token_hex(8)
            release = self.locks.acquire(f"process/{name}", wait=True)
            assert release is not None
            weakref.finalize(self, release)
            self._writer, self._process = name, os.getpid()
        return self._writer

    def is_alive(self, writer: str) -> bool:
        if not _WRITER.fullmatch(writer):
            return False
        release = self.locks.acquire(f"process/{writer}", wait=False)
        if release is not None:
            release()
        return release is None


class SimpleFiles:
    """The files of one session."""

    def __init__(self, store: SimpleStore, session: str) -> None:
        self._store, self._session = store, session

    def entries(self, under: str = "") -> list[FileEntry]:
        prefix = f"{under}/" if under else ""
        found = [each._replace(name=_decode_name(each.name)) for each in self._store.list_files(self._session)]
        return sorted(
            each for each in found if each.name.startswith(prefix) and "/." not in f"/{each.name.removeprefix(prefix)}"
        )

    def load(self, name: str, size: int | None = None, start: int = 0) -> bytes | None:
        data = self._store.read_file(self._session, _file_name(name))
        return None if data is None else data[start:][:size]

    def save(self, name: str, data: bytes, *, lasting: bool = False) -> None:
        self._store.write_file(self._session, _file_name(name), data)

    def extend(self, name: str, data: bytes, after: int) -> bool:
        known = self.load(name) or b""
        present = len(known) - after
        if not 0 <= present <= len(data):
            return False
        self.save(name, known + data[present:])
        return True

    def link(self, name: str, other: str) -> None:
        """A copy: the file never changes."""
        data = self.load(name)
        if data is not None and self.load(other) is None:
            self.save(other, data)

    def leftovers(self) -> list[FileEntry]:
        return []

    def remove(self, name: str) -> None:
        self._store.delete_file(self._session, _file_name(name))

    def remove_strays(self, name: str, may: Callable[[str], bool]) -> list[str]:
        return []


class SimpleLog:
    """The streams of one session; a position in a stream is a number of lines."""

    def __init__(self, store: SimpleStore, session: str) -> None:
        self._store, self._session = store, session
        self.files = SimpleFiles(store, session)
        self._reported: set[tuple[str, int]] = set()

    @property
    def place(self) -> Hashable:
        return self._store, self._session

    @property
    def writer(self) -> str:
        return self._store.writer

    def is_alive(self, writer: str) -> bool:
        return self._store.is_alive(writer)

    @contextmanager
    def locked(self, *, redoable: bool = False) -> Iterator[None]:
        release = self._store.locks.acquire(f"log/{self._session}", wait=True)
        assert release is not None
        try:
            yield
        finally:
            release()

    def lease(self) -> Callable[[], None] | None:
        return self._store.locks.acquire(f"lease/{self._session}", wait=False)

    def edition(self) -> int:
        return int(self.files.load(_EDITION) or 0)

    def read(self, stream: str, after: int = 0) -> tuple[list[Record], int]:
        start = max(0, after - 1)  # the line before it shows that the stream still has that length
        lines = self._lines(stream, start)
        if after and not lines:
            return [], len(self._lines(stream, 0))
        return self._decoded(stream, after, lines[after - start :]), start + len(lines)

    def between(self, stream: str, first: int, last: int) -> list[Record]:
        """Most records stand where their number says; if one does not, the whole stream is read."""
        first = max(1, first)
        lines = self._lines(stream, first - 1, max(0, last - first + 1))
        found = self._decoded(stream, first - 1, lines)
        if [number_in(record) for record in found] == list(range(first, last + 1)):
            return found
        return [record for number, record in numbered(self.read(stream)[0]) if first <= number <= last]

    def pick(self, stream: str, numbers: Iterable[int]) -> dict[int, Record]:
        wanted = sorted({number for number in numbers if number > 0})
        found: dict[int, Record] = {}
        for _, run in groupby(enumerate(wanted), key=lambda each: each[1] - each[0]):
            span = [number for _, number in run]
            lines = self._lines(stream, span[0] - 1, len(span))
            records = zip(span, map(decode_line, lines), strict=False)
            found |= {number: each for number, each in records if each is not None and number_in(each) == number}
        missing = set(wanted) - found.keys()
        for record in self.read(stream)[0] if missing else ():
            said = number_in(record)
            if said is not None and said in missing:
                found.setdefault(said, record)
        return found

    def lines(self, stream: str) -> Iterator[StreamLine]:
        for at, line in enumerate(self._lines(stream, 0)):
            record = decode_line(line)
            yield StreamLine(at + 1, at, at + 1, record, "" if record is not None else "its checksum is wrong")

    def append(self, batches: Mapping[str, Sequence[Record]], *, lasting: bool = False) -> Mapping[str, int]:
        lines = {stream: [encode_line(record) for record in records] for stream, records in batches.items() if records}
        return self._store.append_lines(self._session, lines) if lines else {}

    def unsynced(self) -> Callable[[], None]:
        return lambda: None

    def settled(self) -> Callable[[], None]:
        return lambda: None

    def rewrite(
        self, stream: str, change: RecordChange, new: Sequence[Record] = (), banned: Sequence[str] = ()
    ) -> None:
        lines, spellings = [], spellings_of(banned)
        for line in self._lines(stream, 0):
            record = decode_line(line)
            if record is not None:
                lines.append(change_line(line, record, change(record)))
            elif not contains_any(line, spellings):
                lines.append(line)
        lines += map(encode_line, new)
        self.files.save(_EDITION, str(self.edition() + 1).encode())
        for name in (_CHECKPOINT, *(entry.name for entry in self.files.entries(CACHE))):
            self.files.remove(name)
        self._store.replace_lines(self._session, stream, lines)

    def load_checkpoint(self) -> Checkpoint | None:
        record = decode_line(self.files.load(_CHECKPOINT) or b"")
        if record is None or record["lines"] != self._checksum(record["positions"]):
            return None
        return Checkpoint(record["positions"], record["known"])

    def save_checkpoint(self, checkpoint: Checkpoint) -> None:
        positions = dict(checkpoint.positions)
        record = {"positions": positions, "lines": self._checksum(positions), "known": checkpoint.known, "ctx": {}}
        self.files.save(_CHECKPOINT, encode_line(record))

    def _checksum(self, positions: Mapping[str, int]) -> int:
        """A checksum of the last line before each position: only rewriting changes a line, and it deletes this."""
        check = 0
        for stream, position in sorted(positions.items()):
            last = self._lines(stream, position - 1, 1) if position else ()
            check = zlib.crc32(b"".join(last), check)
        return check

    def _lines(self, stream: str, start: int, count: int | None = None) -> Sequence[bytes]:
        return self._store.read_lines(self._session, stream, start, count)

    def _decoded(self, stream: str, start: int, lines: Iterable[bytes]) -> list[Record]:
        records = []
        for position, line in enumerate(lines, start):
            record = decode_line(line)
            if record is not None:
                records.append(record)
            elif (stream, position) not in self._reported:
                self._reported.add((stream, position))
                logger.error("session %s: line %d of %s is damaged", self._session, position + 1, stream)
        return records


def _file_name(name: str) -> str:
    file_parts(name)
    return _encode_name(name, safe="/")


def _encode_name(name: str, safe: str = "") -> str:
    return quote(name, safe, errors="surrogatepass")


def _decode_name(name: str) -> str:
    return unquote(name, errors="surrogatepass")
