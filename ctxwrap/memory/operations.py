"""Derives a turn's operations from what the model was shown, what it returned and the memory now."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from functools import lru_cache
from typing import Any, NamedTuple

from ctxwrap.language.rules import LIFE
from ctxwrap.language.slots import MAX_READ, name_in, slot_of
from ctxwrap.language.statements import MAX_STATEMENTS, Statement, asserted_sentences, statements_in
from ctxwrap.memory.decay import apply_mention, decay_at, rehydrate, set_decay
from ctxwrap.memory.items import (
    LOCATIONS,
    TIERS,
    Location,
    MemoryItem,
    Origin,
    Tier,
    highest_tier,
    is_foreign,
    is_passing,
    least_trusted,
)
from ctxwrap.memory.memory import Memory, memory_is_write_once, write_once_reason
from ctxwrap.memory.similarity import Facts, mentions, same_fact, subjects
from ctxwrap.types import Operation

State = Mapping[str, Any]
"""`{"memory": {tier: [item, …]}, "capabilities": […], "active_task": "…"}`"""

_Placed = dict[str, tuple[Tier, dict[str, Any]]]
"""Items by id, each with its tier."""

_MAX_RECALLED = 5
"""Maximum items brought back from swap at once."""
_ITEM_FIELDS = ("id", "type", "decay", "round", "tags", "content")
_RELATED = 0.5
"""Share of an item that must come up in a turn before the model may promote it."""
_MAX_READ = 4000
"""Characters of a message searched for mentions: a pasted document would mention everything."""
_SLOT_LENGTH = MAX_READ + 1
"""What decides the slot of a content: a longer one has none."""
_name_in, _slot_of = lru_cache(maxsize=4096)(name_in), lru_cache(maxsize=4096)(slot_of)
"""Items stay for many turns."""
_MAX_OMITTED = 3
"""A reply that omits more than one in this many shown items did not mean to drop them."""


class Circumstances(NamedTuple):
    """What a turn knows about itself that decides its memory changes."""

    round: int
    origin: Origin = "user"
    source: str = ""
    """The messages it derives from, such as `messages:12-18`."""
    said: str = ""
    """The user's text."""
    answered: str = ""
    """The assistant's text."""
    foreign_core: bool = False
    """Whether tool, file and retrieved text may reach core."""
    brief: Set[str] = frozenset()
    """Ids shown in short form, without type and tags; the model cannot have changed those fields."""
    touched: Callable[[], Mapping[str, int]] = dict
    """Returns the round of each item's last touch when the turn began, if the model was shown an earlier one."""


def compare(
    shown: State, returned: State, now: Memory, turn: Circumstances, statements: tuple[Statement, ...] = ()
) -> tuple[Operation, ...]:
    """Compare what the model was shown with what it returned, and fit the changes to the memory now.

    Returned items are new or changed, ids in `dropped` are removed, all others stay. The model cannot drop what it was
    not shown; what another turn changed meanwhile stays unless this turn changed it too; one id never stands for two
    facts. Evidence of use counts regardless of what the model wrote. `statements` are the user's own, as in `observe`.
    """
    placed, written = _placed(shown), _placed(returned)
    dropped = returned.get("dropped")
    gone = {id for id in dropped if id in placed and written.get(id, placed[id]) == placed[id]} if dropped else set()
    comparison = _Comparison(now, turn)
    own = comparison.stated(_statement_items(statements, turn.round)) if statements else ()
    return (*own, *comparison.of(placed, written, gone))


def observe(now: Memory, turn: Circumstances, statements: tuple[Statement, ...] = ()) -> tuple[Operation, ...]:
    """Derive operations without the model: items in use, and the user's statements."""
    comparison = _Comparison(now, turn._replace(origin="rule"))
    return tuple(comparison.of({}, _statement_items(statements, turn.round), set()))


