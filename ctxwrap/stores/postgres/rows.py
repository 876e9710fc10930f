"""Records as rows: each a line with a checksum of its own; their order is that of their positions."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from ctxwrap.records import next_number, number_in
from ctxwrap.stores.lines import record_in, sealed, unsealed
from ctxwrap.types import Record

_LARGEST = 1 << 62


class Batch(NamedTuple):
    """Rows behind a position, column by column."""

    pos: list[int]
    number: list[int]
    said: list[bool]
    """Whether the record says that number itself."""
    body: list[bytes]

    @property
    def last(self) -> tuple[int, int]:
        """The last position and number."""
        return self.pos[-1], self.number[-1]


def batch_of(records: Iterable[Record], position: int, number: int) -> Batch:
    """The rows of records behind a position and a number."""
    return rows_of([(record, line_of(record)) for record in records], position, number)


def rows_of(lines: Sequence[tuple[Record | None, bytes]], position: int, number: int) -> Batch:
    batch = Batch([], [], [], [])
    for at, (record, line) in enumerate(lines, position + 1):
        number = _next(record or {}, number)
        batch.pos.append(at)
        batch.number.append(number)
        batch.said.append(record is not None and number_in(record) == number)
        batch.body.append(line)
    return batch


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
