"""What a session remembers and remembered, and how it faded."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from ctxwrap.errors import NotFound
from ctxwrap.inspect.streams import no_session, round_in
from ctxwrap.memory.items import PLACES, TIERS, Location, MemoryItem
from ctxwrap.memory.memory import Memory
from ctxwrap.session.session import Session
from ctxwrap.session.state import OPERATING
from ctxwrap.stores.base import STREAMS, Store
from ctxwrap.stores.memory import MemoryStore
from ctxwrap.types import Record, SessionKey

_TELLING = ("start", *OPERATING)
"""The events that memory is made of."""


class Point(NamedTuple):
    """Where an item was at the end of a round, and how far it had faded."""

    round: int
    place: Location
    decay: float


class Curve(NamedTuple):
    """One item's life, from the round in which it came to the newest one, or to the last before it was forgotten."""

    id: str
    content: str
    """What it says, or said last."""
    points: tuple[Point, ...]


def memory_of(store: Store, key: SessionKey) -> dict[str, Any]:
    """The memory as it is now: `{"memory": {tier: [item, …]}, "capabilities": […], "active_task": "…"}`."""
    return _memory_now(store, key).shown()


def memory_at(store: Store, key: SessionKey, round: int) -> dict[str, Any]:
    """The memory as it was at the end of `round`, in the shape of `memory_of`."""
    return _memory_then(store, key, round).shown()


def details_of(store: Store, key: SessionKey, round: int | None = None) -> dict[str, Any]:
    """The memory now, or at the end of `round`, with what the model is not shown of it.

    As `memory_of`, with `round` and `swap` beside `memory`, and in each item its `touches`, `origin`, `source`, the
    `first` round it was in, whether it is `pinned`, and the `successor` that took its place, if one did.
    """
    memory = _memory_now(store, key) if round is None else _memory_then(store, key, round)
    if not memory.round and not any(store.open(key).read(stream)[0] for stream in STREAMS):
        raise no_session(store, key)
    memory.advance(memory.round)
    state = memory.shown()
    tiers = {tier: [_detailed(memory.items[item["id"]], memory) for item in state["memory"][tier]] for tier in TIERS}
    swap = [_detailed(item, memory) for item in memory.swap.values()]
    return {**state, "round": memory.round, "memory": tiers, "swap": swap}


def counts_of(store: Store, key: SessionKey) -> dict[str, int]:
    """How many items there are in each tier now, and in swap as far as that is at hand."""
    memory = _memory_now(store, key)
    memory.advance(memory.round)
    counts = Counter(item.tier for item in (*memory.items.values(), *memory.swap.values()))
    return {place: counts[place] for place in PLACES}


def curves_of(store: Store, key: SessionKey) -> tuple[Curve, ...]:
    """The life of every item that was ever remembered, the oldest first."""
    contents: dict[str, str] = {}
    points: dict[str, list[Point]] = defaultdict(list)
    for round, memory in _round_by_round(key, _told(store, key)):
        for item in (*memory.items.values(), *memory.swap.values()):
            contents[item.id] = item.content
            points[item.id].append(Point(round, item.tier, memory.faded(item, round)))
    return tuple(Curve(id, contents[id], tuple(lived)) for id, lived in points.items())


class _Told(NamedTuple):
    """An event that memory is made of, and the round it belongs to."""

    round: int
    event: Record


class _Retelling:
    """A session that hears its own past again."""

    def __init__(self, key: SessionKey) -> None:
        self._log = MemoryStore().open(key)
        self._session = Session(key, self._log, keeps_all=True)

    def heard(self, told: Iterable[_Told], round: int) -> Memory:
        """Memory after `told` as well, at the end of `round`."""
        self._log.append({"events": [event for _, event in told]})
        self._session.refresh()
        self._session.memory.advance(round)
        return self._session.memory


def _memory_now(store: Store, key: SessionKey) -> Memory:
    session = Session(key, store.open(key))
    session.refresh()
    return session.memory


def _memory_then(store: Store, key: SessionKey, round: int) -> Memory:
    told = _told(store, key)
    newest = max(number for number, _ in told)
    if not 1 <= round <= newest:
        raise NotFound(f"session {key.session!r} has no round {round}: it has rounds 1 to {newest}")
    return _Retelling(key).heard([each for each in told if each.round <= round], round)


def _round_by_round(key: SessionKey, told: list[_Told]) -> Iterator[tuple[int, Memory]]:
    """The memory at the end of every round; told from the start again where turns of two rounds overlapped."""
    places: dict[int, list[int]] = defaultdict(list)
    for place, each in enumerate(told):
        places[each.round].append(place)
    retelling, heard = _Retelling(key), -1
    for round in range(1, max(places) + 1):
        new = places.get(round, [])
        if new and new[0] < heard:
            retelling = _Retelling(key)
            new = [place for place, each in enumerate(told) if each.round <= round]
        yield round, retelling.heard([told[place] for place in new], round)
        heard = max([heard, *new[-1:]])


def _told(store: Store, key: SessionKey) -> list[_Told]:
    events, _ = store.open(key).read("events")
    told, newest = list[_Told](), 1
    for event in events:
        if event.get("type") in _TELLING:
            told.append(_Told(round_in(event) or newest, event))
            newest = max(newest, told[-1].round)
    if not told:
        raise no_session(store, key)
    return told


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
