"""Responses of calls in flight with another body: rewritten, or observed."""

import weakref
from typing import Any

from ctxwrap.clients.http import joined, module_of
from ctxwrap.clients.observed_body import AsyncObservedBody, Observation, ObservedBody, Replay
from ctxwrap.clients.rewritten_body import (
    AsyncRewrittenBody,
    RewrittenBody,
    encoded,
    is_stream,
    pass_on_elapsed,
    payload_in,
)
from ctxwrap.turn.lifecycle import PassthroughCall
from ctxwrap.types import Body

_NO_REPLY = "the reply is no JSON object"


def rewritten(response: Any, call: Any) -> Any:
    """What the SDK reads instead of `response`."""
    if isinstance(call, PassthroughCall):
        return response
    if not response.is_closed or is_stream(response):
        return _opened(response, call, RewrittenBody, ObservedBody, "SyncByteStream")
    payload = payload_in(response.content)
    if payload is None:
        call.stop(_NO_REPLY)
        return response
    return _replaced(response, payload, call.reply(payload))


async def rewritten_async(response: Any, call: Any) -> Any:
    """The same over async I/O."""
    if isinstance(call, PassthroughCall):
        return response
    if not response.is_closed or is_stream(response):
        return _opened(response, call, AsyncRewrittenBody, AsyncObservedBody, "AsyncByteStream")
    payload = payload_in(response.content)
    if payload is None:
        await call.stop(_NO_REPLY)
        return response
    return _replaced(response, payload, await call.reply(payload))


def _opened(response: Any, call: Any, rewritten: type, observed: type, base: str) -> Any:
    """A response that is still to be read, with a body that tells the call what goes by."""
    module = module_of(response)
    if call.observes:
        observation = Observation(response, call.opened, joined(Replay, module.SyncByteStream))
        if response.is_closed:
            observation.read(response.content)
            return response
        response.stream = joined(observed, getattr(module, base))(response.stream, observation)
        return response
    body = joined(rewritten, getattr(module, base))(response, call)
    changed = _copied(response, stream=body)
    body.reader = weakref.ref(changed)
    return changed


def _replaced(response: Any, payload: Body, reply: Body) -> Any:
    """The response with `reply` for its content, or as it is if nothing changed."""
    if reply is payload:
        return response
    changed = _copied(response, content=encoded(reply))
    pass_on_elapsed(response, changed)
    return changed


def _copied(response: Any, **body: Any) -> Any:
    """The response with another body; its length and encoding were those of the provider's bytes."""
    headers = [
        (name, value)
        for name, value in response.headers.multi_items()
        if name not in ("content-length", "content-encoding")
    ]
    make: Any = type(response)
    known = {"request": response.request, "extensions": response.extensions, "history": response.history}
    return make(response.status_code, headers=headers, **known, **body)
