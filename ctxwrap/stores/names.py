"""From any id a user passes to a safe directory name, and never two ids to one name; and which files have names."""

import hashlib
import re

from ctxwrap.errors import InvalidId

_PLAIN = re.compile(r"[a-z0-9](?:[a-z0-9._-]{0,62}[a-z0-9_-])?")
_RESERVED = re.compile(r"(?:con|prn|aux|nul|com\d|lpt\d)(?:\..*)?|.*\.(?:sock|d)")
_MAX_BYTES = 1024

INDEX = "index"
"""The one name among sessions that is none of theirs."""


def check_id(kind: str, value: object) -> str:
    """`value` as an id, or an error that says what an id is."""
    if not isinstance(value, str) or not value:
        raise InvalidId(f"a {kind} id must be a text that is not empty, not {value!r}")
    if len(value.encode("utf-8", "surrogatepass")) > _MAX_BYTES:
        raise InvalidId(f"a {kind} id must not be longer than {_MAX_BYTES} bytes; this one begins {value[:40]!r}")
    return value


def safe_name(value: str) -> str:
    """A directory name for an id: the id itself if it is plain, else a readable stem, `+` and a digest.

    Only lower case counts as plain, so that file systems that fold case or normalise Unicode cannot bring two
    ids together; a plain id never holds a `+`.
    """
    if _PLAIN.fullmatch(value) and not _RESERVED.fullmatch(value) and value != INDEX:
        return value
    stem = re.sub(r"[^a-z0-9]+", "-", value.lower()[:200])[:24].strip("-") or "id"
    digest = hashlib.sha256(value.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{stem}+{digest[:32]}"


def file_parts(name: str) -> list[str]:
    """The directories on the way to a file beside a session's streams, and its own name."""
    parts = name.split("/") if name else []
    if any(part in ("", ".", "..") or "\0" in part for part in parts):
        raise ValueError(f"{name!r} is no name of a file in a session")
    return parts
