"""Wrapped clients take shortcuts through their SDK, with the same results."""

import asyncio
from collections.abc import Callable
from contextlib import ExitStack
from importlib import import_module
from types import NoneType, SimpleNamespace, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry import baggage, context, trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from pydantic import BaseModel

import ctxwrap
from ctxwrap.clients.sdk_arguments import PlainBody
from ctxwrap.testing.practice import Provider
from tests.support import examples

MODELS = (
    ("openai", "OpenAI", "types.chat", "ChatCompletion"),
    ("openai", "OpenAI", "types.chat", "ChatCompletionChunk"),
    ("openai", "OpenAI", "types", "Completion"),
    ("openai", "OpenAI", "types.responses", "Response"),
    ("openai", "OpenAI", "types.responses", "ResponseStreamEvent"),
    ("anthropic", "Anthropic", "types", "Message"),
    ("anthropic", "Anthropic", "types", "RawMessageStreamEvent"),
    ("anthropic", "Anthropic", "types.beta", "BetaRawMessageStreamEvent"),
    ("groq", "Groq", "types.chat", "ChatCompletion"),
)

ANYTHING = st.one_of(st.none(), st.booleans(), st.integers(-9, 9), st.floats(-2, 2), st.text(max_size=3), st.just([{}]))
NAMES = st.sampled_from(("reasoning_content", "x_provider", "citations"))


RESPONSE = SimpleNamespace(status_code=200, headers={}, request=None)
"""What an SDK's error shows of a response, whatever the HTTP library."""


def clients(sdk: str, name: str) -> tuple[Any, Any]:
    """A client, and the same client wrapped."""
    own = getattr(pytest.importorskip(sdk), name)(api_key="x")
    return own, ctxwrap.wrap(own, store="memory:")


def fitting(annotation: Any, deep: int = 4) -> st.SearchStrategy[Any]:
    """JSON that fits a type of the SDK; of models also with fields that they do not know, or without optional ones."""
    annotation = getattr(annotation, "__value__", annotation)  # the name of a type
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return fitting(args[0], deep)
    if origin is Literal:
        return st.sampled_from(args)
    if origin in (Union, UnionType):
        usable = [NoneType] if NoneType in args and not deep else args
        return st.sampled_from(usable).flatmap(lambda each: fitting(each, deep))
    if origin is list:
        return st.lists(fitting(args[0], deep - 1), max_size=2 if deep > 0 else 0)
    if origin is dict:
        return st.dictionaries(st.text(max_size=3), fitting(args[1], deep - 1), max_size=2)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return model_data(annotation, deep - 1)
    simple: dict[Any, st.SearchStrategy[Any]] = {
        str: st.text(max_size=5),
        int: st.integers(),
        float: st.floats(allow_nan=False) | st.integers(-(2**53), 2**53),
        bool: st.booleans(),
        NoneType: st.none(),
    }
    return simple.get(annotation, ANYTHING)


@st.composite
def model_data(draw: st.DrawFn, model: type[BaseModel], deep: int = 4) -> dict[str, Any]:
    data = {
        field.alias or name: draw(fitting(field.annotation, deep))
        for name, field in model.model_fields.items()
        if field.is_required() or draw(st.booleans())
    }
    return {**data, **draw(st.dictionaries(NAMES, ANYTHING, max_size=1))}


@st.composite
def spoiled(draw: st.DrawFn, data: Any) -> Any:
    """`data` with another value in some place, which may not fit."""
    if isinstance(data, dict) and data:
        name = draw(st.sampled_from(sorted(data)))
        return {**data, name: draw(ANYTHING | spoiled(data[name]))}
    if isinstance(data, list) and data:
        at = draw(st.integers(0, len(data) - 1))
        return [*data[:at], draw(ANYTHING | spoiled(data[at])), *data[at + 1 :]]
    return draw(ANYTHING)


