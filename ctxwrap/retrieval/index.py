"""The index: which documents have which words, grown one message at a time and kept in segments."""

from array import array
from bisect import bisect_right
from collections.abc import Sequence

from ctxwrap.language.words import terms_of
from ctxwrap.retrieval.passages import PARTS, TextFeature, bits, passages, signs_of, topics_of
from ctxwrap.retrieval.segments import MANY, SIZE, TOPICS, Damaged, IndexedPassage, Postings, Segment

__all__ = ["Damaged", "Index"]


STANDING = "!standing"
"""A term that no text has: users say so what is to be followed or known from then on."""

_LONG_ANSWERS = 25
"""Passages with so many telling words on average are long."""


class Index:
    """Documents are messages, or passages of long ones, by their place in the order they came in.

    Texts are not kept: whoever has them asks for `number` and `part`, which is that of `passages(text)`. Groups, such
    as sessions or days, are documents in a row.
    """

    def __init__(self) -> None:
        self.segments: list[Segment] = []
        """All but the last are full."""
        self._clear()

    def _clear(self) -> None:
        self.bases: list[int] = []
        """Where each segment begins."""
        self.numbers, self.parts, self.times = array("q"), array("H"), array("q")
        self.lengths, self.signs, self.topics, self.voices = array("B"), array("H"), array("Q"), array("B")
        self.names: list[tuple[str, str]] = []
        """Who speaks, as role and name; `voices` points here."""
        self._spoken: list[list[int]] = []
        """For each of them the length of all documents together, and their number."""
        self.groups: list[str] = []
        self.group_starts = array("I")
        self.words = 0
        """The length of all documents together."""
        self.topical = [0] * TOPICS
        """How many documents are of each topic."""
        self.beside: object = None
        """What whoever asks keeps at hand; documents may be added to it, and when one is removed it is gone."""

    def __len__(self) -> int:
        return len(self.numbers)

    @property
    def highest(self) -> int:
        """The highest number that was ever added, -1 for none: what the log has beyond it is still to be added."""
        return self.segments[-1].highest if self.segments else -1

    @property
    def ends(self) -> list[int]:
        """The highest number in each segment, or before it."""
        return [segment.highest for segment in self.segments]

    def add(
        self, number: int, text: str, *, role: str = "user", speaker: str = "", group: str = "", time: int = 0
    ) -> None:
        """Add a message behind all others; its number must be higher than theirs. `time` is in seconds since 1970."""
        if number <= self.highest:
            raise ValueError(f"message {number} comes after message {self.highest}")
        pieces = passages(text)[:PARTS]
        if not self.segments or len(self.segments[-1]) + len(pieces) > SIZE:
            self._start_segment()
        for part, passage in enumerate(pieces):
            terms, signs = terms_of(passage), signs_of(passage)
            document = IndexedPassage(number, part, time, len(terms), signs, topics_of(terms), role, speaker, group)
            self._put(document, terms)

    def _put(self, document: IndexedPassage, terms: Sequence[str]) -> None:
        segment = self.segments[-1]
        standing = [STANDING] if document.role == "user" and document.signs & TextFeature.STANDING else []
        segment.add(document, [*terms, *standing])
        self.numbers.append(document.number)
        self.parts.append(document.part)
        self.times.append(document.time)
        self.lengths.append(segment.lengths[-1])
        self.signs.append(document.signs)
        self.topics.append(document.topics)
        self.voices.append(self._voice(*segment.names[segment.voices[-1]]))
        self._note_topics(document.topics)
        self._enter_group(document.group, len(self) - 1)
        self.words += segment.lengths[-1]
        self._note_length(self.voices[-1], segment.lengths[-1])

    def remove(self, number: int) -> bool:
        """Take a message out as if it had never been there; whether it was."""
        for at, segment in enumerate(self.segments):
            if number in segment.numbers:
                self.segments[at] = segment.without(number)
                if at + 1 < len(self.segments):
                    self.segments[at].seal()
                self._gather()
                return True
        return False

    def postings(self, term: str) -> list[tuple[int, Postings]]:
        """Where a term is: each segment's beginning, and its places from there."""
        found = []
        for base, segment in zip(self.bases, self.segments, strict=True):
            if (known := segment.postings(term)) is not None:
                found.append((base, known))
        return found

    def newest(self, term: str, count: int) -> list[int]:
        """The last places of a term, the last one first."""
        found: list[int] = []
        for base, segment in zip(reversed(self.bases), reversed(self.segments), strict=True):
            known = segment.postings(term)
            found += [base + place for place in reversed(known[0][-count:])] if known else ()
            if len(found) >= count:
                break
        return found[:count]

    def role(self, place: int) -> str:
        return self.names[self.voices[place]][0]

    def speaker(self, place: int) -> str:
        """Who speaks, by name or else by role."""
        role, name = self.names[self.voices[place]]
        return name or role

    @property
    def answers_at_length(self) -> bool:
        """Whether this is a chat with a model that writes long answers, rather than people in conversation."""
        lengths = [
            (words, count)
            for (role, _), (words, count) in zip(self.names, self._spoken, strict=True)
            if role == "assistant"
        ]
        words, count = sum(each[0] for each in lengths), sum(each[1] for each in lengths)
        return count * 5 >= len(self) and words >= _LONG_ANSWERS * count > 0

    def group_of(self, place: int) -> int:
        return bisect_right(self.group_starts, place) - 1

    def group_range(self, group: int) -> tuple[int, int]:
        """From where to where a group reaches."""
        end = self.group_starts[group + 1] if group + 1 < len(self.groups) else len(self)
        return self.group_starts[group], end

    def unsaved(self) -> dict[int, bytes]:
        """What changed since it was last saved or loaded, by the number of the segment; counts as saved now."""
        changed = {}
        for at, segment in enumerate(self.segments):
            if segment.changed:
                changed[at] = segment.as_bytes()
                segment.changed = False
        return changed

    @classmethod
    def from_segments(cls, segments: Sequence[bytes]) -> "Index":
        """The index that was saved as these, in the order of their numbers; `Damaged` if they are not whole."""
        index = cls()
        index.segments = [Segment.from_bytes(data) for data in segments]
        before = -1
        for ordinal, segment in enumerate(index.segments):
            if (segment.ordinal, segment.before) != (ordinal, before):
                raise Damaged("the segments of an index do not follow each other")
            before = segment.highest
        index._gather()
        return index

    def _start_segment(self) -> None:
        if self.segments:
            self.segments[-1].seal()
        self.bases.append(len(self))
        self.segments.append(Segment(len(self.segments), self.highest))

    def _gather(self) -> None:
        """Make what spans the segments anew."""
        self._clear()
        for segment in self.segments:
            self.bases.append(len(self))
            place = len(self)
            for name in ("numbers", "parts", "times", "lengths", "signs", "topics"):
                getattr(self, name).extend(getattr(segment, name))
            voices = [self._voice(*name) for name in segment.names]
            self.voices.frombytes(segment.voices.tobytes().translate(bytes(voices + [0] * (256 - len(voices)))))
            for voice, (words, count) in zip(voices, segment.spoken, strict=True):
                self._note_length(voice, words, count)
            self.topical = [one + other for one, other in zip(self.topical, segment.topical, strict=True)]
            for group, count in segment.runs:
                self._enter_group(group, place)
                place += count
        self.words = sum(self.lengths)

    def _voice(self, role: str, name: str) -> int:
        if (role, name) not in self.names:
            if len(self.names) >= MANY:
                role, name = "", ""
            if (role, name) not in self.names:
                self.names.append((role, name))
                self._spoken.append([0, 0])
        return self.names.index((role, name))

    def _note_length(self, voice: int, words: int, count: int = 1) -> None:
        self._spoken[voice][0] += words
        self._spoken[voice][1] += count

    def _note_topics(self, topics: int) -> None:
        for topic in bits(topics):
            self.topical[topic] += 1

    def _enter_group(self, group: str, place: int) -> None:
        if not self.groups or self.groups[-1] != group:
            self.groups.append(group)
            self.group_starts.append(place)
