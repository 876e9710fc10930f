"""Response bodies without their trailer, rewritten event by event; and stored replies that are fetched again."""

import json
import re
import weakref
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

from pydantic_core import from_json

from ctxwrap.encoding import encode_json
from ctxwrap.protocol import ReplyStream, read_reply
from ctxwrap.protocol.instructions import SEPARATOR, strip_injected
from ctxwrap.providers import PROVIDERS, load_adapter
from ctxwrap.providers.base import ProviderAdapter
from ctxwrap.providers.messages import CACHE_KEY_FIELD, is_cache_key
from ctxwrap.providers.sse import Frame, Framer, framer_for
from ctxwrap.providers.text_channel import DeltaPassthrough
from ctxwrap.turn.async_ import AsyncCall
from ctxwrap.turn.lifecycle import why_stopped
from ctxwrap.turn.sync import Call
from ctxwrap.types import Body

DONE = "[DONE]"
NOT_JSON = "the reply is no JSON object"
_UNREADABLE = "provider_error: an event that cannot be read"


def stored_by(request: Any) -> ProviderAdapter | None:
    """The adapter of the API whose stored reply, its input, or a list of them a request fetches."""
    if request.method != "GET":
        return None
    adapters = (adapter for adapter in map(load_adapter, PROVIDERS) if adapter.stored_path)
    return next((each for each in adapters if re.fullmatch(f".*/{each.stored_path}", request.url.path)), None)


def _cleaned(value: Any) -> Any:
    if isinstance(value, str):
        value = strip_injected(value)
        return read_reply(value).visible if SEPARATOR in value else value
    if isinstance(value, list):
        return [_cleaned(item) for item in value]
    if isinstance(value, dict):
        return {name: _cleaned_field(name, item) for name, item in value.items()}
    return value


def _cleaned_field(name: str, value: Any) -> Any:
    """The caller's value of a field; None if all of it was added by ctxwrap."""
    if name == CACHE_KEY_FIELD and is_cache_key(value):
        return None
    cleaned = _cleaned(value)
    return None if name == "instructions" and value and not cleaned else cleaned


class _StoredCall:
    """Stands in for a call where there is no turn, only text to clean."""

    observes = False
    needs_reask = False
    record = None

    def __init__(self, adapter: ProviderAdapter) -> None:
        self._rewriter = adapter.stored_rewriter(ReplyStream, _cleaned_field)

    def text_delta(self, event: Body) -> None:
        """Stored replies are seldom streamed: every event is parsed."""

    def checkpoint_due(self) -> bool:
        return False

    def abandon(self) -> None:
        """There is no turn to end."""


class StoredCall(_StoredCall):
    def reply(self, payload: Body) -> Body:
        cleaned: Body = _cleaned(payload)
        return cleaned

    def event(self, event: Body) -> list[Body]:
        return self._rewriter.event(event)

    def write_partial_reply(self) -> None:
        """There is no turn to write."""

    def finish_reask(self) -> None:
        """There is no snapshot to ask for."""

    def end(self) -> list[Body]:
        return self._rewriter.close()

    def cut(self, reason: str) -> list[Body]:
        return self._rewriter.close()

    def stop(self, reason: str) -> None:
        """There is no turn to end."""


class AsyncStoredCall(_StoredCall):
    async def reply(self, payload: Body) -> Body:
        cleaned: Body = _cleaned(payload)
        return cleaned

    async def event(self, event: Body) -> list[Body]:
        return self._rewriter.event(event)

    async def write_partial_reply(self) -> None:
        """There is no turn to write."""

    async def finish_reask(self) -> None:
        """There is no snapshot to ask for."""

    async def end(self) -> list[Body]:
        return self._rewriter.close()

    async def cut(self, reason: str) -> list[Body]:
        return self._rewriter.close()

    async def stop(self, reason: str) -> None:
        """There is no turn to end."""


def framer_of(response: Any) -> Framer | None:
    """A framer for the stream in a response, if it is one."""
    return framer_for(str(response.headers.get("content-type", "")))


def is_stream(response: Any) -> bool:
    return framer_of(response) is not None


