"""One call of an SDK client, from its body to its result."""

import json
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from copy import copy
from typing import Any

from ctxwrap.clients.http import APART, call_in_flight
from ctxwrap.clients.opaque import revealed
from ctxwrap.clients.results import remember
from ctxwrap.clients.sdk import split_headers
from ctxwrap.protocol.instructions import SEPARATOR, VERSION
from ctxwrap.protocol.reply import read_reply
from ctxwrap.protocol.snapshot import empty_state
from ctxwrap.providers import provider_for
from ctxwrap.providers.base import ProviderAdapter
from ctxwrap.turn import async_, sync
from ctxwrap.turn.binding import CallScope, ClientBinding
from ctxwrap.turn.lifecycle import PassthroughCall, why_stopped
from ctxwrap.types import Body, Send, SendAsync


def with_cache_key(adapter: ProviderAdapter, client: Any, context: ClientBinding, target: CallScope) -> ProviderAdapter:
    """`adapter` with a key for the provider's prompt cache where the client's provider takes one."""
    wanted = context.settings.cache_key
    if target.key is None or not adapter.cache_key_field or wanted is False:
        return adapter
    return adapter.with_cache_key(target.key) if wanted or _is_at(client, adapter.cache_key_host) else adapter


def _is_at(client: Any, provider: str) -> bool:
    """Whether `client` calls the provider's own host or a regional one, such as eu.api.openai.com."""
    host = str(getattr(getattr(client, "base_url", None), "host", "")).lower()
    return bool(provider) and (host == provider or host.endswith(f".{provider}"))


_HEADERS = ("headers", "extra_headers")
_HEADER = "idempotency-key"


