"""A session's streams: records with their numbers, read once or followed."""

from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from typing import NamedTuple

from ctxwrap.errors import NotFound
from ctxwrap.session.blobs import inline
from ctxwrap.session.redaction import PURGED
from ctxwrap.stores.base import Files, Log, Store
from ctxwrap.stores.log_format import count_in, message_in, turn_in
from ctxwrap.types import Record, SessionKey

_SEALS = ("c", "b", "w")
"""Checksums of a line's bytes, which are not part of its record."""

_NAMED = 5
"""Session names listed in an error."""


class Numbered(NamedTuple):
    """A record and its number in its stream."""

    number: int
    record: Record


@dataclass(frozen=True, slots=True)
class StreamContents:
    """All records of a stream."""

    records: tuple[Numbered, ...]
    damaged: int
    """Damaged lines, most of which cannot be read."""

    @property
    def newest(self) -> int:
        """The number of the last record."""
        return self.records[-1].number if self.records else 0


def whole_stream(log: Log, stream: str) -> StreamContents:
    lines = list(log.lines(stream))
    records = (line.record for line in lines if line.record is not None)
    return StreamContents(tuple(numbered(records)), sum(bool(line.fault) for line in lines))


def numbered(records: Iterable[Record], after: int = 0) -> Iterator[Numbered]:
    """Yield records with their numbers; a missing or repeated number becomes the next one."""
    for record in records:
        given = control_in(record).get("seq")
        after = given if isinstance(given, int) and given > after else after + 1
        yield Numbered(after, record)


def control_in(record: Record) -> Record:
    control = record.get("ctx")
    return control if isinstance(control, dict) else {}


def text_in(record: Record, name: str) -> str:
    value = record.get(name)
    return value if isinstance(value, str) else ""


def said_in(record: Record) -> str:
    """Return the text of a message; of a purged message, its placeholder."""
    if "purged" in control_in(record):
        return PURGED
    try:
        return message_in(record).text
    except (LookupError, TypeError, ValueError):
        return ""


def calls_in(record: Record) -> list[Record]:
    """Return the well-formed tool calls of a message."""
    calls = record.get("tool_calls")
    return [call for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []


def readable(record: Record, files: Files) -> Record:
    """Return a record with its large contents inlined; `ctx.fault` says if one is lost."""
    control = {name: value for name, value in control_in(record).items() if name not in _SEALS}
    if "turn" not in control and (turn := turn_in(record)):
        control["turn"] = turn
    plain = {**record, "ctx": control} if control else record
    try:
        return inline(plain, files)
    except (AttributeError, LookupError, OSError, TypeError, ValueError) as error:
        return {**plain, "ctx": {**control, "fault": str(error)}}


def loaded(files: Files, name: str) -> bytes:
    """Return a file's bytes; nothing if it cannot be read."""
    try:
        return files.load(name) or b""
    except OSError:
        return b""


def check_known(store: Store, key: SessionKey, *streams: StreamContents) -> None:
    """Raise NotFound unless the session exists; it may be empty."""
    if not any(stream.records or stream.damaged for stream in streams) and key.session not in _sessions(store, key):
        raise no_session(store, key)


def no_session(store: Store, key: SessionKey) -> NotFound:
    """Return the error for a session that does not exist; it lists sessions of the same tenant and agent."""
    names = [repr(session) for session in _sessions(store, key)]
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    known = f"{', '.join(names[:_NAMED])}{more}" if names else "none"
    whose = f"tenant {key.tenant!r} and agent {key.agent!r}"
    return NotFound(f"there is no session {key.session!r} of {whose}; known sessions: {known}")


def _sessions(store: Store, key: SessionKey) -> list[str]:
    return list(store.sessions(key.tenant, key.agent))


def round_in(event: Record) -> int:
    """Return the round of an event, or 0."""
    return count_in(event.get("runtime"), "round") or count_in(event, "round") or 0


class StreamFollower:
    """Reads a stream as it grows: `new` returns everything first, then what was appended since."""

    def __init__(self, log: Log, stream: str) -> None:
        self._log = log
        self._stream = stream
        self._edition: int | None = None
        self._position = 0
        self._number = 0
        self._given = 0
        """The number of the last record that was returned."""

    def new(self) -> list[Numbered]:
        """Return each record once, also when the log is rewritten."""
        edition = self._log.edition()
        if edition == self._edition:
            return self._read_on()
        with self._log.locked() if edition else nullcontext():  # an edition begins a moment before its streams do
            self._edition, self._position, self._number = self._log.edition(), 0, 0
            return self._read_on()

    def _read_on(self) -> list[Numbered]:
        records, self._position = self._log.read(self._stream, self._position)
        found = list(numbered(records, self._number))
        self._number = found[-1].number if found else self._number
        new = [each for each in found if each.number > self._given]
        self._given = max(self._given, self._number)
        return [Numbered(number, readable(record, self._log.files)) for number, record in new]
