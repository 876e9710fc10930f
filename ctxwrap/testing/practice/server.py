"""The practice provider's sockets: HTTP/1.1 on the loopback interface, and nothing that outlives it."""

import gzip
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
from typing import Any

from ctxwrap.testing.practice.answer import Failure
from ctxwrap.testing.practice.apis.parts import Cut, to_json, utf8
from ctxwrap.testing.practice.requests import RecordedRequest
from ctxwrap.testing.practice.service import EventReply, JsonReply, Refused, Service

LARGEST_BODY = 64 * 1024 * 1024
_BLOCK = 64 * 1024
_CLOSE_SECONDS = 1.0


class PracticeServer(ThreadingHTTPServer):
    """Accepts connections in one thread, serves each in its own, and can end them all at once."""

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
        # HTTPServer's own looks up the host's name, which may ask the network
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = self.socket.getsockname()

    def end(self) -> None:
        """Stop accepting, end every connection, and wait for their threads (not for ever)."""
        self._closing = True
        self._knock()
        self._accepting.join()
        self.server_close()
        with self._lock:
            waiting = list(self._open.items())
        for connection, _ in waiting:
            _shut(connection)
        deadline = time.monotonic() + _CLOSE_SECONDS
        for _, thread in waiting:
            thread.join(max(0.0, deadline - time.monotonic()))

    def _accept(self) -> None:
        while not self._closing:
            self.handle_request()

    def _knock(self) -> None:
        """Wake the accepting thread by being its next client."""
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
        """A client that went away is no error; a bug still shows its traceback."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


class _Connection(BaseHTTPRequestHandler):
    """One client's connection, over all its requests."""

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
        return self.rfile.read(_checked(int(length)))

    def _read_chunks(self) -> bytes:
        body = bytearray()
        while size := self._chunk_size():
            _checked(len(body) + size)
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
        """Read on what a refused client still sends: closing at once could take the reply with it."""
        self.connection.settimeout(_CLOSE_SECONDS)
        for _ in range(4 * LARGEST_BODY // _BLOCK):
            if not self.rfile.read(_BLOCK):
                return

    def _start(self, status: int, headers: dict[str, str], squeezed: bool) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if squeezed:
            self.send_header("Content-Encoding", "gzip")
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()

    def _accepts_gzip(self) -> bool:
        return "gzip" in self.headers.get("Accept-Encoding", "").lower()

    def _send(self, reply: JsonReply) -> None:
        body = utf8(to_json(reply.body))
        squeezed = reply.gzip and self._accepts_gzip()
        if squeezed:
            body = gzip.compress(body, mtime=0)
        own = {"Content-Type": "application/json", "Content-Length": str(len(body))}
        self._start(reply.status, own | dict(reply.headers), squeezed)
        self.wfile.write(body)

    def _send_stream(self, stream: EventReply) -> None:
        squeezed = stream.gzip and self._accepts_gzip()
        chunked = self.request_version != "HTTP/1.0"
        self.close_connection = self.close_connection or not chunked
        own = {"Content-Type": "text/event-stream; charset=utf-8", "Cache-Control": "no-cache"}
        framing = {"Transfer-Encoding": "chunked"} if chunked else {}
        self._start(200, own | framing | dict(stream.headers), squeezed)
        write = self._write_chunk if chunked else self._write
        try:
            self._send_events(stream, write, squeezed)
        except Cut:
            self.close_connection = True
            return
        if chunked:
            self.wfile.write(b"0\r\n\r\n")

    def _send_events(self, stream: EventReply, write: Callable[[bytes], None], squeezed: bool) -> None:
        """Each event in its own write, complete on the wire before the next one is made."""
        squeeze = zlib.compressobj(wbits=31) if squeezed else None
        for event in stream.events:
            data = event.encode()
            write(squeeze.compress(data) + squeeze.flush(zlib.Z_SYNC_FLUSH) if squeeze else data)
        if squeeze:
            write(squeeze.flush())

    def _write(self, data: bytes) -> None:
        self.wfile.write(data)

    def _write_chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))


def _checked(size: int) -> int:
    if size > LARGEST_BODY:
        raise Refused(Failure(413, f"The request is larger than {LARGEST_BODY} bytes."))
    return size


def _shut(connection: socket.socket) -> None:
    with suppress(OSError):  # the other side may be first
        connection.shutdown(socket.SHUT_RDWR)
