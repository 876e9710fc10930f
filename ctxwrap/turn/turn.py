"""One call from start to end, with no I/O, no clock and no randomness: they are arguments.

The order of a turn:

 1. the session aligned the caller's messages with its log and fixed round and time (`Opening`); with a redaction
    policy, all that follows is made of what its `Screen` leaves of them;
 2. the mode is settled: a reply that cannot carry a trailer is only read for, never asked for one;
 3. the pack is made of what fits (`packing`), the wire puts it into the body: `body` is what to send;
 4. `opening_records` are written before anything is sent; should that be too long for the provider, `smaller` makes
    a smaller pack, once;
 5. the answer comes back whole (`reply`) or piece by piece (`event`, then `close`), and leaves without its trailer;
 6. if the trailer's state cannot be used, the model may be asked for it again (`asks_again`, `question`, `answered`);
 7. the state is compared with what was shown, which gives operations, and what it asks of the working set
    (`file_requests`) is decided (`file_decisions`);
 8. `closing_records` are written before the caller sees the end.

Both records tell what is missing: the first of the pack, the last of the questions in the state.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import reduce
from typing import Any

from ctxwrap.language.statements import Statement, statements_in
from ctxwrap.memory.items import Origin, ceiling, foreign_in, origin_of_request
from ctxwrap.memory.memory import Memory, merged, rewritten_in
from ctxwrap.memory.operations import Circumstances, compare, observe, stated_in, with_omissions
from ctxwrap.pack import injection
from ctxwrap.pack.budget import limit_told, reply_limit
from ctxwrap.pack.builder import Pack, PackRequest, PackSources, pack
from ctxwrap.protocol.instructions import is_example, neutral
from ctxwrap.protocol.origin import ShownTexts
from ctxwrap.protocol.reply import ReplyStream, read_reply
from ctxwrap.providers.messages import sendable
from ctxwrap.providers.text_channel import PlainStream
from ctxwrap.redaction.visibility import Target
from ctxwrap.session import missing
from ctxwrap.session.missing import taken
from ctxwrap.session.open_turns import NO_SNAPSHOT, row_after
from ctxwrap.settings import Mode, Settings
from ctxwrap.tokens import TooLong
from ctxwrap.turn.reask import ReaskLoop, is_due
from ctxwrap.turn.records import TurnRecords
from ctxwrap.turn.redactor import TurnRedactor
from ctxwrap.types import (
    USABLE,
    Body,
    Injection,
    Operation,
    ParsedReply,
    ProviderAdapter,
    Record,
    Reply,
    Report,
    Request,
    Resource,
    SessionKey,
    TextDelta,
    TextStream,
    TurnInputs,
    TurnRecord,
)
from ctxwrap.workingset.actions import ActionStream
from ctxwrap.workingset.requests import Decision, requests_in, requests_of
from ctxwrap.workingset.requests import FileRequest as FileRequest

_LONG = 64 * 1024
"""A text beyond so many characters is not read in passing."""


class Turn:
    def __init__(
        self,
        id: str,
        key: SessionKey,
        wire: ProviderAdapter,
        body: Body,
        request: Request,
        asked: Mode,
        opening: TurnInputs,
        settings: Settings,
        sources: PackSources | None = None,
    ) -> None:
        self.id = id
        self.key = key
        self.mode, self._mode_reason = settled_mode(asked, request)
        self._asked = asked
        self._wire = wire
        self._settings = settings
        self._new = opening.new
        self._screen = screen = TurnRedactor(settings.redaction)
        self._unscreened = body
        self._request = TurnRedactor(settings.redaction).request(request)
        self._given = PackRequest(key, wire.name, screen.body(body), self._request, self.mode)
        self._opening = screen.opening(opening)
        self._writing = TurnRecords(id, key, wire.name, self.mode, self._request, self._opening, settings)
        self._sources = screen.sources(sources or PackSources())
        self._pack: Pack | None = None
        self._repacked = False
        self.body = body if asked == "disabled" else self._given.body
        if self.mode != "disabled":
            self._pack = pack(self._given, self._opening, self._sources, settings)
            self.body = self._body_with(self._pack)
        self._asked_with = _shown_in(self._request, self._pack)
        self._streams: list[ReplyStream] = []
        self._rewriter = wire.rewriter(body, self._text_stream)
        self.max_reasks = settings.max_reasks
        self._reasking = ReaskLoop(wire, self.body, settings, self._read_again)
        self._closed = False
        self._broken = ""
        self._error = ""
        self._status = ""
        self._operations: tuple[Operation, ...] = ()
        self._violations: tuple[str, ...] = ()
        """What the model's changes of memory break, beyond the snapshot's own form."""
        self._sent_without = self._missing = self._opening.missing
        self.file_decisions: tuple[Decision, ...] = ()
        """What became of the model's requests to its working set."""

    @property
    def round(self) -> int:
        return self._opening.runtime.round

    @property
    def _attempt(self) -> int:
        """Which of the turn's requests is the one that counts."""
        return 1 + self._repacked

    @property
    def observes(self) -> bool:
        """The request and the reply go through as they are; they are only looked at."""
        return self.mode in ("disabled", "shadow")

    @property
    def rewrites(self) -> bool:
        """Whether another request is sent than the caller's."""
        return self.body is not self._unscreened

    @property
    def ended(self) -> bool:
        """The provider has said its last word, or that it cannot."""
        return self._rewriter.ended or bool(self._broken)

    def shrink(self, told: TooLong) -> bool:
        """Make `body` a smaller one, since the provider says that it is too long; whether there was a way.

        There is one way at most. A turn that says False is as it was.
        """
        if self.observes or self._repacked or self._pack is None:
            return False
        before, fewer = self._pack, self._fewer(self._pack, told)
        body = self._body_with(fewer)
        asks_for_less = (reply_limit(body) or 0) < (reply_limit(self.body) or 0)
        if fewer.budget["used"] >= before.budget["used"] and not asks_for_less:
            return False
        self._repacked, self._pack, self.body = True, fewer, body
        self._asked_with = _shown_in(self._request, fewer)
        self._reasking = ReaskLoop(self._wire, body, self._settings, self._read_again)
        return True

    def _fewer(self, made: Pack, told: TooLong) -> Pack:
        """The pack again within what the provider takes, with no further look at the log and the epoch as it is.

        A provider that counts the reply in is not asked for room beyond what the caller wants.
        """
        reply = reply_limit(self._given.body if told.reply else self.body) or 0
        most = limit_told(told, made.budget["fixed"] + made.budget["used"], reply)
        retrieve = (lambda *_: made.found) if self._sources.retrieve else None
        sources = self._sources._replace(retrieve=retrieve)
        fewer = pack(self._given, self._opening, sources, self._settings, most)
        reserve = 0 if told.reply else fewer.injection.reserve
        return replace(fewer, epoch=made.epoch, injection=replace(fewer.injection, reserve=reserve))

    def repacked_records(self, kept: Mapping[str, Record] | None = None) -> tuple[list[Record], list[Record]]:
        """What was sent in the end, since what was to be sent was too long."""
        assert self._pack is not None, "only a pack is made smaller"
        sent = self._writing.repack(self._pack, self.body, kept or {})
        return [], self._writing.screened([*sent, *self._pack_lacks(self._sent_without)])

    def _body_with(self, made: Pack) -> Body:
        return self._unscreened if self.observes else sendable(self._wire.inject(self._given.body, made.injection))

    def reply(self, payload: Body) -> Body:
        """A whole reply, as the caller may see it; as it came, should we fail to read it."""
        try:
            return self._rewriter.whole(payload)
        except Exception as error:
            self._error = f"the reply could not be read: {error!r}"
            return payload

    def event(self, event: Body) -> list[Body]:
        """What a stream's event becomes: none, one or several."""
        if event.get("type") == "error" or event.get("error"):
            self._broken = "provider_error"
        try:
            held = self._rewriter.close() if self._broken else []
            return [*held, *self._rewriter.event(event)]
        except Exception as error:
            self._error = f"an event could not be read: {error!r}"
            return [event]

    def text_delta(self, event: Body) -> TextDelta | None:
        """What an event that was taken is as a text delta, if it is nothing else."""
        return self._rewriter.text_delta(event) if not self.ended and not self._error else None

    def is_long(self, event: Body) -> bool:
        """Whether taking an event may take long: for its own text, or for all that came before and is read with it."""
        return max(_text_size(event), sum(stream.size for stream in self._streams)) > _LONG

    def close(self) -> list[Body]:
        """What was held back when the stream stopped."""
        self._closed = True
        return self._rewriter.close()

    @property
    def said(self) -> str:
        """What the caller was shown of the answer so far, as far as it may be written down."""
        messages = self._rewriter.reply.messages
        return self._screen.lines(messages[0].text) if messages else ""

    def delta_records(self, text: str) -> tuple[list[Record], list[Record]]:
        """What the answer went on to say."""
        return [], [self._writing.delta(text, self._origin)]

    @property
    def asks_again(self) -> bool:
        """Whether all has been said, but no snapshot that can be used, and the model is to be asked for it."""
        if self.mode != "enabled" or self._status or self._broken or self._error:
            return False
        return (self._closed or self._rewriter.spoken) and self._reasking.wants(self._rewriter.reply)

    def question(self) -> Body:
        """What to send to ask for the snapshot alone; `answered` or `unanswered` follows."""
        return sendable(TurnRedactor(self._settings.redaction).body(self._reasking.question(self._rewriter.reply)))

    def answered(self, payload: Body) -> bool:
        """The whole reply to a question; whether its snapshot can be used, or none is needed any more."""
        reading = self._rewriter.reply.reading
        assert reading is not None, "only a reply that was read is asked about"
        return bool(self._status) or self._reasking.answered(payload, reading)

    def unanswered(self, error: BaseException) -> None:
        """A question came to nothing; the reply stays as it is."""
        self._reasking.failed(error)

    @property
    def texts(self) -> Mapping[str, str]:
        """The longer texts that the pack adds: what the log refers to once they are kept."""
        return self._pack.texts if self._pack else {}

    def opening_records(self, kept: Mapping[str, Record] | None = None) -> tuple[list[Record], list[Record]]:
        """The caller's new messages, and the events that start the turn; `kept` is where its texts lie."""
        start = self._writing.start(self._pack, self.body, kept or {}, self._screen, self._origin)
        lacks = self._pack_lacks(self._opening.missing)
        events = [*start, *lacks, *self._writing.tool_results()]
        return self._writing.asked(self._new), self._writing.screened(events)

    def resources(self, target: Target) -> tuple[Resource, ...]:
        """What of this turn's context is for somebody beside the model, or instead of it."""
        return tuple(each for each in self._pack.resources if target in each.visibility) if self._pack else ()

    def resource_records(
        self, target: Target, kept: Mapping[str, Record], tool_call: str
    ) -> tuple[list[Record], list[Record]]:
        """That somebody was handed what is for them; `kept` is where the texts lie, by their sources."""
        return [], self._writing.screened(self._writing.handed_out(target, self._attempt, kept, tool_call))

    def file_requests(self, interrupted: str = "") -> tuple[FileRequest, ...]:
        """What the model asks of its working set, in a state that is applied or in its answer, if that is complete."""
        if self._why_incomplete(interrupted):
            return ()
        snapshot, reply = self._applied_snapshot(self._reply), self._rewriter.reply
        listed = requests_of(snapshot["working_set"]) if snapshot and "working_set" in snapshot else ()
        fault = "" if reply.natural else "the reply was cut short"
        blocks = reply.reading.actions if reply.reading else ()
        return (*listed, *(each._replace(fault=fault) for block in blocks for each in requests_in(block)))

    def _pack_lacks(self, known: missing.MissingItems) -> list[Record]:
        """What of the pack is missing that was not, and what is there again."""
        if self._pack is None:
            return []
        ids = self._writing.ids(self._attempt)
        events = self._writing.screened(missing.packed(known, self._pack.items, self._pack.report, ids))
        self._sent_without = self._missing = reduce(taken, events, known)
        return events

    def _questions(self, reply: Reply, answer_at: int) -> list[Record]:
        """What the model needs to know, and what it does no longer."""
        snapshot = self._applied_snapshot(reply) if self._status == "complete" else None
        if snapshot is None or "missing" not in snapshot:
            return []
        ids, answer = self._writing.ids(self._attempt), f"messages:{answer_at}"
        events = self._writing.screened(missing.flagged(self._sent_without, snapshot["missing"], ids, answer))
        self._missing = reduce(taken, events, self._sent_without)
        return events

    def _why_incomplete(self, interrupted: str) -> str:
        reply = self._reply
        return "" if reply.finish and not self._broken else self._broken or interrupted or "incomplete stream"

    def closing_records(
        self, now: Memory, answer_at: int = 0, interrupted: str = ""
    ) -> tuple[list[Record], list[Record]]:
        """The answer as far as it came and what it does to memory as it is `now`.

        `answer_at` is the number that the answer gets in the log; `interrupted` says why it did not come to its end.
        """
        reply, screen = self._reply, TurnRedactor(self._settings.redaction)
        reason = self._why_incomplete(interrupted)
        self._status, self._mode_reason = ("aborted", reason) if reason else ("complete", self._mode_reason)
        self._violations = ()
        self._operations = () if reason else self._changes(reply, now, answer_at)
        writing, applied = self._writing, self._applied_snapshot(reply) if not reason else None
        if applied is not None:
            capabilities, violation = merged(now.capabilities, applied["capabilities"])
            applied = {**applied, "capabilities": capabilities}
            self._violations += (*((violation,) if violation else ()), *rewritten_in(self._operations))
        observed, due = self._operations if applied is None else (), not reason and self._is_due(reply)
        messages = writing.answer(reply, screen, self._status, reason, self._origin)
        screen.reading(self._rewriter.reply.reading)  # for what it finds
        events = [
            *self._reasking.events(self.id),
            *writing.snapshot(self._reading_told(reply.reading), applied, self._operations, self._origin, due=due),
            *writing.observation(observed),
            *writing.files(self.file_decisions),
            *self._questions(reply, answer_at),
            *writing.tool_calls(reply, answer_at),
            *writing.choices(reply),
        ]
        return messages, writing.screened(writing.ended(events, self._attempt, reply, reason, screen))

    def _reading_told(self, reading: ParsedReply | None) -> ParsedReply | None:
        """The reading with what else the snapshot breaks."""
        return reading and replace(reading, violations=(*reading.violations, *self._violations))

    @property
    def missed(self) -> bool:
        """Whether the reply has no snapshot, though it should."""
        reading = self._reply.reading
        return reading is not None and NO_SNAPSHOT in reading.violations

    @property
    def model(self) -> str:
        return self._request.model

    def _is_due(self, reply: Reply) -> bool:
        return self.mode == "enabled" and is_due(reply)

    @property
    def record(self) -> TurnRecord:
        reply, before = self._reply, self._opening.misses
        reading = self._reading_told(reply.reading)
        return TurnRecord(
            id=self.id,
            mode=self.mode,
            session=self.key.session,
            tenant=self.key.tenant,
            agent=self.key.agent,
            round=self._opening.runtime.round,
            snapshot=reading.snapshot if reading else None,
            operations=self._operations,
            violations=reading.violations if reading else (),
            repairs=reading.repairs if reading else (),
            pack=self._pack.items if self._pack else (),
            report=Report(
                status=self._status or "open",  # type: ignore[arg-type]  # one of the words of Report
                reason=self._mode_reason,
                mode_asked=self._asked,
                error=self._error,
                sha256=injection.body_hash(self.body),
                reading=reading.status if reading else "missing",
                reasks=len(self._reasking.attempts),
                reask_usage=self._reasking.usage,
                reask_error=self._reasking.error,
                assembly=self._pack.report if self._pack else {},
                budget=self._pack.budget if self._pack else {},
                stable=self._pack.stable if self._pack else 0.0,
                repacked=self._repacked,
                missing=missing.open_in(self._missing),
                misses=row_after(before, reading.status) if reading and self._is_due(reply) else before,
            ),
        )

    def _text_stream(self) -> TextStream:
        if self.observes:
            return PlainStream()
        stream = ReplyStream(self._opening.runtime.as_json(), self._shown, self._asked_with)
        self._streams.append(stream)
        takes_actions = self.mode == "enabled" and self._settings.working_set and self._settings.working_set_updates
        return ActionStream(stream, self._asked_with.quotes) if takes_actions else stream

    def _read_again(self, text: str) -> ParsedReply:
        return read_reply(text, self._opening.runtime.as_json(), self._shown, self._asked_with)

    @property
    def _shown(self) -> dict[str, Any]:
        """Memory as the model sees it."""
        return self._pack.state if self._pack else self._opening.state

    @property
    def _reply(self) -> Reply:
        """The reply as far as it came, with the snapshot that was asked for, if so."""
        reply, mended = self._rewriter.reply, self._reasking.reading
        reading = TurnRedactor(self._settings.redaction).reading(mended or reply.reading)
        if reading is not None and reading.status == "missing" and self._is_due(reply):
            reading = replace(reading, violations=(*reading.violations, NO_SNAPSHOT))
        return reply if reading is reply.reading else replace(reply, reading=reading)

    @property
    def _origin(self) -> Origin:
        """The least trusted of what the model was shown, and of what its reply is made of besides."""
        shown = self._pack.origin if self._pack else "user"
        sent = origin_of_request(self._request, self._opening) if self.observes else shown
        fetched = self._rewriter.reply.fetched or self._reasking.fetched
        return foreign_in((shown, sent, "tool" if fetched else "")) or sent

    def _changes(self, reply: Reply, now: Memory, answer_at: int) -> tuple[Operation, ...]:
        """What the snapshot does to memory or, without one, what can be seen without it."""
        circumstances, snapshot = self._circumstances(reply, answer_at), self._applied_snapshot(reply)
        if snapshot is None:
            return self._observed(reply, now, circumstances)
        if self._settings.snapshot == "full":
            snapshot, violation = with_omissions(self._shown, snapshot)
            self._violations = (violation,) if violation else ()
        snapshot = _without_examples(snapshot)
        return compare(self._shown, snapshot, now, circumstances, self._stated(reply, now, circumstances, snapshot))

    def _stated(
        self, reply: Reply, now: Memory, circumstances: Circumstances, snapshot: Mapping[str, Any]
    ) -> tuple[Statement, ...]:
        """What of the user's own words may reach core, where a model that was shown foreign text may not write it."""
        may_itself = ceiling(circumstances.origin, foreign_core=circumstances.foreign_core) == "core"
        if may_itself or not self._takes_statements(reply, now):
            return ()
        return stated_in(circumstances.said, [item["content"] for item in snapshot["memory"]["core"]])

    def _observed(self, reply: Reply, now: Memory, circumstances: Circumstances) -> tuple[Operation, ...]:
        """What the turn uses of memory, and what the user plainly stated."""
        takes = self._takes_statements(reply, now)
        return observe(now, circumstances, statements_in(circumstances.said)) if takes else ()

    def _takes_statements(self, reply: Reply, now: Memory) -> bool:
        """Whether rules may take something from the user's words; a tool's call is no answer yet."""
        calls_tools = bool(reply.messages and reply.messages[0].tool_calls)
        return self.mode == "enabled" and not calls_tools and now.evolves and self._settings.on_missing != "keep"

    def _circumstances(self, reply: Reply, answer_at: int) -> Circumstances:
        first = self._opening.first_message
        return Circumstances(
            round=self._opening.runtime.round,
            origin=self._origin,
            source=f"messages:{first}-{max(first, answer_at)}",
            said=_said_in(self._request),
            answered=reply.messages[0].text if reply.messages else "",
            foreign_core=self._settings.foreign_core,
            brief=self._pack.brief if self._pack else frozenset(),
            touched={item["id"]: item["round"] for tier in self._opening.state["memory"].values() for item in tier},
        )

    def _applied_snapshot(self, reply: Reply) -> Mapping[str, Any] | None:
        """The state in the reply, if the model came to its own end and was asked for one."""
        reading = reply.reading
        if self.mode != "enabled" or not reply.natural or reading is None or reading.status not in USABLE:
            return None
        return reading.snapshot


