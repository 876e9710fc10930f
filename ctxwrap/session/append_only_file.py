"""A derived file of JSON lines in the order of the log: lines are appended, and rarely one is removed."""

import json
from collections.abc import Callable

from ctxwrap.stores.base import Files
from ctxwrap.types import Record


def line(record: Record) -> bytes:
    """A record as one line of ASCII, so that no character in it can split the line."""
    return _encode(record).encode() + b"\n"


_encode = json.JSONEncoder(separators=(",", ":"), default=str).encode


class AppendOnlyFile:
    """Lines are rendered when the file is written, in the background; a record begins with its id, a digest.

    Another process that reads the same log may have written a part of the changes already.
    """

    def __init__(self, name: str, size: int = 0) -> None:
        self.name = name
        self._size = size
        self._unsaved: list[tuple[str, Callable[[], Record]]] = []
        self._removed: set[str] = set()
        """Ids of lines that must be removed, if they are in the file."""
        self._may_be_stale = not size

    def add(self, id: str, record: Callable[[], Record]) -> None:
        self._unsaved.append((id, record))

    def remove(self, id: str) -> None:
        """Remove the line with that id, if there is one."""
        self._unsaved = [each for each in self._unsaved if each[0] != id]
        self._removed.add(id)

    @property
    def size(self) -> int:
        """The size of the complete file; -1 if it is unknown before saving."""
        return -1 if self._removed else self._size + len(self._data())

    def save(self, files: Files) -> bool:
        """Bring the file up to date; return False if its present content cannot be continued."""
        size = self._replace_lines(files) if self._removed else self._append(files)
        if size is None:
            return False
        self._size, self._unsaved, self._removed, self._may_be_stale = size, [], set(), False
        return True

    def _append(self, files: Files) -> int | None:
        """The new size; None if the file is not as long as expected."""
        data = self._data()
        if data and not files.extend(self.name, data, self._size):
            return None
        if self._may_be_stale and not data and files.load(self.name, 1) is not None:
            return None  # an earlier version wrote a line here
        return self._size + len(data)

    def _data(self) -> bytes:
        return b"".join(line(record()) for _, record in self._unsaved)

    def _replace_lines(self, files: Files) -> int | None:
        """The new size; None if the file was deleted, is cut short, or is of an earlier version.

        All lines that were added or removed since the last time are replaced, whichever of them the file has already.
        """
        before = files.load(self.name) or b""
        changed = self._removed.union(id for id, _ in self._unsaved)
        heads = {line({"id": id})[: -len(b"}\n")] for id in changed}
        kept = b"".join(each for each in before.splitlines(keepends=True) if each.partition(b",")[0] not in heads)
        if (self._size and not before) or (kept and not self._size) or before[-1:] not in (b"", b"\n"):
            return None
        data = kept + self._data()
        if data:
            files.save(self.name, data)
        elif before:
            files.remove(self.name)
        return len(data)
