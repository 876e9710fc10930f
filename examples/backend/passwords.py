"""Password hashes (scrypt), the users file, and a limit on concurrent checks."""

import asyncio
import hashlib
import hmac
import re
import secrets
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from threading import BoundedSemaphore

_COST = (2**14, 8, 5)
_MEMORY = 64 * 1024 * 1024
_LINE = re.compile(r"([A-Za-z0-9_-]{1,32}):(scrypt\$\d+\$\d+\$\d+\$[0-9a-f]{32}\$[0-9a-f]{64})")
_NOBODY = f"scrypt$16384$8$5${'0' * 32}${'0' * 64}"


def hashed(password: str, salt: bytes | None = None, cost: tuple[int, int, int] = _COST) -> str:
    salt = secrets.token_bytes(16) if salt is None else salt
    n, r, p = cost
    key = hashlib.scrypt(password.encode(), salt=salt, n=n, r=r, p=p, maxmem=_MEMORY, dklen=32)
    return f"scrypt${n}${r}${p}${salt.hex()}${key.hex()}"


def is_right(password: str, users: Mapping[str, str], name: str) -> bool:
    """Check the password of `name`; an unknown name takes as long as a known one."""
    known = users.get(name, _NOBODY)
    _, n, r, p, salt, _ = known.split("$")
    return hmac.compare_digest(hashed(password, bytes.fromhex(salt), (int(n), int(r), int(p))), known)


class TooMany(Exception):
    """Too many sign-in attempts are waiting."""


class Checks:
    """Checks passwords in its own small thread pool, so that guessing slows down sign-in only.

    A check takes a fifth of a second of a core and 16 MB. Checks beyond `waiting` are refused at once.
    """

    def __init__(self, at_once: int = 2, waiting: int = 16) -> None:
        self._threads = ThreadPoolExecutor(at_once, "sign-in")
        self._room = BoundedSemaphore(at_once + waiting)

    async def is_right(self, password: str, users: Mapping[str, str], name: str) -> bool:
        if not self._room.acquire(blocking=False):
            raise TooMany
        check = self._threads.submit(is_right, password, users, name)
        check.add_done_callback(lambda _: self._room.release())  # not on disconnect: the check keeps running
        return await asyncio.wrap_future(check)

    def close(self) -> None:
        self._threads.shutdown(cancel_futures=True)


def users_in(text: str) -> dict[str, str]:
    """Parse a users file with one `name:hash` per line; empty lines and comments are skipped."""
    lines = [line.strip() for line in text.splitlines()]
    found = [(number, _LINE.fullmatch(line)) for number, line in enumerate(lines, 1) if line and line[0] != "#"]
    for number, match in found:
        if match is None:
            raise ValueError(f"line {number} is not name:hash, as `python -m backend hash NAME` prints it")
    users = {match[1]: match[2] for _, match in found if match}
    if len(users) != len(found) or not users:
        raise ValueError("the file names a user twice" if users else "the file names no user")
    return users


@cache
def demo_users() -> dict[str, str]:
    """The demo users ada and bob; the salt is fixed because all workers must compute the same hash."""
    return dict.fromkeys(("ada", "bob"), hashed("practice", b"the same for all"))
