"""What Anthropic's SDK makes of arguments is kept, and the request is the one that it would have made."""

import asyncio
import json
import warnings
from collections.abc import Iterator
from functools import wraps
from inspect import iscoroutinefunction, signature, unwrap
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_type_hints

import pytest
from hypothesis import given as for_all
from hypothesis import strategies as st

import ctxwrap
from ctxwrap.clients.sdk_arguments import Opaque, SdkMethod, SdkPost, hidden_arguments, hide, is_left_out, revealed
from ctxwrap.testing.practice import Provider
from tests.clients.shapes import shapes

anthropic = pytest.importorskip("anthropic")
resources = anthropic.resources.messages
params = anthropic.types.message_create_params

HIDDEN = hidden_arguments(resources.Messages.create)
METHODS = {resource: SdkMethod(resource.create) for resource in (resources.Messages, resources.AsyncMessages)}
DEPRECATED = sorted(unwrap(resources.Messages.create).__globals__["DEPRECATED_MODELS"])
THINKING = {"type": "enabled", "budget_tokens": 1024}
WARNED_THINKING = sorted(unwrap(resources.Messages.create).__globals__["MODELS_TO_WARN_WITH_THINKING_ENABLED"])


@pytest.mark.parametrize("name", sorted(HIDDEN))
def test_hidden_arguments_are_passed_on_as_they_are(name: str) -> None:
    """In every shape that the SDK's types allow, as the JSON that it would send."""
    hint = get_type_hints(params.MessageCreateParamsNonStreaming, include_extras=True)[name]
    found = [shape for shape in shapes(hint) if type(shape) in (str, list, dict)]
    assert found
    for value in found:
        keywords = {name: value}
        hide(keywords, HIDDEN)
        assert type(keywords[name]) is Opaque
        given = {"max_tokens": 9, "messages": [], "model": "m", name: value}
        assert json.dumps(sent(given)[name]) == json.dumps(revealed(keywords)[name])


def sent(keywords: dict[str, Any]) -> Any:
    """The body that a bare client sends."""
    seen: list[bytes] = []
    library = anthropic._base_client.__dict__.get("httpx2") or anthropic._base_client.httpx

    def answer(request: Any) -> Any:
        seen.append(request.content)
        return library.Response(200, json={})

    http = library.Client(transport=library.MockTransport(answer))
    anthropic.Anthropic(api_key="x", base_url="http://127.0.0.1:9", http_client=http).messages.create(**keywords)
    return json.loads(seen[0])


ARGUMENTS: dict[str, list[Any]] = {
    "max_tokens": [1, 2, 1_000_000],
    "model": ["m", "n", DEPRECATED[0], WARNED_THINKING[0]],
    "stream": [True, False],
    "timeout": [5, 5.0, None],
    "thinking": [THINKING, {"type": "disabled"}],
    "service_tier": ["auto"],
    "user_profile_id": ["u"],
    "system": ["Be kind.", [{"type": "text", "text": "Be kind."}]],
    "tools": [[{"name": "f", "input_schema": {"type": "object"}}]],
    "stop_sequences": [["a"], ["b"]],
    "extra_headers": [{"a": "b"}],
}
TIMEOUTS = [anthropic.DEFAULT_TIMEOUT if hasattr(anthropic, "DEFAULT_TIMEOUT") else anthropic.Timeout(600, connect=5.0)]
TIMEOUTS += [anthropic.Timeout(600, connect=5.0), anthropic.Timeout(3), 3, 3.0, None]


def posted_by(method: Any, client: Any, keywords: dict[str, Any]) -> list[Any]:
    """What a method of the SDK posts, or how it fails; and of what it warns."""
    posted: list[Any] = []

    async def post_async(path: str, **arguments: Any) -> None:
        posted.append((path, arguments))

    def post(path: str, **arguments: Any) -> None:
        posted.append((path, arguments))

    desk = SimpleNamespace(_client=client, _post=post_async if iscoroutinefunction(unwrap(method)) else post)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            made = method(desk, **keywords)
            if made is not None:
                asyncio.run(made)
        except (TypeError, ValueError) as error:
            posted.append(repr(error))
    return [*posted, *(str(each.message) for each in warned)]


@pytest.mark.parametrize("resource", METHODS, ids=["sync", "async"])
@for_all(st.data())
def test_kept_request_is_the_one_that_the_sdk_makes(resource: Any, data: st.DataObject) -> None:
    """With the values and the timeout of this call, whatever calls there were before."""
    known = signature(resource.create).parameters
    choices = {name: st.sampled_from(values) for name, values in ARGUMENTS.items() if name in known}
    given = data.draw(st.fixed_dictionaries({}, optional=choices))
    given["messages"] = [{"role": "user", "content": f"text {data.draw(st.integers(0, 2))}"}]
    client = anthropic.Anthropic(api_key="x").with_options(timeout=data.draw(st.sampled_from(TIMEOUTS)))
    theirs = posted_by(resource.create, client, given)
    keywords = dict(given)
    hide(keywords, HIDDEN)
    request = METHODS[resource].request(client, keywords)
    if request is None:
        is_odd = "extra_headers" in given or given.get("model") in DEPRECATED or len(theirs) > 1
        assert is_odd or isinstance(theirs[0], str)
        return
    assert len(theirs) == 1  # the SDK neither fails nor warns
    (path, arguments), body = theirs[0], request.filled(keywords)
    theirs_given = {name: value for name, value in arguments.pop("body").items() if not is_left_out(value)}
    assert json.dumps(body) == json.dumps(theirs_given)
    assert (request.path, repr({"options": request.options_with({}), **request.rest})) == (path, repr(arguments))


