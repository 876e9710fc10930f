"""Reads files below a root without following links, and the hint files `hot.yml` and `cold.yml`."""

import os
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from fnmatch import fnmatchcase
from functools import lru_cache
from hashlib import sha256
from typing import Any, Literal, NamedTuple

from ctxwrap.errors import InvalidManifest
from ctxwrap.redaction import Redacted, Redaction
from ctxwrap.tokens.measure import CountTokens, estimate_tokens
from ctxwrap.workingset import safe_yaml
from ctxwrap.workingset.safe_yaml import path_fault

MAX_BYTES = 1024 * 1024

_TRIES = 3
_REMEMBERED = 256
"""The most files in the cache."""
_SETTLED = 100_000_000
"""Nanoseconds after which a change gives a file another time."""

_IS_SAFE = hasattr(os, "O_NOFOLLOW")
"""Whether the platform can open a file without following links; Windows cannot."""
if _IS_SAFE:
    _STEP = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
    _LAST = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY

Trouble = Literal["bad path", "missing", "link", "no file", "too large", "forbidden", "changing", "binary", "not UTF-8"]


class FileBytes(NamedTuple):
    path: str
    data: bytes
    stamp: tuple[int, ...]
    """Device, inode, size and times, which change with the content."""


class FileText(NamedTuple):
    path: str
    text: str
    digest: str
    """SHA-256 of its bytes."""
    tokens: int
    found: tuple[tuple[str, int], ...] = ()
    """The redacted secrets: kinds and counts."""


class Unread(NamedTuple):
    """A file that was not read, and why."""

    path: str
    trouble: Trouble
    reason: str


class _Stop(Exception):
    def __init__(self, trouble: Trouble, reason: str) -> None:
        super().__init__(reason)
        self.trouble: Trouble = trouble


class Reader:
    """Reads the files of a working set as text, and caches unchanged ones."""

    def __init__(
        self,
        root: str | os.PathLike[str],
        count: CountTokens = estimate_tokens,
        max_bytes: int = MAX_BYTES,
        redaction: Redaction | None = None,
    ) -> None:
        self._root = os.fspath(root)
        self._count = count
        self._redaction = redaction
        self._max_bytes = max_bytes
        self._known: dict[str, tuple[tuple[int, ...], FileText | Unread]] = {}

    def read(self, path: str) -> FileText | Unread:
        known = self._known.pop(path, None)
        found = read_bytes(self._root, path, self._max_bytes, known[0] if known else None)
        if found is None and known:
            self._known[path] = known
            return known[1]
        if not isinstance(found, FileBytes):
            return found or Unread(path, "missing", "it is not there")
        result = self._text(found)
        if is_settled(found.stamp):
            self._remember(path, found.stamp, result)
        return result

    def given(self, path: str, text: str) -> FileText:
        """A text that is not in a file, as if it were read."""
        shown = self._redaction.redacted(text) if self._redaction else Redacted(text)
        digest = sha256(shown.text.encode("utf-8", "surrogatepass")).hexdigest()
        return FileText(path, shown.text, digest, self._count(shown.text), shown.found)

    def _remember(self, path: str, stamp: tuple[int, ...], result: FileText | Unread) -> None:
        if len(self._known) >= _REMEMBERED:
            del self._known[next(iter(self._known))]
        self._known[path] = stamp, result

    def _text(self, found: FileBytes) -> FileText | Unread:
        if b"\0" in found.data:
            return Unread(found.path, "binary", "it is a binary file; only text can be shown to a model")
        try:
            text = found.data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            return Unread(found.path, "not UTF-8", f"it is not UTF-8 (byte {error.start}); convert it or leave it out")
        shown = self._redaction.redacted(text) if self._redaction else Redacted(text)
        digest = sha256(found.data).hexdigest()
        return FileText(found.path, shown.text, digest, self._count(shown.text), shown.found)


def is_settled(stamp: tuple[int, ...]) -> bool:
    """Whether any later change gives the file another stamp."""
    return time.time_ns() - max(stamp[3:]) > _SETTLED


def read_bytes(root: str, path: str, max_bytes: int, known: tuple[int, ...] | None = None) -> FileBytes | Unread | None:
    """The content of a file below the root, or why it cannot be read; None if its stamp is `known`."""
    if fault := path_fault(path):
        return Unread(path, "bad path", fault)
    if not _IS_SAFE:
        return Unread(path, "forbidden", "files of a working set need Linux or macOS, where links can be refused")
    try:
        with _opened(root, path.split("/")) as handle:
            return _read(handle, path, max_bytes, known)
    except _Stop as stop:
        return Unread(path, stop.trouble, str(stop))
    except FileNotFoundError:
        return Unread(path, "missing", "it is not there")
    except PermissionError:
        return Unread(path, "forbidden", "it may not be read; change its permissions or leave it out")
    except (OSError, ValueError) as error:
        return Unread(path, "no file", f"it cannot be read: {getattr(error, 'strerror', None) or error}")


@contextmanager
def _opened(root: str, parts: list[str]) -> Iterator[int]:
    """Open a regular file, one directory at a time."""
    handle = os.open(root, _STEP)
    try:
        for part in parts[:-1]:
            handle = _exchanged(handle, part, _STEP | os.O_NOFOLLOW, stat.S_ISDIR)
        handle = _exchanged(handle, parts[-1], _LAST, stat.S_ISREG)
        yield handle
    finally:
        os.close(handle)


