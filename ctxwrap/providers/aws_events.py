"""AWS's event streams of model replies: binary messages, each of which holds one event as base64 of its JSON."""

import json
from base64 import b64decode, b64encode
from typing import Any
from zlib import crc32

from ctxwrap.encoding import encode_json
from ctxwrap.providers.sse import MAX_FRAME, Fields, Frame, Framer

_PRELUDE, _AROUND = 12, 16
"""The bytes before a message's headers, and all that are neither headers nor payload."""


def _header(name: bytes, value: bytes) -> bytes:
    return bytes([len(name)]) + name + b"\7" + len(value).to_bytes(2, "big") + value


_HEADERS = b"".join(
    _header(name, value)
    for name, value in (
        (b":event-type", b"chunk"),
        (b":content-type", b"application/json"),
        (b":message-type", b"event"),
    )
)


class _AwsMessage(Frame):
    @property
    def fields(self) -> Fields:
        if self._fields is None:
            self._fields = _fields(self.raw)
        return self._fields


class AwsFramer(Framer):
    """Splits arriving bytes into messages, which begin with their length."""

    is_text = False

    def __init__(self) -> None:
        super().__init__()
        self._awaited = _AROUND
        """How many bytes there must be before the next message can be whole."""

    def feed(self, chunk: bytes) -> list[Frame]:
        self._take(chunk)
        if self._size < self._awaited:
            return []
        text, at, frames = b"".join(self._pieces), 0, list[Frame]()
        while (size := self._length(text, at)) <= len(text) - at:
            frames.append(_AwsMessage(text[at : at + size]))
            at += size
        self._pieces, self._size, self._awaited = [text[at:]], len(text) - at, size
        return frames

    def encode(self, name: str, event: dict[str, Any]) -> bytes:
        payload = encode_json({"bytes": b64encode(encode_json(event)).decode()})
        head = (_AROUND + len(_HEADERS) + len(payload)).to_bytes(4, "big") + len(_HEADERS).to_bytes(4, "big")
        message = head + crc32(head).to_bytes(4, "big") + _HEADERS + payload
        return message + crc32(message).to_bytes(4, "big")

    def _length(self, text: bytes, at: int) -> int:
        """The length of the message at `at`; all that is left if it says an impossible one, for the SDK to refuse."""
        if len(text) - at < _AROUND:
            return _AROUND
        length = int.from_bytes(text[at : at + 4], "big")
        return length if _AROUND <= length <= MAX_FRAME else len(text) - at


def _fields(raw: bytes) -> Fields:
    """The event in a message; a message about an error counts as damaged, since SDKs stop at it."""
    end = _PRELUDE + int.from_bytes(raw[4:8], "big")
    if b"exception" in raw[_PRELUDE:end] or b":error-code" in raw[_PRELUDE:end]:
        return Fields(is_damaged=True)
    try:
        payload = json.loads(raw[end:-4] or b"{}")
        return Fields(data=b64decode(payload.get("bytes", "")).decode()) if isinstance(payload, dict) else Fields()
    except (ValueError, TypeError, RecursionError):
        return Fields(is_damaged=True)
