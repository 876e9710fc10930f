"""A session's log as evidence is made of it: its turns with all attempts, and where what they refer to is found."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

from ctxwrap.inspect.streams import check_known, control_in, readable, text_in, whole_stream
from ctxwrap.inspect.turns import Stages, runs_in
from ctxwrap.memory.epoch import Tiers
from ctxwrap.session.abi import is_legal_name
from ctxwrap.session.pack_archive import Lookups, recorded
from ctxwrap.session.pack_view import PackView
from ctxwrap.session.redaction import placeholder
from ctxwrap.stores.base import Log, Store
from ctxwrap.stores.log_format import message_in, tokens_in
from ctxwrap.types import LoggedMessage, Record, SessionKey

_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)")
_UNKNOWN = "1970-01-01T00:00:00Z"

PACKS = ("start", "repack")
"""The events that tell what was to be sent."""


class RequestAttempt(NamedTuple):
    """One request of a turn, sent or to be sent; a provider that calls it too long gets another."""

    id: str
    event: Record
    epoch: Mapping[str, Any]
    """The memory that stood in the requests of its time."""
    view: PackView | None
    """None if nothing was packed, or the record makes no sense."""

    @property
    def time(self) -> str:
        return time_of(self.event)


@dataclass(frozen=True, slots=True)
class LoggedTurn:
    number: int
    id: str
    attempts: tuple[RequestAttempt, ...]
    events: tuple[Record, ...]
    summary: Record | None
    """The newest summary of a model's when it began."""

    def named(self, *kinds: str) -> list[Record]:
        return [event for event in self.events if event.get("type") in kinds]


@dataclass(frozen=True, slots=True)
class SessionHistory:
    """A session, read once."""

    key: SessionKey
    ids: tuple[str, ...]
    """Of all turns, in their order."""
    events: tuple[Record, ...]
    purged: frozenset[int]
    """The numbers of the messages that were purged."""
    message: Callable[[int], LoggedMessage | None]
    text: Callable[[str], str | None]

    def turns(self, numbers: Sequence[int]) -> Iterator[LoggedTurn]:
        """The turns of these numbers, in the order of the log."""
        wanted = {self.ids[number - 1]: number for number in numbers}
        runs = {id: events for id, events in runs_in(self.events).items() if id in wanted}
        epochs, summaries = self._epochs(), self._summaries()
        for id, events in runs.items():
            attempts = tuple(self._attempts(id, events, epochs))
            yield LoggedTurn(wanted[id], id, attempts, tuple(events), summaries.get(id))

    def outside(self, *kinds: str) -> list[Record]:
        """Events of no turn in particular."""
        return [event for event in self.events if event.get("type") in kinds]

    def _attempts(self, id: str, events: Sequence[Record], epochs: Mapping[int, Tiers]) -> Iterator[RequestAttempt]:
        event: Record = {}
        for at, each in enumerate((each for each in events if each.get("type") in PACKS), 1):
            event = {**event, **each}
            epoch = epochs.get(control_in(each).get("seq", 0)) or {}
            yield RequestAttempt(f"{id}.{at}", event, epoch, self._view(event, epoch))

    def _view(self, event: Record, epoch: Tiers) -> PackView | None:
        if "sent" not in event:
            return None
        try:
            return recorded(self.key, event, epoch, Lookups(self.message, self.text))
        except (AttributeError, LookupError, TypeError, ValueError):
            return None

    def _epochs(self) -> dict[int, Tiers]:
        """By the number of each event that tells of a pack, the memory that stood in requests then."""
        epoch, found = None, dict[int, Any]()
        for event in self.outside(*PACKS):
            epoch = event.get("epoch", epoch)
            found[control_in(event).get("seq", 0)] = epoch
        return found

    def _summaries(self) -> dict[str, Record]:
        newest, found = None, dict[str, Record]()
        for event in self.outside("summary", "start"):
            if event["type"] == "summary":
                newest = event
            elif newest is not None:
                found[text_in(event, "run")] = newest
        return found


def load_history(store: Store, key: SessionKey) -> SessionHistory:
    """All that a session's log holds; a NotFound if there is none."""
    log = store.open(key)
    messages, events = whole_stream(log, "messages"), whole_stream(log, "events")
    check_known(store, key, messages, events)
    records = dict(messages.records)
    happened = tuple(
        sendable(readable({**record, "ctx": {**control_in(record), "seq": number}}, log.files))
        for number, record in Stages(key.session).among(events.records)
    )
    return SessionHistory(
        key=SessionKey(*map(sendable, key)),
        ids=tuple(runs_in(happened)),
        events=happened,
        purged=frozenset(number for number, record in records.items() if "purged" in control_in(record)),
        message=lru_cache(4096)(lambda number: _kept(records.get(number), number, log)),
        text=lru_cache(64)(lambda name: _text(name, log)),
    )


def _kept(record: Record | None, number: int, log: Log) -> LoggedMessage | None:
    if record is None:
        return None
    try:
        message = message_in(sendable(readable(record, log.files)))
    except (LookupError, TypeError, ValueError):
        return None
    return LoggedMessage(number, placeholder(message) if "purged" in control_in(record) else message, tokens_in(record))


def _text(name: str, log: Log) -> str | None:
    data = log.files.load(f"raw/{name}") if is_legal_name(name) else None
    return None if data is None else data.decode("utf-8", "replace")


def time_of(event: Record) -> str:
    """When it was written; the beginning of 1970 if it does not say."""
    time = text_in(control_in(event), "time")
    return time if _MOMENT.fullmatch(time) else _UNKNOWN


def sendable(value: Any) -> Any:
    """A value without halves of characters, which no document can hold."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {sendable(name): sendable(each) for name, each in value.items()}
    return [sendable(each) for each in value] if isinstance(value, list) else value
