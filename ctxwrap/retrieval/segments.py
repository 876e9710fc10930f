"""Segments: a fixed number of passages with their postings, stored with a checksum."""

import json
import sys
import zlib
from array import array
from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate, islice
from typing import Any, NamedTuple

SIZE = 4096
"""Passages per segment."""

_MAGIC = b"ctxwrap-words\n"
_VERSION = 4
_CHECKSUM_SIZE = 4
_TERM_SEPARATOR = "\n"
"""Separates terms; no term contains it."""

_COLUMNS = (
    ("numbers", "q"),
    ("parts", "H"),
    ("times", "q"),
    ("lengths", "B"),
    ("features", "H"),
    ("speaker_ids", "B"),
)
_INDEX = (("starts", "I"), ("places", "H"), ("counts", "B"))
MAX_BYTE = 255
"""Upper limit of one-byte values: speakers, terms of a passage, occurrences of a term."""

Postings = tuple["array[int]", "array[int] | bytearray"]
"""Places in the segment, and counts."""


class Damaged(ValueError):
    """The bytes are not a valid segment; the index must be rebuilt."""


class IndexedPassage(NamedTuple):
    """What the index knows about a passage."""

    number: int
    part: int
    time: int
    length: int
    """The number of terms, at most `MAX_BYTE`."""
    features: int
    role: str
    speaker: str
    group: str


