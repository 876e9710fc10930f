"""Builds the events, compactions and missing-context records of a document from the log."""

import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pydantic import JsonValue

from ctxwrap.export.evidence.delivery import FORGETTING, MaySee, redaction
from ctxwrap.export.evidence.document import digest
from ctxwrap.export.evidence.history import LoggedTurn, SessionHistory, read_time
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

_LOSS_NOTE = "The messages stay in the log; what the summary does not say is not sent in their place."


class CompactionSource(NamedTuple):
    """A summary, the messages it covers, and its text if the target may see it."""

    compaction: Compaction
    summary: Summary
    sources: Item
    contents: Mapping[str, str]
    events: tuple[Record, ...] = ()
    """Logged events about the summary."""


def build_compaction(
    event: Record, visibility: Iterable[str], may_see: MaySee, events: Iterable[Record] = ()
) -> CompactionSource:
    """Build the records of a model-written summary from its logged event."""
    id, time, text = text_in(control_in(event), "id"), read_time(event), text_in(event, "text")
    span, targets = text_in(event, "source"), visibility_of(visibility)
    first, last = message_range(span)
    is_gone, is_hidden = text == FORGOTTEN, not may_see(targets)
    is_visible = not (is_gone or is_hidden)
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
        content_ref=digest(text) if is_visible else None,
        source_item_refs=(sources.item_id,),
        coverage=coverage,
        loss_notes=(_LOSS_NOTE,),
        freshness={"message": last},
        validation="none: what a model wrote is not checked against its sources",
        refresh_policy="a new one when enough was said since",
        visibility=targets,
        created_at=time,
        metadata={"model": text_in(event, "model"), "trust_level": text_in(event, "origin")},
        **redaction(is_gone=is_gone, is_hidden=is_hidden),
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
        loss_notes=(_LOSS_NOTE,),
        replacement_policy="sources_kept",
        created_at=time,
    )
    about = tuple(each for each in events if text_in(each.get("data") or {}, "messages") == span)
    return CompactionSource(compaction, summary, sources, {digest(text): text} if is_visible else {}, about)


class LifecycleIds(NamedTuple):
    """The runtime's ids of a turn or session."""

    context: str
    session: str
    turn: str = ""
    task: str = ""

    def fields(self, attempt: str = "") -> dict[str, Any]:
        thread = {"session_id": self.session, "thread_id": self.session}
        return {**thread, "turn_id": self.turn, "task_id": self.task, "run_id": self.turn, "attempt_id": attempt}


def find_ids(history: SessionHistory, turn: LoggedTurn) -> LifecycleIds:
    """Return the ids of a turn; its task is the round, which may take several turns."""
    rounds = [number for event in turn.events if (number := round_in(event))]
    task = f"round-{rounds[0]}" if rounds else ""
    return LifecycleIds(f"context-{turn.id}", history.key.session, turn.id, task)


class EnvelopeEvents:
    """The events of one envelope, numbered in the order they are added."""

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
        """Add logged events; an event's own subject counts if it is in `subjects`, else `subject`."""
        for event in events:
            kind, named = text_in(event, "type"), text_in(event, "subject")
            if kind in STAGES:
                about = named if named in subjects else subject
                ids = {"attempt": text_in(event, "attempt_id"), "tool_call": text_in(event, "tool_call_id")}
                self.add(kind, read_time(event), about, **ids, **_data(event))

    def add_missing(self, event: Record, subject: str) -> None:
        """Add a logged event about missing context, without the model's words."""
        data = event.get("data") or {}
        known = {name: data[name] for name in ("severity", "requested_from") if data.get(name)}
        outcome = {"settled_as": data["status"]} if event["type"] == RESOLVED and data.get("status") else {}
        self.add(event["type"], read_time(event), subject, **known, **outcome)

    def add_compaction(self, each: CompactionSource) -> None:
        for subject, kinds in (
            (each.compaction.compaction_id, _COMPACTION_EVENTS),
            (each.summary.summary_id, _SUMMARY_EVENTS),
        ):
            self.add_logged([event for event in each.events if event["type"] in kinds], subject=subject)


_COMPACTION_EVENTS = ("context.compaction.started", "context.compaction.completed")
_SUMMARY_EVENTS = ("context.summary.created",)
COMPACTION_EVENTS = (*_COMPACTION_EVENTS, *_SUMMARY_EVENTS)

_NUMBERS = ("candidates", "selected", "omitted", "limit", "fixed", "used", "count")
_WORDS = ("target", "memory_operation", "working_set", "messages", "request", "method")


def _data(event: Record) -> dict[str, Any]:
    """Return the counts and ctxwrap's own terms in an event; an imported log may contain other texts."""
    data = event.get("data")
    numbers = {name: count for name in _NUMBERS if (count := count_in(data, name)) is not None}
    words = {name: word for name in _WORDS if _WORD.fullmatch(word := text_in(data or {}, name))}
    return {**numbers, **words}


