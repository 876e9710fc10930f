"""Embedding vectors of passages in small integers, stored next to the index with a checksum."""

import json
import zlib
from array import array
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ctxwrap.retrieval.passages import MAX_PARTS, passages
from ctxwrap.retrieval.segments import Damaged, from_little, little

SIZE = 4096
"""Vectors per segment."""

_MAGIC = b"ctxwrap-vectors\n"
_VERSION = 1
_CHECKSUM_SIZE = 4
_MAX_COMPONENT = 127
"""The largest vector component."""

_PART_BITS = 16

Numbers = NDArray[Any]


class Embedder(Protocol):
    """Computes deterministic vectors, in any thread; `name` identifies the model."""

    name: str

    @property
    def dimensions(self) -> int: ...

    def __call__(self, texts: Sequence[str]) -> Numbers: ...


class _VectorSegment:
    def __init__(self, ordinal: int) -> None:
        self.ordinal, self.changed = ordinal, True
        self.keys = array("q")
        """Number and part of each passage, ascending."""
        self.rows = bytearray()


class _Table:
    """The vectors of a segment, ready for multiplication."""

    def __init__(self, keys: Numbers, rows: Numbers, last: int) -> None:
        self.keys, self.rows, self.last = keys, rows, last
        self.squares = np.einsum("ij,ij->i", rows, rows)
        self.total = rows.sum(axis=0)


