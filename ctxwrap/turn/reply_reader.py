"""The reply of a turn: its trailer is stripped, its snapshot read, and asked for again if it cannot be used."""

from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Any, NamedTuple

from ctxwrap.callers_list import values_of
from ctxwrap.pack.builder import Pack
from ctxwrap.protocol.instructions import SEPARATOR, ask_state
from ctxwrap.protocol.origin import ShownTexts
from ctxwrap.protocol.reply import ReplyStream, read_reply
from ctxwrap.providers.base import ProviderAdapter, TextDelta
from ctxwrap.providers.messages import sendable
from ctxwrap.providers.text_channel import PlainStream
from ctxwrap.session.open_turns import NO_SNAPSHOT
from ctxwrap.settings import Mode, Settings
from ctxwrap.stores.log_format import truncate_for_log
from ctxwrap.turn.records import TurnRedactor, redactor_for
from ctxwrap.types import (
    USABLE,
    Body,
    Message,
    ParsedReply,
    Record,
    Reply,
    Request,
    TextStream,
    TurnInputs,
)


def is_due(reply: Reply) -> bool:
    """Whether a reply should have a snapshot: the model came to its own end and wrote text for the user.

    A reply that calls tools or refuses need not have one.
    """
    reading = reply.reading
    if reading is None or not reply.natural or not reply.messages or reply.messages[0].tool_calls:
        return False
    return bool(reading.visible.strip() or reading.trailer)


class ReaskAttempt(NamedTuple):
    """One question and its answer."""

    status: str = "failed"
    """The status of the answer's reading, or `failed` if there was no answer."""
    text: str = ""
    violations: tuple[str, ...] = ()
    usage: Mapping[str, Any] = {}
    error: str = ""

    def as_event(self, run: str, number: int) -> Record:
        fields = {**self._asdict(), "violations": list(self.violations), "usage": dict(self.usage)}
        return {
            "type": "reask",
            "run": run,
            "attempt": number,
            **fields,
            "text": truncate_for_log(self.text),
            "ctx": {},
        }


class ReaskLoop:
    """The questions that one turn sends in requests of its own."""

    def __init__(
        self, adapter: ProviderAdapter, body: Body, settings: Settings, read: Callable[[str], ParsedReply]
    ) -> None:
        self._adapter = adapter
        self._settings = settings
        self._read = read
        self._body = self._asked = body
        self._latest: Reply | None = None
        self.attempts: list[ReaskAttempt] = []
        self.fetched = False
        """Whether the provider fetched something for an answer, such as a web page."""
        self.reading: ParsedReply | None = None
        """The reply's reading with the snapshot of an answer, once one could be used."""

    def wants(self, reply: Reply) -> bool:
        """Whether a complete reply has no usable snapshot, and no question was sent yet."""
        reading = reply.reading
        if reading is None or reading.status in USABLE or self.attempts or not self._settings.max_reasks:
            return False
        return (reading.status != "missing" or self._settings.on_missing == "reask") and is_due(reply)

    def question(self, reply: Reply) -> Body:
        """The request to send: the last one, its reply, and what was wrong with it."""
        reply = self._latest or reply
        violations = reply.reading.violations if reply.reading else ()
        self._asked = self._adapter.ask_again(self._body, reply, ask_state(violations), self._settings.snapshot_reserve)
        return self._asked

    def answered(self, payload: Body, original: ParsedReply) -> bool:
        """Read the answer to the latest question; return whether its snapshot can be used."""
        rewriter = self._adapter.rewriter(self._asked, PlainStream)
        rewriter.whole(payload)
        reply = rewriter.reply
        self.fetched |= rewriter.fetched
        text = reply.messages[0].text if reply.messages else ""
        reading = self._reading(text) if reply.natural else _cut_short(text, reply.finish)
        self.attempts.append(ReaskAttempt(reading.status, text, reading.violations, reply.usage))
        if reading.status in USABLE:
            self.reading = _with_snapshot(original, reading)
        elif text.strip():
            message = Message("assistant", reading.visible)
            self._body, self._latest = self._asked, reply._replace(messages=(message,), reading=reading)
        return self.reading is not None

    def failed(self, error: BaseException) -> None:
        """The latest question got no answer."""
        self.attempts.append(ReaskAttempt(error=type(error).__name__))

    @property
    def usage(self) -> dict[str, int]:
        """The usage of all answers, summed up; nested details are only in the log."""
        total: dict[str, int] = {}
        for attempt in self.attempts:
            for name, count in attempt.usage.items():
                if isinstance(count, int) and not isinstance(count, bool):
                    total[name] = total.get(name, 0) + count
        return total

    @property
    def error(self) -> str:
        return next((attempt.error for attempt in self.attempts if attempt.error), "")

    def events(self, run: str) -> list[Record]:
        return [attempt.as_event(run, number) for number, attempt in enumerate(self.attempts, 1)]

    def _reading(self, text: str) -> ParsedReply:
        """The reading of an answer that should be a trailer alone; JSON without the separator counts as one."""
        reading = self._read(text)
        if reading.status == "missing" and text.lstrip().startswith(("{", "```")):
            return self._read(f"{SEPARATOR}\n{text.lstrip()}")
        return reading


