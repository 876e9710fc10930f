"""The store's side of a call: opens its turn in the session, and saves how the turn ended.

A driver calls `open` (again, while the session is busy), then `shrink` if the request was too long,
`write_partial_reply` during a long stream, and `save` at the end; or `refused` if the turn could not be opened.
"""

import logging
import os
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from time import monotonic, time_ns
from typing import TYPE_CHECKING, Any, NoReturn

from ctxwrap.errors import Conflict, KeyMismatch, QuotaExceeded, SessionBusy, UnknownFormat
from ctxwrap.pack.builder import PackSources
from ctxwrap.providers.base import ProviderAdapter
from ctxwrap.redaction.visibility import Target
from ctxwrap.session.background import background
from ctxwrap.session.queue import TurnTicket, this_caller
from ctxwrap.session.session import Session, TurnEnd
from ctxwrap.session.threads import defer_finalizers, run_uninterrupted, run_when_safe
from ctxwrap.tokens import load_tables
from ctxwrap.turn.after_turn import after_turn
from ctxwrap.turn.binding import UNCHANGED_MODES, CallScope, ClientBinding
from ctxwrap.turn.memory_changes import last_user_text
from ctxwrap.turn.offers import claim_of
from ctxwrap.turn.owners import CallOwners
from ctxwrap.turn.records import TurnRedactor
from ctxwrap.turn.telemetry import telemetry_of
from ctxwrap.turn.turn import Turn
from ctxwrap.types import Body, Offer, Record, Report, Request, Resource, SessionKey, TurnRecord

if TYPE_CHECKING:
    from ctxwrap.workingset.requests import Decision


class PassthroughCall:
    """A call without a turn. `body` is what to send if redaction changed it, else None; `record` says why."""

    def __init__(
        self,
        scope: CallScope,
        reason: str,
        *,
        body: Body | None = None,
        error: str = "",
        not_saved: tuple[str, ...] = (),
    ) -> None:
        key, self.body = scope.key, body
        self.record = TurnRecord(
            id="",
            mode="disabled",
            session=key.session if key else "",
            tenant=key.tenant if key else "",
            agent=key.agent if key else "",
            round=0,
            snapshot=None,
            operations=(),
            violations=(),
            repairs=(),
            pack=(),
            report=Report(
                status="complete",
                reason=reason,
                mode_asked=scope.mode,
                error=error,
                not_saved=not_saved,
                reask_usage={},  # those of the defaults belong to all calls
                assembly={},
                budget={},
            ),
        )


def passthrough(
    binding: ClientBinding, adapter: ProviderAdapter, scope: CallScope, body: Callable[[], Body]
) -> PassthroughCall | None:
    """The call as one without a turn, if it needs none."""
    if scope.key is None:
        reason = "no session was named" if scope.purpose is None else f"its purpose is {scope.purpose}"
        return PassthroughCall(scope, reason, body=redacted_body(binding, adapter, scope, body))
    if scope.mode == "disabled" and not binding.settings.record:
        return PassthroughCall(scope, "disabled, and record is off")
    return None


def redacted_body(
    binding: ClientBinding, adapter: ProviderAdapter, scope: CallScope, body: Callable[[], Body]
) -> Body | None:
    """What to send of a call without a turn; None if the caller's request is sent as it is."""
    redaction = binding.settings.redaction
    if redaction is None or scope.mode in UNCHANGED_MODES:
        return None
    return TurnRedactor(redaction).body(body(), adapter.field_names)


logger = logging.getLogger("ctxwrap")

_SECONDS, _PIECES = 2.0, 200
"""A reply that is still coming is written to the log after so long, or so many pieces."""

_ALWAYS_RAISED = (SessionBusy, KeyMismatch, UnknownFormat, QuotaExceeded, Conflict)
"""Errors that no call survives without context: the next call can succeed, and a quota must not be bypassed."""

_NOT_OPENED = "not opened"


def pack_sources(
    binding: ClientBinding, scope: CallScope, model: str, session: Session, offers: Sequence[Offer] = ()
) -> PackSources:
    """What a pack may use beyond the state of its session: files, offers, retrieval."""
    files = binding.files(scope, model, session)
    if offers and scope.mode != "disabled":
        from ctxwrap.workingset.working_set import with_offers

        files = with_offers(files, offers, model, binding.settings.redaction)
    return PackSources(files, session.retrieve, session.recall) if binding.settings.retrieval else PackSources(files)


