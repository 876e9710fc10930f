"""Envelopes: the evidence of a turn or a whole session, as one target may see it, in one document."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from pydantic import ValidationError

from ctxwrap.errors import NotFound, SettingsError, StoreCorrupt, unknown_name
from ctxwrap.export.evidence.delivery import POLICIES, as_seen_by
from ctxwrap.export.evidence.document import Evidence
from ctxwrap.export.evidence.history import LoggedTurn, SessionHistory, load_history, time_of
from ctxwrap.export.evidence.imports import imported_evidence
from ctxwrap.export.evidence.lifecycle import (
    COMPACTING,
    CompactionSource,
    Events,
    LifecycleIds,
    compactions_of,
    ids_of,
    missing_ledger,
    record_of,
    resolution_of,
)
from ctxwrap.export.evidence.objects import Envelope, Missing, RuntimeRef
from ctxwrap.export.evidence.projection import Projection, projected
from ctxwrap.export.evidence.vocabulary import EXPORT, TARGETS, VERSION, Lifecycle, TargetName
from ctxwrap.inspect.streams import control_in, text_in
from ctxwrap.inspect.turns import named
from ctxwrap.session.clock import utc_now
from ctxwrap.session.lookup import StoreLike, key_for
from ctxwrap.stores import given_store
from ctxwrap.stores.base import Files
from ctxwrap.stores.log_format import timestamp
from ctxwrap.types import Record

PRODUCER = "ctxwrap"


def envelope_of(
    session: str,
    *,
    turn: int | str | None = None,
    target: str = EXPORT,
    store: StoreLike = None,
    tenant: str = "default",
    agent: str = "default",
    now: datetime | None = None,
) -> Evidence:
    """The evidence of a turn, by its number or id, or of the whole session, as `target` may see it.

    A session that was imported as evidence gives what was imported, to whom it was exported for and nobody else. A
    NotFound if there is no such session or turn.
    """
    if target not in TARGETS:
        raise unknown_name("target", target, TARGETS)
    place, key = given_store(store), key_for(session, tenant, agent)
    known = load_history(place, key)
    if not known.ids and turn is None:
        return _imported(known, place.open(key).files, target)
    numbers = range(1, len(known.ids) + 1) if turn is None else [named(known.ids, turn, key)[0]]
    try:
        return _Composing(known, target, numbers, whole=turn is None).document(now or utc_now())
    except (ValidationError, LookupError, TypeError, ValueError) as error:
        raise StoreCorrupt(f"session {session!r} has a record that makes no evidence: {error}") from error


def _imported(known: SessionHistory, files: Files, target: TargetName) -> Evidence:
    evidence, session = imported_evidence(known.events, files), known.key.session
    if evidence is None:
        raise NotFound(f"session {session!r} has no turn yet, and so no evidence")
    if evidence.target != target:
        raise SettingsError(
            f"the evidence in session {session!r} is for {evidence.target}, not for {target}: "
            f"ask for it with target={evidence.target!r} (--target)"
        )
    return evidence


class _Composing:
    def __init__(self, known: SessionHistory, target: TargetName, numbers: Sequence[int], *, whole: bool) -> None:
        self.known, self.target, self.whole = known, target, whole
        self.sees = as_seen_by(target)
        self.turns = list(known.turns(numbers))
        self.made = {
            turn.id: [projected(known, turn, attempt, self.sees) for attempt in turn.attempts] for turn in self.turns
        }
        self.compactions = self._compactions()
        self.lacks = missing_ledger(known, self.turns, whole=whole)

    @property
    def attempts(self) -> list[Projection]:
        return [made for turn in self.turns for made in self.made[turn.id]]

    def document(self, now: datetime) -> Evidence:
        envelopes, events = list[Envelope](), list[Events]()
        for turn in self.turns:
            happened = self._events(turn)
            events.append(happened)
            envelopes.append(self._envelope(turn, happened))
        if self.whole:
            session = self._session_events()
            events.append(session)
            envelopes.append(self._session_envelope(envelopes, session))
        root = envelopes[-1]
        events[-1].add("context.exported", timestamp(now), root.context_id, target=self.target)
        refs = (*root.evidence_refs, events[-1].all[-1].event_id)
        envelopes[-1] = root.model_copy(update={"evidence_refs": refs})
        return self._evidence(envelopes[::-1], events)

    def _evidence(self, envelopes: Sequence[Envelope], events: Sequence[Events]) -> Evidence:
        attempts, compactions = self.attempts, list(self.compactions.values())
        sources = {source.source_id: source for made in attempts for source in made.sources}
        contents = [made.contents for made in attempts] + [each.contents for each in compactions]
        return Evidence(
            target=self.target,
            root=envelopes[0].context_id,
            envelopes=tuple(envelopes),
            surfaces=tuple(made.surface for made in attempts if made.surface),
            items=(*(item for made in attempts for item in made.items), *(each.sources for each in compactions)),
            source_refs=tuple(sources.values()),
            selections=tuple(each for made in attempts for each in made.selections),
            budgets=tuple(made.budget for made in attempts if made.budget),
            windows=tuple(made.window for made in attempts if made.window),
            assemblies=tuple(each for made in attempts for each in made.assemblies),
            injections=tuple(each for made in attempts for each in made.all_injections),
            compactions=tuple(each.compaction for each in compactions),
            summaries=tuple(each.summary for each in compactions),
            missing_context=tuple(self._missing()),
            events=tuple(event for each in events for event in each.all),
            policies=POLICIES,
            contents={name: text for each in contents for name, text in each.items()},
        )

    def _compactions(self) -> dict[str, CompactionSource]:
        """The summaries that stood in a pack, or all of them for a session; who may see them all may see each."""
        visibility = {id: set(TARGETS) for turn in self.turns if (id := self._summed_up(turn))}
        for turn in self.turns:
            for each in (
                each for made in self.made[turn.id] for each in made.placed if each.thing.item.kind == "summary"
            ):
                visibility.get(self._summed_up(turn), set()).intersection_update(each.visibility)
        found, events = {}, self.known.outside(*COMPACTING)
        for event in self.known.outside("summary"):
            id = text_in(control_in(event), "id")
            if self.whole or id in visibility:
                found[id] = compactions_of(event, visibility.get(id, ("model",)), self.sees, events)
        return found

    def _summed_up(self, turn: LoggedTurn) -> str:
        """The id of the summary that a turn's packs could show, if they could."""
        has_one = any(each.thing.item.kind == "summary" for made in self.made[turn.id] for each in made.placed)
        return text_in(control_in(turn.summary), "id") if turn.summary and has_one else ""

    def _compacted(self, turn: LoggedTurn) -> list[CompactionSource]:
        return [found] if (found := self.compactions.get(self._summed_up(turn))) else []

    def _missing(self) -> Iterator[Missing]:
        contexts = {"": self._session.context} if self.whole else {}
        contexts |= {turn.id: ids_of(self.known, turn).context for turn in self.turns}
        for each in self.lacks.all:
            yield record_of(each, self.sees, resolution_of(each, self.made, contexts))

    def _events(self, turn: LoggedTurn) -> Events:
        events = Events(ids_of(self.known, turn))
        events.add_logged(turn.events, {id for made in self.made[turn.id] for id in made.ids})
        for event, subject in self.lacks.happened(turn.id):
            events.add_missing(event, subject)
        for each in self._compacted(turn):
            events.add_compaction(each)
        return events

    def _envelope(self, turn: LoggedTurn, events: Events) -> Envelope:
        ids, made, compactions = ids_of(self.known, turn), self.made[turn.id], self._compacted(turn)
        items = [each.id for projection in made for each in projection.placed]
        budgets = [projection.budget.budget_id for projection in made if projection.budget]
        return Envelope(
            **VERSION,
            context_id=ids.context,
            scope="turn",
            lifecycle=_lifecycle(made),
            created_at=turn.attempts[0].time if turn.attempts else time_of(turn.events[0]),
            producer=PRODUCER,
            **ids.fields(turn.attempts[-1].id if turn.attempts else ""),
            runtime_refs=self._runtime(ids, [attempt.id for attempt in turn.attempts]),
            surface_refs=tuple(each.surface.surface_id for each in made if each.surface),
            item_refs=(*items, *(each.sources.item_id for each in compactions)),
            selection_refs=tuple(each.selection_id for projection in made for each in projection.selections),
            budget_ref=budgets[-1] if budgets else None,
            window_refs=tuple(each.window.window_id for each in made if each.window),
            assembly_refs=tuple(each.assembly_id for projection in made for each in projection.assemblies),
            injection_refs=tuple(each.injection_id for projection in made for each in projection.all_injections),
            compaction_refs=tuple(each.compaction.compaction_id for each in compactions),
            summary_refs=tuple(each.summary.summary_id for each in compactions),
            missing_context_refs=tuple(each.id for each in self.lacks.of(turn.id)),
            policy_refs=tuple(POLICIES),
            evidence_refs=tuple(event.event_id for event in events.all),
            metadata={"number": turn.number, "mode": _mode(turn)},
        )

    def _runtime(self, ids: LifecycleIds, attempts: Sequence[str]) -> tuple[RuntimeRef, ...]:
        key = self.known.key
        known: list[tuple[Any, str]] = [("tenant", key.tenant), ("agent", key.agent), ("session", key.session)]
        known += [("turn", ids.turn), ("task", ids.task), ("run", ids.turn), *(("attempt", each) for each in attempts)]
        return tuple(RuntimeRef(kind=kind, id=id) for kind, id in known if id)

    @property
    def _session(self) -> LifecycleIds:
        return LifecycleIds(f"context:{self.known.key.session}", self.known.key.session)

    def _session_events(self) -> Events:
        """What happened to the session outside of its turns."""
        events, used = Events(self._session), {self._summed_up(turn) for turn in self.turns}
        for id, each in self.compactions.items():
            if id not in used:
                events.add_compaction(each)
        forgetting = [event for event in self.known.outside("context.redaction.applied") if "run" not in event]
        events.add_logged(forgetting)
        for event, subject in self.lacks.outside(turn.id for turn in self.turns):
            events.add_missing(event, subject)
        return events

    def _session_envelope(self, turns: Sequence[Envelope], events: Events) -> Envelope:
        compactions = self.compactions.values()
        return Envelope(
            **VERSION,
            context_id=self._session.context,
            scope="session",
            lifecycle="injected" if any(each.lifecycle == "injected" for each in turns) else "available",
            created_at=turns[0].created_at,
            producer=PRODUCER,
            **self._session.fields(),
            runtime_refs=self._runtime(self._session, ()),
            item_refs=tuple(each.sources.item_id for each in compactions),
            compaction_refs=tuple(each.compaction.compaction_id for each in compactions),
            summary_refs=tuple(each.summary.summary_id for each in compactions),
            missing_context_refs=tuple(each.id for each in self.lacks.all if not each.turns),
            policy_refs=tuple(POLICIES),
            evidence_refs=(*(each.context_id for each in turns), *(event.event_id for event in events.all)),
        )


def _lifecycle(made: Sequence[Projection]) -> Lifecycle:
    if any(each.injections for each in made):
        return "injected"
    return "assembled" if any(each.assembly for each in made) else "available"


def _mode(turn: LoggedTurn) -> str:
    event: Record = turn.attempts[0].event if turn.attempts else {}
    return text_in(event, "mode")
