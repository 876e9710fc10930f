"""Who may come in over HTTP: bearer tokens, known by their hashes only, each of one tenant, and who the users are."""

import hashlib
import hmac
import os
import re
import secrets
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from ctxwrap.errors import SettingsError
from ctxwrap.stores.names import check_id

ENVIRONMENT = "CTXWRAP_MCP_TOKENS"

LARGEST_FILE = 1 << 20

_LINE = re.compile(r"(?P<token>[A-Za-z0-9._~+/-]{16,256}={0,2})=(?P<tenant>[^=\s].*)")
_BEARER = re.compile(rb"(?i:bearer) +(?P<token>[A-Za-z0-9._~+/-]{16,256}={0,2})")
_USER = re.compile(r"user (?P<tenant>[^=]+)=(?P<user>.*)")
_PROFILE = re.compile(r"(?P<name>[^<>]*)(?:<(?P<email>[^<>@\s]+@[^<>@\s]+)>)?")
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


class Tokens:
    """Tells whose a token is. What it keeps does not let anybody in."""

    def __init__(self, tenants: Mapping[str, str]) -> None:
        self._tenants = {_hash(token): check_id("tenant", tenant) for token, tenant in tenants.items()}

    def tenant_of(self, authorization: bytes) -> str | None:
        """Whose request it is by its header; in the same time whoever it is."""
        said = _BEARER.fullmatch(authorization)
        digest = _hash(said["token"].decode("ascii") if said else "")
        found = [tenant for known, tenant in self._tenants.items() if hmac.compare_digest(known, digest)]
        return found[0] if said and found else None


class Access(NamedTuple):
    tokens: dict[str, str]
    """Their tenants."""
    users: dict[str, dict[str, str]]
    """Name and e-mail address of the users, by tenant."""


def access_of(file: str | None, environment: Mapping[str, str] = os.environ) -> Access:
    """What a token file says, else the environment; there are no tokens if there is neither."""
    if file is not None:
        access = _parsed(_text_of(Path(file)), f"the token file {file}")
        if not access.tokens:
            raise SettingsError(f"the token file {file} is empty: each of its lines is token=tenant")
        return access
    return _parsed(environment.get(ENVIRONMENT, ""), ENVIRONMENT)


def profile_of(user: str, where: str) -> dict[str, str]:
    """The name and e-mail address in a text such as `Ada Lovelace <ada@example.com>`."""
    said = _PROFILE.fullmatch(user.strip())
    if said is None or not said.group():
        raise SettingsError(f"{where} is not a name, an <address> or both, such as Ada Lovelace <ada@example.com>")
    return {"name": said["name"].strip(), "email": said["email"] or ""}


def new_token() -> str:
    return secrets.token_urlsafe(32)


def _hash(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()


def _text_of(path: Path) -> str:
    try:
        with open(path, "rb", opener=_without_waiting) as file:  # a Path takes no opener
            _check_owner(path, os.fstat(file.fileno()))
            text = file.read(LARGEST_FILE + 1).decode()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"the token file {path} cannot be read: {error}") from error
    if len(text) > LARGEST_FILE:
        raise SettingsError(f"the token file {path} is larger than {LARGEST_FILE} bytes")
    return text


def _without_waiting(path: str, flags: int) -> int:
    """A pipe that nobody writes to is to be refused, not waited for."""
    return os.open(path, flags | os.O_NONBLOCK)


def _check_owner(path: Path, known: os.stat_result) -> None:
    if not stat.S_ISREG(known.st_mode):
        raise SettingsError(f"the token file {path} is no regular file: copy the tokens into one, or use {ENVIRONMENT}")
    if known.st_uid not in (os.geteuid(), 0):
        raise SettingsError(
            f"the token file {path} belongs to another user (uid {known.st_uid}), who may change it: chown it to"
            f" the user that runs this (uid {os.geteuid()})"
        )
    if known.st_mode & _OTHERS:
        raise SettingsError(
            f"others than its owner may read or change the token file {path} (mode {known.st_mode & 0o777:o}):"
            f" chmod 600 makes it the owner's alone; or use {ENVIRONMENT}"
        )


def _parsed(text: str, where: str) -> Access:
    tokens, users = dict[str, str](), dict[str, dict[str, str]]()
    for number, line in _lines(text):
        user = _USER.fullmatch(line)
        if user is not None:
            users[user["tenant"].strip()] = profile_of(user["user"], f"the user in line {number} of {where}")
            continue
        said = _LINE.fullmatch(line)
        if said is None:
            raise SettingsError(f"line {number} of {where} is not token=tenant, with a token of 16 letters or more")
        if tokens.setdefault(said["token"], said["tenant"]) != said["tenant"]:
            raise SettingsError(f"line {number} of {where} gives a token to a second tenant: each has its own")
    return Access(tokens, users)


def _lines(text: str) -> Iterator[tuple[int, str]]:
    stripped = ((number, line.strip()) for number, line in enumerate(text.split("\n"), 1))
    return ((number, line) for number, line in stripped if line and not line.startswith("#"))
