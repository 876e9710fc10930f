"""The sessions of one agent by name: `index/list`, the newest first, and `index/current`."""

import contextlib
from pathlib import Path

from ctxwrap.stores import disk, locks
from ctxwrap.stores.names import INDEX

_LISTED = 1000
"""How many names the list holds; the directory itself has them all."""


def add(sessions: Path, name: str) -> None:
    """Put a new session on top of the list, and make it the current one."""
    directory = f"{sessions}/{INDEX}"
    disk.make_directory(directory)
    with locks.exclusive(f"{directory}/.lock"):
        listed = [each for each in _lines(f"{directory}/list") if each != name][: _LISTED - 1]
        disk.replace(f"{directory}/list", "".join(f"{each}\n" for each in (name, *listed)).encode(), lasting=False)
        disk.replace(f"{directory}/current", f"{name}\n".encode(), lasting=False)


def _lines(path: str) -> list[str]:
    with contextlib.suppress(FileNotFoundError, UnicodeDecodeError):
        return Path(path).read_text("ascii").splitlines()
    return []
