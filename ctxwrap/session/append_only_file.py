"""A derived file of lines in the order of the log: lines are added at its end, and seldom one is taken out."""

import json
from collections.abc import Callable

from ctxwrap.stores.base import Files
from ctxwrap.types import Record


def line(record: Record) -> bytes:
    """A record as a line of ASCII, which splits nowhere else and shows what it hides."""
    return json.dumps(record, separators=(",", ":"), default=str).encode() + b"\n"


class AppendOnlyFile:
    """Records are made when the file is written, behind the call that added them; their first field is their id."""

    def __init__(self, name: str, size: int = 0) -> None:
        self.name = name
        self._size = size
        self._unsaved: list[tuple[str, Callable[[], Record]]] = []
        self._removed: set[str] = set()
        """What is in the file and must not be."""
        self._may_be_stale = not size

    def add(self, id: str, record: Callable[[], Record]) -> None:
        self._unsaved.append((id, record))

    def remove(self, id: str) -> None:
        """Take out what has that id, if there is such a line."""
        self._unsaved = [each for each in self._unsaved if each[0] != id]
        if self._size:
            self._removed.add(id)

    @property
    def size(self) -> int:
        """How long the file is when everything is in it; -1 if that is not known before it is saved."""
        return -1 if self._removed else self._size + len(self._data())

    def save(self, files: Files) -> bool:
        """Bring the file up to date, whoever else may have; whether the rest of it can be what was added."""
        if self._removed and not self._take_out(files):
            return False
        data = self._data()
        if data and not files.extend(self.name, data, self._size):
            return False
        if self._may_be_stale and not data and files.load(self.name, 1) is not None:
            return False  # an earlier version had something to say here
        self._size, self._unsaved, self._may_be_stale = self._size + len(data), [], False
        return True

    def _data(self) -> bytes:
        return b"".join(line(record()) for _, record in self._unsaved)

    def _take_out(self, files: Files) -> bool:
        data = files.load(self.name) or b""
        if len(data) != self._size:
            return False
        heads = tuple(line({"id": id})[: -len(b"}\n")] for id in self._removed)
        kept = b"".join(each for each in data.splitlines(keepends=True) if not each.startswith(heads))
        if kept:
            files.save(self.name, kept)
        else:
            files.remove(self.name)
        self._size, self._removed = len(kept), set()
        return True
