"""Parting a reply into the text that is shown and the snapshots in it, as it comes."""

from collections.abc import Callable
from typing import NamedTuple

from ctxwrap.protocol.extent import Landmarks, ObjectEnd, is_blob, is_snapshot, is_strict, own_keys, strict_end
from ctxwrap.protocol.separator import (
    BlockEnd,
    Scan,
    SeparatorMatch,
    behind,
    block_end,
    continues,
    has_spot,
    is_cut_head,
    without_examples,
)
from ctxwrap.protocol.voice import SPACE, CondensedText

_MOST_LOOKS, _FREE_LOOKS, _LOOK = 2, 32 * 1024, 256
"""How often, on the average, each character is looked at for the extent of damaged snapshots; then all is text."""


class SnapshotPart(NamedTuple):
    """A snapshot in a reply: as it was written, its separator, and what is to be read."""

    raw: str
    head: str
    tail: str


class Splitter:
    """Takes a reply as it comes, and gives out its text as soon as nothing that may follow can make it a snapshot's.

    A snapshot of strict JSON ends where its JSON does, and text goes on at once. With one that is not, all that
    follows waits for the end of the reply. One without a separator, or in a code block, is a snapshot if it ends the
    reply or holds `nonce`, which shows that it was written for this turn.
    """

    def __init__(self, nonce: str = "", reads: Callable[[str], bool] = lambda tail: True) -> None:
        self.parts: list[SnapshotPart] = []
        self.cuts: list[tuple[int, int]] = []
        """Where they stood in the reply."""
        self.voice = CondensedText()
        self._nonce = nonce
        self._reads = reads
        self._text = "\n"
        """What is not decided yet, and the character before it."""
        self._at = 1
        self._held: list[str] = []
        """What stands between the place and `_at`, if that was dropped from the text."""
        self._before = "\n"
        self._more = True
        self._scan = Scan(1)
        self._step: Callable[[], bool] = self._in_text
        self._place = SeparatorMatch(0, 0)
        """Relative to where it starts."""
        self._object = ObjectEnd()
        self._strict = -1
        """Where its strict JSON ends, if that is known."""
        self._landmarks: Landmarks | None = None
        self._looked = 0
        self._is_cut_short = False
        """The last snapshot reaches up to the end of the reply, and is not complete there."""
        self._block: BlockEnd | int | None = None
        self._block_is_known = False

    def feed(self, chunk: str) -> str:
        if self._step == self._in_tail:
            self._held.append(chunk)
            return ""
        self._text += chunk
        while self._step():
            pass
        drop = min(self._at, self._scan.at if self._step == self._in_text else self._at) - 1
        self._text = self._text[drop:]
        self._at -= drop
        self._scan.at -= drop
        return self.voice.take()

    def passes(self, chunk: str) -> bool:
        """Whether `feed(chunk)` is surely `chunk`, since nothing is held back and nothing begins; if so, it was fed."""
        text = self._text
        if self._step != self._in_text or not self._at == self._scan.at == len(text) or text[-1] == "\n":
            return False
        if ("\n" in chunk or "<" in chunk) and has_spot(text + chunk, len(text)):
            return False
        if not self.voice.passes(chunk):
            return False
        self._text, self._at, self._scan.at = chunk[-1], 1, 1
        return True

    def close(self) -> str:
        self._more = False
        if self._step != self._in_text:
            self._text = self._before + "".join(self._held) + self._text[self._at :]
            self._held.clear()
            self._at = 1
            self._step = self._in_block if self._place.fence else self._at_place
        while self._step():
            pass
        self._more = True  # some senders say too early that nothing follows
        if self._is_cut_short:
            self._step = self._in_tail
        return self.voice.end()

    # Steps: each goes as far as it can, and says whether another one is to go on.

    def _in_text(self) -> bool:
        until = self._scan.run(self._text, more=self._more)
        if not self._more and self._scan.place is None and self._ends_with_separator(until):
            return False
        if until > self._at:
            self.voice.say(self._text[self._at : until])
            self._at = until
        if self._scan.place is None:
            return False
        self._place = self._scan.place.moved(-until)
        self._before = self._text[until - 1]
        self._object, self._strict = ObjectEnd(), -1
        if self._place.fence:
            self._step = self._in_block
        elif self._more:
            self._step = self._in_object if self._place.object_at >= 0 else self._into_tail
            self._hold(until + max(self._place.object_at, 0))
        else:
            self._step = self._at_place
        return True

    def _in_object(self) -> bool:
        """In what should be the JSON of a snapshot."""
        end = self._object.feed(self._text, self._at)
        if self._object.failed:
            self._step = self._into_tail
            return True
        self._hold(len(self._text) if end < 0 else end)
        if end < 0:
            return False
        raw = "".join(self._held)
        self._held = [raw]
        if not is_strict(raw[self._place.object_at :]):
            self._step = self._into_tail
            return True
        self._strict = len(raw)
        if is_snapshot(raw, self._place.end, len(raw), self._place):
            self._step = self._behind_object
        else:
            self._step = self._behind_mention
        return True

    def _behind_mention(self) -> bool:
        """Behind an object that is no snapshot: with more text behind it, it is text."""
        if not self._text[self._at :].strip(SPACE):
            return False
        goes_on = continues(self._text, self._at, more=True)
        if goes_on is None:
            return False
        if goes_on:
            self._step = self._into_tail
            return True
        self.voice.say("".join(self._held))
        self._go_on(self._at)
        return True

    def _behind_object(self) -> bool:
        """Behind the JSON of a snapshot: what closes it, and, without a separator, whether anything follows."""
        goes_on = continues(self._text, self._at, more=True)
        if goes_on:
            self._step = self._into_tail
            return True
        end, is_sure = behind(self._text, self._at, self._place, more=True)
        if goes_on is None or not is_sure:
            return False
        if self._place.bare and not self._text[end:].strip(SPACE):
            return False
        raw = "".join(self._held)
        if self._place.bare and not self._is_of_now(raw):
            self.voice.say(raw)
            end = self._at
        else:
            self._take(raw + self._text[self._at : end], self._place)
        self._go_on(end)
        return True

    def _in_block(self) -> bool:
        """In a code block with a place in it: it is an example if text goes on behind the block."""
        if self._more or not self._block_is_known:
            begins = self._at + (self._place.end if not self._held else 0)
            self._block = block_end(self._text, begins, self._place.fence, more=self._more)
            self._block_is_known = not self._more
        found = self._block
        if not isinstance(found, BlockEnd):
            if self._more:
                self._hold(len(self._text) if found is None else found)
                return False
            self._step = self._at_place
            return True
        if not found.goes_on:
            self._step = self._at_place
            return True
        raw = "".join(self._held) + self._text[self._at : found.start]
        self._block_is_known = False
        if self._is_of_now(raw):
            self._unblock(raw, found)
        else:
            self.voice.say(raw + self._text[found.start : found.end])
        self._go_on(found.end)
        return True

    def _unblock(self, raw: str, line: BlockEnd) -> None:
        """Take this turn's snapshot out of a code block, and the block with it if that holds nothing else."""
        inner = Splitter(self._nonce, self._reads)
        opening = raw.index("\n") + 1 if self._place.covers_fence else 0
        rest = inner.feed(raw[opening:]) + inner.close()
        fence = self._text[line.start : line.end]
        if self._place.covers_fence and not rest.strip():
            self._take(raw + fence, self._place, inner.parts)
            return
        self.voice.say(raw[:opening])
        at = opening
        for start, end in inner.cuts:
            self.voice.say(raw[at : opening + start])
            self._cut(end - start)
            at = opening + end
        self.voice.say(raw[at:] + fence)
        self.parts += inner.parts

    def _into_tail(self) -> bool:
        self._hold(len(self._text))
        self._step = self._in_tail
        return False

    def _in_tail(self) -> bool:
        """In what can be judged at the end only."""
        return False

    def _at_place(self) -> bool:
        """At a place, with all the text at hand."""
        place = self._place.moved(self._at)
        if self._looked > _MOST_LOOKS * len(self._text) + _FREE_LOOKS:
            self.voice.say(self._text[self._at :])
            self._go_on(len(self._text))
            return True
        end, is_closed = self._strict_end_of(place), True
        if end < 0:
            self._looked += _LOOK
            landmarks = self._landmarks = self._landmarks or Landmarks(self._text, self._at)
            if not (place.exact or landmarks.has_keys(place.end)):
                return self._pass_by(place)
            if place.alone:
                return self._takes_all(place, landmarks) or self._pass_by(place)
            end, is_closed = self._plausible_end_of(place, landmarks)
        self._looked += end - place.start
        stop, _ = behind(self._text, end, place, more=False) if is_closed else (end, True)
        if not self._is_meant(place, end, stop, is_closed):
            return (place.exact and self._takes_all(place, self._landmarks)) or self._pass_by(place)
        self._take(self._text[self._at : stop], self._place)
        self._is_cut_short = not is_closed and stop == len(self._text)
        self._go_on(stop)
        return True

    def _strict_end_of(self, place: SeparatorMatch) -> int:
        end = self._strict + self._at if self._strict >= 0 else -1
        if end < 0 and place.object_at >= 0:
            end = strict_end(self._text, place.object_at)
        return -1 if end >= 0 and continues(self._text, end, more=False) else end

    def _plausible_end_of(self, place: SeparatorMatch, landmarks: Landmarks) -> tuple[int, bool]:
        end, is_closed = landmarks.end_of(place)
        self._looked += max(landmarks.looked_to - end, 0)
        if is_closed and self._text[end : end + 1] == '"' == self._text[place.object_at - 1]:
            end += 1
        return end, is_closed

    def _takes_all(self, place: SeparatorMatch, landmarks: Landmarks | None) -> bool:
        """Take out all that follows a separator as it is asked for, if that is a state in whatever form."""
        end = (landmarks or Landmarks(self._text, self._at)).next_place(place)
        self._looked += end - place.start
        tail = without_examples(self._text[place.end : end])
        if not (self._reads(tail) or own_keys(tail) > 1 or is_blob(tail)):
            return False
        self._take(self._text[self._at : end], self._place)
        self._go_on(end)
        return True

    def _is_meant(self, place: SeparatorMatch, end: int, stop: int, is_closed: bool) -> bool:
        """Whether this is a snapshot, readable or not."""
        ends_reply = not self._text[stop:].strip(SPACE)
        if place.bare:
            is_all = ends_reply and self._reads(self._text[place.end : stop])
            return is_all or self._is_of_now(self._text[place.end : end])
        return is_snapshot(self._text, place.end, end, place) or (place.exact and (ends_reply or not is_closed))

    def _pass_by(self, place: SeparatorMatch) -> bool:
        """A place that is text, up to where its JSON would be read."""
        until = max(place.end, place.start + 1, place.object_at + 1)
        fence = self._place.fence
        self.voice.say(self._text[self._at : until])
        known = self._block_is_known
        self._go_on(until)
        self._scan.fence, self._block_is_known = fence, known
        return True

    # What the steps share.

    def _hold(self, until: int) -> None:
        """Leave what stands before `until` undecided, but look no more at it."""
        self._held.append(self._text[self._at : until])
        self._at = until

    def _go_on(self, at: int) -> None:
        """Go on with the text at `at`."""
        self._held.clear()
        self._at = at
        self._scan = Scan(at)
        self._block_is_known = False
        self._step = self._in_text

    def _take(self, raw: str, place: SeparatorMatch, parts: list[SnapshotPart] | None = None) -> None:
        """Take out a snapshot."""
        self.parts += parts or [SnapshotPart(raw.strip(SPACE), raw[: place.end], raw[place.end :])]
        self._cut(len(raw))

    def _cut(self, length: int) -> None:
        at = self.voice.at
        self.cuts.append((at, at + length))
        self.voice.cut(length)

    def _is_of_now(self, text: str) -> bool:
        return bool(self._nonce) and self._nonce in text

    def _ends_with_separator(self, until: int) -> bool:
        """Whether the reply ends with a separator and nothing behind it, which is taken out then."""
        text = self._text.rstrip(SPACE)
        start = max(text.rfind("\n", 0, text.rfind("<<<") + 1) + 1, self._at)
        if text.rfind("<<<") < 0 or not is_cut_head(self._text, start):
            return False
        self.voice.say(self._text[self._at : start])
        self._take(self._text[start:], SeparatorMatch(0, len(self._text) - start))
        self._at = len(self._text)
        return True
