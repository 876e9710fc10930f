"""One run of reply text on its way to the caller, with the log probabilities that belong to it."""

from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from dataclasses import replace

from ctxwrap.protocol.reading import TEXT_FOLLOWS
from ctxwrap.types import Body, Reading, TextStream


class Channel:
    """Text in, visible text out; a token's log probability goes out with the text it stands for."""

    def __init__(self, stream: TextStream) -> None:
        self._stream = stream
        self._tokens: deque[Body] = deque()
        self._tokens_end = 0
        self._fed = _Measure()
        self._pieces: list[str] = []
        self.closed = False

    def feed(self, text: str) -> str:
        self._fed.add(text)
        return self._show(self._stream.feed(text))

    def passes(self, text: str) -> bool:
        """Whether `text` is shown as it is; if so, it was fed."""
        if self.closed or not self._stream.passes(text):
            return False
        self._fed.add(text)
        self._pieces.append(text)
        return True

    def close(self) -> str:
        self.closed = True
        return self._show(self._stream.close())

    def whole(self, text: str) -> str:
        """Feed and close in one."""
        return self.feed(text) + self.close()

    def tokens(self, arrived: list[Body]) -> list[Body]:
        """The tokens that may go out now: those whose text was shown, and of one that is shown in part, that part."""
        self._tokens.extend(arrived)
        released: list[Body] = []
        shown = self._fed.bytes_of(self._stream.spans)
        decided = shown[-1][1] if shown else 0
        while self._tokens and (self.closed or self._tokens_end + _size(self._tokens[0]) <= decided):
            token = self._tokens.popleft()
            released += _shown_of(token, self._tokens_end, shown)
            self._tokens_end += _size(token)
        return released

    def tokens_of_all(self, tokens: list[Body]) -> list[Body]:
        """What is shown of `tokens`, which stand for all of the text."""
        shown, released, at = self._fed.bytes_of(self._stream.spans), list[Body](), 0
        for token in tokens:
            released += _shown_of(token, at, shown)
            at += _size(token)
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
        return text


class _Measure:
    """Where the characters of a growing text stand in its bytes."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        """What was not measured yet: from the end of the last span on."""
        self._at = self._bytes = 0
        self._spans: list[tuple[int, int]] = []

    def add(self, text: str) -> None:
        self._pieces.append(text)

    def bytes_of(self, spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
        """The spans in bytes. Of those that were asked for before, only the last may have grown."""
        for at in range(max(len(self._spans) - 1, 0), len(spans)):
            start, end = spans[at]
            if at == len(self._spans):
                self._go_to(start)
                self._spans.append((self._bytes, self._bytes))
            if end > self._at:
                self._go_to(end)
                self._spans[at] = self._spans[at][0], self._bytes
        return self._spans

    def _go_to(self, at: int) -> None:
        text, count = "".join(self._pieces), at - self._at
        self._bytes += _bytes_in(text[:count])
        self._pieces, self._at = [text[count:]], at


def _bytes_in(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def _shown_of(token: Body, at: int, shown: list[tuple[int, int]]) -> list[Body]:
    """What is shown of the token that stands at `at`: all, a part, or nothing."""
    size = _size(token)
    first = max(bisect_right(shown, (at, at)) - 1, 0)
    parts = [(max(start, at) - at, min(end, at + size) - at) for start, end in shown[first : first + 3]]
    parts = [part for part in parts if part[0] < part[1]]
    if parts == [(0, size)] or not size:
        return [token] if parts or any(start <= at <= end for start, end in shown[first : first + 2]) else []
    return [_clipped(token, parts)] if parts else []


def _bytes(token: Body) -> bytes:
    """The bytes that a token stands for, which may be a part of a character."""
    if isinstance(token.get("bytes"), list):
        return bytes(token["bytes"])
    return str(token.get("token", "")).encode("utf-8", "surrogatepass")


def _size(token: Body) -> int:
    return len(_bytes(token))


def _clipped(token: Body, parts: list[tuple[int, int]]) -> Body:
    """These bytes of a token that text and trailer share; its alternatives would tell of the rest."""
    kept = b"".join(_bytes(token)[start:end] for start, end in parts)
    clipped = {**token, "token": kept.decode("utf-8", "ignore")}
    if "bytes" in token:
        clipped["bytes"] = list(kept)
    if "top_logprobs" in token:
        clipped["top_logprobs"] = []
    return clipped


def reading_of(channels: Sequence[Channel]) -> Reading | None:
    """The reading of a reply in several texts: of the last one with a snapshot; None while the last is not over."""
    if not channels or not channels[-1].closed:
        return None
    readings = [channel.reading for channel in channels if channel.closed]
    found = next((each for each in reversed(readings) if each.status != "missing"), readings[-1])
    follows = any(each.visible.strip() for each in readings[readings.index(found) + 1 :])
    if actions := tuple(action for each in readings for action in each.actions):
        found = replace(found, actions=actions)
    if not follows:
        return found
    return replace(found, violations=(*found.violations, TEXT_FOLLOWS))


class PlainStream:
    """A text stream that shows everything: for replies that are only looked at."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._size = 0

    def feed(self, chunk: str) -> str:
        self._pieces.append(chunk)
        self._size += len(chunk)
        return chunk

    def passes(self, chunk: str) -> bool:
        self.feed(chunk)
        return True

    def close(self) -> str:
        return ""

    @property
    def spans(self) -> Sequence[tuple[int, int]]:
        return [(0, self._size)]

    @property
    def reading(self) -> Reading:
        return Reading(visible="".join(self._pieces))
