"""Envelopes: composes the evidence of a turn or session from its log, and imports evidence files of others."""

import logging
import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from pydantic import ValidationError

from ctxwrap.errors import InvalidArchive, NotFound, SettingsError, StoreCorrupt, StoreUnavailable, unknown_name
from ctxwrap.export.evidence.delivery import POLICIES, DocumentItem, visibility_filter
from ctxwrap.export.evidence.document import FORMAT, Evidence, read_evidence, require_consistent
from ctxwrap.export.evidence.history import LoggedTurn, SessionHistory, load_history, read_time
from ctxwrap.export.evidence.lifecycle import (
    COMPACTION_EVENTS,
    CompactionSource,
    EnvelopeEvents,
    LifecycleIds,
    build_compaction,
    build_missing,
    find_ids,
    find_resolution,
    read_missing,
)
from ctxwrap.export.evidence.objects import Envelope, Missing, RuntimeRef
from ctxwrap.export.evidence.projection import Projection, project
from ctxwrap.export.evidence.vocabulary import EXPORT_TARGET, TARGETS, VERSION, Lifecycle, TargetName
from ctxwrap.inspect.streams import control_in, text_in
from ctxwrap.inspect.turns import named
from ctxwrap.pack.receipt import EventIds, context_event
from ctxwrap.session.blobs import blobs_in, loaded
from ctxwrap.session.clock import new_turn_id, utc_now
from ctxwrap.session.lookup import StoreLike, key_for
from ctxwrap.session.session import Session
from ctxwrap.session.threads import defer_finalizers
from ctxwrap.session.verify.report import Verification, VerifyFinding
from ctxwrap.stores import resolve_store
from ctxwrap.stores.base import Files
from ctxwrap.stores.log_format import timestamp
from ctxwrap.types import Record, SessionKey

PRODUCER = "ctxwrap"

logger = logging.getLogger("ctxwrap")


def envelope_of(
    session: str,
    *,
    turn: int | str | None = None,
    target: str = EXPORT_TARGET,
    store: StoreLike = None,
    tenant: str = "default",
    agent: str = "default",
    now: datetime | None = None,
) -> Evidence:
    """Return the evidence of a turn, by its number or id, or of the whole session, as `target` may see it.

    An imported envelope is returned as it is, and only for the target it was exported for. Raises NotFound if there is
    no such session or turn.
    """
    if target not in TARGETS:
        raise unknown_name("target", target, TARGETS)
    place, key = resolve_store(store), key_for(session, tenant, agent)
    history = load_history(place, key)
    if not history.ids and turn is None:
        return _imported_for(target, history, place.open(key).files)
    numbers = range(1, len(history.ids) + 1) if turn is None else [named(history.ids, turn, key)[0]]
    try:
        return _Composer(history, target, numbers, whole=turn is None).document(now or utc_now())
    except (ValidationError, LookupError, TypeError, ValueError) as error:
        raise StoreCorrupt(f"session {session!r} has a record that cannot be exported as evidence: {error}") from error


def _imported_for(target: TargetName, history: SessionHistory, files: Files) -> Evidence:
    evidence, session = imported_evidence(history.events, files), history.key.session
    if evidence is None:
        raise NotFound(f"session {session!r} has no turns, so there is no evidence")
    if evidence.target != target:
        raise SettingsError(
            f"the evidence in session {session!r} is for the target {evidence.target}, not {target}: "
            f"pass target={evidence.target!r} (--target)"
        )
    return evidence


