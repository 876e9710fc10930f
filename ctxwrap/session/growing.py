"""A derived file to which lines are only ever added, in the order of the log."""

import json

from ctxwrap.storage import Files
from ctxwrap.types import Record


def line(record: Record) -> bytes:
    """A record as a line of ASCII, which splits nowhere else and shows what it hides."""
    return json.dumps(record, separators=(",", ":"), default=str).encode() + b"\n"


class Growing:
    def __init__(self, name: str, size: int = 0) -> None:
        self.name = name
        self._size = size
        self._unsaved: list[bytes] = []

    def add(self, record: Record) -> None:
        self._unsaved.append(line(record))

    @property
    def size(self) -> int:
        """How long the file is when everything is in it."""
        return self._size + sum(map(len, self._unsaved))

    def save(self, files: Files) -> bool:
        """Add what is not in the file yet, whoever else may have; whether the rest of it can be what was added."""
        data = b"".join(self._unsaved)
        if data and not files.extend(self.name, data, self._size):
            return False
        self._size, self._unsaved = self._size + len(data), []
        return True