def _cut_short(text: str, finish: str) -> ParsedReply:
    return ParsedReply(text, violations=(f"the answer ended with {finish or 'nothing'!r}",), status="rejected")


def _with_snapshot(original: ParsedReply, answer: ParsedReply) -> ParsedReply:
    """The reading of the original reply, with the snapshot of an answer."""
    return original._replace(
        snapshot=answer.snapshot,
        repairs=(*original.repairs, "reask"),
        violations=(*original.violations, *answer.violations),
        status="partial" if answer.status == "partial" else "repaired",
    )


def reask_retry_options(attempts: int) -> dict[str, Any]:
    """The options for tenacity to ask until a snapshot can be used, without waits, and without an error if none can."""
    from tenacity import retry_if_result, stop_after_attempt

    return {
        "stop": stop_after_attempt(attempts),
        "retry": retry_if_result(_is_unusable),
        "retry_error_callback": lambda state: None,
    }


def _is_unusable(usable: bool | None) -> bool:
    """None is a question without an answer: retrying a provider's errors is up to its SDK."""
    return usable is False


_LONG = 64 * 1024
"""An event with more characters than this is not read on the event loop."""


class SentRequest(NamedTuple):
    """The request as it is sent."""

    body: Body
    pack: Pack | None
    """What was added to it; None if nothing was."""
    state: dict[str, Any]
    """Memory as the model sees it."""
    texts: ShownTexts
    """The texts the model sees; a trailer that repeats one of them is an echo."""
    attempt: int = 1
    """2 if the provider rejected the first request as too long."""


def shown_texts(request: Request, pack: Pack | None) -> ShownTexts:
    """The texts of a request, and those that ctxwrap adds."""
    said = values_of(request.messages, _TEXT)
    if pack is None:
        return ShownTexts(messages=said)
    added = pack.injection
    own = added.protocol, added.background, added.standing
    return ShownTexts(own, added.block, [*said, *map(_TEXT, added.history)])


_TEXT = attrgetter("text")


class _TextReader:
    """Reads texts of the reply to one request.

    It does not know the `ReplyReader`: a cycle would keep the whole turn in memory until the next garbage collection.
    """

    def __init__(self, sent: SentRequest, mode: Mode, inputs: TurnInputs, settings: Settings) -> None:
        self.sent = sent
        self._mode, self._runtime, self._settings = mode, inputs.runtime, settings
        self._streams: list[ReplyStream] = []

    @property
    def size(self) -> int:
        """The characters of all texts so far."""
        return sum(stream.size for stream in self._streams)

    def stream(self) -> TextStream:
        """The stream for one more text."""
        if self._mode in ("disabled", "shadow"):
            return PlainStream()
        stream = ReplyStream(self._runtime.as_json(), self.sent.state, self.sent.texts)
        self._streams.append(stream)
        settings = self._settings
        takes_actions = self._mode == "enabled" and settings.working_set and settings.working_set_updates
        if not takes_actions:
            return stream
        from ctxwrap.workingset.actions import ActionStream

        return ActionStream(stream, self.sent.texts.quotes)

    def read(self, text: str) -> ParsedReply:
        """Read the whole text of an answer."""
        return read_reply(text, self._runtime.as_json(), self.sent.state, self.sent.texts)


