"""MCP over streamable HTTP; requests are authenticated before their bodies are read."""

import asyncio
import logging
import re
import socket
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from ipaddress import ip_address
from typing import NamedTuple

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
from ctxwrap.service.mcp.auth import Tokens

_ADDRESS = re.compile(r"(?:\[(?P<six>[0-9A-Fa-f:.]+)\]|(?P<host>[^\[\]:/\s]+)):(?P<port>[0-9]{1,5})")
_NAME = re.compile(r"(?P<name>\[[0-9a-f:.]+\]|[a-z0-9_-]+(?:\.[a-z0-9_-]+)*)(?P<port>:[0-9]{1,5})?")
_HTTP = 80


class Address(NamedTuple):
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_address(text: str) -> Address:
    match = _ADDRESS.fullmatch(text)
    if match is None or int(match["port"]) > 65535:
        raise SettingsError(f"{text!r} is not HOST:PORT, such as 127.0.0.1:8000 or [::1]:8000")
    return Address(match["six"] or match["host"], int(match["port"]))


def is_loopback(host: str) -> bool:
    """Whether a host name resolves to loopback addresses only."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError as error:
        raise SettingsError(f"the host name {host!r} has no address") from error
    return all(ip_address(str(place[4][0]).partition("%")[0]).is_loopback for place in found)


def allowed_hosts(address: Address, allowed: Iterable[str], *, loopback: bool) -> frozenset[str]:
    """Return the allowed values of Host; a name without a port is allowed with the server's port and without."""
    names = ("127.0.0.1", "localhost", "[::1]") if loopback else ()
    own = {f"{name}:{address.port}" for name in names} | {name for name in names if address.port == _HTTP}
    for name in allowed:
        match = _NAME.fullmatch(name.lower())
        if match is None:
            raise SettingsError(
                f"--allow-host {name!r} is not a host name with an optional port, such as memory.example.com"
            )
        own |= {match.group()} if match["port"] else {match["name"], f"{match['name']}:{address.port}"}
    return frozenset(own)


def is_known_host(host: bytes, hosts: frozenset[str]) -> bool:
    return host.decode("latin-1").lower() in hosts


def is_own_origin(origin: bytes, hosts: frozenset[str]) -> bool:
    scheme, _, host = origin.decode("latin-1").lower().partition("://")
    return scheme in ("http", "https") and host in hosts


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

_OWN_SITES = (b"same-origin", b"none")


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
        if not is_known_host(_single_header(scope, b"host") or b"", self._hosts):
            raise Refusal(421, "this server does not serve the name in Host")
        self._check_origin(scope)
        tenant = self._tokens.tenant_of(_single_header(scope, b"authorization") or b"")
        if tenant is None:
            raise Refusal(401, "send a token of this server as Authorization: Bearer", **{"www-authenticate": "Bearer"})
        if scope["path"] != PATH or (scope.get("raw_path") or PATH.encode()).partition(b"?")[0] != PATH.encode():
            raise Refusal(404, f"the only path is {PATH}")
        if scope["method"] == "POST" and not _is_json(_single_header(scope, b"content-type") or b""):
            raise Refusal(415, "a POST needs the content-type application/json")
        return tenant

    def _check_origin(self, scope: Scope) -> None:
        origin, site = _single_header(scope, b"origin"), _single_header(scope, b"sec-fetch-site")
        if origin is not None and not is_own_origin(origin, self._hosts):
            raise Refusal(403, "pages of other origins are not allowed")
        if site is not None and site not in _OWN_SITES:
            raise Refusal(403, "pages of other sites are not allowed")


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


def _single_header(scope: Scope, name: bytes) -> bytes | None:
    """Return a header's value, None if it is absent, and an empty, invalid value if it is repeated."""
    values = [value for known, value in scope["headers"] if known == name]
    return None if not values else values[0] if len(values) == 1 else b""


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


def bind(address: Address) -> socket.socket:
    """Bind the socket to serve on; for port 0 its own name has the port."""
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    try:
        return socket.create_server((address.host, address.port), family=family, backlog=128)
    except OSError as error:
        raise SettingsError(f"cannot listen on {address}: {error.strerror or error}") from error


class HttpConnection(H11Protocol):
    """A connection that is closed if a request takes too long to arrive or a response to be read."""

    SECONDS = 30.0

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
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
        """Keep the deadline while a request is incomplete."""
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
