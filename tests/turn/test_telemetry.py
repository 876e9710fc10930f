"""What OpenTelemetry hears of calls: the caller's span, spans of memory, and content only where it is asked for."""

import gc
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import openai
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

import ctxwrap
from ctxwrap.testing.practice import Answer, Failure, Provider
from ctxwrap.turn.telemetry import telemetry_of
from ctxwrap.types import SessionKey
from tests.clients.running import PATIENCE, at_its_desk, on
from tests.clients.test_failing_open import ERRORS, Fault, FaultyStore
from tests.clients.test_interruptions import APIS, EVERY, Desk, Heard, Side
from tests.support import CANARY, item, said, trailer

CAPTURE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
SECRET = "ghp_16C7e42F292c6912E7710c838347Ae178B4a"
FACT = "The harbour of Valparaiso opens at dawn"
QUESTION = "When does the harbour of Valparaiso open?"
whole_and_streamed = pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])


class Spans:
    """All that is exported; `ours` is what ctxwrap made."""

    def __init__(self, exporter: InMemorySpanExporter, provider: TracerProvider) -> None:
        self._exporter, self.provider = exporter, provider
        self.tracer = provider.get_tracer("application")

    def ours(self, *names: str) -> list[ReadableSpan]:
        spans = [span for span in self._exporter.get_finished_spans() if span.instrumentation_scope.name == "ctxwrap"]
        return [span for span in spans if not names or span.name in names]

    def one(self, name: str) -> ReadableSpan:
        (span,) = (span for span in self._exporter.get_finished_spans() if span.name == name)
        return span

    def all_text(self) -> str:
        return "\n".join(span.to_json() for span in self._exporter.get_finished_spans())


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[Spans]:
    """A provider for the whole process, as long as the test lasts; OpenTelemetry itself lets it be set once."""
    monkeypatch.delenv(CAPTURE, raising=False)
    exporter, provider = InMemorySpanExporter(), TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", provider)
    yield Spans(exporter, provider)
    provider.shutdown()


@pytest.fixture
def desk(request: pytest.FixtureRequest, home: Path) -> Iterator[Desk]:
    with ExitStack() as stack:
        yield Desk(APIS[getattr(request, "param", "openai")], home, stack)


async def answer_of(side: Side, text: str, *, stream: bool = False) -> Any:
    if not stream:
        return await side.ask(text)
    made = await side.ask(text, stream=True)
    await side.read(made, Heard())
    return made


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def is_child(span: ReadableSpan, parent: ReadableSpan) -> bool:
    return span.parent is not None and span.parent.span_id == parent.get_span_context().span_id


# --- every door -----------------------------------------------------------------------------------------


@on(*EVERY, "responses-async")
@whole_and_streamed
@at_its_desk
async def test_caller_span_gets_the_turns_attributes(desk: Desk, stream: bool, spans: Spans) -> None:
    side = desk.side(tenant="acme", agent="clerk")
    with spans.tracer.start_as_current_span("caller"):
        turn = ctxwrap.turn_of(await answer_of(side, "Say hello.", stream=stream))
    assert turn is not None
    caller, made = spans.one("caller"), spans.one("create_memory")
    assert attributes(caller) == {
        "gen_ai.conversation.id": "s",
        "ctxwrap.tenant": "acme",
        "ctxwrap.agent": "clerk",
        "ctxwrap.turn.id": turn.id,
        "ctxwrap.round": 1,
        "ctxwrap.mode": "enabled",
        "ctxwrap.status": "complete",
        "ctxwrap.pack.tokens": turn.report.budget["used"],
        "ctxwrap.pack.limit": turn.report.budget["limit"],
        "ctxwrap.pack.items": len(turn.pack),
        "ctxwrap.pack.left_out": 0,
        "ctxwrap.stable": 0.0,
        "ctxwrap.reading": "clean",
        "ctxwrap.repairs": (),
        "ctxwrap.reasks": 0,
        "ctxwrap.misses": 0,
    }
    assert made.kind is SpanKind.INTERNAL
    assert is_child(made, caller)
    assert attributes(made) == {
        "gen_ai.operation.name": "create_memory",
        "gen_ai.memory.store.id": "s",
        "gen_ai.memory.record.count": 1,
        "ctxwrap.tenant": "acme",
        "ctxwrap.agent": "clerk",
        **({"gen_ai.provider.name": "anthropic"} if "anthropic" in type(side.client).__module__ else {}),
    }
    assert caller.start_time < made.start_time <= made.end_time <= caller.end_time  # type: ignore[operator]
    assert spans.ours() == [made]


