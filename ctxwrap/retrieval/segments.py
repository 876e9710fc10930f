"""Segments: a fixed number of documents and where their words are, as bytes that show any damage."""

import json
import sys
import zlib
from array import array
from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from ctxwrap.retrieval.passages import bits

SIZE = 4096
"""So many documents fill a segment."""

_MAGIC = b"ctxwrap-words\n"
_VERSION = 2
_END = 4
_BETWEEN = "\n"
"""Between two terms; no term has it."""

_COLUMNS = (
    ("numbers", "q"),
    ("parts", "H"),
    ("times", "q"),
    ("lengths", "B"),
    ("signs", "H"),
    ("topics", "Q"),
    ("voices", "B"),
)
_INDEX = (("starts", "I"), ("places", "H"), ("counts", "B"))
TOPICS = 64
"""So many topics are told apart."""

MANY = 255
"""More than that is not told apart: speakers, words of a document, the same word in it."""

Postings = tuple["array[int]", "array[int]"]
"""Where in the segment a term is, and how often there."""


class Damaged(ValueError):
    """Bytes that are no segment, or not the one that was written: make the index anew."""


class IndexedPassage(NamedTuple):
    """What is known of one passage of one message."""

    number: int
    part: int
    time: int
    length: int
    """Its words that say something."""
    signs: int
    topics: int
    role: str
    speaker: str
    group: str


