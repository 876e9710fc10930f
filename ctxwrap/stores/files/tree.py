"""The files of a session, in its directory and never outside it."""

import contextlib
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager

from ctxwrap.stores.base import CACHE, FileEntry
from ctxwrap.stores.files import disk
from ctxwrap.stores.names import file_parts, name_from_disk, name_on_disk, path_on_disk

_ABSENT = (FileNotFoundError, NotADirectoryError)

_SMALL = 4096
"""Up to this size, one page, a file is overwritten in place: the kernel writes that much at once. A cache is of any
size, since its files have checksums: to replace a file takes twenty times as long."""


class FileTree:
    def __init__(
        self, root: str, explained: Callable[[str], AbstractContextManager[None]], sync_place: Callable[[], None]
    ) -> None:
        self._root = root
        self._explained = explained
        self._sync_place = sync_place
        """Waits until the root's own name is on the medium."""

    def entries(self, under: str = "") -> list[FileEntry]:
        if self._is_absent(under):
            return []
        with self._explained("read"):
            return sorted(entry for entry in self._walk(file_parts(under)) if not _is_hidden(entry))

    def leftovers(self) -> list[FileEntry]:
        with self._explained("read"):
            found = [entry for place in ("context", "raw", CACHE) for entry in self._walk([place])]
        return sorted(entry for entry in found if _is_hidden(entry) and entry.name.endswith(".new"))

    def load(self, name: str, size: int | None = None, start: int = 0) -> bytes | None:
        if "/" in name and self._is_absent(name):
            return None
        end = None if size is None else start + size
        with self._explained("read"), contextlib.suppress(*_ABSENT):
            if "/" not in name:  # no directory on the path could be a link
                return _loaded(f"{self._root}/{path_on_disk(name)}", start, end)
            with self._directory(name) as (directory, last):
                return _loaded(last, start, end, directory)
        return None

    def _is_absent(self, name: str) -> bool:
        """Whether the file surely does not exist: most calls ask for files that few sessions have."""
        path = f"{self._root}/{path_on_disk(name)}" if name else self._root
        try:
            os.stat(path, follow_symlinks=False)
        except _ABSENT:
            return True
        except (OSError, ValueError):
            return False
        return False

    def save(self, name: str, data: bytes, *, lasting: bool = False) -> None:
        with self._explained("write to"):
            with self._directory(name, make=True) as (directory, last):
                if lasting or (len(data) > _SMALL and not name.startswith(f"{CACHE}/")):
                    self._put_in_place(directory, last, data, lasting=lasting)
                else:
                    with disk.opened(last, os.O_WRONLY | os.O_CREAT | os.O_NONBLOCK, directory) as handle:
                        disk.write_all(handle, data)
                        os.ftruncate(handle, len(data))
            if lasting:
                self._sync_names(name)

    def _put_in_place(self, directory: int, last: str, data: bytes, *, lasting: bool) -> None:
        temporary = f".{last}.new"
        try:
            with disk.opened(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, directory) as handle:
                disk.write_all(handle, data)
                if lasting:
                    os.fsync(handle)
            if not lasting:  # some file systems flush the data when a rename replaces a file
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(last, dir_fd=directory)
            os.rename(temporary, last, src_dir_fd=directory, dst_dir_fd=directory)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary, dir_fd=directory)
            raise

    def _sync_names(self, name: str) -> None:
        """Wait until the name and its directories are on the medium."""
        parts = file_parts(name)
        for depth in range(len(parts)):
            with self._opened(parts[:depth]) as handle:
                os.fsync(handle)
        self._sync_place()

    def sync(self, names: Sequence[str]) -> None:
        """Wait until those of these files that exist are on the medium."""
        with self._explained("write to"):
            for name in names:
                with (
                    contextlib.suppress(*_ABSENT),
                    self._directory(name) as (directory, last),
                    disk.opened(last, os.O_RDONLY | os.O_NONBLOCK, directory) as handle,
                ):
                    os.fsync(handle)
            if names:
                self._sync_names(names[0])

    def extend(self, name: str, data: bytes, after: int) -> bool:
        with (
            self._explained("write to"),
            self._directory(name, make=True) as (directory, last),
            disk.opened(last, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NONBLOCK, directory) as handle,
        ):
            there = os.fstat(handle).st_size - after
            if not 0 <= there <= len(data):
                return False
            disk.write_all(handle, data[there:])
        return True

    def link(self, name: str, other: str) -> None:
        if not self._is_file(name):
            return
        with (
            self._explained("write to"),
            self._directory(name) as (source, this),
            self._directory(other, make=True) as (directory, that),
        ):
            try:
                os.link(this, that, src_dir_fd=source, dst_dir_fd=directory, follow_symlinks=False)
            except FileExistsError:
                pass
            except OSError:  # a file system without hard links
                self.save(other, self.load(name) or b"")

    def _is_file(self, name: str) -> bool:
        with self._explained("read"), contextlib.suppress(*_ABSENT), self._directory(name) as (directory, last):
            return stat.S_ISREG(os.stat(last, dir_fd=directory, follow_symlinks=False).st_mode)
        return False

    def remove(self, name: str) -> None:
        with (
            self._explained("write to"),
            contextlib.suppress(*_ABSENT),
            self._directory(name) as (directory, last),
        ):
            os.unlink(last, dir_fd=directory)

    def remove_strays(self, name: str, may: Callable[[str], bool]) -> list[str]:
        with self._explained("write to"), contextlib.suppress(*_ABSENT):
            return list(self._without_strays(file_parts(name), may))
        return []

    def _without_strays(self, parts: Sequence[str], may: Callable[[str], bool]) -> Iterator[str]:
        name, last = "/".join(parts), name_on_disk(parts[-1])
        with self._opened(parts[:-1]) as directory:
            mode = os.stat(last, dir_fd=directory, follow_symlinks=False).st_mode
            if stat.S_ISREG(mode) or not (may(name) and may(f"{name}/")):
                return
            if not stat.S_ISDIR(mode):
                os.unlink(last, dir_fd=directory)
                yield name
                return
            with self._opened(parts) as handle:
                below = sorted(map(name_from_disk, os.listdir(handle)))
            for each in below:
                yield from self._without_strays([*parts, each], may)
            with contextlib.suppress(OSError):  # it is not empty
                os.rmdir(last, dir_fd=directory)
                yield f"{name}/"

    def clear(self, under: str) -> None:
        """Remove every file in a directory, also hidden and temporary ones, and wait for the medium."""
        with self._explained("write to"), contextlib.suppress(*_ABSENT):
            for entry in list(self._walk(file_parts(under))):
                self.remove(entry.name)
            with self._opened(file_parts(under)) as handle:
                os.fsync(handle)

    def _walk(self, parts: Sequence[str]) -> Iterator[FileEntry]:
        try:
            with self._opened(parts) as handle, os.scandir(handle) as found:
                entries = [(name_from_disk(entry.name), entry.stat(follow_symlinks=False)) for entry in found]
        except _ABSENT:
            return
        for name, known in entries:
            if stat.S_ISREG(known.st_mode):
                yield FileEntry("/".join([*parts, name]), known.st_size, known.st_mtime)
            elif stat.S_ISDIR(known.st_mode) and not name.startswith("."):
                yield from self._walk([*parts, name])

    def _directory(self, name: str, *, make: bool = False) -> "_NameInDirectory":
        """The directory of a file, and its name there."""
        *parts, last = file_parts(name)
        own = name_on_disk(last)
        return _NameInDirectory(self._open(parts, make=make), own)

    def _opened(self, parts: Sequence[str]) -> disk.Handle:
        return disk.Handle(self._open(parts))

    def _open(self, parts: Sequence[str], *, make: bool = False) -> int:
        """Open a directory step by step, so that no step below the root follows a link."""
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
        if not parts:
            return os.open(self._root, flags)
        first, *others = map(name_on_disk, parts)
        handle = _step(f"{self._root}/{first}", flags, None, make=make)
        for part in others:
            try:
                below = _step(part, flags, handle, make=make)
            finally:
                os.close(handle)
            handle = below
        return handle


