"""The items of a tier as the model sees them, in the order of their importance."""

from collections.abc import Mapping
from heapq import nlargest
from math import inf
from typing import Any, NamedTuple

from ctxwrap.memory.decay import Fading, decay_at, fading_of
from ctxwrap.memory.items import MemoryItem, Tier, capacity_bonus, is_work
from ctxwrap.settings import MemoryRules

_Weakness = tuple[bool, float, float, str]
"""A sort key, higher for weaker items. It ends with the item's id, so no two items are equally weak."""


class TierView:
    """Holds the items of one tier; what does not depend on the round is worked out once per item."""

    def __init__(self, tier: Tier, rules: MemoryRules) -> None:
        self._tier, self._rules = tier, rules
        self._items: dict[str, MemoryItem] = {}
        self._views: dict[str, _View] = {}
        """Of the items that were looked at since they changed."""
        self._is_ageless = tier == "core" and rules.half_lives.core == inf
        self._shown: list[dict[str, Any]] | None = None
        """What the model sees of an ageless tier, the same in every round, until an item changes."""

    def __len__(self) -> int:
        return len(self._items)

    def put(self, item: MemoryItem) -> None:
        self._items[item.id] = item
        self._views.pop(item.id, None)
        self._shown = None

    def remove(self, id: str) -> None:
        if self._items.pop(id, None) is not None:
            self._views.pop(id, None)
            self._shown = None

    def at(self, then: int, moved: Mapping[str, MemoryItem]) -> list[dict[str, Any]]:
        """Return what the model sees in a round, most important first; `moved` have changed tiers by then."""
        moved = (
            {id: item for id, item in moved.items() if id in self._items or item.tier == self._tier} if moved else {}
        )
        if not moved and (self._shown is not None or not self._items):
            return [*self._shown] if self._shown else []
        if not moved and len(self._items) == 1:  # without an order to find
            (item,) = self._items.values()
            shown = [item.shown(round(decay_at(item, then, self._rules), 3))]
        else:
            shown = self._in_order(then, moved)
        if self._is_ageless and not moved:
            self._shown = [*shown]
        return shown

    def _in_order(self, then: int, moved: Mapping[str, MemoryItem]) -> list[dict[str, Any]]:
        views = self._viewed()
        if moved:
            views = [view for view in views if view.item.id not in moved]
            views += [self._view(item) for item in moved.values() if item.tier == self._tier]
        decayed: list[tuple[_Weakness, float, dict[str, Any]]] = []
        for view in views:
            decay = view.fading.at(then)
            decayed.append((view.weakness(decay), decay, view.fields))
        decayed.sort()
        return [{**fields, "decay": round(decay, 3)} for _, decay, fields in decayed]

    def weakest(self, count: int, then: int) -> list[MemoryItem]:
        """Return `count` items that are not pinned, weakest last."""
        views = [view for view in self._viewed() if not view.item.pinned]
        return [view.item for view in nlargest(count, views, key=lambda each: each.weakness(each.fading.at(then)))][
            ::-1
        ]

    def _viewed(self) -> "list[_View]":
        if len(self._views) < len(self._items):
            for id in self._items.keys() - self._views.keys():
                self._views[id] = self._view(self._items[id])
        return [*self._views.values()]

    def _view(self, item: MemoryItem) -> "_View":
        worth = capacity_bonus(item.type, item.content, item.touches)
        fields = item.shown(round(item.decay, 3))
        return _View(item, fading_of(item, self._rules), worth, is_work(item.type), self._is_ageless, fields)


class _View(NamedTuple):
    item: MemoryItem
    fading: Fading
    worth: float
    is_work: bool
    is_ageless: bool
    fields: dict[str, Any]
    """What the model sees; only the decay depends on the round."""

    def weakness(self, decay: float) -> _Weakness:
        """Decay (in an ageless tier: the first stated decay) minus the bonus of type and use.

        Ties: in an ageless tier the newer item is weaker, elsewhere the older one. In the others, tasks and decisions
        are stronger.
        """
        item = self.item
        if self.is_ageless:
            return False, item.importance - self.worth, item.first, item.id
        return not self.is_work, decay - self.worth, -item.anchor, item.id
