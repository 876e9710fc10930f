"""How a turn changes memory: what it was shown, what came back and what is there now, as operations."""

from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import replace
from types import MappingProxyType
from typing import Any, NamedTuple

from ctxwrap.language.rules import LIFE
from ctxwrap.language.slots import name_in, slot_of
from ctxwrap.language.statements import MAX_STATEMENTS, Statement, asserted_sentences, statements_in
from ctxwrap.memory.decay import decay_at, mentioned, rehydrated, renewed, stated
from ctxwrap.memory.items import (
    PLACES,
    TIERS,
    Location,
    MemoryItem,
    Origin,
    Tier,
    ceiling,
    is_foreign,
    is_passing,
    least_trusted,
)
from ctxwrap.memory.memory import Memory, reason_for_new, writes_once
from ctxwrap.memory.similarity import Facts, key_of, mentions, same_fact, subjects
from ctxwrap.types import Operation

State = Mapping[str, Any]
"""`{"memory": {tier: [item, …]}, "capabilities": […], "active_task": "…"}`"""

_Placed = dict[str, tuple[Tier, dict[str, Any]]]
"""Items by id, each with its tier."""

_RECALLED = 5
"""How many items may come back from swap at once."""
_NAMED = ("id", "type", "decay", "round", "tags", "content")
_RELATED = 0.5
"""What a turn says of so much of an item allows the model to lift it."""
_HEARD = 4000
"""So many characters of a message are looked through for what it speaks of: a pasted document speaks of everything."""
_PLAUSIBLE = 3
"""A reply that leaves out more than one in so many of the items it was shown did not mean to drop them."""


class Circumstances(NamedTuple):
    """What a turn knows about itself that decides what its memories are."""

    round: int
    origin: Origin = "user"
    source: str = ""
    """Where the words stand that led to it, such as `messages:12-18`."""
    said: str = ""
    """What the user said."""
    answered: str = ""
    """What the user was answered."""
    foreign_core: bool = False
    """Whether tool, file and retrieved text may reach core."""
    brief: Set[str] = frozenset()
    """The ids of items that the model was shown without type and tags, which it so cannot have changed."""
    touched: Mapping[str, int] = MappingProxyType({})
    """The round of each item's last touch when the turn began, if the model was shown an earlier one."""


def compare(
    shown: State, returned: State, now: Memory, turn: Circumstances, statements: tuple[Statement, ...] = ()
) -> tuple[Operation, ...]:
    """What the model did to the memory it was shown, fitted to the memory as it is by now.

    Written items are new or changed, those in `dropped` go, and all others stay. What the model was not shown it cannot
    drop; what another turn has changed meanwhile stays unless this one changed it, too; and one id never stands for two
    things. Evidence of use counts whatever the model wrote. `statements` are the user's own, as in `observe`.
    """
    placed, told = _placed(shown), _placed(returned)
    gone = {id for id in returned.get("dropped", ()) if id in placed and told.get(id, placed[id]) == placed[id]}
    comparison = _Comparison(now, turn)
    own = comparison.stated(_notes(statements, turn.round)) if statements else ()
    return (*own, *comparison.of(placed, told, gone))


def observe(now: Memory, turn: Circumstances, statements: tuple[Statement, ...] = ()) -> tuple[Operation, ...]:
    """What can be seen without the model's help: which items are in use, and what the user plainly stated."""
    comparison = _Comparison(now, turn._replace(origin="rule"))
    return tuple(comparison.of({}, _notes(statements, turn.round), set()))


def stated_in(said: str, contents: Iterable[str]) -> tuple[Statement, ...]:
    """What the user plainly states and, of what else they assert, the sentences that `contents` are about.

    All of it is in the user's own words: a model that read foreign text may point at one of them, and no more.
    """
    plain = statements_in(said)
    told, wanted = [subjects(each.content) for each in plain], [subjects(content) for content in contents]
    sentences = (sentence.text for sentence in asserted_sentences(said) if not sentence.asks) if wanted else ()
    pointed = (
        LIFE.of(f"The user said: {sentence}")
        for sentence in sentences
        if any(mentions(each, sentence) for each in wanted) and not any(mentions(each, sentence) for each in told)
    )
    return (*plain, *filter(None, pointed))[:MAX_STATEMENTS]


