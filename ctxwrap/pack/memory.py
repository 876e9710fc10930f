"""Remembering: which items of memory a call gets to see, and where: in the epoch's place, or among what changes."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Any, NamedTuple

from ctxwrap.memory.epoch import Since, Tiers, brief, frozen, is_over, since
from ctxwrap.memory.items import KINDS, TIERS, ItemKind, foreign_in, kind_of
from ctxwrap.memory.similarity import subjects
from ctxwrap.protocol.instructions import escaped
from ctxwrap.types import PackItem

ItemSize = Callable[[dict[str, Any]], int]


class Sizes(NamedTuple):
    """How many tokens an item takes, however far it has faded."""

    whole: ItemSize
    """As an object in the state."""
    brief: ItemSize
    """In the epoch's place, and its id among those that are unchanged."""


_PASSING = 12
"""What an item's decay and round take, which change all the time and are not counted anew."""

_FROZEN = 0.9
"""So much of its room memory takes at most; the rest is for what changes while an epoch lasts."""

_LASTING = 0.8
"""So much of that goes by what matters most, if not all fits; the rest by what the newest message is about."""

_SOURCES: dict[ItemKind, tuple[str, str]] = {
    "fact": ("facts", "context/facts.jsonl"),
    "decision": ("decisions", "context/decisions.jsonl"),
    "todo": ("todo", "context/todo.md"),
    "ref": ("refs", "context/refs.jsonl"),
}


@dataclass(frozen=True, slots=True)
class MemoryBlock:
    told: Since
    """What is shown, and what of it the epoch does not tell."""
    epoch: Tiers
    is_new: bool
    """Whether the epoch begins with this call."""
    tokens: int
    items: tuple[PackItem, ...]


def sizes(count: Callable[[str], int]) -> Sizes:
    """The sizes of items as they are sent; those of one call are each found once."""
    known: dict[tuple[str, str, bool], int] = {}

    def size(item: dict[str, Any], is_brief: bool) -> int:
        key = str(item["id"]), str(item["content"]), is_brief
        if key not in known:
            known[key] = count(_brief(*key[:2]) if is_brief else _lasting(item))
        return known[key] + (0 if is_brief else _PASSING)

    return Sizes(lambda item: size(item, False), lambda item: size(item, True))


@lru_cache(maxsize=4096)
def _brief(id: str, content: str) -> str:
    """An item in its epoch's place and its id, with a decay as long as any."""
    return escaped([brief({"id": id, "decay": 0.555, "content": content}), id])


def _lasting(item: dict[str, Any]) -> str:
    return escaped({name: value for name, value in item.items() if name not in ("decay", "round")})


def remembered(
    memory: Tiers,
    epoch: Tiers | None,
    room: int,
    sizes: Sizes,
    *,
    may_begin: bool,
    at_hand: bool = False,
    question: str = "",
    foreign: Mapping[str, str] = MappingProxyType({}),
) -> MemoryBlock:
    """Memory as far as it has room, beside the epoch of the last call; `may_begin` allows a new one.

    Without it, an epoch that no longer fits is left out of this call, and everything is told as a change. `at_hand`
    says that the conversation begins with another message anyway. Where not all fits, some of the room is for what the
    `question` is about. `foreign` has the origins of items, by id, that nobody in the conversation wrote.
    """
    lasting, asked = chosen(memory, int(room * _FROZEN), sizes if may_begin else Sizes(*[sizes.whole] * 2), question)
    shown: Tiers = {tier: [item for item in memory[tier] if item["id"] in lasting | asked] for tier in TIERS}
    items, old = _noted(memory, lasting, asked, sizes, foreign), epoch or _nothing()
    told = since(old, shown)
    before, changed = _tokens(old, sizes.brief), _tokens(told.changes, sizes.whole)
    news = changed - _tokens(told.changes, sizes.whole, asked)
    if before + changed <= room and not is_over(before, news, at_hand=at_hand):
        return MemoryBlock(told, old, False, before + changed, items)
    kept: Tiers = {tier: [item for item in shown[tier] if item["id"] in lasting] for tier in TIERS}
    new = frozen(kept) if may_begin else _nothing()
    told = since(new, shown)
    tokens = _tokens(new, sizes.brief) + _tokens(told.changes, sizes.whole)
    return MemoryBlock(told, new, may_begin, tokens, items)


def chosen(memory: Tiers, room: int, sizes: Sizes, question: str = "") -> tuple[set[str], set[str]]:
    """The ids of the items that fit: by what matters most, and by what is asked for.

    The longest-lived come first, in the order that memory gives them.
    """
    everything = [item for tier in TIERS for item in memory[tier]]
    if sum(map(sizes.brief, everything)) <= room:
        return {item["id"] for item in everything}, set()
    lasting, spent = _fitting(everything, int(room * _LASTING) if question else room, sizes.brief)
    others = [item for item in everything if item["id"] not in lasting]
    asked, _ = _fitting(_about(question, others), room - spent, sizes.whole)
    return lasting, asked


def _fitting(items: Iterable[dict[str, Any]], room: int, size: ItemSize) -> tuple[set[str], int]:
    """The ids of the items that fit one after the other, and what they take."""
    ids, spent = set[str](), 0
    for item in items:
        tokens = size(item)
        if spent + tokens <= room:
            ids.add(item["id"])
            spent += tokens
    return ids, spent


def _about(question: str, items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The items that have something to do with a question, the best first: rare words tell more than common ones."""
    asked = subjects(question)
    shared = {item["id"]: subjects(item["content"]) & asked for item in items} if asked else {}
    often = Counter(term for terms in shared.values() for term in terms)
    worth = {id: sum(1 / often[term] for term in terms) for id, terms in shared.items() if terms}
    return sorted((item for item in items if item["id"] in worth), key=lambda item: -worth[item["id"]])


def _noted(
    memory: Tiers, lasting: Set[str], asked: Set[str], sizes: Sizes, foreign: Mapping[str, str]
) -> tuple[PackItem, ...]:
    """All items of memory by kind: what is in and what is not, and why."""
    groups: dict[tuple[ItemKind, str], list[tuple[str, int]]] = {}
    for item in (item for tier in TIERS for item in memory[tier]):
        reason = _REMEMBERED if item["id"] in lasting else _ASKED if item["id"] in asked else _NO_ROOM
        groups.setdefault((kind_of(str(item["type"])), reason), []).append((item["id"], sizes.brief(item)))
    order = [(kind, reason) for kind in KINDS for reason in (_REMEMBERED, _ASKED, _NO_ROOM)]
    return tuple(_group(*each, groups[each], foreign) for each in order if each in groups)


_REMEMBERED, _ASKED = "remembered", "remembered, and asked about"
_NO_ROOM = "over budget: memory has more than its share holds"


def _group(kind: ItemKind, reason: str, group: list[tuple[str, int]], foreign: Mapping[str, str]) -> PackItem:
    name, source = _SOURCES[kind]
    ids, sizes = tuple(id for id, _ in group), [tokens for _, tokens in group]
    included = reason != _NO_ROOM
    origin = foreign_in(foreign.get(id, "") for id in ids) or "assistant"
    return PackItem(name, source, sum(sizes), included, reason, priority=0.8, origin=origin, refs=ids)


def _tokens(memory: Tiers, size: ItemSize, among: Set[str] | None = None) -> int:
    held = (item for tier in TIERS for item in memory[tier])
    return sum(size(item) for item in held if among is None or item["id"] in among)


def _nothing() -> Tiers:
    return {tier: [] for tier in TIERS}
