"""Other instrumentations of the SDKs, openinference's and logfire's: what they record, and ctxwrap's attributes."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any, NamedTuple

import pytest

import ctxwrap
from ctxwrap.clients.http import module_of
from ctxwrap.protocol.instructions import SEPARATOR
from ctxwrap.testing.practice import Provider

pytest.importorskip("opentelemetry.sdk", reason="OpenTelemetry's SDK is not installed")
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

FIRST, SECOND = "My name is Ada.", "What is my name?"
ADDED = ("ctxwrap-context", "ctxwrap-protocol")


class Sdk(NamedTuple):
    client: str
    """The name of its client, in the module that has the SDK's name."""
    resource: Callable[[Any], Any]
    base_url: Callable[[Provider], str]
    options: dict[str, Any]


SDKS = {
    "openai": Sdk("OpenAI", lambda client: client.chat.completions, lambda provider: provider.openai_url, {}),
    "anthropic": Sdk("Anthropic", lambda client: client.messages, lambda provider: provider.url, {"max_tokens": 500}),
}


class Bench:
    """An SDK, an instrumentation of it, and the spans that come of both."""

    def __init__(self, by: str, sdk: str, provider: Provider, stack: ExitStack) -> None:
        self._by, self._name, self._sdk, self._stack = by, sdk, SDKS[sdk], stack
        self._module = pytest.importorskip(sdk)
        self._provider = provider
        self._exporter = InMemorySpanExporter()
        self.processor = SimpleSpanProcessor(self._exporter)

    def instrument(self, client: Any = None, **options: Any) -> None:
        """Instrument all clients of the SDK, or one of them; `options` are logfire's."""
        if self._by == "logfire":
            logfire = pytest.importorskip("logfire")
            made = logfire.configure(
                local=True, send_to_logfire=False, console=False, additional_span_processors=[self.processor]
            )
            instrument = getattr(made, f"instrument_{self._name}")
            self._stack.enter_context(instrument(client, **options))
            return
        module = pytest.importorskip(f"openinference.instrumentation.{self._name}")
        instrumentor = getattr(module, f"{self._sdk.client}Instrumentor")()
        instrumentor.instrument(tracer_provider=trace.get_tracer_provider())
        self._stack.callback(instrumentor.uninstrument)

    def client(self, **options: Any) -> Any:
        make = getattr(self._module, self._sdk.client)
        return make(api_key="x", base_url=self._sdk.base_url(self._provider), **options)

    def wrapped(self) -> Any:
        return ctxwrap.wrap(self.client(), session="s", store="memory:")

    def through_the_door(self) -> Any:
        library: Any = module_of(self.client()._client).__name__
        return self.client(http_client=ctxwrap.http_client(session="s", store="memory:", library=library))

    def ask(self, client: Any, text: str, *, stream: bool = False) -> None:
        asked = {"model": "m", "messages": [{"role": "user", "content": text}], "stream": stream, **self._sdk.options}
        reply = self._sdk.resource(client).create(**asked)
        if stream:
            list(reply)

    def recorded(self) -> list[ReadableSpan]:
        """The spans since the last time that ctxwrap did not make."""
        spans = [each for each in self._exporter.get_finished_spans() if each.instrumentation_scope.name != "ctxwrap"]
        self._exporter.clear()
        return spans


@pytest.fixture(params=["openinference-openai", "openinference-anthropic", "logfire-openai", "logfire-anthropic"])
def bench(request: pytest.FixtureRequest, provider: Provider, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    by, sdk = request.param.split("-")
    pytest.importorskip("logfire" if by == "logfire" else f"openinference.instrumentation.{sdk}")
    with ExitStack() as stack:
        made = Bench(by, sdk, provider, stack)
        tracers = TracerProvider(shutdown_on_exit=False)
        tracers.add_span_processor(made.processor)  # also for logfire: the SDK's own spans go to the global provider
        monkeypatch.setattr(trace, "_TRACER_PROVIDER", tracers)
        yield made


def text_of(spans: list[ReadableSpan]) -> str:
    return "\n".join(span.to_json() for span in spans)


def is_attributed(spans: list[ReadableSpan]) -> bool:
    return any("ctxwrap.turn.id" in (span.attributes or {}) for span in spans)


whole_and_streamed = pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
orders = pytest.mark.parametrize("is_first", [True, False], ids=["instrumented first", "made first"])


def second_call(bench: Bench, make: Callable[[], Any], stream: bool, is_first: bool) -> str:
    """What is recorded of the second call of a client that `make` makes, before or after it is instrumented."""
    client = None if is_first else make()
    bench.instrument()
    client = client or make()
    bench.ask(client, FIRST, stream=stream)
    bench.recorded()
    bench.ask(client, SECOND, stream=stream)
    return text_of(bench.recorded())


@orders
@whole_and_streamed
def test_through_the_http_door_the_callers_messages_are_recorded(bench: Bench, stream: bool, is_first: bool) -> None:
    shown = second_call(bench, bench.through_the_door, stream, is_first)
    assert SECOND in shown
    assert not [text for text in (*ADDED, FIRST, SEPARATOR) if text in shown]


@orders
@whole_and_streamed
def test_a_wrapped_clients_request_is_recorded_as_it_is_sent(bench: Bench, stream: bool, is_first: bool) -> None:
    shown = second_call(bench, bench.wrapped, stream, is_first)
    assert all(text in shown for text in (*ADDED, FIRST, SECOND))


@whole_and_streamed
@pytest.mark.parametrize("way", ["wrapped", "through_the_door"])
def test_a_span_of_theirs_or_of_the_sdk_has_the_turns_attributes(bench: Bench, way: str, stream: bool) -> None:
    bench.instrument(suppress_other_instrumentation=False)
    bench.ask(getattr(bench, way)(), FIRST, stream=stream)
    assert is_attributed(bench.recorded())


@pytest.mark.parametrize("bench", ["logfire-openai", "logfire-anthropic"], indirect=True)
def test_one_client_is_instrumented_after_it_was_wrapped(bench: Bench) -> None:
    bare = bench.client()
    bench.instrument(bare)
    bench.ask(ctxwrap.wrap(bare, session="s", store="memory:"), FIRST)
    assert FIRST not in text_of(bench.recorded())
    wrapped = bench.wrapped()
    bench.instrument(wrapped)
    bench.ask(wrapped, SECOND)
    assert SECOND in text_of(bench.recorded())
