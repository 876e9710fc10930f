"""The HTTP door: an httpx transport that adds context to every request to a model API it knows, by its URL.

It is for SDKs and frameworks that `wrap` does not know but that take an HTTP client or transport. A request becomes the
same turn as that of a wrapped client. All other requests pass unchanged.
"""

import logging
import os
from collections.abc import Callable, Mapping
from copy import copy
from importlib import import_module
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Literal, Unpack

from ctxwrap.clients.exchange import Exchange, ParkedCalls, decoded_content, without_own_headers
from ctxwrap.clients.http import OWN_REQUEST, CallInFlight, in_flight, joined, module_of
from ctxwrap.clients.preparation import prepare_calls
from ctxwrap.clients.responses import rewrite, rewrite_async
from ctxwrap.clients.rewritten_body import AsyncStoredCall, StoredCall, payload_in, stored_by
from ctxwrap.clients.sdk import split_headers
from ctxwrap.clients.sdk_call import with_cache_key
from ctxwrap.errors import UnsupportedClient
from ctxwrap.providers import adapter_at
from ctxwrap.providers.base import ProviderAdapter
from ctxwrap.session.threads import in_thread, in_thread_if
from ctxwrap.settings import Settings, SettingsDict, settings_from
from ctxwrap.stores import resolve_store
from ctxwrap.stores.base import Store
from ctxwrap.turn import async_, sync
from ctxwrap.turn.binding import ClientBinding
from ctxwrap.turn.document_updates import finish_documents
from ctxwrap.turn.lifecycle import PassthroughCall, why_stopped
from ctxwrap.types import Body, Send, SendAsync

if TYPE_CHECKING:
    import httpx

logger = logging.getLogger("ctxwrap")

Library = Literal["httpx", "httpx2"]

RETRY_WINDOW = 10.0
"""Seconds that a failed turn waits for its retry, beyond what `retry-after` says; SDKs wait 8 seconds at most."""

_LONGEST_WAIT = 60.0
"""The longest `retry-after` that SDKs follow."""

BODY_EXTENSION = "ctxwrap.body"
"""The request's extension with its parsed body, for a caller that has one."""

_BODY_DIGESTS = ("x-amz-content-sha256", "content-digest", "repr-digest", "digest", "content-md5", "signature-input")
_RETRIED = frozenset({408, 409, 425, 429})
_MAYBE_TOO_LONG = frozenset({400, 413, 422, 500})
_OTHER_APIS = ("/api/generate", "/converse", "/invoke")
"""Ends of the paths of model APIs without an adapter."""


class DoorOptions(SettingsDict, total=False):
    """What a door takes, as keywords: names of its calls, the store, and any setting."""

    session: str | None
    tenant: str
    agent: str
    user: str | None
    team: str | None
    store: Store | str | os.PathLike[str] | None
    settings: Settings | None


def transport(
    inner: Any = None,
    /,
    *,
    retry_window: float = RETRY_WINDOW,
    **options: Unpack[DoorOptions],
) -> Any:
    """`inner`, a transport of httpx or httpx2, with context; without `inner`, a new `httpx.HTTPTransport`.

    A call's session is the one in its header `x-ctxwrap-session`, else that of `using(...)`, else `session`; likewise
    its user and team.
    """
    inner = inner if inner is not None else import_module("httpx").HTTPTransport()
    binding = _binding(options)
    return joined(_Transport, module_of(inner).BaseTransport)(inner, binding, retry_window)


def async_transport(
    inner: Any = None,
    /,
    *,
    retry_window: float = RETRY_WINDOW,
    **options: Unpack[DoorOptions],
) -> Any:
    """The same for `AsyncClient`; without `inner`, over a new `httpx.AsyncHTTPTransport`."""
    inner = inner if inner is not None else import_module("httpx").AsyncHTTPTransport()
    binding = _binding(options)
    return joined(_AsyncTransport, module_of(inner).AsyncBaseTransport)(inner, binding, retry_window)