def user_statements(said: str, contents: Iterable[str]) -> tuple[Statement, ...]:
    """Return the user's statements and those of their other sentences that `contents` are about.

    All are the user's own words: a model that read foreign text can only point at one of them.
    """
    plain = statements_in(said)
    stated, wanted = [subjects(each.content) for each in plain], [subjects(content) for content in contents]
    sentences = (sentence.text for sentence in asserted_sentences(said) if not sentence.asks) if wanted else ()
    pointed = (
        LIFE.of(f"The user said: {sentence}")
        for sentence in sentences
        if any(mentions(each, sentence) for each in wanted) and not any(mentions(each, sentence) for each in stated)
    )
    return (*plain, *filter(None, pointed))[:MAX_STATEMENTS]


def recall(now: Memory, turn: Circumstances) -> tuple[Operation, ...]:
    """Bring back the swap items that the user mentions or asks for, before the model is called."""
    if not now.evolves or not now.swap:
        return ()
    return recall_items(now, turn, now.asked_in_swap(turn.said), "the user spoke of it again")


def recall_items(now: Memory, turn: Circumstances, found: Sequence[MemoryItem], reason: str) -> tuple[Operation, ...]:
    """Return the first of these swap items to the tiers they had."""
    if not found:
        return ()
    comparison = _Comparison(now, turn)
    return tuple(comparison.reinforced(item, reason) for item in found[:_MAX_RECALLED])


def drop_omitted(shown: State, snapshot: State) -> tuple[State, str]:
    """Turn what a full snapshot omits into `dropped`; return the snapshot, and a violation for what is kept anyway.

    Omitting core items, or many items, is more likely carelessness than a decision.
    """
    placed, kept = _placed(shown), {*_placed(snapshot), *snapshot.get("unchanged", ()), *snapshot.get("dropped", ())}
    absent = [id for id in placed if id not in kept]
    if len(absent) * _MAX_OMITTED > len(placed):
        return snapshot, f"{len(absent)} of {len(placed)} memory objects were left out: they stay"
    dropped = [id for id in absent if placed[id][0] != "core"]
    stay = len(absent) - len(dropped)
    violation = f"{stay} core memory objects were left out: they stay" if stay else ""
    return {**snapshot, "dropped": [*snapshot.get("dropped", ()), *dropped]}, violation


def touches_in(state: State) -> dict[str, int]:
    """The round of each item's last touch."""
    return {item["id"]: item["round"] for items in state["memory"].values() for item in items}


def complete_state(shown: State, changes: State) -> dict[str, Any]:
    """Apply `changes`, a snapshot of new and changed items only, to `shown`.

    An id that is both dropped and rewritten stays, with the new content.
    """
    before = _placed(shown)
    placed = {**before, **_placed(changes)}
    for id in changes.get("dropped", ()):
        if before.get(id) == placed.get(id):
            placed.pop(id, None)
    memory: dict[str, list[Any]] = {tier: [] for tier in TIERS}
    for tier, item in placed.values():
        memory[tier].append(item)
    return {**changes, "memory": memory}


def _placed(state: State) -> _Placed:
    return {item["id"]: (tier, item) for tier, items in state["memory"].items() for item in items}


def _statement_items(statements: Iterable[Statement], round: int) -> _Placed:
    named = {f"rule-{round}-{number}": each for number, each in enumerate(statements, 1)}
    return {id: (each.tier, _statement_item(id, each, round)) for id, each in named.items()}


def _statement_item(id: str, statement: Statement, round: int) -> dict[str, Any]:
    type, _, decay, content = statement
    return {"id": id, "type": type, "decay": decay, "round": round, "tags": [], "content": content}


