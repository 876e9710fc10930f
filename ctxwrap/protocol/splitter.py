"""Splits a reply into visible text and snapshots while it streams."""

from collections.abc import Callable
from typing import Any, NamedTuple

from ctxwrap.protocol.extent import (
    Landmarks,
    ObjectEnd,
    is_blob,
    is_snapshot,
    own_keys,
    strict_end,
    strict_object,
    whole_object,
)
from ctxwrap.protocol.grammar import SEPARATOR
from ctxwrap.protocol.origin import SPACE, CondensedText
from ctxwrap.protocol.separator import (
    BlockEnd,
    SeparatorMatch,
    SeparatorScan,
    block_end,
    closing_end,
    has_candidate,
    is_bare_separator,
    json_continues,
    strip_examples,
)

_MAX_READS, _FREE_CHARACTERS, _MIN_COST = 2, 32 * 1024, 256
"""Average number of times that a character may be read to find the end of damaged snapshots; then all is text."""


_NO_MATCH = SeparatorMatch(0, 0)


class SnapshotPart(NamedTuple):
    """A snapshot in a reply: its raw text, the separator, and the text to read."""

    raw: str
    head: str
    tail: str
    value: dict[str, Any] | None = None
    """The object that the text to read is, if it is strict JSON and was read already."""


_LONE_HEAD = f"\n{SEPARATOR}\n"


def split_plain(text: str) -> tuple[str, str] | None:
    """Split a complete reply with one plain separator into its visible text and what follows the separator.

    If the latter is strict JSON, a splitter splits the reply in the same way. All other replies, for which this returns
    None, need a splitter.
    """
    before, head, tail = text.partition(_LONE_HEAD)
    if not head or "context" in before.lower() or "{" in before or "```" in before or "~~~" in before:
        return None  # the text may have another separator, a snapshot without one, or a code block
    last = before.rstrip()[-1:]
    if not last or last in "-*_=" or not last.isprintable():
        return None  # nothing precedes the separator, or a rule, which belongs to it
    is_object = tail.startswith("{") and tail.endswith("}") and '"memory":' in tail
    return (before.rstrip(SPACE), tail) if is_object else None