def assert_same(ours: Any, theirs: Any) -> None:
    assert type(ours) is type(theirs)
    if isinstance(theirs, BaseModel):
        assert ours.model_fields_set == theirs.model_fields_set
        assert ours.__pydantic_private__ == theirs.__pydantic_private__
        assert_same(ours.model_extra, theirs.model_extra)
        assert_same(ours.__dict__, theirs.__dict__)
    elif isinstance(theirs, dict):
        assert list(ours) == list(theirs)
        for name in theirs:
            assert_same(ours[name], theirs[name])
    elif isinstance(theirs, list):
        assert len(ours) == len(theirs)
        for mine, other in zip(ours, theirs, strict=True):
            assert_same(mine, other)
    else:
        assert ours == theirs


@pytest.mark.parametrize(("sdk", "name", "module", "model"), MODELS)
def test_models_of_responses_are_those_of_the_sdk(sdk: str, name: str, module: str, model: str) -> None:
    own, wrapped = clients(sdk, name)
    cast_to = getattr(import_module(f"{sdk}.{module}"), model)

    @examples(60)
    @given(st.data())
    def check(data: st.DataObject) -> None:
        payload = data.draw(fitting(cast_to))
        if data.draw(st.booleans()):
            payload = data.draw(spoiled(payload))
        made = [
            client._process_response_data(data=payload, cast_to=cast_to, response=RESPONSE) for client in (wrapped, own)
        ]
        assert_same(*made)

    check()


def test_strict_clients_refuse_what_their_sdk_refuses() -> None:
    openai = pytest.importorskip("openai")
    wrapped = ctxwrap.wrap(openai.OpenAI(api_key="x"), store="memory:")
    wrapped._strict_response_validation = True  # lost by `copy`, so that no wrapped client has it from its own
    with pytest.raises(openai.APIResponseValidationError):
        wrapped._process_response_data(data={"id": 5}, cast_to=openai.types.chat.ChatCompletion, response=RESPONSE)


def test_a_model_with_validators_is_built_by_the_sdk() -> None:
    from pydantic import field_validator

    own, wrapped = clients("openai", "OpenAI")

    class Shouted(import_module("openai").BaseModel):  # type: ignore[misc]
        text: str

        @field_validator("text")
        @classmethod
        def shout(cls, text: str) -> str:
            return text.upper()

    made = wrapped._process_response_data(data={"text": "quiet"}, cast_to=Shouted, response=RESPONSE)
    assert made.text == own._process_response_data(data={"text": "quiet"}, cast_to=Shouted, response=RESPONSE).text


def test_a_union_is_built_by_the_sdk_unless_types_tell_its_models_apart() -> None:
    own, wrapped = clients("openai", "OpenAI")
    base = import_module("openai").BaseModel

    class One(base):  # type: ignore[misc, valid-type]
        type: Literal["a", "b"]
        one: int

    class Other(base):  # type: ignore[misc, valid-type]
        type: Literal["b", "c"]
        other: int

    class Loose(base):  # type: ignore[misc, valid-type]
        type: str
        other: int

    unions = [(One, Other), (One, Loose), (One, dict[str, int]), (Loose, None)]
    for union in (Union[each] for each in unions):  # noqa: UP007 - each is a tuple
        for tag in ("a", "b", "c", "d", None, ["a"]):
            for payload in ({"type": tag, "other": 1}, {"type": tag, "one": 1}, {"one": "x", "type": tag}):
                made = [
                    client._process_response_data(data=payload, cast_to=union, response=RESPONSE)
                    for client in (wrapped, own)
                ]
                assert_same(*made)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.parametrize("flavour", ["", "Async"])
