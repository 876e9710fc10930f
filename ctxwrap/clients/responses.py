"""Replaces the body of a response: by a rewritten one, or by one that the turn reads along."""

import json
import weakref
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
    copy = _copied(response, call, _own_headers(response), body)
    body.reader = weakref.ref(copy)
    return copy


def _with_reply(response: Any, payload: Body, reply: Body, call: Any) -> Any:
    """The response with `reply` as its content, or as it is if nothing changed."""
    if reply is payload:
        return _with_call(response, call)
    content = encode_json(reply)
    headers = [*_own_headers(response), (b"Content-Length", b"%d" % len(content))]
    copy = _copied(response, call, headers, module_of(response).ByteStream(content))
    _put_content(copy, content)
    copy.json = _KnownJson(content, reply)
    copy_elapsed(response, copy)
    return copy


def _put_content(response: Any, content: bytes) -> None:
    """Make `response`, whose body has this content, one that was read.

    Its `read` passes all of it through decoders, which takes half the time of the whole copy; it does so only where the
    HTTP library keeps the content under another name.
    """
    response._content, response._num_bytes_downloaded = content, len(content)
    response.read()
    response.is_closed = response.is_stream_consumed = True


class _KnownJson:
    """`json` of a response whose content was made of `reply`: who asks first, the SDK, gets `reply` itself."""

    def __init__(self, content: bytes, reply: Body) -> None:
        self._content = content
        self._reply: Body | None = reply

    def __call__(self, **options: Any) -> Any:
        reply, self._reply = self._reply, None
        return json.loads(self._content, **options) if reply is None or options else reply


def _copied(response: Any, call: Any, headers: list[tuple[bytes, bytes]], stream: Any) -> Any:
    """A copy with other headers and another body.

    Only the copy holds `call`: a response that was received is part of a reference cycle of its HTTP library.
    """
    make: Any = type(response)
    known = {"request": response.request, "history": response.history}
    extensions = {**response.extensions, EXTENSION: call}
    copy = make(response.status_code, headers=headers, extensions=extensions, stream=stream, **known)
    copy.headers.encoding = response.headers.encoding  # found out by decoding all of them
    return copy


def _own_headers(response: Any) -> list[tuple[bytes, bytes]]:
    """The headers without those that describe the provider's bytes."""
    return [each for each in response.headers.raw if each[0].lower() not in (b"content-length", b"content-encoding")]