class WordSegment:
    """Open until it is full; places count from 0."""

    def __init__(self, ordinal: int = 0, before: int = -1) -> None:
        self.ordinal, self.before = ordinal, before
        """The number of earlier segments, and the highest message number in them."""
        self.numbers, self.parts, self.times = array("q"), array("H"), array("q")
        self.lengths, self.features, self.speaker_ids = array("B"), array("H"), array("B")
        self.names: list[tuple[str, str]] = []
        """Speakers as role and name."""
        self.speaker_totals: list[list[int]] = []
        """Total length and number of passages per speaker."""
        self.runs: list[tuple[str, int]] = []
        """Groups in order, each with its number of consecutive passages."""
        self.highest = before
        """The highest number ever added here or earlier."""
        self.changed = True
        self._open: dict[str, Postings] | None = {}
        self._sorted: list[str] = []
        self._starts, self._places, self._counts = array("I"), array("H"), array("B")
        self._listed = b""
        """All terms in order, encoded until the first lookup."""

    def __len__(self) -> int:
        return len(self.numbers)

    def add(self, document: IndexedPassage, terms: Iterable[str]) -> None:
        postings = self._opened()
        number, part, time, length, features, role, speaker, group = document
        voice, place = self._speaker_id(role, speaker), len(self.numbers)
        self.numbers.append(number)
        self.parts.append(part)
        self.times.append(time)
        self.lengths.append(length)
        self.features.append(features)
        self.speaker_ids.append(voice)
        self._note_length(voice, length)
        self._add_to_run(group, 1)
        self.highest = max(self.highest, number)
        self.changed = True
        here = array("H", (place,))  # which is added faster than its number
        for term, count in Counter(terms).items():
            known = postings.get(term)
            if known is None:
                known = postings[term] = (array("H"), bytearray())
                insort(self._sorted, term)
            places, counts = known
            places += here
            counts.append(count if count < MAX_BYTE else MAX_BYTE)

    def postings(self, term: str) -> Postings | None:
        if self._open is not None:
            return self._open.get(term)
        listed = self.terms()
        at = bisect_left(listed, term)
        return self._postings_at(at) if at < len(listed) and listed[at] == term else None

    def starting_with(self, prefix: str) -> Iterator[tuple[str, Postings]]:
        """Return the terms with this prefix, in order."""
        listed = self.terms()
        at = bisect_left(listed, prefix)
        while at < len(listed) and (term := listed[at]).startswith(prefix):
            yield term, self._postings_at(at) if self._open is None else self._open[term]
            at += 1

    def reader(self) -> Callable[[str], Postings | None]:
        """Return `postings`, or what does the same faster until the segment is sealed."""
        return self.postings if self._open is None else self._open.get

    def _postings_at(self, at: int) -> Postings:
        start, end = self._starts[at], self._starts[at + 1]
        return self._places[start:end], self._counts[start:end]

    def terms(self) -> list[str]:
        """Return all terms, in order."""
        if self._listed:
            self._sorted, self._listed = _decoded(self._listed).split(_TERM_SEPARATOR), b""
        return self._sorted

    def terms_from(self, seen: int) -> tuple[list[str], int]:
        """Return the terms after the first `seen` ones in the order of arrival, and how many there are now."""
        if self._open is None:
            return self.terms()[seen:], len(self.terms())
        newest_first = list(islice(reversed(self._open), len(self._open) - seen))
        return newest_first[::-1], len(self._open)

    def without(self, number: int) -> "WordSegment":
        """Return a copy without the passages of a message; `highest` stays."""
        kept = [place for place, each in enumerate(self.numbers) if each != number]
        new = WordSegment(self.ordinal, self.before)
        for name, kind in _COLUMNS:
            column = getattr(self, name)
            setattr(new, name, array(kind, [column[place] for place in kept]))
        gone = [place for place, each in enumerate(self.numbers) if each == number]
        new.runs = _shortened(self.runs, gone)
        new.highest, new.names = self.highest, self.names
        new._drop_unused_speakers()
        moved = {place: at for at, place in enumerate(kept)}
        left: dict[str, Postings] = {}
        for term, (places, counts) in self._opened().items():
            pairs = [(moved[place], count) for place, count in zip(places, counts, strict=True) if place in moved]
            if pairs:
                left[term] = array("H", [pair[0] for pair in pairs]), array("B", [pair[1] for pair in pairs])
        new._open, new._sorted = left, sorted(left)
        return new

    def seal(self) -> None:
        """Compact the postings; nothing may be added afterwards."""
        if self._open is None:
            return
        postings = map(self._open.__getitem__, self._sorted)
        places, counts = zip(*postings, strict=True) if self._sorted else ((), ())
        self._starts = array("I", accumulate(map(len, places), initial=0))
        self._places = array("H", b"".join(places))
        self._counts = array("B", b"".join(counts))
        self._open = None

    def as_bytes(self) -> bytes:
        sealed = self if self._open is None else self._sealed_copy()
        columns = [little(getattr(self, name)) for name, _ in _COLUMNS]
        columns += [little(getattr(sealed, f"_{name}")) for name, _ in _INDEX]
        listed = sealed._listed or _encoded(_TERM_SEPARATOR.join(sealed._sorted))
        head = json.dumps(
            {
                "version": _VERSION,
                "ordinal": self.ordinal,
                "before": self.before,
                "highest": self.highest,
                "names": self.names,
                "speaker_totals": self.speaker_totals,
                "runs": self.runs,
                "sizes": [*map(len, columns), len(listed)],
            }
        ).encode()
        data = b"".join((_MAGIC, len(head).to_bytes(4, "little"), head, *columns, listed))
        return data + zlib.crc32(data).to_bytes(_CHECKSUM_SIZE, "little")

    @classmethod
    def from_bytes(cls, data: bytes) -> "WordSegment":
        """Load a segment; raise `Damaged` if the bytes are invalid."""
        body = memoryview(data)[:-_CHECKSUM_SIZE]
        if len(data) < len(_MAGIC) + 4 + _CHECKSUM_SIZE or body[: len(_MAGIC)] != _MAGIC:
            raise Damaged("not an index segment")
        if zlib.crc32(body).to_bytes(_CHECKSUM_SIZE, "little") != data[-_CHECKSUM_SIZE:]:
            raise Damaged("the checksum of an index segment does not match")
        start = len(_MAGIC) + 4
        end = start + int.from_bytes(body[start - 4 : start], "little")
        head = json.loads(bytes(body[start:end]))
        if head["version"] != _VERSION:
            raise Damaged(f"an index segment of version {head['version']}, expected version {_VERSION}")
        return cls._read(head, body, end)

    @classmethod
    def _read(cls, head: dict[str, Any], body: memoryview, at: int) -> "WordSegment":
        segment = cls(head["ordinal"], head["before"])
        segment._open, segment.changed = None, False
        segment.highest, segment.runs = head["highest"], [(group, count) for group, count in head["runs"]]
        segment.names = [(role, name) for role, name in head["names"]]
        segment.speaker_totals = head["speaker_totals"]
        names = [(name, kind) for name, kind in _COLUMNS] + [(f"_{name}", kind) for name, kind in _INDEX]
        for (name, kind), size in zip(names, head["sizes"], strict=False):
            setattr(segment, name, from_little(kind, body[at : at + size]))
            at += size
        segment._listed = bytes(body[at:])
        return segment

    def _opened(self) -> dict[str, Postings]:
        """Return the postings in a form that can grow."""
        if self._open is None:
            self._open = {term: self._postings_at(at) for at, term in enumerate(self.terms())}
        return self._open

    def _sealed_copy(self) -> "WordSegment":
        copy = WordSegment()
        copy._open, copy._sorted = self._open, self._sorted
        copy.seal()
        return copy

    def _speaker_id(self, role: str, name: str) -> int:
        """Return the position of a speaker in the list; the last one stands for all above the limit."""
        voice = (role, name)
        if voice not in self.names and len(self.names) >= MAX_BYTE:
            voice = ("", "")
        if voice not in self.names:
            self.names.append(voice)
            self.speaker_totals.append([0, 0])
        return self.names.index(voice)

    def _drop_unused_speakers(self) -> None:
        """Remove speakers without passages."""
        names, used = self.names, self.speaker_ids
        self.names, self.speaker_totals = [], []
        self.speaker_ids = array("B", [self._speaker_id(*names[voice]) for voice in used])
        for voice, length in zip(self.speaker_ids, self.lengths, strict=True):
            self._note_length(voice, length)

    def _note_length(self, voice: int, length: int) -> None:
        self.speaker_totals[voice][0] += length
        self.speaker_totals[voice][1] += 1

    def _add_to_run(self, group: str, count: int) -> None:
        if self.runs and self.runs[-1][0] == group:
            self.runs[-1] = (group, self.runs[-1][1] + count)
        else:
            self.runs.append((group, count))


def _shortened(runs: list[tuple[str, int]], gone: list[int]) -> list[tuple[str, int]]:
    """Remove passages from runs, and merge adjacent runs."""
    left = WordSegment()
    end = 0
    for group, count in runs:
        start, end = end, end + count
        if rest := count - sum(start <= place < end for place in gone):
            left._add_to_run(group, rest)
    return left.runs


def _encoded(term: str) -> bytes:
    return term.encode("utf-8", "surrogatepass")


def _decoded(term: bytes) -> str:
    return term.decode("utf-8", "surrogatepass")


def little(column: "array[int]") -> bytes:
    if sys.byteorder == "big":
        column = column[:]
        column.byteswap()
    return column.tobytes()


def from_little(kind: str, data: memoryview) -> "array[int]":
    column = array(kind)
    column.frombytes(data)
    if sys.byteorder == "big":
        column.byteswap()
    return column