@given(body=st.dictionaries(st.text(max_size=3), JSON, max_size=4), extra=st.none() | st.just({"extra": [1]}))
def test_plain_bodies_are_passed_on_as_the_sdk_prepares_them(flavour: str, body: Any, extra: Any) -> None:
    own, wrapped = clients("anthropic", f"{flavour}Anthropic")
    if not hasattr(own, "_copy_and_prepare"):
        pytest.skip("this version prepares no bodies")
    options = import_module("anthropic._models").FinalRequestOptions
    made = []
    for client, given_body in ((own, body), (wrapped, body), (wrapped, PlainBody(body))):
        given_options = options.construct(method="post", url="/path", extra_json=extra)
        given_options.json_data = given_body
        prepared = client._copy_and_prepare(given_options)
        made.append(asyncio.run(prepared) if flavour else prepared)
    assert len({repr(vars(each)) for each in made}) == 1
    assert (made[2].json_data is given_body) is (extra is None)


def test_middleware_receives_a_body_of_its_own() -> None:
    own, _ = clients("anthropic", "Anthropic")
    if not hasattr(own, "with_middleware") or not hasattr(own, "_copy_and_prepare"):
        pytest.skip("this version has no middleware")
    wrapped = ctxwrap.wrap(own.with_middleware(lambda request, call_next: call_next(request)), store="memory:")
    body = PlainBody(messages=[{"role": "user"}])
    options = import_module("anthropic._models").FinalRequestOptions.construct(method="post", url="/")
    options.json_data = body
    prepared = wrapped._copy_and_prepare(options).json_data
    assert prepared == body
    assert prepared["messages"][0] is not body["messages"][0]


def use_nothing(stack: ExitStack) -> dict[str, Any]:
    return {}


def use_baggage(stack: ExitStack) -> dict[str, Any]:
    stack.callback(context.detach, context.attach(baggage.set_baggage("user", "ada")))
    return {}


def use_span_of_another_process(stack: ExitStack) -> dict[str, Any]:
    stack.enter_context(trace.use_span(trace.NonRecordingSpan(trace.SpanContext(1, 1, is_remote=True))))
    return {}


def use_provider(stack: ExitStack) -> dict[str, Any]:
    stack.enter_context(pytest.MonkeyPatch.context()).setattr(trace, "_TRACER_PROVIDER", SPANS_TO)
    return {}


def use_provider_of_the_client(stack: ExitStack) -> dict[str, Any]:
    return {"open_telemetry": {"tracer_provider": SPANS_TO}}


SPANS, SPANS_TO = InMemorySpanExporter(), TracerProvider(shutdown_on_exit=False)
SPANS_TO.add_span_processor(SimpleSpanProcessor(SPANS))


@pytest.mark.parametrize(
    ("use", "headers", "spans"),
    [
        (use_nothing, set(), 0),
        (use_baggage, {"baggage"}, 0),
        (use_span_of_another_process, {"traceparent"}, 0),
        (use_provider, {"traceparent"}, 1),
        (use_provider_of_the_client, {"traceparent"}, 1),
    ],
    ids=["nothing", "baggage", "another process", "provider", "provider of the client"],
)
def test_calls_are_traced_as_by_the_sdk(
    use: Callable[[ExitStack], dict[str, Any]], headers: set[str], spans: int, provider: Provider
) -> None:
    anthropic = pytest.importorskip("anthropic")
    if not hasattr(anthropic.Anthropic, "_tracer"):
        pytest.skip("this version makes no spans")
    for is_wrapped in (False, True):
        SPANS.clear()
        with ExitStack() as stack:
            client = anthropic.Anthropic(api_key="x", base_url=provider.anthropic_url, **use(stack))
            used = ctxwrap.wrap(client, store="memory:", session="s") if is_wrapped else client
            for _ in range(3):
                used.messages.create(model="m", max_tokens=9, messages=[{"role": "user", "content": "Hi"}])
                assert {"traceparent", "baggage"} & set(map(str.lower, provider.seen[-1].headers)) == headers
        made = [span for span in SPANS.get_finished_spans() if span.instrumentation_scope.name != "ctxwrap"]
        assert len(made) == 3 * spans