def _exchanged(handle: int, part: str, flags: int, is_fine: Callable[[int], bool]) -> int:
    """Open a name in a directory, and close the directory."""
    _check_kind(os.stat(part, dir_fd=handle, follow_symlinks=False).st_mode, part, is_fine)
    below = os.open(part, flags, dir_fd=handle)
    os.close(handle)
    return below


def _check_kind(mode: int, part: str, is_fine: Callable[[int], bool]) -> None:
    if stat.S_ISLNK(mode):
        raise _Stop("link", f"{part!r} is a symbolic link; links are not followed, name the file itself")
    if not is_fine(mode):
        kind = "directory" if stat.S_ISDIR(mode) else "regular file" if stat.S_ISREG(mode) else "device, pipe or socket"
        raise _Stop("no file", f"{part!r} is a {kind}")


def _read(handle: int, path: str, max_bytes: int, known: tuple[int, ...] | None) -> FileBytes | None:
    """Read until the file does not change while it is read."""
    for _ in range(_TRIES):
        before = os.fstat(handle)
        _check_file(before, max_bytes)
        if _stamp(before) == known:
            return None
        data = _first_bytes(handle, before.st_size + 1)
        if len(data) == before.st_size and _stamp(os.fstat(handle)) == _stamp(before):
            return FileBytes(path, data, _stamp(before))
    raise _Stop("changing", "it changes while it is read; try again when it is written")


def _check_file(found: os.stat_result, max_bytes: int) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise _Stop("no file", "it is no regular file")
    if found.st_nlink > 1:
        raise _Stop("link", "it has another name elsewhere (a hard link); put a copy in its place")
    if found.st_size > max_bytes:
        raise _Stop("too large", f"it has {found.st_size} bytes, more than {max_bytes}; use a part of it")


def _stamp(found: os.stat_result) -> tuple[int, ...]:
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _first_bytes(handle: int, size: int) -> bytes:
    data = bytearray()
    while len(data) < size and (piece := os.pread(handle, size - len(data), len(data))):
        data += piece
    return bytes(data)


HOT, COLD = "hot.yml", "cold.yml"

_MOST = 200
_LONGEST = 256


class Hints(NamedTuple):
    hot: tuple[str, ...] = ()
    """Paths and patterns of files to prefer."""
    cold: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    """The hint files that were read."""

    def heat(self, path: str) -> int:
        """1 for hot, -1 for cold, 0 for neither or both."""
        return _any_matches(self.hot, path) - _any_matches(self.cold, path)


def load_hints(root: str) -> Hints:
    """The hints in a directory, if there are any."""
    hot, cold = _load(root, HOT), _load(root, COLD)
    return Hints(hot.hot, cold.cold, hot.problems + cold.problems, hot.files + cold.files)


def read_hints(text: str | bytes) -> Hints:
    """Parse a hint file, in either notation; raises InvalidManifest."""
    source = safe_yaml.mapping_in(text)
    levels = source.get("priority")
    near = [source.get("keep"), *(_levels(levels) if isinstance(levels, dict) else ())]
    far = [source.get("evict"), source.get("deprioritized")]
    hot, cold = tuple(_patterns(near)), tuple(_patterns(far))
    is_long = len(hot) > _MOST or len(cold) > _MOST
    return Hints(hot[:_MOST], cold[:_MOST], (f"only the first {_MOST} hints are read",) if is_long else ())


def _load(root: str, name: str) -> Hints:
    found = read_bytes(root, name, safe_yaml.MAX_BYTES)
    if isinstance(found, Unread):
        return Hints() if found.trouble == "missing" else Hints(problems=(f"{name}: {found.reason}",))
    return _understood(name, found.data) if isinstance(found, FileBytes) else Hints()


@lru_cache(maxsize=16)
def _understood(name: str, data: bytes) -> Hints:
    try:
        return read_hints(data)._replace(files=(name,))
    except InvalidManifest as refused:
        return Hints(problems=(f"{name}: {refused}",))


def _levels(levels: Mapping[str, Any]) -> Iterator[Any]:
    """The two hot levels; the lower two are neutral."""
    yield from (levels.get("critical"), levels.get("high"))


def _patterns(lists: list[Any]) -> Iterator[str]:
    for found in lists:
        for entry in found if isinstance(found, list) else ():
            pattern = entry.get("path") if isinstance(entry, dict) else entry
            if isinstance(pattern, str) and 0 < len(pattern) <= _LONGEST:
                yield pattern


def _any_matches(patterns: tuple[str, ...], path: str) -> bool:
    return any(_matches(pattern, path) for pattern in patterns)


def _matches(pattern: str, path: str) -> bool:
    """Whether a path matches a path, a directory with a trailing slash, or a glob."""
    pattern = pattern.removeprefix("./")
    if pattern.endswith("/"):
        return path.startswith(pattern) or fnmatchcase(path, f"{pattern}*")
    return path == pattern or fnmatchcase(path, pattern) or fnmatchcase(f"/{path}", pattern.replace("**/", "*/", 1))
