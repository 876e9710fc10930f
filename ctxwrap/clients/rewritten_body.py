"""Response bodies without their trailer, rewritten event by event; and stored replies that are fetched again."""

import json
import re
import weakref
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from typing import Any

from ctxwrap.protocol import ReplyStream, read_reply
from ctxwrap.protocol.instructions import SEPARATOR, without_injected
from ctxwrap.providers import PROVIDERS, load_adapter
from ctxwrap.providers.base import ProviderAdapter
from ctxwrap.providers.options import FIELD, is_cache_key
from ctxwrap.providers.sse import Frame, Framer, framed
from ctxwrap.providers.text_channel import Deltas
from ctxwrap.turn.async_ import AsyncCall
from ctxwrap.turn.lifecycle import why_stopped
from ctxwrap.turn.sync import Call
from ctxwrap.types import Body


def stored_by(request: Any) -> ProviderAdapter | None:
    """The adapter of the API whose stored reply, its input, or a list of them a request fetches."""
    if request.method != "GET":
        return None
    adapters = (adapter for adapter in map(load_adapter, PROVIDERS) if adapter.stored_path)
    return next((each for each in adapters if re.fullmatch(f".*/{each.stored_path}", request.url.path)), None)


def _cleaned(value: Any) -> Any:
    if isinstance(value, str):
        value = without_injected(value)
        return read_reply(value).visible if SEPARATOR in value else value
    if isinstance(value, list):
        return [_cleaned(item) for item in value]
    if isinstance(value, dict):
        return {name: _own(name, item) for name, item in value.items()}
    return value


def _own(name: str, value: Any) -> Any:
    """The caller's own value; instructions of ours alone, or a key of ours, were none of the caller's."""
    if name == FIELD and is_cache_key(value):
        return None
    cleaned = _cleaned(value)
    return None if name == "instructions" and value and not cleaned else cleaned


class StoredCall:
    """Stands where a call in flight would: there is no turn to keep, only text to take out."""

    observes = False
    unsettled = False
    record = None

    def __init__(self, adapter: ProviderAdapter) -> None:
        self._rewriter = adapter.stored_rewriter(ReplyStream, _own)

    def reply(self, payload: Body) -> Body:
        cleaned: Body = _cleaned(payload)
        return cleaned

    def event(self, event: Body) -> list[Body]:
        return self._rewriter.event(event)

    def text_delta(self, event: Body) -> None:
        """Stored replies are seldom streamed: every event is parsed."""

    def checkpoint_due(self) -> bool:
        return False

    def write_partial_reply(self) -> None:
        """Nothing is kept of it."""

    def settle(self) -> None:
        """There is no memory to settle."""

    def end(self) -> list[Body]:
        return self._rewriter.close()

    def cut(self, reason: str) -> list[Body]:
        return self._rewriter.close()

    def stop(self, reason: str) -> None:
        """Nothing is kept of it."""

    def abandon(self) -> None:
        """Nothing is kept of it."""


class AsyncStoredCall:
    """The same for async clients."""

    observes = False
    unsettled = False
    record = None

    def __init__(self, adapter: ProviderAdapter) -> None:
        self._stored = StoredCall(adapter)

    async def reply(self, payload: Body) -> Body:
        return self._stored.reply(payload)

    async def event(self, event: Body) -> list[Body]:
        return self._stored.event(event)

    def text_delta(self, event: Body) -> None:
        """Stored replies are seldom streamed: every event is parsed."""

    def checkpoint_due(self) -> bool:
        return False

    async def write_partial_reply(self) -> None:
        """Nothing is kept of it."""

    async def settle(self) -> None:
        """There is no memory to settle."""

    async def end(self) -> list[Body]:
        return self._stored.end()

    async def cut(self, reason: str) -> list[Body]:
        return self._stored.cut(reason)

    async def stop(self, reason: str) -> None:
        """Nothing is kept of it."""

    def abandon(self) -> None:
        """Nothing is kept of it."""


DONE = "[DONE]"
_UNREADABLE = "provider_error: an event that cannot be read"


def is_stream(response: Any) -> bool:
    return str(response.headers.get("content-type", "")).startswith("text/event-stream")