def recall(now: Memory, turn: Circumstances) -> tuple[Operation, ...]:
    """What the user speaks of and is in swap, brought back before the model is asked."""
    if not now.evolves:
        return ()
    found = now.spoken_of(turn.said)[:_RECALLED]
    comparison = _Comparison(now, turn)
    return tuple(comparison.reinforced(item, "the user spoke of it again") for item in found)


def with_omissions(shown: State, snapshot: State) -> tuple[State, str]:
    """A snapshot that repeats all of memory, with what it leaves out as `dropped`; and what was kept all the same.

    A model that leaves out core items, or much of what it was shown, has rather been lazy than decided anything.
    """
    placed, kept = _placed(shown), {*_placed(snapshot), *snapshot.get("unchanged", ()), *snapshot.get("dropped", ())}
    absent = [id for id in placed if id not in kept]
    if len(absent) * _PLAUSIBLE > len(placed):
        return snapshot, f"{len(absent)} of {len(placed)} memory objects were left out: they stay"
    dropped = [id for id in absent if placed[id][0] != "core"]
    stay = len(absent) - len(dropped)
    violation = f"{stay} core memory objects were left out: they stay" if stay else ""
    return {**snapshot, "dropped": [*snapshot.get("dropped", ()), *dropped]}, violation


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


def _placed(state: State) -> _Placed:
    return {item["id"]: (tier, item) for tier, items in state["memory"].items() for item in items}


def _notes(statements: Iterable[Statement], round: int) -> _Placed:
    named = {f"rule-{round}-{number}": each for number, each in enumerate(statements, 1)}
    return {id: (each.tier, _note(id, each, round)) for id, each in named.items()}


def _note(id: str, statement: Statement, round: int) -> dict[str, Any]:
    type, _, decay, content = statement
    return {"id": id, "type": type, "decay": decay, "round": round, "tags": [], "content": content}


