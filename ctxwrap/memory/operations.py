"""How a turn changes memory: what it was shown, what came back and what is there now, as operations."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, NamedTuple

from ctxwrap.memory.decay import mentioned, rehydrated, stated
from ctxwrap.memory.items import PLACES, TIERS, Item, Origin, Place, Tier
from ctxwrap.memory.likeness import key_of, mentions, same_fact, telling_words
from ctxwrap.memory.memory import Memory
from ctxwrap.memory.trust import ceiling, least_trusted
from ctxwrap.types import Operation

State = Mapping[str, Any]
"""`{"memory": {tier: [item, …]}, "capabilities": […], "active_task": "…"}`"""

_RECALLED = 5
"""How many items may come back from swap at once."""
_NAMED = ("id", "type", "decay", "round", "tags", "content")


class Circumstances(NamedTuple):
    """What a turn knows about itself that decides what its memories are."""

    round: int
    origin: Origin = "user"
    source: str = ""
    """Where the words stand that led to it, such as `messages:12-18`."""
    said: str = ""
    """What the user said."""
    foreign_core: bool = False
    """Whether tool, file and retrieved text may reach core."""
    touched: Mapping[str, int] = MappingProxyType({})
    """The round of each item's last touch when the turn began, if the model was shown an earlier one."""


def compare(shown: State, returned: State, now: Memory, turn: Circumstances) -> tuple[Operation, ...]:
    """What the model did to the memory it was shown, fitted to the memory as it is by now.

    What it was not shown it cannot drop; what another turn has changed meanwhile stays unless this one changed it, too;
    and one id never stands for two things.
    """
    return tuple(_Comparison(now, turn).of(_placed(shown), _placed(returned)))


def recall(now: Memory, turn: Circumstances) -> tuple[Operation, ...]:
    """What the user speaks of and is in swap, brought back before the model is asked."""
    if not now.evolves:
        return ()
    found = now.spoken_of(turn.said)[:_RECALLED]
    comparison = _Comparison(now, turn)
    return tuple(comparison.reinforced(item, "the user spoke of it again") for item in found)


def whole(shown: State, changes: State) -> dict[str, Any]:
    """The state that `changes` to `shown` amount to: a snapshot that names only what is new or other than before.

    An id that is dropped and told anew in one breath stays: the old words are what is settled.
    """
    before, told = _placed(shown), _placed(changes)
    placed = {**before, **told}
    for id in changes.get("dropped", ()):
        if before.get(id) == placed.get(id):
            placed.pop(id, None)
    memory: dict[str, list[Any]] = {tier: [] for tier in TIERS}
    for tier, item in placed.values():
        memory[tier].append(item)
    return {**changes, "memory": memory}


def _placed(state: State) -> dict[str, tuple[Tier, dict[str, Any]]]:
    return {item["id"]: (tier, item) for tier, items in state["memory"].items() for item in items}


