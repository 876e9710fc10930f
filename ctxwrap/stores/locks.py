"""Locks that the kernel takes back when a process ends: around a write, for a turn, and as a sign of life."""

import atexit
import contextlib
import fcntl
import os
import re
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ctxwrap.stores import disk

_NAME = re.compile(r"[0-9a-f]{16}")

_held: set[int] = set()
"""Handles whose locks are this process's own. A forked child closes its copies, else it would keep what its parent
lets go of only by ending."""


def _let_go_in_child() -> None:
    while _held:
        os.close(_held.pop())


os.register_at_fork(after_in_child=_let_go_in_child)


@contextmanager
def exclusive(path: str) -> Iterator[None]:
    """Others wait: processes and threads alike, since each takes the lock on a handle of its own."""
    with disk.opened(path, os.O_RDWR | os.O_CREAT) as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(handle, fcntl.LOCK_UN)  # closing is not enough while a forked child has the handle, too


def taken(path: str) -> Callable[[], None] | None:
    """The lock, as what gives it back, or None while another has it."""
    handle = disk.opened_for_good(path, os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        return None
    except BaseException:
        os.close(handle)
        raise
    _held.add(handle)
    return lambda: _give_back(handle)


def _give_back(handle: int) -> None:
    """Once: a forked child has closed it already, and the second time the number may be another file's."""
    if handle in _held:
        _held.discard(handle)
        fcntl.flock(handle, fcntl.LOCK_UN)
        os.close(handle)


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

    def shown_by(self, name: str) -> bool:
        """Whether the process of that name lives."""
        if not _NAME.fullmatch(name):
            return False
        path = self._path(name)
        try:
            with disk.opened(path, os.O_RDWR) as handle:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
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
            self.shown_by(name)

    def _path(self, name: str) -> str:
        return f"{self._directory}/{name}"
