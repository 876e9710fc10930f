"""A session folder that anybody may have written: what lies in it, without a step outside, and its JSON lines."""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, BinaryIO, Literal, NamedTuple

from ctxwrap.errors import InvalidInput
from ctxwrap.session.abi.reading import parsed

MOST_ENTRIES = 100_000
MOST_BYTES = 256 << 20
"""Of one file."""

EntryKind = Literal["file", "directory", "outside", "other"]


class Line(NamedTuple):
    number: int
    value: dict[str, Any]


@dataclass(slots=True)
class Lines:
    """The objects of a file of JSON lines, and the lines that are none."""

    objects: list[Line] = field(default_factory=list)
    faults: list[tuple[int, str]] = field(default_factory=list)


class Folder:
    def __init__(self, root: str) -> None:
        self._root = os.path.realpath(root)

    @cached_property
    def entries(self) -> dict[str, EntryKind]:
        """By their names below the root; a link that leads outside is neither followed nor anything else."""
        found: dict[str, EntryKind] = {}
        pending = [""]
        while pending:
            under = pending.pop()
            with os.scandir(os.path.join(self._root, under)) as entries:
                for entry in entries:
                    name = f"{under}{entry.name}"
                    found[name] = kind = self._kind(name)
                    if kind == "directory" and not entry.is_symlink():
                        pending.append(f"{name}/")
            if len(found) > MOST_ENTRIES:
                raise InvalidInput(f"it holds more than {MOST_ENTRIES} files")
        return found

    def _kind(self, name: str) -> EntryKind:
        target = os.path.realpath(os.path.join(self._root, name))
        if not target.startswith(f"{self._root}{os.sep}"):
            return "outside"
        try:
            mode = os.stat(target).st_mode
        except OSError:
            return "other"
        return "file" if stat.S_ISREG(mode) else "directory" if stat.S_ISDIR(mode) else "other"

    def names(self, under: str) -> list[str]:
        """What lies right in a directory, by its whole name."""
        return [name for name in self.entries if name.startswith(under) and "/" not in name[len(under) :]]

    def has(self, name: str) -> bool:
        return self.entries.get(name) == "file"

    def read(self, name: str) -> bytes:
        """What a file holds; nothing, if it is none."""
        if not self.has(name):
            return b""
        with self._opened(name) as file:
            return file.read(MOST_BYTES)

    @contextmanager
    def _opened(self, name: str) -> Iterator[BinaryIO]:
        with open(os.path.realpath(os.path.join(self._root, name)), "rb") as file:
            if os.fstat(file.fileno()).st_size > MOST_BYTES:
                raise InvalidInput(f"{name} has more than {MOST_BYTES} bytes")
            yield file

    def text(self, name: str) -> str:
        return self.read(name).decode("utf-8", "replace")

    def lines(self, name: str) -> Lines:
        found = Lines()
        for number, value in self.values(name):
            if isinstance(value, str):
                found.faults.append((number, value))
            else:
                found.objects.append(Line(number, value))
        return found

    def values(self, name: str) -> Iterator[tuple[int, dict[str, Any] | str]]:
        """The object of every line that is not blank, or why it is none."""
        if not self.has(name):
            return
        with self._opened(name) as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    yield number, _object(line)


def _object(line: bytes) -> dict[str, Any] | str:
    try:
        value = parsed(line.decode())
    except ValueError as error:
        return str(error)
    return value if isinstance(value, dict) else "no JSON object"
