"""The memory items of a pack: which fit, and whether the epoch block or the state shows them."""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence, Set
from functools import lru_cache
from itertools import product
from operator import itemgetter
from types import MappingProxyType
from typing import Any, NamedTuple

from ctxwrap.kinds import KINDS
from ctxwrap.memory.epoch import EpochDelta, Tiers, brief_item, diff_epoch, freeze_memory, known_epoch, should_end_epoch
from ctxwrap.memory.items import KINDS as ITEM_KINDS
from ctxwrap.memory.items import TIERS, ItemKind, MemoryItem, is_foreign, kind_of, least_trusted_foreign
from ctxwrap.memory.owned import owner_of
from ctxwrap.memory.similarity import subjects
from ctxwrap.pack.receipt import ASKED, NO_ROOM, REMEMBERED
from ctxwrap.protocol.instructions import encode_escaped
from ctxwrap.redaction.visibility import MODEL_ONLY
from ctxwrap.types import PackItem

_ID, _TYPE = itemgetter("id"), itemgetter("type")

ItemSizes = Callable[[Sequence[dict[str, Any]]], list[int]]


class Sizes(NamedTuple):
    """The tokens of each item, which do not depend on its decay."""

    whole: ItemSizes
    """As objects in the state."""
    brief: ItemSizes
    """In the epoch block, with their ids in the list of unchanged items."""


_PASSING = 12
"""The tokens of decay and round, which change too often to be counted."""

_FROZEN = 0.9
"""The part of its share that memory takes at most; the rest is for changes during an epoch."""

_LASTING = 0.8
"""If not all items fit, the part for the most important ones; the rest is for items about the newest message."""

_PACK_KINDS: dict[ItemKind, str] = {"fact": "facts", "decision": "decisions", "todo": "todo", "ref": "refs"}
_OWNED_KINDS = {"user": "user_items", "team": "team_items"}
_GROUPS = {
    group: place
    for place, group in enumerate(
        product((*_OWNED_KINDS.values(), *(_PACK_KINDS[kind] for kind in ITEM_KINDS)), (REMEMBERED, ASKED, NO_ROOM))
    )
}
"""The groups of memory items in a pack, each with its place."""


class MemoryBlock(NamedTuple):
    memory: EpochDelta
    """What is shown, and what of it is not in the epoch."""
    epoch: Tiers
    is_new: bool
    """Whether the epoch begins with this call."""
    tokens: int
    items: tuple[PackItem, ...]


@lru_cache(maxsize=32)
def sizes(count: Callable[[str], int]) -> Sizes:
    """The sizes of items as they are sent."""

    @lru_cache(maxsize=4096)
    def size(id: str, content: str) -> int:
        """The tokens of an item in the epoch block and of its id, with a decay of the greatest length."""
        return count(encode_escaped([brief_item({"id": id, "decay": 0.555, "content": content}), id]))

    def whole(items: Sequence[dict[str, Any]]) -> list[int]:
        return [count(_lasting(item)) + _PASSING for item in items]

    def brief(items: Sequence[dict[str, Any]]) -> list[int]:
        return [size(str(item["id"]), str(item["content"])) for item in items]

    return Sizes(whole, brief)


def _lasting(item: dict[str, Any]) -> str:
    lasting = dict(item)
    lasting.pop("decay", None)
    lasting.pop("round", None)
    return encode_escaped(lasting)


class OwnedItems(NamedTuple):
    """The items of a user and a team, and which of them are shown."""

    ids: frozenset[str] = frozenset()
    lasting: frozenset[str] = frozenset()
    asked: frozenset[str] = frozenset()
    """Those that are shown because the newest message is about them."""
    tokens: int = 0
    """The room that they have beside the session's own."""

    def add(self, items: list[dict[str, Any]], limit: int, sizes: Sizes, question: str) -> "OwnedItems":
        """These items too, as far as they fit into `limit`."""
        lasting, asked = items_that_fit({"core": items, "working": [], "ephemeral": []}, limit, sizes, question)
        return OwnedItems(
            self.ids | {item["id"] for item in items}, self.lasting | lasting, self.asked | asked, self.tokens + limit
        )


NO_OWNED_ITEMS = OwnedItems()


def memory_block(
    memory: Tiers,
    epoch: Tiers | None,
    limit: int,
    sizes: Sizes,
    *,
    may_begin: bool,
    is_history_cut: Callable[[], bool] = lambda: False,
    question: str = "",
    foreign: Mapping[str, str] = MappingProxyType({}),
    owned: OwnedItems = NO_OWNED_ITEMS,
) -> MemoryBlock:
    """The items that fit into `limit`, given the epoch of the last call; `may_begin` allows a new epoch.

    Without `may_begin`, an epoch that no longer fits is left out of this call and the state shows everything.
    `is_history_cut` tells whether the prompt cache is lost anyway. If not all items fit, a part of the limit is for
    items about `question`. `foreign` has the origins of items, by id, that contain foreign text. `owned` are those of
    a user or a team, which have a share of their own.
    """
    everything = own = _all_in(memory)
    tokens = own_tokens = sizes.brief(everything)
    if owned.ids:
        own = [item for item in everything if item["id"] not in owned.ids]
        own_tokens = sizes.brief(own)
    if not may_begin:
        own_tokens = sizes.whole(own)
    lasting, asked = _that_fit(own, own_tokens, int(limit * _FROZEN), sizes.whole, question)
    lasting, asked, limit = lasting | owned.lasting, asked | owned.asked, limit + owned.tokens
    items, old = _pack_items(everything, tokens, lasting, asked, foreign), epoch or _NOTHING
    fitting = lasting | asked if asked else lasting
    since_epoch = diff_epoch(old, memory, fitting)
    changes = _all_in(since_epoch.changes)
    before, changed = _epoch_tokens(old, sizes), sum(sizes.whole(changes))
    news = changed - sum(sizes.whole([item for item in changes if item["id"] in asked])) if asked else changed
    if before + changed <= limit and not should_end_epoch(before, news, is_history_cut):
        return MemoryBlock(since_epoch, old, False, before + changed, items)
    new = _NOTHING
    if may_begin:
        new = freeze_memory({tier: [item for item in memory[tier] if item["id"] in lasting] for tier in TIERS})
    since_epoch = diff_epoch(new, memory, fitting)
    taken = _epoch_tokens(new, sizes) + sum(sizes.whole(_all_in(since_epoch.changes)))
    return MemoryBlock(since_epoch, new, may_begin, taken, items)


