"""Replaces the body of a response: by a rewritten one, or by one that the turn reads along."""

import json
import weakref
from collections.abc import AsyncIterator, Iterator
from typing import Any

from ctxwrap.clients.http import EXTENSION, joined, module_of
from ctxwrap.clients.observed_body import AsyncObservedBody, Observation, ObservedBody, Replay
from ctxwrap.clients.rewritten_body import (
    NOT_JSON,
    AsyncRewrittenBody,
    RewrittenBody,
    copy_elapsed,
    is_stream,
    payload_in,
)
from ctxwrap.encoding import encode_json
from ctxwrap.turn.lifecycle import PassthroughCall
from ctxwrap.types import Body


def rewrite(response: Any, call: Any) -> Any:
    """The response that the SDK reads instead of `response`."""
    if isinstance(call, PassthroughCall):
        return _with_call(response, call)
    if not response.is_closed or is_stream(response):
        return _with_body(response, call, RewrittenBody, ObservedBody, "SyncByteStream")
    payload = payload_in(response.content)
    if payload is None:
        call.stop(NOT_JSON)
        return _with_call(response, call)
    return _with_reply(response, payload, call.reply(payload), call)


async def rewrite_async(response: Any, call: Any) -> Any:
    if isinstance(call, PassthroughCall):
        return _with_call(response, call)
    if not response.is_closed or is_stream(response):
        return _with_body(response, call, AsyncRewrittenBody, AsyncObservedBody, "AsyncByteStream")
    payload = payload_in(response.content)
    if payload is None:
        await call.stop(NOT_JSON)
        return _with_call(response, call)
    return _with_reply(response, payload, await call.reply(payload), call)


def _with_call(response: Any, call: Any) -> Any:
    """The response, whose `call` is found by `turn_of`."""
    response.extensions[EXTENSION] = call
    return response


def _with_body(response: Any, call: Any, rewritten: type, observed: type, base: str) -> Any:
    """The response, which is still to be read, with a body of type `observed` or a copy with one of type `rewritten`.

    `base` names the type of the HTTP library that the body must have.
    """
    module = module_of(response)
    if call.observes:
        observation = Observation(response, call.managed, joined(Replay, module.SyncByteStream))
        if response.is_closed:
            observation.read(response.content)
        else:
            response.stream = joined(observed, getattr(module, base))(response.stream, observation)
        return _with_call(response, call)
    body = joined(rewritten, getattr(module, base))(response, call)
    copy = _copied(response, call, type(response), _own_headers(response), body)
    body.reader = weakref.ref(copy)
    return copy


def _with_reply(response: Any, payload: Body, reply: Body, call: Any) -> Any:
    """The response with `reply` as its content, or as it is if nothing changed."""
    if reply is payload:
        return _with_call(response, call)
    content = encode_json(reply)
    kind: Any = type(response)
    make, stream = joined(_ReplyResponse, kind), module_of(response).ByteStream(content)
    length = (b"Content-Length", b"%d" % len(content))
    copy: Any = _copied(response, call, make, [*_own_headers(response), length], stream)
    copy.hold(content, reply)
    copy_elapsed(response, copy)
    return copy


class _ReplyResponse:
    """A response whose content is known: an HTTP library would read it through its decoders, and parse it again."""

    def hold(self, content: bytes, reply: Body) -> None:
        self._held_content = content
        self._held_reply: Body | None = reply
        self.is_closed = self.is_stream_consumed = True

    @property
    def content(self) -> bytes:
        return self._held_content

    def read(self) -> bytes:
        return self._held_content

    async def aread(self) -> bytes:
        return self._held_content

    def iter_bytes(self, chunk_size: int | None = None) -> Iterator[bytes]:
        size = max(len(self._held_content) if chunk_size is None else chunk_size, 1)
        for at in range(0, len(self._held_content), size):
            yield self._held_content[at : at + size]

    async def aiter_bytes(self, chunk_size: int | None = None) -> AsyncIterator[bytes]:
        for chunk in self.iter_bytes(chunk_size):
            yield chunk

    def json(self, **options: Any) -> Any:
        """What the content says; whoever asks first, the SDK, gets the object that was encoded."""
        reply, self._held_reply = self._held_reply, None
        return json.loads(self._held_content, **options) if reply is None or options else reply

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled as what it stands for: a response of the HTTP library."""
        response: Any = self
        make: Any = type(self).__bases__[1]
        known = {"request": response.request, "history": response.history}
        plain = make(response.status_code, headers=response.headers.raw, content=self._held_content, **known)
        copy_elapsed(response, plain)
        return _same, (plain,)


def _same(response: Any) -> Any:
    return response


def _copied(response: Any, call: Any, make: Any, headers: list[tuple[bytes, bytes]], stream: Any) -> Any:
    """A copy of type `make` with other headers and another body.

    Only the copy holds `call`: a response that was received is part of a reference cycle of its HTTP library.
    """
    extensions = {**response.extensions, EXTENSION: call}
    return make(
        response.status_code,
        headers=headers,
        extensions=extensions,
        request=response.request,
        history=response.history,
        stream=stream,
    )


def _own_headers(response: Any) -> list[tuple[bytes, bytes]]:
    """The headers without those that describe the provider's bytes."""
    return [each for each in response.headers.raw if each[0].lower() not in (b"content-length", b"content-encoding")]