def http_client(
    *,
    retry_window: float = RETRY_WINDOW,
    library: Library = "httpx",
    client_options: Mapping[str, Any] | None = None,
    **options: Unpack[DoorOptions],
) -> "httpx.Client":
    """A client of httpx, or of httpx2, whose requests to model APIs have context, for anything that takes one.

    `client_options` are arguments of `httpx.Client`, such as `timeout` or `proxy`.
    """
    binding = _binding(options)
    client: httpx.Client = import_module(library).Client(**(client_options or {}))
    _open_door(client, lambda inner: joined(_Transport, module_of(inner).BaseTransport)(inner, binding, retry_window))
    return client


def async_http_client(
    *,
    retry_window: float = RETRY_WINDOW,
    library: Library = "httpx",
    client_options: Mapping[str, Any] | None = None,
    **options: Unpack[DoorOptions],
) -> "httpx.AsyncClient":
    """The same for async code."""
    binding = _binding(options)
    client: httpx.AsyncClient = import_module(library).AsyncClient(**(client_options or {}))
    _open_door(
        client, lambda inner: joined(_AsyncTransport, module_of(inner).AsyncBaseTransport)(inner, binding, retry_window)
    )
    return client


def _binding(options: DoorOptions) -> ClientBinding:
    given: dict[str, Any] = dict(options)
    names = {name: given.pop(name) for name in ("session", "tenant", "agent", "user", "team") if name in given}
    store = resolve_store(given.pop("store", None))
    settings = settings_from(given.pop("settings", None), **given)
    if settings.context_mode != "disabled":
        prepare_calls("o200k_base")
    return ClientBinding(store=store, settings=settings, **names)


def _open_door(client: Any, door: Callable[[Any], Any]) -> None:
    """Put the door before all transports of a client, also those to proxies."""
    client._transport = door(client._transport)
    client._mounts = {pattern: inner and door(inner) for pattern, inner in client._mounts.items()}


def behind_door(client: Any, binding: ClientBinding) -> Any:
    """A copy of an HTTP client, with the door before its transports, whose connections it shares."""
    made, module = copy(client), module_of(client)
    is_async = isinstance(client, module.AsyncClient)
    cls = joined(_AsyncTransport, module.AsyncBaseTransport) if is_async else joined(_Transport, module.BaseTransport)

    def door(inner: Any) -> Any:
        return cls(inner._inner if isinstance(inner, _Door) else inner, binding, RETRY_WINDOW)

    _open_door(made, door)
    return made


class _StatusError(Exception):
    """An error response, with the attributes by which an SDK's exception shows it."""

    def __init__(self, status_code: int, body: bytes) -> None:
        super().__init__(f"HTTP {status_code}")
        self.status_code, self.body = status_code, body