def is_coded(response: Any) -> bool:
    """Whether the bytes that come are not yet those of the body, or were read before."""
    return response.is_stream_consumed or bool(response.headers.get("content-encoding"))


def _raw(response: Any) -> Iterator[bytes]:
    """The response's `iter_raw` with less to do for each chunk: who reads our body counts bytes and names errors."""
    yield from response.stream
    response.close()


async def _raw_async(response: Any) -> AsyncIterator[bytes]:
    async for chunk in response.stream:
        yield chunk
    await response.aclose()


def pass_on_elapsed(response: Any, reader: Any) -> None:
    """How long the provider took, which a response knows when it is closed; a mocked one never does."""
    if reader is not None:
        with suppress(RuntimeError):
            reader.elapsed = response.elapsed


def payload_in(content: bytes) -> Body | None:
    """The JSON object in a reply, or None if it is something else."""
    try:
        payload = json.loads(content)
    except (ValueError, RecursionError):
        return None
    return payload if isinstance(payload, dict) else None


def encoded(payload: Body) -> bytes:
    return json.dumps(payload, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")


def _out(frame: Frame, event: Body | None, events: list[Body]) -> bytes:
    """A frame's bytes after its event became `events`; an event that did not change keeps the bytes it came in."""
    if len(events) == 1 and events[0] is event:
        return frame.raw
    return _framed(events, named=bool(frame.event))


def _framed(events: list[Body], *, named: bool) -> bytes:
    return b"".join(framed(str(event.get("type", "")) if named else "", event) for event in events)


class _Body:
    """What a body knows, whether it is read with or without awaits."""

    def __init__(self, response: Any, call: Any) -> None:
        self._response = response
        self._framer = Framer() if is_stream(response) else None
        self._frames: deque[Frame] = deque()
        self._deltas = Deltas()
        self._named = False
        """Whether the provider gives its events names, as ours must have then."""
        self._over = False
        self._last = b""
        """The end of the stream, while it waits for the call to be settled."""
        self._failure: Exception | None = None
        """What the provider's connection came to behind that end."""
        self.reader: Callable[[], Any] = lambda: None
        """The response that is read instead of the provider's, while somebody has it."""
        weakref.finalize(self, call.abandon)

    def _is_fatal(self, frame: Frame) -> bool:
        """Whether no SDK reads on behind a frame that is no event: events without names are read whatever they hold."""
        return frame.fields.is_damaged or (bool(frame.data) and not self._named)


class RewrittenBody(_Body):
    """What the SDK reads instead of the provider's bytes, one event at a time."""

    def __init__(self, response: Any, call: Call | StoredCall) -> None:
        super().__init__(response, call)
        self._call = call
        self._chunks: Iterator[bytes] = response.iter_bytes() if is_coded(response) else _raw(response)

    def __iter__(self) -> "RewrittenBody":
        return self

    def __next__(self) -> bytes:
        try:
            while not self._over:
                piece = self._next_event() if self._framer else self._whole()
                if piece:
                    return piece
        except BaseException as error:
            self._call.stop(why_stopped(error))
            raise
        raise StopIteration

    def close(self) -> None:
        try:
            self._response.close()
            pass_on_elapsed(self._response, self.reader())
        finally:
            self._call.stop("closed")

    def _next_event(self) -> bytes:
        if self._last:
            return self._settled()
        if not self._frames:
            return self._read_on()
        frame = self._frames.popleft()
        if self._deltas.passes(frame.raw):
            if self._call.checkpoint_due():
                self._call.write_partial_reply()
            return frame.raw
        if frame.data == DONE:
            return _framed(self._call.end(), named=False) + frame.raw
        self._named = self._named or bool(frame.event)
        event = frame.json()
        if event is None:
            held = self._call.cut(_UNREADABLE) if self._is_fatal(frame) else []
            return _framed(held, named=self._named) + frame.raw
        events = self._call.event(event)
        self._deltas.learn(frame.raw, event, self._call.text_delta(event))
        if not self._call.unsettled:
            return _out(frame, event, events)
        self._last = _out(frame, event, events[-1:])
        return _framed(events[:-1], named=self._named)

    def _settled(self) -> bytes:
        """The end of the stream. All that the provider sends behind it is read first, to free its connection."""
        assert self._framer is not None
        try:
            for chunk in self._chunks:
                self._frames.extend(self._framer.feed(chunk))
        except Exception as error:
            self._failure = error
        self._call.settle()
        last, self._last = self._last, b""
        return last

    def _read_on(self) -> bytes:
        assert self._framer is not None
        if self._failure is not None:
            raise self._failure
        try:
            chunk = next(self._chunks, None)
        except Exception as error:
            self._failure = error
            return _framed(self._call.cut(why_stopped(error)), named=self._named)
        if chunk is not None:
            if self._framer.is_empty and self._deltas.passes(chunk):
                if self._call.checkpoint_due():
                    self._call.write_partial_reply()
                return chunk
            self._frames.extend(self._framer.feed(chunk))
            return b""
        self._over = True
        return _framed(self._call.end(), named=self._named)

    def _whole(self) -> bytes:
        self._over = True
        content = b"".join(self._chunks)
        payload = payload_in(content)
        if payload is None:
            self._call.stop("the reply is no JSON object")
            return content
        reply = self._call.reply(payload)
        return content if reply is payload else encoded(reply)


class AsyncRewrittenBody(_Body):
    """The same over async I/O."""

    def __init__(self, response: Any, call: AsyncCall | AsyncStoredCall) -> None:
        super().__init__(response, call)
        self._call = call
        self._chunks: AsyncIterator[bytes] = response.aiter_bytes() if is_coded(response) else _raw_async(response)

    def __aiter__(self) -> "AsyncRewrittenBody":
        return self

    async def __anext__(self) -> bytes:
        try:
            while not self._over:
                piece = await self._next_event() if self._framer else await self._whole()
                if piece:
                    return piece
        except BaseException as error:
            await self._call.stop(why_stopped(error))
            raise
        raise StopAsyncIteration

    async def aclose(self) -> None:
        try:
            await self._response.aclose()
            pass_on_elapsed(self._response, self.reader())
        finally:
            await self._call.stop("closed")

    async def _next_event(self) -> bytes:
        if self._last:
            return await self._settled()
        if not self._frames:
            return await self._read_on()
        frame = self._frames.popleft()
        if self._deltas.passes(frame.raw):
            if self._call.checkpoint_due():
                await self._call.write_partial_reply()
            return frame.raw
        if frame.data == DONE:
            return _framed(await self._call.end(), named=False) + frame.raw
        self._named = self._named or bool(frame.event)
        event = frame.json()
        if event is None:
            held = await self._call.cut(_UNREADABLE) if self._is_fatal(frame) else []
            return _framed(held, named=self._named) + frame.raw
        events = await self._call.event(event)
        self._deltas.learn(frame.raw, event, self._call.text_delta(event))
        if not self._call.unsettled:
            return _out(frame, event, events)
        self._last = _out(frame, event, events[-1:])
        return _framed(events[:-1], named=self._named)

    async def _settled(self) -> bytes:
        """The end of the stream. All that the provider sends behind it is read first, to free its connection."""
        assert self._framer is not None
        try:
            async for chunk in self._chunks:
                self._frames.extend(self._framer.feed(chunk))
        except Exception as error:
            self._failure = error
        await self._call.settle()
        last, self._last = self._last, b""
        return last

    async def _read_on(self) -> bytes:
        assert self._framer is not None
        if self._failure is not None:
            raise self._failure
        try:
            chunk = await anext(self._chunks, None)
        except Exception as error:
            self._failure = error
            return _framed(await self._call.cut(why_stopped(error)), named=self._named)
        if chunk is not None:
            if self._framer.is_empty and self._deltas.passes(chunk):
                if self._call.checkpoint_due():
                    await self._call.write_partial_reply()
                return chunk
            self._frames.extend(self._framer.feed(chunk))
            return b""
        self._over = True
        return _framed(await self._call.end(), named=self._named)

    async def _whole(self) -> bytes:
        self._over = True
        content = b"".join([chunk async for chunk in self._chunks])
        payload = payload_in(content)
        if payload is None:
            await self._call.stop("the reply is no JSON object")
            return content
        reply = await self._call.reply(payload)
        return content if reply is payload else encoded(reply)
