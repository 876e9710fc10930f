"""A line to the database that can be cut at a certain word, before or behind it, and that counts round trips."""

import contextlib
import select
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

PORT = ".s.PGSQL.5432"


class Cut(NamedTuple):
    word: bytes
    delivers: bool
    """Whether the server gets to hear the word; the client never hears of it."""
    meanwhile: Callable[[], object]


class Proxy:
    """Between clients and the socket of a server; use it as a context manager."""

    def __init__(self, server: Path, place: Path) -> None:
        self._server, self.place = server, place
        self._listening = socket.socket(socket.AF_UNIX)
        self._cut: Cut | None = None
        self.cuts = 0
        self.trips = 0
        """How often a client spoke after the server did."""

    def cut(self, word: str, *, delivers: bool, meanwhile: Callable[[], object] = lambda: None) -> None:
        """Cut the line at the next such word, once."""
        self._cut = Cut(word.encode(), delivers, meanwhile)

    def url(self, database: str) -> str:
        return f"postgresql://postgres@/{database}?host={self.place}"

    def __enter__(self) -> "Proxy":
        self._listening.bind(str(self.place / PORT))
        self._listening.listen()
        threading.Thread(target=self._serve, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                server = socket.socket(socket.AF_UNIX)
                server.connect(str(self._server / PORT))
                line = _Line(self, client, server)
                for pump in (line.speak, line.answer):
                    threading.Thread(target=pump, daemon=True).start()

    def taken_cut(self, data: bytes) -> Cut | None:
        cut = self._cut
        if cut is None or cut.word not in data:
            return None
        self._cut = None
        self.cuts += 1
        return cut


class _Line:
    def __init__(self, proxy: Proxy, client: socket.socket, server: socket.socket) -> None:
        self._proxy, self._client, self._server = proxy, client, server
        self._is_cut = False
        self._answered = True
        self._heard = threading.Event()

    def speak(self) -> None:
        try:
            while data := self._client.recv(1 << 20):
                self._proxy.trips += self._answered
                self._answered = False
                cut = self._proxy.taken_cut(data)
                if cut is not None:
                    self._end(cut, data)
                    break
                self._server.sendall(data)
        except OSError:
            pass  # one of them is gone
        finally:
            self._close()

    def answer(self) -> None:
        with contextlib.suppress(OSError):
            while data := self._server.recv(1 << 20):
                self._heard.set()
                if not self._is_cut:
                    self._answered = True
                    self._client.sendall(data)
        if not self._is_cut:  # else the client is to hear of it when all is done that happens meanwhile
            self._close()

    def _end(self, cut: Cut, data: bytes) -> None:
        self._is_cut = True
        self._heard.clear()
        if cut.delivers:
            self._server.sendall(data)
            more = select.poll()  # for descriptors of any number
            more.register(self._client, select.POLLIN)
            while not self._heard.wait(0.01):
                if more.poll(0):  # the word's own message came in pieces
                    self._server.sendall(self._client.recv(1 << 20))
        else:
            self._server.shutdown(socket.SHUT_RDWR)
        cut.meanwhile()

    def _close(self) -> None:
        for each in (self._client, self._server):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
