"""One run of reply text on its way to the caller, with the log probabilities that belong to it."""

from collections import deque

from ctxwrap.types import Body, Reading, TextStream


class Channel:
    """Text in, visible text out; a token's log probability goes out with the text it stands for."""

    def __init__(self, stream: TextStream) -> None:
        self._stream = stream
        self._tokens: deque[Body] = deque()
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

    def tokens(self, arrived: list[Body]) -> list[Body]:
        """The tokens that may go out now: those whose text was shown; at the end, what was shown of the last one."""
        self._tokens.extend(arrived)
        released = []
        while self._tokens and self._tokens_end + _size(self._tokens[0]) <= self._shown_bytes:
            released.append(self._tokens.popleft())
            self._tokens_end += _size(released[-1])
        if self.closed and self._tokens and self._tokens_end < self._shown_bytes:
            released.append(_clipped(self._tokens.popleft(), self._shown_bytes - self._tokens_end))
            self._tokens_end = self._shown_bytes
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


def _bytes(token: Body) -> bytes:
    """The bytes that a token stands for, which may be a part of a character."""
    if isinstance(token.get("bytes"), list):
        return bytes(token["bytes"])
    return str(token.get("token", "")).encode("utf-8", "surrogatepass")


def _size(token: Body) -> int:
    return len(_bytes(token))


def _clipped(token: Body, size: int) -> Body:
    """The first `size` bytes of a token that text and trailer share; its alternatives would tell of the rest."""
    kept = _bytes(token)[:size]
    clipped = {**token, "token": kept.decode("utf-8", "ignore")}
    if "bytes" in token:
        clipped["bytes"] = list(kept)
    if "top_logprobs" in token:
        clipped["top_logprobs"] = []
    return clipped


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
