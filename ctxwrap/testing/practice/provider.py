"""The practice provider: a local HTTP server with the APIs of LLM providers, for tests and first steps."""

import gzip
import ipaddress
import re
import socket
import socketserver
import sys
import threading
import time
import zlib
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

from ctxwrap.errors import SettingsError
from ctxwrap.testing.practice.answer import Answer, Failure
from ctxwrap.testing.practice.apis.parts import Cut, to_json, utf8
from ctxwrap.testing.practice.habits import Habit, habit_of
from ctxwrap.testing.practice.model import PracticeModel
from ctxwrap.testing.practice.requests import Answering, Ask, RecordedRequest
from ctxwrap.testing.practice.service import EventReply, JsonReply, Refused, Service


class Provider:
    """Serves OpenAI's and Anthropic's APIs on a port of the loopback interface.

    `answer` is the model, a function that may be replaced at any time; `seen` has every request in order of arrival.
    `habit` is a model with its own way to write snapshots, by name (see `ctxwrap.testing.habits`) or as an object. The
    provider's threads end with `close()`, or with the program.
    """

    def __init__(
        self,
        answer: Answering | None = None,
        *,
        habit: str | Habit | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
        record: bool = True,
        clock: Callable[[], float] = time.time,
    ) -> None:
        if answer is not None and habit is not None:
            raise SettingsError("pass either an answer or a habit")
        self.answer: Answering = answer or (habit_of(habit) if habit is not None else PracticeModel())
        self.seen: list[RecordedRequest] = []
        self._address = (_loopback(host), port)
        self._is_recording = record
        self._service = Service(lambda ask: self.answer(ask), clock)
        self._server: PracticeServer | None = None
        self._url = ""

    @property
    def url(self) -> str:
        """The address of the server, also after it was closed."""
        if not self._url:
            raise RuntimeError("the provider was not started: use it in a with statement, or call start()")
        return self._url

    @property
    def openai_url(self) -> str:
        """The `base_url` for OpenAI's client."""
        return f"{self.url}/v1"

    @property
    def anthropic_url(self) -> str:
        """The `base_url` for Anthropic's client."""
        return self.url

    def start(self) -> Self:
        if self._server is None:
            self._server = PracticeServer(self._address, self._service, self._record_request)
            self._url = f"http://{self._address[0]}:{self._server.server_port}"
        return self

    def close(self) -> None:
        """Close every connection and free the port."""
        server, self._server = self._server, None
        if server is not None:
            server.end()

    def _record_request(self, seen: RecordedRequest) -> None:
        if self._is_recording:
            self.seen.append(seen)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def script(*answers: Answer | Failure) -> Answering:
    """Return a model that gives `answers` in order and repeats the last one."""
    if not answers:
        raise SettingsError("a script needs at least one answer")
    waiting, lock = list(answers), threading.Lock()

    def next_answer(ask: Ask) -> Answer | Failure:
        with lock:
            return waiting.pop(0) if len(waiting) > 1 else waiting[0]

    return next_answer


def _loopback(host: str) -> str:
    """Check that no other machine can reach `host`: the provider has no authentication."""
    if host == "localhost":
        return "127.0.0.1"
    try:
        address = ipaddress.IPv4Address(host)
    except ValueError:
        raise SettingsError(f"host must be an IPv4 address such as 127.0.0.1, not {host!r}") from None
    if not address.is_loopback:
        raise SettingsError(f"host must be a loopback address such as 127.0.0.1, not {host!r}")
    return host


LARGEST_BODY = 64 * 1024 * 1024
_BLOCK = 64 * 1024
_CLOSE_SECONDS = 1.0


