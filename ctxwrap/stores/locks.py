"""Locks that the kernel takes back when a process ends: around a write, for a turn, and as a sign of life."""

import atexit
import contextlib
import fcntl
import os
import re
import secrets
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ctxwrap.stores import disk

_NAME = re.compile(r"[0-9a-f]{16}")


class _Lock:
    """A lock, or the wish for one, on a handle of its own."""

    def __init__(self, path: str) -> None:
        with _forking:
            self.handle = disk.opened_for_good(path, os.O_RDWR | os.O_CREAT)
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
            disk.make_directory(self._directory)
            self._bury()
            self._name, self._process = self._begun(), os.getpid()
        return self._name

    def shown_by(self, name: str, *, buries: bool = False) -> bool:
        """Whether the process of that name lives; if not, what it left is taken away if that is asked for."""
        if not _NAME.fullmatch(name):
            return False
        path = self._path(name)
        try:
            with disk.opened(path, os.O_RDWR) as handle:
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
