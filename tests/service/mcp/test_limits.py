"""Nobody holds the server over HTTP for long, or all of it: slow and idle connections end, and sessions are counted."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from http.client import HTTPConnection

import pytest

from ctxwrap.service.mcp import http
from ctxwrap.service.mcp.auth import Tokens
from ctxwrap.service.mcp.server import build_server_for
from ctxwrap.service.memories import Memories
from ctxwrap.service.web import Address, HttpConnection, allowed_hosts, bind
from ctxwrap.stores.memory import MemoryStore
from tests.service.mcp.doors import TOKENS
from tests.service.mcp.test_gate import ACCEPT, HELLO, JSON, OTHER, ask, called, with_session

ACME = next(iter(TOKENS))
PATIENCE = 20.0


@contextmanager
def served() -> Iterator[int]:
    """A server in a thread of this process, and its port."""
    address = Address("127.0.0.1", 0)
    store = MemoryStore()
    with bind(address) as listening:
        port = listening.getsockname()[1]
        hosts = allowed_hosts(Address("127.0.0.1", port), [], loopback=True)
        gate = http.AuthenticatedApp(
            lambda tenant: build_server_for(Memories(store, tenant=tenant)), Tokens(TOKENS), hosts
        )
        server = http.build_server(gate)
        thread = threading.Thread(target=server.run, args=([listening],))
        thread.start()
        try:
            yield port
        finally:
            server.should_exit = True
            thread.join()


@pytest.fixture
def start() -> Iterator[Callable[[], int]]:
    """Starts the server once a test has set its limits."""
    with ExitStack() as stack:
        yield lambda: stack.enter_context(served())


def connected(port: int, said: bytes) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
    connection.sendall(said)
    return connection


def is_ended(connection: socket.socket) -> bool:
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


HEAD = (
    f"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\nAuthorization: Bearer {ACME}\r\nContent-Type: application/json\r\n"
)


@pytest.mark.parametrize(
    "said",
    [
        "",
        "POST /mcp HTTP/1.1\r\n",
        HEAD,
        HEAD + "Content-Length: 100\r\n\r\n",
        HEAD + 'Content-Length: 100\r\n\r\n{"jso',
    ],
    ids=["nothing", "a line", "half a head", "a head", "half a body"],
)
def test_slow_request_is_cut_off_after_the_timeout(
    start: Callable[[], int], monkeypatch: pytest.MonkeyPatch, said: str
) -> None:
    monkeypatch.setattr(HttpConnection, "SECONDS", 0.2)
    port = start()
    with connected(port, said.replace("PORT", str(port)).encode()) as connection:
        assert is_ended(connection)


def test_request_that_arrives_in_time_is_served(start: Callable[[], int]) -> None:
    """In many pieces, and several over one connection."""
    port = start()
    whole = f"{HEAD}Accept: application/json, text/event-stream\r\nContent-Length: 2\r\n\r\n{{}}".replace(
        "PORT", str(port)
    ).encode()
    with connected(port, b"") as connection:
        for _ in range(3):
            for at in range(0, len(whole), 7):
                connection.sendall(whole[at : at + 7])
            assert connection.recv(12) == b"HTTP/1.1 400", "it is no call, and was read to its end"
            rest = connection.recv(65_536)
            while b"\r\n\r\n" not in rest or not rest.endswith(b"}"):
                rest += connection.recv(65_536)


def test_number_of_mcp_sessions_per_tenant_is_limited(
    start: Callable[[], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "SESSIONS", 2)
    port = start()
    first, second, third = (ask(port, JSON, ACCEPT, body=HELLO) for _ in range(3))
    assert (first.status, second.status, third.status) == (200, 200, 503)
    assert ask(port, JSON, ACCEPT, body=HELLO, token=OTHER).status == 200, "another tenant has its own"
    session = first.headers["mcp-session-id"]
    assert ask(port, *with_session(session), body=called("ping")).status == 200, "those that are open go on"
    assert ask(port, *with_session(session), method="DELETE").status == 200
    assert ask(port, JSON, ACCEPT, body=HELLO).status == 200


def test_stream_is_closed_cleanly_after_its_maximum_age(
    start: Callable[[], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "_STREAM", 0.2)
    port = start()
    session = ask(port, JSON, ACCEPT, body=HELLO).headers["mcp-session-id"]
    connection = HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    headers = dict([*with_session(session), ("authorization", f"Bearer {ACME}"), ("host", f"127.0.0.1:{port}")])
    connection.request("GET", "/mcp", headers=headers)
    reply = connection.getresponse()
    assert reply.status == 200
    reply.read()  # to its proper end, or it raises
    connection.close()
    assert ask(port, *with_session(session), body=called("ping")).status == 200, "the session goes on"


def test_number_of_connections_is_limited(start: Callable[[], int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "_CONNECTIONS", 3)
    port = start()
    with ExitStack() as stack:
        for _ in range(3):
            stack.enter_context(connected(port, b""))
        assert ask(port, JSON, ACCEPT, body=HELLO).status == 503
