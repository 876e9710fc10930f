"""The proxy as an ASGI application: requests go to their upstream through the HTTP door, and replies come back."""

import asyncio
import json
import logging
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from time import perf_counter
from typing import Any

import httpx
from starlette.types import Message, Receive, Scope, Send

from ctxwrap.clients.exchange import decoded_content
from ctxwrap.clients.http import EXTENSION
from ctxwrap.clients.rewritten_body import payload_in
from ctxwrap.clients.transport import BODY_EXTENSION, RETRY_WINDOW, async_transport
from ctxwrap.errors import CtxwrapError, InvalidId, QuotaExceeded, SessionBusy, SettingsError, UnsupportedClient
from ctxwrap.providers import adapter_at
from ctxwrap.providers.base import ProviderAdapter
from ctxwrap.service.serve.access import TOKEN_HEADER, Grant, Grants
from ctxwrap.service.serve.config import ServeConfig
from ctxwrap.service.serve.conversations import Conversations
from ctxwrap.service.serve.metrics import Metrics
from ctxwrap.service.serve.names import RequestNames, names_of
from ctxwrap.service.serve.routes import (
    RawHeaders,
    RefusedRequest,
    Route,
    api_of,
    check_headers,
    check_urls,
    reply_headers,
    route,
    upstream_headers,
)
from ctxwrap.service.serve.upstream import UpstreamTransport
from ctxwrap.service.web import foreign_page, is_known_host
from ctxwrap.session.scope import ScopeNames, using
from ctxwrap.session.threads import in_thread
from ctxwrap.settings import settings_from
from ctxwrap.stores import resolve_store
from ctxwrap.stores.base import Store
from ctxwrap.turn.async_ import AsyncCall
from ctxwrap.turn.document_updates import flush
from ctxwrap.turn.lifecycle import PassthroughCall
from ctxwrap.types import Body, SessionKey

logger = logging.getLogger("ctxwrap")

_CONNECT = 15.0
_STORE_PATIENCE = 2.0
_NOBODY = SessionKey("default", "default", "readiness")
_READABLE = ("gzip", "deflate", "identity")
"""Codings of replies that a turn can read."""


