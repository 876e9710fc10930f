"""The memory of a session, now and in earlier rounds, and its decay."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any, NamedTuple

from ctxwrap.errors import NotFound
from ctxwrap.inspect.owner_info import item_dates
from ctxwrap.inspect.streams import no_session, round_in
from ctxwrap.memory.items import LOCATIONS, TIERS, Location, MemoryItem
from ctxwrap.memory.memory import Memory
from ctxwrap.session.session import Session
from ctxwrap.session.state import OPERATING
from ctxwrap.stores.base import STREAMS, Store
from ctxwrap.stores.log_format import timestamp
from ctxwrap.stores.memory import MemoryStore
from ctxwrap.stores.names import owner_kind
from ctxwrap.types import Record, SessionKey

_SOURCES = ("start", *OPERATING)
"""The events that memory is derived from."""


class Point(NamedTuple):
    """The tier and decay of an item at the end of a round."""

    round: int
    place: Location
    decay: float


class Curve(NamedTuple):
    """The history of one item, from its first round to the newest, or to the last before it was forgotten."""

    id: str
    content: str
    """Its newest content."""
    points: tuple[Point, ...]


def memory_of(store: Store, key: SessionKey) -> dict[str, Any]:
    """Return the memory now: `{"memory": {tier: [item, …]}, "capabilities": […], "active_task": "…"}`."""
    return _memory_now(store, key).shown()


def memory_at(store: Store, key: SessionKey, round: int) -> dict[str, Any]:
    """Return the memory at the end of `round`, in the shape of `memory_of`."""
    return _memory_then(store, key, round).shown()


def details_of(
    store: Store, key: SessionKey, round: int | None = None, *, at: datetime | None = None
) -> dict[str, Any]:
    """Return the memory now, at the end of `round`, or `at` a moment, with fields that the model does not see.

    As `memory_of`, with `round` and `swap` beside `memory`; each item also has `touches`, `origin`, `source`, its
    `first` round, `pinned`, and the id of the `successor` that replaced it, if any. Items of a user or a team also have
    the time `since` which, and `until` which, they held.
    """
    if at is not None:
        memory = _memory_at_moment(store, key, at)
    else:
        memory = _memory_now(store, key) if round is None else _memory_then(store, key, round)
    if not memory.round and not any(store.open(key).read(stream)[0] for stream in STREAMS):
        raise no_session(store, key)
    memory.advance(memory.round)
    state = memory.shown()
    tiers = {tier: [_detailed(memory.items[item["id"]], memory) for item in state["memory"][tier]] for tier in TIERS}
    swap = [_detailed(item, memory) for item in memory.swap.values()]
    if owner_kind(key.agent):
        dates = item_dates(_until(store.open(key).read("events")[0], at))
        for item in (*(item for items in tiers.values() for item in items), *swap):
            item |= dates.get(item["id"], {})
    return {**state, "round": memory.round, "memory": tiers, "swap": swap}


def counts_of(store: Store, key: SessionKey) -> dict[str, int]:
    """Count the items in each tier now, and those in swap that are loaded."""
    memory = _memory_now(store, key)
    memory.advance(memory.round)
    counts = Counter(item.tier for item in (*memory.items.values(), *memory.swap.values()))
    return {place: counts[place] for place in LOCATIONS}


def curves_of(store: Store, key: SessionKey) -> tuple[Curve, ...]:
    """Return the history of every item that was ever in memory, oldest first."""
    contents: dict[str, str] = {}
    points: dict[str, list[Point]] = defaultdict(list)
    for round, memory in _round_by_round(key, _memory_events(store, key)):
        for item in (*memory.items.values(), *memory.swap.values()):
            contents[item.id] = item.content
            points[item.id].append(Point(round, item.tier, memory.faded(item, round)))
    return tuple(Curve(id, contents[id], tuple(lived)) for id, lived in points.items())


class _MemoryEvent(NamedTuple):
    """An event that memory is derived from, and its round."""

    round: int
    event: Record


class _Replay:
    """Replays events into an empty session."""

    def __init__(self, key: SessionKey) -> None:
        self._log = MemoryStore().open(key)
        self._session = Session(key, self._log, keeps_all=True)

    def advance(self, events: Iterable[_MemoryEvent], round: int) -> Memory:
        """Append the events and return the memory at the end of `round`."""
        self._log.append({"events": [event for _, event in events]})
        self._session.refresh()
        self._session.memory.advance(round)
        return self._session.memory


def _memory_now(store: Store, key: SessionKey) -> Memory:
    session = Session(key, store.open(key))
    session.refresh()
    return session.memory


def _memory_then(store: Store, key: SessionKey, round: int) -> Memory:
    events = _memory_events(store, key)
    newest = max(number for number, _ in events)
    if not 1 <= round <= newest:
        raise NotFound(f"session {key.session!r} has no round {round}: it has rounds 1 to {newest}")
    return _Replay(key).advance([each for each in events if each.round <= round], round)


def _until(events: list[Record], at: datetime | None) -> list[Record]:
    """The events up to a moment."""
    if at is None:
        return events
    last = timestamp(at)
    return [event for event in events if str((event.get("ctx") or {}).get("time")) <= last]


def _memory_at_moment(store: Store, key: SessionKey, at: datetime) -> Memory:
    events = [each for each in _memory_events(store, key) if _until([each.event], at)]
    newest = max((number for number, _ in events), default=0)
    return _Replay(key).advance(events, newest)


def _round_by_round(key: SessionKey, events: list[_MemoryEvent]) -> Iterator[tuple[int, Memory]]:
    """Yield the memory at the end of every round; replays from the start where turns of two rounds overlap."""
    places: dict[int, list[int]] = defaultdict(list)
    for place, each in enumerate(events):
        places[each.round].append(place)
    replay, last = _Replay(key), -1
    for round in range(1, max(places) + 1):
        new = places.get(round, [])
        if new and new[0] < last:
            replay = _Replay(key)
            new = [place for place, each in enumerate(events) if each.round <= round]
        yield round, replay.advance([events[place] for place in new], round)
        last = max([last, *new[-1:]])


def _memory_events(store: Store, key: SessionKey) -> list[_MemoryEvent]:
    found, newest = list[_MemoryEvent](), 1
    for event in store.open(key).read("events")[0]:
        if event.get("type") in _SOURCES:
            found.append(_MemoryEvent(round_in(event) or newest, event))
            newest = max(newest, found[-1].round)
    if not found:
        raise no_session(store, key)
    return found


def _detailed(item: MemoryItem, memory: Memory) -> dict[str, Any]:
    return {
        **item.shown(memory.faded(item, memory.round)),
        "touches": item.touches,
        "origin": item.origin,
        "source": item.source,
        "first": item.first,
        "pinned": item.pinned,
        "successor": item.successor,
    }
