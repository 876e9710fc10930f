"""What happened to context beside the packs: what was summed up, and the events of it all."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from pydantic import JsonValue

from ctxwrap.evidence.document import digest
from ctxwrap.evidence.forms import VERSION
from ctxwrap.evidence.mapping import visibility_of
from ctxwrap.evidence.objects import Compaction, Event, Item, Summary
from ctxwrap.evidence.placing import FORGETTING, Sees, redaction
from ctxwrap.evidence.projecting import Projection
from ctxwrap.evidence.reading import Told, Turn, time_of
from ctxwrap.evidence.vocabulary import EventType
from ctxwrap.inspection.reading import control_in, round_in, text_in
from ctxwrap.records import message_range
from ctxwrap.session.redaction import FORGOTTEN
from ctxwrap.stages.missing import RESOLVED
from ctxwrap.types import Record

_KEPT = "The messages stay in the log; what the summary does not say is not sent in their place."


class Compacted(NamedTuple):
    """A summary, the messages it is of, and the text if it may be seen."""

    compaction: Compaction
    summary: Summary
    sources: Item
    contents: Mapping[str, str]


def compacted(event: Record, visibility: Iterable[str], sees: Sees) -> Compacted:
    """A summary that a model wrote: the log says of which messages."""
    id, time, text = text_in(control_in(event), "id"), time_of(event), text_in(event, "text")
    span, targets = text_in(event, "source"), visibility_of(visibility)
    first, last = message_range(span)
    is_gone, may_see = text == FORGOTTEN, sees(targets)
    is_told = may_see and not is_gone
    coverage: dict[str, JsonValue] = {"messages": f"{first}-{last}", "first": first, "last": last}
    sources = Item(
        **VERSION,
        item_id=f"item-{id}-sources",
        context_kind="session_history",
        content_mode="opaque",
        visibility=targets,
        created_at=time,
        metadata=coverage,
    )
    summary = Summary(
        **VERSION,
        summary_id=f"summary-{id}",
        summary_kind="thread_summary",
        content_ref=digest(text) if is_told else None,
        source_item_refs=(sources.item_id,),
        coverage=coverage,
        loss_notes=(_KEPT,),
        freshness={"message": last},
        validation="none: what a model wrote is not checked against its sources",
        refresh_policy="a new one when enough was said since",
        visibility=targets,
        created_at=time,
        metadata={"model": text_in(event, "model"), "trust_level": text_in(event, "origin")},
        **redaction(is_gone=is_gone, is_hidden=not may_see),
    )
    compaction = Compaction(
        **VERSION,
        compaction_id=f"compaction-{id}",
        scope="session",
        source_item_refs=(sources.item_id,),
        summary_ref=summary.summary_id,
        method="rolling_summary",
        trigger="session_length",
        coverage=coverage,
        loss_notes=(_KEPT,),
        replacement_policy="sources_kept",
        created_at=time,
    )
    return Compacted(compaction, summary, sources, {digest(text): text} if is_told else {})


class Ids(NamedTuple):
    """Whose events these are, by the ids that the runtime has for it all."""

    context: str
    session: str
    turn: str = ""
    task: str = ""

    def fields(self, attempt: str = "") -> dict[str, Any]:
        thread = {"session_id": self.session, "thread_id": self.session}
        return {**thread, "turn_id": self.turn, "task_id": self.task, "run_id": self.turn, "attempt_id": attempt}


def ids_of(told: Told, turn: Turn) -> Ids:
    """A round is a task: what a user asked for, however many turns it takes."""
    rounds = [number for event in turn.events if (number := round_in(event))]
    task = f"round-{rounds[0]}" if rounds else ""
    return Ids(f"context-{turn.id}", told.key.session, turn.id, task)


class Events:
    """Events of one context, numbered as they come."""

    def __init__(self, ids: Ids) -> None:
        self._ids = ids
        self.all: list[Event] = []

    def add(self, kind: EventType, time: str, subject: str = "", *, attempt: str = "", **data: Any) -> None:
        policies = (FORGETTING,) if kind == "context.redaction.applied" else ()
        self.all.append(
            Event(
                **VERSION,
                event_id=f"event-{self._ids.context}-{len(self.all) + 1}",
                event_type=kind,
                source="ctxwrap",
                subject=subject,
                time=time,
                context_id=self._ids.context,
                **self._ids.fields(attempt),
                data=data,
                policy_refs=policies,
            )
        )

    def add_attempt(self, made: Projection, time: str) -> None:
        if made.surface is not None:
            self.add("context.surface.created", time, made.surface.surface_id, attempt=made.id)
        if made.selection is not None:
            selection = made.selection
            self.add("context.selection.completed", time, selection.selection_id, attempt=made.id, **_counts(made))
        if made.budget is not None:
            self.add("context.budget.applied", time, made.budget.budget_id, attempt=made.id)
        if made.assembly is not None:
            self.add("context.assembly.created", time, made.assembly.assembly_id, attempt=made.id)
        for injection in made.injections:
            self.add("context.injection.applied", time, injection.injection_id, attempt=made.id)

    def add_changes(self, turn: Turn) -> None:
        """What a turn did to memory and files, by numbers: what was said there is not told."""
        for event in turn.events:
            kinds = Counter(str(each["kind"]) for each in event.get("operations") or ())
            for kind, count in kinds.items():
                self.add(_CHANGES.get(kind, "context.item.updated"), time_of(event), memory_operation=kind, count=count)
            if event.get("type") == "working_set" and event.get("granted") is True:
                self.add(_ASKED.get(str(event.get("action")), "context.item.updated"), time_of(event))

    def add_missing(self, event: Record, subject: str) -> None:
        """What the log says happened to something that is missing; of words nothing is told."""
        data = event.get("data") or {}
        told = {name: data[name] for name in ("severity", "requested_from") if data.get(name)}
        ended = {"settled_as": data["status"]} if event["type"] == RESOLVED and data.get("status") else {}
        self.add(event["type"], time_of(event), subject, **told, **ended)

    def add_compaction(self, each: Compacted) -> None:
        self.add("context.compaction.completed", each.compaction.created_at, each.compaction.compaction_id)
        self.add("context.summary.created", each.summary.created_at, each.summary.summary_id)


_CHANGES: dict[str, EventType] = {
    "add": "context.item.added",
    "drop": "context.item.removed",
    "forget": "context.redaction.applied",
}
_ASKED: dict[str, EventType] = {"add": "context.item.added", "remove": "context.item.removed"}


def _counts(made: Projection) -> dict[str, int]:
    chosen = sum(each.thing.item.included for each in made.placed)
    return {"selected": chosen, "omitted": len(made.placed) - chosen}