def is_coded(response: Any) -> bool:
    """Whether the raw bytes are compressed, or were read before."""
    return response.is_stream_consumed or bool(response.headers.get("content-encoding"))


def _raw(response: Any) -> Iterator[bytes]:
    """`response.iter_raw()` with less work per chunk: the reader of our body counts bytes and maps errors."""
    yield from response.stream
    response.close()


async def _async_raw(response: Any) -> AsyncIterator[bytes]:
    async for chunk in response.stream:
        yield chunk
    await response.aclose()


def copy_elapsed(response: Any, reader: Any) -> None:
    """Set the `elapsed` of `reader`; a response knows it once it is closed, a mocked one never."""
    if reader is None:
        return
    try:
        elapsed = response.elapsed
    except RuntimeError:
        return
    reader.elapsed = elapsed


def payload_in(content: bytes) -> Body | None:
    """The JSON object in a reply, or None if it is something else."""
    try:
        payload = from_json(content)
    except ValueError:  # the slower decoder also takes lone surrogates, other encodings and deeper nesting
        try:
            payload = json.loads(content)
        except (ValueError, RecursionError):
            return None
    return payload if isinstance(payload, dict) else None


class _Body:
    """The state that sync and async bodies share."""

    def __init__(self, response: Any, call: Any) -> None:
        self._response = response
        self._framer = framer_of(response)
        self._frames: deque[Frame] = deque()
        self._deltas = DeltaPassthrough(is_text=self._framer is None or self._framer.is_text)
        self._named = False
        """Whether the provider names its events; then ours need names too."""
        self._is_finished = False
        self._last = b""
        """The bytes of the last event, while it waits for the reask to finish."""
        self._failure: Exception | None = None
        """The error that ended the provider's stream, to be raised after all that was held back."""
        self.reader: Callable[[], Any] = lambda: None
        """Returns the response that the SDK reads, while it is alive."""
        weakref.finalize(self, call.abandon)

    def _is_fatal(self, frame: Frame) -> bool:
        """Whether SDKs stop at a frame that is no JSON event: they read every frame of a stream without names."""
        return frame.fields.is_damaged or (bool(frame.data) and not self._named)

    def _frame_bytes(self, frame: Frame, event: Body | None, events: list[Body]) -> bytes:
        """The bytes of a frame whose event became `events`; an event that did not change keeps its bytes."""
        if len(events) == 1 and events[0] is event:
            return frame.raw
        return self._framed(events, named=bool(frame.event))

    def _framed(self, events: list[Body], *, named: bool) -> bytes:
        assert self._framer is not None
        return b"".join(self._framer.encode(str(event.get("type", "")) if named else "", event) for event in events)


class RewrittenBody(_Body):
    """The body that the SDK reads instead of the provider's, one event at a time."""

    def __init__(self, response: Any, call: Call | StoredCall) -> None:
        super().__init__(response, call)
        self._call = call
        self._chunks: Iterator[bytes] = response.iter_bytes() if is_coded(response) else _raw(response)

    def __iter__(self) -> "RewrittenBody":
        return self

    def __next__(self) -> bytes:
        try:
            while not self._is_finished:
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
            copy_elapsed(self._response, self.reader())
        finally:
            self._call.stop("closed")

    def _next_event(self) -> bytes:
        if self._last:
            return self._last_event()
        if not self._frames:
            return self._next_chunk()
        frame = self._frames.popleft()
        shown = self._deltas.take(frame.raw)
        if shown is not None:
            if self._call.checkpoint_due():
                self._call.write_partial_reply()
            return shown
        if frame.data == DONE:
            return self._framed(self._call.end(), named=False) + frame.raw
        self._named = self._named or bool(frame.event)
        event = frame.json()
        if event is None:
            held = self._call.cut(_UNREADABLE) if self._is_fatal(frame) else []
            return self._framed(held, named=self._named) + frame.raw
        events = self._call.event(event)
        self._deltas.learn(frame.raw, event, self._call.text_delta(event))
        if not self._call.needs_reask:
            return self._frame_bytes(frame, event, events)
        self._last = self._frame_bytes(frame, event, events[-1:])
        return self._framed(events[:-1], named=self._named)

    def _last_event(self) -> bytes:
        """Finish the reask, then return the last event. The rest of the stream is read first to free its connection."""
        assert self._framer is not None
        try:
            for chunk in self._chunks:
                self._frames.extend(self._framer.feed(chunk))
        except Exception as error:
            self._failure = error
        self._call.finish_reask()
        last, self._last = self._last, b""
        return last

    def _next_chunk(self) -> bytes:
        assert self._framer is not None
        if self._failure is not None:
            raise self._failure
        shown: bytes | None = b""
        while not shown:
            try:
                chunk = next(self._chunks, None)
            except Exception as error:
                self._failure = error
                return self._framed(self._call.cut(why_stopped(error)), named=self._named)
            if chunk is None:
                self._is_finished = True
                return self._framed(self._call.end(), named=self._named)
            shown = self._deltas.take(chunk) if self._framer.is_empty else None
            if shown is None:
                self._frames.extend(self._framer.feed(chunk))
                return b""
            if self._call.checkpoint_due():
                self._call.write_partial_reply()
        return shown

    def _whole(self) -> bytes:
        self._is_finished = True
        content = b"".join(self._chunks)
        payload = payload_in(content)
        if payload is None:
            self._call.stop(NOT_JSON)
            return content
        reply = self._call.reply(payload)
        return content if reply is payload else encode_json(reply)