class PracticeServer(ThreadingHTTPServer):
    """Accepts connections in one thread, serves each in its own, and can close them all at once."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], service: Service, record: Callable[[RecordedRequest], None]) -> None:
        self.service = service
        self.record = record
        self._closing = False
        self._lock = threading.Lock()
        self._open: dict[Any, threading.Thread] = {}
        super().__init__(address, _Connection)
        self._accepting = threading.Thread(target=self._accept, name="practice-provider", daemon=True)
        self._accepting.start()

    def server_bind(self) -> None:
        # HTTPServer's own method looks up the host's name, which may use the network
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = self.socket.getsockname()

    def end(self) -> None:
        """Stop accepting, close every connection, and wait a limited time for their threads."""
        self._closing = True
        self._wake()
        self._accepting.join()
        self.server_close()
        with self._lock:
            waiting = list(self._open.items())
        for connection, _ in waiting:
            _shut_down(connection)
        deadline = time.monotonic() + _CLOSE_SECONDS
        for _, thread in waiting:
            thread.join(max(0.0, deadline - time.monotonic()))

    def _accept(self) -> None:
        while not self._closing:
            self.handle_request()

    def _wake(self) -> None:
        """Wake the accepting thread with a connection."""
        own = (self.server_name, self.server_port)
        with suppress(OSError), socket.create_connection(own, timeout=_CLOSE_SECONDS):
            pass

    def verify_request(self, request: Any, client_address: Any) -> bool:
        return not self._closing

    def process_request(self, request: Any, client_address: Any) -> None:
        thread = threading.Thread(target=self.process_request_thread, args=(request, client_address), daemon=True)
        with self._lock:
            self._open[request] = thread
        thread.start()

    def shutdown_request(self, request: Any) -> None:
        super().shutdown_request(request)
        with self._lock:
            self._open.pop(request, None)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore disconnected clients; print the traceback of other errors."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


class _Connection(BaseHTTPRequestHandler):
    """One client's connection, with all its requests."""

    server: PracticeServer
    protocol_version = "HTTP/1.1"
    server_version = "ctxwrap-practice"
    sys_version = ""
    disable_nagle_algorithm = True

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        seen = RecordedRequest(self.command, self.path, headers, b"")
        try:
            seen = RecordedRequest(self.command, self.path, headers, self._read_body())
        except Refused as refused:
            self.close_connection = True
            self._send(self.server.service.refuse(seen, refused.failure))
            self._drain()
            return
        self.server.record(seen)
        reply = self.server.service.reply(seen)
        if isinstance(reply, EventReply):
            self._send_stream(reply)
        else:
            self._send(reply)

    do_POST = do_DELETE = do_GET

    def _read_body(self) -> bytes:
        if "chunked" in self.headers.get("Transfer-Encoding", "").lower():
            return self._read_chunks()
        length = self.headers.get("Content-Length", "0")
        if not re.fullmatch(r"[0-9]{1,18}", length):
            raise Refused(Failure(400, "The Content-Length is not a number."))
        return self.rfile.read(_check_size(int(length)))

    def _read_chunks(self) -> bytes:
        body = bytearray()
        while size := self._chunk_size():
            _check_size(len(body) + size)
            body += self.rfile.read(size)
            self.rfile.readline()
        while self.rfile.readline().strip():
            pass
        return bytes(body)

    def _chunk_size(self) -> int:
        digits = self.rfile.readline().partition(b";")[0].strip()
        if not re.fullmatch(rb"[0-9a-fA-F]{1,16}", digits):
            raise Refused(Failure(400, "The body's chunks are malformed."))
        return int(digits, 16)

    def _drain(self) -> None:
        """Read what a refused client still sends: closing at once could discard the reply."""
        self.connection.settimeout(_CLOSE_SECONDS)
        for _ in range(4 * LARGEST_BODY // _BLOCK):
            if not self.rfile.read(_BLOCK):
                return

    def _start(self, status: int, headers: dict[str, str], compressed: bool) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if compressed:
            self.send_header("Content-Encoding", "gzip")
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()

    def _accepts_gzip(self) -> bool:
        return "gzip" in self.headers.get("Accept-Encoding", "").lower()

    def _send(self, reply: JsonReply) -> None:
        body = utf8(to_json(reply.body))
        compressed = reply.gzip and self._accepts_gzip()
        if compressed:
            body = gzip.compress(body, mtime=0)
        own = {"Content-Type": "application/json", "Content-Length": str(len(body))}
        self._start(reply.status, own | dict(reply.headers), compressed)
        self.wfile.write(body)

    def _send_stream(self, stream: EventReply) -> None:
        compressed = stream.gzip and self._accepts_gzip()
        chunked = self.request_version != "HTTP/1.0"
        self.close_connection = self.close_connection or not chunked
        own = {"Content-Type": "text/event-stream; charset=utf-8", "Cache-Control": "no-cache"}
        framing = {"Transfer-Encoding": "chunked"} if chunked else {}
        self._start(200, own | framing | dict(stream.headers), compressed)
        write = self._write_chunk if chunked else self._write
        try:
            self._send_events(stream, write, compressed)
        except Cut:
            self.close_connection = True
            return
        if chunked:
            self.wfile.write(b"0\r\n\r\n")

    def _send_events(self, stream: EventReply, write: Callable[[bytes], None], compressed: bool) -> None:
        """Send each event in its own write, before the next one is created."""
        compressor = zlib.compressobj(wbits=31) if compressed else None
        for event in stream.events:
            data = event.encode()
            write(compressor.compress(data) + compressor.flush(zlib.Z_SYNC_FLUSH) if compressor else data)
        if compressor:
            write(compressor.flush())

    def _write(self, data: bytes) -> None:
        self.wfile.write(data)

    def _write_chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))


def _check_size(size: int) -> int:
    if size > LARGEST_BODY:
        raise Refused(Failure(413, f"The request is larger than {LARGEST_BODY} bytes."))
    return size


def _shut_down(connection: socket.socket) -> None:
    with suppress(OSError):  # the client may close first
        connection.shutdown(socket.SHUT_RDWR)
