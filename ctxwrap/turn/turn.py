"""One turn as a state machine: no I/O, no clock, no randomness. Its steps, in order:

1. Open. `Turn(...)` settles the mode, redacts what it is given and builds the pack.
2. Send. `opening_records` go to the log, then `body` goes to the provider. If the provider rejects it as too long,
   `shrink` builds a smaller pack, once, and `repacked_records` say so.
3. Read. `reader` takes the reply, whole or event by event, strips its trailer, and asks again for a snapshot that
   cannot be used.
4. Close. `file_requests` lists what the model asks of the working set. `closing_records` turns the snapshot into
   operations on memory and ends the turn in the log.

The driver (`sync`, `async_`) does the provider's I/O, `lifecycle` that of the store.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import TYPE_CHECKING, Any, Literal

from ctxwrap.memory.items import Origin, least_trusted_foreign, origin_of_request
from ctxwrap.memory.memory import Memory, merge_capabilities, write_once_violations
from ctxwrap.memory.operations import Circumstances, touches_in
from ctxwrap.memory.owned import Contribution
from ctxwrap.pack import injection
from ctxwrap.pack.budget import limit_after_rejection
from ctxwrap.pack.builder import Pack, PackRequest, PackSources, pack
from ctxwrap.providers.base import ProviderAdapter
from ctxwrap.providers.messages import sendable
from ctxwrap.redaction.visibility import Target
from ctxwrap.session import missing
from ctxwrap.session.missing import missing_after
from ctxwrap.session.open_turns import NO_SNAPSHOT, row_after
from ctxwrap.settings import Mode, Settings
from ctxwrap.tokens import TooLong
from ctxwrap.turn.memory_changes import changes_with_owners, last_user_text, memory_changes
from ctxwrap.turn.records import TurnRecords, TurnRedactor, redactor_for
from ctxwrap.turn.reply_reader import ReplyReader, SentRequest, shown_texts
from ctxwrap.types import (
    USABLE,
    Body,
    Operation,
    ParsedReply,
    Record,
    Reply,
    Report,
    Request,
    Resource,
    SessionKey,
    TurnInputs,
    TurnRecord,
)

if TYPE_CHECKING:
    from ctxwrap.workingset.requests import Decision, FileRequest

Records = tuple[list[Record], list[Record]]
"""Messages and events for the log."""


@dataclass(slots=True)
class _Outcome:
    """What the turn amounts to so far."""

    reason: str
    """Why it was aborted, or why its mode differs from the one asked for."""
    missing_when_sent: missing.MissingItems
    missing: missing.MissingItems
    status: Literal["open", "complete", "aborted"] = "open"
    operations: tuple[Operation, ...] = ()
    contributions: tuple[Contribution, ...] = ()
    """What the turn gives to the user or the team."""
    violations: tuple[str, ...] = ()
    """The rules of memory that the snapshot breaks, beyond its own format."""


class Turn:
    def __init__(
        self,
        id: str,
        key: SessionKey,
        adapter: ProviderAdapter,
        body: Body,
        request: Request,
        mode: Mode,
        inputs: TurnInputs,
        settings: Settings,
        sources: PackSources | None = None,
    ) -> None:
        self.id = id
        self.key = key
        self.mode, reason = settled_mode(mode, request)
        self._adapter = adapter
        self._settings = settings
        self._mode_asked, self._body_asked, self._new = mode, body, inputs.new
        """What the caller asked for, not redacted; the new messages are those that the log does not have yet."""
        self._redactor: TurnRedactor | None = None
        self._request, self._inputs, sources, plain = request, inputs, sources or PackSources(), body
        if settings.redaction is not None:
            self._redactor = redactor = TurnRedactor(settings.redaction)
            self._request = TurnRedactor(settings.redaction).request(request)
            plain = redactor.body(body, adapter.field_names)
            self._inputs = redactor.inputs(inputs)
            if inputs.owners:  # their names and ids are no text to redact
                self._inputs = self._inputs._replace(owners=inputs.owners)
            sources = redactor.sources(sources)
        self._sources = sources
        self._pack_request = given = PackRequest(key, adapter, plain, self._request, self.mode)
        self._records = TurnRecords(id, key, adapter.name, self.mode, self._request, self._inputs, settings)
        packed = None if self.mode == "disabled" else pack(given, self._inputs, sources, settings)
        self._sent = self._request_with(packed)
        self.reader = ReplyReader(adapter, body, self._sent, self.mode, self._inputs, settings)
        self._outcome = _Outcome(reason, self._inputs.missing, self._inputs.missing)

    @property
    def round(self) -> int:
        return self._inputs.runtime.round

    @property
    def model(self) -> str:
        return self._request.model

    @property
    def said(self) -> str:
        """What the user said, redacted."""
        return last_user_text(self._request)

    # Send

    @property
    def body(self) -> Body:
        """The request to send."""
        return self._sent.body

    @property
    def status(self) -> Literal["open", "complete", "aborted"]:
        return self._outcome.status

    @property
    def observes(self) -> bool:
        """Whether request and reply pass unchanged and are only read."""
        return self.mode in ("disabled", "shadow")

    @property
    def rewrites(self) -> bool:
        """Whether the request to send differs from the caller's."""
        return self.body is not self._body_asked

    @property
    def texts(self) -> Mapping[str, str]:
        """The longer texts that the pack adds; the log refers to them by where they are stored."""
        return self._sent.pack.texts if self._sent.pack else {}

    def opening_records(self, stored: Mapping[str, Record] | None = None) -> Records:
        """The caller's new messages, and the events that start the turn; `stored` says where `texts` are."""
        records, sent = self._records, self._sent
        events = records.start(sent.pack, sent.body, stored or {}, self._redactor, self._origin)
        events += self._missing_in_pack(self._inputs.missing)
        events += records.tool_results()
        return records.asked(self._new), records.redacted(events)

    def shrink(self, rejection: TooLong) -> bool:
        """Make `body` smaller, since the provider rejected it; return False, and change nothing, if that is impossible.

        It is possible once at most.
        """
        before = self._sent.pack
        if self.observes or self._sent.attempt > 1 or before is None:
            return False
        smaller = self._smaller_pack(before, rejection)
        sent = self._request_with(smaller, attempt=2)
        asks_for_less = (self._adapter.reply_limit(sent.body) or 0) < (self._adapter.reply_limit(self.body) or 0)
        if smaller.budget["used"] >= before.budget["used"] and not asks_for_less:
            return False
        self._sent = sent
        self.reader.use(sent)
        return True

    def _smaller_pack(self, before: Pack, rejection: TooLong) -> Pack:
        """A pack within what the provider takes. It keeps the epoch and reuses what was retrieved.

        If the provider counts the reply's limit in, that limit is not raised for the trailer.
        """
        given, sources = self._pack_request, self._sources
        reply = self._adapter.reply_limit(given.body if rejection.reply else self.body) or 0
        limit = limit_after_rejection(rejection, before.budget["fixed"] + before.budget["used"], reply)
        retrieve = (lambda *_: before.found) if sources.retrieve else None
        smaller = pack(given, self._inputs, sources._replace(retrieve=retrieve), self._settings, limit)
        reserve = 0 if rejection.reply else smaller.injection.reserve
        return smaller._replace(epoch=before.epoch, injection=smaller.injection._replace(reserve=reserve))

    def repacked_records(self, stored: Mapping[str, Record] | None = None) -> Records:
        """The events that say what was sent after `shrink`."""
        assert self._sent.pack is not None, "only a request with a pack shrinks"
        events = self._records.repack(self._sent.pack, self.body, stored or {})
        return [], self._records.redacted([*events, *self._missing_in_pack(self._outcome.missing_when_sent)])

    def _request_with(self, pack: Pack | None, attempt: int = 1) -> SentRequest:
        plain = self._pack_request.body
        if self._mode_asked == "disabled" or self.mode == "shadow":
            body = self._body_asked
        else:
            body = sendable(self._adapter.inject(plain, pack.injection)) if pack else plain
        state = pack.state if pack else self._inputs.state
        return SentRequest(body, pack, state, shown_texts(self._request, pack), attempt)

    def _missing_in_pack(self, known: missing.MissingItems) -> list[Record]:
        """The events for what the pack lacks and `known` does not list, and for what it has again."""
        pack = self._sent.pack
        may_lack = known or self._sources.files is not None or any(self._inputs.texts.values())
        if pack is None or not may_lack:
            return []
        events = missing.pack_events(known, pack.items, pack.report, self._records.ids(self._sent.attempt))
        if events:
            events = self._records.redacted(events)
            self._outcome.missing_when_sent = self._outcome.missing = reduce(missing_after, events, known)
        return events

    # Read: see `reader`

    def partial_records(self, text: str) -> Records:
        """The event for `text`, the next part of a reply that is still coming."""
        return [], [self._records.delta(text, self._origin)]

    def resources(self, target: Target) -> tuple[Resource, ...]:
        """What of this turn's context `target` may see."""
        pack = self._sent.pack
        return tuple(each for each in pack.resources if target in each.visibility) if pack else ()

    def resource_records(self, target: Target, stored: Mapping[str, Record], tool_call: str) -> Records:
        """The events that say `target` got its resources; `stored` says where their texts are, by source."""
        events = self._records.handed_out(target, self._sent.attempt, stored, tool_call)
        return [], self._records.redacted(events)

    # Close

    def file_requests(self, interrupted: str = "") -> "tuple[FileRequest, ...]":
        """What a complete reply asks of the working set, in its snapshot or in its text."""
        if self.reader.why_incomplete(interrupted):
            return ()
        reply = self.reader.reply
        snapshot = self._usable_snapshot(reply)
        listed = snapshot.get("working_set") if snapshot else None
        blocks = reply.reading.actions if reply.reading else ()
        if listed is None and not blocks:
            return ()
        from ctxwrap.workingset.requests import requests_in_json, requests_in_text

        fault = "" if reply.natural else "the reply was cut short"
        written = (each._replace(fault=fault) for block in blocks for each in requests_in_text(block))
        return (*requests_in_json(listed), *written)

    def closing_records(
        self,
        memory: Memory,
        answer_number: int = 0,
        interrupted: str = "",
        file_decisions: "Sequence[Decision]" = (),
    ) -> Records:
        """The reply so far, and the events that end the turn, with what the reply changes in `memory`.

        `answer_number` is the number the reply gets in the log; `interrupted` says why the reply was not read to its
        end. May be called again, with newer memory, if the records could not be written.
        """
        reply, redactor = self.reader.reply, redactor_for(self._settings.redaction)
        records, outcome, origin = self._records, self._outcome, self._origin
        aborted = self.reader.why_incomplete(interrupted)
        self.reader.is_saved = True
        outcome.status = "aborted" if aborted else "complete"
        outcome.reason = aborted or outcome.reason
        applied = None if aborted else self._usable_snapshot(reply)
        outcome.operations, outcome.violations = (), ()
        outcome.contributions = ()
        if not aborted and self.mode == "enabled":
            outcome.operations, outcome.violations = self._memory_changes(reply, applied, memory, answer_number, origin)
        if applied is not None and memory.capabilities:
            capabilities, violation = merge_capabilities(memory.capabilities, applied["capabilities"])
            applied = {**applied, "capabilities": capabilities}
            outcome.violations += (*((violation,) if violation else ()), *write_once_violations(outcome.operations))
        due = not aborted and self.reader.is_snapshot_due(reply)
        messages = records.answer(reply, redactor, outcome.status, aborted, origin)
        if redactor is not None and self.reader.raw_reading is not None:
            redactor.reading(self.reader.raw_reading)  # counts what it finds there
        events = self.reader.reask_events(self.id)
        events += records.snapshot(self._with_violations(reply.reading), applied, outcome.operations, origin, due=due)
        if outcome.operations and applied is None:
            events += records.observation(outcome.operations)
        if outcome.contributions:
            events += [each.as_event(self.id, self.round) for each in outcome.contributions]
        if file_decisions:
            events += records.files(file_decisions)
        if applied is not None and "missing" in applied:
            events += self._questions(applied["missing"], answer_number)
        if reply.messages and reply.messages[0].tool_calls:
            events += records.tool_calls(reply.messages[0], answer_number)
        if len(reply.messages) > 1:
            events += records.choices(reply)
        return messages, records.redacted(records.ended(events, self._sent.attempt, reply, aborted, redactor))

    def _memory_changes(
        self, reply: Reply, snapshot: Mapping[str, Any] | None, memory: Memory, answer_number: int, origin: Origin
    ) -> tuple[tuple[Operation, ...], tuple[str, ...]]:
        first, pack = self._inputs.first_message, self._sent.pack
        message = reply.messages[0] if reply.messages else None
        circumstances = Circumstances(
            round=self.round,
            origin=origin,
            source=f"messages:{first}-{max(first, answer_number)}",
            said=last_user_text(self._request),
            answered=message.text if message else "",
            foreign_core=self._settings.foreign_core,
            brief=pack.brief if pack else frozenset(),
            touched=partial(touches_in, self._inputs.state),
        )
        calls_tools = bool(message and message.tool_calls)
        if not self._inputs.owners:
            return memory_changes(
                snapshot, self._sent.state, memory, circumstances, self._settings, calls_tools=calls_tools
            )
        operations, violations, self._outcome.contributions = changes_with_owners(
            self._inputs.owners,
            snapshot,
            self._sent.state,
            memory,
            circumstances,
            self._settings,
            calls_tools=calls_tools,
        )
        return operations, violations

    def _usable_snapshot(self, reply: Reply) -> Mapping[str, Any] | None:
        """The snapshot of the reply, if the model was asked for one and came to its own end."""
        reading = reply.reading
        if self.mode != "enabled" or not reply.natural or reading is None or reading.status not in USABLE:
            return None
        return reading.snapshot

    def _questions(self, listed: Iterable[Mapping[str, str]], answer_number: int) -> list[Record]:
        """The events for what the model needs to know, and for what it no longer asks."""
        ids, known = self._records.ids(self._sent.attempt), self._outcome.missing_when_sent
        asked = missing.question_events(known, listed, ids, f"messages:{answer_number}")
        events = self._records.redacted(asked)
        self._outcome.missing = reduce(missing_after, events, known)
        return events

    def _with_violations(self, reading: ParsedReply | None) -> ParsedReply | None:
        if reading is None or not self._outcome.violations:
            return reading
        return reading._replace(violations=(*reading.violations, *self._outcome.violations))

    @property
    def _origin(self) -> Origin:
        """The least trusted origin among what the model saw and what its reply is made of."""
        pack, fetched = self._sent.pack, self.reader.fetched
        shown = pack.origin if pack else "user"
        if not fetched and self.mode == "enabled":
            return shown
        sent = origin_of_request(self._request, self._inputs) if self.observes else shown
        return least_trusted_foreign((shown, sent, "tool" if fetched else "")) or sent

    # Report

    @property
    def missed_snapshot(self) -> bool:
        """Whether the reply lacks a snapshot that it should have."""
        reading = self.reader.reply.reading
        return reading is not None and NO_SNAPSHOT in reading.violations

    @property
    def record(self) -> TurnRecord:
        reply, misses, pack, reasks = self.reader.reply, self._inputs.misses, self._sent.pack, self.reader.reasks
        reading = self._with_violations(reply.reading)
        if reading and self.reader.is_snapshot_due(reply):
            misses = row_after(misses, reading.status)
        return TurnRecord(
            id=self.id,
            mode=self.mode,
            session=self.key.session,
            tenant=self.key.tenant,
            agent=self.key.agent,
            round=self.round,
            snapshot=reading.snapshot if reading else None,
            operations=(
                *self._outcome.operations,
                *(operation for given in self._outcome.contributions for operation in given.operations),
            ),
            violations=reading.violations if reading else (),
            repairs=reading.repairs if reading else (),
            pack=pack.items if pack else (),
            report=Report(
                status=self.status,
                reason=self._outcome.reason,
                mode_asked=self._mode_asked,
                error=self.reader.error,
                sha256=injection.body_hash(self.body),
                reading=reading.status if reading else "missing",
                reasks=len(reasks.attempts),
                reask_usage=reasks.usage,
                reask_error=reasks.error,
                assembly=pack.report if pack else {},
                budget=pack.budget if pack else {},
                stable=pack.stable if pack else 0.0,
                repacked=self._sent.attempt > 1,
                missing=missing.open_in(self._outcome.missing),
                misses=misses,
            ),
        )


def settled_mode(asked: Mode, request: Request) -> tuple[Mode, str]:
    """The mode that a turn runs in, and why it differs from the one asked for."""
    if asked == "disabled":
        return asked, ""
    if request.no_context:
        return "disabled", request.no_context
    if asked == "enabled" and request.no_trailer:
        return "readonly", f"{request.no_trailer} leaves no room for a trailer"
    return asked, ""
