"""Lifecycle events of context, compactions, and missing context."""

import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pydantic import JsonValue

from ctxwrap.export.evidence.delivery import FORGETTING, Sees, redaction
from ctxwrap.export.evidence.document import digest
from ctxwrap.export.evidence.history import LoggedTurn, SessionHistory, time_of
from ctxwrap.export.evidence.items import visibility_of
from ctxwrap.export.evidence.objects import CandidateSource, Compaction, Event, Item, Summary
from ctxwrap.export.evidence.objects import Missing as MissingRecord
from ctxwrap.export.evidence.projection import Projection
from ctxwrap.export.evidence.vocabulary import VERSION, EventType
from ctxwrap.inspect.streams import control_in, round_in, text_in
from ctxwrap.pack.receipt import STAGES
from ctxwrap.session.missing import CLASSES, MODEL, RESOLVED, changed_by, is_open
from ctxwrap.session.redaction import FORGOTTEN
from ctxwrap.stores.log_format import count_in, message_range, turn_in
from ctxwrap.types import MissingContext, Record

_KEPT = "The messages stay in the log; what the summary does not say is not sent in their place."


class CompactionSource(NamedTuple):
    """A summary, the messages it is of, and the text if it may be seen."""

    compaction: Compaction
    summary: Summary
    sources: Item
    contents: Mapping[str, str]
    events: tuple[Record, ...] = ()
    """What the log says of how it came about."""


def compactions_of(
    event: Record, visibility: Iterable[str], sees: Sees, events: Iterable[Record] = ()
) -> CompactionSource:
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
    return CompactionSource(compaction, summary, sources, {digest(text): text} if is_told else {}, happened)


class LifecycleIds(NamedTuple):
    """Whose events these are, by the ids that the runtime has for it all."""

    context: str
    session: str
    turn: str = ""
    task: str = ""

    def fields(self, attempt: str = "") -> dict[str, Any]:
        thread = {"session_id": self.session, "thread_id": self.session}
        return {**thread, "turn_id": self.turn, "task_id": self.task, "run_id": self.turn, "attempt_id": attempt}


def ids_of(told: SessionHistory, turn: LoggedTurn) -> LifecycleIds:
    """A round is a task: what a user asked for, however many turns it takes."""
    rounds = [number for event in turn.events if (number := round_in(event))]
    task = f"round-{rounds[0]}" if rounds else ""
    return LifecycleIds(f"context-{turn.id}", told.key.session, turn.id, task)


class Events:
    """The events of one context, numbered as they come: those of the log, as far as they tell of its records."""

    def __init__(self, ids: LifecycleIds) -> None:
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

    def add_compaction(self, each: CompactionSource) -> None:
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


_UNTOLD = "A question of the model's, which is not for this target to see."


@dataclass(slots=True)
class MissingEntry:
    """Something that is or was missing, and what happened to it."""

    value: MissingContext
    events: list[Record] = field(default_factory=list)
    turns: list[str] = field(default_factory=list)
    """In which it was missing, or something happened to it."""

    @property
    def id(self) -> str:
        """By the event that first told of it: what the log calls it is made of its words."""
        control = control_in(self.events[0])
        return f"missing-{text_in(control, 'id') or control.get('seq')}"


@dataclass(frozen=True, slots=True)
class MissingLedger:
    all: tuple[MissingEntry, ...] = ()

    def of(self, turn: str) -> list[MissingEntry]:
        return [each for each in self.all if turn in each.turns]

    def happened(self, turn: str) -> Iterator[tuple[Record, str]]:
        """The events of a turn with the ids of the records they are about, in the order of the log."""
        yield from self._where(lambda event: turn_in(event) == turn)

    def outside(self, turns: Iterable[str]) -> Iterator[tuple[Record, str]]:
        """What happened outside of these turns: somebody settled it by hand."""
        known = set(turns)
        yield from self._where(lambda event: turn_in(event) not in known)

    def _where(self, holds: Callable[[Record], bool]) -> Iterator[tuple[Record, str]]:
        found = [(event, each.id) for each in self.all for event in each.events if holds(event)]
        yield from sorted(found, key=lambda pair: control_in(pair[0]).get("seq", 0))


def missing_ledger(told: SessionHistory, turns: Sequence[LoggedTurn], *, whole: bool) -> MissingLedger:
    """What was missing in these turns; for a whole session, with all that happened since."""
    wanted = {turn.id for turn in turns}
    last = max((control_in(event).get("seq", 0) for turn in turns for event in turn.events), default=0)
    known, now_open = dict[str, MissingEntry](), dict[str, MissingEntry]()
    for event in told.events:
        if not whole and control_in(event).get("seq", 0) > last:
            break
        lack, turn = _followed(known, event), turn_in(event)
        now_open |= {lack.value.id: lack} if lack else {}
        for each in now_open.values() if turn in wanted else ():
            each.turns += [turn] if turn not in each.turns[-1:] else []
        if lack and not is_open(lack.value):
            del now_open[lack.value.id]
    return MissingLedger(tuple(each for each in known.values() if whole or each.turns))


def _followed(known: dict[str, MissingEntry], event: Record) -> MissingEntry | None:
    id = text_in(event, "subject")
    if event.get("type") not in CLASSES or not id:
        return None
    lack = known.get(id)
    value = changed_by(event, lack.value if lack else None)
    if value is None:
        return None
    lack = known.setdefault(id, MissingEntry(value))
    lack.value = value
    lack.events.append(event)
    return lack


def record_of(lack: MissingEntry, sees: Sees, refs: tuple[str, ...]) -> MissingRecord:
    """As a target may see it: the words of a model are for those who may see what the model does."""
    value, is_question = lack.value, lack.value.source == MODEL
    is_told = not is_question or sees(visibility_of(("model",)))
    summary = "The model asked something." if is_question else "A source was not available, or not all of it."
    action = value.remedy if not is_question else "answer it"
    return MissingRecord(
        **VERSION,
        missing_id=lack.id,
        scope="session" if is_question else "turn",
        question=value.question if is_told and value.question else _UNTOLD,
        needed_for=value.needed_for if is_told else "",
        severity=value.severity,
        candidate_sources=() if is_question else (CandidateSource(uri=value.source, note=value.reason),),
        blocked_actions=value.blocked_actions if is_told else (),
        requested_from=value.requested_from,
        status=value.status,
        resolution_refs=refs if value.status == "resolved" else (),
        created_at=time_of(lack.events[0]),
        metadata={
            "owner": value.requested_from or "user",
            "requested_action": action,
            "safe_summary": summary,
        },
    )


def resolution_of(
    lack: MissingEntry, made: Mapping[str, Sequence[Projection]], contexts: Mapping[str, str]
) -> tuple[str, ...]:
    """By what it was resolved: the item that shows its source again, else the context in which that happened."""
    turn = turn_in(lack.events[-1])
    items = (each for projection in made.get(turn, ()) for each in projection.placed if each.thing.item.included)
    found = next((each.id for each in items if each.thing.uri == lack.value.source), None)
    return (found or contexts.get(turn) or next(iter(contexts.values())),)
