"""What an archive is: a zip, since its members are plain bytes whose names and sizes are known before any is unpacked.

`manifest.json` says whose session it is and has a digest of every other member; `messages.jsonl` and `events.jsonl` are
the log without what only its store needs; `raw/` holds large contents, `context/` what somebody put there by hand.
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
"""Up to that size a member may be as repetitive as it likes."""

_OF_THE_STORE = ("c", "b", "w")
"""Control data by which a store vouches for its lines; another store makes its own."""

_RAW = re.compile(r"raw/sha256-[0-9a-f]{56}")
_PART = re.compile(r"[^.\x00-\x1f\x7f/\\][^\x00-\x1f\x7f/\\]{0,254}")
"""What a file or directory may be called that somebody put into `context/`; hidden ones are not theirs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveLimits:
    """How much an archive may hold before it is taken for an attack."""

    members: int = 250_000
    bytes: int = 128 << 20
    """Of all members together, unpacked; reading its records takes up to ten times as much memory."""
    member_bytes: int | None = None
    """Of one member; as many as of all, if nothing else is said."""
    line_bytes: int = 64 << 20
    """Of one record."""
    ratio: int = 200
    """How many times larger than packed a member of some size may be."""
    depth: int = 128
    """How deeply a record may be nested."""


def carried(record: Record) -> Record:
    """A record without what only its store needs."""
    control = record.get("ctx")
    if not isinstance(control, dict):
        return record
    return {**record, "ctx": {name: value for name, value in control.items() if name not in _OF_THE_STORE}}


def member_of(stream: str) -> str:
    return f"{stream}.jsonl"


LOG = tuple(map(member_of, STREAMS))


def is_content(name: str) -> bool:
    return _RAW.fullmatch(name) is not None


def is_member(name: str) -> bool:
    """Whether an archive may hold a member of that name."""
    return name in (MANIFEST, *LOG) or is_content(name) or is_input(name)


def is_input(name: str) -> bool:
    """Whether it is the name of something that somebody put into `context/`, and one that is safe to carry."""
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
    """Whose session it was; where it goes is up to whoever imports it."""
    created: str
    messages: int
    events: int
    contents: int
    damage: tuple[str, ...] = ()
    """What was damaged when it was exported, and so is missing."""
    left_out: tuple[str, ...] = ()
    """Files with names that cannot be carried."""
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
        """What a manifest says, or an InvalidArchive that says what is wrong with it."""
        if not isinstance(value, dict) or value.get("format") != FORMAT:
            raise InvalidArchive("it is no archive of a session: its manifest is that of something else")
        if value.get("version") != VERSION:
            raise InvalidArchive(
                f"it has version {value.get('version')!r} of the format, and this ctxwrap reads version {VERSION}: "
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
