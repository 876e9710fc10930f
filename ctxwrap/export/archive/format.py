"""The archive format: a zip, because the names and sizes of its members are known before any is unpacked.

`manifest.json` names the session and has a digest of every other member. `messages.jsonl` and `events.jsonl` are the
log without the control data of its store. `raw/` holds large contents, `context/` the input files.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ctxwrap.errors import InvalidArchive, InvalidId
from ctxwrap.session.inputs import INPUTS
from ctxwrap.session.lookup import key_for
from ctxwrap.stores.base import STREAMS
from ctxwrap.types import Record, SessionKey

FORMAT = "ctxwrap-session"
VERSION = 1
MANIFEST = "manifest.json"

SMALL = 1 << 20
"""Members up to this size may have any compression ratio."""

_STORE_FIELDS = ("c", "b", "w")
"""Control data that each store computes for its own lines."""

_RAW = re.compile(r"raw/sha256-[0-9a-f]{56}")
_PART = re.compile(r"[^.\x00-\x1f\x7f/\\][^\x00-\x1f\x7f/\\]{0,254}")
"""Names allowed for input files and directories in `context/`; hidden files are not inputs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveLimits:
    """Limits that protect an import from hostile archives."""

    members: int = 250_000
    bytes: int = 128 << 20
    """Unpacked size of all members. Reading the records takes up to ten times as much memory."""
    member_bytes: int | None = None
    """Unpacked size of one member; None means the limit of all members."""
    line_bytes: int = 64 << 20
    """Size of one record."""
    ratio: int = 200
    """Largest ratio of unpacked to packed size, for members larger than 1 MiB."""
    depth: int = 128
    """Deepest nesting of a record."""


def without_store_fields(record: Record) -> Record:
    """Return a record without the control data of its store."""
    control = record.get("ctx")
    if not isinstance(control, dict):
        return record
    return {**record, "ctx": {name: value for name, value in control.items() if name not in _STORE_FIELDS}}


def member_name(stream: str) -> str:
    return f"{stream}.jsonl"


LOG_MEMBERS = tuple(map(member_name, STREAMS))


def is_content(name: str) -> bool:
    return _RAW.fullmatch(name) is not None


def is_member_name(name: str) -> bool:
    """Whether an archive may have a member of this name."""
    return name in (MANIFEST, *LOG_MEMBERS) or is_content(name) or is_input_name(name)


def is_input_name(name: str) -> bool:
    """Whether this is the name of an input file in `context/` that is safe to unpack."""
    if name in INPUTS and not name.endswith("/"):
        return True
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    directory = next((each for each in INPUTS if each.endswith("/") and name.startswith(each)), None)
    return directory is not None and all(map(_PART.fullmatch, name.removeprefix(directory).split("/")))


class Member(NamedTuple):
    sha256: str
    bytes: int


@dataclass(frozen=True, slots=True)
class ArchiveManifest:
    key: SessionKey
    """The exported session; an import chooses its own key."""
    created: str
    messages: int
    events: int
    contents: int
    damage: tuple[str, ...] = ()
    """Damage found at export; these parts are missing from the archive."""
    left_out: tuple[str, ...] = ()
    """Input files whose names an archive cannot hold."""
    members: Mapping[str, Member] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "version": VERSION,
            "created": self.created,
            "key": self.key._asdict(),
            "messages": self.messages,
            "events": self.events,
            "contents": self.contents,
            "damage": list(self.damage),
            "left_out": list(self.left_out),
            "members": {name: member._asdict() for name, member in self.members.items()},
        }

    @classmethod
    def from_json(cls, value: Any) -> "ArchiveManifest":
        """Read a manifest; raises InvalidArchive that names the fault."""
        if not isinstance(value, dict) or value.get("format") != FORMAT:
            raise InvalidArchive("it is not a session archive: its manifest has another format")
        if value.get("version") != VERSION:
            raise InvalidArchive(
                f"it has format version {value.get('version')!r}, and this ctxwrap reads version {VERSION}: "
                "import it with a newer ctxwrap"
            )
        try:
            return cls(
                key=_key(value["key"]),
                created=_text(value["created"]),
                messages=_count(value["messages"]),
                events=_count(value["events"]),
                contents=_count(value["contents"]),
                damage=tuple(map(_text, _list(value["damage"]))),
                left_out=tuple(map(_text, _list(value["left_out"]))),
                members={_text(name): _member(each) for name, each in value["members"].items()},
            )
        except (AttributeError, LookupError, TypeError, ValueError, InvalidId) as error:
            raise InvalidArchive(f"its manifest is damaged: {error}") from error


def _key(value: Any) -> SessionKey:
    return key_for(_text(value["session"]), _text(value["tenant"]), _text(value["agent"]))


def _member(value: Any) -> Member:
    return Member(_text(value["sha256"]), _count(value["bytes"]))


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("a text is missing")
    return value


def _count(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise TypeError("a number is missing")
    return value


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError("a list is missing")
    return value
