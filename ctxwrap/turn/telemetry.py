"""Reports calls to OpenTelemetry, if the application uses it: attributes on the caller's span, spans for memory.

The caller's span is the one that is current when the call is made, wherever its stream is read. The span that is
current when the SDK sends the request, that of an instrumentation, gets the same attributes. Memory spans are created
outside the session's lock, with the times at which the work was done. Instrumenting the provider's call is up to the
SDK. This module does not import OpenTelemetry, and none of its failures reaches a call.
"""

import json
import logging
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from time import time_ns
from typing import Any, Concatenate, NamedTuple, ParamSpec

from ctxwrap import __version__
from ctxwrap.pack.builder import PackSources
from ctxwrap.pack.selection import Retrieved
from ctxwrap.redaction import Redaction
from ctxwrap.retrieval.selection import Passage
from ctxwrap.turn.records import TurnRedactor
from ctxwrap.types import Operation, SessionKey, TurnRecord

logger = logging.getLogger("ctxwrap")

P = ParamSpec("P")
Attributes = dict[str, Any]

_CAPTURE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
_IN_SPANS = frozenset({"true", "span_only", "span_and_event"})

_OPERATIONS = {
    "add": "create_memory",
    "update": "update_memory",
    "reinforce": "update_memory",
    "drop": "delete_memory",
    "forget": "delete_memory",
}


class _SearchSpan(NamedTuple):
    start: int
    end: int
    query: str
    found: Retrieved
    error: str


def _quietly(report: "Callable[Concatenate[Telemetry, P], None]") -> "Callable[Concatenate[Telemetry, P], None]":
    """Report without ever raising; after a failure this call reports nothing more."""

    @wraps(report)
    def reported(self: "Telemetry", /, *args: P.args, **kwargs: P.kwargs) -> None:
        if _is_inside_opentelemetry():
            return
        try:
            report(self, *args, **kwargs)
        except Exception as error:
            self._trace = None
            logger.warning("ctxwrap: a call was not reported to OpenTelemetry: %s", type(error).__name__)

    return reported


def _is_inside_opentelemetry() -> bool:
    """Whether this thread runs code of OpenTelemetry's SDK, whose locks are not reentrant.

    A stream may be collected, and its turn end, at any moment.
    """
    frame = sys._getframe(1)
    while frame.f_back is not None:
        if str(frame.f_globals.get("__name__")).startswith("opentelemetry.sdk"):
            return True
        frame = frame.f_back
    return False


def telemetry_of(key: SessionKey, provider: str, redaction: Redaction | None) -> "Telemetry | None":
    """What reports one call; None if nobody traces. Ask for it where the caller's span is current."""
    trace = sys.modules.get("opentelemetry.trace")
    return Telemetry(trace, key, provider, redaction) if is_used(trace) else None


def is_used(trace: Any) -> bool:
    """Whether there is a span or a provider of them: Anthropic's SDK imports OpenTelemetry in any application."""
    if trace is None:
        return False
    try:
        has_span = trace.get_current_span() is not trace.INVALID_SPAN
        return has_span or not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider)
    except Exception:  # `Telemetry` says so
        return True


