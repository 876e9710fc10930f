"""A reply: the text that the user sees and the snapshot in it, read whole or as a stream."""

from collections.abc import Mapping, Sequence
from typing import Any

from ctxwrap.language.patterns import lazy_pattern
from ctxwrap.protocol.grammar import SEPARATOR
from ctxwrap.protocol.origin import COPIED, ShownTexts, foreign_fault, nonce_of
from ctxwrap.protocol.recovery import Recovery, recover, recover_plain
from ctxwrap.protocol.repair.strict import Effort
from ctxwrap.protocol.splitter import SnapshotPart, Splitter, split_plain
from ctxwrap.types import ParsedReply

_MAX_SNAPSHOTS = 8
_MAX_TEXT = 512 * 1024
"""Maximum snapshots tried, from the last one back, and maximum characters in all."""
_TOO_MUCH = Recovery("rejected", violations=("there is too much to read",))
_COPIED = Recovery("rejected", violations=(COPIED,))
TEXT_FOLLOWS = "text follows the snapshot"
_SEVERAL = "more than one snapshot"
_USABLE = ("clean", "repaired", "partial")
_PLAIN_HEAD = f"{SEPARATOR}\n"
_PREFIX = lazy_pattern(r"(?im)^[ \t]{0,8}(//|#{1,3}|\||--?|;|\*|%)[ \t][^\n]{0,40}context")


def read_reply(
    text: str,
    runtime: Mapping[str, Any] | None = None,
    previous: Mapping[str, Any] | None = None,
    request_texts: Sequence[str] | ShownTexts = (),
) -> ParsedReply:
    """Read a complete reply. Never raises."""
    stream = ReplyStream(runtime, previous, request_texts)
    stream.whole(text)
    return stream.reading


class _SnapshotReader:
    """Reads texts that may be snapshots, up to a limit; the last one is not read twice.

    Stream and splitter share it, so that neither needs the other: a cycle would wait for the garbage collector.
    """

    def __init__(self, runtime: Mapping[str, Any] | None, previous: Mapping[str, Any] | None) -> None:
        self._context = runtime, previous
        self._effort = Effort()
        self._left = _MAX_TEXT
        self._last: tuple[str, Recovery] | None = None
        """The last text read, and the result."""

    def is_readable(self, tail: str) -> bool:
        if self._left < len(tail):
            return False
        self._left -= len(tail)
        return self.read(tail).status in _USABLE

    def read(self, tail: str, value: dict[str, Any] | None = None) -> Recovery:
        if self._last is None or self._last[0] != tail:
            self._last = tail, recover(tail, *self._context, self._effort, value)
        return self._last[1]