class _Comparison:
    def __init__(self, now: Memory, turn: Circumstances) -> None:
        self._now = now
        self._turn = turn
        self._said, self._answered = subjects(turn.said[:_MAX_READ]), subjects(turn.answered[:_MAX_READ])
        self._ceiling = highest_tier(turn.origin, foreign_core=turn.foreign_core)
        self._writes_once = memory_is_write_once(now.capabilities)
        self._user: str | None = None
        """The user's name, looked up on first use."""
        self._touched: Mapping[str, int] | None = None
        """What `turn.touched` returned, on first use."""
        self._taken: set[str] = set()
        self._written: Facts | None = None
        """What this turn adds and changes, as far as it was compared with something."""
        self._unread: dict[str, str] = {}
        """The rest of it: contents by id."""
        self._done: set[str] = set()
        """Ids this turn has handled."""
        self._stated: list[Set[str]] = []
        """The subjects of the user's statements."""

    def of(self, shown: _Placed, returned: _Placed, gone: Set[str]) -> Iterator[Operation]:
        new: list[tuple[Tier, dict[str, Any]]] = []
        for id, (tier, given) in returned.items():
            if id in self._now.forgotten:
                continue
            if id not in shown:
                new.append((tier, given))
                continue
            was_tier, was = shown[id]
            if id in self._turn.brief:
                if tier == was_tier and given["decay"] == was["decay"] and given["content"] == was["content"]:
                    continue
                given = {**was, "decay": given["decay"], "content": given["content"]}
            if tier != was_tier or given != was:
                yield from self._changed(tier, given, was_tier, was)
        for tier, given in new:
            yield from self._added(tier, given)
        for id in shown if gone else ():
            if id in gone and id not in self._done:
                yield from self._dropped(id, shown[id][1])
        if self._now.evolves and (used := self._now.sharing_words(self._said | self._answered)):
            yield from self._find_uses(used)

    def stated(self, notes: _Placed) -> list[Operation]:
        """Apply the user's statements as rules; later duplicates are recognised."""
        turn, limit = self._turn, self._ceiling
        self._turn, self._ceiling = turn._replace(origin="rule"), "core"
        operations = [each for tier, given in notes.values() for each in self._added(tier, given)]
        self._turn, self._ceiling = turn, limit
        self._stated = [subjects(given["content"]) for _, given in notes.values()]
        return operations

    def reinforced(self, item: MemoryItem, reason: str) -> Operation:
        return self._put("reinforce", self._reinforce(item), reason)

    def _find_uses(self, used: Set[str]) -> Iterator[Operation]:
        """Reinforce, among the items with a word of the turn, what the user mentions and what the answer uses."""
        for item in [item for id, item in self._now.items.items() if id in used]:
            if item.id in self._done:
                continue
            if mentions(self._said, item.content):
                yield self.reinforced(item, "the user spoke of it")
            elif mentions(self._answered, item.content) and decay_at(item, self._turn.round, self._now.rules) > 0:
                yield self.reinforced(item, "the answer used it")

    def _added(self, tier: Tier, given: dict[str, Any]) -> Iterator[Operation]:
        origin, content = self._turn.origin, given["content"]
        twin = self._find_same(content, given["id"], origin)
        replaced = twin if twin and origin == "rule" and is_foreign(twin.origin) and not twin.pinned else None
        if twin is not None and replaced is None:
            yield from self._repeat(twin, self._new(tier, given))
            return
        if (self._taken or self._stated) and self._is_repeated(content):
            return
        item = self._new(tier, given, self._free_id(given["id"]))
        self._unread[item.id] = content
        self._done.add(item.id)
        yield self._put("add", item, "new" if item.id == given["id"] else f"{given['id']!r} means something else")
        if replaced is not None and replaced.tier != "swap":
            self._done.add(replaced.id)
            yield Operation("drop", replaced.id, replaced.tier, reason="the user says it", successor=item.id)
        if self._now.evolves and (slot := self._slot(content)):
            yield from self._drop_former_values(item, slot)

    def _is_repeated(self, content: str) -> bool:
        """Whether this turn has already written the same fact, or the user's statement of it."""
        written = self._written = self._written or Facts()
        while self._unread:
            written.put(*self._unread.popitem())
        if written.same(content) or written.near(content):
            return True
        about: Set[str] = subjects(content) if self._stated else frozenset()
        return bool(about) and any(about <= each for each in self._stated)

    def _find_same(self, content: str, id: str, origin: Origin) -> MemoryItem | None:
        """Return the existing item with the same fact, unless this turn changed it."""
        twin = self._now.find_same(content, id)
        if twin is None and origin != "rule" and not is_foreign(origin):
            twin = self._find_rule_item(content)
        return None if twin is not None and twin.id in self._taken else twin

    def _find_rule_item(self, content: str) -> MemoryItem | None:
        """Return the rule-derived item that the model now rephrases."""
        by_rules = self._now.from_rules() if self._now.evolves else []
        if not by_rules:
            return None
        wanted, slot = subjects(content), self._slot(content)
        for known in by_rules:
            if mentions(wanted, known.content) or (slot and self._slot(known.content) == slot):
                return known
        return None

    def _repeat(self, twin: MemoryItem, item: MemoryItem) -> Iterator[Operation]:
        """Handle a repeated fact: repetition alone is not evidence and does not bring back a faded item."""
        is_reworded = twin.origin == "rule" and item.origin != "rule" and not is_foreign(item.origin)
        if is_reworded and not self._writes_once:
            self._done.add(twin.id)
            self._taken.add(twin.id)
            self._unread[twin.id] = item.content
            reworded = item._replace(id=twin.id, first=twin.first, touches=twin.touches, pinned=twin.pinned)
            yield self._put("update", reworded, "the model says it in its own words")
        elif twin.tier == "swap" and twin.id not in self._done and self._may_return(twin, item):
            self._done.add(twin.id)
            back = rehydrate(twin, self._turn.round, self._now.rules) if self._now.evolves else twin
            back = self._reinforce(back._replace(tier=self._allowed(item.tier, self._least_trusted(twin))))
            yield self._put("reinforce", back, "said again")
            if self._now.evolves and (slot := self._slot(back.content)):
                yield from self._drop_former_values(back, slot)

    def _may_return(self, twin: MemoryItem, item: MemoryItem) -> bool:
        if not self._now.evolves:
            return True
        heard = self._said | self._answered
        if twin.successor:
            return bool(self._new_subjects(twin, self._now.named(twin.successor)) & self._said)
        faded = decay_at(twin, self._turn.round, self._now.rules) >= self._now.rules.thresholds.ephemeral
        return mentions(heard, twin.content) or item.tier != "ephemeral" or not faded

    def _new_subjects(self, item: MemoryItem, other: MemoryItem | None) -> Set[str]:
        """Return the subjects of an item that another one lacks."""
        return subjects(item.content) - (subjects(other.content) if other else frozenset())

    def _drop_former_values(self, item: MemoryItem, slot: str) -> Iterator[Operation]:
        """Drop older values of the single-valued attribute that the item sets."""
        for known in [*self._now.items.values()]:
            is_older = known.id != item.id and known.id not in self._done and self._slot(known.content) == slot
            if is_older and not known.pinned and (known.tier != "core" or self._ceiling == "core"):
                self._done.add(known.id)
                yield Operation("drop", known.id, known.tier, reason="superseded", successor=item.id)

    def _slot(self, content: str) -> str:
        if not _slot_of(content[:_SLOT_LENGTH]):  # the user's name decides only whose attribute it is
            return ""
        if self._user is None:
            names = (_name_in(item.content[:_SLOT_LENGTH]) for item in self._now.items.values())
            self._user = next(filter(None, names), "")
        return _slot_of(content[:_SLOT_LENGTH], self._user)

    def _changed(self, tier: Tier, given: dict[str, Any], was_tier: Tier, was: dict[str, Any]) -> Iterator[Operation]:
        known = self._now.named(given["id"])
        if known is None:
            return
        if known.tier == "core" and self._ceiling != "core":
            yield from self._copy_core_item(known, tier, given, was)
            return
        if self._writes_once and given["content"] != was["content"]:
            if not same_fact(given["content"], was["content"]):
                yield from self._replace_write_once(known, tier, given)
                return
            given = {**given, "content": was["content"]}
        if not self._now.evolves:
            self._taken.add(known.id)
            self._unread[known.id] = given["content"]
            origin = self._least_trusted(known)
            yield self._put("update", _verbatim(known, self._allowed(tier, origin), origin, given), "changed")
            return
        item = self._with_fields(known, given, was)
        if not same_fact(given["content"], was["content"]):
            yield from self._keep_former_value(known, given["content"])
            item = self._with_content(item, given)
        item = self._moved(item, tier, was_tier, known)
        if item != known:
            self._done.add(item.id)
            another = known.last > self._touched_before(known.id, was)
            yield self._put("update", item, "over another turn" if another else "changed")

    def _replace_write_once(self, known: MemoryItem, tier: Tier, given: dict[str, Any]) -> Iterator[Operation]:
        """Add a new item where content is write-once; move the old one to swap unless pinned."""
        for operation in self._added(tier, given):
            if operation.kind != "add":
                yield operation
                continue
            yield operation._replace(reason=write_once_reason(known.id, operation.id))
            if known.tier != "swap" and not known.pinned:
                self._done.add(known.id)
                yield Operation("drop", known.id, known.tier, reason="superseded", successor=operation.id)

    def _copy_core_item(
        self, known: MemoryItem, tier: Tier, given: dict[str, Any], was: dict[str, Any]
    ) -> Iterator[Operation]:
        """Add a copy of a core item that this turn may not change, if the content differs."""
        if not same_fact(given["content"], was["content"]):
            copy = self._new(tier, given, self._free_id(known.id))
            yield self._put("add", copy, f"{self._turn.origin} text may not change the core memory {known.id!r}")

    def _least_trusted(self, item: MemoryItem) -> Origin:
        """Return the origin of an item after a change by this turn."""
        return least_trusted(item.origin, self._turn.origin) if is_foreign(self._turn.origin) else item.origin

    def _with_fields(self, known: MemoryItem, given: dict[str, Any], was: dict[str, Any]) -> MemoryItem:
        """Apply changed type, tags, decay and further fields; the round belongs to the system."""
        item = known
        if given["decay"] != was["decay"]:
            item = set_decay(item, self._turn.round, given["decay"])
        extra = _extra(given)
        changed: dict[str, Any] = {}
        if given["type"] != was["type"]:
            changed["type"] = given["type"]
        if given["tags"] != was["tags"]:
            changed["tags"] = tuple(given["tags"])
        if extra != _extra(was):
            changed["extra"] = extra
        return item._replace(**changed, origin=self._least_trusted(item)) if changed else item

    def _with_content(self, known: MemoryItem, given: dict[str, Any]) -> MemoryItem:
        """Apply new content; it counts as use if this turn mentions it."""
        self._taken.add(known.id)
        self._unread[known.id] = given["content"]
        news = subjects(given["content"]) - subjects(known.content)
        item, since = known, known.since
        if news & (self._said | self._answered) or mentions(self._said, known.content):
            item = self._reinforce(known)
            since = max(item.since, self._turn.round)  # its stay in its tier starts again
        origin = least_trusted(item.origin, self._turn.origin) if item.origin != "rule" else self._turn.origin
        tier = self._allowed(item.tier, origin)
        source = self._turn.source
        return item._replace(content=given["content"], origin=origin, source=source, tier=tier, since=since)

    def _keep_former_value(self, known: MemoryItem, content: str) -> Iterator[Operation]:
        """Keep the former value of a single-valued attribute in swap."""
        slot = self._slot(known.content)
        if slot and self._slot(content) == slot:
            id = self._free_id(known.id)
            old = known._replace(id=id, tier="swap", successor=known.id, pinned=False, mentions=None)
            yield self._put("add", old, f"superseded by {known.id!r}")

    def _moved(self, item: MemoryItem, tier: Tier, was_tier: Tier, known: MemoryItem) -> MemoryItem:
        """Apply the tier the model chose: demote at once, promote only with evidence."""
        if tier == was_tier or item.tier == "swap" or item.pinned:
            return item
        heard = self._said | self._answered
        rises = LOCATIONS.index(tier) < LOCATIONS.index(item.tier)
        if rises and (is_passing(item.type) or not mentions(heard, known.content, _RELATED)):
            return item
        round, allowed = self._turn.round, self._allowed(tier, self._least_trusted(item))
        return item._replace(tier=allowed, since=max(item.since, round), last=round, faded_from="")

    def _dropped(self, id: str, was: dict[str, Any]) -> Iterator[Operation]:
        item = self._now.items.get(id)
        if item is None or item.pinned or (self._now.evolves and item.last > self._touched_before(id, was)):
            return
        if item.tier == "core" and self._ceiling != "core":
            return
        self._done.add(id)
        yield Operation("drop", id, item.tier, reason="dropped")

    def _touched_before(self, id: str, was: dict[str, Any]) -> int:
        """Return the round of the item's last touch as this turn knew it; a later touch is another turn's."""
        if self._touched is None:
            self._touched = self._turn.touched()
        return self._touched.get(id, int(was["round"]))

    def _new(self, tier: Location, given: dict[str, Any], id: str = "") -> MemoryItem:
        """Return a new item, with another `id` if there is one; those of short-lived types go to ephemeral."""
        turn = self._turn
        tier = "ephemeral" if self._now.evolves and is_passing(given["type"]) else tier
        return MemoryItem(
            id=id or given["id"],
            type=given["type"],
            content=given["content"],
            tags=tuple(given["tags"]),
            tier=tier if self._ceiling == "core" else self._allowed(tier, turn.origin),
            decay=given["decay"],
            anchor=turn.round,
            first=turn.round,
            last=turn.round if self._now.evolves else given["round"],
            since=turn.round,
            importance=given["decay"],
            origin=turn.origin,
            source=turn.source,
            extra=_extra(given),
        )

    def _reinforce(self, item: MemoryItem) -> MemoryItem:
        """Apply evidence of use, bringing the item back from swap."""
        self._done.add(item.id)
        if not self._now.evolves:
            return item
        rules, round = self._now.rules, self._turn.round
        if item.tier == "swap":
            item = rehydrate(item, round, rules)
            item = item._replace(tier=self._allowed(self._with_room(item.tier), item.origin))
        limit = highest_tier(item.origin, foreign_core=self._turn.foreign_core)
        if mentions(self._said, item.content):
            return apply_mention(item, round, rules.restated, rules, limit)
        return apply_mention(item, round, rules.echoed, rules, limit, spoken=False)

    def _with_room(self, tier: Location) -> Location:
        """Return the tier, or the next one below that is not full; an item is never too many for ephemeral."""
        held = Counter(item.tier for item in self._now.items.values())
        below = LOCATIONS[LOCATIONS.index(tier) : LOCATIONS.index("ephemeral")]
        return next((each for each in below if held[each] < getattr(self._now.rules.capacity, each)), "ephemeral")

    def _allowed(self, tier: Location, origin: Origin) -> Location:
        highest = highest_tier(origin, foreign_core=self._turn.foreign_core)
        return LOCATIONS[max(LOCATIONS.index(tier), LOCATIONS.index(highest))]

    def _free_id(self, id: str) -> str:
        """Return and take the id or, if it stands for something else, the first one with a number that is free."""
        now, free, number = self._now, id, 1
        while free in self._taken or free in now.items or free in now.swap or free in now.forgotten:
            number += 1
            free = f"{id}-{number}"
        self._taken.add(free)
        return free

    def _put(self, kind: Any, item: MemoryItem, reason: str) -> Operation:
        if kind == "update" and item.id in self._now.swap:  # another turn dropped it meanwhile, and it stays dropped
            item = item._replace(tier="swap")
        return Operation(kind, item.id, item.tier, item.as_json(), reason)


def _verbatim(item: MemoryItem, tier: Location, origin: Origin, given: dict[str, Any]) -> MemoryItem:
    """Return `item` with exactly what the model wrote."""
    return item._replace(
        type=given["type"],
        content=given["content"],
        tags=tuple(given["tags"]),
        tier=tier,
        decay=given["decay"],
        last=given["round"],
        origin=origin,
        extra=_extra(given),
    )


def _extra(given: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of an item that only the model knows."""
    if len(given) <= len(_ITEM_FIELDS):
        return {}
    return {key: value for key, value in given.items() if key not in _ITEM_FIELDS}