class _Door:
    """What the sync and the async transport share."""

    def __init__(self, inner: Any, binding: ClientBinding, retry_window: float) -> None:
        self._inner, self._binding = inner, binding
        self._parked = ParkedCalls(retry_window)
        self._warned = False

    def _adapter(self, request: Any) -> ProviderAdapter | None:
        """The adapter of the model API that a request calls; None if it passes unchanged."""
        if request.method != "POST" or in_flight.get() is not None:
            return None
        path = request.url.path
        adapter = adapter_at(path, request.url.query.decode("ascii"))
        is_signed = request.headers.get("authorization", "").startswith("AWS4-")
        if is_signed and (adapter is not None or "bedrock" in request.url.host):
            raise UnsupportedClient(
                f"the request to {request.url.host} is signed by its client over its body, so ctxwrap cannot add to "
                "it: use a client that sends a key or token, ctxwrap.wrap(boto3.client('bedrock-runtime')), or another "
                "HTTP client for this one"
            )
        if adapter is None:
            if path.endswith(_OTHER_APIS):
                self._warn(path)
            return None
        return adapter if "json" in request.headers.get("content-type", "") else None

    def _warn(self, path: str) -> None:
        if not self._warned:
            self._warned = True
            logger.warning("ctxwrap: it does not know the API at %s: such calls have no context", path[:200])

    def _exchange(self, request: Any, adapter: ProviderAdapter, content: bytes) -> Exchange | None:
        """The request with its scope; None if its body is no JSON object that can be read."""
        body = request.extensions.get(BODY_EXTENSION)
        if body is None:
            plain = decoded_content(content, request.headers.get("content-encoding", ""))
            body = None if plain is None else payload_in(plain)
        if body is None:
            return None
        scope = self._binding.call_scope(split_headers(request.headers)[1])
        if scope.mode not in ("disabled", "shadow"):
            _check_unsigned(request)
        adapter = with_cache_key(adapter, SimpleNamespace(base_url=request.url), self._binding, scope)
        return Exchange(request, content, body, adapter, scope)

    def _retried(self, exchange: Exchange) -> Any:
        return self._parked.take(exchange, ends_others=self._binding.settings.on_busy != "interleave")

    def _keeps(self, exchange: Exchange, call: Any, error: Any) -> bool:
        """Whether the turn stays open after `error`, an exception or a response, since a retry may follow."""
        if isinstance(call, PassthroughCall):
            return True
        if isinstance(error, BaseException):
            return isinstance(error, Exception) and self._parked.park(exchange, call, why_stopped(error))
        status, should = error.status_code, error.headers.get("x-should-retry")
        is_redirect = error.has_redirect_location
        if should == "false" or not (should == "true" or is_redirect or status in _RETRIED or status >= 500):
            return False
        return self._parked.park(
            exchange, call, f"provider_error: HTTP {status}", wait=_retry_after(error), is_redirect=is_redirect
        )

    def _finish(self) -> None:
        self._parked.end_all()
        if self._binding.sessions:
            finish_documents(self._binding.sessions)


def _check_unsigned(request: Any) -> None:
    digest = next((name for name in _BODY_DIGESTS if name in request.headers), None)
    if digest is not None:
        raise UnsupportedClient(
            f"the header {digest} is a digest of the request's body, so ctxwrap cannot add to it: turn it off, or use "
            "another HTTP client for this one"
        )


