"""A scripted provider on the loopback interface, for APIs that the practice provider does not have."""

import json
import struct
import threading
import zlib
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple, Self
from urllib.parse import urlsplit

from ctxwrap.protocol.instructions import SEPARATOR, asks_for_trailer, parse_block
from tests.support import item


class Received(NamedTuple):
    path: str
    query: str
    body: Any

    @property
    def texts(self) -> list[str]:
        """All texts of the body, at any depth."""
        return list(_texts(self.body))


class Told(NamedTuple):
    """What the model says; a trailer follows where the request asks for one, unless tools are called."""

    text: str = ""
    thought: str = ""
    calls: tuple[tuple[str, dict[str, Any]], ...] = ()
    """Names and arguments."""
    forgets: bool = False
    """Whether it writes no trailer."""

    def text_for(self, asked: Received) -> str:
        state = next(filter(None, map(parse_block, asked.texts)), None)
        if state is None or self.calls or self.forgets or not any(map(asks_for_trailer, asked.texts)):
            return self.text
        state["memory"] = {"core": [], "working": [item("w-1")], "ephemeral": []}
        return f"{self.text}\n\n{SEPARATOR}\n{json.dumps(state)}"


class Failure(NamedTuple):
    status: int
    body: Any


class Sent(NamedTuple):
    content: list[bytes]
    """Pieces, each of which is sent on its own."""
    content_type: str = "application/json"


Format = Callable[[Received, Told], Sent]


class Loopback:
    """Answers with `answer`, which a test may replace, in the format of one API."""

    def __init__(self, format: Format, answer: Callable[[Received], Told | Failure]) -> None:
        self.answer, self.seen = answer, list[Received]()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                url = urlsplit(self.path)
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                asked = Received(url.path, url.query, body)
                outer.seen.append(asked)
                told = outer.answer(asked)
                if isinstance(told, Failure):
                    self._send(told.status, Sent([json.dumps(told.body).encode()]))
                else:
                    self._send(200, format(asked, told))

            def _send(self, status: int, sent: Sent) -> None:
                self.send_response(status)
                self.send_header("content-type", sent.content_type)
                self.send_header("transfer-encoding", "chunked")
                self.end_headers()
                for piece in (*sent.content, b""):
                    self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))

            def log_message(self, format: str, *args: Any) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


def aws_event(kind: str, payload: Any, *, is_error: bool = False) -> bytes:
    """A message of AWS's binary event streams."""
    names = {":exception-type" if is_error else ":event-type": kind, ":content-type": "application/json"}
    names[":message-type"] = "exception" if is_error else "event"
    headers = b"".join(
        struct.pack(">B", len(name)) + name.encode() + struct.pack(">BH", 7, len(value)) + value.encode()
        for name, value in names.items()
    )
    body = json.dumps(payload).encode()
    head = struct.pack(">II", 16 + len(headers) + len(body), len(headers))
    message = head + struct.pack(">I", zlib.crc32(head)) + headers + body
    return message + struct.pack(">I", zlib.crc32(message))


def pieces(text: str, size: int = 7) -> list[str]:
    return [text[at : at + size] for at in range(0, len(text), size)]


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _texts(inner)