def test_the_span_in_which_the_sdk_sends_gets_the_attributes_too(provider: Provider, spans: Spans) -> None:
    class Instrumented(openai.OpenAI):
        def request(self, *args: Any, **options: Any) -> Any:
            with spans.tracer.start_as_current_span("instrumentation"):
                return super().request(*args, **options)

    client = ctxwrap.wrap(Instrumented(api_key="x", base_url=provider.openai_url), session="s", store="memory:")
    with spans.tracer.start_as_current_span("caller"):
        client.chat.completions.create(model="m", messages=[{"role": "user", "content": "hi"}])
    inner, outer = attributes(spans.one("instrumentation")), attributes(spans.one("caller"))
    assert inner["ctxwrap.status"] == "complete"
    assert inner == outer


@on(*EVERY)
@at_its_desk
async def test_stream_reports_to_the_span_of_its_caller(desk: Desk, spans: Spans) -> None:
    caller, ended = spans.tracer.start_span("caller"), spans.tracer.start_span("ended")
    with trace.use_span(caller):
        stream = await desk.wrapped.stream()
    with spans.tracer.start_as_current_span("reader"):
        await desk.wrapped.read(stream, Heard())
    caller.end()
    with trace.use_span(ended, end_on_exit=True):
        late = await desk.wrapped.stream()
    await desk.wrapped.read(late, Heard())
    assert attributes(spans.one("reader")) == {}
    assert attributes(spans.one("caller"))["ctxwrap.status"] == "complete"
    assert attributes(spans.one("ended"))["ctxwrap.status"] == "open"
    assert attributes(spans.one("ended"))["ctxwrap.round"] == 2
    first, second = spans.ours("create_memory", "update_memory")
    assert is_child(first, spans.one("caller"))
    assert is_child(second, spans.one("ended"))


@on("openai", "openai-async", "anthropic", "litellm-async")
@at_its_desk
async def test_memory_search_has_a_span_with_its_times(
    desk: Desk, spans: Spans, monkeypatch: pytest.MonkeyPatch
) -> None:
    side = await long_past(desk)
    with spans.tracer.start_as_current_span("caller"):
        await side.ask(QUESTION)
    assert len(spans.ours("search_memory")) == 1
    search, caller = spans.one("search_memory"), spans.one("caller")
    assert search.kind is SpanKind.INTERNAL
    assert is_child(search, caller)
    assert attributes(search)["gen_ai.memory.record.count"] >= 1
    assert caller.start_time < search.start_time < search.end_time <= caller.end_time  # type: ignore[operator]
    assert attributes(caller)["ctxwrap.pack.left_out"] > 0
    text = spans.all_text()
    assert not any(word in text for word in (FACT, QUESTION, CANARY))
    monkeypatch.setenv(CAPTURE, "true")
    await side.ask(QUESTION)
    told = attributes(spans.ours("search_memory")[-1])
    assert told["gen_ai.memory.query.text"].strip() == QUESTION
    found = json.loads(told["gen_ai.memory.records"])
    assert len(found) == told["gen_ai.memory.record.count"]
    assert found[0].keys() == {"id", "content", "score", "metadata"}
    assert any(FACT in record["content"] for record in found)


