"""Remembering: which items of memory a call gets to see, and where: in the epoch's place, or among what changes."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ctxwrap.memory.epoch import Since, Tiers, frozen, is_over, since
from ctxwrap.memory.items import TIERS
from ctxwrap.memory.kinds import KINDS, Kind, kind_of
from ctxwrap.protocol.text import escaped
from ctxwrap.types import PackItem

Size = Callable[[dict[str, Any]], int]
"""How many tokens an item takes, however far it has faded."""

_PASSING = 12
"""What an item's decay and round take, which change all the time and are not counted anew."""

_FROZEN = 0.8
"""So much of its room memory takes at most; the rest is for what changes while an epoch lasts."""

_SOURCES: dict[Kind, tuple[str, str]] = {
    "fact": ("facts", "context/facts.jsonl"),
    "decision": ("decisions", "context/decisions.jsonl"),
    "todo": ("todo", "context/todo.md"),
    "ref": ("refs", "context/refs.jsonl"),
}


@dataclass(frozen=True, slots=True)
class Remembered:
    told: Since
    """What is shown, and what of it the epoch does not tell."""
    epoch: Tiers
    is_new: bool
    """Whether the epoch begins with this call."""
    tokens: int
    items: tuple[PackItem, ...]


def sizes(count: Callable[[str], int]) -> Size:
    """The sizes of items as they are sent; those of one call are each found once."""
    known: dict[tuple[str, str], int] = {}

    def size(item: dict[str, Any]) -> int:
        key = str(item["id"]), str(item["content"])
        if key not in known:
            lasting = {name: value for name, value in item.items() if name not in ("decay", "round")}
            known[key] = count(escaped(lasting)) + _PASSING
        return known[key]

    return size


def remembered(
    memory: Tiers, epoch: Tiers | None, room: int, size: Size, *, may_begin: bool, at_hand: bool = False
) -> Remembered:
    """Memory as far as it has room, beside the epoch of the last call; `may_begin` allows a new one.

    Without it, an epoch that no longer fits is left out of this call, and everything is told as a change. `at_hand`
    says that the conversation begins with another message anyway.
    """
    ids, items = chosen(memory, int(room * _FROZEN), size)
    shown: Tiers = {tier: [item for item in memory[tier] if item["id"] in ids] for tier in TIERS}
    old = epoch or _nothing()
    told = since(old, shown)
    before, changed = _tokens(old, size), _tokens(told.changes, size)
    if not is_over(before, changed, at_hand=at_hand) and before + changed <= room:
        return Remembered(told, old, False, before + changed, tuple(items))
    new = frozen(shown) if may_begin else _nothing()
    return Remembered(since(new, shown), new, may_begin, _tokens(shown, size), tuple(items))


def chosen(memory: Tiers, room: int, size: Size) -> tuple[set[str], list[PackItem]]:
    """The ids of the items that fit, and all of them by kind: what is in and what is not.

    The longest-lived come first, then facts before decisions, work and references, then what has faded least.
    """
    ids: set[str] = set()
    groups: dict[tuple[Kind, bool], list[tuple[str, int]]] = {}
    for tier in TIERS:
        for item in sorted(memory[tier], key=_claim):
            tokens = size(item)
            fits = tokens <= room
            if fits:
                ids.add(item["id"])
                room -= tokens
            groups.setdefault((kind_of(str(item["type"])), fits), []).append((item["id"], tokens))
    order = [(kind, fits) for kind in KINDS for fits in (True, False)]
    return ids, [_group(kind, fits, groups[kind, fits]) for kind, fits in order if (kind, fits) in groups]


def _claim(item: dict[str, Any]) -> tuple[int, float, str]:
    return KINDS.index(kind_of(str(item["type"]))), item["decay"], str(item["id"])


def _group(kind: Kind, included: bool, group: list[tuple[str, int]]) -> PackItem:
    name, source = _SOURCES[kind]
    reason = "remembered" if included else "over budget: memory has more than its share holds"
    ids, sizes = tuple(id for id, _ in group), [tokens for _, tokens in group]
    return PackItem(name, source, sum(sizes), included, reason, priority=0.8, origin="assistant", refs=ids)


def _tokens(memory: Tiers, size: Size) -> int:
    return sum(size(item) for tier in TIERS for item in memory[tier])


def _nothing() -> Tiers:
    return {tier: [] for tier in TIERS}
