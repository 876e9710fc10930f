"""What happens to context, as events of the log: the classes that Agent Context has for it, with the runtime's ids."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Literal, NamedTuple, get_args

from ctxwrap.stages.injection import tokens_taken
from ctxwrap.types import Operation, PackItem, Record, Reply

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
"""Those that tell by numbers what other events of the log tell at length; what is missing is told nowhere else."""


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


def packed(ids: Ids, items: Sequence[PackItem], budget: Record) -> list[Record]:
    """What the stages that make a request did; that of another request of the same turn updates its surface."""
    id, chosen = f"{ids.turn}.{ids.attempt}", sum(item.included for item in items)
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


def injected(ids: Ids, reply: Reply) -> list[Record]:
    """That a provider took what was assembled, and what it calls it; messages know nothing of such names."""
    calls = [call["id"] for message in reply.messages for call in message.tool_calls if call.get("id")]
    taken = tokens_taken(reply.usage)
    known = {"response_id": reply.response_id, **taken, "tool_call_ids": calls}
    model_api = {name: value for name, value in known.items() if value not in ("", [])}
    assembly = f"assembly-{ids.turn}.{ids.attempt}"
    return [context_event("context.injection.applied", ids, assembly, target="model", model_api=model_api)]


def handed_out(ids: Ids, target: str, tool_call: str) -> list[Record]:
    """That somebody beside the model was given what is for them."""
    named = {"tool_call_id": tool_call} if tool_call else {}
    return [{**context_event("context.injection.applied", ids, target=target), **named}]


def changed(ids: Ids, operations: Iterable[Operation]) -> list[Record]:
    """What became of memory, by numbers: what it says is told where the operations are."""
    kinds = Counter(operation.kind for operation in operations)
    return [context_event(_CHANGES[kind], ids, memory_operation=kind, count=count) for kind, count in kinds.items()]


def moved(ids: Ids, count: int) -> list[Record]:
    """That items of memory changed their tiers since the last turn."""
    return [context_event("context.item.updated", ids, memory_operation="decay", count=count)] if count else []


def granted(ids: Ids, actions: Iterable[str]) -> list[Record]:
    """What became of the working set."""
    counts = Counter(actions)
    kinds = {action: _GRANTED.get(action, "context.item.updated") for action in counts}
    return [context_event(kinds[action], ids, working_set=action, count=count) for action, count in counts.items()]


def redacted(ids: Ids, evidence: Record) -> list[Record]:
    """That a policy found something in what came in, or in the answer."""
    told = evidence.get("redaction") or {}
    data = {name: told[name] for name in ("policy", "found", "method") if name in told}
    return [context_event("context.redaction.applied", ids, **data)] if told.get("found") else []


_CHANGES: dict[str, EventClass] = {
    "add": "context.item.added",
    "update": "context.item.updated",
    "reinforce": "context.item.updated",
    "drop": "context.item.removed",
    "forget": "context.item.removed",
}
_GRANTED: dict[str, EventClass] = {"add": "context.item.added", "remove": "context.item.removed"}