class ManagedCall:
    """A turn in its session. Every method blocks for as long as a short write takes."""

    def __init__(
        self,
        binding: ClientBinding,
        adapter: ProviderAdapter,
        body: Callable[[], Body],
        scope: CallScope,
        clock: Callable[[], datetime],
    ) -> None:
        assert scope.key is not None, "a call without a session is a PassthroughCall"
        self._key: SessionKey = scope.key
        self._binding, self._adapter, self._body, self._scope = binding, adapter, body, scope
        self._clock = clock
        self._offers = claim_of(scope.key)
        self._owners = CallOwners(binding, scope, scope.key) if scope.owners else None
        self._caller = this_caller()
        self._telemetry = telemetry_of(scope.key, adapter.telemetry_name, binding.settings.redaction)
        self._ticket: TurnTicket | None = None
        self._opened: tuple[Session, Turn] | None = None
        self._saved = False
        self._process = os.getpid()  # a forked child inherits open calls, which remain its parent's
        self.not_saved: tuple[str, ...] = ()
        self._error = ""
        self._written, self._pieces, self._written_at = 0, 0, monotonic()

    @property
    def turn(self) -> Turn:
        return self._session_and_turn[1]

    @property
    def _session_and_turn(self) -> tuple[Session, Turn]:
        assert self._opened is not None, "open() comes first"
        return self._opened

    @property
    def record(self) -> TurnRecord:
        record = self.turn.record
        error = self._error or record.report.error
        return record._replace(report=record.report._replace(not_saved=self.not_saved, error=error))

    # Open

    def open(self) -> bool:
        """Build the turn and write its opening to the log; return False if the session is busy."""
        session = self._binding.session(self._key)
        if not self._may_try(session):
            return False
        body = session.recognise(self._body(), self._adapter.input_field)
        request = self._adapter.read(body)
        self._binding.admit(session, request.messages)
        load_tables(request.model, self._binding.settings.windows)  # before the lock, where others would wait for it
        if self._binding.settings.embedder is not None:
            session.prepare_search(request)
        if session.is_ending:  # its last turn was answered a moment ago
            background.finish(lambda subject: subject is session)
        try:
            with defer_finalizers():
                work = partial(session.transaction, partial(self._open_turn, session, body, request), self._undo_open)
                is_open = self._owners.open(session, work, partial(last_user_text, request)) if self._owners else work()
        finally:
            if self._telemetry is not None:
                self._telemetry.opened(lambda: self.record if self._opened else None)
        if self._binding.settings.derive == "behind":
            background.schedule(session, session.catch_up, replaces=False)
        self._written_at = monotonic()
        return is_open

    def _may_try(self, session: Session) -> bool:
        """Whether the session may be free; on the first try only the transaction finds out.

        A turn that may interleave, or that changes nothing, does not wait for others.
        """
        if self._binding.settings.on_busy == "interleave" or self._scope.mode in UNCHANGED_MODES:
            return True
        if self._ticket is not None:
            return self._ticket.take()
        self._ticket = TurnTicket(session.line, self._caller, session.log.lease)
        return True

    def _open_turn(self, session: Session, body: Body, request: Request) -> bool:
        """In the session's transaction: read the turn's inputs, build its pack, write its opening."""
        offers: list[Offer] = []
        owners = self._owners
        if owners is not None:
            owners.check(session)  # before the turn takes its place in the queue
        if self._ticket is not None and not self._ticket.take():
            return False
        binding, scope = self._binding, self._scope
        inputs = session.open_turn(request, self._clock())
        if self._offers is not None:
            offers += self._offers.take()
        if owners is not None:
            inputs = owners.view(inputs, last_user_text(request))
            offers += owners.found
        if binding.settings.quotas is not None:
            session.check_quotas(message for message, _ in inputs.new)
        sources = pack_sources(binding, scope, request.model, session, offers)
        if self._telemetry is not None:
            sources = self._telemetry.watching(sources)
        turn = Turn(
            session.new_turn_id(),
            self._key,
            self._adapter,
            body,
            request,
            scope.mode,
            inputs,
            binding.settings,
            sources,
        )
        if turn.mode == "disabled" and self._offers is not None:
            self._offers.release()
        messages, events = turn.opening_records(session.packs.keep(turn.texts))
        if session.state.ended_at:
            events.append({"type": "session_resume", "ctx": {}})
        session.append(turn.id, messages, events, self._clock(), part="o", folds_later=True)
        self._opened = session, turn  # even if the store may not have it: then its end is written as well
        return True

    def _undo_open(self) -> None:
        self._opened = None
        if self._ticket is not None:
            self._ticket.undo()

    def busy_retry_options(self) -> dict[str, Any]:
        """The options for tenacity to repeat `open` while the session is busy."""
        from tenacity import retry_if_result, stop_after_attempt, stop_after_delay, wait_random_exponential

        waits = self._binding.settings.on_busy == "wait"
        return {
            "retry": retry_if_result(lambda is_open: not is_open),
            "stop": stop_after_delay(self._binding.settings.busy_timeout) if waits else stop_after_attempt(1),
            "wait": wait_random_exponential(multiplier=0.004, max=0.05),
            "retry_error_callback": self._raise_busy,
        }

    def _raise_busy(self, _: object) -> NoReturn:
        raise SessionBusy(
            f"session {self._key.session!r} has another turn in progress: wait for it to end, raise busy_timeout, or "
            'allow turns at the same time with on_busy="interleave"'
        )

    def refused(self, error: Exception) -> PassthroughCall:
        """The call without context, since its turn could not be opened; raises `error` if it must not go on."""
        self.save(_NOT_OPENED)
        if self._offers is not None:
            self._offers.release()
        self._leave_queue()
        if self._binding.settings.strict or isinstance(error, _ALWAYS_RAISED):
            raise error
        logger.warning("ctxwrap: the call continues without context: %s", error)
        reason = "ctxwrap could not open the session"
        body = redacted_body(self._binding, self._adapter, self._scope, self._body)
        call = PassthroughCall(self._scope, reason, body=body, error=str(error), not_saved=("request", "reply"))
        if self._telemetry is not None:
            self._telemetry.refused(call.record)
        return call

    # Send and read

    def report_sending(self) -> None:
        """The SDK is about to send the request."""
        if self._telemetry is not None:
            self._telemetry.sending(lambda: self.record)

    def shrink(self, error: Exception) -> bool:
        """Whether `error` says the request is too long and the turn now has a smaller one, which the log records.

        Never raises: the caller gets `error`.
        """
        if self._saved:
            return False
        try:
            rejection = self._adapter.too_long(error)
            if rejection is None or not self.turn.shrink(rejection):
                return False
        except Exception as own:
            logger.warning("ctxwrap: a request that is too long could not be made smaller: %s", own)
            return False
        session, turn = self._session_and_turn
        try:
            with defer_finalizers(), session.locked():
                records = turn.repacked_records(session.packs.keep(turn.texts))
                session.append(turn.id, *records, self._clock(), part="r", is_edge=False)
        except Exception as own:
            logger.warning("ctxwrap: the log does not say that a smaller request was sent: %s", own)
        return True

    def checkpoint_due(self) -> bool:
        """Count one more piece of the reply; return whether `write_partial_reply` is due."""
        self._pieces += 1
        return self._pieces >= _PIECES or monotonic() - self._written_at >= _SECONDS

    def write_partial_reply(self) -> None:
        """Write the part of the reply that came since the last time. Never raises."""
        session, turn = self._session_and_turn
        self._pieces, self._written_at = 0, monotonic()
        text = turn.reader.loggable_text[self._written :]
        if self._saved or not text:
            return
        self._written += len(text)
        try:
            with defer_finalizers(), session.locked():
                if session.state.was_erased_during(turn.id):
                    return
                records = turn.partial_records(text)
                session.append(turn.id, *records, self._clock(), part=f"d{self._written}-", is_edge=False)
        except Exception as error:
            logger.warning("ctxwrap: a partial reply was not written to the log: %s", error)

    def hand_out(self, target: Target, tool_call: str = "") -> tuple[Resource, ...]:
        """What of the turn's context `target` may see; the log first records that it was handed out."""
        session, turn = self._session_and_turn
        resources = turn.resources(target)
        if resources:
            with defer_finalizers(), session.locked():
                stored = {each.source: session.keep(each.text.encode("utf-8", "surrogatepass")) for each in resources}
                session.append(turn.id, *turn.resource_records(target, stored, tool_call), self._clock(), is_edge=False)
        return resources

    # Close

    def save(self, interrupted: str = "") -> None:
        """Write how the turn ended, once. A failure is reported, not raised: the caller has paid for the reply.

        `interrupted` says why the reply was not read to its end.
        """
        if self._saved or os.getpid() != self._process:
            return
        if self._opened is None:
            if self._offers is not None:
                self._offers.release()
            self._leave_queue()
            return
        self._saved = True
        session, turn = self._opened
        if self._offers is not None:
            self._offers.release(used=not interrupted or bool(turn.reader.loggable_text))
        end = partial(self._end, session, turn, interrupted)
        if interrupted:  # an object may be being collected, at any moment: write when it is safe
            run_when_safe(end)
        else:
            run_uninterrupted(end)

    def abandon(self) -> None:
        """End the turn of a reply that was dropped unread."""
        self.save("abandoned")

    def _end(self, session: Session, turn: Turn, interrupted: str) -> None:
        start = time_ns()
        has_files = self._binding.settings.working_set is not None
        try:
            decisions = self._decide_files(session, turn, interrupted) if has_files else ()
            self._write_end(session, turn, interrupted, decisions)
        finally:
            self._leave_queue()
            if self._telemetry is not None:
                self._telemetry.saved(lambda: self.record, start)

    def _decide_files(self, session: Session, turn: Turn, interrupted: str) -> "Sequence[Decision]":
        """Decide on what the model asks of the working set. Never raises."""
        try:
            return self._binding.decide_files(turn.file_requests(interrupted), session, turn.round)
        except Exception as error:
            logger.warning("ctxwrap: the model's requests to the working set were ignored: %r", error)
            return ()

    def _write_end(self, session: Session, turn: Turn, interrupted: str, decisions: "Sequence[Decision]") -> None:
        now = self._clock()
        contributed: dict[str, list[tuple[int, Record]]] = {}

        def closing_records() -> TurnEnd:
            if interrupted == _NOT_OPENED and not session.state.turns.has(turn.id):
                return [], [], now  # the store does not have its opening
            if session.state.was_erased_during(turn.id):
                self.not_saved, self._error = ("reply",), "its session was deleted before the reply was complete"
                return [], [], now
            return *turn.closing_records(session.memory, session.next_message, interrupted, decisions), now

        def write() -> None:
            messages, events, _ = closing_records()
            session.append(turn.id, messages, events, now, part="c")
            if self._owners is not None:
                contributed.update(self._owners.waiting_in(session))
            if self._ticket is not None:
                self._ticket.give_back()

        try:
            with defer_finalizers():
                session.transaction(write)
        except Exception as error:
            logger.warning("ctxwrap: the reply was not saved: %s", error)
            self.not_saved, self._error = ("reply",), str(error)
            if self._telemetry is not None:
                self._telemetry.failed(error)
            session.defer_write(turn.id, closing_records)
        except BaseException:
            session.defer_write(turn.id, closing_records)
            _write_deferred(session)
            raise
        else:
            if self.not_saved:
                return
            if self._owners is not None and any(contributed.values()):
                self._owners.settle_quietly(contributed, {turn.id: turn.said})
            settings = self._binding.settings
            after_turn(session, turn, self._scope.mode, settings, self._clock, interrupted=bool(interrupted))

    def _leave_queue(self) -> None:
        if self._ticket is not None:
            self._ticket.leave()


def _write_deferred(session: Session) -> None:
    """Write what an interruption kept from being written; if that fails, the next writer of the session does."""
    try:
        with defer_finalizers():
            session.transaction(lambda: None)
    except Exception as error:
        logger.warning("ctxwrap: the reply will be saved later: %s", error)


def why_stopped(error: BaseException) -> str:
    """The reason that the log gives for a call ended by `error`."""
    if isinstance(error, GeneratorExit):
        return "closed"
    return f"provider_error: {type(error).__name__}" if isinstance(error, Exception) else "cancelled"
