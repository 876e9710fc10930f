"""MCP over streamable HTTP, authenticated before a body is read."""

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


def address_of(text: str) -> Address:
    said = _ADDRESS.fullmatch(text)
    if said is None or int(said["port"]) > 65535:
        raise SettingsError(f"{text!r} is not HOST:PORT, such as 127.0.0.1:8000 or [::1]:8000")
    return Address(said["six"] or said["host"], int(said["port"]))


def is_loopback(host: str) -> bool:
    """Whether nobody on another machine reaches it, whatever its name stands for."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError as error:
        raise SettingsError(f"there is no address of the name {host!r} here") from error
    return all(ip_address(str(place[4][0]).partition("%")[0]).is_loopback for place in found)


def hosts_of(address: Address, allowed: Iterable[str], *, loopback: bool) -> frozenset[str]:
    """What a request's Host may be. A name that is allowed without a port has the server's own, or none."""
    names = ("127.0.0.1", "localhost", "[::1]") if loopback else ()
    own = {f"{name}:{address.port}" for name in names} | {name for name in names if address.port == _HTTP}
    for name in allowed:
        said = _NAME.fullmatch(name.lower())
        if said is None:
            raise SettingsError(
                f"--allow-host {name!r} is not a name, or a name and a port, such as memory.example.com"
            )
        own |= {said.group()} if said["port"] else {said["name"], f"{said['name']}:{address.port}"}
    return frozenset(own)


def is_ours(host: bytes, hosts: frozenset[str]) -> bool:
    return host.decode("latin-1").lower() in hosts


def is_our_page(origin: bytes, hosts: frozenset[str]) -> bool:
    scheme, _, host = origin.decode("latin-1").lower().partition("://")
    return scheme in ("http", "https") and host in hosts


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


class AuthenticatedApp:
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


class HttpConnection(H11Protocol):
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


def serve(gate: AuthenticatedApp, listening: socket.socket) -> None:
    """Until a signal ends it: what is under way is finished first, within a few seconds."""
    server_of(gate).run(sockets=[listening])


def server_of(gate: AuthenticatedApp) -> uvicorn.Server:
    config = uvicorn.Config(
        gate,
        http=HttpConnection,
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