class Splitter:
    """Releases visible text as soon as nothing that follows can turn it into part of a snapshot.

    A strict JSON snapshot ends where its JSON does, and text continues at once. After a damaged one, everything waits
    for the end of the reply. A snapshot without a separator, or in a code block, counts if it ends the reply or
    contains `nonce`, which proves that it was written for this turn.
    """

    def __init__(self, nonce: str = "", reads: Callable[[str], bool] = lambda tail: True) -> None:
        self.parts: list[SnapshotPart] = []
        self.cuts: list[tuple[int, int]] = []
        """Positions of the snapshots in the reply."""
        self.visible_text = CondensedText()
        self._nonce = nonce
        self._reads = reads
        self._text = "\n"
        """Undecided text, and the character before it."""
        self._at = 1
        self._held: list[str] = []
        """Text between the match and `_at` that was removed from `_text`."""
        self._before = "\n"
        self._more = True
        self._scan = SeparatorScan(1)
        self._step: Callable[[Splitter], bool] = Splitter._in_text
        """A plain function: a bound method would be a reference cycle."""
        self._match = _NO_MATCH
        """Relative to its start."""
        self._object: ObjectEnd
        """Of the match, if there is one."""
        self._unread: list[str] = []
        """Held text that `_object` has not read yet, since it cannot end there."""
        self._closers = 0
        """The brackets in it that may close others."""
        self._strict = -1
        """The end of its strict JSON, if known."""
        self._value: dict[str, Any] | None = None
        """Its strict JSON, if known."""
        self._landmarks: Landmarks | None = None
        self._cost = 0
        self._is_cut_short = False
        """The last snapshot is incomplete and reaches the end of the reply."""
        self._block: BlockEnd | int | None = None
        self._block_is_known = False

    def feed(self, chunk: str) -> str:
        if self._unread:
            self._catch_up()
        if self._step is Splitter._in_tail:
            self._held.append(chunk)
            return ""
        self._text += chunk
        while self._step(self):
            pass
        drop = min(self._at, self._scan.at if self._step is Splitter._in_text else self._at) - 1
        self._text = self._text[drop:]
        self._at -= drop
        self._scan.at -= drop
        return self.visible_text.take()

    def passes(self, chunk: str) -> bool:
        """Feed `chunk` if nothing is held back and nothing begins in it; return whether that was possible."""
        text = self._text
        if self._step is not Splitter._in_text or not self._at == self._scan.at == len(text) or text[-1] == "\n":
            return False
        if ("\n" in chunk or "<" in chunk) and has_candidate(text + chunk, len(text)):
            return False
        if not self.visible_text.passes(chunk):
            return False
        self._text, self._at, self._scan.at = chunk[-1], 1, 1
        return True

    def hides(self, chunk: str) -> bool:
        """Feed `chunk` if a snapshot has begun and cannot end in it; return whether that was possible."""
        if self._step is Splitter._in_tail:
            self._held.append(chunk)
            return True
        if self._step is not Splitter._in_object or self._at != len(self._text):
            return False
        closers = chunk.count("}") + chunk.count("]")
        if (closers or not self._unread) and self._closers + closers >= self._object.depth:
            self._catch_up()
            if self._step is Splitter._in_tail:
                return self.hides(chunk)
            if closers >= self._object.depth:
                return False
        self._unread.append(chunk)
        self._closers += closers
        self._held.append(chunk)
        self._text, self._at = chunk[-1:] or self._text[-1:], 1
        return True

    def _catch_up(self) -> None:
        """Read the held text that was not read yet; most of it is read in few, longer pieces."""
        self._object.feed("".join(self._unread), 0)
        self._unread.clear()
        self._closers = 0
        if self._object.failed:
            self._step = Splitter._in_tail

    def close(self) -> str:
        self._more = False
        if self._step is Splitter._after_object and self._at == len(self._text) and not self._match.bare:
            self._take("".join(self._held), self._match)  # nothing follows the snapshot
            self._resume(self._at)
        elif self._step is not Splitter._in_text:
            self._text = self._before + "".join(self._held) + self._text[self._at :]
            self._held.clear()
            self._at = 1
            self._step = Splitter._in_block if self._match.fence else Splitter._at_match
        while self._step(self):
            pass
        self._more = True  # some senders signal the end too early
        if self._is_cut_short:
            self._step = Splitter._in_tail
        return self.visible_text.end()

    # Steps: each advances as far as possible and returns whether another step should follow.

    def _in_text(self) -> bool:
        until = self._scan.run(self._text, more=self._more)
        if not self._more and self._scan.match is None and self._ends_with_separator(until):
            return False
        if until > self._at:
            self.visible_text.say(self._text[self._at : until])
            self._at = until
        if self._scan.match is None:
            return False
        self._match = self._scan.match.moved(-until)
        self._before = self._text[until - 1]
        self._object, self._strict = ObjectEnd(), -1
        if self._match.fence:
            self._step = Splitter._in_block
        elif self._more:
            self._step = Splitter._in_object if self._match.object_at >= 0 else Splitter._into_tail
            self._hold(until + max(self._match.object_at, 0))
        else:
            self._step = Splitter._at_match
        return True

    def _in_object(self) -> bool:
        """Inside what should be the JSON of a snapshot."""
        # The decoder finds the end much faster, if all of the object is there. Tried once per object, it stays linear.
        found = whole_object(self._text, self._at) if not self._object.depth else None
        end = found[1] if found else self._object.feed(self._text, self._at)
        if self._object.failed:
            self._step = Splitter._into_tail
            return True
        self._hold(len(self._text) if end < 0 else end)
        if end < 0:
            return False
        raw = "".join(self._held)
        self._held = [raw]
        self._value = found[0] if found else strict_object(raw[self._match.object_at :])
        if self._value is None:
            self._step = Splitter._into_tail
            return True
        self._strict = len(raw)
        if is_snapshot(raw, self._match.end, len(raw), self._match):
            self._step = Splitter._after_object
        else:
            self._step = Splitter._after_mention
        return True

    def _after_mention(self) -> bool:
        """After an object that is not a snapshot: if more text follows, it is text."""
        if not self._text[self._at :].strip(SPACE):
            return False
        continues = json_continues(self._text, self._at, more=True)
        if continues is None:
            return False
        if continues:
            self._step = Splitter._into_tail
            return True
        self.visible_text.say("".join(self._held))
        self._resume(self._at)
        return True

    def _after_object(self) -> bool:
        """After the JSON of a snapshot: its closing marks and, without a separator, whether anything follows."""
        continues = json_continues(self._text, self._at, more=True)
        if continues:
            self._step = Splitter._into_tail
            return True
        end, is_sure = closing_end(self._text, self._at, self._match, more=True)
        if continues is None or not is_sure:
            return False
        if self._match.bare and not self._text[end:].strip(SPACE):
            return False
        raw = "".join(self._held)
        if self._match.bare and not self._is_current(raw):
            self.visible_text.say(raw)
            end = self._at
        else:
            self._take(raw + self._text[self._at : end], self._match)
        self._resume(end)
        return True

    def _in_block(self) -> bool:
        """Inside a code block with a match: it is an example if text follows the block."""
        if self._more or not self._block_is_known:
            begins = self._at + (self._match.end if not self._held else 0)
            self._block = block_end(self._text, begins, self._match.fence, more=self._more)
            self._block_is_known = not self._more
        found = self._block
        if not isinstance(found, BlockEnd):
            if self._more:
                self._hold(len(self._text) if found is None else found)
                return False
            self._step = Splitter._at_match
            return True
        if not found.text_follows:
            self._step = Splitter._at_match
            return True
        raw = "".join(self._held) + self._text[self._at : found.start]
        self._block_is_known = False
        if self._is_current(raw):
            self._take_from_block(raw, found)
        else:
            self.visible_text.say(raw + self._text[found.start : found.end])
        self._resume(found.end)
        return True

    def _take_from_block(self, raw: str, line: BlockEnd) -> None:
        """Remove this turn's snapshot from a code block, and the block if nothing else is in it."""
        inner = Splitter(self._nonce, self._reads)
        opening = raw.index("\n") + 1 if self._match.covers_fence else 0
        rest = inner.feed(raw[opening:]) + inner.close()
        fence = self._text[line.start : line.end]
        if self._match.covers_fence and not rest.strip():
            self._take(raw + fence, self._match, inner.parts)
            return
        self.visible_text.say(raw[:opening])
        at = opening
        for start, end in inner.cuts:
            self.visible_text.say(raw[at : opening + start])
            self._cut(end - start)
            at = opening + end
        self.visible_text.say(raw[at:] + fence)
        self.parts += inner.parts

    def _into_tail(self) -> bool:
        self._hold(len(self._text))
        self._step = Splitter._in_tail
        return False

    def _in_tail(self) -> bool:
        """Inside text that can only be judged at the end."""
        return False

    def _at_match(self) -> bool:
        """At a match, with the complete text."""
        match = self._match.moved(self._at)
        if self._cost > _MAX_READS * len(self._text) + _FREE_CHARACTERS:
            self.visible_text.say(self._text[self._at :])
            self._resume(len(self._text))
            return True
        end, is_closed = self._strict_end_of(match), True
        if end < 0:
            self._cost += _MIN_COST
            landmarks = self._landmarks = self._landmarks or Landmarks(self._text, self._at)
            if not (match.exact or landmarks.has_keys(match.end)):
                return self._treat_as_text(match)
            if match.alone:
                return self._take_rest(match, landmarks) or self._treat_as_text(match)
            end, is_closed = self._plausible_end_of(match, landmarks)
        self._cost += end - match.start
        stop, _ = closing_end(self._text, end, match, more=False) if is_closed else (end, True)
        if not self._is_intended(match, end, stop, is_closed):
            return (match.exact and self._take_rest(match, self._landmarks)) or self._treat_as_text(match)
        self._take(self._text[self._at : stop], self._match)
        self._is_cut_short = not is_closed and stop == len(self._text)
        self._resume(stop)
        return True

    def _strict_end_of(self, match: SeparatorMatch) -> int:
        end = self._strict + self._at if self._strict >= 0 else -1
        if end < 0 and match.object_at >= 0:
            end = strict_end(self._text, match.object_at)
        return -1 if end >= 0 and json_continues(self._text, end, more=False) else end

    def _plausible_end_of(self, match: SeparatorMatch, landmarks: Landmarks) -> tuple[int, bool]:
        end, is_closed = landmarks.end_of(match)
        self._cost += max(landmarks.looked_to - end, 0)
        if is_closed and self._text[end : end + 1] == '"' == self._text[match.object_at - 1]:
            end += 1
        return end, is_closed

    def _take_rest(self, match: SeparatorMatch, landmarks: Landmarks | None) -> bool:
        """Remove everything after an exact separator if it is a state in any form."""
        end = (landmarks or Landmarks(self._text, self._at)).next_separator(match)
        self._cost += end - match.start
        tail = strip_examples(self._text[match.end : end])
        if not (self._reads(tail) or own_keys(tail) > 1 or is_blob(tail)):
            return False
        self._take(self._text[self._at : end], self._match)
        self._resume(end)
        return True

    def _is_intended(self, match: SeparatorMatch, end: int, stop: int, is_closed: bool) -> bool:
        """Whether this is intended as a snapshot, readable or not."""
        ends_reply = not self._text[stop:].strip(SPACE)
        if match.bare:
            is_all = ends_reply and self._reads(self._text[match.end : stop])
            return is_all or self._is_current(self._text[match.end : end])
        return is_snapshot(self._text, match.end, end, match) or (match.exact and (ends_reply or not is_closed))

    def _treat_as_text(self, match: SeparatorMatch) -> bool:
        """Treat a match as text, up to where its JSON would begin."""
        until = max(match.end, match.start + 1, match.object_at + 1)
        fence = self._match.fence
        self.visible_text.say(self._text[self._at : until])
        known = self._block_is_known
        self._resume(until)
        self._scan.fence, self._block_is_known = fence, known
        return True

    # Shared by the steps.

    def _hold(self, until: int) -> None:
        """Leave the text before `until` undecided without reading it again."""
        self._held.append(self._text[self._at : until])
        self._at = until

    def _resume(self, at: int) -> None:
        """Continue with the text at `at`."""
        self._held.clear()
        self._unread.clear()
        self._closers = 0
        self._value = None
        self._at = at
        self._scan = SeparatorScan(at)
        self._block_is_known = False
        self._step = Splitter._in_text

    def _take(self, raw: str, match: SeparatorMatch, parts: list[SnapshotPart] | None = None) -> None:
        tail, size = raw[match.end :], self._strict - match.object_at
        value = self._value if self._value is not None and len(tail.strip()) == size else None
        self.parts += parts or [SnapshotPart(raw.strip(SPACE), raw[: match.end], tail, value)]
        self._cut(len(raw))

    def _cut(self, length: int) -> None:
        at = self.visible_text.at
        self.cuts.append((at, at + length))
        self.visible_text.cut(length)

    def _is_current(self, text: str) -> bool:
        return bool(self._nonce) and self._nonce in text

    def _ends_with_separator(self, until: int) -> bool:
        """Whether the reply ends with a bare separator; if so, remove it."""
        sign = self._text.rfind("<<<")
        if sign < 0:
            return False
        start = max(self._text.rfind("\n", 0, sign + 1) + 1, self._at)
        if not is_bare_separator(self._text, start):
            return False
        self.visible_text.say(self._text[self._at : start])
        self._take(self._text[start:], SeparatorMatch(0, len(self._text) - start))
        self._at = len(self._text)
        return True
