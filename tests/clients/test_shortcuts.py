"""Wrapped clients take shortcuts through their SDK, with the same results."""

from importlib import import_module
from types import NoneType, SimpleNamespace, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

import ctxwrap
from tests.support import examples

MODELS = (
    ("openai", "OpenAI", "types.chat", "ChatCompletion"),
    ("openai", "OpenAI", "types.chat", "ChatCompletionChunk"),
    ("openai", "OpenAI", "types", "Completion"),
    ("openai", "OpenAI", "types.responses", "Response"),
    ("anthropic", "Anthropic", "types", "Message"),
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
        payload = data.draw(model_data(cast_to))
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


@given(
    st.lists(st.sampled_from(("/chat/completions", "models", "https://api.example/v2/x", "http://127.0.0.1/other/")))
)
def test_urls_are_joined_as_by_the_sdk(steps: list[str]) -> None:
    own, wrapped = clients("openai", "OpenAI")
    for step in steps:
        if step.endswith("/"):
            own.base_url = wrapped.base_url = step
        else:
            assert wrapped._prepare_url(step) == own._prepare_url(step)
