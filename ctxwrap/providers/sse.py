"""Server-sent events as bytes: cut into frames, and put back with other data."""

import json
import re
from typing import Any, NamedTuple


class _Fields(NamedTuple):
    event: str = ""
    data: str = ""
    is_damaged: bool = False
    """Whether the bytes are no text."""


class Frame:
    """One event as it came: its bytes with the blank line behind them; its fields are read when they are asked for."""

    def __init__(self, raw: bytes, *, is_read: bool = True) -> None:
        self.raw = raw
        self._fields = None if is_read else _Fields()

    @property
    def fields(self) -> _Fields:
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
        """The data as an object, or None for `[DONE]`, comments, and anything else."""
        if not self.data.startswith("{"):
            return None
        try:
            value = json.loads(self.data)
        except (ValueError, RecursionError):
            return None
        return value if isinstance(value, dict) else None


MAX_FRAME = 32 * 1024 * 1024
"""A frame beyond so many bytes goes on as it is, and unread."""
_EDGE = 3
"""So many bytes of a break may have come before the last of it."""
_BREAK = re.compile(rb"\n\n|\r\n\r\n|\r\r")


class Framer:
    """Bytes in as they arrive, whole frames out; an unfinished frame at the end is never one.

    Each byte is looked at once, however many chunks a frame comes in.
    """

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        """The unfinished frame but for its edge."""
        self._size = 0
        self._edge = b""
        self._is_unread = False

    @property
    def is_empty(self) -> bool:
        """Whether the next byte begins a frame."""
        return not (self._size or self._edge or self._is_unread)

    def feed(self, chunk: bytes) -> list[Frame]:
        text, at = self._edge + chunk, 0
        frames = []
        for found in _BREAK.finditer(text):
            self._take(text[at : found.end()])
            frames.append(self._frame())
            self._is_unread = False
            at = found.end()
        edge = max(at, len(text) - _EDGE)
        self._take(text[at:edge])
        self._edge = text[edge:]
        if self._size > MAX_FRAME:
            self._is_unread = True
            frames.append(self._frame())
        return frames

    def _take(self, piece: bytes) -> None:
        self._pieces.append(piece)
        self._size += len(piece)

    def _frame(self) -> Frame:
        raw = b"".join(self._pieces)
        self._pieces.clear()
        self._size = 0
        return Frame(raw, is_read=not self._is_unread)


def _fields(raw: bytes) -> _Fields:
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        return _Fields(is_damaged=True)
    if text.startswith("data: ") and raw.find(b"\n") == len(raw) - 2:  # one line of data, as most frames are
        return _Fields(data=text[6:-2])
    event, data = "", []
    for line in text.replace("\r\n", "\n").replace("\r", "\n").split("\n"):
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            data.append(value)
        elif name == "event":
            event = value
    return _Fields(event, "\n".join(data))


def framed(event: str, data: dict[str, Any]) -> bytes:
    """An event as bytes."""
    head = f"event: {event}\n" if event else ""
    body = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    return f"{head}data: {body}\n\n".encode("utf-8", "surrogatepass")
