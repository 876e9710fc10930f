"""A session's streams as they are: records with their numbers, read once or as they grow."""

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
"""Control data that vouches for the bytes of a line, and for nothing that was read out of it."""

_NAMED = 5
"""So many of the sessions that there are stand in an error."""


class Numbered(NamedTuple):
    """A record and its number in its stream."""

    number: int
    record: Record


@dataclass(frozen=True, slots=True)
class StreamContents:
    """All that a stream holds."""

    records: tuple[Numbered, ...]
    damaged: int
    """Lines with something wrong; most of them cannot be read."""

    @property
    def newest(self) -> int:
        """The number of the last record."""
        return self.records[-1].number if self.records else 0


def whole_stream(log: Log, stream: str) -> StreamContents:
    lines = list(log.lines(stream))
    records = (line.record for line in lines if line.record is not None)
    return StreamContents(tuple(numbered(records)), sum(bool(line.fault) for line in lines))


def numbered(records: Iterable[Record], after: int = 0) -> Iterator[Numbered]:
    """The records with the numbers they have; one that says none, or one that was there, is the next."""
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
    """The text of a message; of a purged one that it is so."""
    if "purged" in control_in(record):
        return PURGED
    try:
        return message_in(record).text
    except (LookupError, TypeError, ValueError):
        return ""


def calls_in(record: Record) -> list[Record]:
    """The tool calls of a message, as far as they are some."""
    calls = record.get("tool_calls")
    return [call for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []


def readable(record: Record, files: Files) -> Record:
    """A record with its content, wherever that lies; `ctx.fault` says so if it is lost."""
    control = {name: value for name, value in control_in(record).items() if name not in _SEALS}
    if "turn" not in control and (turn := turn_in(record)):
        control["turn"] = turn
    plain = {**record, "ctx": control} if control else record
    try:
        return inline(plain, files)
    except (AttributeError, LookupError, OSError, TypeError, ValueError) as error:
        return {**plain, "ctx": {**control, "fault": str(error)}}


def loaded(files: Files, name: str) -> bytes:
    """What a file beside the log holds; nothing if it cannot be read."""
    try:
        return files.load(name) or b""
    except OSError:
        return b""


def check_known(store: Store, key: SessionKey, *streams: StreamContents) -> None:
    """A NotFound unless the session is there, be it empty."""
    if not any(stream.records or stream.damaged for stream in streams) and key.session not in _sessions(store, key):
        raise no_session(store, key)


def no_session(store: Store, key: SessionKey) -> NotFound:
    """The error for a session that is not there, with those that the same agent has for the same tenant."""
    whose = f"tenant {key.tenant!r} and agent {key.agent!r}"
    there_are = _listed([repr(session) for session in _sessions(store, key)])
    return NotFound(f"no session {key.session!r} of {whose}: {there_are}")


def _sessions(store: Store, key: SessionKey) -> list[str]:
    return list(store.sessions(key.tenant, key.agent))


def _listed(names: list[str]) -> str:
    if not names:
        return "they have none"
    more = len(names) - _NAMED
    return f"they have {', '.join(names[:_NAMED])}{f' and {more} more' if more > 0 else ''}"


def round_in(event: Record) -> int:
    """The round that an event names, or 0."""
    return count_in(event.get("runtime"), "round") or count_in(event, "round") or 0


class StreamFollower:
    """`new` gives everything first, and after that what was appended since the last time."""

    def __init__(self, log: Log, stream: str) -> None:
        self._log = log
        self._stream = stream
        self._edition: int | None = None
        self._position = 0
        self._number = 0
        self._given = 0
        """The number of the last record that was given."""

    def new(self) -> list[Numbered]:
        """Every record once: what was given before does not come again when the log is rewritten."""
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
