"""The memory of a session: a fold of operations, with decay between them."""

import heapq
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import asdict
from math import inf
from typing import Any

from ctxwrap.memory.decay import TierMove, advance, decay_at, demotion_point, move_to_swap
from ctxwrap.memory.items import TIERS, Location, MemoryItem, Origin, is_foreign
from ctxwrap.memory.similarity import Facts, mentions, subjects
from ctxwrap.memory.tier_view import TierView
from ctxwrap.settings import MemoryRules, PerTier
from ctxwrap.types import Operation

_STALE_ENTRIES = 64
"""Outdated heap entries tolerated before a rebuild."""

MAX_SWAP = 2000
"""Swap items kept in memory, the newest; older ones are only in the log and its index."""


class Memory:
    """Holds immutable items: `items` in the tiers, `swap` out of the prompt.

    Every item is in one of them, except forgotten ones and the oldest swap items.
    """

    def __init__(self, rules: MemoryRules, *, evolves: bool = True, keeps_all: bool = False) -> None:
        self.rules = rules
        self.evolves = evolves
        self._max_swap = None if keeps_all else MAX_SWAP
        self.round = 0
        self.items: dict[str, MemoryItem] = {}
        self.swap: dict[str, MemoryItem] = {}
        self.forgotten: set[str] = set()
        self.capabilities: list[Any] = []
        self.active_task = ""
        self._tiers = self._empty_tiers()
        self._always_fit = _always_fitting(rules)
        self._points: dict[str, float] = {}
        """When items are demoted if nobody uses them."""
        self._due: list[tuple[float, str]] = []
        """A heap of these, in which some entries may be outdated."""
        self._facts = Facts()
        self._unread: dict[str, None] = {}
        """Ids of items whose contents are not there yet: most turns look for no fact."""
        self._unusual: dict[str, Origin] = {}
        """The origins of items, in tiers and in swap, that no participant of the conversation wrote."""
        self._by_word: dict[str, set[str]] = {}
        """The ids of items, in tiers and in swap, by the words of their contents."""
        self._unindexed: list[str] = []
        """Items that are not there yet."""
        self._crossings: list[tuple[MemoryItem | None, MemoryItem]] = []

    def govern(self, rules: MemoryRules, *, evolves: bool) -> None:
        """Replace the rules."""
        if (rules, evolves) != (self.rules, self.evolves):
            self.rules, self.evolves = rules, evolves
            self._tiers, self._always_fit = self._empty_tiers(), _always_fitting(rules)
            for item in self.items.values():
                self._tiers[item.tier].put(item)
            self._rebuild_due()

    def advance(self, round: int) -> tuple[TierMove, ...]:
        """Advance to `round` and return the moves."""
        self.round = max(self.round, round)
        moves: list[TierMove] = []
        while self._is_due(self.round):
            _, id = heapq.heappop(self._due)
            del self._points[id]
            aged, fell = advance(self.items[id], self.round, self.rules)
            moves += fell
            self._put(aged)
        return tuple(moves)

    def _is_due(self, round: int) -> bool:
        """Whether an item is demoted up to `round`; its entry is then the first in the heap."""
        due = self._due
        while due and due[0][0] <= round:
            at, id = due[0]
            if self._points.get(id) == at:
                return True
            heapq.heappop(due)
        return False

    def apply(self, operations: Iterable[Operation], round: int) -> tuple[TierMove, ...]:
        """Apply the operations of a round; return all moves, including evictions."""
        moves = self.advance(round)
        for operation in operations:
            self._apply(operation)
        return (*moves, *self._evict_surplus()) if len(self.items) > self._always_fit else moves

    def take_crossings(self) -> list[tuple[MemoryItem | None, MemoryItem]]:
        """Return, once, the items that entered, left or changed in swap: the former swap item, if any, and the new."""
        if not self._crossings:
            return []
        crossings, self._crossings = self._crossings, []
        return crossings

    def named(self, id: str) -> MemoryItem | None:
        """Return the item with this id, in a tier or in swap."""
        return self.items.get(id) or self.swap.get(id)

    @property
    def foreign(self) -> dict[str, Origin]:
        """The origins of the items that contain foreign text, by id."""
        return {id: origin for id, origin in self._unusual.items() if is_foreign(origin)} if self._unusual else {}

    def from_rules(self) -> list[MemoryItem]:
        """Return the items that rules took from the user's words, in tiers."""
        held = "rule" in self._unusual.values()
        return [item for item in self.items.values() if item.origin == "rule"] if held else []

    def find_same(self, content: str, id: str = "") -> MemoryItem | None:
        """Return the item that states the same fact: in the same words the one with this id, else one from a tier."""
        while self._unread:
            unread = self.named(self._unread.popitem()[0])
            if unread is not None:
                self._facts.put(unread.id, unread.content)
        same = self._facts.same(content)
        if id in same:
            return self.named(id)
        if same:
            return (_all_of(same, self.items) or _all_of(same, self.swap))[-1]
        near = self._facts.near(content)
        return (_all_of(near, self.items) or _all_of(near, self.swap))[0] if near else None

    def asked_in_swap(self, text: str) -> list[MemoryItem]:
        """Return the swap items that `text` restates or asks for, best first; of a replaced item its newest value."""
        said, words = subjects(text), self._words()
        shared: dict[str, list[int]] = {}
        for word in sorted(said & words.keys()):
            having = [id for id in words[word] if id in self.swap]
            for id in having:
                shared.setdefault(id, []).append(len(having))
        if not shared:
            return []
        restated = {id for id in shared if mentions(said, self.swap[id].content)}
        asked = {id for id, counts in shared.items() if _is_asked(counts, len(said))}
        ranked = sorted(
            restated | asked, key=lambda id: (id not in restated, -sum(1 / each for each in shared[id]), id)
        )
        newest = {item.id: item for id in ranked if (item := self._newest_value(self.swap[id]))}
        return list(newest.values())

    def _newest_value(self, item: MemoryItem) -> MemoryItem | None:
        """Return the swap item that nothing replaced, from `item` on; None if its newest value is elsewhere."""
        seen = {item.id}
        while item.successor:
            if item.successor in seen or item.successor not in self.swap:
                return None
            item = self.swap[item.successor]
            seen.add(item.id)
        return item

    def sharing_words(self, words: Set[str]) -> Set[str]:
        """Return the ids of items, in tiers and in swap, that have one of these words."""
        known = self._words()
        return _NOTHING.union(*map(known.__getitem__, words & known.keys()))

    def _words(self) -> dict[str, set[str]]:
        while self._unindexed:
            id = self._unindexed.pop()
            item = self.named(id)
            for word in subjects(item.content) if item else ():
                self._by_word.setdefault(word, set()).add(id)
        return self._by_word

    def _forget_words(self, item: MemoryItem) -> None:
        for word in subjects(item.content):
            ids = self._by_word.get(word, set())
            ids.discard(item.id)
            if not ids:
                self._by_word.pop(word, None)

    def at(self, then: int) -> tuple[dict[str, Any], tuple[TierMove, ...]]:
        """Return the state that the model will see in round `then`, and the moves until then, without side effects.

        The most important items of a tier come first.
        """
        moved, moves = self._moved_by(then) if self._is_due(then) else ({}, ())
        tiers: dict[str, list[dict[str, Any]]] = {}
        for tier, held in self._tiers.items():
            tiers[tier] = held.at(then, moved) if self.evolves else self._unaged(tier)
        return {"memory": tiers, "capabilities": self.capabilities, "active_task": self.active_task}, moves

    def _unaged(self, tier: Location) -> list[dict[str, Any]]:
        """Return what the model wrote, in the order in which it first did."""
        return [item.shown(item.decay) for item in self.items.values() if item.tier == tier]

    def _moved_by(self, then: int) -> tuple[dict[str, MemoryItem], tuple[TierMove, ...]]:
        """Return the items that change tiers up to a round, as they are then, and the moves."""
        moved: dict[str, MemoryItem] = {}
        moves: list[TierMove] = []
        due = self._due_by(then)
        for item in [item for id, item in self.items.items() if id in due]:
            aged, fell = advance(item, then, self.rules)
            if fell:
                moved[item.id] = aged
                moves += fell
        return moved, tuple(moves)

    def _due_by(self, round: int) -> set[str]:
        """Return the ids due up to `round`; a heap entry's children are due later than the entry."""
        found: set[str] = set()
        places = [0]
        while places:
            place = places.pop()
            if place < len(self._due) and self._due[place][0] <= round:
                found.add(self._due[place][1])
                places += (2 * place + 1, 2 * place + 2)
        return found

    def shown(self) -> dict[str, Any]:
        return self.at(self.round)[0]

    def faded(self, item: MemoryItem, at: int) -> float:
        """Return the decay to show; without evolution, what the model wrote."""
        return round(decay_at(item, at, self.rules), 3) if self.evolves else item.decay

    def as_json(self) -> dict[str, Any]:
        return {
            "rules": rules_as_json(self.rules, evolves=self.evolves),
            "round": self.round,
            "items": [item.as_json() for item in self.items.values()],
            "swap": [item.as_json() for item in self.swap.values()],
            "forgotten": sorted(self.forgotten),
            "capabilities": self.capabilities,
            "active_task": self.active_task,
        }

    def restore(self, data: Mapping[str, Any]) -> None:
        """Load what `as_json` returned."""
        self.rules, self.evolves = rules_from_json(data["rules"])
        self._tiers, self._always_fit = self._empty_tiers(), _always_fitting(self.rules)
        self.round = data["round"]
        for item in map(MemoryItem.from_json, (*data["items"], *data["swap"])):
            self._put(item)
        self._crossings.clear()
        self.forgotten = set(data["forgotten"])
        self.capabilities, self.active_task = list(data["capabilities"]), str(data["active_task"])

    def _apply(self, operation: Operation) -> None:
        if operation.kind == "forget":
            self._remove(operation.id)
            self.forgotten.add(operation.id)
        elif operation.kind == "drop":
            item = self.items.get(operation.id)
            if item is not None:
                self._put(move_to_swap(item, self.round, self.rules)._replace(successor=operation.successor))
        elif operation.item is not None:
            self._put(MemoryItem.from_json(operation.item))

    def _put(self, item: MemoryItem) -> None:
        """Store `item`, replacing its former version."""
        known = self.named(item.id)
        if known is None or known.content != item.content:
            self._unread[item.id] = None
            self._unindexed.append(item.id)
            if known is not None:
                self._forget_words(known)
        here, there = (self.swap, self.items) if item.tier == "swap" else (self.items, self.swap)
        there.pop(item.id, None)
        here[item.id] = item
        if item.origin in _PARTICIPANTS:
            self._unusual.pop(item.id, None)
        else:
            self._unusual[item.id] = item.origin
        if known is not None and known.tier not in (item.tier, "swap"):
            self._tiers[known.tier].remove(item.id)
        if item.tier != "swap":
            self._tiers[item.tier].put(item)
        was = known if known is not None and known.tier == "swap" else None
        if (was is None) == (item.tier == "swap") or (was is not None and was.content != item.content):
            self._crossings.append((was, item))
        if item.tier == "swap":
            self._points.pop(item.id, None)
            self._trim_swap()
        elif self.evolves:
            self._note_due(item)

    def _note_due(self, item: MemoryItem) -> None:
        at = demotion_point(item, self.rules)
        if at == self._points.get(item.id):
            return
        if at is None:
            del self._points[item.id]
            return
        self._points[item.id] = at
        heapq.heappush(self._due, (at, item.id))
        if len(self._due) > 2 * len(self.items) + _STALE_ENTRIES:
            self._rebuild_due()

    def _trim_swap(self) -> None:
        """Remove the oldest swap items above the limit."""
        while self._max_swap is not None and len(self.swap) > self._max_swap:
            self._remove(next(iter(self.swap)))

    def _rebuild_due(self) -> None:
        """Rebuild the heap without outdated entries."""
        points = ((id, demotion_point(item, self.rules)) for id, item in self.items.items()) if self.evolves else ()
        self._points = {id: at for id, at in points if at is not None}
        self._due = [(at, id) for id, at in self._points.items()]
        heapq.heapify(self._due)

    def _remove(self, id: str) -> None:
        known = self.named(id)
        if known is None:
            return
        self._facts.remove(id)
        self._forget_words(known)
        if known.tier != "swap":
            self._tiers[known.tier].remove(id)
        self.items.pop(id, None)
        self.swap.pop(id, None)
        self._points.pop(id, None)
        self._unusual.pop(id, None)

    def _evict_surplus(self) -> tuple[TierMove, ...]:
        """Move the weakest items of each tier above its capacity to swap."""
        if not self.evolves:
            return ()
        moves: list[TierMove] = []
        for tier, held in self._tiers.items():
            surplus = len(held) - int(getattr(self.rules.capacity, tier))
            for item in held.weakest(surplus, self.round) if surplus > 0 else ():
                self._put(move_to_swap(item, self.round, self.rules))
                moves.append(TierMove(item.id, tier, "swap", self.round, "no room"))
        return tuple(moves)

    def _empty_tiers(self) -> dict[Location, TierView]:
        return {tier: TierView(tier, self.rules) for tier in TIERS}


