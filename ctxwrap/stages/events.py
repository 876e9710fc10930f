"""What happens to context, as events: the classes that Agent Context has for it, with the runtime's ids.

The log has the records that a turn writes. The events of the stages follow from them: `stages_of` makes them of the
records that were written together. Only what is missing, and that evidence left, is told by no other record.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Literal, NamedTuple, get_args

from ctxwrap.stages.injection import tokens_taken
from ctxwrap.stages.receipt import budget_in, items_in
from ctxwrap.types import Record

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
"""Those that tell by numbers what other records of the log tell at length; what is missing is told nowhere else."""

SENDING = ("enabled", "readonly")
"""The modes that send what is assembled."""


class Ids(NamedTuple):
    """What the runtime calls that which an event belongs to; a round is a task, however many turns it takes."""

    session: str
    turn: str = ""
    round: int = 0
    attempt: int = 0
    """Which of the turn's requests, from 1."""

    def as_json(self) -> Record:
        ids = {
            "session_id": self.session,
            "turn_id": self.turn,
            "task_id": f"round-{self.round}" if self.round else "",
            "attempt_id": f"{self.turn}.{self.attempt}" if self.attempt else "",
        }
        return {name: id for name, id in ids.items() if id}


def context_event(kind: EventClass, ids: Ids, subject: str = "", **data: Any) -> Record:
    """An event about the record that `subject` names; `data` holds counts and ids, no text of anybody's."""
    told = {"subject": subject} if subject else {}
    run = {"run": ids.turn} if ids.turn else {}
    return {"type": kind, **run, **ids.as_json(), **told, **({"data": data} if data else {}), "ctx": {}}


def stages_of(records: Sequence[Record], ids: Ids, *, sends: bool = True) -> list[Record]:
    """The events of records that were written together, in their order.

    `ids` are those of the turn and of its last request until then; `sends` is whether its mode sends what is assembled.
    """
    told: list[Record] = []
    for done in _of(records, "done"):
        told += _injected(ids, done) if sends and was_taken(done) else ()
    told += _moved(ids, [move for event in _of(records, "evolution") for move in event["moves"]])
    told += _changed(ids, [each for event in _of(records, *_CHANGING) for each in event.get("operations", ())])
    told += _granted(ids, [event["action"] for event in _of(records, "working_set") if event["granted"]])
    for event in _of(records, "start", "repack", "done"):
        told += _redacted(ids, event.get("redaction") or {})
    for event in _of(records, "start", "repack"):
        told += _packed(ids, event) if "sent" in event else ()
    for event in _of(records, "resources"):
        told += _handed_out(ids._replace(attempt=event["attempt"]), event)
    return told


def session_stages_of(records: Iterable[Record], session: str) -> list[Record]:
    """The events of records that were written outside of turns."""
    ids = Ids(session)
    return [
        context_event(kind, ids, **({"messages": event["source"]} if "source" in event else {"request": event["type"]}))
        for event in records
        if "run" not in event
        for kind in _OUTSIDE.get(event["type"], ())
    ]


def was_taken(done: Record) -> bool:
    """Whether a provider took the request of a turn with this end; one that refused it before a word did not."""
    taken = done.get("taken")
    return taken if isinstance(taken, bool) else bool(done.get("response_id")) or done.get("status") == "ok"


def _of(records: Iterable[Record], *kinds: str) -> list[Record]:
    return [record for record in records if record.get("type") in kinds and "run" in record]


def _packed(ids: Ids, event: Record) -> list[Record]:
    """What the stages that make a request did; that of another request of the same turn updates its surface."""
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


def _injected(ids: Ids, done: Record) -> list[Record]:
    """That a provider took what was assembled, and what it calls it; messages know nothing of such names."""
    known = {"response_id": done.get("response_id", ""), **tokens_taken(done.get("usage") or {})}
    known["tool_call_ids"] = done.get("tool_call_ids", [])
    model_api = {name: value for name, value in known.items() if value not in ("", [])}
    assembly = f"assembly-{ids.turn}.{ids.attempt}"
    return [context_event("context.injection.applied", ids, assembly, target="model", model_api=model_api)]


def _handed_out(ids: Ids, event: Record) -> list[Record]:
    """That somebody beside the model was given what is for them."""
    named = {"tool_call_id": event["tool_call_id"]} if event.get("tool_call_id") else {}
    return [{**context_event("context.injection.applied", ids, target=event["target"]), **named}]


def _changed(ids: Ids, operations: Iterable[Record]) -> list[Record]:
    """What became of memory, by numbers: what it says is told where the operations are."""
    kinds = Counter(operation["kind"] for operation in operations)
    return [context_event(_CHANGES[kind], ids, memory_operation=kind, count=count) for kind, count in kinds.items()]


def _moved(ids: Ids, moves: Sequence[Any]) -> list[Record]:
    """That items of memory changed their tiers since the last turn."""
    return [context_event("context.item.updated", ids, memory_operation="decay", count=len(moves))] if moves else []


def _granted(ids: Ids, actions: Iterable[str]) -> list[Record]:
    """What became of the working set."""
    counts = Counter(actions)
    kinds = {action: _GRANTED.get(action, "context.item.updated") for action in counts}
    return [context_event(kinds[action], ids, working_set=action, count=count) for action, count in counts.items()]


def _redacted(ids: Ids, told: Record) -> list[Record]:
    """That a policy found something in what came in, or in the answer."""
    data = {name: told[name] for name in ("policy", "found", "method") if name in told}
    return [context_event("context.redaction.applied", ids, **data)] if told.get("found") else []


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