class _Comparison:
    def __init__(self, now: Memory, turn: Circumstances) -> None:
        self._now = now
        self._turn = turn
        self._said = telling_words(turn.said)
        self._taken: set[str] = set()
        self._kept: set[str] = set()
        self._told: dict[str, str] = {}
        """What the changed items say now, by id."""
        self._ceiling = ceiling(turn.origin, foreign_core=turn.foreign_core)

    def of(
        self, shown: dict[str, tuple[Tier, dict[str, Any]]], returned: dict[str, tuple[Tier, dict[str, Any]]]
    ) -> Iterator[Operation]:
        self._told = {
            id: item["content"] for id, (_, item) in returned.items() if shown.get(id) not in (None, returned[id])
        }
        for id, (tier, given) in returned.items():
            if id in self._now.forgotten:
                continue
            if id not in shown:
                yield from self._added(tier, given)
            elif shown[id] != (tier, given):
                yield from self._changed(tier, given, *shown[id])
            else:
                yield from self._restated(id)
        for id, (_, was) in shown.items():
            if id not in returned and id not in self._kept:
                yield from self._dropped(id, was)

    def reinforced(self, item: Item, reason: str) -> Operation:
        return self._put("reinforce", self._mentioned(item), reason)

    def _added(self, tier: Tier, given: dict[str, Any]) -> Iterator[Operation]:
        item = self._new(tier, given)
        twin = self._twin(item)
        if twin is None or not same_fact(self._told.get(twin.id, item.content), item.content):
            if self._is_taken(item.id):
                item = replace(item, id=self._free_id(item.id))
            self._taken.add(item.id)
            yield self._put("add", item, "new" if item.id == given["id"] else f"{given['id']!r} means something else")
        elif twin.id not in self._told:
            self._kept.add(twin.id)
            yield self.reinforced(twin, "said again" if twin.id == item.id else f"says the same as {item.id!r}")

    def _twin(self, item: Item) -> Item | None:
        """What says the same already."""
        known = self._now.named(item.id)
        return known if known and key_of(known.content) == key_of(item.content) else self._now.like(item.content)

    def _changed(self, tier: Tier, given: dict[str, Any], was_tier: Tier, was: dict[str, Any]) -> Iterator[Operation]:
        known = self._now.named(given["id"])
        if known is None:
            return
        if not self._now.evolves:
            yield self._put("update", _verbatim(known, tier, given), "changed")
            return
        if {**given, "decay": 0, "round": 0} == {**was, "decay": 0, "round": 0} and tier == was_tier:
            yield self._touched(known, given, was)
        elif known.tier == "core" and self._ceiling != "core":
            item = replace(self._new(tier, given), id=self._free_id(known.id))
            yield self._put("add", item, f"{self._turn.origin} text may not change the core memory {known.id!r}")
        else:
            changed = known.last > self._touched_before(known.id, was)
            yield self._put(
                "update", self._merged(known, tier, given, was), "over another turn" if changed else "changed"
            )

    def _touched(self, known: Item, given: dict[str, Any], was: dict[str, Any]) -> Operation:
        if given["decay"] != was["decay"]:
            return self._put("update", stated(known, self._turn.round, given["decay"]), "its decay was stated")
        return self.reinforced(known, "touched")

    def _restated(self, id: str) -> Iterator[Operation]:
        item = self._now.items.get(id)
        if item is not None and self._now.evolves and mentions(self._said, item.content):
            yield self.reinforced(item, "the user spoke of it")

    def _dropped(self, id: str, was: dict[str, Any]) -> Iterator[Operation]:
        item = self._now.items.get(id)
        if item is None or (self._now.evolves and item.last > self._touched_before(id, was)):
            return
        if item.tier == "core" and self._ceiling != "core":
            return
        yield Operation("drop", id, item.tier, reason="left out")

    def _touched_before(self, id: str, was: dict[str, Any]) -> int:
        """The round of an item's last touch as far as this turn knew; a later one is another turn's."""
        return self._turn.touched.get(id, int(was["round"]))

    def _new(self, tier: Place, given: dict[str, Any]) -> Item:
        turn = self._turn
        return Item(
            id=given["id"],
            type=given["type"],
            content=given["content"],
            tags=tuple(given["tags"]),
            tier=self._allowed(tier, turn.origin),
            decay=given["decay"],
            anchor=turn.round,
            first=turn.round,
            last=turn.round if self._now.evolves else given["round"],
            origin=turn.origin,
            source=turn.source,
            extra={key: value for key, value in given.items() if key not in _NAMED},
        )

    def _merged(self, known: Item, tier: Tier, given: dict[str, Any], was: dict[str, Any]) -> Item:
        item = self._mentioned(known)
        if given["decay"] != was["decay"]:
            item = stated(item, self._turn.round, given["decay"])
        origin = least_trusted(known.origin, self._turn.origin)
        return replace(
            _verbatim(item, self._allowed(tier, origin), given),
            decay=item.decay,
            last=item.last,
            origin=origin,
            source=self._turn.source,
        )

    def _mentioned(self, item: Item) -> Item:
        """`item`, touched again, and back at hand if it was in swap."""
        if not self._now.evolves:
            return item
        rules, round = self._now.rules, self._turn.round
        if item.tier == "swap":
            item = rehydrated(item, round, rules)
        evidence = rules.restated if mentions(self._said, item.content) else rules.echoed
        limit = ceiling(item.origin, foreign_core=self._turn.foreign_core)
        return mentioned(item, round, evidence, rules, limit)

    def _allowed(self, tier: Place, origin: Origin) -> Place:
        highest = ceiling(origin, foreign_core=self._turn.foreign_core)
        return PLACES[max(PLACES.index(tier), PLACES.index(highest))]

    def _is_taken(self, id: str) -> bool:
        return id in self._taken or id in self._now.forgotten or self._now.named(id) is not None

    def _free_id(self, id: str) -> str:
        number = 2
        while self._is_taken(f"{id}-{number}"):
            number += 1
        self._taken.add(f"{id}-{number}")
        return f"{id}-{number}"

    def _put(self, kind: Any, item: Item, reason: str) -> Operation:
        if kind == "update" and item.id in self._now.swap:  # dropped by another turn meanwhile, and so it stays
            item = replace(item, tier="swap")
        return Operation(kind, item.id, item.tier, item.as_json(), reason)


def _verbatim(item: Item, tier: Place, given: dict[str, Any]) -> Item:
    """`item` with what the model wrote, word by word."""
    return replace(
        item,
        type=given["type"],
        content=given["content"],
        tags=tuple(given["tags"]),
        tier=tier,
        decay=given["decay"],
        last=given["round"],
        extra={key: value for key, value in given.items() if key not in _NAMED},
    )
