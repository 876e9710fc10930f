"""The receipt of a pack, and the lifecycle events that follow from it."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Literal, NamedTuple, get_args

from ctxwrap.kinds import KINDS
from ctxwrap.pack.injection import tokens_taken
from ctxwrap.stores.log_format import count_in
from ctxwrap.types import PackItem, Record

REMEMBERED, ASKED = KINDS["facts"].reason, "remembered, and asked about"
NO_ROOM = "over budget: memory has more than its share holds"
OLDER = "older than the budget reaches"


def _usual(kind: str, reason: str = "", *, included: bool = True, **more: Any) -> PackItem:
    row = KINDS[kind]
    return PackItem(row.name, row.source, 0, included, reason or row.reason, **more)


_SHAPES: dict[str, PackItem] = {
    "protocol": _usual("system", priority=1.0),
    "frames": _usual("memory", priority=1.0),
    "caller": _usual("request", priority=1.0, origin="user"),
    **{
        f"{kind}{mark}": _usual(kind, reason, included=reason != NO_ROOM, priority=0.8, origin="assistant")
        for kind in ("facts", "decisions", "todo", "refs", "user_items", "team_items")
        for mark, reason in (("", REMEMBERED), ("?", ASKED), ("-", NO_ROOM))
    },
    "recent": _usual("recent_messages", origin="user"),
    "older": _usual("recent_messages", OLDER, included=False, origin="user"),
    "found": _usual("retrieved", origin="assistant"),
    "missed": _usual("retrieved", "it did not fit", included=False, origin="assistant"),
}
"""Items that are in most packs, by the names that events abbreviate them with."""

_LOG = "messages.jsonl"
_Shape = tuple[str, tuple[Any, ...]]
"""A name, and what of an item is compared with its shape."""

_COMPARED: dict[str, _Shape] = {
    name: (name, (shape.reason, shape.priority, shape.origin, shape.visibility)) for name, shape in _SHAPES.items()
}
_NAMED = {(shape.kind, shape.source, shape.included, shape.reason): _COMPARED[name] for name, shape in _SHAPES.items()}
_ALIKE = {("retrieved", _LOG): (_COMPARED["missed"], _COMPARED["found"])}
"""For kinds with many reasons, the shapes of items that are left out and of included ones."""


def items_as_json(items: Iterable[PackItem]) -> list[Any]:
    """Items in the form of the log: abbreviated if they have a usual shape."""
    rows: list[Any] = []
    for item in items:
        kind, source, tokens, included, reason, priority, freshness, origin, visibility, refs = item
        alike = _ALIKE.get((kind, source))
        shape = alike[included] if alike else _NAMED.get((kind, source, included, reason))
        if shape is None:
            rows.append(item.as_json())
            continue
        name, (usual_reason, usual_priority, usual_origin, usual_visibility) = shape
        unusual: Record = {}
        if reason != usual_reason:
            unusual["reason"] = reason
        if priority != usual_priority:
            unusual["priority"] = priority
        if freshness != (_freshness(refs[0][-_LONGEST:]) if source == _LOG and len(refs) == 1 else 0):
            unusual["freshness"] = freshness
        if origin != usual_origin:
            unusual["origin"] = origin
        if visibility != usual_visibility:
            unusual["visibility"] = visibility
        rows.append([name, tokens, *refs, unusual] if unusual else [name, tokens, *refs])
    return rows


@lru_cache(maxsize=4096)
def _freshness(ref: str) -> int:
    """The number of the newest message that a ref such as `115-118` or `106.0` names; 0 if it names none."""
    last = ref.rpartition(",")[2].rpartition("-")[2].partition(".")[0]
    return int(last) if last.isdecimal() and last.isascii() and len(last) <= _DIGITS else 0


_LONGEST = 64
_DIGITS = 15


def items_in(event: Record) -> tuple[PackItem, ...]:
    """The items of an event; raises LookupError, TypeError or ValueError if they are malformed."""
    return tuple(_read(each) if isinstance(each, list) else item_from_json(each) for each in event["pack"])


def _read(row: list[Any]) -> PackItem:
    name, tokens, *refs = row
    unusual = refs.pop() if refs and isinstance(refs[-1], dict) else {}
    kind, source, _, included, reason, priority, _, origin, visibility, _ = _SHAPES[name]
    named = tuple(map(str, refs))
    freshness = _freshness(named[0][-_LONGEST:]) if source == _LOG and len(named) == 1 else 0
    item = PackItem(kind, source, tokens, included, reason, priority, freshness, origin, visibility, named)
    return item._replace(**_known(unusual)) if unusual else item


def item_from_json(value: Mapping[str, Any]) -> PackItem:
    """The inverse of `as_json`."""
    return PackItem(**_known(value))


def _known(value: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of an item in a record, which may have others."""
    known = {name: each for name, each in value.items() if name in _FIELDS}
    for name in known.keys() & _SEQUENCES:
        known[name] = tuple(known[name])
    return known


