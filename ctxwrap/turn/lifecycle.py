"""The blocking work of a call: opening a turn in its session, and saving how it ended."""

import logging
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from time import monotonic
from typing import Any, NoReturn

from ctxwrap.errors import KeyMismatch, QuotaExceeded, SessionBusy, UnknownFormat
from ctxwrap.pack.builder import PackSources
from ctxwrap.providers.base import ProviderAdapter
from ctxwrap.redaction.visibility import Target as NamedTarget
from ctxwrap.session.background import background
from ctxwrap.session.clock import new_turn_id
from ctxwrap.session.open_turns import MANY
from ctxwrap.session.queue import TurnTicket, this_caller
from ctxwrap.session.scope import offers_for
from ctxwrap.session.session import Session, TurnEnd
from ctxwrap.session.threads import defer_finalizers, run_uninterrupted, run_when_safe
from ctxwrap.tokens import load_tables
from ctxwrap.turn.binding import CallScope, ClientBinding
from ctxwrap.turn.document_updates import update_document_if_due, write_by_model
from ctxwrap.turn.ending import asks_to_end, end_behind
from ctxwrap.turn.redactor import TurnRedactor
from ctxwrap.turn.summariser import summarise_behind
from ctxwrap.turn.telemetry import Telemetry
from ctxwrap.turn.turn import Turn
from ctxwrap.types import Body, Offer, Report, Resource, TurnRecord
from ctxwrap.workingset.working_set import with_offers

logger = logging.getLogger("ctxwrap")

_SECONDS, _PIECES = 2.0, 200
"""After so long, or so many pieces, an answer in flight is written down as far as it came."""


_ALWAYS_RAISED = (SessionBusy, KeyMismatch, UnknownFormat, QuotaExceeded)


class PassthroughCall:
    """A call that ctxwrap lets through as it is; it only knows why. `body` is what is sent if a policy changed it."""

    def __init__(
        self,
        target: CallScope,
        reason: str,
        *,
        body: Body | None = None,
        error: str = "",
        not_saved: tuple[str, ...] = (),
    ) -> None:
        key, self.body = target.key, body
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
            report=Report(status="complete", reason=reason, mode_asked=target.mode, error=error, not_saved=not_saved),
        )


def passthrough(
    context: ClientBinding, adapter: ProviderAdapter, target: CallScope, body: Callable[[], Body]
) -> PassthroughCall | None:
    """The call as a bare one, if it needs no session."""
    if target.key is None:
        return PassthroughCall(target, "no session was named", body=_redacted_body(context, adapter, target, body))
    if target.mode == "disabled" and not context.settings.record:
        return PassthroughCall(target, "disabled, and record is off")
    return None


def _redacted_body(
    context: ClientBinding, adapter: ProviderAdapter, target: CallScope, body: Callable[[], Body]
) -> Body | None:
    """What to send of a call without context, if there is a policy and the call is not to leave as it is."""
    redaction = context.settings.redaction
    if redaction is None or target.mode in _AS_IT_IS:
        return None
    return TurnRedactor(redaction).body(body(), adapter.field_names)


_AS_IT_IS = ("disabled", "shadow")


def sources(
    context: ClientBinding, target: CallScope, model: str, session: Session, offers: Sequence[Offer] = ()
) -> PackSources:
    """What a call may use beyond its session's own state."""
    files = context.files(target, model, session)
    if offers and target.mode != "disabled":
        files = with_offers(files, offers, model, context.settings.redaction)
    return PackSources(files, session.retrieve if context.settings.retrieval else None)


_NOT_OPENED = "not opened"
_USED = object()
"""Who holds an offer that a call has used."""


