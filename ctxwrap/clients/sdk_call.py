"""One call of an SDK's client: opens its turn, sends it, and returns the SDK's result."""

import json
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import copy
from enum import Enum
from functools import lru_cache
from typing import Any, cast

from ctxwrap.clients.http import EXTENSION, OWN_REQUEST, CallInFlight
from ctxwrap.clients.sdk import providers_of, split_headers
from ctxwrap.clients.sdk_arguments import PlainBody, are_texts, is_left_out, revealed
from ctxwrap.protocol.instructions import SEPARATOR, VERSION
from ctxwrap.protocol.reply import read_reply
from ctxwrap.protocol.snapshot import empty_state
from ctxwrap.providers import adapter_for
from ctxwrap.providers.base import ProviderAdapter
from ctxwrap.redaction.visibility import Target, check_target
from ctxwrap.turn import async_, sync
from ctxwrap.turn.binding import NO_SESSION_NAMES, CallScope, ClientBinding
from ctxwrap.turn.lifecycle import PassthroughCall, why_stopped
from ctxwrap.types import Body, Resource, Send, SendAsync, TurnRecord

_calls: dict[int, tuple[weakref.ref[Any], Any]] = {}
"""By identity: responses are models that cannot be hashed, and that show every attribute they are given."""


def remember(result: Any, call: Any) -> Any:
    """Return `result`, and let `turn_of` find `call` for it."""
    key, pop = id(result), _calls.pop  # during interpreter shutdown the module's names are gone

    def forget(_: Any) -> None:
        pop(key, None)

    try:
        known = weakref.ref(result, forget)
    except TypeError:  # a plain value, as with `cast_to=str`
        return result
    _calls[key] = known, call
    return result


def turn_of(result: Any) -> TurnRecord | None:
    """The record so far of the turn behind a response or stream; None for an object that ctxwrap does not know."""
    call = _call_of(result)
    return None if call is None else call.record


def resources_for(target: Target, result: Any, *, tool_call_id: str = "") -> tuple[Resource, ...]:
    """What of a call's context `target` may see, such as a tool that the reply calls.

    The log records that it was handed out, and for which tool call. Empty for an object that ctxwrap does not know and
    for calls without context.
    """
    call, wanted = _call_of(result), check_target(target)
    managed = getattr(call, "managed", None)
    return () if managed is None else cast(tuple[Resource, ...], managed.hand_out(wanted, tool_call_id))


def _call_of(result: Any) -> Any:
    known = _calls.get(id(result))
    return known[1] if known and known[0]() is result else _call_behind(result)


def _call_behind(result: Any) -> Any:
    """The call of an HTTP response, or of the one behind a stream, a stream helper, a raw response or boto3's dict."""
    if type(result) is dict:
        inner = result.get("ResponseMetadata")
        return None if inner is None else _call_of(inner)
    for name in ("", "http_response", "response", "_response", "_raw_stream"):
        inner = getattr(result, name, None) if name else result
        extensions = getattr(inner, "extensions", None)
        if isinstance(extensions, dict) and EXTENSION in extensions:
            return extensions[EXTENSION]
        if name == "_raw_stream" and inner is not None:
            return _call_behind(inner)
    return None


def with_cache_key(adapter: ProviderAdapter, client: Any, binding: ClientBinding, scope: CallScope) -> ProviderAdapter:
    """`adapter`, with a key for the provider's prompt cache if the client's provider takes one."""
    wanted = binding.settings.cache_key
    if scope.key is None or not adapter.cache_key_field or wanted is False:
        return adapter
    return adapter.with_cache_key(scope.key) if wanted or _is_at(client, adapter.cache_key_host) else adapter


def _is_at(client: Any, provider: str) -> bool:
    """Whether `client` calls the provider's own host or a regional one, such as eu.api.openai.com."""
    host = str(getattr(getattr(client, "base_url", None), "host", "")).lower()
    return bool(provider) and (host == provider or host.endswith(f".{provider}"))


_HEADERS = ("headers", "extra_headers")
_HEADER = "idempotency-key"


def with_new_idempotency_key(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a call with another idempotency key, if the caller gave one, for a request with another body.

    The new key depends only on the old one, so that a repeated call stays idempotent. Keys of the SDK are new with
    every request.
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
    """`value` as the JSON that an SDK makes of it."""
    if isinstance(value, dict):
        return value if _is_simple(value) else {name: to_jsonable(item) for name, item in value.items()}
    if isinstance(value, list):
        return list(value) if are_texts(value) else [to_jsonable(item) for item in value]
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, (str, int, float, type(None))):
        return value
    if hasattr(value, "model_dump") and not isinstance(value, type):
        return value.model_dump(mode="json", by_alias=True, exclude_unset=True, warnings=False)
    if isinstance(value, Iterable) and not isinstance(value, (bytes, bytearray, type)):
        return [to_jsonable(item) for item in value]
    return value


def _is_simple(message: dict[str, Any]) -> bool:
    """Whether all values are strings, as in most messages."""
    return set(map(type, message.values())) == {str}


def without_cycle(stream: Any) -> Any:
    """`stream` without the reference cycle between it and its generator, so that it is closed as soon as it is dropped.

    With the cycle, a dropped stream would keep its session and connection until the next garbage collection. The
    generator of the result reads a copy of the stream instead.
    """
    iterator: Any = getattr(stream, "__dict__", {}).get("_iterator")
    frame = getattr(iterator, "gi_frame", None) or getattr(iterator, "ag_frame", None)
    if frame is not None and frame.f_locals.get("self") is stream:
        source = copy(stream)
        del source._iterator
        stream._iterator = getattr(source, iterator.__name__)()
    return stream


