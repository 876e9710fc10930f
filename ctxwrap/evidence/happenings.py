"""What happened to context beside the packs: what was summed up, and the events of it all."""

import re
from collections.abc import Container, Iterable, Mapping
from typing import Any, NamedTuple

from pydantic import JsonValue

from ctxwrap.evidence.document import digest
from ctxwrap.evidence.forms import VERSION
from ctxwrap.evidence.mapping import visibility_of
from ctxwrap.evidence.objects import Compaction, Event, Item, Summary
from ctxwrap.evidence.placing import FORGETTING, Sees, redaction
from ctxwrap.evidence.reading import Told, Turn, time_of
from ctxwrap.evidence.vocabulary import EventType
from ctxwrap.inspection.reading import control_in, round_in, text_in
from ctxwrap.records import count_in, message_range
from ctxwrap.session.redaction import FORGOTTEN
from ctxwrap.stages.events import STAGES
from ctxwrap.stages.missing import RESOLVED
from ctxwrap.types import Record

_KEPT = "The messages stay in the log; what the summary does not say is not sent in their place."


class Compacted(NamedTuple):
    """A summary, the messages it is of, and the text if it may be seen."""

    compaction: Compaction
    summary: Summary
    sources: Item
    contents: Mapping[str, str]
    events: tuple[Record, ...] = ()
    """What the log says of how it came about."""


def compacted(event: Record, visibility: Iterable[str], sees: Sees, events: Iterable[Record] = ()) -> Compacted:
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
    happened = tuple(each for each in events if text_in(each.get("data") or {}, "messages") == span)
    return Compacted(compaction, summary, sources, {digest(text): text} if is_told else {}, happened)


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
    """The events of one context, numbered as they come: those of the log, as far as they tell of its records."""

    def __init__(self, ids: Ids) -> None:
        self._ids = ids
        self.all: list[Event] = []

    def add(
        self, kind: EventType, time: str, subject: str = "", *, attempt: str = "", tool_call: str = "", **data: Any
    ) -> None:
        policies = (FORGETTING,) if kind == "context.redaction.applied" and "request" in data else ()
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
                tool_call_id=tool_call,
                data=data,
                policy_refs=policies,
            )
        )

    def add_logged(self, events: Iterable[Record], subjects: Container[str] = (), subject: str = "") -> None:
        """Events of the log: about those of `subjects` that they name, or else about `subject`."""
        for event in events:
            kind, named = text_in(event, "type"), text_in(event, "subject")
            if kind in STAGES:
                about = named if named in subjects else subject
                ids = {"attempt": text_in(event, "attempt_id"), "tool_call": text_in(event, "tool_call_id")}
                self.add(kind, time_of(event), about, **ids, **_data(event))

    def add_missing(self, event: Record, subject: str) -> None:
        """What the log says happened to something that is missing; of words nothing is told."""
        data = event.get("data") or {}
        told = {name: data[name] for name in ("severity", "requested_from") if data.get(name)}
        ended = {"settled_as": data["status"]} if event["type"] == RESOLVED and data.get("status") else {}
        self.add(event["type"], time_of(event), subject, **told, **ended)

    def add_compaction(self, each: Compacted) -> None:
        for subject, kinds in ((each.compaction.compaction_id, _COMPACTION), (each.summary.summary_id, _SUMMARY)):
            self.add_logged([event for event in each.events if event["type"] in kinds], subject=subject)


_COMPACTION = ("context.compaction.started", "context.compaction.completed")
_SUMMARY = ("context.summary.created",)
COMPACTING = (*_COMPACTION, *_SUMMARY)

_NUMBERS = ("candidates", "selected", "omitted", "limit", "fixed", "used", "count")
_WORDS = ("target", "memory_operation", "working_set", "messages", "request", "method")


def _data(event: Record) -> dict[str, Any]:
    """What an event tells in numbers and words of ours; a log may come from anybody, and hold other words."""
    data = event.get("data")
    numbers = {name: count for name in _NUMBERS if (count := count_in(data, name)) is not None}
    words = {name: word for name in _WORDS if _WORD.fullmatch(word := text_in(data or {}, name))}
    return {**numbers, **words}


_WORD = re.compile(r"[a-z_:0-9-]{1,40}")
