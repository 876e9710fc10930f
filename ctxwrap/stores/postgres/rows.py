"""Records as rows: each a line with a checksum of its own; their order is that of their positions."""

from collections.abc import Iterable
from typing import Any, NamedTuple

from ctxwrap.records import next_number, number_in
from ctxwrap.stores.lines import record_in, sealed, unsealed
from ctxwrap.types import Record

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


def line_of(record: Record) -> bytes:
    return sealed([record], 0).removesuffix(b"\n")


def changed_line(record: Record) -> bytes:
    """The line of a record that was read, and is another now."""
    return line_of(unsealed(record))


def record_of(line: Any) -> Record | None:
    """What a row says; None if it is not what was written."""
    return record_in(bytes(line))


def _next(record: Record, number: int) -> int:
    """As `next_number`, as far as a column can hold it."""
    found = next_number(record, number)
    return int(found) if found < _LARGEST else number + 1
