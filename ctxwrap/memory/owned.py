"""Memory of a user or a team beside a session's own: what a turn is shown of it, and what it contributes to it."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ctxwrap.memory.items import MemoryItem, is_foreign, parse_origin
from ctxwrap.memory.memory import Memory
from ctxwrap.memory.operations import Circumstances, State, compare
from ctxwrap.memory.similarity import key_of, mentions, same_fact, subjects
from ctxwrap.types import Operation, OwnerView, Record, TurnInputs

MARKS = {kind: f"{kind}+" for kind in ("user", "team")}
"""How the ids of an owner's items begin, in the owner's log and wherever they are shown."""

_MOST_RECALLED = 5
"""Maximum items of an owner's swap that are shown because the user speaks of them."""


def owner_of(id: str) -> str:
    """`user` or `team` if the id is one of an owner's item."""
    kind, plus, _ = id.partition("+")
    return kind if plus and kind in MARKS else ""


def shown_items(memory: Memory) -> tuple[list[dict[str, Any]], dict[str, int]]:
    """The core items of an owner as a model sees them, and the round in which each was last touched.

    Rounds of an owner's log mean nothing to a session, so none is shown.
    """
    core = memory.shown()["memory"]["core"]
    return [{**item, "round": 0} for item in core], {item["id"]: item["round"] for item in core}


def recalled_items(memory: Memory, said: str) -> list[MemoryItem]:
    """Items that had no room in the owner's core and that the user speaks of."""
    return memory.asked_in_swap(said)[:_MOST_RECALLED] if memory.swap and said else []


def without_repetitions(inputs: TurnInputs, knows: Sequence[Callable[[str], bool]]) -> list[dict[str, Any]]:
    """The session's core items that no owner knows."""
    core: list[dict[str, Any]] = inputs.state["memory"]["core"]
    return [item for item in core if not any(each(item["content"]) for each in knows)]


class Contribution(NamedTuple):
    """What a turn gives to one owner, before it is merged."""

    owner: OwnerView
    operations: tuple[Operation, ...]
    """New items under the model's ids; changed and dropped ones under the owner's."""

    def as_event(self, turn: str, round: int) -> Record:
        """The event of the session's log. What identifies the owner is control data: it is never redacted."""
        changed = {each.id for each in self.operations if each.kind != "add"}
        base = {id: touched for id, touched in self.owner.items.items() if id in changed}
        control = {"owner": list(self.owner.key[1:]), "base": base}
        operations = [operation.as_json() for operation in self.operations]
        return {"type": "contribution", "run": turn, "round": round, "operations": operations, "ctx": control}


class Returned(NamedTuple):
    """What a model returned, apart for the session and for each owner."""

    shown: State
    """What the model saw of the session's own memory."""
    snapshot: State | None
    """What the model wrote about it."""
    changes: dict[str, list[Operation]]
    """What the model changed in the memory of owners, by kind of owner."""


def split_returned(
    snapshot: State | None, shown: State, owners: Sequence[OwnerView], circumstances: Circumstances
) -> Returned:
    """Separate the items of owners from those of the session.

    A change that this turn may not make in an owner's memory becomes an item of the session.
    """
    owned = {id: owner for owner in owners for id in owner.items}
    before = {item["id"]: item for items in shown["memory"].values() for item in items if item["id"] in owned}
    own = {**shown, "memory": _without(shown["memory"], owned)}
    if snapshot is None:
        return Returned(own, None, {})
    changes: dict[str, list[Operation]] = {owner.kind: [] for owner in owners}
    memory = _without(snapshot["memory"], owned)
    written = [item for items in snapshot["memory"].values() for item in items if item["id"] in owned]
    for given in written:
        was, owner = before.get(given["id"]), owned[given["id"]]
        if was is None or same_fact(given["content"], was["content"]):
            continue
        if owner.writes and not is_foreign(circumstances.origin):
            origin = {"origin": circumstances.origin, "source": circumstances.source}
            item = {**was, "content": given["content"], **origin}
            changes[owner.kind].append(Operation("update", given["id"], "core", item, "changed"))
        else:
            memory["working"] = [*memory["working"], {**given, "id": _unmarked(given["id"])}]
    for id in snapshot.get("dropped", ()):
        may_drop = id in before and owned[id].writes and not is_foreign(circumstances.origin)
        if may_drop and id not in {item["id"] for item in written}:
            changes[owned[id].kind].append(Operation("drop", id, "core", reason="dropped"))
    dropped = [id for id in snapshot.get("dropped", ()) if id not in owned]
    return Returned(own, {**snapshot, "memory": memory, "dropped": dropped}, changes)


def _without(memory: Mapping[str, Any], owned: Mapping[str, OwnerView]) -> dict[str, Any]:
    """The items of the session; an id that only looks like an owner's loses its mark."""
    return {
        tier: [
            {**item, "id": _unmarked(item["id"])} if owner_of(item["id"]) else item
            for item in items
            if item["id"] not in owned
        ]
        for tier, items in memory.items()
    }