class ReplyReader:
    """Takes a reply whole or event by event. No method does I/O."""

    def __init__(
        self,
        adapter: ProviderAdapter,
        caller_body: Body,
        sent: SentRequest,
        mode: Mode,
        inputs: TurnInputs,
        settings: Settings,
    ) -> None:
        self._adapter = adapter
        self._mode = mode
        self._settings = settings
        self._redactor = redactor_for(settings.redaction)
        self._texts = _TextReader(sent, mode, inputs, settings)
        self._reasks: ReaskLoop | None = None
        self._rewriter = adapter.rewriter(caller_body, self._texts.stream)
        self._is_closed = False
        self._complete: Reply | None = None
        self.broken = ""
        """Set when the provider sends an error instead of the rest of the reply."""
        self.error = ""
        """ctxwrap's own failure to read the reply, if there was one."""
        self.is_saved = False
        """Set once the turn's end was built; from then on no question is asked."""
        self.max_reasks = settings.max_reasks

    def use(self, sent: SentRequest) -> None:
        """Read the reply as one to `sent`."""
        self._texts.sent = sent
        self._reasks = None

    @property
    def reasks(self) -> ReaskLoop:
        """The questions about the reply; most replies need none."""
        if self._reasks is None:
            self._reasks = ReaskLoop(self._adapter, self._texts.sent.body, self._settings, self._texts.read)
        return self._reasks

    def whole(self, payload: Body) -> Body:
        """Read a whole reply; return the caller's view of it, or `payload` itself if it cannot be read."""
        self._is_closed, self._complete = True, None
        try:
            return self._rewriter.whole(payload)
        except Exception as error:
            self.error = f"the reply could not be read: {error!r}"
            return payload

    def event(self, event: Body) -> list[Body]:
        """Read an event of a stream; return the events the caller gets for it."""
        if event.get("type") == "error" or event.get("error"):
            self.broken = "provider_error"
        self._complete = None
        try:
            held = self._rewriter.close() if self.broken else []
            return [*held, *self._rewriter.event(event)]
        except Exception as error:
            self.error = f"an event could not be read: {error!r}"
            return [event]

    def text_delta(self, event: Body) -> TextDelta | None:
        """How to pass on further events like `event`, which was read, if it does nothing but add text."""
        return self._rewriter.text_delta(event) if not self.ended and not self.error else None

    def is_long(self, event: Body) -> bool:
        """Whether reading an event may take long: it is long itself, or completes a long text."""
        return max(_text_size(event), self._texts.size) > _LONG

    def close(self) -> list[Body]:
        """End the stream; return the events that were held back."""
        self._is_closed, self._complete = True, None
        return self._rewriter.close()

    @property
    def ended(self) -> bool:
        """Whether the provider has sent its last event, or an error."""
        return self._rewriter.ended or bool(self.broken)

    @property
    def loggable_text(self) -> str:
        """The visible text so far, up to where redaction can no longer change it."""
        messages = self._rewriter.reply.messages
        text = messages[0].text if messages else ""
        return text if self._redactor is None else self._redactor.lines(text)

    @property
    def needs_reask(self) -> bool:
        """Whether all text has come without a usable snapshot, and the model is to be asked for one."""
        if self._mode != "enabled" or self.is_saved or self.broken or self.error:
            return False
        if not self._is_closed and not self._rewriter.spoken:
            return False
        reply = self._reply
        is_read = reply.reading is None or reply.reading.status in USABLE
        return not is_read and self.reasks.wants(reply)

    def question(self) -> Body:
        """The request that asks for the snapshot alone; `answered` or `unanswered` takes what comes of it."""
        question = self.reasks.question(self._reply)
        return sendable(TurnRedactor(self._settings.redaction).body(question, self._adapter.field_names))

    def answered(self, payload: Body) -> bool:
        """Read the answer to a question; return whether no further question is needed."""
        reading = self._reply.reading
        assert reading is not None, "only a reply that was read is asked about"
        return self.is_saved or self.reasks.answered(payload, reading)

    def unanswered(self, error: BaseException) -> None:
        self.reasks.failed(error)

    def why_incomplete(self, interrupted: str) -> str:
        """Why the reply did not come to its end; empty if it did."""
        if self._reply.finish and not self.broken:
            return ""
        return self.broken or interrupted or "incomplete stream"

    def reask_events(self, run: str) -> list[Record]:
        return self._reasks.events(run) if self._reasks is not None else []

    def is_snapshot_due(self, reply: Reply) -> bool:
        return self._mode == "enabled" and is_due(reply)

    @property
    def fetched(self) -> bool:
        """Whether the provider fetched something for the reply or for an answer to a question."""
        return self._rewriter.fetched or (self._reasks is not None and self._reasks.fetched)

    @property
    def raw_reading(self) -> ParsedReply | None:
        """The reading of the reply itself, not redacted."""
        return self._reply.reading

    @property
    def reply(self) -> Reply:
        """The reply so far; its reading is redacted and has the snapshot of an answer, if there is one."""
        reply = self._reply
        reading = (self._reasks and self._reasks.reading) or reply.reading
        if reading is None:
            return reply
        if self._redactor is not None:
            reading = TurnRedactor(self._settings.redaction).reading(reading)
        if reading.status == "missing" and self.is_snapshot_due(reply):
            reading = reading._replace(violations=(*reading.violations, NO_SNAPSHOT))
        return reply if reading is reply.reading else reply._replace(reading=reading)

    @property
    def _reply(self) -> Reply:
        """The reply so far, as it came; a complete one is put together once."""
        if self._complete is not None:
            return self._complete
        reply = self._rewriter.reply
        if self._is_closed:
            self._complete = reply
        return reply


def _text_size(value: Any) -> int:
    """How many characters the texts in `value` have."""
    if isinstance(value, str):
        return len(value)
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return sum(map(_text_size, parts))
