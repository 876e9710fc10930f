"""A seam between the store and the system: what it asks for can be counted, refused, cut short, or be the last."""

import os
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from ctxwrap.stores.files import disk, journal, redo, store, tree

MODULES = (disk, store, journal, redo, tree)

CHANGES = (
    "open", "write", "ftruncate", "fsync", "fdatasync", "replace", "rename", "unlink", "link", "mkdir", "chmod",
)  # fmt: skip
"""What may change things; whatever is asked in between leaves them as they are."""

CALLS = (*CHANGES, "pread")

SYNCS = ("fsync", "fdatasync")


class Operation(NamedTuple):
    """Something that was done to the medium, or, as `acked`, that somebody was promised to find on it."""

    kind: str
    path: str
    """Of the file's name; writing, cutting and syncing name the file itself."""
    file: int = 0
    """The file's inode; for a directory that is made or synced, 0."""
    start: int = 0
    data: bytes = b""
    other: str = ""
    """The new name of what is renamed."""


Before = Callable[[str, int, int], int | None]
"""Called before a call with its name, its number among those of that name, and among all that may change things.

It may raise what the system would, or say how many bytes of a write are to be taken.
"""


class Seam:
    """Passes on to `os` what is asked of it, between `before` and `after`, and never waits for the real medium.

    If it `records`, it keeps the operations that change what the medium has.
    """

    def __init__(self, before: Before | None = None, after: Before | None = None, *, records: bool = False) -> None:
        self.counts: Counter[str] = Counter()
        self.total = 0
        """How many calls may have changed something."""
        self.operations: list[Operation] = []
        """What was done to the medium so far."""
        self._before = before
        self._after = after
        self._records = records

    def __getattr__(self, name: str) -> Any:
        real = getattr(os, name)
        if name not in CALLS:
            return real

        def call(*args: Any, **options: Any) -> Any:
            return self._called(name, real, args, options)

        setattr(self, name, call)
        return call

    def _called(self, name: str, real: Callable[..., Any], args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        self.counts[name] += 1
        self.total += name in CHANGES
        now = name, self.counts[name], self.total
        known = _prepared(name, args, options) if self._records else None
        try:
            taken = self._before(*now) if self._before else None
        except OSError:
            if known is not None and name in SYNCS:
                self.operations.append(known._replace(kind="failed " + known.kind))
            raise
        if name == "write" and taken is not None:
            args = (args[0], args[1][:taken])
            known = known and known._replace(data=bytes(args[1]))
        result = None if name in SYNCS else real(*args, **options)
        if known is not None:
            self.operations.append(known if name != "open" else known._replace(file=os.fstat(result).st_ino))
        if self._after:
            self._after(*now)
        return result


def _prepared(name: str, args: tuple[Any, ...], options: dict[str, Any]) -> Operation | None:
    """What the call will have done, told before it is."""
    match name:
        case "write":
            at = os.lseek(args[0], 0, os.SEEK_END if _appends(args[0]) else os.SEEK_CUR)
            return Operation("write", _path(args[0]), os.fstat(args[0]).st_ino, at, bytes(args[1]))
        case "ftruncate":
            return Operation("cut", _path(args[0]), os.fstat(args[0]).st_ino, args[1])
        case "fsync" | "fdatasync":
            is_directory = os.path.isdir(path := _path(args[0]))
            return Operation("sync names" if is_directory else "sync", path, os.fstat(args[0]).st_ino)
        case "replace" | "rename":
            return Operation(
                "rename",
                _path(args[0], options.get("src_dir_fd")),
                other=_path(args[1], options.get("dst_dir_fd")),
            )
        case "link":
            return Operation("link", _path(args[0], options["src_dir_fd"]), other=_path(args[1], options["dst_dir_fd"]))
        case "unlink" | "mkdir":
            path = _path(args[0], options.get("dir_fd"))
            return Operation(name, path) if os.path.lexists(path) == (name == "unlink") else None
        case "open" if args[1] & (os.O_CREAT | os.O_TRUNC):
            path = _path(args[0], options.get("dir_fd"))
            return Operation("cut" if os.path.lexists(path) else "create", path)
    return None


def _appends(handle: int) -> bool:
    flags = Path(f"/proc/self/fdinfo/{handle}").read_text().split("flags:")[1].split()[0]
    return bool(int(flags, 8) & os.O_APPEND)


def _path(of: Any, directory: int | None = None) -> str:
    """The path of a handle, or of a name in a directory."""
    if isinstance(of, int):
        return os.readlink(f"/proc/self/fd/{of}").removesuffix(" (deleted)")
    return os.path.join(_path(directory), of) if directory is not None else os.fspath(of)


@contextmanager
def installed(seam: Seam) -> Iterator[Seam]:
    """The store asks the seam instead of the system."""
    try:
        for module in MODULES:
            module.os = seam  # type: ignore[attr-defined]
        yield seam
    finally:
        for module in MODULES:
            module.os = os  # type: ignore[attr-defined]


def failing(name: str, number: int, code: int, *, for_ever: bool = False) -> Before:
    """Refuse a call, or that and all later ones of that name."""

    def before(called: str, count: int, total: int) -> None:
        if called == name and (count >= number if for_ever else count == number):
            raise OSError(code, os.strerror(code))

    return before


def killing(number: int) -> Before:
    """Kill the process before a call."""

    def before(called: str, count: int, total: int) -> None:
        if total == number and called in CHANGES:
            os.kill(os.getpid(), signal.SIGKILL)

    return before


def short(length: int, number: int = 0) -> Before:
    """Take at most so many bytes of a write, or of each."""
    return lambda called, count, total: length if called == "write" and number in (0, count) else None


def killing_after(name: str, number: int) -> Before:
    """Kill the process behind a call."""

    def after(called: str, count: int, total: int) -> None:
        if (called, count) == (name, number):
            os.kill(os.getpid(), signal.SIGKILL)

    return after