class _Comparison:
    def __init__(self, now: Memory, turn: Circumstances) -> None:
        self._now = now
        self._turn = turn
        self._said, self._answered = (subjects(text[:_HEARD]) for text in (turn.said, turn.answered))
        self._ceiling = ceiling(turn.origin, foreign_core=turn.foreign_core)
        self._writes_once = writes_once(now.capabilities)
        self._user: str | None = None
        """The user's name, once somebody asked for it."""
        self._taken: set[str] = set()
        self._written = Facts()
        """What this turn adds and changes."""
        self._done: set[str] = set()
        """The items that it did something to."""
        self._stated: list[Set[str]] = []
        """What the user's own statements in it are about."""

    def of(self, shown: _Placed, returned: _Placed, gone: Set[str]) -> Iterator[Operation]:
        told = [(id, *each) for id, each in returned.items() if id not in self._now.forgotten]
        for id, tier, given in told:
            if id in shown and id in self._turn.brief:
                given = {**shown[id][1], "decay": given["decay"], "content": given["content"]}
            if id in shown and shown[id] != (tier, given):
                yield from self._changed(tier, given, *shown[id])
        for id, tier, given in told:
            if id not in shown:
                yield from self._added(tier, given)
        for id in shown:
            if id in gone and id not in self._done:
                yield from self._dropped(id, shown[id][1])
        yield from self._used()

    def stated(self, notes: _Placed) -> list[Operation]:
        """What the user's own words do to memory, whatever else was shown; what says the same is known from then on."""
        turn, limit = self._turn, self._ceiling
        self._turn, self._ceiling = turn._replace(origin="rule"), "core"
        operations = [each for tier, given in notes.values() for each in self._added(tier, given)]
        self._turn, self._ceiling = turn, limit
        self._stated = [subjects(given["content"]) for _, given in notes.values()]
        return operations

    def reinforced(self, item: MemoryItem, reason: str) -> Operation:
        return self._put("reinforce", self._in_use(item), reason)

    def _used(self) -> Iterator[Operation]:
        """What the user speaks of, and what the answer uses."""
        for item in [*self._now.items.values()] if self._now.evolves else ():
            if item.id in self._done:
                continue
            if mentions(self._said, item.content):
                yield self.reinforced(item, "the user spoke of it")
            elif mentions(self._answered, item.content) and decay_at(item, self._turn.round, self._now.rules) > 0:
                yield self.reinforced(item, "the answer used it")

    def _added(self, tier: Tier, given: dict[str, Any]) -> Iterator[Operation]:
        item = self._new(tier, given)
        twin = self._twin(item)
        replaced = twin if twin and item.origin == "rule" and is_foreign(twin.origin) and not twin.pinned else None
        if twin is not None and replaced is None:
            yield from self._said_again(twin, item)
            return
        if self._is_said_already(item.content):
            return
        if self._is_taken(item.id):
            item = replace(item, id=self._free_id(item.id))
        self._taken.add(item.id)
        self._written.put(item.id, item.content)
        self._done.add(item.id)
        yield self._put("add", item, "new" if item.id == given["id"] else f"{given['id']!r} means something else")
        if replaced is not None and replaced.tier != "swap":
            self._done.add(replaced.id)
            yield Operation("drop", replaced.id, replaced.tier, reason="the user says it", successor=item.id)
        yield from self._superseded(item)

    def _is_said_already(self, content: str) -> bool:
        """Whether this turn has written the same, or the user's own statement of it."""
        if self._written.same(content) or any(True for _ in self._written.near(content, self._taken)):
            return True
        about: Set[str] = subjects(content) if self._stated else frozenset()
        return bool(about) and any(about <= each for each in self._stated)

    def _twin(self, item: MemoryItem) -> MemoryItem | None:
        """What says the same already, unless this very turn made it say something else."""
        known = self._now.named(item.id)
        twin = known if known and key_of(known.content) == key_of(item.content) else self._now.like(item.content)
        if twin is None and item.origin != "rule" and not is_foreign(item.origin):
            twin = self._rule_about(item)
        return None if twin is not None and twin.id in self._taken else twin

    def _rule_about(self, item: MemoryItem) -> MemoryItem | None:
        """What rules took from the user's words, and the model now says in its own."""
        wanted, slot = subjects(item.content), self._slot(item.content)
        for known in self._now.items.values() if self._now.evolves else ():
            if known.origin != "rule":
                continue
            if mentions(wanted, known.content) or (slot and self._slot(known.content) == slot):
                return known
        return None

    def _said_again(self, twin: MemoryItem, item: MemoryItem) -> Iterator[Operation]:
        """Repeating what is known, under any id, is no evidence; what has faded does not come back by it either."""
        is_reworded = twin.origin == "rule" and item.origin != "rule" and not is_foreign(item.origin)
        if is_reworded and not self._writes_once:
            self._done.add(twin.id)
            self._taken.add(twin.id)
            self._written.put(twin.id, item.content)
            told = replace(item, id=twin.id, first=twin.first, touches=twin.touches, pinned=twin.pinned)
            yield self._put("update", told, "the model says it in its own words")
        elif twin.tier == "swap" and twin.id not in self._done and self._may_return(twin, item):
            self._done.add(twin.id)
            back = rehydrated(twin, self._turn.round, self._now.rules) if self._now.evolves else twin
            back = self._in_use(replace(back, tier=self._allowed(item.tier, self._least_trusted(twin))))
            yield self._put("reinforce", back, "said again")
            yield from self._superseded(back)

    def _may_return(self, twin: MemoryItem, item: MemoryItem) -> bool:
        if not self._now.evolves:
            return True
        heard = self._said | self._answered
        if twin.successor:
            return bool(self._news(twin, self._now.named(twin.successor)) & self._said)
        faded = decay_at(twin, self._turn.round, self._now.rules) >= self._now.rules.thresholds.ephemeral
        return mentions(heard, twin.content) or item.tier != "ephemeral" or not faded

    def _news(self, item: MemoryItem, other: MemoryItem | None) -> Set[str]:
        """What an item is about that another is not."""
        return subjects(item.content) - (subjects(other.content) if other else frozenset())

    def _superseded(self, item: MemoryItem) -> Iterator[Operation]:
        """The older values of what can have one only: they make way."""
        slot = self._slot(item.content) if self._now.evolves else ""
        for known in [*self._now.items.values()] if slot else ():
            is_older = known.id != item.id and known.id not in self._done and self._slot(known.content) == slot
            if is_older and not known.pinned and (known.tier != "core" or self._ceiling == "core"):
                self._done.add(known.id)
                yield Operation("drop", known.id, known.tier, reason="superseded", successor=item.id)

    def _slot(self, content: str) -> str:
        if self._user is None:
            names = (name_in(item.content) for item in self._now.items.values())
            self._user = next(filter(None, names), "")
        return slot_of(content, self._user)

    def _changed(self, tier: Tier, given: dict[str, Any], was_tier: Tier, was: dict[str, Any]) -> Iterator[Operation]:
        known = self._now.named(given["id"])
        if known is None:
            return
        if known.tier == "core" and self._ceiling != "core":
            yield from self._beside(known, tier, given, was)
            return
        if self._writes_once and given["content"] != was["content"]:
            if not same_fact(given["content"], was["content"]):
                yield from self._replaced(known, tier, given)
                return
            given = {**given, "content": was["content"]}
        if not self._now.evolves:
            self._taken.add(known.id)
            self._written.put(known.id, given["content"])
            origin = self._least_trusted(known)
            yield self._put("update", _verbatim(known, self._allowed(tier, origin), origin, given), "changed")
            return
        item = self._with_fields(known, given, was)
        if not same_fact(given["content"], was["content"]):
            yield from self._reworded(known, given["content"])
            item = self._with_content(item, given)
        item = self._moved(item, tier, was_tier, known)
        if item != known:
            self._done.add(item.id)
            another = known.last > self._touched_before(known.id, was)
            yield self._put("update", item, "over another turn" if another else "changed")

    def _replaced(self, known: MemoryItem, tier: Tier, given: dict[str, Any]) -> Iterator[Operation]:
        """A new item instead of another content for one that keeps its own, which goes to swap unless it is pinned."""
        for operation in self._added(tier, given):
            if operation.kind != "add":
                yield operation
                continue
            yield operation._replace(reason=reason_for_new(known.id, operation.id))
            if known.tier != "swap" and not known.pinned:
                self._done.add(known.id)
                yield Operation("drop", known.id, known.tier, reason="superseded", successor=operation.id)

    def _beside(self, known: MemoryItem, tier: Tier, given: dict[str, Any], was: dict[str, Any]) -> Iterator[Operation]:
        """What the model makes of a core item that it may not change: an item of its own, if it says something else."""
        if not same_fact(given["content"], was["content"]):
            copy = replace(self._new(tier, given), id=self._free_id(known.id))
            yield self._put("add", copy, f"{self._turn.origin} text may not change the core memory {known.id!r}")

    def _least_trusted(self, item: MemoryItem) -> Origin:
        """The origin of an item that this turn changes."""
        return least_trusted(item.origin, self._turn.origin) if is_foreign(self._turn.origin) else item.origin

    def _with_fields(self, known: MemoryItem, given: dict[str, Any], was: dict[str, Any]) -> MemoryItem:
        """The item with the type, tags, decay and further fields that the model changed; its round is the system's."""
        item = known
        if given["decay"] != was["decay"]:
            item = stated(item, self._turn.round, given["decay"])
        extra = {key: value for key, value in given.items() if key not in _NAMED}
        changed = {name: given[name] for name in ("type", "tags") if given[name] != was[name]}
        if "tags" in changed:
            changed["tags"] = tuple(changed["tags"])
        if extra != {key: value for key, value in was.items() if key not in _NAMED}:
            changed["extra"] = extra
        return replace(item, **changed, origin=self._least_trusted(item)) if changed else item

    def _with_content(self, known: MemoryItem, given: dict[str, Any]) -> MemoryItem:
        """The item saying something else: evidence of use if that came up in this turn."""
        self._taken.add(known.id)
        self._written.put(known.id, given["content"])
        news = subjects(given["content"]) - subjects(known.content)
        item = known
        if news & (self._said | self._answered) or mentions(self._said, known.content):
            item = renewed(self._in_use(known), self._turn.round)
        origin = least_trusted(item.origin, self._turn.origin) if item.origin != "rule" else self._turn.origin
        tier = self._allowed(item.tier, origin)
        return replace(item, content=given["content"], origin=origin, source=self._turn.source, tier=tier)

    def _reworded(self, known: MemoryItem, content: str) -> Iterator[Operation]:
        """The older value of what can have one only is kept in swap when its item says another one."""
        slot = self._slot(known.content)
        if slot and self._slot(content) == slot:
            id = self._free_id(known.id)
            old = replace(known, id=id, tier="swap", successor=known.id, pinned=False, mentions=None)
            yield self._put("add", old, f"superseded by {known.id!r}")

    def _moved(self, item: MemoryItem, tier: Tier, was_tier: Tier, known: MemoryItem) -> MemoryItem:
        """The item in the tier that the model wants: down at once, up by evidence only."""
        if tier == was_tier or item.tier == "swap" or item.pinned:
            return item
        heard = self._said | self._answered
        rises = PLACES.index(tier) < PLACES.index(item.tier)
        if rises and (is_passing(item.type) or not mentions(heard, known.content, _RELATED)):
            return item
        round, allowed = self._turn.round, self._allowed(tier, self._least_trusted(item))
        return replace(item, tier=allowed, since=max(item.since, round), last=round)

    def _dropped(self, id: str, was: dict[str, Any]) -> Iterator[Operation]:
        item = self._now.items.get(id)
        if item is None or item.pinned or (self._now.evolves and item.last > self._touched_before(id, was)):
            return
        if item.tier == "core" and self._ceiling != "core":
            return
        self._done.add(id)
        yield Operation("drop", id, item.tier, reason="dropped")

    def _touched_before(self, id: str, was: dict[str, Any]) -> int:
        """The round of an item's last touch as far as this turn knew; a later one is another turn's."""
        return self._turn.touched.get(id, int(was["round"]))

    def _new(self, tier: Location, given: dict[str, Any]) -> MemoryItem:
        turn = self._turn
        return MemoryItem(
            id=given["id"],
            type=given["type"],
            content=given["content"],
            tags=tuple(given["tags"]),
            tier=self._allowed(self._fitting(tier, given["type"]), turn.origin),
            decay=given["decay"],
            anchor=turn.round,
            first=turn.round,
            last=turn.round if self._now.evolves else given["round"],
            origin=turn.origin,
            source=turn.source,
            extra={key: value for key, value in given.items() if key not in _NAMED},
        )

    def _in_use(self, item: MemoryItem) -> MemoryItem:
        """`item` after what this turn says of it, and back at hand if it was in swap."""
        self._done.add(item.id)
        if not self._now.evolves:
            return item
        rules, round = self._now.rules, self._turn.round
        if item.tier == "swap":
            item = rehydrated(item, round, rules)
        limit = ceiling(item.origin, foreign_core=self._turn.foreign_core)
        if mentions(self._said, item.content):
            return mentioned(item, round, rules.restated, rules, limit)
        return mentioned(item, round, rules.echoed, rules, limit, spoken=False)

    def _fitting(self, tier: Location, type: str) -> Location:
        """The tier for a new item: what the model itself calls passing is ephemeral."""
        return "ephemeral" if self._now.evolves and is_passing(type) else tier

    def _allowed(self, tier: Location, origin: Origin) -> Location:
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

    def _put(self, kind: Any, item: MemoryItem, reason: str) -> Operation:
        if kind == "update" and item.id in self._now.swap:  # dropped by another turn meanwhile, and so it stays
            item = replace(item, tier="swap")
        return Operation(kind, item.id, item.tier, item.as_json(), reason)


def _verbatim(item: MemoryItem, tier: Location, origin: Origin, given: dict[str, Any]) -> MemoryItem:
    """`item` with what the model wrote, word by word."""
    return replace(
        item,
        type=given["type"],
        content=given["content"],
        tags=tuple(given["tags"]),
        tier=tier,
        decay=given["decay"],
        last=given["round"],
        origin=origin,
        extra={key: value for key, value in given.items() if key not in _NAMED},
    )
