"""Server-sent events as bytes: cut into frames, and put back with other data."""

import json
from typing import Any, NamedTuple


class Frame(NamedTuple):
    """One event as it came: its bytes with the blank line behind them, its name, its data."""

    raw: bytes
    event: str
    data: str

    def json(self) -> dict[str, Any] | None:
        """The data as an object, or None for `[DONE]`, comments, and anything else."""
        if not self.data.startswith("{"):
            return None
        try:
            value = json.loads(self.data)
        except (ValueError, RecursionError):
            return None
        return value if isinstance(value, dict) else None


class Framer:
    """Bytes in as they arrive, whole frames out; an unfinished frame at the end is never one."""

    def __init__(self) -> None:
        self._buffer = b""

    def feed(self, chunk: bytes) -> list[Frame]:
        self._buffer += chunk
        if b"\r" not in self._buffer:
            *whole, self._buffer = self._buffer.split(b"\n\n")
            return [_parsed(raw + b"\n\n") for raw in whole]
        frames = []
        while end := _frame_end(self._buffer):
            frames.append(_parsed(self._buffer[:end]))
            self._buffer = self._buffer[end:]
        return frames


_BREAKS = (b"\n\n", b"\r\n\r\n", b"\r\r")


def _frame_end(buffer: bytes) -> int:
    """How long the first whole frame is, or 0."""
    ends = [at + len(mark) for mark in _BREAKS if (at := buffer.find(mark)) >= 0]
    return min(ends, default=0)


def _parsed(raw: bytes) -> Frame:
    if raw.startswith(b"data: ") and raw.find(b"\n") == len(raw) - 2:  # one line of data, as most frames are
        return Frame(raw, "", raw[6:-2].decode("utf-8", "replace"))
    event, data = "", []
    for line in raw.decode("utf-8", "replace").replace("\r\n", "\n").replace("\r", "\n").split("\n"):
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            data.append(value)
        elif name == "event":
            event = value
    return Frame(raw, event, "\n".join(data))


def framed(event: str, data: dict[str, Any]) -> bytes:
    """An event as bytes."""
    head = f"event: {event}\n" if event else ""
    body = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    return f"{head}data: {body}\n\n".encode("utf-8", "surrogatepass")