class ManagedCall:
    """A turn in its session. Every method blocks for the moment a short write takes."""

    def __init__(
        self,
        context: ClientBinding,
        adapter: ProviderAdapter,
        body: Callable[[], Body],
        target: CallScope,
        clock: Callable[[], datetime],
    ) -> None:
        self._context, self._adapter, self._body, self._target = context, adapter, body, target
        self._clock = clock
        self._offers = offers_for(target.key)
        self._caller = this_caller()
        self._telemetry = Telemetry(target.key, adapter.telemetry_name, context.settings.redaction)
        self._place: TurnTicket | None = None
        self._opened: tuple[Session, Turn] | None = None
        self._saved = False
        self._process = os.getpid()  # a forked child inherits open calls, which remain its parent's
        self._not_saved: tuple[str, ...] = ()
        self._error = ""
        self._written, self._pieces, self._written_at = 0, 0, monotonic()

    @property
    def turn(self) -> Turn:
        assert self._opened is not None, "open() comes first"
        return self._opened[1]

    def open(self) -> bool:
        """Write what the caller said to the log, under the session's lock, and build what is to be sent.

        Whether the session was free for that.
        """
        assert self._target.key is not None
        session = self._context.session(self._target.key)
        if not self._can_come(session):
            return False
        body = self._body()
        request = self._adapter.read(body)
        self._context.admit(session, request.messages)
        load_tables(request.model, self._context.settings.windows)  # not while others wait for the session

        def opened() -> bool:
            assert self._target.key is not None
            if self._place is not None and not self._place.take():
                return False
            opening = session.open_turn(request, self._clock())
            session.check_quotas(message for message, _ in opening.new)
            offers = self._claimed_offers()
            given = self._telemetry.watching(sources(self._context, self._target, request.model, session, offers))
            turn = Turn(
                new_turn_id(),
                self._target.key,
                self._adapter,
                body,
                request,
                self._target.mode,
                opening,
                self._context.settings,
                given,
            )
            if turn.mode == "disabled":
                self._release_offers()
            kept = session.packs.keep(turn.texts)
            messages, events = turn.opening_records(kept)
            if session.state.derived.ended_at:
                events.append({"type": "session_resume", "ctx": {}})
            session.append(turn.id, messages, events, self._clock(), part="o")
            self._opened = session, turn  # also if nobody knows whether the medium has it: then its end is written, too
            return True

        if session.is_ending:  # its last turn was answered a moment ago
            background.finish(lambda subject: subject is session)
        with self._telemetry.opening(self._opened_record), defer_finalizers():
            is_open = session.transaction(opened, self._undo)
        if self._context.settings.derive == "behind":
            background.schedule(session, session.catch_up)
        self._written_at = monotonic()
        return is_open

    def _claimed_offers(self) -> list[Offer]:
        """What was offered for this call and no other call took; nobody else of its session runs meanwhile."""
        for offer in self._offers:
            offer.holder = offer.holder or self
        return [offer for offer in self._offers if offer.holder is self]

    def _release_offers(self, *, used: bool = False) -> None:
        """Leave what was offered to the next call, unless this one used it; neither keeps this call alive."""
        for offer in self._offers:
            if offer.holder is self:
                offer.holder = _USED if used else None

    def _can_come(self, session: Session) -> bool:
        """Whether there is hope that the session is free: the first time it is asked for with what is to be written.

        It need not be free if turns may go on beside each other, or if this one changes nothing.
        """
        if self._context.settings.on_busy == "interleave" or self._target.mode in _AS_IT_IS:
            return True
        if self._place is not None:
            return self._place.take()
        self._place = TurnTicket(session.line, self._caller, session.log.lease)
        return True

    def _undo(self) -> None:
        self._opened = None
        if self._place is not None:
            self._place.undo()

    def lease_retry_options(self) -> dict[str, Any]:
        """How to go on opening a session that is not free, in tenacity's words."""
        from tenacity import retry_if_result, stop_after_attempt, stop_after_delay, wait_random_exponential

        waits = self._context.settings.on_busy == "wait"
        return {
            "retry": retry_if_result(lambda is_open: not is_open),
            "stop": stop_after_delay(self._context.settings.busy_timeout) if waits else stop_after_attempt(1),
            "wait": wait_random_exponential(multiplier=0.004, max=0.05),
            "retry_error_callback": self._busy,
        }

    def _busy(self, _: object) -> NoReturn:
        name = self._target.key.session if self._target.key else ""
        raise SessionBusy(
            f"session {name!r} has a turn under way: wait for its end, or let turns go on beside each other with "
            'on_busy="interleave"'
        )

    def _leave(self) -> None:
        if self._place is not None:
            self._place.leave()

    def refused(self, error: Exception) -> PassthroughCall:
        """What is left of a call whose turn could not be opened: an error if settings say so, else a bare call.

        A session that is busy, and one that the keys do not open or this version does not read, are always an error:
        the next call can be right, and without it every one would go on unheard. So is a quota: a call without context
        would go beyond it.
        """
        self.save(_NOT_OPENED)
        self._release_offers()
        self._leave()
        if self._context.settings.strict or isinstance(error, _ALWAYS_RAISED):
            raise error
        logger.warning("ctxwrap: the call goes on without context: %s", error)
        reason = "ctxwrap could not open the session"
        body = _redacted_body(self._context, self._adapter, self._target, self._body)
        call = PassthroughCall(self._target, reason, body=body, error=str(error), not_saved=("request", "reply"))
        self._telemetry.refused(call.record)
        return call

    def shrink(self, error: Exception) -> bool:
        """Whether the provider calls the request too long and the turn has a smaller one now, which the log tells.

        Whatever goes wrong here, `error` is what the caller is to see. A turn that was saved has had its answer.
        """
        if self._saved:
            return False
        try:
            told = self._adapter.too_long(error)
            if told is None or not self.turn.shrink(told):
                return False
        except Exception as own:
            logger.warning("ctxwrap: a request that is too long could not be made smaller: %s", own)
            return False
        self._note_smaller()
        return True

    def _note_smaller(self) -> None:
        assert self._opened is not None
        session, turn = self._opened
        try:
            with defer_finalizers(), session.locked():
                kept = session.packs.keep(turn.texts)
                session.append(turn.id, *turn.repacked_records(kept), self._clock(), part="r", is_edge=False)
        except Exception as error:
            logger.warning("ctxwrap: that a smaller request was sent is not in the log: %s", error)

    def hand_out(self, target: NamedTarget, tool_call: str = "") -> tuple[Resource, ...]:
        """What of the turn's context is for `target`; that they were given it is written down first."""
        assert self._opened is not None
        session, turn = self._opened
        resources = turn.resources(target)
        if resources:
            with defer_finalizers(), session.locked():
                kept = {each.source: session.keep(each.text.encode("utf-8", "surrogatepass")) for each in resources}
                session.append(turn.id, *turn.resource_records(target, kept, tool_call), self._clock(), is_edge=False)
        return resources

    def save(self, interrupted: str = "") -> None:
        """Write how the turn ended, once; a failure is reported, never raised over an answer that was paid for.

        A stream may be closed because it is collected, at any moment: then the writing waits for a better one.
        """
        if self._saved or os.getpid() != self._process:
            return
        if self._opened is None:
            self._release_offers()
            self._leave()
            return
        self._saved = True
        session, turn = self._opened
        if self._offers:
            self._release_offers(used=not interrupted or bool(turn.said))
        end = partial(self._end, session, turn, interrupted)
        if interrupted:  # this may be the moment that an object is collected, in which no thread can start
            run_when_safe(end)
        else:
            run_uninterrupted(end)

    def checkpoint_due(self) -> bool:
        """Whether, with one piece more, an answer has gone on for so long that what it said is to be written down."""
        self._pieces += 1
        return self._pieces >= _PIECES or monotonic() - self._written_at >= _SECONDS

    def write_partial_reply(self) -> None:
        """Write down what the answer said since the last time; a failure costs nothing but that."""
        assert self._opened is not None
        session, turn = self._opened
        self._pieces, self._written_at = 0, monotonic()
        text = turn.said[self._written :]
        if self._saved or not text:
            return
        self._written += len(text)
        try:
            with defer_finalizers(), session.locked():
                records = turn.delta_records(text)
                session.append(turn.id, *records, self._clock(), part=f"d{self._written}-", is_edge=False)
        except Exception as error:
            logger.warning("ctxwrap: a reply in flight was not written down: %s", error)

    def abandon(self) -> None:
        """Nobody will ever read on."""
        self.save("abandoned")

    def _end(self, session: Session, turn: Turn, interrupted: str) -> None:
        with self._telemetry.saving(lambda: self.record):
            self._write(session, turn, interrupted)

    def _write(self, session: Session, turn: Turn, interrupted: str) -> None:
        now = self._clock()
        self._decide_files(session, turn, interrupted)

        def end() -> TurnEnd:
            if interrupted == _NOT_OPENED and not session.state.turns.has(turn.id):
                return [], [], now  # the medium does not have its opening
            messages, events = turn.closing_records(session.memory, session.next_message, interrupted)
            return messages, events, now

        def written() -> None:
            messages, events, _ = end()
            session.append(turn.id, messages, events, now, part="c")
            if self._place is not None:
                self._place.give_back()

        try:
            with defer_finalizers():
                session.transaction(written)
        except Exception as error:
            logger.warning("ctxwrap: the reply was not saved: %s", error)
            self._not_saved, self._error = ("reply",), str(error)
            self._telemetry.failed(error)
            session.defer_write(turn.id, end)
        except BaseException:
            session.defer_write(turn.id, end)
            self._pay_at_once(session)
            raise
        else:
            self._warn_of_misses(session, turn)
            if not interrupted:  # else this may be the moment that an object is collected, in which no thread can start
                self._summarise_behind(session, turn)
            self._catch_up(session, turn, interrupted)
        finally:
            self._leave()

    def _pay_at_once(self, session: Session) -> None:
        """Write what an interruption kept from being written; whoever writes next does so if that fails."""
        try:
            with defer_finalizers():
                session.transaction(lambda: None)
        except Exception as error:
            logger.warning("ctxwrap: the reply is written later: %s", error)

    def _warn_of_misses(self, session: Session, turn: Turn) -> None:
        """Say once in a session that the model leaves its snapshots out."""
        told = session.state.compliance
        if turn.missed and told.in_a_row == MANY and told.alarms == 1:
            logger.warning(
                "session %r: the last %d replies of %r have no snapshot, so memory has only what rules find in the "
                'user\'s words. Set on_missing="reask" or use another model; `ctxwrap check --model %s` tells how well '
                'a model does. context_mode="readonly" asks for no snapshots',
                session.key.session,
                MANY,
                turn.model,
                turn.model,
            )

    def _decide_files(self, session: Session, turn: Turn, interrupted: str) -> None:
        """Grant what the model asks of its working set, as far as it may; the reply does not depend on it."""
        try:
            requests = turn.file_requests(interrupted)
            turn.file_decisions = self._context.decide_files(requests, session, turn.round)
        except Exception as error:
            logger.warning("ctxwrap: what the model asks of the working set was not done: %r", error)

    def _summarise_behind(self, session: Session, turn: Turn) -> None:
        writer = self._context.settings.summariser
        if writer is not None and self._target.mode == "enabled":
            document = partial(write_by_model, session, writer, turn.id, self._clock)
            then = document if self._context.settings.context_document else lambda: None
            summarise_behind(session, writer, turn.id, self._clock, then)

    def _catch_up(self, session: Session, turn: Turn, interrupted: str) -> None:
        """Bring up to date what nobody waits for: the context document, and the files that follow from the log."""
        settings = self._context.settings
        has_document = settings.context_document and self._target.mode == "enabled" and not interrupted
        ends = session.is_ending = not interrupted and self._target.mode not in _AS_IT_IS and asks_to_end(session)

        def work() -> None:
            if ends:
                end_behind(session, turn.id, self._clock, has_document=settings.context_document)
            elif has_document:
                update_document_if_due(session, turn.id, self._clock)
            session.catch_up()

        if settings.derive == "behind":
            background.schedule(session, work, starts=not interrupted)
        else:
            work()

    def _opened_record(self) -> TurnRecord | None:
        return self.record if self._opened else None

    @property
    def record(self) -> TurnRecord:
        record = self.turn.record
        error = self._error or record.report.error
        return replace(record, report=replace(record.report, not_saved=self._not_saved, error=error))


def why_stopped(error: BaseException) -> str:
    """The word for what ended a call."""
    if isinstance(error, GeneratorExit):
        return "closed"
    return f"provider_error: {type(error).__name__}" if isinstance(error, Exception) else "cancelled"
