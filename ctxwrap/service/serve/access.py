"""Tokens that the server gives out: stored as hashes, each of one tenant and of the users it may speak for."""

import hashlib
import logging
import os
import re
import secrets
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from time import monotonic
from typing import NamedTuple

from ctxwrap.errors import SettingsError
from ctxwrap.service.mcp.auth import read_private_text
from ctxwrap.stores.names import check_id

logger = logging.getLogger("ctxwrap")

TOKEN_HEADER = "x-ctxwrap-token"

_HASH = re.compile(r"[0-9a-f]{64}")
_BEARER = re.compile(r"(?i:bearer) +(?P<token>\S+)")
_LOOK = 1.0
"""Seconds between looks at the token file."""


class Grant(NamedTuple):
    """What a token allows."""

    id: str
    """The start of the token's hash."""
    tenant: str
    users: frozenset[str] = frozenset()
    """The users it may speak for; empty means any."""


def new_token_line(tenant: str, users: Iterable[str] = ()) -> tuple[str, str]:
    """A new token, and the line of the token file that allows it."""
    token = f"ctx-{secrets.token_urlsafe(32)}"
    line = " ".join([_hash(token), tenant, *users])
    _parse(line, "the new line")
    return token, line


class Grants:
    """The grants of tokens, read again when their file changes."""

    def __init__(self, file: str | None, text: str = "", clock: Callable[[], float] = monotonic) -> None:
        self._file, self._clock = Path(file) if file else None, clock
        self._given = _parse(text, "the tokens in the environment")
        self._read: dict[str, Grant] = {}
        self._seen: object = None
        self._next_look = 0.0
        if self._file is not None:
            self._read, self._seen = _parse(read_private_text(self._file), str(self._file)), _state(self._file)
            self._next_look = clock() + _LOOK

    @property
    def is_open(self) -> bool:
        """Whether no tokens are configured: then everybody who reaches the server may use it."""
        return self._file is None and not self._given

    def grant_of(self, headers: Mapping[str, str]) -> Grant | None:
        """The grant of the token in a request's headers, if it has one that is valid."""
        self._look()
        bearer = _BEARER.fullmatch(headers.get("authorization", ""))
        for token in (headers.get(TOKEN_HEADER), bearer and bearer["token"], headers.get("x-api-key")):
            digest = _hash(token) if token else ""
            grant = self._read.get(digest) or self._given.get(digest)
            if grant is not None:
                return grant
        return None

    def _look(self) -> None:
        """Read the file again if it has changed. A file that cannot be read leaves the tokens as they are."""
        if self._file is None or self._clock() < self._next_look:
            return
        self._next_look = self._clock() + _LOOK
        state = _state(self._file)
        if state == self._seen:
            return
        try:
            self._read = _parse(read_private_text(self._file), str(self._file))
        except SettingsError as error:
            logger.warning("ctxwrap: the tokens stay as they were: %s", error)
        else:
            logger.info("ctxwrap: %d tokens were read from %s", len(self._read), self._file)
        self._seen = state


def _state(path: Path) -> object:
    try:
        known = os.stat(path)
    except OSError:
        return None
    return known.st_mtime_ns, known.st_size, known.st_ino


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def _parse(text: str, where: str) -> dict[str, Grant]:
    """Parse lines `HASH TENANT [USER …]`, also separated by `;`; empty ones and comments do not count."""
    grants: dict[str, Grant] = {}
    for number, line in enumerate(text.replace(";", "\n").splitlines(), 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        if len(words) < 2 or not _HASH.fullmatch(words[0]):
            raise SettingsError(f"line {number} of {where} is not HASH TENANT [USER ...], as --new-token prints it")
        digest, tenant, *users = words
        grants[digest] = Grant(
            digest[:16], check_id("tenant", tenant), frozenset(check_id("user", each) for each in users)
        )
    return grants
