"""A weak medium: every state in which a power cut may leave what was done to it and not waited for."""

import itertools
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from tests.stores.faults import Operation

SECTOR = 512

DIRECTORY = -1

Names = dict[str, int]
"""Which file, or directory, has which path."""

Contents = dict[int, bytes]
"""What is in each file."""


@dataclass
class File:
    lasting: bytes = b""
    """What the medium has for sure."""
    pending: list[Operation] = field(default_factory=list)
    lost: list[tuple[int, int]] = field(default_factory=list)
    """The parts of which the medium said that it did not take them, and that nobody wrote again."""

    @property
    def full(self) -> bytes:
        data = self.lasting
        for operation in self.pending:
            kept = data[: operation.start].ljust(operation.start, b"\0")
            behind = data[operation.start + len(operation.data) :] if operation.kind == "write" else b""
            data = kept + operation.data + behind
        return data

    def sync(self) -> None:
        self.lasting, self.pending = self.full, []

    def fail(self) -> None:
        self.lost += [(each.start, each.start + len(each.data)) for each in self.pending if each.kind == "write"]

    def variants(self) -> set[bytes]:
        """What may be found in it: of what was not waited for nothing, all, a part, or all but some sectors."""
        full = self.full
        found = {self.lasting, full, *self._with_losses(full)}
        if not self.pending:
            return found
        start = min(operation.start for operation in self.pending)
        size = len(full) - start
        for length in (1, size // 2, size - 1, *(edge - start for edge in _edges(start, len(full)))):
            found.add(full[: start + max(0, length)])
        found.add(_zeroed(full, start, len(full)))
        for first, last in itertools.pairwise([start, *_edges(start, len(full)), len(full)]):
            found.add(_zeroed(full, first, last))
        return found

    def _with_losses(self, full: bytes) -> Iterator[bytes]:
        for start, end in self.lost:
            sectors = -(-start // SECTOR) * SECTOR, end // SECTOR * SECTOR
            if sectors[0] < sectors[1] <= len(full):
                yield _zeroed(full, *sectors)


def _edges(start: int, end: int) -> range:
    """Where sectors begin within a part of a file."""
    return range(start // SECTOR * SECTOR + SECTOR, end, SECTOR)


def _zeroed(data: bytes, start: int, end: int) -> bytes:
    return data[:start] + bytes(max(0, end - start)) + data[end:]


class State(NamedTuple):
    """One that a power cut may leave."""

    names: tuple[tuple[str, int], ...]
    contents: tuple[tuple[int, bytes], ...]

    def lay_out(self, base: str, place: Path) -> None:
        """Make `place` what `base` was in that state."""
        files, made = dict(self.contents), {base}
        for path, file in sorted(self.names):
            if os.path.dirname(path) in made:
                there = place / os.path.relpath(path, base)
                if file == DIRECTORY:
                    made.add(path)
                    there.mkdir()
                else:
                    there.write_bytes(files[file])


class Medium:
    """What a medium below `base` may hold after some operations; it never forgets what has `settled` in its path."""

    def __init__(self, base: str, settled: str) -> None:
        self._base = base
        self._settled = settled
        self._names: Names = {}
        self._pending: list[Operation] = []
        self._files: dict[int, File] = {}
        self._inodes: dict[int, int] = {}

    def do(self, operation: Operation) -> None:
        if not f"{operation.path}/".startswith(f"{self._base}/"):
            return
        file = self._files.get(self._inodes.get(operation.file, 0))
        match operation.kind:
            case "create":
                number = len(self._files) + 1  # inodes come back, these do not
                self._inodes[operation.file], self._files[number] = number, File()
                self._pending.append(operation._replace(file=number))
            case "mkdir" | "rename" | "unlink" | "link":
                self._pending.append(operation)
            case "write" | "cut" if file:
                file.pending.append(operation)
                if self._settled in operation.path:
                    file.sync()
            case "sync" if file:
                file.sync()
            case "failed sync" if file:
                file.fail()
            case "sync names":
                here = [each for each in self._pending if os.path.dirname(each.path) == operation.path]
                self._names = named(self._names, here)
                self._pending = [each for each in self._pending if each not in here]

    def states(self) -> Iterator[State]:
        """Some names happened, others not; if all did, anything of one file is there, and all or nothing of others."""
        for names in self._all_names():
            for contents in self._contents(names):
                yield _state(names, contents)
        everything = named(self._names, self._pending)
        for contents in self._contents(everything):
            for file in contents:
                for data in self._files[file].variants():
                    yield _state(everything, {**contents, file: data})

    def _contents(self, names: Names) -> tuple[Contents, Contents]:
        """What is in these files at least, and at most."""
        files = {file: self._files[file] for file in names.values() if file != DIRECTORY}
        return {at: file.lasting for at, file in files.items()}, {at: file.full for at, file in files.items()}

    def _all_names(self) -> Iterable[Names]:
        settled = [each for each in self._pending if self._settled in each.path]
        pending = [each for each in self._pending if each not in settled]
        chosen = [pending[:count] for count in range(len(pending) + 1)]
        chosen += [[each for each in pending if each is not other] for other in pending]
        return [named(self._names, [*operations, *settled]) for operations in chosen]


def _state(names: Names, contents: Contents) -> State:
    return State(tuple(sorted(names.items())), tuple(sorted(contents.items())))


def named(names: Names, operations: Sequence[Operation]) -> Names:
    """The names after these operations, each of which may lack one that came before it."""
    names = dict(names)
    for operation in operations:
        match operation.kind:
            case "create":
                names[operation.path] = operation.file
            case "mkdir":
                names[operation.path] = DIRECTORY
            case "rename" if operation.path in names:
                names[operation.other] = names.pop(operation.path)
            case "link" if operation.path in names:
                names[operation.other] = names[operation.path]
            case "unlink":
                names.pop(operation.path, None)
    return names