@pytest.mark.parametrize("method", METHODS.values(), ids=["sync", "async"])
def test_values_of_several_parts_are_those_of_each_call(method: SdkMethod) -> None:
    """Whatever was done with those of earlier calls."""
    client = anthropic.Anthropic(api_key="x")
    for _ in range(2):
        keywords: dict[str, Any] = {"max_tokens": 9, "messages": [], "model": "m", "thinking": dict(THINKING)}
        hide(keywords, HIDDEN)
        request = method.request(client, keywords)
        assert request is not None
        body = request.filled(keywords)
        assert body["thinking"] == THINKING
        body["thinking"]["type"] = keywords["thinking"]["type"] = "changed"


def test_a_client_with_a_timeout_of_its_own_is_asked_every_time() -> None:
    class Patient(anthropic.Anthropic):  # type: ignore[misc, name-defined]
        def _calculate_nonstreaming_timeout(self, *arguments: Any) -> Any:
            return anthropic.Timeout(7)

    keywords = {"max_tokens": 9, "messages": Opaque([]), "model": "m"}
    assert SdkMethod(resources.Messages.create).request(anthropic.Anthropic(api_key="x"), keywords)
    assert SdkMethod(resources.Messages.create).request(Patient(api_key="x"), keywords) is None


def test_methods_that_read_their_arguments_receive_them() -> None:
    @wraps(resources.Messages.create)
    def instrumented(self: Any, **keywords: Any) -> Any:
        return resources.Messages.create(self, **keywords)

    beta = anthropic.resources.beta.messages.Messages
    assert not any(map(hidden_arguments, (resources.Messages.stream, beta.create, beta.stream, instrumented)))
    assert SdkMethod(instrumented).request(None, {"model": "m"}) is None


OPTIONS: dict[str, list[Any]] = {
    "headers": [{}, {"a": "b"}, {"a": anthropic.NOT_GIVEN}],
    "timeout": [1, 1.0, None, anthropic.Timeout(1), anthropic.Timeout(1, read=2)],
    "idempotency_key": ["k"],
    "extra_json": [{"a": [1]}],
    "post_parser": [str],
}
if hasattr(anthropic, "Omit"):
    OPTIONS["headers"].append({"a": anthropic.Omit()})
POSTS = {post: SdkPost(post) for post in (anthropic.Anthropic.post, anthropic.AsyncAnthropic.post)}


@pytest.mark.parametrize("post", POSTS, ids=["sync", "async"])
@for_all(st.fixed_dictionaries({}, optional={name: st.sampled_from(values) for name, values in OPTIONS.items()}))
def test_kept_options_are_those_that_the_sdk_makes(post: Any, options: Any) -> None:
    """Of the same arguments, with the body of this call, whatever calls there were before and did with theirs."""
    asked: list[Any] = []

    async def answered() -> None:
        pass

    def request(cast_to: Any, made: Any, **_: Any) -> Any:
        asked.append((repr(vars(made)), made.model_fields_set))
        if type(made.headers) is dict:
            made.headers["changed"] = "by the client"
        return answered() if post is anthropic.AsyncAnthropic.post else None

    client = SimpleNamespace(request=request)
    for send in (post, POSTS[post], POSTS[post]):
        given = {name: dict(value) if type(value) is dict else value for name, value in options.items()}
        if coroutine := send(client, "/path", body={"a": 1}, options=given, cast_to=object):
            asyncio.run(coroutine)
    assert asked[0] == asked[1] == asked[2]


@pytest.fixture
def client(provider: Provider, home: Path) -> Iterator[Any]:
    yield ctxwrap.wrap(anthropic.Anthropic(api_key="x", base_url=provider.url), store=home, session="s")
    ctxwrap.flush()


def test_models_that_the_sdk_warns_of_are_warned_of_in_every_call(client: Any) -> None:
    for _ in range(3):
        with pytest.warns(DeprecationWarning, match="end-of-life") as warned:
            client.messages.create(model=DEPRECATED[0], max_tokens=9, messages=[{"role": "user", "content": "Hi."}])
        assert len(warned) == 1


def test_a_request_that_needs_a_stream_is_refused_in_every_call(client: Any) -> None:
    for _ in range(2):
        with pytest.raises(ValueError, match="Streaming is required"):
            client.messages.create(model="m", max_tokens=10**6, messages=[{"role": "user", "content": "Hi."}])