_FIELDS, _SEQUENCES = frozenset(PackItem._fields), {"visibility", "refs"}


def budget_as_json(budget: Record) -> Record:
    """A budget in the form of the log: without usual values, and without what follows from the rest."""
    spent = {name: tokens for name, tokens in budget["spent"].items() if tokens or name not in _NOTHING}
    follows = {**_USUAL, "effective": max(0, budget["limit"] - budget["fixed"]), "used": sum(spent.values())}
    return {name: value for name, value in {**budget, "spent": spent}.items() if follows.get(name) != value}


def budget_in(event: Record) -> Record:
    """The budget of an event; empty if it has none."""
    logged = event.get("budget")
    if not isinstance(logged, dict) or not isinstance(logged.get("spent"), dict):
        return logged if isinstance(logged, dict) else {}
    known = {**_USUAL, **_reckoned(logged), **logged, "spent": {**_NOTHING, **logged["spent"]}}
    return {name: known[name] for name in (*_ORDER, *known) if name in known}


_USUAL = {"set_by": "settings", "exact": True}
_ORDER = ("limit", "set_by", "reply", "fixed", "effective", "used", "spent")
_NOTHING = dict.fromkeys(("pinned", "summary", "memory", "recent", "retrieved", "children"), 0)
"""Shares that an event leaves out if they are 0. A part of the log format: shares of later kinds are not added."""


def _reckoned(budget: Record) -> Record:
    spent = 0
    for count in budget["spent"].values():
        if type(count) is int and count > 0:
            spent += count
    return {"effective": max(0, (count_in(budget, "limit") or 0) - (count_in(budget, "fixed") or 0)), "used": spent}


EventClass = Literal[
    "context.surface.created",
    "context.surface.updated",
    "context.item.added",
    "context.item.updated",
    "context.item.removed",
    "context.selection.started",
    "context.selection.completed",
    "context.budget.applied",
    "context.assembly.created",
    "context.injection.applied",
    "context.compaction.started",
    "context.compaction.completed",
    "context.summary.created",
    "context.missing.detected",
    "context.missing.requested",
    "context.missing.resolved",
    "context.redaction.applied",
    "context.exported",
]
EVENT_CLASSES: tuple[EventClass, ...] = get_args(EventClass)

STAGES = frozenset(kind for kind in EVENT_CLASSES if not kind.startswith("context.missing."))
"""Events that follow from other records of the log; only those about missing context do not."""

SENDING = ("enabled", "readonly")
"""The modes that send the pack."""


class EventIds(NamedTuple):
    """The ids that an event belongs to. Agent Context calls a round a task, which may take several turns."""

    session: str
    turn: str = ""
    round: int = 0
    attempt: int = 0
    """The number of the turn's request, from 1."""

    def as_json(self) -> Record:
        ids = {
            "session_id": self.session,
            "turn_id": self.turn,
            "task_id": f"round-{self.round}" if self.round else "",
            "attempt_id": f"{self.turn}.{self.attempt}" if self.attempt else "",
        }
        return {name: id for name, id in ids.items() if id}


def context_event(kind: EventClass, ids: EventIds, subject: str = "", **data: Any) -> Record:
    """An event about the record that `subject` names; `data` holds counts and ids, no text of a participant."""
    about = {"subject": subject} if subject else {}
    run = {"run": ids.turn} if ids.turn else {}
    return {"type": kind, **run, **ids.as_json(), **about, **({"data": data} if data else {}), "ctx": {}}


def stage_events(records: Sequence[Record], ids: EventIds, *, sends: bool = True) -> list[Record]:
    """The events that follow from records that were written together, in their order.

    `ids` are those of the turn and of its last request so far; `sends` says whether its mode sends the pack.
    """
    stages: list[Record] = []
    for done in _of(records, "done"):
        stages += _injected(ids, done) if sends and was_accepted(done) else ()
    stages += _moved(ids, [move for event in _of(records, "evolution") for move in event["moves"]])
    stages += _changed(ids, [each for event in _of(records, *_CHANGING) for each in event.get("operations", ())])
    stages += _granted(ids, [event["action"] for event in _of(records, "working_set") if event["granted"]])
    for event in _of(records, "start", "repack", "done"):
        stages += _redacted(ids, event.get("redaction") or {})
    for event in _of(records, "start", "repack"):
        stages += _packed(ids, event) if "sent" in event else ()
    for event in _of(records, "resources"):
        stages += _handed_out(ids._replace(attempt=event["attempt"]), event)
    return stages


