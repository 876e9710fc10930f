"""File system operations that never follow a link, keep files private, and can be synced; and kernel locks."""

import atexit
import contextlib
import errno
import fcntl
import os
import re
import secrets
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_PRIVATE = os.O_CLOEXEC | os.O_NOFOLLOW

_DOUBTFUL = stat.S_IXUSR
"""The mark of a file that the medium failed to take once. The system may take for written then what it lost, so that a
later sync says nothing about it; everybody has to know."""


@contextmanager
def opened(path: str, flags: int, directory: int | None = None) -> Iterator[int]:
    handle = opened_for_good(path, flags, directory)
    try:
        yield handle
    finally:
        os.close(handle)


def opened_for_good(path: str, flags: int, directory: int | None = None) -> int:
    """The same for a handle that somebody else closes."""
    if flags & os.O_CREAT:
        with contextlib.suppress(FileNotFoundError):
            return os.open(path, (flags & ~os.O_CREAT) | _PRIVATE, dir_fd=directory)
    handle = os.open(path, flags | _PRIVATE, 0o600, dir_fd=directory)
    if flags & os.O_CREAT:
        os.chmod(handle, 0o600)  # whatever the umask left of it
    return handle


def read_all(handle: int, start: int = 0, end: int | None = None) -> bytes:
    """What a file holds from `start` on, or up to `end`."""
    pieces = []
    while piece := os.pread(handle, 1 << 20 if end is None else min(1 << 20, max(0, end - start)), start):
        pieces.append(piece)
        start += len(piece)
    return b"".join(pieces)


def write_all(handle: int, data: bytes) -> None:
    """Write all of it, however little the system takes at once."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(handle, rest) :]


def sync(handle: int) -> None:
    """Wait until the medium has what was written to a file, and its length."""
    try:
        _sync(handle)
    except OSError:
        with contextlib.suppress(OSError):
            os.chmod(handle, 0o600 | _DOUBTFUL)
        raise
    if is_doubtful(os.fstat(handle)):
        raise OSError(errno.EIO, "the medium failed to take the file when others waited for it")


def is_doubtful(known: os.stat_result) -> bool:
    """Whether the medium failed to take a file once, and it is to be written anew."""
    return bool(known.st_mode & _DOUBTFUL)


def _sync(handle: int) -> None:
    if hasattr(fcntl, "F_FULLFSYNC"):  # macOS, where fsync stops at the drive's cache
        fcntl.fcntl(handle, fcntl.F_FULLFSYNC)
    elif hasattr(os, "fdatasync"):
        os.fdatasync(handle)
    else:
        os.fsync(handle)


def sync_directory(path: str) -> None:
    """Wait until the medium has the names in a directory."""
    with opened(path, os.O_RDONLY | os.O_DIRECTORY) as handle:
        os.fsync(handle)


def sync_names(path: str) -> None:
    """The same for a directory and all those above it in which anything may be ours."""
    while os.access(path, os.W_OK):
        sync_directory(path)
        if os.path.ismount(path):
            break
        path = os.path.dirname(path)


def replace(path: str, data: bytes, *, lasting: bool) -> None:
    """Put `data` in the place of a file; whenever this stops, the old file is there or the new one.

    `lasting` waits until the medium has it, so that nothing of the old one is left after that.
    """
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


def make_directory(path: str) -> None:
    """A directory and those above it, for its owner only; those that there are stay as they are."""
    if os.path.isdir(path):
        return
    make_directory(os.path.dirname(path))
    with contextlib.suppress(FileExistsError):
        os.mkdir(path, 0o700)
        os.chmod(path, 0o700)  # whatever the umask left of it


def is_open_to_all(path: str) -> bool:
    """Whether anybody may put other things in the place of what lies in a directory."""
    mode = os.stat(path).st_mode
    return bool(mode & stat.S_IWOTH) and not mode & stat.S_ISVTX


_NAME = re.compile(r"[0-9a-f]{16}")


class _Lock:
    """A lock, or the wish for one, on a handle of its own."""

    def __init__(self, path: str) -> None:
        with _forking:
            self.handle = opened_for_good(path, os.O_RDWR | os.O_CREAT)
            _ours.add(self)

    def give_back(self) -> None:
        """Once: the second time, or in a forked child, the handle may be another file's."""
        if self in _ours:
            fcntl.flock(self.handle, fcntl.LOCK_UN)  # a forked child may have the handle for a moment, too
            with _forking:
                _ours.discard(self)
                os.close(self.handle)


_ours: set[_Lock] = set()
"""This process's own. A forked child closes its copies: it would keep what its parent lets go of only by ending."""

_forking = threading.RLock()
"""No process is forked between the opening of a handle and its becoming ours."""


def _let_go_in_child() -> None:
    while _ours:
        os.close(_ours.pop().handle)
    _forking.release()


os.register_at_fork(before=_forking.acquire, after_in_parent=_forking.release, after_in_child=_let_go_in_child)


@contextmanager
def exclusive(path: str) -> Iterator[None]:
    """Others wait: processes and threads alike, since each takes the lock on a handle of its own."""
    lock = _Lock(path)
    try:
        fcntl.flock(lock.handle, fcntl.LOCK_EX)
        yield
    finally:
        lock.give_back()


def taken(path: str) -> Callable[[], None] | None:
    """The lock, as what gives it back, or None while another has it."""
    lock = _Lock(path)
    try:
        fcntl.flock(lock.handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.give_back()
        return None
    except BaseException:
        lock.give_back()
        raise
    return lock.give_back


class SignOfLife:
    """A file that stays locked as long as the process that wrote its name runs."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._name = ""
        self._process = 0

    @property
    def name(self) -> str:
        """This process's name, which a forked child does not share."""
        if self._process != os.getpid():
            make_directory(self._directory)
            self._bury()
            self._name, self._process = self._begun(), os.getpid()
        return self._name

    def shown_by(self, name: str, *, buries: bool = False) -> bool:
        """Whether the process of that name lives; if not, what it left is taken away if that is asked for."""
        if not _NAME.fullmatch(name):
            return False
        path = self._path(name)
        try:
            with opened(path, os.O_RDWR) as handle:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if buries:
                    os.unlink(path)
        except BlockingIOError:
            return True
        except FileNotFoundError:
            pass
        return False

    def _begun(self) -> str:
        while True:
            name = secrets.token_hex(8)
            give_back = taken(self._path(name))
            if give_back is None:
                continue
            if os.path.exists(self._path(name)):
                atexit.register(self._end, name, os.getpid())
                return name
            give_back()  # somebody took the file for a dead one's before it was locked

    def _end(self, name: str, process: int) -> None:
        if process == os.getpid():
            with contextlib.suppress(OSError):
                os.unlink(self._path(name))

    def _bury(self) -> None:
        """Take away what is left of processes that ended without a word."""
        for name in os.listdir(self._directory):
            self.shown_by(name, buries=True)

    def _path(self, name: str) -> str:
        return f"{self._directory}/{name}"
