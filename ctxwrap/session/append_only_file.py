"""A derived file of JSON lines in the order of the log: lines are appended, and rarely one is removed."""

import json
from collections.abc import Callable

from ctxwrap.stores.base import Files
from ctxwrap.types import Record


def line(record: Record) -> bytes:
    """A record as one line of ASCII, so that no character in it can split the line."""
    return json.dumps(record, separators=(",", ":"), default=str).encode() + b"\n"


class AppendOnlyFile:
    """Lines are rendered when the file is written, in the background; the first field of a record is its id."""

    def __init__(self, name: str, size: int = 0) -> None:
        self.name = name
        self._size = size
        self._unsaved: list[tuple[str, Callable[[], Record]]] = []
        self._removed: set[str] = set()
        """Ids in the file that must be removed."""
        self._may_be_stale = not size

    def add(self, id: str, record: Callable[[], Record]) -> None:
        self._unsaved.append((id, record))

    def remove(self, id: str) -> None:
        """Remove the line with that id, if there is one."""
        self._unsaved = [each for each in self._unsaved if each[0] != id]
        if self._size:
            self._removed.add(id)

    @property
    def size(self) -> int:
        """The size of the complete file; -1 if it is unknown before saving."""
        return -1 if self._removed else self._size + len(self._data())

    def save(self, files: Files) -> bool:
        """Bring the file up to date; return False if its present content cannot be continued."""
        if self._removed and not self._take_out(files):
            return False
        data = self._data()
        if data and not files.extend(self.name, data, self._size):
            return False
        if self._may_be_stale and not data and files.load(self.name, 1) is not None:
            return False  # an earlier version wrote a line here
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
