"""Reading a reply: the text the user sees, and the state in it; whole or as it streams in."""

from collections.abc import Mapping, Sequence
from typing import Any

from ctxwrap.language.patterns import lazy_pattern
from ctxwrap.protocol.origin import COPIED, ShownTexts, foreign_fault, nonce_of
from ctxwrap.protocol.recovery import Recovery, recover
from ctxwrap.protocol.repair.strict import Effort
from ctxwrap.protocol.splitter import SnapshotPart, Splitter
from ctxwrap.types import ParsedReply

_MOST_READ = 8
_MOST_TEXT = 512 * 1024
"""How many snapshots are looked at for one that reads, from the last one back, and how much text in all."""
_TOO_MUCH = Recovery("rejected", violations=("there is too much to read",))
_COPIED = Recovery("rejected", violations=(COPIED,))
TEXT_FOLLOWS = "text follows the snapshot"
_SEVERAL = "more than one snapshot"
_USABLE = ("clean", "repaired", "partial")
_PREFIX = lazy_pattern(r"(?im)^[ \t]{0,8}(//|#{1,3}|\||--?|;|\*|%)[ \t][^\n]{0,40}context")


def read_reply(
    text: str,
    runtime: Mapping[str, Any] | None = None,
    previous: Mapping[str, Any] | None = None,
    request_texts: Sequence[str] | ShownTexts = (),
) -> ParsedReply:
    """What `text`, a model's whole reply, says to the user and what it says to us. Never raises."""
    stream = ReplyStream(runtime, previous, request_texts)
    stream.feed(text)
    return stream.reading


class ReplyStream:
    """The same reading over a stream: `feed` gives what may be shown now, `close` the rest.

    What `feed` and `close` gave, put together, is `read_reply(...).visible` for every way of cutting the text.
    """

    def __init__(
        self,
        runtime: Mapping[str, Any] | None = None,
        previous: Mapping[str, Any] | None = None,
        request_texts: Sequence[str] | ShownTexts = (),
    ) -> None:
        self._context = runtime, previous
        self._request = request_texts if isinstance(request_texts, ShownTexts) else ShownTexts(request_texts)
        self._splitter = Splitter(nonce_of(runtime), self._is_readable)
        self._effort = Effort()
        self._left = _MOST_TEXT
        self._climbed: tuple[str, Recovery] | None = None
        """The text that was read last, and how."""
        self._shown: list[str] = []
        self._reading: ParsedReply | None = None
        self.size = 0
        """How much was fed so far."""

    def feed(self, chunk: str) -> str:
        self.size += len(chunk)
        shown = self._splitter.feed(chunk)
        self._shown.append(shown)
        return shown

    def passes(self, chunk: str) -> bool:
        """Whether `feed(chunk)` is surely `chunk`; if so, it was fed."""
        if not self._splitter.passes(chunk):
            return False
        self.size += len(chunk)
        self._shown.append(chunk)
        return True

    def close(self) -> str:
        if self._reading is not None:
            return ""
        rest = self._splitter.close()
        self._shown.append(rest)
        self._reading = self._read()
        return rest

    @property
    def spans(self) -> Sequence[tuple[int, int]]:
        """From where to where what was fed has been shown so far."""
        return self._splitter.voice.spans

    @property
    def reading(self) -> ParsedReply:
        """The reading of the whole text; closes the stream."""
        self.close()
        assert self._reading is not None
        return self._reading

    def _is_readable(self, tail: str) -> bool:
        if self._left < len(tail):
            return False
        self._left -= len(tail)
        return self._climb(tail).status in _USABLE

    def _climb(self, tail: str) -> Recovery:
        if self._climbed is None or self._climbed[0] != tail:
            self._climbed = tail, recover(tail, *self._context, self._effort)
        return self._climbed[1]

    def _read(self) -> ParsedReply:
        visible, parts = "".join(self._shown), self._splitter.parts
        if not parts:
            return ParsedReply(visible)
        read = self._last_that_reads(parts)
        broken = [TEXT_FOLLOWS] if self._splitter.voice.follows_cut else []
        broken += [_SEVERAL] if len(parts) > 1 else []
        trailer = "\n\n".join(part.raw for part in parts)
        return ParsedReply(visible, read.snapshot, read.repairs, (*read.violations, *broken), read.status, trailer)

    def _last_that_reads(self, parts: list[SnapshotPart]) -> Recovery:
        """The reading of the snapshot that counts: the last one that reads, or, if none does, the last."""
        left, last = _MOST_TEXT, None
        for part in reversed(parts[-_MOST_READ:]):
            read = self._read_part(part) if left >= len(part.tail) or last is None else _TOO_MUCH
            left -= len(part.tail)
            last = last or read
            if read.status in _USABLE or read is _COPIED:
                return read
        assert last is not None
        return last

    def _read_part(self, part: SnapshotPart) -> Recovery:
        tail = _without_prefixes(part)
        if self._request.holds(tail):
            return _COPIED
        read = self._climb(tail)
        if read.status not in _USABLE:
            return read
        fault = foreign_fault(tail, read.runtime, self._context[0] or {}, self._request)
        if fault:
            return Recovery("rejected", violations=(fault,))
        if tail is part.tail:
            return read
        status = "repaired" if read.status == "clean" else read.status
        return read._replace(status=status, repairs=("line-prefix", *read.repairs))


def _without_prefixes(part: SnapshotPart) -> str:
    """What is to be read, without what stands at the beginning of all its lines."""
    prefix = _PREFIX.search(part.head)
    first, *lines = part.tail.rstrip().split("\n")
    if prefix is None or not lines or not all(line.lstrip().startswith(prefix[1]) for line in lines):
        return part.tail
    bare = [line.lstrip().removeprefix(prefix[1]) for line in lines]
    return "\n".join([first.lstrip().removeprefix(prefix[1]), *bare])
