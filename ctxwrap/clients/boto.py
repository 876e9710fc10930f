"""Wraps Bedrock's clients of boto3 and aiobotocore, above where they sign: `converse` and `converse_stream`.

All other operations pass unchanged. The client's own event handlers see the request as it is sent.
"""

import weakref
from collections.abc import AsyncIterator, Callable, Iterator
from copy import copy
from functools import cache, partial, wraps
from inspect import iscoroutinefunction
from typing import Any

from ctxwrap.clients.function_call import (
    EventQueue,
    ResultForm,
    async_sender,
    finished,
    finished_async,
    scope_of,
    sender,
)
from ctxwrap.clients.sdk import finish_sessions, named_like, prepare_calls
from ctxwrap.clients.sdk_call import remember
from ctxwrap.session.threads import in_thread
from ctxwrap.turn import async_, sync
from ctxwrap.turn.binding import ClientBinding
from ctxwrap.types import Body

_WHOLE = "Converse"
_OPERATIONS = {_WHOLE: "/converse", "ConverseStream": "/converse-stream"}


def is_boto(client: Any) -> bool:
    """Whether `client` is one of boto3 or aiobotocore, for any service."""
    return any(cls.__module__ == "botocore.client" and cls.__name__ == "BaseClient" for cls in type(client).__mro__)


def is_bedrock(client: Any) -> bool:
    return is_boto(client) and client.meta.service_model.service_name == "bedrock-runtime"


def wrap_bedrock(client: Any, binding: ClientBinding) -> Any:
    """A copy of the client that shares its connections; its type is a subclass of the client's."""
    cls: Any = type(client)
    wrapped: Any = object.__new__(cls if hasattr(client, "_ctxwrap") else _wrapped_class(cls))
    vars(wrapped).update(vars(client), _ctxwrap=binding)
    prepare_calls(cls, binding)
    return wrapped


@cache
def _wrapped_class(cls: type) -> type:
    base: Any = cls
    made = _async_client_class(base) if iscoroutinefunction(base.close) else _client_class(base)
    return named_like(made, cls)


def _client_class(base: Any) -> type:
    class Client(base):  # type: ignore[misc]
        @wraps(base.close)
        def close(self) -> None:
            finish_sessions(self._ctxwrap)
            super().close()

        @wraps(base._make_api_call)
        def _make_api_call(self, operation_name: str, api_params: Any) -> Any:
            return _call(self._ctxwrap, super()._make_api_call, operation_name, dict(api_params))

    return Client


def _async_client_class(base: Any) -> type:
    class AsyncClient(base):  # type: ignore[misc]
        @wraps(base.close)
        async def close(self) -> None:
            await in_thread(finish_sessions, self._ctxwrap)
            await super().close()

        @wraps(base._make_api_call)
        async def _make_api_call(self, operation_name: str, api_params: Any) -> Any:
            return await _async_call(self._ctxwrap, super()._make_api_call, operation_name, dict(api_params))

    return AsyncClient


def _call(binding: ClientBinding, send: Callable[..., Any], operation: str, params: Body) -> Any:
    scope = scope_of(binding, params) if operation in _OPERATIONS else None
    if scope is None:
        return send(operation, params)
    ask = sender(partial(_sent, send, _WHOLE), _FORM)
    turn = sync.begin(binding, _adapter(operation), lambda: params, scope, ask)
    return _known(finished(partial(_sent, send, operation), turn, _FORM, (), params), turn)


async def _async_call(binding: ClientBinding, send: Callable[..., Any], operation: str, params: Body) -> Any:
    scope = scope_of(binding, params) if operation in _OPERATIONS else None
    if scope is None:
        return await send(operation, params)
    ask = async_sender(partial(_sent, send, _WHOLE), _FORM)
    turn = await async_.begin(binding, _adapter(operation), lambda: params, scope, ask)
    return _known(await finished_async(partial(_sent, send, operation), turn, _FORM, (), params), turn)


@cache
def _adapter(operation: str) -> Any:
    from ctxwrap.providers.bedrock import CONVERSE

    return CONVERSE.at(_OPERATIONS[operation], "")


def _sent(send: Callable[..., Any], operation: str, **params: Any) -> Any:
    return send(operation, params)


class _Metadata(dict[str, Any]):
    """The metadata of a response, to which `turn_of` can refer; a copy of it is a dict."""

    def __reduce__(self) -> Any:
        return dict, (dict(self),)


def _known(result: Body, turn: Any) -> Body:
    """`result`, for which `turn_of` finds the turn: boto3's responses are dicts, which cannot be referred to weakly."""
    if "ResponseMetadata" in result:
        result["ResponseMetadata"] = remember(_Metadata(result["ResponseMetadata"]), turn)
    return result


def _show(result: Body, dumped: Body, reply: Body) -> None:
    result.update(reply)


def _rewritten_stream(result: Body, call: Any) -> Body:
    stream = copy(result["stream"])  # a generator of its own holds the original, which would stay until it is collected
    cls: Any = type(stream)
    stream.__class__ = _stream_class(cls)
    stream._ctxwrap_queue = EventQueue(call)
    weakref.finalize(stream, call.abandon)
    result["stream"] = remember(stream, call)
    return result


@cache
def _stream_class(cls: Any) -> type:
    """A subclass of a stream's class whose events come without the trailer. It can be read in several loops."""
    member, events = ("__aiter__", _async_events) if hasattr(cls, "__aiter__") else ("__iter__", _events)

    class Events(cls):  # type: ignore[misc]
        def close(self) -> None:
            try:
                super().close()
            finally:
                self._ctxwrap_queue.call.managed.save("closed")

    def read(self: Any) -> Any:
        return events(self._ctxwrap_queue, getattr(cls, member)(self))

    setattr(Events, member, read)
    return named_like(Events, cls)


def _events(queue: EventQueue, events: Iterator[Any]) -> Iterator[Any]:
    while True:
        try:
            event = queue.read(events.__next__)
        except StopIteration:
            return
        yield event


async def _async_events(queue: EventQueue, events: AsyncIterator[Any]) -> AsyncIterator[Any]:
    while True:
        try:
            event = await queue.read_async(events.__anext__)
        except StopAsyncIteration:
            return
        yield event


_FORM = ResultForm(lambda result: result, _show, lambda result: "stream" in result, _rewritten_stream)