class _Composer:
    def __init__(self, history: SessionHistory, target: TargetName, numbers: Sequence[int], *, whole: bool) -> None:
        self.history, self.target, self.whole = history, target, whole
        self.may_see = visibility_filter(target)
        self.turns = list(history.turns(numbers))
        self.projections = {
            turn.id: [project(history, turn, attempt, self.may_see) for attempt in turn.attempts] for turn in self.turns
        }
        self.compactions = self._compactions()
        self.missing = read_missing(history, self.turns, whole=whole)

    @property
    def all_projections(self) -> list[Projection]:
        return [projection for turn in self.turns for projection in self.projections[turn.id]]

    def document(self, now: datetime) -> Evidence:
        envelopes, events = list[Envelope](), list[EnvelopeEvents]()
        for turn in self.turns:
            turn_events = self._events(turn)
            events.append(turn_events)
            envelopes.append(self._envelope(turn, turn_events))
        if self.whole:
            session = self._session_events()
            events.append(session)
            envelopes.append(self._session_envelope(envelopes, session))
        root = envelopes[-1]
        events[-1].add("context.exported", timestamp(now), root.context_id, target=self.target)
        refs = (*root.evidence_refs, events[-1].all[-1].event_id)
        envelopes[-1] = root.model_copy(update={"evidence_refs": refs})
        return self._evidence(envelopes[::-1], events)

    def _evidence(self, envelopes: Sequence[Envelope], events: Sequence[EnvelopeEvents]) -> Evidence:
        projections, compactions = self.all_projections, list(self.compactions.values())
        sources = {source.source_id: source for projection in projections for source in projection.sources}
        contents = [projection.contents for projection in projections] + [each.contents for each in compactions]
        return Evidence(
            target=self.target,
            root=envelopes[0].context_id,
            envelopes=tuple(envelopes),
            surfaces=tuple(projection.surface for projection in projections if projection.surface),
            items=(
                *(item for projection in projections for item in projection.items),
                *(each.sources for each in compactions),
            ),
            source_refs=tuple(sources.values()),
            selections=tuple(each for projection in projections for each in projection.selections),
            budgets=tuple(projection.budget for projection in projections if projection.budget),
            windows=tuple(projection.window for projection in projections if projection.window),
            assemblies=tuple(each for projection in projections for each in projection.assemblies),
            injections=tuple(each for projection in projections for each in projection.all_injections),
            compactions=tuple(each.compaction for each in compactions),
            summaries=tuple(each.summary for each in compactions),
            missing_context=tuple(self._missing()),
            events=tuple(event for each in events for event in each.all),
            policies=POLICIES,
            contents={name: text for each in contents for name, text in each.items()},
        )

    def _compactions(self) -> dict[str, CompactionSource]:
        """Return the summaries that a pack had as candidates, or all for a session.

        A summary is visible to the targets that may see it in every pack.
        """
        visibility = {id: set(TARGETS) for turn in self.turns if (id := self._summary_id(turn))}
        for turn in self.turns:
            for each in self._summary_candidates(turn):
                visibility.get(self._summary_id(turn), set()).intersection_update(each.visibility)
        found, events = {}, self.history.events_of(*COMPACTION_EVENTS)
        for event in self.history.events_of("summary"):
            id = text_in(control_in(event), "id")
            if self.whole or id in visibility:
                found[id] = build_compaction(event, visibility.get(id, ("model",)), self.may_see, events)
        return found

    def _summary_id(self, turn: LoggedTurn) -> str:
        """Return the id of the summary that was a candidate in a turn's packs, or an empty string."""
        return text_in(control_in(turn.summary), "id") if turn.summary and self._summary_candidates(turn) else ""

    def _summary_candidates(self, turn: LoggedTurn) -> list[DocumentItem]:
        candidates = [each for projection in self.projections[turn.id] for each in projection.candidates]
        return [each for each in candidates if each.record.item.kind == "summary"]

    def _turn_compactions(self, turn: LoggedTurn) -> list[CompactionSource]:
        return [found] if (found := self.compactions.get(self._summary_id(turn))) else []

    def _missing(self) -> Iterator[Missing]:
        contexts = {"": self._session.context} if self.whole else {}
        contexts |= {turn.id: find_ids(self.history, turn).context for turn in self.turns}
        for each in self.missing.all:
            yield build_missing(each, self.may_see, find_resolution(each, self.projections, contexts))

    def _events(self, turn: LoggedTurn) -> EnvelopeEvents:
        events = EnvelopeEvents(find_ids(self.history, turn))
        events.add_logged(turn.events, {id for projection in self.projections[turn.id] for id in projection.ids})
        for event, subject in self.missing.events_in(turn.id):
            events.add_missing(event, subject)
        for each in self._turn_compactions(turn):
            events.add_compaction(each)
        return events

    def _envelope(self, turn: LoggedTurn, events: EnvelopeEvents) -> Envelope:
        ids, projections = find_ids(self.history, turn), self.projections[turn.id]
        compactions = self._turn_compactions(turn)
        items = [each.id for projection in projections for each in projection.candidates]
        budgets = [projection.budget.budget_id for projection in projections if projection.budget]
        return Envelope(
            **VERSION,
            context_id=ids.context,
            scope="turn",
            lifecycle=_lifecycle(projections),
            created_at=turn.attempts[0].time if turn.attempts else read_time(turn.events[0]),
            producer=PRODUCER,
            **ids.fields(turn.attempts[-1].id if turn.attempts else ""),
            runtime_refs=self._runtime(ids, [attempt.id for attempt in turn.attempts]),
            surface_refs=tuple(each.surface.surface_id for each in projections if each.surface),
            item_refs=(*items, *(each.sources.item_id for each in compactions)),
            selection_refs=tuple(each.selection_id for projection in projections for each in projection.selections),
            budget_ref=budgets[-1] if budgets else None,
            window_refs=tuple(each.window.window_id for each in projections if each.window),
            assembly_refs=tuple(each.assembly_id for projection in projections for each in projection.assemblies),
            injection_refs=tuple(each.injection_id for projection in projections for each in projection.all_injections),
            compaction_refs=tuple(each.compaction.compaction_id for each in compactions),
            summary_refs=tuple(each.summary.summary_id for each in compactions),
            missing_context_refs=tuple(each.id for each in self.missing.of(turn.id)),
            policy_refs=tuple(POLICIES),
            evidence_refs=tuple(event.event_id for event in events.all),
            metadata={"number": turn.number, "mode": _mode(turn)},
        )

    def _runtime(self, ids: LifecycleIds, attempts: Sequence[str]) -> tuple[RuntimeRef, ...]:
        key = self.history.key
        refs: list[tuple[Any, str]] = [("tenant", key.tenant), ("agent", key.agent), ("session", key.session)]
        refs += [("turn", ids.turn), ("task", ids.task), ("run", ids.turn), *(("attempt", each) for each in attempts)]
        return tuple(RuntimeRef(kind=kind, id=id) for kind, id in refs if id)

    @property
    def _session(self) -> LifecycleIds:
        return LifecycleIds(f"context:{self.history.key.session}", self.history.key.session)

    def _session_events(self) -> EnvelopeEvents:
        """Return the events outside the session's turns."""
        events, used = EnvelopeEvents(self._session), {self._summary_id(turn) for turn in self.turns}
        for id, each in self.compactions.items():
            if id not in used:
                events.add_compaction(each)
        redactions = [event for event in self.history.events_of("context.redaction.applied") if "run" not in event]
        events.add_logged(redactions)
        for event, subject in self.missing.events_outside(turn.id for turn in self.turns):
            events.add_missing(event, subject)
        return events

    def _session_envelope(self, turns: Sequence[Envelope], events: EnvelopeEvents) -> Envelope:
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
            missing_context_refs=tuple(each.id for each in self.missing.all if not each.turns),
            policy_refs=tuple(POLICIES),
            evidence_refs=(*(each.context_id for each in turns), *(event.event_id for event in events.all)),
        )