class _NameInDirectory:
    """An open directory, and a name in it."""

    __slots__ = ("_directory", "_name")

    def __init__(self, directory: int, name: str) -> None:
        self._directory, self._name = directory, name

    def __enter__(self) -> tuple[int, str]:
        return self._directory, self._name

    def __exit__(self, *_: object) -> None:
        os.close(self._directory)


def _loaded(path: str, start: int, end: int | None, directory: int | None = None) -> bytes | None:
    if not stat.S_ISREG(os.stat(path, dir_fd=directory, follow_symlinks=False).st_mode):
        return None
    with disk.opened(path, os.O_RDONLY | os.O_NONBLOCK, directory) as handle:
        return disk.read_all(handle, start, end)


def _step(name: str, flags: int, directory: int | None, *, make: bool) -> int:
    """Open a directory in another one."""
    try:
        return os.open(name, flags | os.O_NOFOLLOW, dir_fd=directory)
    except FileNotFoundError:
        if not make:
            raise
    _make(name, directory)
    return os.open(name, flags | os.O_NOFOLLOW, dir_fd=directory)


def _make(name: str, directory: int | None) -> None:
    with contextlib.suppress(FileExistsError):
        os.mkdir(name, 0o700, dir_fd=directory)
        os.chmod(name, 0o700, dir_fd=directory)  # regardless of the umask


def _is_hidden(entry: FileEntry) -> bool:
    return entry.name.rpartition("/")[2].startswith(".")
