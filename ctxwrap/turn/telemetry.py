"""What a call tells OpenTelemetry where the application uses it: attributes of the caller's span, spans for memory.

The span of a call is the one that was current when it was made, wherever its stream is read. Spans of our own are made
when no lock of the session is held, with the times at which things happened. The model's call itself is the SDK's to
tell. Nothing here imports OpenTelemetry, and no failure of it reaches a call.
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
from ctxwrap.pack.history import Passage, Retrieved
from ctxwrap.redaction import Redaction
from ctxwrap.turn.redactor import TurnRedactor
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


class _Search(NamedTuple):
    start: int
    end: int
    query: str
    found: Retrieved
    error: str


def _quietly(tell: "Callable[Concatenate[Telemetry, P], None]") -> "Callable[Concatenate[Telemetry, P], None]":
    """Tell, unless that is out of the question; a failure is the last that is heard of OpenTelemetry in this call."""

    @wraps(tell)
    def told(self: "Telemetry", /, *args: P.args, **kwargs: P.kwargs) -> None:
        if _is_at_work():
            return
        try:
            tell(self, *args, **kwargs)
        except Exception as error:
            self._trace = None
            logger.warning("ctxwrap: OpenTelemetry is not told of a call: %s", type(error).__name__)

    return told


def _is_at_work() -> bool:
    """Whether this thread is inside of OpenTelemetry's SDK, whose locks let nobody in twice.

    A stream may be collected, and its turn end, at any moment.
    """
    frame = sys._getframe(1)
    while frame.f_back is not None:
        if str(frame.f_globals.get("__name__")).startswith("opentelemetry.sdk"):
            return True
        frame = frame.f_back
    return False


class Telemetry:
    """Of one call. To be made where the caller's span is current."""

    def __init__(self, key: SessionKey | None, provider: str, redaction: Redaction | None) -> None:
        self._trace: Any = None
        trace = sys.modules.get("opentelemetry.trace")
        if trace is None or key is None:
            return
        self._key, self._provider, self._redaction = key, provider, redaction
        self._searches: list[_Search] = []
        self._error = ""
        self._begin(trace)

    @_quietly
    def _begin(self, trace: Any) -> None:
        self._span = trace.get_current_span()
        if self._span.is_recording() or not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
            self._parent = trace.set_span_in_context(self._span)
            self._trace = trace

    def watching(self, sources: PackSources) -> PackSources:
        """`sources` whose searches are told by `opening`."""
        retrieve = sources.retrieve
        if self._trace is None or retrieve is None:
            return sources

        def watched(query: str, below: int, budget: int, count: Callable[[str], int]) -> Retrieved:
            if below <= 1:  # nothing was said before
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
                self._searches.append(_Search(start, time_ns(), query, found, error))

        return sources._replace(retrieve=watched)

    @contextmanager
    def opening(self, record: Callable[[], TurnRecord | None]) -> Iterator[None]:
        """While a turn is opened; what is known of it then is told behind the block, which may fail."""
        try:
            yield
        finally:
            if self._trace is not None:
                self._tell_opened(record)

    @contextmanager
    def saving(self, record: Callable[[], TurnRecord]) -> Iterator[None]:
        """While the end of a turn is written."""
        start = time_ns()
        try:
            yield
        finally:
            if self._trace is not None:
                self._tell_saved(record, start, time_ns())

    def failed(self, error: Exception) -> None:
        """What is being saved is not."""
        self._error = type(error).__name__

    @_quietly
    def refused(self, record: TurnRecord) -> None:
        """The call goes on without a turn."""
        if self._trace is not None and self._span.is_recording():
            self._span.set_attributes(_at_opening(record) | _at_the_end(record))

    @_quietly
    def _tell_opened(self, record: Callable[[], TurnRecord | None]) -> None:
        searches, self._searches = self._searches, []
        for search in searches:
            self._tell_search(search)
        if self._span.is_recording() and (opened := record()):
            self._span.set_attributes(_at_opening(opened))

    @_quietly
    def _tell_saved(self, record: Callable[[], TurnRecord], start: int, end: int) -> None:
        saved = record()
        if self._span.is_recording():
            self._span.set_attributes(_at_opening(saved) | _at_the_end(saved))
        for name in dict.fromkeys(_OPERATIONS.values()):
            changes = [each for each in saved.operations if _OPERATIONS[each.kind] == name]
            if changes:
                with self._memory_span(name, start, end, len(changes), self._error) as span:
                    if _content_is_wanted():
                        span.set_attributes(self._changed(changes))

    def _tell_search(self, search: _Search) -> None:
        found = search.found.chosen
        with self._memory_span("search_memory", search.start, search.end, len(found), search.error) as span:
            if _content_is_wanted():
                screen = TurnRedactor(self._redaction)
                records = screen.value(list(map(_found_record, found)))
                span.set_attribute("gen_ai.memory.query.text", screen.text(search.query))
                span.set_attribute("gen_ai.memory.records", _as_json(records))

    def _changed(self, changes: Sequence[Operation]) -> Attributes:
        """What a model wrote: ids are words of its own, like all the rest."""
        screen, attributes = TurnRedactor(self._redaction), Attributes()
        if len(changes) == 1:
            attributes["gen_ai.memory.record.id"] = screen.text(changes[0].id)
        records = [_changed_record(change) for change in changes if change.item is not None]
        if records:
            attributes["gen_ai.memory.records"] = _as_json(screen.value(records))
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


def _at_opening(record: TurnRecord) -> Attributes:
    attributes: Attributes = {
        "gen_ai.conversation.id": record.session,
        "ctxwrap.tenant": record.tenant,
        "ctxwrap.agent": record.agent,
        "ctxwrap.mode": record.mode,
        "ctxwrap.status": record.report.status,
    }
    if record.id:
        attributes |= {"ctxwrap.turn.id": record.id, "ctxwrap.round": record.round}
    return attributes | (_of_pack(record) if record.report.budget else {})


def _of_pack(record: TurnRecord) -> Attributes:
    budget, taken = record.report.budget, sum(item.included for item in record.pack)
    return {
        "ctxwrap.pack.tokens": budget["used"],
        "ctxwrap.pack.limit": budget["limit"],
        "ctxwrap.pack.items": taken,
        "ctxwrap.pack.left_out": len(record.pack) - taken,
        "ctxwrap.stable": record.report.stable,
    }


def _at_the_end(record: TurnRecord) -> Attributes:
    """How it went; of a trailer only where one was asked for."""
    report = record.report
    attributes: Attributes = {"ctxwrap.not_saved": list(report.not_saved)} if report.not_saved else {}
    if record.mode == "enabled":
        attributes["ctxwrap.reading"] = report.reading
        attributes["ctxwrap.repairs"] = list(record.repairs)
        attributes["ctxwrap.reasks"] = report.reasks
        attributes["ctxwrap.misses"] = report.misses
    return attributes


def _content_is_wanted() -> bool:
    return os.environ.get(_CAPTURE, "").strip().lower() in _IN_SPANS


def _found_record(passage: Passage) -> Attributes:
    told = {"by": passage.speaker, "when": passage.heading}
    name = f"{passage.number}.{passage.part}"
    return {"id": name, "content": passage.text, "score": passage.score, "metadata": told}


def _changed_record(change: Operation) -> Attributes:
    content = (change.item or {}).get("content", "")
    return {"id": change.id, "content": content, "metadata": {"operation": change.kind, "tier": change.tier}}


def _as_json(records: Any) -> str:
    return json.dumps(records, ensure_ascii=False)