class Vectors:
    """One vector per passage; passages without one have similarity 0."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._segments: list[_VectorSegment] = []
        self._tables: dict[int, _Table] = {}

    @property
    def highest(self) -> int:
        """The highest number that has a vector, or -1."""
        return max(map(_last_of, self._segments), default=-1)

    @property
    def ends(self) -> list[int]:
        """The highest number up to the end of each segment."""
        return list(accumulate((_last_of(segment) for segment in self._segments), max))

    def add(self, number: int, text: str) -> None:
        """Add a message; passages are numbered as in the index."""
        if number <= self.highest:
            raise ValueError(f"message {number} must be numbered higher than {self.highest}")
        # first, so that a failing model leaves nothing changed
        self.put(number, self._embedded(passages(text)[:MAX_PARTS]))

    @property
    def is_remote(self) -> bool:
        """Whether messages are embedded in the background, by `embedded` and `put`."""
        return getattr(self._embedder, "is_remote", False)

    def embedded(self, messages: Sequence[tuple[int, str]]) -> list[tuple[int, Numbers]]:
        """Embed messages without changing anything, in any thread; empty texts are left out."""
        pieces = {number: passages(text)[:MAX_PARTS] for number, text in messages if text.strip()}
        rows = iter(self._embedded([piece for each in pieces.values() for piece in each]) if pieces else ())
        return [(number, np.array([next(rows) for _ in each])) for number, each in pieces.items()]

    def put(self, number: int, rows: Numbers) -> None:
        """Add the vectors of a message's passages."""
        if not self._segments or len(self._segments[-1].keys) + len(rows) > SIZE:
            self._segments.append(_VectorSegment(len(self._segments)))
        segment = self._segments[-1]
        segment.keys.extend(_key(number, part) for part in range(len(rows)))
        segment.rows += rows.tobytes()
        segment.changed = True

    def _embedded(self, texts: Sequence[str]) -> NDArray[np.int8]:
        rows = _quantise(self._embedder(texts))
        if rows.shape != (len(texts), self._embedder.dimensions):
            raise ValueError(f"{self._embedder.name} returned the shape {rows.shape} for {len(texts)} texts")
        return rows

    def remove(self, number: int) -> bool:
        """Remove a message; return whether it was there."""
        for segment in self._segments:
            gone = [at for at, key in enumerate(segment.keys) if key >> _PART_BITS == number]
            if gone:
                first, last, width = gone[0], gone[-1] + 1, self._embedder.dimensions
                del segment.keys[first:last], segment.rows[first * width : last * width]
                segment.changed = True
                self._tables.pop(segment.ordinal, None)
                return True
        return False

    def likeness(self, text: str, numbers: Numbers, parts: Numbers) -> Numbers:
        """Return the similarity of a text to each passage, from 0 to 1, relative to the mean of all."""
        alike = np.zeros(len(numbers), np.float32)
        tables = [table for segment in list(self._segments) if (table := self._table(segment)) and len(table.keys)]
        if not tables or not len(numbers):
            return alike
        total: Numbers = np.sum([table.total for table in tables], axis=0)
        shared = total / sum(len(table.keys) for table in tables)
        asked = _normalise(self._embedded([text]) - shared)[0]
        both, keys = np.column_stack((asked, shared)).astype(np.float32), numbers << _PART_BITS | parts
        for table in tables:
            near, common = (table.rows @ both).T
            apart = np.sqrt(np.maximum(table.squares - 2 * common + shared @ shared, 1.0))
            at = np.minimum(keys.searchsorted(table.keys), len(keys) - 1)
            here = keys[at] == table.keys
            alike[at[here]] = np.maximum((near - shared @ asked) / apart, 0.0)[here]
        return alike

    def _table(self, segment: _VectorSegment) -> "_Table":
        """Return a segment's vectors as numbers; they are cached until the segment changes."""
        known = self._tables.get(segment.ordinal)
        if known is None or len(known.keys) != len(segment.keys) or known.last != _last_of(segment):
            # copies: the segment may grow meanwhile
            keys = np.frombuffer(segment.keys.tobytes(), np.int64)
            width = self._embedder.dimensions
            rows = np.frombuffer(bytes(segment.rows[: len(keys) * width]), np.int8).reshape(-1, width)
            known = self._tables[segment.ordinal] = _Table(keys, rows.astype(np.float32), _last_of(segment))
        return known

    def unsaved(self) -> dict[int, bytes]:
        """Return the changed segments by ordinal, and mark them as saved."""
        changed = {segment.ordinal: self._as_bytes(segment) for segment in self._segments if segment.changed}
        for segment in self._segments:
            segment.changed = False
        return changed

    def _as_bytes(self, segment: _VectorSegment) -> bytes:
        head = json.dumps([*self._head(segment.ordinal), len(segment.keys)]).encode()
        data = b"".join((_MAGIC, len(head).to_bytes(4, "little"), head, little(segment.keys), segment.rows))
        return data + zlib.crc32(data).to_bytes(_CHECKSUM_SIZE, "little")

    def _head(self, ordinal: int) -> list[Any]:
        return [_VERSION, self._embedder.name, self._embedder.dimensions, ordinal]

    @classmethod
    def from_segments(cls, embedder: Embedder, segments: Sequence[bytes]) -> "Vectors":
        """Load vectors from their segments in order.

        Raise `Damaged` if they are incomplete or from another embedder; then they must be rebuilt.
        """
        vectors = cls(embedder)
        for ordinal, data in enumerate(segments):
            vectors._segments.append(vectors._read(ordinal, data))
        keys = [segment.keys for segment in vectors._segments if segment.keys]
        if any(one[-1] >= other[0] for one, other in pairwise(keys)):
            raise Damaged("the vector segments are not consecutive")
        return vectors

    def _read(self, ordinal: int, data: bytes) -> _VectorSegment:
        start = len(_MAGIC) + 4
        if len(data) < start + _CHECKSUM_SIZE or not data.startswith(_MAGIC):
            raise Damaged("not a vector segment")
        if zlib.crc32(data[:-_CHECKSUM_SIZE]).to_bytes(_CHECKSUM_SIZE, "little") != data[-_CHECKSUM_SIZE:]:
            raise Damaged("the checksum of a vector segment does not match")
        end = start + int.from_bytes(data[start - 4 : start], "little")
        *head, count = json.loads(data[start:end])
        if head != self._head(ordinal):
            raise Damaged(f"a vector segment of {head}, expected {self._head(ordinal)}")
        segment = _VectorSegment(ordinal)
        segment.keys = from_little("q", memoryview(data)[end : end + 8 * count])
        segment.rows = bytearray(data[end + 8 * count : -_CHECKSUM_SIZE])
        if len(segment.rows) != len(segment.keys) * self._embedder.dimensions:
            raise Damaged("a vector segment is incomplete")
        segment.changed = False
        return segment


def _key(number: int, part: int) -> int:
    return number << _PART_BITS | part


def _last_of(segment: _VectorSegment) -> int:
    return segment.keys[-1] >> _PART_BITS if segment.keys else -1


def _quantise(rows: Numbers) -> NDArray[np.int8]:
    """Scale vectors to small integers; a zero vector stays zero."""
    whole: Numbers = np.rint(_normalise(np.nan_to_num(np.asarray(rows, np.float64))) * _MAX_COMPONENT)
    return whole.astype(np.int8)


def _normalise(rows: Numbers) -> Numbers:
    lengths = np.sqrt((rows * rows).sum(axis=1, keepdims=True))
    return rows / np.where(lengths > 0, lengths, 1.0)
