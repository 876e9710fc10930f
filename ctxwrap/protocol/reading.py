"""Reading a reply: the text the user sees, and the state behind it; whole or as it streams in."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ctxwrap.protocol.repair import Unreadable, read_object
from ctxwrap.protocol.separator import SPACE, find_trailer, last_trailer, safe_length
from ctxwrap.protocol.snapshot import normalise
from ctxwrap.protocol.text import SEPARATOR
from ctxwrap.types import Reading, Status

MAX_TRAILER = 256 * 1024
_COPIED = "the trailer is a copy of text in the request"


def read_reply(
    text: str,
    runtime: Mapping[str, Any] | None = None,
    previous: Mapping[str, Any] | None = None,
    request_texts: Sequence[str] = (),
) -> Reading:
    """What `text`, a model's whole reply, says to the user and what it says to us. Never raises."""
    at = last_trailer(text)
    if at < 0 or _is_example(text, at):
        return Reading(visible=text)
    visible, trailer = text[:at].rstrip(SPACE), text[at:]
    body = trailer.removeprefix(SEPARATOR).strip()
    if body and any(body in given for given in request_texts):
        return Reading(visible, violations=(_COPIED,), status="rejected", trailer=trailer)
    if len(trailer) > MAX_TRAILER:
        return Reading(visible, violations=("the trailer is too large",), status="rejected", trailer=trailer)
    try:
        data, repairs = read_object(trailer.removeprefix(SEPARATOR))
    except Unreadable as error:
        return Reading(visible, violations=(f"unreadable: {error}",), status="rejected", trailer=trailer)
    given = data.get("runtime")
    read = normalise(data, dict(runtime or (given if isinstance(given, dict) else {})), previous or {})
    if read is None:
        return Reading(visible, violations=("the trailer has no memory object",), status="rejected", trailer=trailer)
    status: Status = "partial" if not read.whole else "repaired" if repairs else "clean"
    return Reading(visible, read.snapshot, repairs, read.violations, status, trailer)


def _is_example(text: str, at: int) -> bool:
    """Whether the separator stands in a code block behind which the answer goes on."""
    fences = re.findall(r"(?m)^[ \t]*(```|~~~)", text[:at])
    if len(fences) % 2 == 0:
        return False
    closing = re.search(rf"(?m)^[ \t]*{fences[-1]}[ \t]*$", text[at:])
    return closing is not None and bool(text[at + closing.end() :].strip())


class ReplyStream:
    """The same reading over a stream: `feed` gives what may be shown now, `close` the rest.

    What `feed` and `close` gave, put together, is `read_reply(...).visible` for every way of cutting the text.
    """

    def __init__(
        self,
        runtime: Mapping[str, Any] | None = None,
        previous: Mapping[str, Any] | None = None,
        request_texts: Sequence[str] = (),
    ) -> None:
        self._context = (runtime, previous, request_texts)
        self._text: list[str] = []
        self._held = ""
        self._blank: list[str] = []
        self._fresh_line = True
        self._in_trailer = False
        self._shown = 0
        self._reading: Reading | None = None

    def feed(self, chunk: str) -> str:
        self._text.append(chunk)
        if self._in_trailer:
            return ""
        if not chunk.strip(SPACE):  # held in any case, so there is nothing to look at
            self._blank.append(chunk)
            return ""
        self._held += "".join(self._blank) + chunk
        self._blank.clear()
        at = find_trailer(self._held, fresh_line=self._fresh_line)
        if at < 0:
            return self._show(safe_length(self._held, self._fresh_line))
        # until something stands behind the separator, it may still turn out to be a mention
        self._in_trailer = bool(self._held[at + len(SEPARATOR) :].strip(SPACE))
        return self._show(len(self._held[:at].rstrip(SPACE)))

    def close(self) -> str:
        if self._reading is not None:
            return ""
        self._reading = read_reply("".join(self._text), *self._context)
        rest = self._reading.visible[self._shown :]
        self._shown += len(rest)
        return rest

    @property
    def reading(self) -> Reading:
        """The reading of the whole text; closes the stream."""
        self.close()
        assert self._reading is not None
        return self._reading

    def _show(self, length: int) -> str:
        shown, self._held = self._held[:length], self._held[length:]
        if shown:
            self._fresh_line = False
        self._shown += length
        return shown
