"""The SDK's HTTP client, wrapped: the responses of a call in flight get a body without trailer."""

import logging
import sys
from contextlib import suppress
from contextvars import ContextVar
from functools import cache, lru_cache
from operator import itemgetter
from types import ModuleType
from typing import Any

from ctxwrap.clients.cookies import without_cookie_search

logger = logging.getLogger("ctxwrap")

EXTENSION = "ctxwrap"
"""The key of the response's extensions that holds its call."""

in_flight: ContextVar[Any] = ContextVar("ctxwrap_in_flight", default=None)
"""The call whose request the SDK is sending, also in retries."""

OWN_REQUEST: Any = object()
"""In flight while ctxwrap sends a request of its own, whose response stays as it is."""


class CallInFlight:  # a generator as context manager takes several times as long
    """Mark `call` as the one that the SDK is working for."""

    def __init__(self, call: Any) -> None:
        self._call = call

    def __enter__(self) -> None:
        self._token = in_flight.set(self._call)

    def __exit__(self, *error: object) -> None:
        in_flight.reset(self._token)


def facade(http_client: Any) -> Any:
    """`http_client` with a `send` of ours; all else is passed on to it."""
    if isinstance(http_client, _Delegating):
        return http_client
    module = module_of(http_client)
    if isinstance(http_client, module.AsyncClient):
        return joined(_AsyncFacade, module.AsyncClient)(http_client)
    return joined(_Facade, module.Client)(http_client)


def client_behind(facade: Any) -> Any:
    """The HTTP client that a facade passes everything on to."""
    return facade._inner


def is_http_client(value: Any) -> bool:
    """Whether `value` is a client of httpx or httpx2."""
    kind: Any = type(value)
    module = _module_of(kind)
    return module is not None and isinstance(value, (module.Client, module.AsyncClient))


@lru_cache(maxsize=64)
def _module_of(kind: type) -> ModuleType | None:
    for cls in kind.__mro__:
        name = cls.__module__.partition(".")[0]
        if name in ("httpx", "httpx2"):
            return sys.modules[name]
    return None


def module_of(value: Any) -> ModuleType:
    """The module that the type of `value` comes from: httpx or httpx2."""
    kind: Any = type(value)
    module = _module_of(kind)
    if module is not None:
        return module
    raise TypeError(
        f"{type(value).__name__} comes from neither httpx nor httpx2: pass a client of one of them as http_client"
    )


@cache
def joined(ours: type, theirs: type) -> type:
    """`ours` as a subclass of `theirs`, which passes the type checks of the HTTP library and the SDK."""
    return type(ours.__name__.lstrip("_"), (ours, theirs), {})


class _Delegating:
    """Passes everything but `send` on to the client it holds."""

    _OWN = frozenset({"_inner", "_sender", "_bypass_is_known", "send", "__class__"})

    def __init__(self, inner: Any) -> None:
        object.__setattr__(self, "_inner", inner)
        object.__setattr__(self, "_sender", without_cookie_search(inner))
        object.__setattr__(self, "_bypass_is_known", False)

    def __getattribute__(self, name: str) -> Any:
        if name in _Delegating._OWN:
            return object.__getattribute__(self, name)
        return getattr(object.__getattribute__(self, "_inner"), name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._inner, name, value)


class _Facade(_Delegating):
    def send(self, request: Any, **options: Any) -> Any:
        from ctxwrap.clients.responses import rewrite

        _drop_private_headers(request)
        call = in_flight.get()
        if call is None:
            from ctxwrap.clients.rewritten_body import StoredCall, stored_by

            adapter = stored_by(request)
            call = adapter and StoredCall(adapter)
            _warn_of_bypass(self, request)
        _report_sending(call)
        response = self._sender.send(request, **options)
        if call is None or call is OWN_REQUEST or not response.is_success:
            return response
        return rewrite(response, call)


class _AsyncFacade(_Delegating):
    async def send(self, request: Any, **options: Any) -> Any:
        from ctxwrap.clients.responses import rewrite_async

        _drop_private_headers(request)
        call = in_flight.get()
        if call is None:
            from ctxwrap.clients.rewritten_body import AsyncStoredCall, stored_by

            adapter = stored_by(request)
            call = adapter and AsyncStoredCall(adapter)
            _warn_of_bypass(self, request)
        _report_sending(call)
        response = await self._sender.send(request, **options)
        if call is None or call is OWN_REQUEST or not response.is_success:
            return response
        return await rewrite_async(response, call)


def _report_sending(call: Any) -> None:
    """Let the turn tell the span that is current now, such as that of an instrumentation of the SDK."""
    trace, managed = sys.modules.get("opentelemetry.trace"), getattr(call, "managed", None)
    if trace is None or managed is None:
        return
    with suppress(Exception):  # a span of others
        if trace.get_current_span().is_recording():
            managed.report_sending()


_PRIVATE = b"x-ctxwrap-"


def _drop_private_headers(request: Any) -> None:
    """Remove ctxwrap's headers, which may come with a client's default headers."""
    raw = request.headers.raw
    if _PRIVATE not in b"\n".join(map(itemgetter(0), raw)).lower():  # as in most requests
        return
    for name, _ in raw:
        if name.lower().startswith(_PRIVATE):
            request.headers.pop(name.decode(), None)


def _warn_of_bypass(client: _Delegating, request: Any) -> None:
    """Say once that a call of a model came here without `post` of the wrapped client, which opens its turn."""
    from ctxwrap.providers import adapter_at

    if client._bypass_is_known or request.method != "POST" or adapter_at(request.url.path) is None:
        return
    object.__setattr__(client, "_bypass_is_known", True)
    logger.warning(
        "ctxwrap: a call of %s used the HTTP client of a wrapped client, but not the wrapped client itself, so it has "
        "no context: pass on the wrapped client or its resource (client.chat.completions), or ctxwrap.http_client()",
        request.url.path[:200],
    )
