"""An inverted index of passages that grows by one message at a time and is stored in segments."""

from array import array
from bisect import bisect_right
from collections.abc import Sequence

from ctxwrap.retrieval.passages import MAX_PARTS, TextFeature, passages, text_features
from ctxwrap.retrieval.segments import MAX_BYTE, SIZE, Damaged, IndexedPassage, Postings, WordSegment
from ctxwrap.retrieval.terms import passage_terms

__all__ = ["Damaged", "Index"]


STANDING_TERM = "!standing"
"""An artificial term for passages in which a user states a lasting instruction or preference."""

_STANDING = int(TextFeature.STANDING)

_ROUNDED = 4
"""The average length is rounded to this part of a term."""

_LONG_PASSAGE = 25
"""Passages with this many terms on average are long."""


class Index:
    """Passages in the order of arrival; a long message has several.

    Texts are not stored: callers resolve `number` and `part`, the position in `passages(text)`. A group, such as a
    session or a day, is a run of passages.
    """

    def __init__(self) -> None:
        self.segments: list[WordSegment] = []
        """All but the last are full."""
        self._clear()

    def _clear(self) -> None:
        self.bases: list[int] = []
        """The first place of each segment."""
        self.numbers, self.parts, self.times = array("q"), array("H"), array("q")
        self.lengths, self.features, self.speaker_ids = array("B"), array("H"), array("B")
        self.names: list[tuple[str, str]] = []
        """Speakers as role and name; `speaker_ids` holds positions in this list."""
        self._answered = [0, 0]
        """Total length and number of a model's passages."""
        self.groups: list[str] = []
        self.group_starts = array("I")
        self.words = 0
        """Total length of all passages."""
        self.cache: object = None
        """A cache for the caller, cleared when a message is removed."""

    def __len__(self) -> int:
        return len(self.numbers)

    @property
    def highest(self) -> int:
        """The highest number ever added, or -1; the log's later messages still have to be added."""
        return self.segments[-1].highest if self.segments else -1

    @property
    def ends(self) -> list[int]:
        """The highest number up to the end of each segment."""
        return [segment.highest for segment in self.segments]

    def add(
        self, number: int, text: str, *, role: str = "user", speaker: str = "", group: str = "", time: int = 0
    ) -> list[str]:
        """Add a message, and return its passages; numbers must ascend. `time` is in seconds since 1970."""
        if number <= self.highest:
            raise ValueError(f"message {number} must be numbered higher than {self.highest}")
        pieces = passages(text)
        if not self.segments or len(self.segments[-1]) + min(len(pieces), MAX_PARTS) > SIZE:
            self._start_segment()
        for part, passage in enumerate(pieces[:MAX_PARTS]):
            terms, features = passage_terms(passage, time), text_features(passage)
            length = min(len(terms), MAX_BYTE)
            if role == "user" and features & _STANDING:
                terms.append(STANDING_TERM)
            self._put(IndexedPassage(number, part, time, length, features, role, speaker, group), terms)
        return pieces

    def _put(self, document: IndexedPassage, terms: Sequence[str]) -> None:
        segment = self.segments[-1]
        segment.add(document, terms)
        number, part, time, length, features, _, _, group = document
        voice = self._speaker_id(*segment.names[segment.speaker_ids[-1]])
        self._enter_group(group, len(self.numbers))
        self.numbers.append(number)
        self.parts.append(part)
        self.times.append(time)
        self.lengths.append(length)
        self.features.append(features)
        self.speaker_ids.append(voice)
        self.words += length
        self._note_length(voice, length)

    def remove(self, number: int) -> bool:
        """Remove a message without a trace; return whether it was there."""
        for at, segment in enumerate(self.segments):
            if number in segment.numbers:
                self.segments[at] = segment.without(number)
                if at + 1 < len(self.segments):
                    self.segments[at].seal()
                self._gather()
                return True
        return False

    def postings(self, term: str) -> list[tuple[int, Postings]]:
        """Return the first place of each segment that has the term, and the postings."""
        found = []
        for base, segment in zip(self.bases, self.segments, strict=True):
            if (known := segment.postings(term)) is not None:
                found.append((base, known))
        return found

    def newest(self, term: str, count: int) -> list[int]:
        """Return the last places of a term, newest first."""
        found: list[int] = []
        for base, segment in zip(reversed(self.bases), reversed(self.segments), strict=True):
            known = segment.postings(term)
            found += [base + place for place in reversed(known[0][-count:])] if known else ()
            if len(found) >= count:
                break
        return found[:count]

    def role(self, place: int) -> str:
        return self.names[self.speaker_ids[place]][0]

    def speaker(self, place: int) -> str:
        """Return the speaker's name, else the role."""
        role, name = self.names[self.speaker_ids[place]]
        return name or role

    @property
    def answers_at_length(self) -> bool:
        """Whether a model writes long answers here, as opposed to people chatting."""
        words, count = self._answered
        return count * 5 >= len(self.numbers) and words >= _LONG_PASSAGE * count > 0

    def average_length(self, end: int) -> float:
        """Return the average length of the passages before a place, rounded: what depends on it is kept longer."""
        words = self.words - sum(self.lengths[end:])
        return round(_ROUNDED * words / min(end, len(self.lengths))) / _ROUNDED if words else 0.0

    def group_of(self, place: int) -> int:
        return bisect_right(self.group_starts, place) - 1

    def unsaved(self) -> dict[int, bytes]:
        """Return the changed segments by ordinal, and mark them as saved."""
        changed = {}
        for at, segment in enumerate(self.segments):
            if segment.changed:
                changed[at] = segment.as_bytes()
                segment.changed = False
        return changed

    @classmethod
    def from_segments(cls, segments: Sequence[bytes]) -> "Index":
        """Load an index from its segments in order; raise `Damaged` if they are incomplete."""
        index = cls()
        index.segments = [WordSegment.from_bytes(data) for data in segments]
        before = -1
        for ordinal, segment in enumerate(index.segments):
            if (segment.ordinal, segment.before) != (ordinal, before):
                raise Damaged("the index segments are not consecutive")
            before = segment.highest
        index._gather()
        return index

    def _start_segment(self) -> None:
        if self.segments:
            self.segments[-1].seal()
        self.bases.append(len(self))
        self.segments.append(WordSegment(len(self.segments), self.highest))

    def _gather(self) -> None:
        """Rebuild what spans segments."""
        self._clear()
        for segment in self.segments:
            self.bases.append(len(self))
            place = len(self)
            for name in ("numbers", "parts", "times", "lengths", "features"):
                getattr(self, name).extend(getattr(segment, name))
            speaker_ids = [self._speaker_id(*name) for name in segment.names]
            self.speaker_ids.frombytes(
                segment.speaker_ids.tobytes().translate(bytes(speaker_ids + [0] * (256 - len(speaker_ids))))
            )
            for voice, (words, count) in zip(speaker_ids, segment.speaker_totals, strict=True):
                self._note_length(voice, words, count)
            for group, count in segment.runs:
                self._enter_group(group, place)
                place += count
        self.words = sum(self.lengths)

    def _speaker_id(self, role: str, name: str) -> int:
        if (role, name) not in self.names:
            if len(self.names) >= MAX_BYTE:
                role, name = "", ""
            if (role, name) not in self.names:
                self.names.append((role, name))
        return self.names.index((role, name))

    def _note_length(self, voice: int, words: int, count: int = 1) -> None:
        if self.names[voice][0] == "assistant":
            self._answered[0] += words
            self._answered[1] += count

    def _enter_group(self, group: str, place: int) -> None:
        if not self.groups or self.groups[-1] != group:
            self.groups.append(group)
            self.group_starts.append(place)
