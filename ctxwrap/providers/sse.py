"""The events of a stream: bytes split into frames, and events encoded again. Server-sent events, or lines of JSON."""

import json
import re
from typing import Any, NamedTuple

from ctxwrap.encoding import encode_json


class Fields(NamedTuple):
    """What an event says."""

    event: str = ""
    data: str = ""
    is_damaged: bool = False
    """Whether the bytes are not UTF-8."""


class Frame:
    """One event: its bytes including the blank line after them. Its fields are parsed on demand."""

    def __init__(self, raw: bytes, *, is_parsed: bool = True) -> None:
        self.raw = raw
        self._fields = None if is_parsed else Fields()

    @property
    def fields(self) -> Fields:
        if self._fields is None:
            self._fields = _fields(self.raw)
        return self._fields

    @property
    def event(self) -> str:
        return self.fields.event

    @property
    def data(self) -> str:
        return self.fields.data

    def json(self) -> dict[str, Any] | None:
        """The data as a JSON object, or None for `[DONE]`, comments and anything else."""
        if not self.data.startswith("{"):
            return None
        try:
            value = json.loads(self.data)
        except (ValueError, RecursionError):
            return None
        return value if isinstance(value, dict) else None


MAX_FRAME = 32 * 1024 * 1024
"""A longer frame passes through without being parsed."""
_EDGE = 3
"""The longest part of a frame break that can arrive before its last byte."""
_BREAK = re.compile(rb"\n\n|\r\n\r\n|\r\r")


class Framer:
    """Splits arriving bytes into whole frames; an unfinished frame at the end is dropped.

    Each byte is scanned once, however many chunks a frame arrives in.
    """

    _break, _longest_edge, _frame_type = _BREAK, _EDGE, Frame
    is_text = True

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        """The unfinished frame without its edge."""
        self._size = 0
        self._edge = b""
        self._is_oversized = False

    @property
    def is_empty(self) -> bool:
        """Whether the next byte begins a frame."""
        return not (self._size or self._edge or self._is_oversized)

    def feed(self, chunk: bytes) -> list[Frame]:
        text, at = self._edge + chunk, 0
        frames = []
        for found in self._break.finditer(text):
            self._take(text[at : found.end()])
            frames.append(self._frame())
            self._is_oversized = False
            at = found.end()
        edge = max(at, len(text) - self._longest_edge)
        self._take(text[at:edge])
        self._edge = text[edge:]
        if self._size > MAX_FRAME:
            self._is_oversized = True
            frames.append(self._frame())
        return frames

    def encode(self, name: str, event: dict[str, Any]) -> bytes:
        """An event encoded as bytes; without a name if `name` is empty."""
        return encode_event(name, event)

    def _take(self, piece: bytes) -> None:
        self._pieces.append(piece)
        self._size += len(piece)

    def _frame(self) -> Frame:
        raw = b"".join(self._pieces)
        self._pieces.clear()
        self._size = 0
        return self._frame_type(raw, is_parsed=not self._is_oversized)


class _LineFrame(Frame):
    """One line of JSON."""

    @property
    def fields(self) -> Fields:
        if self._fields is None:
            try:
                self._fields = Fields(data=self.raw.decode().strip())
            except UnicodeDecodeError:
                self._fields = Fields(is_damaged=True)
        return self._fields


class LineFramer(Framer):
    """The same for a stream with an event in each line."""

    _break, _longest_edge, _frame_type = re.compile(rb"\n"), 0, _LineFrame

    def encode(self, name: str, event: dict[str, Any]) -> bytes:
        return encode_json(event) + b"\n"


def framer_for(content_type: str) -> Framer | None:
    """A framer for the stream in a body of this type; None if the body is no stream."""
    if content_type.startswith("text/event-stream"):
        return Framer()
    if content_type.startswith("application/vnd.amazon.eventstream"):
        from ctxwrap.providers.aws_events import AwsFramer

        return AwsFramer()
    return LineFramer() if content_type.startswith(("application/x-ndjson", "application/jsonl")) else None


def _fields(raw: bytes) -> Fields:
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        return Fields(is_damaged=True)
    if text.startswith("data: ") and raw.find(b"\n") == len(raw) - 2:  # most frames: one line of data
        return Fields(data=text[6:-2])
    event, data = "", []
    for line in text.replace("\r\n", "\n").replace("\r", "\n").split("\n"):
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            data.append(value)
        elif name == "event":
            event = value
    return Fields(event, "\n".join(data))


def encode_event(event: str, data: dict[str, Any]) -> bytes:
    """An event encoded as bytes."""
    head = f"event: {event}\n".encode() if event else b""
    return b"%bdata: %b\n\n" % (head, encode_json(data))
