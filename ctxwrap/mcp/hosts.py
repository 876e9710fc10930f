"""Where a server listens, and under which names it may be called: others are a page's that was led here."""

import re
import socket
from collections.abc import Iterable
from ipaddress import ip_address
from typing import NamedTuple

from ctxwrap.errors import SettingsError

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
