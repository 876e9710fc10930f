"""The memory of a session: a fold of operations, and what decay does between them."""

import heapq
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import asdict, replace
from math import inf
from typing import Any

from ctxwrap.memory.decay import TierMove, advanced, decay_at, due, swapped
from ctxwrap.memory.items import TIERS, MemoryItem, Tier, is_work, standing
from ctxwrap.memory.similarity import Facts, mentions, subjects
from ctxwrap.settings import MemoryRules, PerTier
from ctxwrap.types import Operation

_FEW = 64
"""So many entries of the heap may be out of date without need to renew it."""

SWAP_AT_HAND = 2000
"""How much of swap is at hand, the newest; what lies deeper is in the log and its index only."""


class Memory:
    """Items are values and never change; this holds which of them are at hand (`items`) and which in `swap`.

    Nothing is ever in neither, but for what was forgotten on request and what lies deep in swap.
    """

    def __init__(self, rules: MemoryRules, *, evolves: bool = True, keeps_all: bool = False) -> None:
        self.rules = rules
        self.evolves = evolves
        self._swap_holds = None if keeps_all else SWAP_AT_HAND
        self.round = 0
        self.items: dict[str, MemoryItem] = {}
        self.swap: dict[str, MemoryItem] = {}
        self.forgotten: set[str] = set()
        self.capabilities: list[Any] = []
        self.active_task = ""
        self._due: list[tuple[float, str]] = []
        self._facts = Facts()
        self._swapped_by_word: dict[str, set[str]] = {}
        self._unread: list[str] = []
        """What went to swap since somebody asked for it by its words."""
        self.crossings: list[tuple[MemoryItem | None, MemoryItem]] = []
        """What went to swap, came back, or says something else there, since somebody emptied this list.

        Each as it was in swap, if it was there, and as it is.
        """

    def govern(self, rules: MemoryRules, *, evolves: bool) -> None:
        """Go by other rules from now on."""
        if (rules, evolves) != (self.rules, self.evolves):
            self.rules, self.evolves = rules, evolves
            self._renew_due()

    def advance(self, round: int) -> tuple[TierMove, ...]:
        """Let the rounds up to `round` go by; what moved because of it."""
        self.round = max(self.round, round)
        moves: list[TierMove] = []
        while self.evolves and self._due and self._due[0][0] <= self.round:
            at, id = heapq.heappop(self._due)
            item = self.items.get(id)
            if item is None or due(item, self.rules) != at:
                continue
            aged, fell = advanced(item, self.round, self.rules)
            moves += fell
            self._put(aged)
        return tuple(moves)

    def apply(self, operations: Iterable[Operation], round: int) -> tuple[TierMove, ...]:
        """What `operations` of a round do; and what had to make room."""
        moves = self.advance(round)
        for operation in operations:
            self._apply(operation)
        return (*moves, *self._make_room())

    def named(self, id: str) -> MemoryItem | None:
        """The item of that id, at hand or not."""
        return self.items.get(id) or self.swap.get(id)

    def like(self, content: str) -> MemoryItem | None:
        """The item that says the same, if there is one: at hand, or else in swap."""
        same = self._facts.same(content)
        exact = _all_of(same, self.items) or _all_of(same, self.swap)
        if exact:
            return exact[-1]
        near = (({*self._facts.near(content, place)}, place) for place in (self.items, self.swap))
        return next((found[0] for ids, place in near if (found := _all_of(ids, place))), None)

    def spoken_of(self, text: str) -> list[MemoryItem]:
        """What is in swap and restated by `text`, unless something else took its place."""
        for id in self._unread:
            for word in subjects(self.swap[id].content) if id in self.swap else ():
                self._swapped_by_word.setdefault(word, set()).add(id)
        self._unread.clear()
        said = subjects(text)
        near = {id for word in said for id in self._swapped_by_word.get(word, ()) if id in self.swap}
        found = [self.swap[id] for id in sorted(near) if mentions(said, self.swap[id].content)]
        return [item for item in found if not item.successor]

    def at(self, then: int) -> tuple[dict[str, Any], tuple[TierMove, ...]]:
        """The state as the model gets to see it in a round to come, and what will have moved; nothing changes here.

        What matters most comes first in its tier.
        """
        moves: list[TierMove] = []
        held: list[MemoryItem] = []
        due_by_then = self._due_by(then)
        for item in self.items.values():
            if item.id in due_by_then:
                item, fell = advanced(item, then, self.rules)
                moves += fell
            held.append(item)
        if self.evolves:
            held.sort(key=lambda item: self.weakness(item, then))
        tiers: dict[str, list[dict[str, Any]]] = {tier: [] for tier in TIERS}
        for item in held:
            if item.tier != "swap":
                tiers[item.tier].append(item.shown(self.faded(item, then)))
        return {"memory": tiers, "capabilities": self.capabilities, "active_task": self.active_task}, tuple(moves)

    def _due_by(self, round: int) -> set[str]:
        """The ids in the heap up to `round`: below an entry stand only later ones."""
        found, places = set[str](), [0]
        while places:
            place = places.pop()
            if place < len(self._due) and self._due[place][0] <= round:
                found.add(self._due[place][1])
                places += (2 * place + 1, 2 * place + 2)
        return found

    def shown(self) -> dict[str, Any]:
        """The state as it is."""
        return self.at(self.round)[0]

    def faded(self, item: MemoryItem, at: int) -> float:
        """How far it has faded, as it is shown; what the model wrote, if nothing is to fade."""
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
        """Become what `as_json` gave."""
        self.rules, self.evolves = rules_from_json(data["rules"])
        self.round = data["round"]
        for item in map(MemoryItem.from_json, (*data["items"], *data["swap"])):
            self._put(item)
        self.crossings.clear()
        self.forgotten = set(data["forgotten"])
        self.capabilities, self.active_task = list(data["capabilities"]), str(data["active_task"])

    def _apply(self, operation: Operation) -> None:
        if operation.kind == "forget":
            self._remove(operation.id)
            self.forgotten.add(operation.id)
        elif operation.kind == "drop":
            item = self.items.get(operation.id)
            if item is not None:
                self._put(replace(swapped(item, self.round, self.rules), successor=operation.successor))
        elif operation.item is not None:
            self._put(MemoryItem.from_json(operation.item))

    def _put(self, item: MemoryItem) -> None:
        """Hold `item` in the place of what it was before."""
        known = self.named(item.id)
        if known is None or known.content != item.content:
            self._facts.put(item.id, item.content)
        here, there = (self.swap, self.items) if item.tier == "swap" else (self.items, self.swap)
        there.pop(item.id, None)
        here[item.id] = item
        was = known if known is not None and known.tier == "swap" else None
        if (was is None) == (item.tier == "swap") or (was is not None and was.content != item.content):
            self.crossings.append((was, item))
        if item.tier == "swap":
            self._unread.append(item.id)
            self._let_sink()
        elif self.evolves and (at := due(item, self.rules)) is not None:
            heapq.heappush(self._due, (at, item.id))
            if len(self._due) > 2 * len(self.items) + _FEW:
                self._renew_due()

    def _let_sink(self) -> None:
        """Let go of what lies deeper in swap than is kept at hand."""
        while self._swap_holds is not None and len(self.swap) > self._swap_holds:
            self._remove(next(iter(self.swap)))

    def _renew_due(self) -> None:
        """Leave out of the heap what is no longer so."""
        if not self.evolves:
            self._due = []
            return
        points = ((due(item, self.rules), id) for id, item in self.items.items())
        self._due = [(at, id) for at, id in points if at is not None]
        heapq.heapify(self._due)

    def _remove(self, id: str) -> None:
        self._facts.remove(id)
        self.items.pop(id, None)
        self.swap.pop(id, None)

    def _make_room(self) -> tuple[TierMove, ...]:
        """Send to swap what matters least in a tier that holds more than it may."""
        if not self.evolves:
            return ()
        moves: list[TierMove] = []
        sizes = Counter(item.tier for item in self.items.values())
        for tier in TIERS:
            surplus = sizes[tier] - int(getattr(self.rules.capacity, tier))
            for item in self._weakest(tier, surplus) if surplus > 0 else ():
                self._put(swapped(item, self.round, self.rules))
                moves.append(TierMove(item.id, tier, "swap", self.round, "no room"))
        return tuple(moves)

    def _weakest(self, tier: Tier, count: int) -> list[MemoryItem]:
        """So many items of a tier, the weakest last; what is pinned stays."""
        held = (item for item in self.items.values() if item.tier == tier and not item.pinned)
        return heapq.nlargest(count, held, key=lambda item: self.weakness(item, self.round))[::-1]

    def weakness(self, item: MemoryItem, round: int) -> tuple[bool, float, float, str]:
        """What matters less has more of it: by decay, in core by the decay first stated, and by its standing.

        Of equals the newer one is weaker in core, where age is no fault, and the older one elsewhere, where work comes
        before all else.
        """
        worth = standing(item.type, item.content, item.touches)
        if item.tier == "core" and self.rules.half_lives.core == inf:
            return False, item.importance - worth, item.first, item.id
        return not is_work(item.type), decay_at(item, round, self.rules) - worth, -item.anchor, item.id