class ReplyStream:
    """Reads a streaming reply: `feed` returns what may be shown now, `close` the rest.

    The returned texts concatenate to `read_reply(...).visible`, however the reply is cut into chunks.
    """

    def __init__(
        self,
        runtime: Mapping[str, Any] | None = None,
        previous: Mapping[str, Any] | None = None,
        request_texts: Sequence[str] | ShownTexts = (),
    ) -> None:
        self._runtime, self._previous = runtime, previous
        self._request = request_texts if isinstance(request_texts, ShownTexts) else ShownTexts(request_texts)
        self._splitter: Splitter | None = None
        """Made for the first text that needs one."""
        self._snapshots: _SnapshotReader | None = None
        """Made with it."""
        self._lone = ""
        """The reply, if it was read without one."""
        self._shown: list[str] = []
        self._reading: ParsedReply | None = None
        self.size = 0
        """The number of characters fed."""

    def feed(self, chunk: str) -> str:
        splitter = self._splitter or self._new_splitter()
        self.size += len(chunk)
        shown = splitter.feed(chunk)
        self._shown.append(shown)
        return shown

    def whole(self, text: str) -> str:
        """Feed a complete reply and close."""
        runtime = self._runtime
        found = split_plain(text) if runtime and not self.size and self._reading is None else None
        if not runtime or found is None:
            return self.feed(text) + self.close()
        visible, tail = found
        read = recover_plain(tail, runtime, self._previous)
        if read is None:
            return self.feed(text) + self.close()
        if self._request.holds(tail, read.snapshot):
            read = _COPIED
        elif fault := foreign_fault(tail, read.runtime, runtime, self._request):
            read = Recovery("rejected", violations=(fault,))
        self._lone, self.size = text, len(text)
        self._shown.append(visible)
        self._reading = ParsedReply(visible, read.snapshot, (), read.violations, read.status, _PLAIN_HEAD + tail)
        return visible

    def passes(self, chunk: str) -> bool:
        """Feed `chunk` if it can be shown unchanged; return whether that was possible."""
        if self._splitter is None or not self._splitter.passes(chunk):
            return False
        self.size += len(chunk)
        self._shown.append(chunk)
        return True

    def hides(self, chunk: str) -> bool:
        """Feed `chunk` if it is certain to be part of a snapshot; return whether that was possible."""
        if self._splitter is None or not self._splitter.hides(chunk):
            return False
        self.size += len(chunk)
        return True

    def close(self) -> str:
        if self._reading is not None:
            return ""
        splitter = self._splitter or self._new_splitter()
        rest = splitter.close()
        self._shown.append(rest)
        self._reading = self._read(splitter.parts, splitter.visible_text.follows_cut)
        return rest

    @property
    def spans(self) -> Sequence[tuple[int, int]]:
        """The parts of the fed text that were shown."""
        return self._splitter.visible_text.spans if self._splitter else [(0, len(text)) for text in self._shown if text]

    @property
    def reading(self) -> ParsedReply:
        """The result for the whole text; closes the stream."""
        if self._reading is None:
            self.close()
        assert self._reading is not None
        return self._reading

    def _new_splitter(self) -> Splitter:
        """A splitter that has read what was fed before."""
        snapshots = self._snapshots = _SnapshotReader(self._runtime, self._previous)
        splitter = self._splitter = Splitter(nonce_of(self._runtime), snapshots.is_readable)
        if self._lone:
            splitter.feed(self._lone)
            splitter.close()
        return splitter

    def _read(self, parts: list[SnapshotPart], text_follows: bool) -> ParsedReply:
        visible = "".join(self._shown)
        if not parts:
            return ParsedReply(visible)
        read = self._last_readable(parts)
        broken = [TEXT_FOLLOWS] if text_follows else []
        broken += [_SEVERAL] if len(parts) > 1 else []
        trailer = "\n\n".join(part.raw for part in parts)
        return ParsedReply(visible, read.snapshot, read.repairs, (*read.violations, *broken), read.status, trailer)

    def _last_readable(self, parts: list[SnapshotPart]) -> Recovery:
        """Return the result that counts: of the last readable snapshot, else of the last one."""
        left, last = _MAX_TEXT, None
        for part in reversed(parts[-_MAX_SNAPSHOTS:]):
            read = self._read_part(part) if left >= len(part.tail) or last is None else _TOO_MUCH
            left -= len(part.tail)
            last = last or read
            if read.status in _USABLE or read is _COPIED:
                return read
        assert last is not None
        return last

    def _read_part(self, part: SnapshotPart) -> Recovery:
        assert self._snapshots is not None, "parts come from a splitter"
        tail = part.tail if part.head == _PLAIN_HEAD else _without_prefixes(part)
        value = part.value if tail is part.tail else None
        if self._request.holds(tail, value):
            return _COPIED
        read = self._snapshots.read(tail, value)
        if read.status not in _USABLE:
            return read
        fault = foreign_fault(tail, read.runtime, self._runtime or {}, self._request)
        if fault:
            return Recovery("rejected", violations=(fault,))
        if tail is part.tail:
            return read
        status = "repaired" if read.status == "clean" else read.status
        return read._replace(status=status, repairs=("line-prefix", *read.repairs))


def _without_prefixes(part: SnapshotPart) -> str:
    """Remove a prefix that all lines share."""
    prefix = _PREFIX.search(part.head)
    if prefix is None:
        return part.tail
    first, *lines = part.tail.rstrip().split("\n")
    if not lines or not all(line.lstrip().startswith(prefix[1]) for line in lines):
        return part.tail
    bare = [line.lstrip().removeprefix(prefix[1]) for line in lines]
    return "\n".join([first.lstrip().removeprefix(prefix[1]), *bare])
