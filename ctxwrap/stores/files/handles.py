"""Files that stay open between uses: opening one costs more than most of what is done with it."""

import os
import threading
from collections import OrderedDict
from contextlib import suppress

from ctxwrap.stores.files import disk

_MOST = 64
"""How many files stay open while nobody uses them."""


class OpenFile:
    """An open file that has one user at a time. While it is open, no other file gets its inode."""

    __slots__ = ("_identity", "handle", "path")

    def __init__(self, path: str, flags: int) -> None:
        self.path = path
        self.handle = -1
        with _forking:
            self.handle = disk.opened_for_good(path, flags)
            _open.add(self)
        known = os.fstat(self.handle)
        self._identity = known.st_ino, known.st_dev

    @property
    def inode(self) -> int:
        return self._identity[0]

    @property
    def is_open(self) -> bool:
        """A forked process has closed the files of its parent."""
        return self.handle >= 0

    def look(self) -> os.stat_result | None:
        """What the system says of the file; None if the path no longer names it."""
        try:
            known = os.stat(self.path, follow_symlinks=False)
        except FileNotFoundError:
            return None
        return known if (known.st_ino, known.st_dev) == self._identity else None

    def close(self) -> None:
        """Only the first call counts: later the handle may belong to another file."""
        with _forking:
            if self.is_open:
                handle, self.handle = self.handle, -1
                _open.discard(self)
                os.close(handle)


_open: set[OpenFile] = set()
"""All files of this process. A forked child closes its copies, which would keep a lock that its parent releases."""

_idle: OrderedDict[str, OpenFile] = OrderedDict()
"""Those that nobody uses, the one used last at the end. Each step on it is atomic, so that it needs no lock."""

_forking = threading.RLock()
"""Held while a file is opened and added to `_open`, so that no process is forked in between."""


def take(path: str, flags: int) -> OpenFile:
    """The file at `path`, for the caller alone until `keep`; it may have another name by now: see `look`."""
    return _idle.pop(path, None) or OpenFile(path, flags)


def keep(file: OpenFile) -> None:
    """Leave a file open for the next user."""
    if file.handle >= 0 and _idle.setdefault(file.path, file) is not file:
        file.close()
    if len(_idle) > _MOST:
        with suppress(KeyError):  # others have taken all of them
            _idle.popitem(last=False)[1].close()


def close_idle(under: str) -> None:
    """Close the idle files of a path and below it."""
    for path in list(_idle):
        if f"{path}/".startswith(f"{under}/"):
            file = _idle.pop(path, None)
            if file is not None:
                file.close()


def _close_in_child() -> None:
    _idle.clear()
    while _open:
        _open.pop().close()
    _forking.release()


os.register_at_fork(before=_forking.acquire, after_in_parent=_forking.release, after_in_child=_close_in_child)