def session_stage_events(records: Iterable[Record], session: str) -> list[Record]:
    """The events that follow from records outside of turns."""
    ids = EventIds(session)
    return [
        context_event(kind, ids, **({"messages": event["source"]} if "source" in event else {"request": event["type"]}))
        for event in records
        if "run" not in event
        for kind in _OUTSIDE.get(event["type"], ())
    ]


def was_accepted(done: Record) -> bool:
    """Whether a provider accepted the request of a turn that ended so."""
    taken = done.get("taken")
    return taken if isinstance(taken, bool) else bool(done.get("response_id")) or done.get("status") == "ok"


def _of(records: Iterable[Record], *kinds: str) -> list[Record]:
    return [record for record in records if record.get("type") in kinds and "run" in record]


def _packed(ids: EventIds, event: Record) -> list[Record]:
    """The stages that made a request; a second request of the same turn updates its surface."""
    id, items, budget = f"{ids.turn}.{ids.attempt}", items_in(event), budget_in(event)
    chosen = sum(item.included is True for item in items)
    counts = {"selected": chosen, "omitted": len(items) - chosen}
    surface: EventClass = "context.surface.created" if ids.attempt == 1 else "context.surface.updated"
    spent = {name: budget[name] for name in ("limit", "fixed", "used") if name in budget}
    return [
        context_event(surface, ids, f"surface-{id}", candidates=len(items)),
        context_event("context.selection.started", ids, f"selection-{id}"),
        context_event("context.selection.completed", ids, f"selection-{id}", **counts),
        context_event("context.budget.applied", ids, f"budget-{id}", **spent),
        context_event("context.assembly.created", ids, f"assembly-{id}", target="model"),
    ]


def _injected(ids: EventIds, done: Record) -> list[Record]:
    """The injection of a pack, with the ids that the provider gave it: the messages do not hold these."""
    known = {"response_id": done.get("response_id", ""), **tokens_taken(done.get("usage") or {})}
    known["tool_call_ids"] = done.get("tool_call_ids", [])
    model_api = {name: value for name, value in known.items() if value not in ("", [])}
    assembly = f"assembly-{ids.turn}.{ids.attempt}"
    return [context_event("context.injection.applied", ids, assembly, target="model", model_api=model_api)]


def _handed_out(ids: EventIds, event: Record) -> list[Record]:
    """A delivery to a target other than the model."""
    named = {"tool_call_id": event["tool_call_id"]} if event.get("tool_call_id") else {}
    return [{**context_event("context.injection.applied", ids, target=event["target"]), **named}]


def _changed(ids: EventIds, operations: Iterable[Record]) -> list[Record]:
    """Changes of memory, as counts: the operations themselves are in the log."""
    kinds = Counter(operation["kind"] for operation in operations)
    return [context_event(_CHANGES[kind], ids, memory_operation=kind, count=count) for kind, count in kinds.items()]


def _moved(ids: EventIds, moves: Sequence[Any]) -> list[Record]:
    """Moves of memory items between tiers since the last turn."""
    return [context_event("context.item.updated", ids, memory_operation="decay", count=len(moves))] if moves else []


def _granted(ids: EventIds, actions: Iterable[str]) -> list[Record]:
    """Changes of the working set."""
    counts = Counter(actions)
    kinds = {action: _GRANTED.get(action, "context.item.updated") for action in counts}
    return [context_event(kinds[action], ids, working_set=action, count=count) for action, count in counts.items()]


def _redacted(ids: EventIds, redaction: Record) -> list[Record]:
    """Findings of a redaction policy in the request or in the reply."""
    data = {name: redaction[name] for name in ("policy", "found", "method") if name in redaction}
    return [context_event("context.redaction.applied", ids, **data)] if redaction.get("found") else []


_CHANGING = ("recall", "snapshot", "observation")
_OUTSIDE: dict[str, tuple[EventClass, ...]] = {
    "summarise": ("context.compaction.started",),
    "summary": ("context.compaction.completed", "context.summary.created"),
    "forget": ("context.redaction.applied",),
    "purge": ("context.redaction.applied",),
}
_CHANGES: dict[str, EventClass] = {
    "add": "context.item.added",
    "update": "context.item.updated",
    "reinforce": "context.item.updated",
    "drop": "context.item.removed",
    "forget": "context.item.removed",
}
_GRANTED: dict[str, EventClass] = {"add": "context.item.added", "remove": "context.item.removed"}
