"""What a log caches between transactions, and records as table rows."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from ctxwrap.stores.base import FileEntry
from ctxwrap.stores.log_format import next_number, number_in
from ctxwrap.stores.postgres.connection import Rows, SqlStatement
from ctxwrap.types import Record

_SMALL = 16 * 1024
_REMEMBERED = 64
"""So many files up to that size are remembered."""

_USUAL = 8
"""So many questions that a section began with are asked with the beginning of the next one."""

_SURE = 2
"""After so many sections that found the session as this log left it, the next one does not ask."""


class SessionRow(NamedTuple):
    """A session's row."""

    version: int
    """How many sections wrote to it."""
    token: bytes
    """Of the last one."""
    edition: int
    ends: Mapping[str, int]
    """The last position of each stream."""
    numbers: Mapping[str, int]
    """The number of the last record of each stream."""


class LastRecord(NamedTuple):
    """The last record of a stream that is known of."""

    position: int
    token: bytes
    """Of the section that wrote it."""


class KnownFiles:
    def __init__(self) -> None:
        self.contents: dict[str, bytes | None] = {}
        self.sizes: dict[str, int | None] = {}
        self.entries: dict[str, list[FileEntry]] = {}
        """By directory."""

    def take(self, name: str, data: bytes | None) -> None:
        """That it was written, or removed."""
        self.forget(name)
        self.take_read(name, data)
        self.sizes[name] = None if data is None else len(data)

    def take_read(self, name: str, data: bytes | None) -> None:
        if data is None or len(data) <= _SMALL:
            self.contents[name] = data
            if len(self.contents) > _REMEMBERED:
                self.contents.pop(next(iter(self.contents)))

    def forget(self, name: str) -> None:
        """That it is another now."""
        self.contents.pop(name, None)
        self.sizes.pop(name, None)
        for under in [under for under in self.entries if not under or name.startswith(f"{under}/")]:
            del self.entries[under]


def _length(row: tuple[Any, ...]) -> int:
    return sum(len(value) for value in row if isinstance(value, bytes))


class SessionCache:
    """Used by the section that is open, and by nobody else."""

    def __init__(self) -> None:
        self.row: SessionRow | None = None
        """The session as the last section left it, if that went well."""
        self.has_turn = False
        """Whether the lease is this log's, so that hardly anybody else writes."""
        self._unchanged = 0
        """So many sections in a row, outside of turns, found nothing that others wrote."""
        self.edition = 0
        self.seen: dict[str, LastRecord] = {}
        self.fresh: dict[str, tuple[int, list[tuple[Any, ...]]]] = {}
        """What each stream has from a position on, as of the section's beginning."""
        self.files = KnownFiles()
        self._usual: dict[str, SqlStatement] = {}
        self._foreseen: dict[str, Rows] = {}

    def sure_row(self) -> SessionRow | None:
        """The session's row, if it is very likely as it was left."""
        return self.row if self.has_turn or self._unchanged >= _SURE else None

    def take_row(self, row: SessionRow) -> None:
        """The row as it is now, which is compared with the one that was left."""
        is_same = self.row is not None and row[:2] == self.row[:2]
        if not is_same:
            self.files = KnownFiles()
        if not self.has_turn:
            self._unchanged = self._unchanged + 1 if is_same else 0

    def usual_questions(self) -> list[SqlStatement]:
        """What sections began with, if others write to the session; what was known of it is worth nothing then."""
        return list(self._usual.values()) if not self._unchanged else []

    def foresee(self, questions: list[SqlStatement], answers: list[Rows]) -> None:
        self._foreseen = dict(zip(map(repr, questions), answers, strict=True))

    def foreseen(self, question: SqlStatement) -> Rows | None:
        """The answer that came with the section's beginning; right as long as nothing was written."""
        return self._foreseen.get(repr(question))

    def take_answer(self, question: SqlStatement, answer: Rows) -> None:
        """That the section asked this before it wrote anything; the next one may have it sooner."""
        self._usual.pop(repr(question), None)
        if len(answer) < _REMEMBERED and sum(map(_length, answer)) <= _SMALL:
            self._usual[repr(question)] = question
        if len(self._usual) > _USUAL:
            self._usual.pop(next(iter(self._usual)))

    def lose(self) -> None:
        """That something else is in the database, or nobody knows."""
        self.row, self.seen, self._unchanged = None, {}, 0

    def begin_edition(self, edition: int) -> None:
        self.edition, self.seen, self.fresh = edition, {}, {}

    def is_other(self, stream: str, rows: list[tuple[Any, ...]]) -> bool:
        """Whether the last record that was seen is not there any more, or another one in its place."""
        seen = self.seen[stream]
        return bool(seen.position) and (not rows or rows[0][:2] != seen)


_LARGEST = 1 << 62


class Batch(NamedTuple):
    """Rows, column by column."""

    stream: list[str]
    pos: list[int]
    number: list[int]
    said: list[bool]
    """Whether the record says that number itself."""
    body: list[bytes]

    def add(self, stream: str, lines: Iterable[tuple[Record | None, bytes]], position: int, number: int) -> None:
        """Rows of a stream, behind a position and a number."""
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
    """As `next_number`, as far as a column can hold it."""
    found = next_number(record, number)
    return int(found) if found < _LARGEST else number + 1
