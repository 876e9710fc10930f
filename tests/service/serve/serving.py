"""A proxy on loopback, in a thread of the test, and requests to it byte by byte."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from time import monotonic
from typing import Any, NamedTuple

from ctxwrap.service.serve.config import Limits, ServeConfig, parse_upstreams
from ctxwrap.service.serve.worker import ProxyServer
from ctxwrap.service.web import Address, allowed_hosts, bind
from ctxwrap.testing.practice import Provider

PATIENCE = 20.0


class Proxy(NamedTuple):
    port: int
    server: ProxyServer

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def ask(self, method: str, path: str, body: bytes = b"", **headers: str) -> "Reply":
        """One request with just these headers, and Host and Content-Length."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        try:
            connection.request(method, path, body or None, named)
            response = connection.getresponse()
            known = {name.lower(): value for name, value in response.getheaders()}
            return Reply(response.status, known, response.read())
        finally:
            connection.close()

    def wait_for_metric(self, line: str) -> None:
        """Wait until /metrics has this line; the requests themselves take the time."""
        deadline = monotonic() + PATIENCE
        while f"{line}\n" not in (shown := self.ask("GET", "/metrics").body.decode()):
            assert monotonic() < deadline, f"no {line!r} in\n{shown}"

    def send_raw(self, sent: bytes) -> bytes:
        """All that comes back for these bytes until the server closes the connection or waits for more."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE) as connection:
            connection.sendall(sent)
            connection.shutdown(socket.SHUT_WR)
            pieces = []
            while piece := connection.recv(65536):
                pieces.append(piece)
        return b"".join(pieces)


class Reply(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes


def upstreams_of(provider: Provider) -> tuple[str, str]:
    return f"openai={provider.openai_url}", f"anthropic={provider.anthropic_url}/v1"


@contextmanager
def proxy(home: Path, *upstreams: str, keys: tuple[str, ...] = (), **options: Any) -> Iterator[Proxy]:
    """A running proxy; it has stopped when the block ends."""
    limits = Limits(**options.pop("limits", {}))
    environment = options.pop("environment", {})
    with bind(Address("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        config = ServeConfig(
            upstreams=parse_upstreams(upstreams, keys, environment),
            store=str(home),
            hosts=allowed_hosts(Address("127.0.0.1", port), (), loopback=True),
            limits=limits,
            drain=options.pop("drain", 5.0),
            **options,
        )
        server = ProxyServer(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        while not server.started:
            assert thread.is_alive(), "the proxy did not start"
            thread.join(0.01)
        try:
            yield Proxy(port, server)
        finally:
            server.should_exit = True
            thread.join(PATIENCE)
            assert not thread.is_alive(), "the proxy did not stop"