def with_other_key(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a call, with another key where the caller gave one: the same for the same, so that it still works.

    An SDK's own keys are new with every call.
    """
    changed = dict(options)
    if isinstance(changed.get("idempotency_key"), str):
        changed["idempotency_key"] = _other(changed["idempotency_key"])
    for name in _HEADERS:
        if isinstance(changed.get(name), Mapping):
            changed[name] = {header: _header(header, value) for header, value in changed[name].items()}
    return changed


def _header(name: str, value: Any) -> Any:
    return _other(value) if name.lower() == _HEADER and isinstance(value, str) else value


def _other(key: str) -> str:
    return f"{key}-smaller"


def to_jsonable(value: Any) -> Any:
    """`value` as the JSON that an SDK would make of it."""
    if isinstance(value, dict):
        return value if _is_simple(value) else {name: to_jsonable(item) for name, item in value.items()}
    if isinstance(value, (str, int, float, type(None))):
        return value
    if hasattr(value, "model_dump") and not isinstance(value, type):
        return value.model_dump(mode="json", by_alias=True, exclude_unset=True, warnings=False)
    if isinstance(value, Iterable) and not isinstance(value, (bytes, bytearray, type)):
        return [to_jsonable(item) for item in value]
    return value


def _is_simple(message: dict[str, Any]) -> bool:
    """Whether there is nothing but text in it, as in most messages."""
    return set(map(type, message.values())) == {str}


def without_cycle(stream: Any) -> Any:
    """`stream`, which a generator over itself no longer keeps: it is closed when it is dropped.

    An SDK's stream may hold the generator that reads it, and that the stream, so that one which was dropped goes on
    having its session, and its connection, until garbage is collected. Here a copy of the stream is what is read.
    """
    iterator: Any = getattr(stream, "__dict__", {}).get("_iterator")
    frame = getattr(iterator, "gi_frame", None) or getattr(iterator, "ag_frame", None)
    if frame is not None and frame.f_locals.get("self") is stream:
        read = copy(stream)
        del read._iterator
        stream._iterator = getattr(read, iterator.__name__)()
    return stream


_EVENTSTREAM_CLIENTS = frozenset({"AnthropicBedrock", "AsyncAnthropicBedrock"})
"""Clients whose streams are AWS event streams, not server-sent events: they pass through."""


def post(client: Any, send: Callable[..., Any], path: str, body: Any, options: Any, rest: dict[str, Any]) -> Any:
    """Send a call of `client` by its SDK's own `send`, with context if it is one for a model."""
    asked = _Asked(client, path, body, options)
    body, options = asked.body, asked.options
    if asked.adapter is None:
        return send(path, body=body, options=options, **rest)
    own = _sender(send, path, asked.own_options)
    call = sync.begin(client._ctxwrap, asked.adapter, asked.plain_body, asked.target, own)
    if isinstance(call, PassthroughCall):
        if call.body is not None:
            body, options = call.body, asked.options_of_plain_body
        with call_in_flight(call):
            return remember(send(path, body=body, options=options, **rest), call)
    if call.rewrites:
        body, options = call.body, asked.options_of_plain_body
    while True:
        try:
            with call_in_flight(call):
                result = send(path, body=body, options=options, **rest)
        except BaseException as error:
            if not call.shrink(error):
                call.stop(why_stopped(error))
                raise
        else:
            return remember(without_cycle(result), call)
        body, options = call.body, asked.options_of_smaller_body


async def post_async(
    client: Any, send: Callable[..., Awaitable[Any]], path: str, body: Any, options: Any, rest: dict[str, Any]
) -> Any:
    """The same over async I/O."""
    asked = _Asked(client, path, body, options)
    body, options = asked.body, asked.options
    if asked.adapter is None:
        return await send(path, body=body, options=options, **rest)
    own = _async_sender(send, path, asked.own_options)
    call = await async_.begin(client._ctxwrap, asked.adapter, asked.plain_body, asked.target, own)
    if isinstance(call, PassthroughCall):
        if call.body is not None:
            body, options = call.body, asked.options_of_plain_body
        with call_in_flight(call):
            return remember(await send(path, body=body, options=options, **rest), call)
    if call.rewrites:
        body, options = call.body, asked.options_of_plain_body
    while True:
        try:
            with call_in_flight(call):
                result = await send(path, body=body, options=options, **rest)
        except BaseException as error:
            if not await call.shrink(error):
                await call.stop(why_stopped(error))
                raise
        else:
            return remember(without_cycle(result), call)
        body, options = call.body, asked.options_of_smaller_body


def _sender(post: Callable[..., Any], path: str, options: Callable[[], dict[str, Any]]) -> Send:
    """Sends bodies of our own as `post` sends the caller's, and gives the JSON that comes back."""

    def send(body: Body) -> Body:
        with call_in_flight(APART):
            reply: Body = post(path, body=body, options=options(), cast_to=object)
            return reply

    return send


def _async_sender(post: Callable[..., Any], path: str, options: Callable[[], dict[str, Any]]) -> SendAsync:
    async def send(body: Body) -> Body:
        with call_in_flight(APART):
            reply: Body = await post(path, body=body, options=options(), cast_to=object)
            return reply

    return send


class _Asked:
    """What a call of `post` asks of us: which API it calls, for whom, in which mode."""

    def __init__(self, client: Any, path: str, body: Any, options: Any) -> None:
        self.body = body = revealed(body)
        self.options = dict(options or {})
        headers, named = split_headers(self.options.get("headers"))
        if any(named):
            self.options["headers"] = headers
        self.adapter = provider_for(path) if isinstance(body, dict) and not _is_eventstream(client, body) else None
        if self.adapter is None:
            return
        self.body = {name: list(value) if isinstance(value, Iterator) else value for name, value in body.items()}
        self.target = client._ctxwrap.target(named, split_headers(client._custom_headers)[1])
        self.adapter = with_cache_key(self.adapter, client, client._ctxwrap, self.target)

    def plain_body(self) -> Body:
        """The body as the JSON that the SDK would make of it, with what `extra_body` adds."""
        given = {**self.body, **(self.options.get("extra_json") or {})}
        return {name: to_jsonable(value) for name, value in given.items() if not _is_left_out(value)}

    @property
    def options_of_plain_body(self) -> dict[str, Any]:
        return {name: value for name, value in self.options.items() if name != "extra_json"}

    @property
    def options_of_smaller_body(self) -> dict[str, Any]:
        return with_other_key(self.options_of_plain_body)

    def own_options(self) -> dict[str, Any]:
        """The same for a request of our own, whose reply is not parsed, wrapped or told apart for the caller."""
        options = {name: value for name, value in self.options.items() if name not in _CALLERS_OPTIONS}
        headers = options.get("headers") or {}
        own = {name: value for name, value in headers.items() if not name.lower().startswith("x-stainless-")}
        return {**options, "headers": own}


_CALLERS_OPTIONS = frozenset({"extra_json", "post_parser", "idempotency_key"})


def _is_left_out(value: Any) -> bool:
    """Whether an SDK put its own mark here for an argument that was not given."""
    return type(value).__name__ in ("Omit", "NotGiven")


def _is_eventstream(client: Any, body: Body) -> bool:
    return bool(body.get("stream")) and any(cls.__name__ in _EVENTSTREAM_CLIENTS for cls in type(client).__mro__)


def read_sample() -> None:
    """Read a reply of nobody's, so that the first real one finds all patterns compiled."""
    runtime = {"round": 1, "datetime": "2026-01-01T00:00:00.000001Z", "startup_at": "2026-01-01T00:00:00.000001Z"}
    state = {"version": VERSION, "runtime": runtime, **empty_state()}
    read_reply(f"Hello.\n\n{SEPARATOR}\n{json.dumps(state)}", runtime)
