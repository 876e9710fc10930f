"""Locks of the kernel: they end with the process that holds them, however it ends."""

import atexit
import contextlib
import fcntl
import hashlib
import os
import re
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from ctxwrap.stores.files import handles
from ctxwrap.stores.files.disk import make_directory, opened

_FLAGS = os.O_RDWR | os.O_CREAT
_NAME = re.compile(r"[0-9a-f]{16}")


class FileLock:
    """A lock, held or waited for, on a file that this holder has alone."""

    def __init__(self, path: str) -> None:
        self._file = handles.take(path, _FLAGS)
        self.size = 0
        """The size of the file when the lock was taken."""
        self._is_over = False

    def acquire(self, *, wait: bool) -> bool:
        """Whether the lock is ours now; if not, its file is given back."""
        try:
            fcntl.flock(self._file.handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            while (known := self._file.look()) is None:  # whoever had it before removed the file
                self._file.close()
                self._file = handles.take(self._file.path, _FLAGS)
                fcntl.flock(self._file.handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            self.release()
            return False
        except BaseException:
            self.release()
            raise
        self.size = known.st_size
        return True

    def release(self, *, removes_file: bool = False) -> None:
        """Only the first call counts: later the file may have another holder."""
        file = self._file
        if self._is_over or not file.is_open:
            return
        if removes_file:
            with contextlib.suppress(OSError):
                os.unlink(file.path)
        fcntl.flock(file.handle, fcntl.LOCK_UN)  # a child that is being forked may share the handle
        self._is_over = True
        if removes_file:
            file.close()
        else:
            handles.keep(file)


@contextmanager
def exclusive(path: str) -> Iterator[None]:
    """Keep out other processes and threads: each takes the lock on a handle of its own."""
    lock = FileLock(path)
    try:
        lock.acquire(wait=True)
        yield
    finally:
        lock.release()


def try_lock(path: str) -> Callable[[], None] | None:
    """Take a lock and return the function that releases it; None while another holder has it."""
    lock = FileLock(path)
    return lock.release if lock.acquire(wait=False) else None


class FileLocks:
    """The locks of a `SimpleStore` for all processes of one machine, as files in a directory."""

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self._directory = os.path.abspath(directory)

    def acquire(self, name: str, *, wait: bool) -> Callable[[], None] | None:
        make_directory(self._directory)
        path = f"{self._directory}/{hashlib.sha256(name.encode()).hexdigest()[:32]}"
        lock = FileLock(path)
        return partial(lock.release, removes_file=True) if lock.acquire(wait=wait) else None


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
            if try_lock(self._path(name)) is not None:
                atexit.register(self._remove_own, name, os.getpid())
                return name

    def _remove_own(self, name: str, process: int) -> None:
        if process == os.getpid():
            with contextlib.suppress(OSError):
                os.unlink(self._path(name))

    def _remove_dead(self) -> None:
        for name in os.listdir(self._directory):
            self.is_alive(name, removes_dead=True)

    def _path(self, name: str) -> str:
        return f"{self._directory}/{name}"
