"""The types of checks and findings, and read access to a session folder."""

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any, BinaryIO, Generic, Literal, NamedTuple, TypeGuard, TypeVar

from ctxwrap.errors import InvalidInput
from ctxwrap.session.abi.names import parsed

Level = Literal["MUST", "SHOULD"]
"""The sentence's level. A plain statement counts as MUST, an example or recommendation as SHOULD."""

DOCUMENTS = {
    "CP": "Context Protocol",
    "AC": "Agent Context",
    "RA": "Context Runtime ABI",
    "MR": "Context & Summary Rules",
    "CA": "Context Assembly Protocol",
}
"""Specifications by the prefix of their checks' ids."""

_LONGEST_SHOWN = 80


class Finding(NamedTuple):
    """One violation of a sentence."""

    found: str
    file: str = ""
    line: int | None = None
    path: str = ""
    """Path in a JSON or YAML value, such as `memory.core[0].decay`."""

    @property
    def where(self) -> str:
        place = f"{self.file}:{self.line}" if self.file and self.line else self.file or self._line
        return f"{place} {self.path}".strip()

    @property
    def _line(self) -> str:
        return f"line {self.line}" if self.line else ""


Subject = TypeVar("Subject")
RunCheck = Callable[[Subject], Iterator[Finding]]


@dataclass(frozen=True, slots=True)
class Check(Generic[Subject]):
    id: str
    level: Level
    sentence: str
    find: RunCheck[Subject]

    @property
    def document(self) -> str:
        return DOCUMENTS[self.id.partition("-")[0]]


def describe(value: Any) -> str:
    """Return a value for a message, short and on one line."""
    if isinstance(value, (dict, list)):
        return f"{'an object' if isinstance(value, dict) else 'a list'} of {len(value)}"
    written = repr(value[: _LONGEST_SHOWN + 1] if isinstance(value, str) else value)
    return written if len(written) <= _LONGEST_SHOWN else f"{written[: _LONGEST_SHOWN - 1]}…"


def at(path: str, key: str | int) -> str:
    if isinstance(key, int):
        return f"{path}[{key}]"
    return f"{path}.{key}" if path else key


def is_count(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def is_share(value: object) -> bool:
    """Whether a value is a number from 0 to 1."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= 1


def is_time(value: object) -> bool:
    """Whether a value is a time in ISO 8601."""
    try:
        return isinstance(value, str) and bool(datetime.fromisoformat(value))
    except ValueError:
        return False


MOST_ENTRIES = 100_000
LARGEST_LOG = 256 << 20
"""Largest file of a session folder, in bytes."""

EntryKind = Literal["file", "directory", "outside", "other"]


class FolderLine(NamedTuple):
    number: int
    value: dict[str, Any]


@dataclass(slots=True)
class FolderLines:
    """The objects of a file of JSON lines, and the faults of other lines."""

    objects: list[FolderLine] = field(default_factory=list)
    faults: list[tuple[int, str]] = field(default_factory=list)


class Folder:
    def __init__(self, root: str) -> None:
        self._root = os.path.realpath(root)

    @cached_property
    def entries(self) -> dict[str, EntryKind]:
        """The files and directories below the root, by relative path; links that lead outside are not followed."""
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
                raise InvalidInput(f"it has more than {MOST_ENTRIES} files")
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
        """Return the relative paths of a directory's direct entries."""
        return [name for name in self.entries if name.startswith(under) and "/" not in name[len(under) :]]

    def has(self, name: str) -> bool:
        return self.entries.get(name) == "file"

    def read(self, name: str) -> bytes:
        """Return the content of a file; empty if it does not exist."""
        if not self.has(name):
            return b""
        with self._open(name) as file:
            return file.read(LARGEST_LOG)

    @contextmanager
    def _open(self, name: str) -> Iterator[BinaryIO]:
        with open(os.path.realpath(os.path.join(self._root, name)), "rb") as file:
            if os.fstat(file.fileno()).st_size > LARGEST_LOG:
                raise InvalidInput(f"{name} has more than {LARGEST_LOG} bytes")
            yield file

    def text(self, name: str) -> str:
        return self.read(name).decode("utf-8", "replace")

    def lines(self, name: str) -> FolderLines:
        found = FolderLines()
        for number, value in self.values(name):
            if isinstance(value, str):
                found.faults.append((number, value))
            else:
                found.objects.append(FolderLine(number, value))
        return found

    def values(self, name: str) -> Iterator[tuple[int, dict[str, Any] | str]]:
        """Yield the object of every line that is not blank, or the fault of the line."""
        if not self.has(name):
            return
        with self._open(name) as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    yield number, _object(line)


def _object(line: bytes) -> dict[str, Any] | str:
    try:
        value = parsed(line.decode())
    except ValueError as error:
        return str(error)
    return value if isinstance(value, dict) else "not a JSON object"