def post(client: Any, send: Callable[..., Any], path: str, body: Any, options: Any, rest: dict[str, Any]) -> Any:
    """Send a call of `client` with `send`, the SDK's own `post`; with context if it goes to a model."""
    request = _SdkRequest(client, path, body, options)
    body, options = request.body, request.options
    if request.adapter is None:
        return send(path, body=body, options=options, **rest)
    ask = _sender(send, path, request.own_options)
    call = sync.begin(client._ctxwrap, request.adapter, request.plain_body, request.scope, ask)
    if isinstance(call, PassthroughCall):
        if call.body is not None:
            body, options = request.body_for(call.body), request.options_without_extra
        with CallInFlight(call):
            return remember(send(path, body=body, options=options, **rest), call)
    if call.rewrites:
        body, options = request.body_for(call.body), request.options_without_extra
    while True:
        try:
            with CallInFlight(call):
                result = send(path, body=body, options=options, **rest)
        except BaseException as error:
            if not call.shrink(error):
                call.stop(why_stopped(error))
                raise
        else:
            return remember(without_cycle(result), call)
        body, options = request.body_for(call.body), request.options_for_smaller


async def post_async(
    client: Any, send: Callable[..., Any], path: str, body: Any, options: Any, rest: dict[str, Any]
) -> Any:
    request = _SdkRequest(client, path, body, options)
    body, options = request.body, request.options
    if request.adapter is None:
        return await send(path, body=body, options=options, **rest)
    ask = _async_sender(send, path, request.own_options)
    call = await async_.begin(client._ctxwrap, request.adapter, request.plain_body, request.scope, ask)
    if isinstance(call, PassthroughCall):
        if call.body is not None:
            body, options = request.body_for(call.body), request.options_without_extra
        with CallInFlight(call):
            return remember(await send(path, body=body, options=options, **rest), call)
    if call.rewrites:
        body, options = request.body_for(call.body), request.options_without_extra
    while True:
        try:
            with CallInFlight(call):
                result = await send(path, body=body, options=options, **rest)
        except BaseException as error:
            if not await call.shrink(error):
                await call.stop(why_stopped(error))
                raise
        else:
            return remember(without_cycle(result), call)
        body, options = request.body_for(call.body), request.options_for_smaller


def _sender(post: Callable[..., Any], path: str, options: Callable[[], dict[str, Any]]) -> Send:
    """A function that sends a body of ctxwrap's own like the caller's, and returns the JSON of the reply."""

    def send(body: Body) -> Body:
        with CallInFlight(OWN_REQUEST):
            reply: Body = post(path, body=body, options=options(), cast_to=object)
            return reply

    return send


def _async_sender(post: Callable[..., Any], path: str, options: Callable[[], dict[str, Any]]) -> SendAsync:
    async def send(body: Body) -> Body:
        with CallInFlight(OWN_REQUEST):
            reply: Body = await post(path, body=body, options=options(), cast_to=object)
            return reply

    return send


class _SdkRequest:
    """The arguments of `post`, the adapter of its API (None if it goes to no model) and the scope of the call."""

    def __init__(self, client: Any, path: str, body: Any, options: Any) -> None:
        cls: Any = type(client)
        self.body = body = revealed(body)
        self.options = dict(options or {})
        headers, named = split_headers(self.options.get("headers"))
        if any(named):
            self.options["headers"] = headers
        self.adapter = _adapter_of(cls, path) if isinstance(body, dict) else None
        if self.adapter is None:
            return
        if type(body) is not PlainBody:
            self.body = {name: list(value) if isinstance(value, Iterator) else value for name, value in body.items()}
        own = split_headers(client._custom_headers)[1] if client._custom_headers else NO_SESSION_NAMES
        self.scope = client._ctxwrap.call_scope(named, own)
        self.adapter = with_cache_key(self.adapter, client, client._ctxwrap, self.scope)

    def plain_body(self) -> Body:
        """The body as the JSON that the SDK makes of it, with what `extra_body` adds."""
        extra = self.options.get("extra_json")
        if type(self.body) is PlainBody and not extra:
            return dict(self.body)
        body = {**self.body, **(extra or {})}
        return {name: to_jsonable(value) for name, value in body.items() if not is_left_out(value)}

    def body_for(self, body: Body) -> Body:
        """`body`, which was made of this request's; plain like it."""
        return PlainBody(body) if type(self.body) is PlainBody else body

    @property
    def options_without_extra(self) -> dict[str, Any]:
        if "extra_json" not in self.options:
            return self.options
        return {name: value for name, value in self.options.items() if name != "extra_json"}

    @property
    def options_for_smaller(self) -> dict[str, Any]:
        return with_new_idempotency_key(self.options_without_extra)

    def own_options(self) -> dict[str, Any]:
        """The options for a request of ctxwrap's own, whose reply is neither parsed nor wrapped for the caller."""
        options = {name: value for name, value in self.options.items() if name not in _CALLERS_OPTIONS}
        headers = options.get("headers") or {}
        own = {name: value for name, value in headers.items() if not name.lower().startswith("x-stainless-")}
        return {**options, "headers": own}


@lru_cache(maxsize=256)
def _adapter_of(cls: Any, path: str) -> ProviderAdapter | None:
    """The adapter of the API that a client's class calls at `path`."""
    return adapter_for(path, providers_of(cls))


_CALLERS_OPTIONS = frozenset({"extra_json", "post_parser", "idempotency_key"})


def read_sample() -> None:
    """Read a sample reply, so that all patterns are compiled before the first real one."""
    runtime = {"round": 1, "datetime": "2026-01-01T00:00:00.000001Z", "startup_at": "2026-01-01T00:00:00.000001Z"}
    state = {"version": VERSION, "runtime": runtime, **empty_state()}
    read_reply(f"Hello.\n\n{SEPARATOR}\n{json.dumps(state)}", runtime)