def _epoch_tokens(epoch: Tiers, sizes: Sizes) -> int:
    counted = known_epoch(epoch).tokens
    if sizes.brief not in counted:
        counted[sizes.brief] = sum(sizes.brief(_all_in(epoch)))
    return counted[sizes.brief]


def items_that_fit(memory: Tiers, limit: int, sizes: Sizes, question: str = "") -> tuple[set[str], set[str]]:
    """The ids of the items that fit by importance, and of those that fit by relevance to the question.

    Importance is the order of the tiers, and inside a tier that of the memory.
    """
    everything = _all_in(memory)
    return _that_fit(everything, sizes.brief(everything), limit, sizes.whole, question)


def _that_fit(
    items: list[dict[str, Any]], tokens: list[int], limit: int, whole: ItemSizes, question: str
) -> tuple[set[str], set[str]]:
    if sum(tokens) <= limit:
        return set(map(_ID, items)), set()
    lasting, spent = _fitting(items, tokens, int(limit * _LASTING) if question else limit)
    about = _about(question, items, lasting)
    return lasting, _fitting(about, whole(about), limit - spent)[0] if about else set()


def _fitting(items: list[dict[str, Any]], sizes: list[int], limit: int) -> tuple[set[str], int]:
    """The ids of the items that fit one after the other, and their tokens."""
    ids: set[str] = set()
    spent = 0
    for item, tokens in zip(items, sizes, strict=True):
        if spent + tokens <= limit:
            ids.add(item["id"])
            spent += tokens
    return ids, spent


def _about(question: str, items: list[dict[str, Any]], lasting: Set[str]) -> list[dict[str, Any]]:
    """The items that share words with a question and are not `lasting`, best first; rare words count more."""
    asked = subjects(question)
    shared: dict[str, Set[str]] = {}
    for item in items if asked else ():
        if item["id"] not in lasting and (terms := subjects(item["content"]) & asked):
            shared[item["id"]] = terms
    if not shared:
        return []
    often = Counter(term for terms in shared.values() for term in terms)
    worth = {id: sum(1 / often[term] for term in terms) for id, terms in shared.items()}
    return sorted((item for item in items if item["id"] in worth), key=lambda item: -worth[item["id"]])


def _pack_items(
    items: list[dict[str, Any]], sizes: list[int], lasting: set[str], asked: set[str], foreign: Mapping[str, str]
) -> tuple[PackItem, ...]:
    """All memory items, grouped by kind and by why they are in the pack or not."""
    ids = tuple(map(_ID, items))
    if lasting.issuperset(ids):
        reasons: tuple[str, ...] = (REMEMBERED,) * len(ids)
    else:
        reasons = tuple([REMEMBERED if id in lasting else ASKED if id in asked else NO_ROOM for id in ids])
    groups = []
    for kind, reason, members, places in _grouped(ids, tuple(map(_TYPE, items)), reasons):
        groups.append(_group(kind, reason, members, sum(map(sizes.__getitem__, places)), foreign))
    return tuple(groups)


@lru_cache(maxsize=64)
def _grouped(
    ids: tuple[str, ...], types: tuple[str, ...], reasons: tuple[str, ...]
) -> tuple[tuple[str, str, tuple[str, ...], tuple[int, ...]], ...]:
    """The groups in their order: kind, reason, ids and places; most calls have the same as the last one."""
    groups: defaultdict[tuple[str, str], dict[str, int]] = defaultdict(dict)
    for place, (id, type, reason) in enumerate(zip(ids, types, reasons, strict=True)):
        kind = _OWNED_KINDS.get(owner_of(id)) or _PACK_KINDS[kind_of(type)]
        groups[kind, reason][id] = place
    ordered = sorted(groups.items(), key=lambda each: _GROUPS[each[0]])
    return tuple([(*group, tuple(places), tuple(places.values())) for group, places in ordered])


def _group(kind: str, reason: str, ids: tuple[str, ...], tokens: int, foreign: Mapping[str, str]) -> PackItem:
    """Memory items as one pack item."""
    row = KINDS[kind]
    origin = least_trusted_foreign([foreign[id] for id in ids if id in foreign]) if foreign else None
    return PackItem(
        row.name, row.source, tokens, reason != NO_ROOM, reason, 0.8, 0, origin or "assistant", MODEL_ONLY, ids
    )


def recalled_item(item: MemoryItem, tokens: int, *, fits: bool) -> PackItem:
    """An item that came back from swap because of a message that was found."""
    foreign = {item.id: item.origin} if is_foreign(item.origin) else {}
    return _group(_PACK_KINDS[kind_of(item.type)], ASKED if fits else NO_ROOM, (item.id,), tokens, foreign)


def _all_in(memory: Tiers) -> list[dict[str, Any]]:
    return [*memory["core"], *memory["working"], *memory["ephemeral"]]


_NOTHING: Tiers = {"core": [], "working": [], "ephemeral": []}