class Telemetry:
    """Reports one call."""

    def __init__(self, trace: Any, key: SessionKey, provider: str, redaction: Redaction | None) -> None:
        self._trace: Any = None
        self._key, self._provider, self._redaction = key, provider, redaction
        self._searches: list[_SearchSpan] = []
        self._error = ""
        self._begin(trace)

    @_quietly
    def _begin(self, trace: Any) -> None:
        self._span = trace.get_current_span()
        self._spans = [self._span]
        if self._span.is_recording() or not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
            self._parent = trace.set_span_in_context(self._span)
            self._trace = trace

    def watching(self, sources: PackSources) -> PackSources:
        """`sources`, with searches that `opening` reports."""
        retrieve = sources.retrieve
        if self._trace is None or retrieve is None:
            return sources

        def watched_retrieve(query: str, below: int, budget: int, count: Callable[[str], int]) -> Retrieved:
            if below <= 1:  # there are no earlier messages
                return retrieve(query, below, budget, count)
            start, found, error = time_ns(), Retrieved(), ""
            try:
                found = retrieve(query, below, budget, count)
            except Exception as raised:
                error = type(raised).__name__
                raise
            else:
                return found
            finally:
                self._searches.append(_SearchSpan(start, time_ns(), query, found, error))

        return sources._replace(retrieve=watched_retrieve)

    def opened(self, record: Callable[[], TurnRecord | None]) -> None:
        """The turn was opened, or could not be."""
        if self._trace is not None:
            self._report_opened(record)

    def saved(self, record: Callable[[], TurnRecord], start: int) -> None:
        """The end of the turn was written, or could not be; `start` is when that began."""
        if self._trace is not None:
            self._report_saved(record, start, time_ns())

    def sending(self, record: Callable[[], TurnRecord]) -> None:
        """The SDK is about to send the request, perhaps inside a span of its own or of its instrumentation."""
        if self._trace is not None:
            self._report_sending(record)

    def failed(self, error: Exception) -> None:
        """The turn's end could not be written."""
        self._error = type(error).__name__

    @_quietly
    def refused(self, record: TurnRecord) -> None:
        """The call goes on without a turn."""
        if self._trace is not None and self._span.is_recording():
            self._span.set_attributes(_opening_attributes(record) | _end_attributes(record))

    @_quietly
    def _report_sending(self, record: Callable[[], TurnRecord]) -> None:
        span = self._trace.get_current_span()
        if span.is_recording() and span not in self._spans:
            self._spans.append(span)
            span.set_attributes(_opening_attributes(record()))

    @_quietly
    def _report_opened(self, record: Callable[[], TurnRecord | None]) -> None:
        searches, self._searches = self._searches, []
        for search in searches:
            self._report_search(search)
        if self._span.is_recording() and (opened := record()):
            self._span.set_attributes(_opening_attributes(opened))

    @_quietly
    def _report_saved(self, record: Callable[[], TurnRecord], start: int, end: int) -> None:
        saved = record()
        for span in self._spans:
            if span.is_recording():
                span.set_attributes(_opening_attributes(saved) | _end_attributes(saved))
        for name in dict.fromkeys(_OPERATIONS.values()):
            changes = [each for each in saved.operations if _OPERATIONS[each.kind] == name]
            if changes:
                with self._memory_span(name, start, end, len(changes), self._error) as span:
                    if _captures_content():
                        span.set_attributes(self._changed(changes))

    def _report_search(self, search: _SearchSpan) -> None:
        found = search.found.chosen
        with self._memory_span("search_memory", search.start, search.end, len(found), search.error) as span:
            if _captures_content():
                redactor = TurnRedactor(self._redaction)
                records = redactor.value(list(map(_found_record, found)))
                span.set_attribute("gen_ai.memory.query.text", redactor.text(search.query))
                span.set_attribute("gen_ai.memory.records", _as_json(records))

    def _changed(self, changes: Sequence[Operation]) -> Attributes:
        """What the model wrote, redacted: it chose the ids as well."""
        redactor, attributes = TurnRedactor(self._redaction), Attributes()
        if len(changes) == 1:
            attributes["gen_ai.memory.record.id"] = redactor.text(changes[0].id)
        records = [_changed_record(change) for change in changes if change.item is not None]
        if records:
            attributes["gen_ai.memory.records"] = _as_json(redactor.value(records))
        return attributes

    @contextmanager
    def _memory_span(self, operation: str, start: int, end: int, count: int, error: str) -> Iterator[Any]:
        trace, key = self._trace, self._key
        attributes: Attributes = {
            "gen_ai.operation.name": operation,
            "gen_ai.memory.store.id": key.session,
            "gen_ai.memory.record.count": count,
            "ctxwrap.tenant": key.tenant,
            "ctxwrap.agent": key.agent,
        }
        if self._provider:
            attributes["gen_ai.provider.name"] = self._provider
        if error:
            attributes["error.type"] = error
        kind = trace.SpanKind.INTERNAL
        tracer = trace.get_tracer("ctxwrap", __version__)
        span = tracer.start_span(operation, self._parent, kind, attributes, start_time=start)
        try:
            if error:
                span.set_status(trace.StatusCode.ERROR)
            yield span
        finally:
            span.end(end)


def _opening_attributes(record: TurnRecord) -> Attributes:
    attributes: Attributes = {
        "gen_ai.conversation.id": record.session,
        "ctxwrap.tenant": record.tenant,
        "ctxwrap.agent": record.agent,
        "ctxwrap.mode": record.mode,
        "ctxwrap.status": record.report.status,
    }
    if record.id:
        attributes |= {"ctxwrap.turn.id": record.id, "ctxwrap.round": record.round}
    return attributes | (_pack_attributes(record) if record.report.budget else {})


def _pack_attributes(record: TurnRecord) -> Attributes:
    budget, included = record.report.budget, sum(item.included for item in record.pack)
    return {
        "ctxwrap.pack.tokens": budget["used"],
        "ctxwrap.pack.limit": budget["limit"],
        "ctxwrap.pack.items": included,
        "ctxwrap.pack.left_out": len(record.pack) - included,
        "ctxwrap.stable": record.report.stable,
    }


def _end_attributes(record: TurnRecord) -> Attributes:
    """How the turn ended; the trailer only where one was asked for."""
    report = record.report
    attributes: Attributes = {"ctxwrap.not_saved": list(report.not_saved)} if report.not_saved else {}
    if record.mode == "enabled":
        attributes["ctxwrap.reading"] = report.reading
        attributes["ctxwrap.repairs"] = list(record.repairs)
        attributes["ctxwrap.reasks"] = report.reasks
        attributes["ctxwrap.misses"] = report.misses
    return attributes


def _captures_content() -> bool:
    return os.environ.get(_CAPTURE, "").strip().lower() in _IN_SPANS


def _found_record(passage: Passage) -> Attributes:
    metadata = {"by": passage.speaker, "when": passage.heading}
    name = f"{passage.number}.{passage.part}"
    return {"id": name, "content": passage.text, "score": passage.score, "metadata": metadata}


def _changed_record(change: Operation) -> Attributes:
    content = (change.item or {}).get("content", "")
    return {"id": change.id, "content": content, "metadata": {"operation": change.kind, "tier": change.tier}}


def _as_json(records: Any) -> str:
    return json.dumps(records, ensure_ascii=False)