def rules_as_json(rules: MemoryRules, *, evolves: bool) -> dict[str, Any]:
    """Rules as the log keeps them; JSON has no infinity, so that is null."""
    numbers = {name: _finite(value) if isinstance(value, dict) else value for name, value in asdict(rules).items()}
    return {"evolution": "decay" if evolves else "off", **numbers}


def rules_from_json(data: Mapping[str, Any]) -> tuple[MemoryRules, bool]:
    """The rules that `rules_as_json` gave, and whether memory evolves.

    A log that does not say how long items stay is of a time when decay alone decided that.
    """
    numbers = {**_UNBOUNDED, **{name: value for name, value in data.items() if name != "evolution"}}
    tiers = {name: PerTier(**_endless(value)) for name, value in numbers.items() if isinstance(value, dict)}
    return MemoryRules(**{**numbers, **tiers}), data["evolution"] == "decay"


_UNBOUNDED = {"least_stay": dict.fromkeys(TIERS, 0), "most_stay": dict.fromkeys(TIERS, None)}


def _finite(tiers: Mapping[str, float]) -> dict[str, float | None]:
    return {tier: None if number == inf else number for tier, number in tiers.items()}


def _endless(tiers: Mapping[str, float | None]) -> dict[str, float]:
    return {tier: inf if number is None else number for tier, number in tiers.items()}