async def long_past(desk: Desk, **options: Any) -> Side:
    """A session whose beginning no longer fits; nobody hears of it."""
    side = desk.side(budget=1500, **options)
    with trace.use_span(trace.NonRecordingSpan(trace.SpanContext(1, 1, is_remote=False))):
        await side.ask(f"{FACT}, with {SECRET}.")
        for number in range(6):
            await side.ask(f"{number}: {'talk of other things ' * 40}")
    return side


# --- operations -----------------------------------------------------------------------------------------


def remembering(*turns: tuple[list[dict[str, Any]], list[str]]) -> Any:
    """A model that writes these items and drops these ids, turn by turn."""
    left = list(turns)

    def answer(ask: Any) -> Answer:
        working, dropped = left.pop(0)
        return Answer(f"Noted.{trailer(ask, working, dropped=dropped)}")

    return answer


@at_its_desk
async def test_every_kind_of_memory_operation_has_its_span(desk: Desk, spans: Spans) -> None:
    before = [item(f"w-{number}", f"fact {number}") for number in range(3)]
    after = [item("w-0", "fact 0, amended"), item("w-3", "fact 3"), item("w-4", "fact 4")]
    desk.provider.answer = remembering((before, []), (after, ["w-1", "w-2"]))
    await desk.wrapped.ask("One.")
    with spans.tracer.start_as_current_span("caller"):
        turn = ctxwrap.turn_of(await desk.wrapped.ask("Two."))
    assert turn is not None
    assert sorted(operation.kind for operation in turn.operations) == ["add", "add", "drop", "drop", "update"]
    told = {span.name: attributes(span)["gen_ai.memory.record.count"] for span in spans.ours()[1:]}
    assert told == {"create_memory": 2, "update_memory": 1, "delete_memory": 2}
    assert all(is_child(span, spans.one("caller")) for span in spans.ours()[1:])


@pytest.mark.parametrize(
    ("wanted", "is_told"),
    [("true", True), ("SPAN_ONLY", True), ("span_and_event", True), ("EVENT_ONLY", False), ("false", False)],
)
@at_its_desk
async def test_memory_ids_and_texts_are_captured_only_as_content(
    desk: Desk, spans: Spans, monkeypatch: pytest.MonkeyPatch, wanted: str, is_told: bool
) -> None:
    """A model may put anybody's words into an id."""
    monkeypatch.setenv(CAPTURE, wanted)
    desk.provider.answer = remembering(
        ([item("ada-likes-tea", "Ada likes tea")], []), ([item("w-2", "Or not")], ["ada-likes-tea"])
    )
    await desk.wrapped.ask("One.")
    await desk.wrapped.ask("Two.")
    created, gone = attributes(spans.ours("create_memory")[0]), attributes(spans.one("delete_memory"))
    if not is_told:
        assert "tea" not in spans.all_text()
        return
    assert created["gen_ai.memory.record.id"] == gone["gen_ai.memory.record.id"] == "ada-likes-tea"
    (record,) = json.loads(created["gen_ai.memory.records"])
    assert record == {
        "id": "ada-likes-tea",
        "content": "Ada likes tea",
        "metadata": {"operation": "add", "tier": "working"},
    }


