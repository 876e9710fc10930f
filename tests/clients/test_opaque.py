"""Plain messages go past the OpenAI SDK's walk, and the request is the one that it would have made."""

import asyncio
import json
from collections.abc import Callable, Iterator
from functools import wraps
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_type_hints

import openai
import pytest
from hypothesis import given as for_all
from hypothesis import strategies as st
from openai._utils import _transform, maybe_transform
from openai.resources.chat.completions import Completions
from openai.resources.responses import Responses
from openai.types import completion_create_params as prompt_create_params
from openai.types.chat import ChatCompletionMessage, completion_create_params
from openai.types.responses import response_create_params

from ctxwrap.clients.sdk_arguments import (
    Opaque,
    SdkMethod,
    SdkPost,
    SdkRequest,
    hidden_arguments,
    hide,
    request_made_by,
    revealed,
)
from tests.clients.openai_cases import Desk, both, got, open_desk
from tests.clients.shapes import shapes

ALL_PARAMS = (
    completion_create_params.CompletionCreateParamsNonStreaming,
    completion_create_params.CompletionCreateParamsStreaming,
    response_create_params.ResponseCreateParamsNonStreaming,
    response_create_params.ResponseCreateParamsStreaming,
    prompt_create_params.CompletionCreateParamsNonStreaming,
)
HIDDEN = hidden_arguments(Completions.create)


def hideable(params: Any) -> Iterator[tuple[str, Any]]:
    for name, hint in get_type_hints(params, include_extras=True).items():
        if name in HIDDEN:
            yield from ((name, shape) for shape in shapes(hint) if type(shape) in (list, dict, str))


@pytest.mark.parametrize("params", ALL_PARAMS, ids=lambda params: params.__name__)
def test_hidden_arguments_equal_the_sdks_transformed_arguments(params: Any) -> None:
    seen = 0
    for name, value in hideable(params):
        keywords = {name: value, "temperature": 0.5}
        hide(keywords, HIDDEN)
        assert type(keywords[name]) is Opaque
        past = revealed(maybe_transform(keywords, params))
        assert json.dumps(past) == json.dumps(maybe_transform({name: value, "temperature": 0.5}, params))
        seen += 1
    assert seen > 5


ARGUMENTS: dict[str, Any] = {
    "temperature": 0.5,
    "stream": True,
    "store": False,
    "timeout": 5.0,
    "top_p": 1,
    "parallel_tool_calls": None,
    "model": "m",
    "user": "u",
    "metadata": {"a": "b"},
    "tools": [],
    "extra_headers": {"a": "b"},
}
METHODS = {resource: SdkMethod(resource.create) for resource in (Completions, Responses)}


@pytest.mark.parametrize("resource", METHODS)
@for_all(st.lists(st.sampled_from(sorted(ARGUMENTS))), st.integers(0, 2))
def test_kept_request_is_the_one_that_the_sdk_makes(resource: Any, chosen: list[str], number: int) -> None:
    """With the values of this call, whatever calls there were before."""
    given = {name: ARGUMENTS[name] for name in chosen}
    given["messages" if resource is Completions else "input"] = [{"role": "user", "content": f"text {number}"}]
    if "model" in given:
        given |= {"model": f"model {number}", "temperature": number}
    posted: list[tuple[str, dict[str, Any]]] = []
    desk = SimpleNamespace(_post=lambda path, **arguments: posted.append((path, arguments)))
    keywords = dict(given)
    hide(keywords, HIDDEN)
    request = METHODS[resource].request(None, keywords)
    try:
        resource.create(desk, **given)
    except TypeError:  # the model is missing
        assert request is None
        return
    if "extra_headers" in given:
        assert request is None
        return
    assert request is not None
    made = {"body": request.filled(keywords), "options": request.options_with({}), **request.rest}
    assert repr([(request.path, made)]) == repr(posted)


OPTIONS: dict[str, list[Any]] = {
    "headers": [{}, {"a": "b"}, {"a": openai.NOT_GIVEN}],
    "timeout": [1, 1.0, None, openai.Timeout(1)],
    "idempotency_key": ["k"],
    "security": [{"bearer_auth": True}],
    "extra_json": [{"a": [1]}],
    "post_parser": [str],
}
POSTS = {post: SdkPost(post) for post in (openai.OpenAI.post, openai.AsyncOpenAI.post)}


@pytest.mark.parametrize("post", POSTS, ids=["sync", "async"])
@for_all(
    st.fixed_dictionaries({}, optional={name: st.sampled_from(values) for name, values in OPTIONS.items()}),
    st.dictionaries(st.sampled_from(["a", "b"]), st.sampled_from([1, "x", [2], openai.NOT_GIVEN])),
    st.sampled_from(
        [{"cast_to": object}, {"cast_to": dict[str, Any], "stream": True, "stream_cls": openai.Stream[Any]}]
    ),
)
def test_kept_options_are_those_that_the_sdk_makes(post: Any, options: Any, body: Any, rest: Any) -> None:
    """Of the same arguments, with the body of this call, whatever calls there were before."""
    asked: list[Any] = []

    async def answered() -> None:
        pass

    def request(*arguments: Any, **keywords: Any) -> Any:
        asked.append((arguments, keywords))
        return answered() if post is openai.AsyncOpenAI.post else None

    client = SimpleNamespace(request=request)
    for send in (post, POSTS[post]):
        sent = send(client, "/path", body=body, options=options, **rest)
        if sent is not None:
            asyncio.run(sent)
    (cast_to, made), keywords = asked[0]
    (kept_cast_to, kept), kept_keywords = asked[1]
    assert (kept_cast_to, {"stream": False, "stream_cls": None} | kept_keywords) == (cast_to, keywords)
    assert repr(vars(kept)) == repr(vars(made))
    assert kept.model_fields_set == made.model_fields_set


