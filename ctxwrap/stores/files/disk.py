"""File operations that never follow a link, keep files private, and can wait for the medium."""

import contextlib
import errno
import fcntl
import os
import stat

_PRIVATE = os.O_CLOEXEC | os.O_NOFOLLOW

_DOUBTFUL = stat.S_IXUSR
"""Marks a file whose sync failed once. The kernel may then drop the data and report later syncs as successful, so every
process has to know."""


class Handle:
    """A handle that is closed behind a `with`."""

    __slots__ = ("_number",)

    def __init__(self, number: int) -> None:
        self._number = number

    def __enter__(self) -> int:
        return self._number

    def __exit__(self, *_: object) -> None:
        os.close(self._number)


def opened(path: str, flags: int, directory: int | None = None) -> Handle:
    return Handle(opened_for_good(path, flags, directory))


def opened_for_good(path: str, flags: int, directory: int | None = None) -> int:
    """The same, as a handle that the caller closes."""
    if flags & os.O_CREAT and not flags & os.O_TRUNC:  # a file that is written anew is rarely there
        with contextlib.suppress(FileNotFoundError):
            return os.open(path, (flags & ~os.O_CREAT) | _PRIVATE, dir_fd=directory)
    handle = os.open(path, flags | _PRIVATE, 0o600, dir_fd=directory)
    if flags & os.O_CREAT:
        os.chmod(handle, 0o600)  # regardless of the umask
    return handle


def read_all(handle: int, start: int = 0, end: int | None = None) -> bytes:
    """The content of a file from `start` on, or up to `end`."""
    pieces = []
    while piece := os.pread(handle, 1 << 20 if end is None else min(1 << 20, max(0, end - start)), start):
        pieces.append(piece)
        start += len(piece)
    return b"".join(pieces)


def write_all(handle: int, data: bytes) -> None:
    """Write all of the data, in as many writes as it takes."""
    written = os.write(handle, data)
    while written < len(data):
        written += os.write(handle, memoryview(data)[written:])


def sync(handle: int) -> None:
    """Wait until a file's data and length are on the medium."""
    try:
        _sync(handle)
    except OSError:
        with contextlib.suppress(OSError):
            os.chmod(handle, 0o600 | _DOUBTFUL)
        raise
    if is_doubtful(os.fstat(handle)):
        raise OSError(errno.EIO, "an earlier sync of the file failed")


def is_doubtful(known: os.stat_result) -> bool:
    """Whether a sync of the file failed, so that it must be written again."""
    return bool(known.st_mode & _DOUBTFUL)


def _sync(handle: int) -> None:
    if hasattr(fcntl, "F_FULLFSYNC"):  # macOS, where fsync stops at the drive's cache
        fcntl.fcntl(handle, fcntl.F_FULLFSYNC)
    elif hasattr(os, "fdatasync"):
        os.fdatasync(handle)
    else:
        os.fsync(handle)


def sync_directory(path: str) -> None:
    """Wait until the names in a directory are on the medium."""
    with opened(path, os.O_RDONLY | os.O_DIRECTORY) as handle:
        os.fsync(handle)


def sync_names(path: str) -> None:
    """The same for a directory and all writable ones above it, up to the mount point."""
    while os.access(path, os.W_OK):
        sync_directory(path)
        if os.path.ismount(path):
            break
        path = os.path.dirname(path)


def replace(path: str, data: bytes, *, lasting: bool) -> None:
    """Replace a file atomically; `lasting` waits until the new one is on the medium."""
    temporary = f"{path}.new"
    try:
        with opened(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC) as handle:
            write_all(handle, data)
            if lasting:
                _sync(handle)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise
    if lasting:
        sync_directory(os.path.dirname(path))


def overwrite(path: str, data: bytes, directory: int | None = None) -> None:
    """Write a file in place, which takes a fraction of replacing it; a crash may leave a part of the new data."""
    with opened(path, os.O_WRONLY | os.O_CREAT | os.O_NONBLOCK, directory) as handle:
        write_all(handle, data)
        os.ftruncate(handle, len(data))


def make_directory(path: str) -> None:
    """Create a directory and its parents, readable by the owner only; existing ones are not changed."""
    if os.path.isdir(path):
        return
    make_directory(os.path.dirname(path))
    with contextlib.suppress(FileExistsError):
        os.mkdir(path, 0o700)
        os.chmod(path, 0o700)  # regardless of the umask


def is_open_to_all(path: str) -> bool:
    """Whether any user may replace the files in a directory."""
    mode = os.stat(path).st_mode
    return bool(mode & stat.S_IWOTH) and not mode & stat.S_ISVTX