def _always_fitting(rules: MemoryRules) -> int:
    """The number of items up to which no tier can have too many."""
    return int(min(rules.capacity.core, rules.capacity.working, rules.capacity.ephemeral))


_NOTHING: frozenset[str] = frozenset()

_PARTICIPANTS = frozenset({"operator", "user", "assistant"})

_LEAST_ASKED = 0.4
"""The share of a question's words that an item must have to answer it."""

_TELLING = 3
"""A single word answers a question if no more swap items have it."""


def _is_asked(counts: Sequence[int], words: int) -> bool:
    """Whether an item answers a question of so many words, given how many items have each word that it shares."""
    return len(counts) >= _LEAST_ASKED * words and (len(counts) > 1 or counts[0] <= _TELLING)


def rules_as_json(rules: MemoryRules, *, evolves: bool) -> dict[str, Any]:
    """Return the rules as logged; infinity becomes null."""
    numbers = {name: _finite(value) if isinstance(value, dict) else value for name, value in asdict(rules).items()}
    return {"evolution": "decay" if evolves else "off", **numbers}


def rules_from_json(data: Mapping[str, Any]) -> tuple[MemoryRules, bool]:
    """Parse logged rules; return them and whether memory evolves.

    Older logs have no stay limits: decay alone decided.
    """
    numbers = {**_UNBOUNDED, **{name: value for name, value in data.items() if name != "evolution"}}
    tiers = {name: PerTier(**_with_infinity(value)) for name, value in numbers.items() if isinstance(value, dict)}
    return MemoryRules(**{**numbers, **tiers}), data["evolution"] == "decay"


