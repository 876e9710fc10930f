"""Locks of the kernel: they end with the process that holds them, however it ends."""

import atexit
import contextlib
import fcntl
import hashlib
import os
import re
import secrets
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from ctxwrap.stores.files.disk import make_directory, opened, opened_for_good

_NAME = re.compile(r"[0-9a-f]{16}")


class _Lock:
    """A lock, held or waited for, on a handle of its own."""

    def __init__(self, path: str) -> None:
        self.path = path
        with _forking:
            self.handle = opened_for_good(path, os.O_RDWR | os.O_CREAT)
            _ours.add(self)

    def acquire(self, *, wait: bool) -> bool:
        """Whether the lock is ours now; if not, its handle is closed."""
        try:
            fcntl.flock(self.handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            self.release()
            return False
        except BaseException:
            self.release()
            raise
        return True

    def release(self, *, removes_file: bool = False) -> None:
        """Only the first call counts: later, or in a forked child, the handle may belong to another file."""
        if self in _ours:
            if removes_file:
                with contextlib.suppress(OSError):
                    os.unlink(self.path)
            fcntl.flock(self.handle, fcntl.LOCK_UN)  # a child that is being forked may share the handle
            with _forking:
                _ours.discard(self)
                os.close(self.handle)

    @property
    def has_its_file(self) -> bool:
        """Whether the path still names the locked file: the holder before may have removed it."""
        try:
            return os.path.samestat(os.fstat(self.handle), os.stat(self.path))
        except FileNotFoundError:
            return False


_ours: set[_Lock] = set()
"""The locks of this process. A forked child closes its copies, which would keep a lock that its parent releases."""

_forking = threading.RLock()
"""Held while a handle is opened and added to `_ours`, so that no process is forked in between."""


def _let_go_in_child() -> None:
    while _ours:
        os.close(_ours.pop().handle)
    _forking.release()


os.register_at_fork(before=_forking.acquire, after_in_parent=_forking.release, after_in_child=_let_go_in_child)


@contextmanager
def exclusive(path: str) -> Iterator[None]:
    """Keep out other processes and threads: each takes the lock on a handle of its own."""
    lock = _Lock(path)
    try:
        lock.acquire(wait=True)
        yield
    finally:
        lock.release()


def try_lock(path: str) -> Callable[[], None] | None:
    """Take a lock and return the function that releases it; None while another holder has it."""
    lock = _Lock(path)
    return lock.release if lock.acquire(wait=False) else None


class FileLocks:
    """The locks of a `SimpleStore` for all processes of one machine, as files in a directory."""

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self._directory = os.path.abspath(directory)

    def acquire(self, name: str, *, wait: bool) -> Callable[[], None] | None:
        make_directory(self._directory)
        path = f"{self._directory}/{hashlib.sha256(name.encode()).hexdigest()[:32]}"
        while True:
            lock = _Lock(path)
            if not lock.acquire(wait=wait):
                return None
            if lock.has_its_file:
                return partial(lock.release, removes_file=True)
            lock.release()


class ProcessName:
    """A name for this process, and a file of that name that stays locked while the process runs."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._name = ""
        self._process = 0

    @property
    def name(self) -> str:
        """A forked child has another one."""
        if self._process != os.getpid():
            make_directory(self._directory)
            self._remove_dead()
            self._name, self._process = self._create(), os.getpid()
        return self._name

    def is_alive(self, name: str, *, removes_dead: bool = False) -> bool:
        """Whether the process of that name runs; the file of a dead one is removed on request."""
        if not _NAME.fullmatch(name):
            return False
        path = self._path(name)
        try:
            with opened(path, os.O_RDWR) as handle:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if removes_dead:
                    os.unlink(path)
        except BlockingIOError:
            return True
        except FileNotFoundError:
            pass
        return False

    def _create(self) -> str:
        while True:
            name = secrets.token_hex(8)
            release = try_lock(self._path(name))
            if release is None:
                continue
            if os.path.exists(self._path(name)):
                atexit.register(self._remove_own, name, os.getpid())
                return name
            release()  # another process removed the file as a dead one's before it was locked

    def _remove_own(self, name: str, process: int) -> None:
        if process == os.getpid():
            with contextlib.suppress(OSError):
                os.unlink(self._path(name))

    def _remove_dead(self) -> None:
        for name in os.listdir(self._directory):
            self.is_alive(name, removes_dead=True)

    def _path(self, name: str) -> str:
        return f"{self._directory}/{name}"
