"""A line to the database that can be cut or go silent at a certain word, and that counts round trips."""

import contextlib
import select
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

PORT = ".s.PGSQL.5432"

SYNC = b"S\0\0\0\4"
"""The message with which a client says that it waits for the answers to all it said."""


class Cut(NamedTuple):
    word: bytes
    delivers: bool
    """Whether the server gets to hear the word; the client never hears of it."""
    meanwhile: Callable[[], object]
    is_silent: bool = False
    """Whether nobody hears of the cut: what is said vanishes, and the line stays open."""


class Proxy:
    """Between clients and the socket of a server; use it as a context manager."""

    def __init__(self, server: Path, place: Path) -> None:
        self._server, self.place = server, place
        self._listening = socket.socket(socket.AF_UNIX)
        self._cut: Cut | None = None
        self._lines: list[_Line] = []
        self.is_deaf = False
        """Whether new lines are silent from their first word on."""
        self.cuts = 0
        self.trips = 0
        """How often a client waited for an answer."""

    def cut(self, word: str, *, delivers: bool, meanwhile: Callable[[], object] = lambda: None) -> None:
        """Cut the line at the next such word, once."""
        self._cut = Cut(word.encode(), delivers, meanwhile)

    def silence(self, word: str, *, delivers: bool) -> None:
        """Let the line go silent at the next such word, once."""
        self._cut = Cut(word.encode(), delivers, lambda: None, is_silent=True)

    def silence_all(self) -> None:
        """Let all lines go silent that there are."""
        for line in self._lines:
            line.is_cut = line.is_silent = True

    def end_silent_lines(self) -> None:
        """Let the server hear at last that they are dead."""
        for line in self._lines:
            if line.is_silent:
                line.close()

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
        self.end_silent_lines()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                server = socket.socket(socket.AF_UNIX)
                server.connect(str(self._server / PORT))
                line = _Line(self, client, server)
                line.is_cut = line.is_silent = self.is_deaf
                self._lines.append(line)
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
        self.is_cut = self.is_silent = False
        self._heard = threading.Event()

    def speak(self) -> None:
        try:
            while data := self._client.recv(1 << 20):
                self._proxy.trips += data.count(SYNC)
                if self.is_silent:
                    continue
                cut = self._proxy.taken_cut(data)
                if cut is None:
                    self._server.sendall(data)
                elif cut.is_silent:
                    self._go_silent(cut, data)
                else:
                    self._end(cut, data)
                    break
        except OSError:
            pass  # one of them is gone
        finally:
            if not self.is_silent:  # the server does not hear that the client is gone
                self.close()

    def answer(self) -> None:
        with contextlib.suppress(OSError):
            while data := self._server.recv(1 << 20):
                self._heard.set()
                if not self.is_cut:
                    self._client.sendall(data)
        if not self.is_cut:  # else the client is to hear of it when all is done that happens meanwhile
            self.close()

    def _go_silent(self, cut: Cut, data: bytes) -> None:
        self.is_cut = True
        if cut.delivers:
            self._deliver(data)
        self.is_silent = True

    def _end(self, cut: Cut, data: bytes) -> None:
        self.is_cut = True
        if cut.delivers:
            self._deliver(data)
        else:
            self._server.shutdown(socket.SHUT_RDWR)
        cut.meanwhile()

    def _deliver(self, data: bytes) -> None:
        """Until the server answers."""
        self._heard.clear()
        self._server.sendall(data)
        more = select.poll()  # for descriptors of any number
        more.register(self._client, select.POLLIN)
        while not self._heard.wait(0.01):
            if more.poll(0):  # the word's own message came in pieces
                self._server.sendall(self._client.recv(1 << 20))

    def close(self) -> None:
        for each in (self._client, self._server):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