class ProxyApp:
    def __init__(self, config: ServeConfig, *, store: Store | None = None, inner: Any = None) -> None:
        self._config = config
        self._access = Grants(config.token_file, config.tokens)
        self._metrics = Metrics((each.name for each in config.upstreams), config.metrics)
        self._store = store if store is not None else resolve_store(config.store)
        self._conversations = Conversations(self._store)
        self._settings = settings_from(**config.settings)
        self._door = async_transport(
            inner if inner is not None else UpstreamTransport(),
            store=self._store,
            settings=self._settings,
            retry_window=RETRY_WINDOW if config.workers == 1 else 0.0,  # a retry may reach another worker
        )
        self._in_flight = self._held = 0
        self._is_leaving = False

    def leave(self) -> None:
        """Report not ready from now on."""
        self._is_leaving = True

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] == "http":
            await self._answer(scope, receive, send)
        else:
            raise ValueError("only HTTP is served")

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self._door.aclose()
        await in_thread(flush)
        await send({"type": "lifespan.shutdown.complete"})

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        own = {"/health": self._health, "/ready": self._ready, "/metrics": self._show_metrics}.get(scope["path"])
        if own is not None and scope["method"] in ("GET", "HEAD"):
            await own(send)
            return
        exchange = _Exchange(self, scope, receive, send)
        self._in_flight += 1
        self._metrics.add("ctxwrap_requests_in_flight")
        try:
            await exchange.run()
        except RefusedRequest as refusal:
            await self._refuse(exchange, refusal)
        except Exception:
            logger.exception("ctxwrap: a request failed in the proxy")
            if not exchange.has_started:
                await self._refuse(exchange, RefusedRequest(500, "the proxy failed; its log says why", "api_error"))
        finally:
            self._in_flight -= 1
            self._held -= exchange.held
            self._metrics.add("ctxwrap_requests_in_flight", -1.0)

    async def _refuse(self, exchange: "_Exchange", refusal: RefusedRequest) -> None:
        self._metrics.add(f'ctxwrap_refused_total{{status="{refusal.status}"}}')
        headers = {"cache-control": "no-store", **refusal.headers}
        if not exchange.is_read:
            headers["connection"] = "close"  # the rest of the body is not read
        if refusal.status in (400, 403, 404, 405, 413, 421):
            headers["x-should-retry"] = "false"
        content = json.dumps(refusal.body(api_of(exchange.scope))).encode()
        await _respond(exchange.send, refusal.status, content, "application/json", headers)

    # The server's own paths

    async def _health(self, send: Send) -> None:
        await _respond(send, 200, b"ok\n", "text/plain")

    async def _ready(self, send: Send) -> None:
        """503 while the store is away or the server stops. The store may be slow to say so."""
        obstacle = "shutting down" if self._is_leaving else ""
        if not obstacle:
            looking = asyncio.ensure_future(in_thread(self._look_at_store))
            done, _ = await asyncio.wait({looking}, timeout=_STORE_PATIENCE)
            obstacle = looking.result() if done else "the store does not answer"
        await _respond(send, 503 if obstacle else 200, f"{obstacle or 'ready'}\n".encode(), "text/plain")

    def _look_at_store(self) -> str:
        try:
            self._store.open(_NOBODY).pick("messages", [1])
        except (CtxwrapError, OSError) as error:
            logger.warning("ctxwrap: not ready: %s", error)
            return "the store is unavailable"
        return ""

    async def _show_metrics(self, send: Send) -> None:
        await _respond(send, 200, self._metrics.text().encode(), "text/plain; version=0.0.4; charset=utf-8")

    # For an exchange

    def admit(self, scope: Scope, headers: Mapping[str, str]) -> Grant | None:
        """The grant of a request's token, or None where none is needed; refuses everybody else."""
        if self._in_flight > self._config.limits.requests:
            raise RefusedRequest(503, "the proxy has too many requests", "overloaded_error", **{"retry-after": "1"})
        if self._access.is_open:
            if not is_known_host(headers.get("host", "").encode("latin-1"), self._config.hosts):
                raise RefusedRequest(421, "this server does not serve the name in Host")
            if reason := foreign_page(scope, self._config.hosts):
                raise RefusedRequest(403, reason, "permission_error")
            return None
        grant = self._access.grant_of(headers)
        if grant is None:
            raise RefusedRequest(401, "send a token of this proxy as the API key", "authentication_error")
        return grant

    def hold(self, size: int) -> None:
        """Count bytes of a body that is held in memory."""
        self._held += size
        if self._held > self._config.limits.memory:
            raise RefusedRequest(503, "the proxy holds too many requests", "overloaded_error", **{"retry-after": "1"})

    async def session_of(
        self, names: RequestNames, adapter: ProviderAdapter, body: Body, headers: Mapping[str, str]
    ) -> str | None:
        """The session of a call: the one it names, else the one of the server's rule; none for an auxiliary call."""
        rule = self._config.session
        if names.purpose is not None:
            return None
        if names.session is not None or rule == "none":
            return names.session
        if rule == "user":
            return "default" if names.user is not None else None
        if rule == "token":
            return f"token-{names.owner}"
        if rule.startswith("="):
            return rule[1:]
        is_retry = headers.get("x-stainless-retry-count", "0") != "0"
        try:
            request = adapter.read(body)
            return await in_thread(self._conversations.session_of, names, request, is_retry=is_retry)
        except Exception as error:
            if self._settings.strict:
                raise RefusedRequest(503, str(error), "api_error") from error
            logger.warning("ctxwrap: a call has no context, since its session was not found: %s", error)
            return None

    async def send(self, request: httpx.Request, scope: ScopeNames) -> httpx.Response:
        """Send a request through the door; what fails before there is a reply is a refusal."""
        try:
            with using(**scope):
                response: httpx.Response = await self._door.handle_async_request(request)
        except (InvalidId, SettingsError, UnsupportedClient) as error:
            raise RefusedRequest(400, str(error)) from error
        except SessionBusy as error:
            raise RefusedRequest(409, str(error), "conflict_error") from error
        except QuotaExceeded as error:
            raise RefusedRequest(429, str(error), "rate_limit_error") from error
        except CtxwrapError as error:
            raise RefusedRequest(503, str(error), "api_error") from error
        except httpx.TimeoutException as error:
            raise RefusedRequest(504, "the upstream did not answer in time", "timeout_error") from error
        except httpx.TransportError as error:
            raise RefusedRequest(
                502, f"the upstream cannot be reached ({type(error).__name__})", "api_error"
            ) from error
        return response

    @property
    def config(self) -> ServeConfig:
        return self._config

    @property
    def metrics(self) -> Metrics:
        return self._metrics


