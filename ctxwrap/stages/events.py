"""What happens to context, as events of the log: the classes that Agent Context has for it, with the runtime's ids."""

from typing import Any, Literal, NamedTuple

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


def event(kind: EventClass, ids: Ids, subject: str = "", **data: Any) -> Record:
    """An event about the record that `subject` names; `data` holds counts and ids, no text of anybody's."""
    told = {"subject": subject} if subject else {}
    return {"type": kind, "run": ids.turn, **ids.as_json(), **told, **({"data": data} if data else {}), "ctx": {}}