def _lifecycle(projections: Sequence[Projection]) -> Lifecycle:
    if any(each.injections for each in projections):
        return "injected"
    return "assembled" if any(each.assembly for each in projections) else "available"


def _mode(turn: LoggedTurn) -> str:
    event: Record = turn.attempts[0].event if turn.attempts else {}
    return text_in(event, "mode")


LARGEST_EVIDENCE = 512 << 20
"""Largest evidence file, in bytes; larger ones are rejected unread."""

_HEAD = 4096


@dataclass(frozen=True, slots=True)
class ImportedEnvelope:
    key: SessionKey
    """The session in this store."""
    evidence: Evidence


def is_envelope(file: str | os.PathLike[str]) -> bool:
    """Whether the first bytes of a file look like evidence."""
    try:
        with open(file, "rb") as handle:
            head = handle.read(_HEAD) if stat.S_ISREG(os.fstat(handle.fileno()).st_mode) else b""
    except OSError:
        return False
    return head.lstrip().startswith(b"{") and FORMAT.encode() in head


def check_envelope(file: str | os.PathLike[str], largest: int = LARGEST_EVIDENCE) -> Evidence:
    """Return the evidence in a file, with every record and reference checked; raises InvalidArchive with the faults."""
    path = os.fspath(file)
    try:
        with open(os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)), "rb") as handle:
            if not stat.S_ISREG(os.fstat(handle.fileno()).st_mode):
                raise InvalidArchive("it is not a regular file")
            data = handle.read(largest + 1)
        if len(data) > largest:
            raise InvalidArchive(f"it is larger than {largest} bytes")
        return require_consistent(read_evidence(data))
    except InvalidArchive as error:
        raise InvalidArchive(f"{path!r} cannot be imported: {error}") from None
    except OSError as error:
        raise NotFound(f"cannot read {path!r}: {error.strerror or error}") from error


