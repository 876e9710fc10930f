"""Bearer tokens for HTTP, stored as hashes, each of one tenant; and the profiles of users."""

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
_OTHER_USERS = stat.S_IRWXG | stat.S_IRWXO


class Tokens:
    """Maps tokens to tenants; it stores hashes only."""

    def __init__(self, tenants: Mapping[str, str]) -> None:
        self._tenants = {_hash(token): check_id("tenant", tenant) for token, tenant in tenants.items()}

    def tenant_of(self, authorization: bytes) -> str | None:
        """Return the tenant of an Authorization header, in constant time."""
        match = _BEARER.fullmatch(authorization)
        digest = _hash(match["token"].decode("ascii") if match else "")
        found = [tenant for known, tenant in self._tenants.items() if hmac.compare_digest(known, digest)]
        return found[0] if match and found else None


class Access(NamedTuple):
    tokens: dict[str, str]
    """Tenants by token."""
    users: dict[str, dict[str, str]]
    """Name and e-mail address of users, by tenant."""


def read_access(file: str | None, environment: Mapping[str, str] = os.environ) -> Access:
    """Read tokens and users from a file, else from the environment; both may be absent."""
    if file is not None:
        access = _parse(read_private_text(Path(file)), f"the token file {file}")
        if not access.tokens:
            raise SettingsError(f"the token file {file} is empty: each line must be token=tenant")
        return access
    return _parse(environment.get(ENVIRONMENT, ""), ENVIRONMENT)


def parse_profile(user: str, where: str) -> dict[str, str]:
    """Parse a name and e-mail address such as `Ada Lovelace <ada@example.com>`."""
    match = _PROFILE.fullmatch(user.strip())
    if match is None or not match.group():
        raise SettingsError(f"{where} is not a name, an <address> or both, such as Ada Lovelace <ada@example.com>")
    return {"name": match["name"].strip(), "email": match["email"] or ""}


def new_token() -> str:
    return secrets.token_urlsafe(32)


def _hash(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()


def read_private_text(path: Path) -> str:
    """Read a token file that only its owner can access."""
    try:
        with open(path, "rb", opener=_open_nonblocking) as file:  # a Path takes no opener
            _check_owner(path, os.fstat(file.fileno()))
            text = file.read(LARGEST_FILE + 1).decode()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"the token file {path} cannot be read: {error}") from error
    if len(text) > LARGEST_FILE:
        raise SettingsError(f"the token file {path} is larger than {LARGEST_FILE} bytes")
    return text


def _open_nonblocking(path: str, flags: int) -> int:
    """Open without blocking, so that a pipe without a writer is rejected."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def _check_owner(path: Path, known: os.stat_result) -> None:
    if not stat.S_ISREG(known.st_mode):
        raise SettingsError(
            f"the token file {path} is not a regular file: copy the tokens into one, or use {ENVIRONMENT}"
        )
    if known.st_uid not in (os.geteuid(), 0):
        raise SettingsError(
            f"the token file {path} belongs to another user (uid {known.st_uid}), who can change it: chown it to"
            f" the user that runs the server (uid {os.geteuid()})"
        )
    if known.st_mode & _OTHER_USERS:
        raise SettingsError(
            f"users other than its owner can access the token file {path} (mode {known.st_mode & 0o777:o}):"
            f" run chmod 600, or use {ENVIRONMENT}"
        )


def _parse(text: str, where: str) -> Access:
    tokens, users = dict[str, str](), dict[str, dict[str, str]]()
    for number, line in _lines(text):
        user = _USER.fullmatch(line)
        if user is not None:
            users[user["tenant"].strip()] = parse_profile(user["user"], f"the user in line {number} of {where}")
            continue
        match = _LINE.fullmatch(line)
        if match is None:
            raise SettingsError(f"line {number} of {where} is not token=tenant, with a token of 16 letters or more")
        if tokens.setdefault(match["token"], match["tenant"]) != match["tenant"]:
            raise SettingsError(
                f"line {number} of {where} gives a token to a second tenant: a token belongs to one tenant"
            )
    return Access(tokens, users)


def _lines(text: str) -> Iterator[tuple[int, str]]:
    stripped = ((number, line.strip()) for number, line in enumerate(text.split("\n"), 1))
    return ((number, line) for number, line in stripped if line and not line.startswith("#"))