def _text_size(value: Any) -> int:
    """How many characters the texts in a value have."""
    if isinstance(value, str):
        return len(value)
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return sum(map(_text_size, parts))


def _said_in(request: Request) -> str:
    """What the user said last, before any tool was called for it."""
    said: list[str] = []
    for message in reversed(request.messages):
        if message.role == "user":
            said.insert(0, message.text)
        elif said:
            break
    return "\n".join(said)


def _without_examples(snapshot: Mapping[str, Any]) -> Mapping[str, Any]:
    """`snapshot` without objects that the model copied from what it was told about them."""
    memory = {tier: [item for item in items if not is_example(item)] for tier, items in snapshot["memory"].items()}
    return {**snapshot, "memory": memory}


def _shown_in(request: Request, made: Pack | None) -> ShownTexts:
    """The texts of a request as they came and, where that differs, as the model saw them: an echo may repeat either."""
    added = made.injection if made else Injection("", "")
    texts = [message.text for message in (*request.messages, *added.history)]
    texts += filter(None, (added.protocol, added.background, added.standing))
    return ShownTexts([*texts, *(shown for text in texts if (shown := neutral(text)) is not text)], added.block)


def settled_mode(asked: Mode, request: Request) -> tuple[Mode, str]:
    """The mode a turn really has, and why it is another than was asked for."""
    if asked == "disabled":
        return asked, ""
    if request.no_context:
        return "disabled", request.no_context
    if asked == "enabled" and request.no_trailer:
        return "readonly", f"{request.no_trailer} leaves no room for a trailer"
    return asked, ""
