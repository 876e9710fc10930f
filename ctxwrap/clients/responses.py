"""Replaces the body of a response: by a rewritten one, or by one that the turn reads along."""

import weakref
from typing import Any

from ctxwrap.clients.http import joined, module_of
from ctxwrap.clients.observed_body import AsyncObservedBody, Observation, ObservedBody, Replay
from ctxwrap.clients.rewritten_body import (
    NOT_JSON,
    AsyncRewrittenBody,
    RewrittenBody,
    copy_elapsed,
    encoded,
    is_stream,
    payload_in,
)
from ctxwrap.turn.lifecycle import PassthroughCall
from ctxwrap.types import Body


def rewrite(response: Any, call: Any) -> Any:
    """The response that the SDK reads instead of `response`."""
    if isinstance(call, PassthroughCall):
        return response
    if not response.is_closed or is_stream(response):
        return _with_body(response, call, RewrittenBody, ObservedBody, "SyncByteStream")
    payload = payload_in(response.content)
    if payload is None:
        call.stop(NOT_JSON)
        return response
    return _with_reply(response, payload, call.reply(payload))


async def rewrite_async(response: Any, call: Any) -> Any:
    if isinstance(call, PassthroughCall):
        return response
    if not response.is_closed or is_stream(response):
        return _with_body(response, call, AsyncRewrittenBody, AsyncObservedBody, "AsyncByteStream")
    payload = payload_in(response.content)
    if payload is None:
        await call.stop(NOT_JSON)
        return response
    return _with_reply(response, payload, await call.reply(payload))


def _with_body(response: Any, call: Any, rewritten: type, observed: type, base: str) -> Any:
    """The response, which is still to be read, with a body of type `observed` or a copy with one of type `rewritten`.

    `base` names the type of the HTTP library that the body must have.
    """
    module = module_of(response)
    if call.observes:
        observation = Observation(response, call.managed, joined(Replay, module.SyncByteStream))
        if response.is_closed:
            observation.read(response.content)
            return response
        response.stream = joined(observed, getattr(module, base))(response.stream, observation)
        return response
    body = joined(rewritten, getattr(module, base))(response, call)
    copy = _copied(response, stream=body)
    body.reader = weakref.ref(copy)
    return copy


def _with_reply(response: Any, payload: Body, reply: Body) -> Any:
    """The response with `reply` as its content, or as it is if nothing changed."""
    if reply is payload:
        return response
    copy = _copied(response, content=encoded(reply))
    copy_elapsed(response, copy)
    return copy


def _copied(response: Any, **body: Any) -> Any:
    """A copy with another body, without the headers that describe the provider's bytes."""
    headers = [
        (name, value)
        for name, value in response.headers.multi_items()
        if name not in ("content-length", "content-encoding")
    ]
    make: Any = type(response)
    known = {"request": response.request, "extensions": response.extensions, "history": response.history}
    return make(response.status_code, headers=headers, **known, **body)
