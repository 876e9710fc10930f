"""One run of reply text on its way to the caller, with the log probabilities that belong to it."""

from collections import deque
from typing import Any

from ctxwrap.types import Reading, TextStream


class Channel:
    """Text in, visible text out; a token's log probability goes out with the text it stands for."""

    def __init__(self, stream: TextStream) -> None:
        self._stream = stream
        self._tokens: deque[Any] = deque()
        self._tokens_end = 0
        self._shown_bytes = 0
        self._pieces: list[str] = []
        self.closed = False

    def feed(self, text: str) -> str:
        return self._show(self._stream.feed(text))

    def close(self) -> str:
        self.closed = True
        return self._show(self._stream.close())

    def whole(self, text: str) -> str:
        """Feed and close in one."""
        return self.feed(text) + self.close()

    def tokens(self, arrived: list[Any]) -> list[Any]:
        """The tokens that may go out now that `arrived` came and the text so far was shown."""
        self._tokens.extend(arrived)
        released = []
        while self._tokens and self._tokens_end < self._shown_bytes:
            token = self._tokens.popleft()
            self._tokens_end += _size(token)
            released.append(token)
        return released

    @property
    def text(self) -> str:
        """What was shown so far."""
        return "".join(self._pieces)

    @property
    def reading(self) -> Reading:
        return self._stream.reading

    def _show(self, text: str) -> str:
        if text:
            self._pieces.append(text)
            self._shown_bytes += len(text.encode("utf-8", "surrogatepass"))
        return text


def _size(token: Any) -> int:
    """Bytes of text that a token stands for; a token may be a part of a character."""
    if isinstance(token, dict):
        raw = token.get("bytes")
        if isinstance(raw, list):
            return len(raw)
        token = token.get("token", "")
    return len(str(token).encode("utf-8", "surrogatepass"))


class PlainStream:
    """A text stream that shows everything: for replies that are only looked at."""

    def __init__(self) -> None:
        self._pieces: list[str] = []

    def feed(self, chunk: str) -> str:
        self._pieces.append(chunk)
        return chunk

    def close(self) -> str:
        return ""

    @property
    def reading(self) -> Reading:
        return Reading(visible="".join(self._pieces))
