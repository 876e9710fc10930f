"""The log of a session as evidence needs it: turns with their attempts, and lookups for messages and texts."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

from ctxwrap.inspect.streams import check_known, control_in, readable, text_in, whole_stream
from ctxwrap.inspect.turns import Stages, runs_in
from ctxwrap.memory.epoch import Tiers
from ctxwrap.session.abi import is_legal_name
from ctxwrap.session.pack_archive import Lookups, rebuilt_pack
from ctxwrap.session.pack_view import PackView
from ctxwrap.session.redaction import placeholder
from ctxwrap.stores.base import Log, Store
from ctxwrap.stores.log_format import message_in, tokens_in
from ctxwrap.types import LoggedMessage, Record, SessionKey

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)")
_UNKNOWN = "1970-01-01T00:00:00Z"

PACK_EVENTS = ("start", "repack")
"""Events that record a pack."""


class RequestAttempt(NamedTuple):
    """One request of a turn; a request that the provider rejects as too long is followed by another attempt."""

    id: str
    event: Record
    epoch: Mapping[str, Any]
    """The memory block of the request's epoch."""
    view: PackView | None
    """None if nothing was packed or the event is damaged."""

    @property
    def time(self) -> str:
        return read_time(self.event)


@dataclass(frozen=True, slots=True)
class LoggedTurn:
    number: int
    id: str
    attempts: tuple[RequestAttempt, ...]
    events: tuple[Record, ...]
    summary: Record | None
    """The newest model-written summary when the turn began."""

    def named(self, *kinds: str) -> list[Record]:
        return [event for event in self.events if event.get("type") in kinds]


@dataclass(frozen=True, slots=True)
class SessionHistory:
    """The log of one session, read once."""

    key: SessionKey
    ids: tuple[str, ...]
    """Ids of all turns, in order."""
    events: tuple[Record, ...]
    purged: frozenset[int]
    """Numbers of the purged messages."""
    message: Callable[[int], LoggedMessage | None]
    text: Callable[[str], str | None]

    def turns(self, numbers: Sequence[int]) -> Iterator[LoggedTurn]:
        """Yield the turns with these numbers, in the order of the log."""
        wanted = {self.ids[number - 1]: number for number in numbers}
        runs = {id: events for id, events in runs_in(self.events).items() if id in wanted}
        epochs, summaries = self._epochs(), self._summaries()
        for id, events in runs.items():
            attempts = tuple(self._attempts(id, events, epochs))
            yield LoggedTurn(wanted[id], id, attempts, tuple(events), summaries.get(id))

    def events_of(self, *kinds: str) -> list[Record]:
        """Return the session's events of these types."""
        return [event for event in self.events if event.get("type") in kinds]

    def _attempts(self, id: str, events: Sequence[Record], epochs: Mapping[int, Tiers]) -> Iterator[RequestAttempt]:
        event: Record = {}
        for at, each in enumerate((each for each in events if each.get("type") in PACK_EVENTS), 1):
            event = {**event, **each}
            epoch = epochs.get(control_in(each).get("seq", 0)) or {}
            yield RequestAttempt(f"{id}.{at}", event, epoch, self._view(event, epoch))

    def _view(self, event: Record, epoch: Tiers) -> PackView | None:
        if "sent" not in event:
            return None
        try:
            return rebuilt_pack(self.key, event, epoch, Lookups(self.message, self.text))
        except (AttributeError, LookupError, TypeError, ValueError):
            return None

    def _epochs(self) -> dict[int, Tiers]:
        """Return the memory block in effect at each pack event, by the event's number."""
        epoch, found = None, dict[int, Any]()
        for event in self.events_of(*PACK_EVENTS):
            epoch = event.get("epoch", epoch)
            found[control_in(event).get("seq", 0)] = epoch
        return found

    def _summaries(self) -> dict[str, Record]:
        newest, found = None, dict[str, Record]()
        for event in self.events_of("summary", "start"):
            if event["type"] == "summary":
                newest = event
            elif newest is not None:
                found[text_in(event, "run")] = newest
        return found


def load_history(store: Store, key: SessionKey) -> SessionHistory:
    """Read a session's log; raises NotFound if there is no such session."""
    log = store.open(key)
    messages, events = whole_stream(log, "messages"), whole_stream(log, "events")
    check_known(store, key, messages, events)
    records = dict(messages.records)
    known_events = tuple(
        replace_surrogates(readable({**record, "ctx": {**control_in(record), "seq": number}}, log.files))
        for number, record in Stages(key.session).among(events.records)
    )
    return SessionHistory(
        key=SessionKey(*map(replace_surrogates, key)),
        ids=tuple(runs_in(known_events)),
        events=known_events,
        purged=frozenset(number for number, record in records.items() if "purged" in control_in(record)),
        message=lru_cache(4096)(lambda number: _load_message(records.get(number), number, log)),
        text=lru_cache(64)(lambda name: _load_text(name, log)),
    )


def _load_message(record: Record | None, number: int, log: Log) -> LoggedMessage | None:
    if record is None:
        return None
    try:
        message = message_in(replace_surrogates(readable(record, log.files)))
    except (LookupError, TypeError, ValueError):
        return None
    return LoggedMessage(number, placeholder(message) if "purged" in control_in(record) else message, tokens_in(record))


def _load_text(name: str, log: Log) -> str | None:
    data = log.files.load(f"raw/{name}") if is_legal_name(name) else None
    return None if data is None else data.decode("utf-8", "replace")


def read_time(event: Record) -> str:
    """Return the time of an event; 1970-01-01 if it has none."""
    time = text_in(control_in(event), "time")
    return time if _TIME.fullmatch(time) else _UNKNOWN


def replace_surrogates(value: Any) -> Any:
    """Replace lone surrogates in a value: JSON files in UTF-8 cannot hold them."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {replace_surrogates(name): replace_surrogates(each) for name, each in value.items()}
    return [replace_surrogates(each) for each in value] if isinstance(value, list) else value