def _all_of(ids: Set[str], place: Mapping[str, MemoryItem]) -> list[MemoryItem]:
    """The items of these ids that lie in `place`, in its order."""
    found = [place[id] for id in ids if id in place]
    return found if len(found) < 2 else [item for id, item in place.items() if id in ids]


WRITE_ONCE = "write_once"

_REWRITTEN = "memory is write_once:"


def merged(before: Sequence[Any], returned: Sequence[Any]) -> tuple[list[Any], str]:
    """What the model returned, with every `write_once` entry as it was first written; and which it tried to change."""
    fixed = {str(each.get("name")): each for each in before if is_fixed(each)}
    kept = [fixed.get(name_of(each), each) for each in returned]
    missing = [each for name, each in fixed.items() if name not in map(name_of, returned)]
    changed = [name_of(each) for each in returned if fixed.get(name_of(each), each) != each]
    violation = f"capability {changed[0][:40]!r} is write_once and was changed: it stays" if changed else ""
    return [*missing, *kept], violation


def writes_once(capabilities: Sequence[Any]) -> bool:
    """Whether the content of a memory item may be written once only: `{"name": "memory", "scope": "write_once"}`."""
    return any(is_fixed(each) and name_of(each) == "memory" for each in capabilities)


def reason_for_new(id: str, new: str) -> str:
    return f"{_REWRITTEN} {id!r} keeps its content, {new!r} has the new one"


def rewritten_in(operations: Sequence[Operation]) -> tuple[str, ...]:
    """What violates that memory is write_once."""
    return tuple(each.reason for each in operations if each.reason.startswith(_REWRITTEN))


def is_fixed(entry: Any) -> bool:
    return isinstance(entry, dict) and entry.get("scope") == WRITE_ONCE


def name_of(entry: Any) -> str:
    return str(entry.get("name")) if isinstance(entry, dict) else str(entry)
