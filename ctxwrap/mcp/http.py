"""The tools over streamable HTTP: a gate that knows every request's tenant before it reads a body, and nothing else in.

The order of its questions: is it called by its own name, by no foreign page, with a token, at the one path there is,
and with JSON. Behind it each tenant has a server of its own, so that a session of one is unknown to another.
"""

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import anyio
import h11
import uvicorn
from anyio.abc import TaskGroup, TaskStatus
from mcp.server.mcpserver import MCPServer
from mcp.server.transport_security import TransportSecuritySettings
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from ctxwrap.errors import CtxwrapError, SettingsError
from ctxwrap.mcp.hosts import Address, is_our_page, is_ours
from ctxwrap.mcp.tokens import Tokens

PATH = "/mcp"

LARGEST_BODY = 1 << 20

SESSIONS = 256
"""So many sessions a tenant may have open; a request for one more is a 503."""

_IDLE = 15 * 60
"""After so many seconds without a request or an open stream a session ends."""

_STREAM = 15 * 60
"""So many seconds a stream for what the server has to say stays open."""

_CONNECTIONS = 512
"""While there are so many connections, requests over further ones are a 503."""

_PATIENCE = 3
"""Seconds for what is under way when the server is to end."""

_log = logging.getLogger(__name__)

_OWN_PAGES = (b"same-origin", b"none")


class Refusal(Exception):
    """A request that is not let in, with what it is told."""

    def __init__(self, status: int, told: str, **headers: str) -> None:
        super().__init__(told)
        self.answer = JSONResponse({"error": told}, status, {"cache-control": "no-store", **headers})


class Gate:
    """The ASGI application."""

    def __init__(self, server_for: Callable[[str], MCPServer], tokens: Tokens, hosts: frozenset[str]) -> None:
        self._tenants = _Tenants(server_for)
        self._tokens = tokens
        self._hosts = hosts
        self._life = Starlette(lifespan=self._tenants.running)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._life(scope, receive, send)
        elif scope["type"] == "http":
            await self._answer(scope, receive, send)
        else:
            raise ValueError("there is nothing but HTTP here")

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            app = await self._tenants.app_of(self._tenant_let_in(scope))
        except Refusal as refusal:
            app = refusal.answer
        if scope["method"] == "GET":
            await _ended_in_time(app, scope, receive, send)
        else:
            await app(scope, receive, send)

    def _tenant_let_in(self, scope: Scope) -> str:
        if not is_ours(_only(scope, b"host") or b"", self._hosts):
            raise Refusal(421, "this server is not known by the name in Host")
        self._check_page(scope)
        tenant = self._tokens.tenant_of(_only(scope, b"authorization") or b"")
        if tenant is None:
            raise Refusal(401, "send a token of this server as Authorization: Bearer", **{"www-authenticate": "Bearer"})
        if scope["path"] != PATH or (scope.get("raw_path") or PATH.encode()).partition(b"?")[0] != PATH.encode():
            raise Refusal(404, f"there is only {PATH} here")
        if scope["method"] == "POST" and not _is_json(_only(scope, b"content-type") or b""):
            raise Refusal(415, "a POST has the content-type application/json")
        return tenant

    def _check_page(self, scope: Scope) -> None:
        origin, site = _only(scope, b"origin"), _only(scope, b"sec-fetch-site")
        if origin is not None and not is_our_page(origin, self._hosts):
            raise Refusal(403, "no page of another origin may ask here")
        if site is not None and site not in _OWN_PAGES:
            raise Refusal(403, "no page of another site may ask here")


async def _ended_in_time(app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
    """Serve a stream for a while: nothing is sent on it here, and a client that still wants one asks again."""
    begun = False

    async def noted(message: Message) -> None:
        nonlocal begun
        begun = message["type"] == "http.response.start" or message.get("more_body", False)
        await send(message)

    with anyio.move_on_after(_STREAM) as waiting:
        await app(scope, receive, noted)
    if waiting.cancelled_caught and begun:
        await send({"type": "http.response.body", "body": b"", "more_body": False})


def _only(scope: Scope, name: bytes) -> bytes | None:
    """A header's value, None if there is none, and nothing that could be good if there are several."""
    values = [value for known, value in scope["headers"] if known == name]
    return None if not values else values[0] if len(values) == 1 else b""


def _is_json(content_type: bytes) -> bool:
    return content_type.partition(b";")[0].strip().lower() == b"application/json"


class _Tenants:
    """The servers of tenants, each from its first request on and until the end."""

    def __init__(self, server_for: Callable[[str], MCPServer]) -> None:
        self._server_for = server_for
        self._apps: dict[str, ASGIApp] = {}
        self._starting = anyio.Lock()
        self._group: TaskGroup | None = None

    @asynccontextmanager
    async def running(self, _: Starlette) -> AsyncIterator[None]:
        async with anyio.create_task_group() as self._group:
            yield
            self._group.cancel_scope.cancel()

    async def app_of(self, tenant: str) -> ASGIApp:
        async with self._starting:
            if tenant not in self._apps:
                assert self._group is not None, "the application's lifespan has not begun"
                self._apps[tenant] = await self._group.start(self._begin, tenant)
        return self._apps[tenant]

    async def _begin(self, tenant: str, *, task_status: TaskStatus[ASGIApp]) -> None:
        try:
            server = await anyio.to_thread.run_sync(self._server_for, tenant)
        except CtxwrapError as error:
            _log.warning("the server of a tenant did not start: %s", error)
            raise Refusal(
                503, "the memories of this token cannot be served now: ask whoever runs this server"
            ) from error
        await self._run(server, task_status)

    async def _run(self, server: MCPServer, task_status: TaskStatus[ASGIApp]) -> None:
        app = server.streamable_http_app(
            streamable_http_path=PATH,
            max_request_body_size=LARGEST_BODY,
            max_sessions=SESSIONS,
            session_idle_timeout=_IDLE,
            transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),  # the gate did it
        )
        async with app.router.lifespan_context(app):
            task_status.started(app)
            await anyio.sleep_forever()


def bound(address: Address) -> socket.socket:
    """The socket to serve on; its own name tells the port if any was asked for."""
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    try:
        return socket.create_server((address.host, address.port), family=family, backlog=128)
    except OSError as error:
        raise SettingsError(f"{address} cannot be listened on: {error.strerror or error}") from error


class Connection(H11Protocol):
    """One that has to bring each request, head and body, within some seconds, and to take what is sent.

    Whoever is slower is not waited for.
    """

    SECONDS = 30.0

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._unwatch()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._wait()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._unwatch()
        self._watch()

    def _watch(self) -> None:
        """Count from the first byte of a request, or from the beginning, until the last one is there."""
        if self.conn.their_state not in (h11.IDLE, h11.SEND_BODY):
            self._unwatch()
        else:
            self._wait()

    def _wait(self) -> None:
        if self._deadline is None:
            self._deadline = self.loop.call_later(self.SECONDS, self.transport.abort)

    def _unwatch(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


def serve(gate: Gate, listening: socket.socket) -> None:
    """Until a signal ends it: what is under way is finished first, within a few seconds."""
    server_of(gate).run(sockets=[listening])


def server_of(gate: Gate) -> uvicorn.Server:
    config = uvicorn.Config(
        gate,
        http=Connection,
        limit_concurrency=_CONNECTIONS,
        lifespan="on",
        ws="none",
        log_level="warning",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=_PATIENCE,
    )
    return uvicorn.Server(config)