def import_envelope(
    file: str | os.PathLike[str],
    *,
    session: str | None = None,
    store: StoreLike = None,
    tenant: str = "default",
    agent: str = "default",
    largest: int = LARGEST_EVIDENCE,
) -> ImportedEnvelope:
    """Store the evidence in a file as a session of its own, under its own name or another unused one.

    The evidence is stored unchanged and can be inspected and exported again. It restores neither messages nor memory;
    an archive (`export_session`) does.
    """
    evidence = check_envelope(file, largest)
    key = key_for(evidence.envelope.session_id if session is None else session, tenant, agent)
    target = Session(key, resolve_store(store).open(key))
    with defer_finalizers(), target.locked():
        if not target.is_empty:
            raise SettingsError(
                f"there is already a session {key.session!r} of tenant {tenant!r} and agent {agent!r}: "
                "choose another name with session= (--session)"
            )
        blob = target.keep(evidence.as_bytes())
        event = {"type": "evidence", "target": evidence.target, "ctx": {"blobs": [blob]}}
        target.append(new_turn_id(), [], [event], utc_now())
    return ImportedEnvelope(key, evidence)


def record_export(
    evidence: Evidence, session: str, *, store: StoreLike = None, tenant: str = "default", agent: str = "default"
) -> None:
    """Record in the log that evidence was exported and for which target; warn if the store cannot be written."""
    key = key_for(session, tenant, agent)
    exported = context_event("context.exported", EventIds(key.session), evidence.root, target=evidence.target)
    target = Session(key, resolve_store(store).open(key))
    try:
        with defer_finalizers(), target.locked():
            target.append(new_turn_id(), [], [exported], utc_now())
    except StoreUnavailable as error:
        logger.warning("ctxwrap: the export of evidence was not recorded in the log: %s", error)


def imported_evidence(events: Sequence[Record], files: Files) -> Evidence | None:
    """Return the evidence that was imported into a session, if any; raises StoreCorrupt if it is damaged."""
    blobs = [blob for event in events if event.get("type") == "evidence" for blob in blobs_in(event)]
    if not blobs:
        return None
    try:
        return read_evidence(loaded(blobs[-1], files))
    except (InvalidArchive, LookupError) as error:
        raise StoreCorrupt(f"the imported evidence is damaged: {error}") from error


def verify_evidence(verification: Verification, store: StoreLike = None) -> Verification:
    """Add the faults of imported evidence to a verification: an archive may contain unchecked evidence."""
    if verification.messages or verification.is_damaged:
        return verification
    place, key = resolve_store(store), verification.key
    try:
        evidence = imported_evidence(load_history(place, key).events, place.open(key).files)
        if evidence is not None:
            require_consistent(evidence)
    except (InvalidArchive, StoreCorrupt) as error:
        finding = VerifyFinding("damage", "events.jsonl", str(error), "import the envelope again")
        findings, found = (finding, *verification.findings), {**verification.found, "damage": 1}
        return replace(verification, findings=findings, found=found)
    return verification