def test_methods_that_do_not_just_post_are_asked_every_time() -> None:
    """So does one that fails, that posts other values than its arguments, or that does something else."""
    keywords = {"model": Opaque("m"), "n": 1}
    makes: list[Callable[..., Any]] = [
        lambda self, model, n: self._post("/path", body={"model": model, "n": n}),
        lambda self, model, n: self._post("/path", body={"model": "m", "n": n}),
        lambda self, model, n: self._post("/path", body={"name": model, "n": n}),
        lambda self, model, n: self._post("/path", body=None),
        lambda self, model, n: self._get("/path"),
        lambda self, model, n: None,
        lambda self, model: None,
    ]
    assert [isinstance(request_made_by(make, None, keywords), SdkRequest) for make in makes] == [True, *[False] * 6]


@pytest.fixture(params=["sync", "async"])
def desk(request: pytest.FixtureRequest, home: Path) -> Iterator[Desk]:
    with open_desk(request.param, home) as desk:
        yield desk


CALLED: dict[str, Any] = {
    "role": "assistant",
    "content": None,
    "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
}
PLAIN: list[Any] = [
    {"role": "user", "content": [{"type": "text", "text": "Look."}, {"type": "image_url", "image_url": {"url": "u"}}]},
    CALLED,
    {"role": "tool", "tool_call_id": "c", "content": "x"},
    {"role": "user", "content": "Say hello."},
]


def cyclic() -> list[Any]:
    message: dict[str, Any] = {"role": "user"}
    message["content"] = [message]
    return [message]


OTHERS: dict[str, Callable[[], Any]] = {
    "plain": lambda: PLAIN,
    "tuple": lambda: tuple(PLAIN),
    "iterator": lambda: iter(PLAIN),
    "models": lambda: [PLAIN[0], ChatCompletionMessage.model_validate(CALLED), *PLAIN[2:]],
    "not given": lambda: [{"role": "user", "content": "Say hello.", "name": openai.NOT_GIVEN}],
    "parts in a tuple": lambda: [{"role": "user", "content": ({"type": "text", "text": "Say hello."},)}],
}


@pytest.mark.parametrize("make", OTHERS.values(), ids=OTHERS)
@both
async def test_a_disabled_call_sends_what_the_bare_client_sends(desk: Desk, make: Callable[[], Any]) -> None:
    wrapped = desk.wrapped(context_mode="disabled")
    for client in (desk.bare(), wrapped, wrapped.with_options(timeout=5)):
        await got(client.chat.completions.create(model="m", messages=make()))
        await got(client.chat.completions.with_raw_response.create(model="m", messages=make(), stream=True))
        await got(client.chat.completions.parse(model="m", messages=make()))
    sent = [seen.body for seen in desk.bare_provider.seen]
    assert [seen.body for seen in desk.provider.seen] == sent * 2


@pytest.mark.parametrize("value", [cyclic(), [{1: "one"}], [b"bytes"], 1, [type("Text", (str,), {})("text")]])
def test_arguments_that_are_not_plain_json_are_not_hidden(value: Any) -> None:
    keywords = {"messages": value}
    hide(keywords, HIDDEN)
    assert keywords["messages"] is value


def test_later_changes_by_the_caller_do_not_reach_the_request() -> None:
    messages = [{"role": "user", "content": [{"type": "text", "text": "before"}]}, {"role": "user", "content": "one"}]
    before = json.dumps(messages)
    keywords: dict[str, Any] = {"messages": messages}
    hide(keywords, HIDDEN)
    messages[0]["content"][0]["text"] = messages[1]["content"] = "after"  # type: ignore[index]
    assert json.dumps(revealed(keywords)["messages"]) == before


def test_wrapped_call_skips_the_sdks_transform_of_messages(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = 0
    walk = _transform._transform_recursive

    def counting(*arguments: Any, **keywords: Any) -> Any:
        nonlocal steps
        steps += 1
        return walk(*arguments, **keywords)

    monkeypatch.setattr(_transform, "_transform_recursive", counting)

    def steps_of(client: Any, count: int) -> int:
        nonlocal steps
        steps = 0
        client.chat.completions.create(model="m", messages=PLAIN * count)
        return steps

    with open_desk("sync", home) as desk:
        bare, wrapped = desk.bare(), desk.wrapped()
        assert steps_of(bare, 20) > 10 * steps_of(bare, 1)
        steps_of(wrapped, 1)  # the first call asks the SDK
        assert steps_of(wrapped, 20) == steps_of(wrapped, 1) < steps_of(bare, 1)
        desk.run(_nothing())


async def _nothing() -> None:
    pass


def test_instrumented_sdk_methods_receive_plain_messages() -> None:
    @wraps(Completions.create)
    def instrumented(self: Any, **keywords: Any) -> Any:
        return Completions.create(self, **keywords)

    assert hidden_arguments(Completions.create) > hidden_arguments(Completions.parse) > {"messages"}
    assert not hidden_arguments(Completions.stream)
    assert not hidden_arguments(instrumented)
    assert SdkMethod(instrumented).request(None, {"model": "m"}) is None
