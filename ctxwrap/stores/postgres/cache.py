"""What a log caches between transactions, and records as table rows."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from ctxwrap.stores.base import FileEntry
from ctxwrap.stores.log_format import next_number, number_in
from ctxwrap.stores.postgres.connection import Rows, SqlStatement
from ctxwrap.types import Record

_MAX_CACHED_SIZE = 16 * 1024
_MAX_CACHED = 64
"""How many files are cached, up to that size each."""

_MAX_FREQUENT = 8
"""How many statements that transactions began with are sent along when the next one begins."""

_UNCHANGED_TIMES = 2
"""After so many transactions in a row that found the session unchanged, the next one begins without asking."""


class SessionRow(NamedTuple):
    """A session's row."""

    version: int
    """How many transactions wrote to the session."""
    token: bytes
    """The token of the last of them."""
    edition: int
    ends: Mapping[str, int]
    """The last position of each stream."""
    numbers: Mapping[str, int]
    """The number of the last record of each stream."""


class LastRecord(NamedTuple):
    """The last record of a stream that this log has seen."""

    position: int
    token: bytes
    """The token of the transaction that wrote it."""


class KnownFiles:
    """Files as the last transaction left them."""

    def __init__(self) -> None:
        self.contents: dict[str, bytes | None] = {}
        self.sizes: dict[str, int | None] = {}
        self.entries: dict[str, list[FileEntry]] = {}
        """By directory."""

    def take(self, name: str, data: bytes | None) -> None:
        """Note that a file was written or, without data, removed."""
        self.forget(name)
        self.take_read(name, data)
        self.sizes[name] = None if data is None else len(data)

    def take_read(self, name: str, data: bytes | None) -> None:
        if data is None or len(data) <= _MAX_CACHED_SIZE:
            self.contents[name] = data
            if len(self.contents) > _MAX_CACHED:
                self.contents.pop(next(iter(self.contents)))

    def forget(self, name: str) -> None:
        """Note that a file changed."""
        self.contents.pop(name, None)
        self.sizes.pop(name, None)
        for under in [under for under in self.entries if not under or name.startswith(f"{under}/")]:
            del self.entries[under]


def _length(row: tuple[Any, ...]) -> int:
    return sum(len(value) for value in row if isinstance(value, bytes))


class SessionCache:
    """What a log knows between transactions; only the open transaction uses it."""

    def __init__(self) -> None:
        self.row: SessionRow | None = None
        """The session's row as the last transaction left it, if that succeeded."""
        self.has_turn = False
        """Whether this log holds the lease, so that others hardly ever write."""
        self._times_unchanged = 0
        """How many transactions in a row, outside of turns, found no writes of others."""
        self.edition = 0
        self.seen: dict[str, LastRecord] = {}
        self.fresh: dict[str, tuple[int, list[tuple[Any, ...]]]] = {}
        """The rows of each stream from a position on, as of the transaction's beginning."""
        self.files = KnownFiles()
        self._frequent: dict[str, SqlStatement] = {}
        self._prefetched: dict[str, Rows] = {}

    def likely_row(self) -> SessionRow | None:
        """The session's row, if it is very likely unchanged."""
        return self.row if self.has_turn or self._times_unchanged >= _UNCHANGED_TIMES else None

    def take_row(self, row: SessionRow) -> None:
        """Compare the row with the one that the last transaction left."""
        is_same = self.row is not None and row[:2] == self.row[:2]
        if not is_same:
            self.files = KnownFiles()
        if not self.has_turn:
            self._times_unchanged = self._times_unchanged + 1 if is_same else 0

    def frequent_statements(self) -> list[SqlStatement]:
        """Statements that transactions began with, if others write to the session and the cache is of no use."""
        return list(self._frequent.values()) if not self._times_unchanged else []

    def keep_prefetched(self, questions: list[SqlStatement], answers: list[Rows]) -> None:
        self._prefetched = dict(zip(map(repr, questions), answers, strict=True))

    def prefetched(self, question: SqlStatement) -> Rows | None:
        """The answer that came with the transaction's beginning; valid until the first write."""
        return self._prefetched.get(repr(question))

    def note_answer(self, question: SqlStatement, answer: Rows) -> None:
        """Note a statement that was sent before any write, so that the next transaction can prefetch it."""
        self._frequent.pop(repr(question), None)
        if len(answer) < _MAX_CACHED and sum(map(_length, answer)) <= _MAX_CACHED_SIZE:
            self._frequent[repr(question)] = question
        if len(self._frequent) > _MAX_FREQUENT:
            self._frequent.pop(next(iter(self._frequent)))

    def invalidate(self) -> None:
        """Note that the database may hold something else."""
        self.row, self.seen, self._times_unchanged = None, {}, 0

    def begin_edition(self, edition: int) -> None:
        self.edition, self.seen, self.fresh = edition, {}, {}

    def is_other(self, stream: str, rows: list[tuple[Any, ...]]) -> bool:
        """Whether the last record that was seen is missing or was replaced."""
        seen = self.seen[stream]
        return bool(seen.position) and (not rows or rows[0][:2] != seen)


_LARGEST = 1 << 62


class Batch(NamedTuple):
    """Rows to insert, as columns."""

    stream: list[str]
    pos: list[int]
    number: list[int]
    said: list[bool]
    """Whether the record has that number in its `ctx`."""
    body: list[bytes]

    def add(self, stream: str, lines: Iterable[tuple[Record | None, bytes]], position: int, number: int) -> None:
        """Add rows of a stream that follow a position and a number."""
        for at, (record, line) in enumerate(lines, position + 1):
            number = _next(record or {}, number)
            self.stream.append(stream)
            self.pos.append(at)
            self.number.append(number)
            self.said.append(record is not None and number_in(record) == number)
            self.body.append(line)

    @property
    def last(self) -> tuple[int, int]:
        """The last position and number."""
        return self.pos[-1], self.number[-1]


def empty_batch() -> Batch:
    return Batch([], [], [], [], [])


def _next(record: Record, number: int) -> int:
    """`next_number`, if it fits into the column."""
    found = next_number(record, number)
    return int(found) if found < _LARGEST else number + 1