def _unmarked(id: str) -> str:
    return id.removeprefix(MARKS.get(owner_of(id), "")) or "item"


def without_known(operations: Sequence[Operation], shown: State, owners: Sequence[OwnerView]) -> tuple[Operation, ...]:
    """The operations without new items that repeat what the model was shown of an owner's memory."""
    if not any(operation.kind == "add" for operation in operations):
        return tuple(operations)
    items = (item for items in shown["memory"].values() for item in items)
    known = {key_of(item["content"]) for item in items if any(item["id"] in owner.items for owner in owners)}
    return tuple(
        each for each in operations if each.kind != "add" or not each.item or key_of(each.item["content"]) not in known
    )


def offered_core(
    operations: Iterable[Operation], memory: Memory, owner: OwnerView
) -> tuple[tuple[Operation, ...], list[Operation]]:
    """The session's operations without core items that go to the owner, and the operations that add these there.

    Core items of a trusted origin go, but not what an operator pinned in the session.
    """
    kept: list[Operation] = []
    offered: list[Operation] = []
    seen: set[str] = set()
    for operation in operations:
        seen.add(operation.id)
        if operation.item is None or not _is_offered(MemoryItem.from_json(operation.item)):
            kept.append(operation)
            continue
        offered.append(Operation("add", operation.id, "core", operation.item, operation.reason))
        if memory.named(operation.id) is not None:
            kept.append(_moved(operation.id, operation.tier, owner))
    for item in memory.items.values():
        if item.id not in seen and _is_offered(item):
            offered.append(Operation("add", item.id, "core", item.as_json(), "core of the session"))
            kept.append(_moved(item.id, item.tier, owner))
    return tuple(kept), offered


def _is_offered(item: MemoryItem) -> bool:
    return item.tier == "core" and not item.pinned and not is_foreign(item.origin)


def _moved(id: str, tier: str, owner: OwnerView) -> Operation:
    return Operation("drop", id, tier, reason=f"moved to the {owner.kind}", successor=MARKS[owner.kind] + id)


class _Group(NamedTuple):
    """Operations of a contribution that were derived in the same way."""

    origin: str
    source: str


def merge_steps(event: Record, mark: str) -> list[tuple[_Group, list[Operation]]]:
    """The operations of a contribution in the order in which they are merged, grouped by origin and source."""
    groups: dict[_Group, list[Operation]] = {}
    for fields in event["operations"]:
        operation, item = Operation(**fields), dict(fields.get("item") or {})
        if operation.kind == "add":
            operation = operation._replace(id=mark + _unmarked(operation.id))
        group = _Group(str(item.get("origin") or "assistant"), str(item.get("source") or ""))
        groups.setdefault(group, []).append(operation)
    return list(groups.items())


def merge(
    memory: Memory, group: _Group, operations: Iterable[Operation], place: str, base: Mapping[str, int], said: str = ""
) -> tuple[Operation, ...]:
    """Fit a group of contributed operations to the owner's memory as it is now.

    `place` is the session in sources, `base` has the round of each changed item's last touch when the turn began.
    `said` is what the user said in the turn, if known.
    """
    origin = parse_origin(group.origin)
    if origin is None or is_foreign(origin):
        return ()
    shown: dict[str, list[dict[str, Any]]] = {"core": []}
    returned: dict[str, list[dict[str, Any]]] = {"core": []}
    dropped: list[str] = []
    for operation in operations:
        given = _as_given(operation, memory.round + 1)
        if given is None:
            dropped.append(operation.id)
        else:
            returned["core"].append(given)
        if operation.kind != "add":
            known = memory.named(operation.id)
            shown["core"].append({**(given or _as_shown(known, operation.id)), "content": ""})
    source = f"{place}/{group.source}"
    turn = Circumstances(memory.round + 1, origin=origin, source=source, said=said, touched=lambda: base)
    return compare({"memory": shown}, {"memory": returned, "dropped": dropped}, memory, turn)


def _as_given(operation: Operation, round: int) -> dict[str, Any] | None:
    """The item of an operation as a model writes it."""
    item = operation.item
    if item is None:
        return None
    fields = {"type": item["type"], "decay": item["decay"], "round": round, "tags": list(item["tags"])}
    return {"id": operation.id, **fields, "content": item["content"], **item.get("extra", {})}


def _as_shown(known: MemoryItem | None, id: str) -> dict[str, Any]:
    fields = {"type": "fact", "decay": 0.5, "round": 0, "tags": []}
    return {"id": id, **fields} if known is None else known.shown(known.decay)


def is_said(content: str, said: str) -> bool:
    """Whether the user states this in a text."""
    return mentions(subjects(said), content)