class AsyncRewrittenBody(_Body):
    def __init__(self, response: Any, call: AsyncCall | AsyncStoredCall) -> None:
        super().__init__(response, call)
        self._call = call
        self._chunks: AsyncIterator[bytes] = response.aiter_bytes() if is_coded(response) else _async_raw(response)

    def __aiter__(self) -> "AsyncRewrittenBody":
        return self

    async def __anext__(self) -> bytes:
        try:
            while not self._is_finished:
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
            copy_elapsed(self._response, self.reader())
        finally:
            await self._call.stop("closed")

    async def _next_event(self) -> bytes:
        if self._last:
            return await self._last_event()
        if not self._frames:
            return await self._next_chunk()
        frame = self._frames.popleft()
        shown = self._deltas.take(frame.raw)
        if shown is not None:
            if self._call.checkpoint_due():
                await self._call.write_partial_reply()
            return shown
        if frame.data == DONE:
            return self._framed(await self._call.end(), named=False) + frame.raw
        self._named = self._named or bool(frame.event)
        event = frame.json()
        if event is None:
            held = await self._call.cut(_UNREADABLE) if self._is_fatal(frame) else []
            return self._framed(held, named=self._named) + frame.raw
        events = await self._call.event(event)
        self._deltas.learn(frame.raw, event, self._call.text_delta(event))
        if not self._call.needs_reask:
            return self._frame_bytes(frame, event, events)
        self._last = self._frame_bytes(frame, event, events[-1:])
        return self._framed(events[:-1], named=self._named)

    async def _last_event(self) -> bytes:
        """Finish the reask, then return the last event. The rest of the stream is read first to free its connection."""
        assert self._framer is not None
        try:
            async for chunk in self._chunks:
                self._frames.extend(self._framer.feed(chunk))
        except Exception as error:
            self._failure = error
        await self._call.finish_reask()
        last, self._last = self._last, b""
        return last

    async def _next_chunk(self) -> bytes:
        assert self._framer is not None
        if self._failure is not None:
            raise self._failure
        shown: bytes | None = b""
        while not shown:
            try:
                chunk = await anext(self._chunks, None)
            except Exception as error:
                self._failure = error
                return self._framed(await self._call.cut(why_stopped(error)), named=self._named)
            if chunk is None:
                self._is_finished = True
                return self._framed(await self._call.end(), named=self._named)
            shown = self._deltas.take(chunk) if self._framer.is_empty else None
            if shown is None:
                self._frames.extend(self._framer.feed(chunk))
                return b""
            if self._call.checkpoint_due():
                await self._call.write_partial_reply()
        return shown

    async def _whole(self) -> bytes:
        self._is_finished = True
        content = b"".join([chunk async for chunk in self._chunks])
        payload = payload_in(content)
        if payload is None:
            await self._call.stop(NOT_JSON)
            return content
        reply = await self._call.reply(payload)
        return content if reply is payload else encode_json(reply)