_WORD = re.compile(r"[a-z_:0-9-]{1,40}")


_HIDDEN_QUESTION = "A question of the model's, which is not for this target to see."


@dataclass(slots=True)
class MissingEntry:
    """Missing context and the events about it."""

    value: MissingContext
    events: list[Record] = field(default_factory=list)
    turns: list[str] = field(default_factory=list)
    """Turns in which it was open or had an event."""

    @property
    def id(self) -> str:
        """The id of its first event; the log's own id reveals the question's words."""
        control = control_in(self.events[0])
        return f"missing-{text_in(control, 'id') or control.get('seq')}"


@dataclass(frozen=True, slots=True)
class MissingLedger:
    all: tuple[MissingEntry, ...] = ()

    def of(self, turn: str) -> list[MissingEntry]:
        return [each for each in self.all if turn in each.turns]

    def events_in(self, turn: str) -> Iterator[tuple[Record, str]]:
        """Yield the events of a turn with the ids of their records, in the order of the log."""
        yield from self._select(lambda event: turn_in(event) == turn)

    def events_outside(self, turns: Iterable[str]) -> Iterator[tuple[Record, str]]:
        """Yield the events outside these turns, such as a resolution by hand."""
        known = set(turns)
        yield from self._select(lambda event: turn_in(event) not in known)

    def _select(self, holds: Callable[[Record], bool]) -> Iterator[tuple[Record, str]]:
        found = [(event, each.id) for each in self.all for event in each.events if holds(event)]
        yield from sorted(found, key=lambda pair: control_in(pair[0]).get("seq", 0))


def read_missing(history: SessionHistory, turns: Sequence[LoggedTurn], *, whole: bool) -> MissingLedger:
    """Read what was missing in these turns; for a whole session, with all later events."""
    wanted = {turn.id for turn in turns}
    last = max((control_in(event).get("seq", 0) for turn in turns for event in turn.events), default=0)
    known, now_open = dict[str, MissingEntry](), dict[str, MissingEntry]()
    for event in history.events:
        if not whole and control_in(event).get("seq", 0) > last:
            break
        entry, turn = _apply_event(known, event), turn_in(event)
        now_open |= {entry.value.id: entry} if entry else {}
        for each in now_open.values() if turn in wanted else ():
            each.turns += [turn] if turn not in each.turns[-1:] else []
        if entry and not is_open(entry.value):
            del now_open[entry.value.id]
    return MissingLedger(tuple(each for each in known.values() if whole or each.turns))


def _apply_event(known: dict[str, MissingEntry], event: Record) -> MissingEntry | None:
    id = text_in(event, "subject")
    if event.get("type") not in CLASSES or not id:
        return None
    entry = known.get(id)
    value = changed_by(event, entry.value if entry else None)
    if value is None:
        return None
    entry = known.setdefault(id, MissingEntry(value))
    entry.value = value
    entry.events.append(event)
    return entry


def build_missing(entry: MissingEntry, may_see: MaySee, refs: tuple[str, ...]) -> MissingRecord:
    """Build the record as a target may see it; a model's question is visible to targets that may see its context."""
    value, is_question = entry.value, entry.value.source == MODEL
    is_visible = not is_question or may_see(visibility_of(("model",)))
    summary = "The model asked something." if is_question else "A source was not available, or not all of it."
    action = value.remedy if not is_question else "answer it"
    return MissingRecord(
        **VERSION,
        missing_id=entry.id,
        scope="session" if is_question else "turn",
        question=value.question if is_visible and value.question else _HIDDEN_QUESTION,
        needed_for=value.needed_for if is_visible else "",
        severity=value.severity,
        candidate_sources=() if is_question else (CandidateSource(uri=value.source, note=value.reason),),
        blocked_actions=value.blocked_actions if is_visible else (),
        requested_from=value.requested_from,
        status=value.status,
        resolution_refs=refs if value.status == "resolved" else (),
        created_at=read_time(entry.events[0]),
        metadata={
            "owner": value.requested_from or "user",
            "requested_action": action,
            "safe_summary": summary,
        },
    )


def find_resolution(
    entry: MissingEntry, projections: Mapping[str, Sequence[Projection]], contexts: Mapping[str, str]
) -> tuple[str, ...]:
    """Return what resolved it: the item that includes its source, else the envelope of the turn that resolved it."""
    turn = turn_in(entry.events[-1])
    items = (
        each for projection in projections.get(turn, ()) for each in projection.candidates if each.record.item.included
    )
    found = next((each.id for each in items if each.record.uri == entry.value.source), None)
    return (found or contexts.get(turn) or next(iter(contexts.values())),)