@on("openai", "openai-async", "anthropic")
@at_its_desk
async def test_captured_content_is_redacted(desk: Desk, spans: Spans, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also what was said and remembered before there was a policy."""
    monkeypatch.setenv(CAPTURE, "true")
    await long_past(desk)
    side = desk.side(budget=1500, redaction=ctxwrap.Redaction())
    desk.provider.answer = remembering(([item(f"of-{SECRET}", f"{SECRET} is known")], []))
    await side.ask(f"{QUESTION} And what of {SECRET}?")
    search, made = attributes(spans.one("search_memory")), attributes(spans.one("create_memory"))
    assert SECRET not in spans.all_text()
    assert "[redacted:key]" in search["gen_ai.memory.query.text"]
    assert "with [redacted:key]" in search["gen_ai.memory.records"]
    assert "[redacted:key] is known" in made["gen_ai.memory.records"]
    assert "[redacted:key]" in made["gen_ai.memory.record.id"]


@at_its_desk
async def test_empty_session_makes_no_search_span(desk: Desk, spans: Spans) -> None:
    await desk.wrapped.ask("Hello?")
    assert spans.ours("search_memory") == []


@at_its_desk
async def test_spans_name_their_tenant(desk: Desk, spans: Spans) -> None:
    for tenant in ("acme", "umbrella"):
        with spans.tracer.start_as_current_span(tenant), ctxwrap.using(tenant=tenant):
            await desk.wrapped.ask("Hello?")
    for tenant in ("acme", "umbrella"):
        assert attributes(spans.one(tenant))["ctxwrap.tenant"] == tenant
        (made,) = (span for span in spans.ours() if is_child(span, spans.one(tenant)))
        assert attributes(made)["ctxwrap.tenant"] == tenant


# --- what goes wrong ------------------------------------------------------------------------------------


@on("openai", "openai-async", "anthropic", "litellm")
@at_its_desk
async def test_failed_call_is_reported_as_aborted(desk: Desk, spans: Spans) -> None:
    desk.wrapped.fails(Failure(400, "no"))
    with (
        pytest.raises(Exception, match="no"),
        spans.tracer.start_as_current_span("caller", record_exception=False, set_status_on_exception=False),
    ):
        await desk.wrapped.ask()
    assert attributes(spans.one("caller"))["ctxwrap.status"] == "aborted"
    assert spans.ours() == []


@on("openai", "openai-async")
@whole_and_streamed
@at_its_desk
async def test_unsaved_memory_sets_the_spans_error_status(desk: Desk, stream: bool, spans: Spans) -> None:
    side = desk.side(derive="inline", store=FaultyStore(desk.home, Fault("end", ERRORS["full"])))
    with spans.tracer.start_as_current_span("caller"):
        await answer_of(side, "Hello?", stream=stream)
    made = spans.one("create_memory")
    assert attributes(made)["error.type"] == "StoreUnavailable"
    assert made.status.status_code is StatusCode.ERROR
    assert attributes(spans.one("caller"))["ctxwrap.not_saved"] == ("reply",)
    assert "the disk is gone" not in spans.all_text()


@on("openai", "openai-async")
@at_its_desk
async def test_call_without_an_opened_turn_reports_disabled_mode_and_not_saved(desk: Desk, spans: Spans) -> None:
    side = desk.side(derive="inline", store=FaultyStore(desk.home, Fault("begin", ERRORS["full"])))
    with spans.tracer.start_as_current_span("caller"):
        await side.ask()
    told = attributes(spans.one("caller"))
    assert told["ctxwrap.mode"] == "disabled"
    assert told["ctxwrap.not_saved"] == ("request", "reply")
    assert not {"ctxwrap.turn.id", "ctxwrap.round"} & told.keys()


class Broken(SpanProcessor):
    """Fails at one step of every span of ours."""

    def __init__(self, step: str) -> None:
        self._step = step

    def on_start(self, span: Any, parent_context: Any = None) -> None:
        self._at("start", span)

    def on_end(self, span: Any) -> None:
        self._at("end", span)

    def _at(self, step: str, span: Any) -> None:
        if step == self._step and span.name.endswith("_memory"):
            raise RuntimeError("the exporter is out of order")


class BrokenSpan(trace.NonRecordingSpan):
    def is_recording(self) -> bool:
        return True

    def set_attributes(self, attributes: Any) -> None:
        raise RuntimeError("the span is out of order")


@on("openai", "openai-async", "anthropic")
@pytest.mark.parametrize("broken", ["start", "end", "span"])
@whole_and_streamed
@at_its_desk
async def test_telemetry_failure_does_not_affect_the_call(
    desk: Desk, broken: str, stream: bool, spans: Spans, caplog: pytest.LogCaptureFixture
) -> None:
    spans.provider.add_span_processor(Broken(broken))
    span = BrokenSpan(trace.SpanContext(1, 1, is_remote=False)) if broken == "span" else trace.INVALID_SPAN
    with trace.use_span(span):
        turn = ctxwrap.turn_of(await answer_of(desk.wrapped, "Hello?", stream=stream))
    assert turn is not None
    assert turn.report.status == "complete"
    assert [role for role, _ in said(desk.home, "s")] == ["user", "assistant"]
    assert desk.remembered() == ["w-2"]
    lines = [record.getMessage() for record in caplog.records if record.name == "ctxwrap"]
    assert lines == ["ctxwrap: a call was not reported to OpenTelemetry: RuntimeError"]


@at_its_desk
async def test_stream_collected_while_a_span_is_locked_does_not_deadlock(
    desk: Desk, spans: Spans, caplog: pytest.LogCaptureFixture
) -> None:
    """A span's lock is held while it takes what it is given, and whoever comes in there again waits for ever."""
    caller = spans.tracer.start_span("caller")
    with trace.use_span(caller):
        streams = [await desk.wrapped.stream()]

    class Collecting(dict[str, Any]):
        def items(self) -> Any:
            streams.clear()
            gc.collect()
            return super().items()

    work = threading.Thread(target=caller.set_attributes, args=(Collecting(mine=1),), daemon=True)
    work.start()
    work.join(PATIENCE)
    assert not work.is_alive()
    caller.end()
    assert [event["reason"] for event in desk.events("done")] == ["abandoned"]
    assert attributes(spans.one("caller"))["ctxwrap.status"] == "open"


# --- where nobody listens -------------------------------------------------------------------------------

PLAIN_CALL = """
import sys, openai, ctxwrap
client = ctxwrap.wrap(openai.OpenAI(api_key="k", base_url=sys.argv[1]), session="s", store=sys.argv[2])
reply = client.chat.completions.create(model="gpt-4o", messages=[{"role": "user", "content": "Hi"}])
print(reply.choices[0].message.content, any(name.startswith("opentelemetry") for name in sys.modules))
"""


def test_plain_call_does_not_import_opentelemetry(provider: Provider, home: Path) -> None:
    run = [sys.executable, "-c", PLAIN_CALL, provider.openai_url, str(home)]
    assert subprocess.run(run, capture_output=True, text=True, check=True).stdout == "Hello, world. False\n"


@on("openai", "openai-async", "anthropic")
@at_its_desk
async def test_no_memory_spans_without_a_tracer_provider(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", None)
    monkeypatch.setattr(trace.NoOpTracer, "start_span", lambda _, name, *args, **more: made.append(name))
    turn = ctxwrap.turn_of(await desk.wrapped.ask())
    assert turn is not None
    assert turn.report.status == "complete"
    assert not [name for name in made if name.endswith("_memory")]


def test_call_is_reported_only_where_there_is_a_span_or_a_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    key = SessionKey("tenant", "agent", "session")
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", None)
    assert telemetry_of(key, "openai", None) is None
    with trace.use_span(trace.NonRecordingSpan(trace.SpanContext(1, 1, is_remote=False))):
        assert telemetry_of(key, "openai", None) is not None
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", TracerProvider(shutdown_on_exit=False))
    assert telemetry_of(key, "openai", None) is not None


@at_its_desk
async def test_disabled_call_reports_its_turn_without_pack_attributes(desk: Desk, spans: Spans) -> None:
    with spans.tracer.start_as_current_span("caller"):
        await desk.wrapped.ask(context_mode="disabled")
    told = attributes(spans.one("caller"))
    assert told["ctxwrap.mode"] == "disabled"
    assert not [name for name in told if "pack" in name or "reading" in name]
    assert spans.ours() == []
