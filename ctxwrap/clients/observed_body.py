"""Response bodies that go through as they are, and of which a turn takes note."""

import re
import weakref
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from typing import Any

from ctxwrap.clients.rewritten_body import is_stream, payload_in
from ctxwrap.providers.sse import Framer
from ctxwrap.session.threads import in_thread
from ctxwrap.turn.lifecycle import ManagedCall, why_stopped


class Observation:
    """The bytes of a reply that nobody changes, read when they are over."""

    def __init__(self, response: Any, opened: ManagedCall, replay: Callable[[list[bytes]], Any]) -> None:
        self._response_type, self._headers = type(response), response.headers
        self._streams = is_stream(response)
        self._opened = opened
        self._replay = replay
        self._over = False
        self._raw: list[bytes] = []

    def pieces(self, chunk: bytes) -> list[bytes]:
        """A chunk cut behind each event, so that only what was read counts; compressed bytes stay whole."""
        if not self._streams or self._headers.get("content-encoding"):
            return [chunk]
        return [piece for piece in re.split(rb"(?<=\n\n)|(?<=\r\n\r\n)", chunk) if piece]

    def take(self, piece: bytes) -> bytes:
        self._raw.append(piece)
        return piece

    def finish(self, interrupted: str = "") -> None:
        """Tell the turn what went by. Blocks for the moment a short write takes."""
        if not self._over:
            self.read(self._content(), interrupted)

    def read(self, content: bytes, interrupted: str = "") -> None:
        self._over = True
        turn = self._opened.turn
        if self._streams:
            for frame in Framer().feed(content):
                event = frame.json()
                if event is not None:
                    turn.event(event)
            turn.close()
        elif (payload := payload_in(content)) is not None:
            turn.reply(payload)
        self._opened.save(interrupted)

    def _content(self) -> bytes:
        """The bytes decoded as far as they came, by the HTTP library's own decoders."""
        response = self._response_type(200, headers=self._headers, stream=self._replay(self._raw))
        pieces: list[bytes] = []
        with suppress(Exception):  # a cut compressed stream ends in an error, behind all that it holds
            pieces.extend(response.iter_bytes())
        return b"".join(pieces)


class Replay:
    """Bytes once more."""

    def __init__(self, raw: list[bytes]) -> None:
        self._raw = raw

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._raw)


class ObservedBody:
    """The provider's own bytes, which a turn takes note of as they are read."""

    def __init__(self, stream: Any, observation: Observation) -> None:
        self._stream = stream
        self._chunks: Iterator[bytes] = iter(stream)
        self._pieces: deque[bytes] = deque()
        self._observation = observation
        weakref.finalize(self, observation.finish, "abandoned")

    def __iter__(self) -> "ObservedBody":
        return self

    def __next__(self) -> bytes:
        try:
            while not self._pieces:
                self._pieces.extend(self._observation.pieces(next(self._chunks)))
        except StopIteration:
            self._observation.finish()
            raise
        except BaseException as error:
            self._observation.finish(why_stopped(error))
            raise
        return self._observation.take(self._pieces.popleft())

    def close(self) -> None:
        try:
            self._stream.close()
        finally:
            self._observation.finish("closed")


class AsyncObservedBody:
    """The same over async I/O."""

    def __init__(self, stream: Any, observation: Observation) -> None:
        self._stream = stream
        self._chunks: AsyncIterator[bytes] = aiter(stream)
        self._pieces: deque[bytes] = deque()
        self._observation = observation
        weakref.finalize(self, observation.finish, "abandoned")

    def __aiter__(self) -> "AsyncObservedBody":
        return self

    async def __anext__(self) -> bytes:
        try:
            while not self._pieces:
                self._pieces.extend(self._observation.pieces(await anext(self._chunks)))
        except StopAsyncIteration:
            await in_thread(self._observation.finish)
            raise
        except BaseException as error:
            await in_thread(self._observation.finish, why_stopped(error))
            raise
        return self._observation.take(self._pieces.popleft())

    async def aclose(self) -> None:
        try:
            await self._stream.aclose()
        finally:
            await in_thread(self._observation.finish, "closed")
