"""From any id a user passes to a safe directory name, and never two ids to one name; and which files have names."""

import hashlib
import os
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
    return value if value.isascii() else _joined(value)


def _joined(text: str) -> str:
    """With the character in the place of its two halves, which JSON cannot tell from it."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


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


def name_on_disk(part: str) -> str:
    """A part of a file's name as the system takes it: the system knows bytes, and not all of them are UTF-8.

    Lone surrogates are encoded like any other character. Only those by which Python spells foreign bytes stand for
    these bytes, unless they would be the name of another file.
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
    """The part that has this name on the disk."""
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
