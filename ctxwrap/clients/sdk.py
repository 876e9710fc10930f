"""The OpenAI and Anthropic clients: every call of theirs that talks to a model passes through `post`, once.

`post` runs above the SDK's retry loop, so a turn is one logical call however often it is sent. What it changes is
the body; what comes back is changed where the SDK reads it (`clients.http`).
"""

import inspect
from collections.abc import Callable, Iterator
from functools import cache, wraps
from typing import Any

from ctxwrap import drive, drive_async
from ctxwrap.calls import BareCall, why_stopped
from ctxwrap.clients.cache_key import with_cache_key
from ctxwrap.clients.http import APART, facade, flying
from ctxwrap.clients.idempotency import with_other_key
from ctxwrap.clients.keywords import give_keywords, split_headers, with_keywords
from ctxwrap.clients.opaque import revealed
from ctxwrap.clients.plain import plain_json
from ctxwrap.clients.results import remember
from ctxwrap.clients.streams import without_cycle
from ctxwrap.context import Context
from ctxwrap.documenting import finish
from ctxwrap.threads import in_thread
from ctxwrap.types import Body, Send, SendAsync
from ctxwrap.wires import wire_for

_EVENTSTREAM_CLIENTS = frozenset({"AnthropicBedrock", "AsyncAnthropicBedrock"})
"""Clients whose streams are AWS event streams, not server-sent events: they pass through."""


def is_sdk_client(client: Any) -> bool:
    """Whether `client` is a client of the OpenAI or Anthropic SDK, without importing either."""
    roots = [cls for cls in type(client).__mro__ if cls.__name__ in ("SyncAPIClient", "AsyncAPIClient")]
    return any(cls.__module__.partition(".")[0] in ("openai", "anthropic") for cls in roots)


def wrap_client(client: Any, context: Context) -> Any:
    """A copy of the client, of a subclass of its own type, that shares its connections."""
    wrapped = client.copy(http_client=facade(client._client))
    if not hasattr(client, "_ctxwrap"):
        cls: Any = type(client)
        wrapped.__class__ = _wrapped_class(cls)
    give_keywords(wrapped)
    wrapped._ctxwrap = context
    return wrapped


@cache
def _wrapped_class(cls: type) -> type:
    """A subclass of the client's class; one base only, or Python would not let an instance change to it."""
    base: Any = with_keywords(cls)
    made = _async_door(base) if inspect.iscoroutinefunction(base.post) else _door(base)
    made.__name__, made.__qualname__, made.__module__, made.__doc__ = (
        cls.__name__,
        cls.__qualname__,
        cls.__module__,
        cls.__doc__,
    )
    return made


def _door(base: Any) -> type:
    class Door(base):  # type: ignore[misc]
        @wraps(base.copy)
        def copy(self, **changes: Any) -> Any:
            return _copied(self, super().copy, changes)

        with_options = copy

        @wraps(base.close)
        def close(self) -> None:
            finish(self._ctxwrap.sessions)
            super().close()

        @wraps(base.post)
        def post(self, path: str, *, body: Any = None, options: Any = None, **rest: Any) -> Any:
            asked = _Asked(self, path, body, options)
            body, options = asked.body, asked.options
            if asked.wire is None:
                return super().post(path, body=body, options=options, **rest)
            send = _sender(super().post, path, asked.own_options)
            call = drive.begin(self._ctxwrap, asked.wire, asked.plain_body, asked.target, send)
            if isinstance(call, BareCall):
                if call.body is not None:
                    body, options = call.body, asked.options_of_plain_body
                with flying(call):
                    return remember(super().post(path, body=body, options=options, **rest), call)
            if call.rewrites:
                body, options = call.body, asked.options_of_plain_body
            while True:
                try:
                    with flying(call):
                        result = super().post(path, body=body, options=options, **rest)
                except BaseException as error:
                    if not call.smaller(error):
                        call.stop(why_stopped(error))
                        raise
                else:
                    return remember(without_cycle(result), call)
                body, options = call.body, asked.options_of_smaller_body

    return Door


def _async_door(base: Any) -> type:
    class AsyncDoor(base):  # type: ignore[misc]
        @wraps(base.copy)
        def copy(self, **changes: Any) -> Any:
            return _copied(self, super().copy, changes)

        with_options = copy

        @wraps(base.close)
        async def close(self) -> None:
            await in_thread(finish, self._ctxwrap.sessions)
            await super().close()

        @wraps(base.post)
        async def post(self, path: str, *, body: Any = None, options: Any = None, **rest: Any) -> Any:
            asked = _Asked(self, path, body, options)
            body, options = asked.body, asked.options
            if asked.wire is None:
                return await super().post(path, body=body, options=options, **rest)
            send = _async_sender(super().post, path, asked.own_options)
            call = await drive_async.begin(self._ctxwrap, asked.wire, asked.plain_body, asked.target, send)
            if isinstance(call, BareCall):
                if call.body is not None:
                    body, options = call.body, asked.options_of_plain_body
                with flying(call):
                    return remember(await super().post(path, body=body, options=options, **rest), call)
            if call.rewrites:
                body, options = call.body, asked.options_of_plain_body
            while True:
                try:
                    with flying(call):
                        result = await super().post(path, body=body, options=options, **rest)
                except BaseException as error:
                    if not await call.smaller(error):
                        await call.stop(why_stopped(error))
                        raise
                else:
                    return remember(without_cycle(result), call)
                body, options = call.body, asked.options_of_smaller_body

    return AsyncDoor


def _sender(post: Callable[..., Any], path: str, options: Callable[[], dict[str, Any]]) -> Send:
    """Sends bodies of our own as `post` sends the caller's, and gives the JSON that comes back."""

    def send(body: Body) -> Body:
        with flying(APART):
            reply: Body = post(path, body=body, options=options(), cast_to=object)
            return reply

    return send


def _async_sender(post: Callable[..., Any], path: str, options: Callable[[], dict[str, Any]]) -> SendAsync:
    async def send(body: Body) -> Body:
        with flying(APART):
            reply: Body = await post(path, body=body, options=options(), cast_to=object)
            return reply

    return send


def _copied(client: Any, copy: Callable[..., Any], changes: dict[str, Any]) -> Any:
    """A copy of a wrapped client, as wrapped as it is."""
    made = copy(**{**changes, "http_client": facade(changes.get("http_client") or client._client)})
    give_keywords(made)
    made._ctxwrap = client._ctxwrap
    return made


class _Asked:
    """What a call of `post` asks of us: which wire it speaks, for whom, in which mode."""

    def __init__(self, client: Any, path: str, body: Any, options: Any) -> None:
        self.body = body = revealed(body)
        self.options = dict(options or {})
        headers, named = split_headers(self.options.get("headers"))
        if any(named):
            self.options["headers"] = headers
        self.wire = wire_for(path) if isinstance(body, dict) and not _is_eventstream(client, body) else None
        if self.wire is None:
            return
        self.body = {name: list(value) if isinstance(value, Iterator) else value for name, value in body.items()}
        self.target = client._ctxwrap.target(named, split_headers(client._custom_headers)[1])
        self.wire = with_cache_key(self.wire, client, client._ctxwrap, self.target)

    def plain_body(self) -> Body:
        """The body as the JSON that the SDK would make of it, with what `extra_body` adds."""
        given = {**self.body, **(self.options.get("extra_json") or {})}
        return {name: plain_json(value) for name, value in given.items() if not _is_left_out(value)}

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
