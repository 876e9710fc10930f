"""Response bodies that pass unchanged while the turn reads along."""

import re
import weakref
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from typing import Any

from ctxwrap.clients.rewritten_body import framer_of, payload_in
from ctxwrap.providers.sse import LineFramer
from ctxwrap.session.threads import in_thread
from ctxwrap.turn.lifecycle import ManagedCall, why_stopped


class Observation:
    """Collects the bytes of a reply, and lets the turn read them at the end."""

    def __init__(self, response: Any, managed: ManagedCall, replay: Callable[[list[bytes]], Any]) -> None:
        self._response_type, self._headers = type(response), response.headers
        self._framer = framer_of(response)
        self._managed = managed
        self._replay = replay
        self._is_finished = False
        self._raw: list[bytes] = []

    def pieces(self, chunk: bytes) -> list[bytes]:
        """A chunk, cut after each event, so that only events that were read count; compressed bytes stay whole."""
        if self._framer is None or self._headers.get("content-encoding"):
            return [chunk]
        if isinstance(self._framer, LineFramer):
            return chunk.splitlines(keepends=True)
        return [piece for piece in re.split(rb"(?<=\n\n)|(?<=\r\n\r\n)", chunk) if piece]

    def take(self, piece: bytes) -> bytes:
        self._raw.append(piece)
        return piece

    def finish(self, interrupted: str = "") -> None:
        """Let the turn read what has passed. Blocks for as long as a short write takes."""
        if not self._is_finished:
            self.read(self._content(), interrupted)

    def read(self, content: bytes, interrupted: str = "") -> None:
        self._is_finished = True
        reader = self._managed.turn.reader
        if self._framer is not None:
            for frame in self._framer.feed(content):
                event = frame.json()
                if event is not None:
                    reader.event(event)
            reader.close()
        elif (payload := payload_in(content)) is not None:
            reader.whole(payload)
        self._managed.save(interrupted)

    def _content(self) -> bytes:
        """The bytes so far, decoded by the HTTP library."""
        response = self._response_type(200, headers=self._headers, stream=self._replay(self._raw))
        pieces: list[bytes] = []
        with suppress(Exception):  # a compressed stream that was cut ends in an error, after all that it holds
            pieces.extend(response.iter_bytes())
        return b"".join(pieces)


class Replay:
    """A byte stream over bytes that were read before."""

    def __init__(self, raw: list[bytes]) -> None:
        self._raw = raw

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._raw)


class ObservedBody:
    """The provider's bytes, which an observation collects as they are read."""

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