def _retry_after(response: Any) -> float:
    """Seconds that the provider asks to wait; 0 if it does not say, or more than SDKs wait."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            seconds = float(response.headers[name]) * unit
        except (KeyError, ValueError):
            continue
        return seconds if 0 <= seconds <= _LONGEST_WAIT else 0.0
    return 0.0


def _replayed(response: Any, raw: bytes) -> _StatusError:
    """The error in a response whose raw bytes were read; they can be read again."""
    module = module_of(response)
    response.stream = module.ByteStream(raw)
    body = raw
    if response.headers.get("content-encoding"):
        try:
            body = module.Response(response.status_code, headers=response.headers, content=raw).content
        except module.DecodingError:
            body = b""
    return _StatusError(response.status_code, body)


class _Transport(_Door):
    def handle_request(self, request: Any) -> Any:
        stored = None if in_flight.get() is not None else stored_by(request)
        if stored is not None:
            response = self._inner.handle_request(without_own_headers(request))
            return rewrite(_asked_by(request, response), StoredCall(stored)) if response.is_success else response
        adapter = self._adapter(request)
        exchange = None if adapter is None else self._exchange(request, adapter, request.read())
        if exchange is None:
            return self._inner.handle_request(without_own_headers(request))
        call = self._retried(exchange)
        if call is None:
            call = sync.begin(
                self._binding, exchange.adapter, exchange.plain_body, exchange.scope, self._sender(exchange)
            )
        return self._send(exchange, call)

    def close(self) -> None:
        self._finish()
        self._inner.close()

    def _send(self, exchange: Exchange, call: Any) -> Any:
        is_smaller = False
        while True:
            try:
                with CallInFlight(call):
                    response = self._inner.handle_request(exchange.outgoing(call, is_smaller=is_smaller))
                if response.is_success:
                    return rewrite(_asked_by(exchange.request, response), call)
                if isinstance(call, PassthroughCall) or not self._shrinks(response, call):
                    break
                is_smaller = True
            except BaseException as error:
                if not self._keeps(exchange, call, error):
                    call.stop(why_stopped(error))
                raise
        if not self._keeps(exchange, call, response):
            call.stop(f"provider_error: HTTP {response.status_code}")
        return response

    def _shrinks(self, response: Any, call: Any) -> bool:
        """Whether the provider refused a request as too long, and `call` now has a smaller one."""
        if response.status_code not in _MAYBE_TOO_LONG:
            return False
        raw = b"".join(response.stream)
        response.stream.close()
        return bool(call.shrink(_replayed(response, raw)))

    def _sender(self, exchange: Exchange) -> Send:
        def send(body: Body) -> Body:
            with CallInFlight(OWN_REQUEST):
                response = self._inner.handle_request(exchange.own_request(body))
                return _answer(response, response.read())

        return send


class _AsyncTransport(_Door):
    async def handle_async_request(self, request: Any) -> Any:
        stored = None if in_flight.get() is not None else stored_by(request)
        if stored is not None:
            response = await self._inner.handle_async_request(without_own_headers(request))
            return (
                await rewrite_async(_asked_by(request, response), AsyncStoredCall(stored))
                if response.is_success
                else response
            )
        adapter = self._adapter(request)
        exchange = None if adapter is None else self._exchange(request, adapter, await request.aread())
        if exchange is None:
            return await self._inner.handle_async_request(without_own_headers(request))
        call = await in_thread_if(not self._parked.is_empty, self._retried, exchange)
        if call is None:
            call = await async_.begin(
                self._binding, exchange.adapter, exchange.plain_body, exchange.scope, self._async_sender(exchange)
            )
        return await self._send(exchange, call)

    async def aclose(self) -> None:
        await in_thread(self._finish)
        await self._inner.aclose()

    async def _send(self, exchange: Exchange, call: Any) -> Any:
        is_smaller = False
        while True:
            try:
                with CallInFlight(call):
                    response = await self._inner.handle_async_request(exchange.outgoing(call, is_smaller=is_smaller))
                if response.is_success:
                    return await rewrite_async(_asked_by(exchange.request, response), call)
                if isinstance(call, PassthroughCall) or not await self._shrinks(response, call):
                    break
                is_smaller = True
            except BaseException as error:
                if not self._keeps(exchange, call, error):
                    await call.stop(why_stopped(error))
                raise
        if not self._keeps(exchange, call, response):
            await call.stop(f"provider_error: HTTP {response.status_code}")
        return response

    async def _shrinks(self, response: Any, call: Any) -> bool:
        if response.status_code not in _MAYBE_TOO_LONG:
            return False
        raw = b"".join([chunk async for chunk in response.stream])
        await response.stream.aclose()
        return bool(await call.shrink(_replayed(response, raw)))

    def _async_sender(self, exchange: Exchange) -> SendAsync:
        async def send(body: Body) -> Body:
            with CallInFlight(OWN_REQUEST):
                response = await self._inner.handle_async_request(exchange.own_request(body))
                return _answer(response, await response.aread())

        return send


def _asked_by(request: Any, response: Any) -> Any:
    """`response`, which knows the caller's request: a transport's response knows none yet."""
    response.request = request
    return response


def _answer(response: Any, content: bytes) -> Body:
    """The JSON of a reply to ctxwrap's own request."""
    payload = payload_in(content) if response.is_success else None
    if payload is None:
        raise _StatusError(response.status_code, content)
    return payload
