"""MCP over streamable HTTP; requests are authenticated before their bodies are read."""

import logging
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import anyio
import uvicorn
from anyio.abc import TaskGroup, TaskStatus
from mcp.server.mcpserver import MCPServer
from mcp.server.transport_security import TransportSecuritySettings
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ctxwrap.errors import CtxwrapError
from ctxwrap.service.mcp.auth import Tokens
from ctxwrap.service.web import HttpConnection, foreign_page, is_known_host, single_header

PATH = "/mcp"

LARGEST_BODY = 1 << 20

SESSIONS = 256
"""Most open sessions per tenant; further ones get a 503."""

_IDLE = 15 * 60
"""Seconds without a request or open stream after which a session ends."""

_STREAM = 15 * 60
"""Seconds that a stream of server messages stays open."""

_CONNECTIONS = 512
"""Most open connections; requests on further ones get a 503."""

_SHUTDOWN = 3
"""Seconds for running requests when the server stops."""

_log = logging.getLogger(__name__)


class Refusal(Exception):
    """A rejected request, with its response."""

    def __init__(self, status: int, message: str, **headers: str) -> None:
        super().__init__(message)
        self.response = JSONResponse({"error": message}, status, {"cache-control": "no-store", **headers})


class AuthenticatedApp:
    """The ASGI application: authenticates requests and passes them to the server of their tenant."""

    def __init__(self, server_for: Callable[[str], MCPServer], tokens: Tokens, hosts: frozenset[str]) -> None:
        self._tenants = _Tenants(server_for)
        self._tokens = tokens
        self._hosts = hosts
        self._lifespan = Starlette(lifespan=self._tenants.running)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._lifespan(scope, receive, send)
        elif scope["type"] == "http":
            await self._answer(scope, receive, send)
        else:
            raise ValueError("only HTTP is supported")

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            app = await self._tenants.app_of(self._authenticate(scope))
        except Refusal as refusal:
            app = refusal.response
        if scope["method"] == "GET":
            await _serve_with_limit(app, scope, receive, send)
        else:
            await app(scope, receive, send)

    def _authenticate(self, scope: Scope) -> str:
        if not is_known_host(single_header(scope, b"host") or b"", self._hosts):
            raise Refusal(421, "this server does not serve the name in Host")
        if reason := foreign_page(scope, self._hosts):
            raise Refusal(403, reason)
        tenant = self._tokens.tenant_of(single_header(scope, b"authorization") or b"")
        if tenant is None:
            raise Refusal(401, "send a token of this server as Authorization: Bearer", **{"www-authenticate": "Bearer"})
        if scope["path"] != PATH or (scope.get("raw_path") or PATH.encode()).partition(b"?")[0] != PATH.encode():
            raise Refusal(404, f"the only path is {PATH}")
        if scope["method"] == "POST" and not _is_json(single_header(scope, b"content-type") or b""):
            raise Refusal(415, "a POST needs the content-type application/json")
        return tenant


async def _serve_with_limit(app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
    """Serve a stream for a limited time; a client that still needs one reconnects."""
    has_started = False

    async def send_and_note(message: Message) -> None:
        nonlocal has_started
        has_started = message["type"] == "http.response.start" or message.get("more_body", False)
        await send(message)

    with anyio.move_on_after(_STREAM) as limit:
        await app(scope, receive, send_and_note)
    if limit.cancelled_caught and has_started:
        await send({"type": "http.response.body", "body": b"", "more_body": False})


def _is_json(content_type: bytes) -> bool:
    return content_type.partition(b";")[0].strip().lower() == b"application/json"


class _Tenants:
    """The servers of tenants, each started at its first request."""

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
            raise Refusal(503, "the memories of this token are unavailable: ask the operator of this server") from error
        await self._run(server, task_status)

    async def _run(self, server: MCPServer, task_status: TaskStatus[ASGIApp]) -> None:
        app = server.streamable_http_app(
            streamable_http_path=PATH,
            max_request_body_size=LARGEST_BODY,
            max_sessions=SESSIONS,
            session_idle_timeout=_IDLE,
            transport_security=TransportSecuritySettings(
                enable_dns_rebinding_protection=False
            ),  # AuthenticatedApp checks hosts
        )
        async with app.router.lifespan_context(app):
            task_status.started(app)
            await anyio.sleep_forever()


def serve(app: AuthenticatedApp, listening: socket.socket) -> None:
    """Serve until a signal stops it; running requests have a few seconds to finish."""
    build_server(app).run(sockets=[listening])


def build_server(app: AuthenticatedApp) -> uvicorn.Server:
    config = uvicorn.Config(
        app,
        http=HttpConnection,
        limit_concurrency=_CONNECTIONS,
        lifespan="on",
        ws="none",
        log_level="warning",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=_SHUTDOWN,
    )
    return uvicorn.Server(config)