class Segment:
    """Open until it is full; its places count from 0."""

    def __init__(self, ordinal: int = 0, before: int = -1) -> None:
        self.ordinal, self.before = ordinal, before
        """How many segments come before it, and the highest number that was added there."""
        self.numbers, self.parts, self.times = array("q"), array("H"), array("q")
        self.lengths, self.signs, self.topics, self.voices = array("B"), array("H"), array("Q"), array("B")
        self.names: list[tuple[str, str]] = []
        """Who speaks, each as role and name."""
        self.spoken: list[list[int]] = []
        """The length of all documents of each, and their number."""
        self.topical = [0] * TOPICS
        """How many documents are of each topic."""
        self.runs: list[tuple[str, int]] = []
        """Groups in their order, each with how many documents in a row are in it."""
        self.highest = before
        """The highest number that was ever added here, or before."""
        self.changed = True
        self._open: dict[str, Postings] | None = {}
        self._sorted: list[str] = []
        self._starts, self._places, self._counts = array("I"), array("H"), array("B")
        self._listed = b""
        """All terms in their order, until one is looked up."""

    def __len__(self) -> int:
        return len(self.numbers)

    def add(self, document: IndexedPassage, terms: Iterable[str]) -> None:
        """Put a document behind the others."""
        postings = self._opened()
        place = len(self.numbers)
        self.numbers.append(document.number)
        self.parts.append(document.part)
        self.times.append(document.time)
        self.lengths.append(min(document.length, MANY))
        self.signs.append(document.signs)
        self.topics.append(document.topics)
        self.voices.append(self._voice(document.role, document.speaker))
        self._note_length(self.voices[-1], self.lengths[-1])
        self._note_topics(document.topics)
        self._add_to_run(document.group, 1)
        self.highest = max(self.highest, document.number)
        self.changed = True
        for term, count in Counter(terms).items():
            known = postings.get(term)
            if known is None:
                known = postings[term] = (array("H"), array("B"))
                insort(self._sorted, term)
            known[0].append(place)
            known[1].append(count if count < MANY else MANY)

    def postings(self, term: str) -> Postings | None:
        if self._open is not None:
            return self._open.get(term)
        listed = self.terms()
        at = bisect_left(listed, term)
        return self._postings_at(at) if at < len(listed) and listed[at] == term else None

    def starting_with(self, prefix: str) -> Iterator[tuple[str, Postings]]:
        """The terms that start so, in their order."""
        listed = self.terms()
        at = bisect_left(listed, prefix)
        while at < len(listed) and (term := listed[at]).startswith(prefix):
            yield term, self._postings_at(at) if self._open is None else self._open[term]
            at += 1

    def _postings_at(self, at: int) -> Postings:
        start, end = self._starts[at], self._starts[at + 1]
        return self._places[start:end], self._counts[start:end]

    def terms(self) -> list[str]:
        """All terms, in their order."""
        if self._listed:
            self._sorted, self._listed = _decoded(self._listed).split(_BETWEEN), b""
        return self._sorted

    def without(self, number: int) -> "Segment":
        """The segment as if documents of that number had never been added, but for the highest number."""
        kept = [place for place, each in enumerate(self.numbers) if each != number]
        new = Segment(self.ordinal, self.before)
        for name, kind in _COLUMNS:
            column = getattr(self, name)
            setattr(new, name, array(kind, [column[place] for place in kept]))
        gone = [place for place, each in enumerate(self.numbers) if each == number]
        new.runs = _shortened(self.runs, gone)
        new.highest, new.names = self.highest, self.names
        new._forget_voices()
        for topics in new.topics:
            new._note_topics(topics)
        moved = {place: at for at, place in enumerate(kept)}
        left: dict[str, Postings] = {}
        for term, (places, counts) in self._opened().items():
            pairs = [(moved[place], count) for place, count in zip(places, counts, strict=True) if place in moved]
            if pairs:
                left[term] = array("H", [pair[0] for pair in pairs]), array("B", [pair[1] for pair in pairs])
        new._open, new._sorted = left, sorted(left)
        return new

    def seal(self) -> None:
        """Take less room; nothing is added from now on."""
        if self._open is None:
            return
        self._starts, self._places, self._counts = array("I", [0]), array("H"), array("B")
        for term in self._sorted:
            places, counts = self._open[term]
            self._places += places
            self._counts += counts
            self._starts.append(len(self._places))
        self._open = None

    def as_bytes(self) -> bytes:
        sealed = self if self._open is None else self._sealed_copy()
        columns = [little(getattr(self, name)) for name, _ in _COLUMNS]
        columns += [little(getattr(sealed, f"_{name}")) for name, _ in _INDEX]
        listed = sealed._listed or _encoded(_BETWEEN.join(sealed._sorted))
        head = json.dumps(
            {
                "version": _VERSION,
                "ordinal": self.ordinal,
                "before": self.before,
                "highest": self.highest,
                "names": self.names,
                "spoken": self.spoken,
                "topical": self.topical,
                "runs": self.runs,
                "sizes": [*map(len, columns), len(listed)],
            }
        ).encode()
        data = b"".join((_MAGIC, len(head).to_bytes(4, "little"), head, *columns, listed))
        return data + zlib.crc32(data).to_bytes(_END, "little")

    @classmethod
    def from_bytes(cls, data: bytes) -> "Segment":
        """The segment that was written as these bytes; `Damaged` if they are not what was written."""
        body = memoryview(data)[:-_END]
        if len(data) < len(_MAGIC) + 4 + _END or body[: len(_MAGIC)] != _MAGIC:
            raise Damaged("no segment of an index")
        if zlib.crc32(body).to_bytes(_END, "little") != data[-_END:]:
            raise Damaged("a segment of an index is damaged")
        start = len(_MAGIC) + 4
        end = start + int.from_bytes(body[start - 4 : start], "little")
        head = json.loads(bytes(body[start:end]))
        if head["version"] != _VERSION:
            raise Damaged(f"a segment of version {head['version']}; this is version {_VERSION}")
        return cls._read(head, body, end)

    @classmethod
    def _read(cls, head: dict[str, Any], body: memoryview, at: int) -> "Segment":
        segment = cls(head["ordinal"], head["before"])
        segment._open, segment.changed = None, False
        segment.highest, segment.runs = head["highest"], [(group, count) for group, count in head["runs"]]
        segment.names = [(role, name) for role, name in head["names"]]
        segment.spoken, segment.topical = head["spoken"], head["topical"]
        names = [(name, kind) for name, kind in _COLUMNS] + [(f"_{name}", kind) for name, kind in _INDEX]
        for (name, kind), size in zip(names, head["sizes"], strict=False):
            setattr(segment, name, from_little(kind, body[at : at + size]))
            at += size
        segment._listed = bytes(body[at:])
        return segment

    def _opened(self) -> dict[str, Postings]:
        """The terms in the form that can grow."""
        if self._open is None:
            self._open = {term: self._postings_at(at) for at, term in enumerate(self.terms())}
        return self._open

    def _sealed_copy(self) -> "Segment":
        copy = Segment()
        copy._open, copy._sorted = self._open, self._sorted
        copy.seal()
        return copy

    def _voice(self, role: str, name: str) -> int:
        """The place of a speaker in the list; the last place is for all who find no room."""
        voice = (role, name)
        if voice not in self.names and len(self.names) >= MANY:
            voice = ("", "")
        if voice not in self.names:
            self.names.append(voice)
            self.spoken.append([0, 0])
        return self.names.index(voice)

    def _forget_voices(self) -> None:
        """Keep no speaker who says nothing."""
        names, used = self.names, self.voices
        self.names, self.spoken = [], []
        self.voices = array("B", [self._voice(*names[voice]) for voice in used])
        for voice, length in zip(self.voices, self.lengths, strict=True):
            self._note_length(voice, length)

    def _note_length(self, voice: int, length: int) -> None:
        self.spoken[voice][0] += length
        self.spoken[voice][1] += 1

    def _note_topics(self, topics: int) -> None:
        for topic in bits(topics):
            self.topical[topic] += 1

    def _add_to_run(self, group: str, count: int) -> None:
        if self.runs and self.runs[-1][0] == group:
            self.runs[-1] = (group, self.runs[-1][1] + count)
        else:
            self.runs.append((group, count))


def _shortened(runs: list[tuple[str, int]], gone: list[int]) -> list[tuple[str, int]]:
    """The runs without the documents at these places; runs that meet become one."""
    left = Segment()
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
