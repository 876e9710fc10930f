"""What servers over HTTP share: addresses, checks of Host and Origin, and connections with a deadline."""

import asyncio
import re
import socket
from collections.abc import Iterable
from ipaddress import ip_address
from typing import NamedTuple

import h11
from starlette.types import Scope
from uvicorn.protocols.http.h11_impl import H11Protocol

from ctxwrap.errors import SettingsError

_ADDRESS = re.compile(r"(?:\[(?P<six>[0-9A-Fa-f:.]+)\]|(?P<host>[^\[\]:/\s]+)):(?P<port>[0-9]{1,5})")
_NAME = re.compile(r"(?P<name>\[[0-9a-f:.]+\]|[a-z0-9_-]+(?:\.[a-z0-9_-]+)*)(?P<port>:[0-9]{1,5})?")
_HTTP = 80
_OWN_SITES = (b"same-origin", b"none")


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


def foreign_page(scope: Scope, hosts: frozenset[str]) -> str:
    """Why a request that a page of another site sent is refused; empty if no such page sent it."""
    origin, site = single_header(scope, b"origin"), single_header(scope, b"sec-fetch-site")
    if origin is not None and not is_own_origin(origin, hosts):
        return "pages of other origins are not allowed"
    if site is not None and site not in _OWN_SITES:
        return "pages of other sites are not allowed"
    return ""


def single_header(scope: Scope, name: bytes) -> bytes | None:
    """Return a header's value, None if it is absent, and an empty, invalid value if it is repeated."""
    values = [value for known, value in scope["headers"] if known == name]
    return None if not values else values[0] if len(values) == 1 else b""


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
