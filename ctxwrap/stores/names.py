"""Safe, distinct directory names for any ids, and valid names for the files of a session."""

import hashlib
import os
import re
from functools import lru_cache

from ctxwrap.errors import InvalidId

_PLAIN = re.compile(r"[a-z0-9](?:[a-z0-9._-]{0,62}[a-z0-9_-])?")
_RESERVED = re.compile(r"(?:con|prn|aux|nul|com\d|lpt\d)(?:\..*)?|.*\.(?:sock|d)")
_MAX_BYTES = 1024

INDEX = "index"
"""A directory beside the sessions that is not one of them."""


class Area(str):
    """The agent in the key of a log that belongs to no agent; the same text from a caller is not a valid id."""

    __slots__ = ()


OWNERS = {"user": Area("\x1fuser"), "team": Area("\x1fteam")}
"""The areas of the logs of users and of teams, whose names take the place of a session."""

_AREAS: dict[str, str] = {area: name for name, area in OWNERS.items()}


def owner_kind(agent: str) -> str:
    """`user` or `team` for the area of such logs; empty for an agent."""
    return _AREAS.get(agent, "")


def check_id(kind: str, value: object) -> str:
    """Return a valid id, or raise InvalidId."""
    if not isinstance(value, str) or not value:
        hint = "" if isinstance(value, str) or value is None else f": pass str({kind})"
        raise InvalidId(f"a {kind} id must be a text of at least one character, not {value!r}{hint}")
    if value in _AREAS and not isinstance(value, Area):
        raise InvalidId(f"the {kind} id {value!r} is reserved")
    if len(value.encode("utf-8", "surrogatepass")) > _MAX_BYTES:
        raise InvalidId(f"a {kind} id must not be longer than {_MAX_BYTES} bytes; this one begins {value[:40]!r}")
    return value if value.isascii() else _joined(value)


def _joined(text: str) -> str:
    """Join surrogate pairs to characters: JSON does not distinguish them."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def safe_name(value: str) -> str:
    """A directory name for an id: the id itself if it is plain, else a readable stem, `+` and a digest.

    Only lower-case ASCII is plain, because file systems may fold case or normalise Unicode. A plain id has no `+`.
    """
    if _PLAIN.fullmatch(value) and not _RESERVED.fullmatch(value) and value != INDEX:
        return value
    stem = re.sub(r"[^a-z0-9]+", "-", value.lower()[:200])[:24].strip("-") or "id"
    digest = hashlib.sha256(value.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{stem}+{digest[:32]}"


@lru_cache(maxsize=1024)
def file_parts(name: str) -> tuple[str, ...]:
    """Split the name of a session's file into its parts; ValueError if it is not valid."""
    parts = tuple(name.split("/")) if name else ()
    if any(part in ("", ".", "..") or "\0" in part for part in parts):
        raise ValueError(f"{name!r} is not a valid file name in a session")
    return parts


@lru_cache(maxsize=1024)
def path_on_disk(name: str) -> str:
    """The path of a session's file below its directory, as the operating system spells it."""
    return "/".join(map(name_on_disk, file_parts(name)))


def name_on_disk(part: str) -> str:
    """A part of a file's name as the operating system spells it, which may be any bytes.

    Lone surrogates are encoded like other characters. Those that Python uses for bytes that are not UTF-8 stand for
    these bytes, unless that would be the name of another file.
    """
    if part.isascii():
        return part
    raw = part.encode("utf-8", "surrogatepass")
    try:
        foreign = part.encode("utf-8", "surrogateescape")
        return os.fsdecode(raw) if _is_text(foreign) else part
    except UnicodeEncodeError:
        return os.fsdecode(raw)


def name_from_disk(name: str) -> str:
    """The inverse of `name_on_disk`."""
    if name.isascii():
        return name
    raw = os.fsencode(name)
    return raw.decode("utf-8", "surrogatepass") if _is_text(raw) else name


def _is_text(raw: bytes) -> bool:
    try:
        raw.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return False
    return True
