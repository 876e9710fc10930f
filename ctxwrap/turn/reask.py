"""Asks the model again for a snapshot that could not be used: when, how, and what its answers change."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from ctxwrap.protocol.instructions import SEPARATOR, ask_state
from ctxwrap.providers.base import ProviderAdapter
from ctxwrap.providers.text_channel import PlainStream
from ctxwrap.settings import Settings
from ctxwrap.stores.log_format import truncate_for_log
from ctxwrap.types import USABLE, Body, Message, ParsedReply, Record, Reply


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
        if self.attempts or not self._settings.max_reasks or reading is None or not is_due(reply):
            return False
        missing = reading.status == "missing"
        return self._settings.on_missing == "reask" if missing else reading.status not in USABLE

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
        self.fetched |= reply.fetched
        text = reply.messages[0].text if reply.messages else ""
        reading = self._reading(text) if reply.natural else _cut_short(text, reply.finish)
        self.attempts.append(ReaskAttempt(reading.status, text, reading.violations, reply.usage))
        if reading.status in USABLE:
            self.reading = _with_snapshot(original, reading)
        elif text.strip():
            message = Message("assistant", reading.visible)
            self._body, self._latest = self._asked, replace(reply, messages=(message,), reading=reading)
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
    return replace(
        original,
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