class _Exchange:
    """One request and its reply."""

    def __init__(self, app: ProxyApp, scope: Scope, receive: Receive, send: Send) -> None:
        self._app, self.scope, self._receive = app, scope, receive
        self._send = send
        self._begun = perf_counter()
        self.has_started = False
        self.held = 0
        """The bytes of its body that count as held."""
        self.is_read = False

    async def send(self, message: Message) -> None:
        if not self.has_started:
            self.has_started = True
            self._app.metrics.observe("ctxwrap_first_byte_seconds", perf_counter() - self._begun)
        await self._send(message)

    async def run(self) -> None:
        """Answer while the client is there and the time lasts."""
        headers = check_headers(self.scope["headers"])
        grant = self._app.admit(self.scope, headers)
        to = route(self.scope, self._app.config)
        content = await self._content(headers)
        work = asyncio.ensure_future(self._relay(to, grant, headers, content))
        gone = asyncio.ensure_future(self._until_gone())
        try:
            await asyncio.wait({work, gone}, timeout=self._seconds_left, return_when=asyncio.FIRST_COMPLETED)
        finally:
            is_late = not work.done() and not gone.done()
            gone.cancel()
            if not work.done():
                work.cancel()
                self._cut("server" if is_late else "client")
            with suppress(asyncio.CancelledError):
                await gone
            await asyncio.wait({work})
        if work.cancelled():
            if is_late and not self.has_started:
                raise RefusedRequest(504, "the request took too long", "timeout_error")
            return
        work.result()

    @property
    def _seconds_left(self) -> float:
        return max(self._app.config.limits.seconds - (perf_counter() - self._begun), 0.0)

    async def _until_gone(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass

    def _cut(self, side: str) -> None:
        self._app.metrics.add(f'ctxwrap_streams_cut_total{{by="{side}"}}')

    async def _content(self, headers: Mapping[str, str]) -> bytes:
        """The request's body, as far as it may be long."""
        largest = self._app.config.limits.body
        if headers.get("content-length", "0").isdecimal() and int(headers.get("content-length", "0")) > largest:
            raise RefusedRequest(413, f"the body is longer than {largest} bytes", "request_too_large")
        pieces: list[bytes] = []
        more = True
        while more:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise RefusedRequest(408, "the client left before its request was complete", "timeout_error")
            piece, more = message.get("body", b""), message.get("more_body", False)
            if self.held + len(piece) > largest:
                raise RefusedRequest(413, f"the body is longer than {largest} bytes", "request_too_large")
            self.held += len(piece)
            self._app.hold(len(piece))
            pieces.append(piece)
        self.is_read = True
        return b"".join(pieces)

    async def _relay(self, to: Route, grant: Grant | None, headers: dict[str, str], content: bytes) -> None:
        is_own_key = grant is None or TOKEN_HEADER in headers
        if not is_own_key and not to.upstream.key:
            raise RefusedRequest(
                401,
                f"the proxy has no key for {to.upstream.name}: send yours as API key, and the token as {TOKEN_HEADER}",
                "authentication_error",
            )
        raw = upstream_headers(self.scope["headers"], to.upstream, drops_credentials=not is_own_key)
        url = _url(to.upstream.url)
        url = url.copy_with(raw_path=url.raw_path.rstrip(b"/") + to.target)
        session, scope = None, ScopeNames()
        adapter = adapter_at(url.path) if self.scope["method"] == "POST" else None
        plain = decoded_content(content, headers.get("content-encoding", ""))
        body = None if plain is None or "json" not in headers.get("content-type", "") else payload_in(plain)
        if body is not None:
            check_urls(body)
        if adapter is not None:
            names = names_of(headers, body or {}, grant, self._app.config.tenant)
            session = None if body is None else await self._app.session_of(names, adapter, body, headers)
            scope = names.scope(session)
            raw = _readable_codings(raw)
        raw.append((b"host", url.netloc))
        if content or self.scope["method"] in ("POST", "PUT", "PATCH"):
            raw.append((b"content-length", b"%d" % len(content)))
        seconds = self._app.config.limits.seconds
        timeout = {"connect": _CONNECT, "read": seconds, "write": _CONNECT, "pool": _CONNECT}
        extensions = {"timeout": timeout, BODY_EXTENSION: body}
        request = httpx.Request(
            self.scope["method"], url, headers=raw, stream=httpx.ByteStream(content), extensions=extensions
        )
        response = await self._app.send(request, scope)
        await self._reply(to, response, session)

    async def _reply(self, to: Route, response: httpx.Response, session: str | None) -> None:
        """Stream a response to the client. If it breaks off, so does the client's."""
        status = response.status_code
        self._app.metrics.add(f'ctxwrap_requests_total{{upstream="{to.upstream.name}",status="{status // 100}xx"}}')
        raw = reply_headers(response.headers.raw)
        call = response.extensions.get(EXTENSION)
        if session is not None and _has_context(call) and _is_header(session):
            raw.append((b"x-ctxwrap-session", session.encode("ascii")))
        stream: Any = response.stream
        try:
            await self.send({"type": "http.response.start", "status": status, "headers": raw})
            last = b""  # of a reply with a length the end is visible before the turn is saved, unless it waits
            async for chunk in stream:
                chunk, last = (last, chunk) if "content-length" in response.headers else (chunk, b"")
                await self.send({"type": "http.response.body", "body": chunk, "more_body": True})
            await self.send({"type": "http.response.body", "body": last, "more_body": True})
        except Exception as error:
            logger.warning("ctxwrap: a reply of %s broke off: %r", to.upstream.name, error)
            self._cut("upstream")
            return  # without the end of the body, by which the server closes the connection
        finally:
            await stream.aclose()
            self._count(call)
        await self.send({"type": "http.response.body", "body": b"", "more_body": False})
        self._app.metrics.observe("ctxwrap_request_seconds", perf_counter() - self._begun)

    def _count(self, call: Any) -> None:
        if call is not None:
            self._app.metrics.add(f'ctxwrap_turns_total{{outcome="{_outcome(call)}"}}')


_url = cache(httpx.URL)


def _has_context(call: Any) -> bool:
    return isinstance(call, AsyncCall) and call.managed.turn.mode != "disabled"


def _outcome(call: AsyncCall | PassthroughCall) -> str:
    if isinstance(call, PassthroughCall):
        return "not_saved" if call.record.report.not_saved else "without_context"
    if call.managed.not_saved:
        return "not_saved"
    return "complete" if call.managed.turn.status == "complete" else "aborted"


def _is_header(text: str) -> bool:
    return text.isascii() and text.isprintable() and text == text.strip()


def _readable_codings(headers: RawHeaders) -> RawHeaders:
    """The headers, in which the client accepts only codings that a turn can read."""
    accepted = b",".join(value for name, value in headers if name == b"accept-encoding").decode("latin-1").split(",")
    readable = [each.strip() for each in accepted if each.partition(";")[0].strip().lower() in _READABLE]
    if len(readable) == len(accepted):
        return headers
    kept = [(name, value) for name, value in headers if name != b"accept-encoding"]
    return [*kept, (b"accept-encoding", ", ".join(readable or ["identity"]).encode("latin-1"))]


async def _respond(
    send: Send, status: int, content: bytes, content_type: str, headers: Mapping[str, str] | None = None
) -> None:
    """Send a whole reply of the server's own."""
    named = {"content-type": content_type, "content-length": str(len(content)), **(headers or {})}
    raw = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in named.items()]
    await send({"type": "http.response.start", "status": status, "headers": raw})
    await send({"type": "http.response.body", "body": content})