_UNBOUNDED = {"least_stay": dict.fromkeys(TIERS, 0), "most_stay": dict.fromkeys(TIERS, None)}


def _finite(tiers: Mapping[str, float]) -> dict[str, float | None]:
    return {tier: None if number == inf else number for tier, number in tiers.items()}


def _with_infinity(tiers: Mapping[str, float | None]) -> dict[str, float]:
    return {tier: inf if number is None else number for tier, number in tiers.items()}


def _all_of(ids: Set[str], place: Mapping[str, MemoryItem]) -> list[MemoryItem]:
    """Return the items with these ids, in the order of `location`."""
    found = [place[id] for id in ids if id in place]
    return found if len(found) < 2 else [item for id, item in place.items() if id in ids]


WRITE_ONCE = "write_once"

_REWRITTEN = "memory is write_once:"


def merge_capabilities(before: Sequence[Any], returned: Sequence[Any]) -> tuple[list[Any], str]:
    """Restore `write_once` entries to their first version; return all entries and the violation, if any."""
    if not before:
        return [*returned], ""
    fixed = {str(each.get("name")): each for each in before if is_write_once(each)}
    kept = [fixed.get(capability_name(each), each) for each in returned]
    missing = [each for name, each in fixed.items() if name not in map(capability_name, returned)]
    changed = [capability_name(each) for each in returned if fixed.get(capability_name(each), each) != each]
    violation = f"capability {changed[0][:40]!r} is write_once and was changed: it stays" if changed else ""
    return [*missing, *kept], violation


def memory_is_write_once(capabilities: Sequence[Any]) -> bool:
    """Whether memory content is write-once: `{"name": "memory", "scope": "write_once"}`."""
    return bool(capabilities) and any(
        is_write_once(each) and capability_name(each) == "memory" for each in capabilities
    )


def write_once_reason(id: str, new: str) -> str:
    return f"{_REWRITTEN} {id!r} keeps its content, {new!r} has the new one"


def write_once_violations(operations: Sequence[Operation]) -> tuple[str, ...]:
    """Return the violations of write-once memory."""
    return tuple([each.reason for each in operations if each.reason.startswith(_REWRITTEN)])


def is_write_once(entry: Any) -> bool:
    return isinstance(entry, dict) and entry.get("scope") == WRITE_ONCE


def capability_name(entry: Any) -> str:
    return str(entry.get("name")) if isinstance(entry, dict) else str(entry)
