"""litellm: its module, its functions and its Router, called bare and called wrapped, show the same."""

import asyncio
import contextvars
import copy
import inspect
import re
import sys
import threading
import types
from collections.abc import Callable, Coroutine, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import pytest
from pydantic import BaseModel

import ctxwrap
from ctxwrap.clients.litellm import load_litellm
from ctxwrap.protocol.instructions import READING_TEXT, SEPARATOR, asks_for_trailer
from ctxwrap.testing.practice import Answer, Ask, Failure, Provider, ToolCall, script
from ctxwrap.testing.practice.requests import ApiName, RecordedRequest
from tests.support import REMEMBERED, Told, assert_clean, events, messages, said, state_shown, trailer

T = TypeVar("T")

pytestmark = pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")  # of litellm's own making

TEXT = "Grüße, Welt.\n\nAnd a second line: a < b."
HI = [{"role": "user", "content": "Hi there"}]
ASKED: dict[str, dict[str, Any]] = {
    "completion": {"messages": HI},
    "text_completion": {"prompt": "Hi there"},
    "responses": {"input": "Hi there"},
}
"""What to say to each of litellm's functions, which all have an async twin."""

WEATHER = ToolCall("call_1", "weather", '{"city": "Paris"}')
PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOLS = [{"type": "function", "function": {"name": "weather", "description": "The weather.", "parameters": PARAMETERS}}]
RESPONSES_TOOLS = [{"type": "function", "name": "weather", "description": "The weather.", "parameters": PARAMETERS}]
NOT_THE_SAME = frozenset(
    {"id", "created", "created_at", "completed_at", "item_id", "sequence_number", "usage", "response_id"}
)
"""Fields that differ between two equal answers: names, moments and counts."""


class Person(BaseModel):
    name: str


@pytest.fixture(scope="module")
def litellm() -> Any:
    return load_litellm()


@pytest.fixture(scope="module")
def runner(litellm: Any) -> Iterator[asyncio.Runner]:
    """One event loop for the module: litellm keeps its connections, and they belong to a loop."""
    with asyncio.Runner() as runner:
        yield runner
        runner.run(litellm.close_litellm_async_clients())


class Shown(NamedTuple):
    """What a call showed: what it returned, and the chunks of a stream."""

    result: Any
    chunks: list[Any]


class Side:
    """litellm in one flavour, sync or async, in front of one provider."""

    def __init__(self, flavour: str, litellm: Any, provider: Provider, home: Path, runner: asyncio.Runner) -> None:
        self.is_async = flavour == "async"
        self.litellm = litellm
        self.provider = provider
        self.home = home
        self._runner = runner

    def wrap(self, target: Any = None, **names: Any) -> Any:
        return ctxwrap.wrap(self.litellm if target is None else target, **{"store": self.home, "session": "s", **names})

    def at(self, model: str) -> dict[str, Any]:
        """The arguments that lead litellm to our provider, as `model`."""
        base = self.provider.anthropic_url if model.startswith("anthropic/") else self.provider.openai_url
        return {"model": model, "api_base": base, "api_key": "k", "max_retries": 0}

    def router(self, **options: Any) -> Any:
        """A Router of deployments called as their models are; `bad` is one that our provider refuses."""
        models = ("openai/practice", "anthropic/practice", "openai/gpt-4o-mini", "openai/bad")
        deployments = [{"model_name": model, "litellm_params": self.at(model)} for model in models]
        return self.litellm.Router(model_list=deployments, **{"num_retries": 0, **options})

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(work, context=contextvars.copy_context())

    def call(self, place: Any, name: str, *args: Any, **asked: Any) -> Shown:
        """Call `name` of litellm or a Router, or its async twin, and read what comes to its end."""
        if self.is_async:
            return self.run(self._call_async(getattr(place, f"a{name}"), *args, **asked))
        result = getattr(place, name)(*args, **asked)
        return Shown(result, list(result) if hasattr(result, "__next__") else [])

    async def _call_async(self, function: Callable[..., Any], *args: Any, **asked: Any) -> Shown:
        result = await function(*args, **asked)
        return Shown(result, [chunk async for chunk in result] if hasattr(result, "__anext__") else [])

    def failure(self, place: Any, name: str, **asked: Any) -> Exception:
        """The exception that a call ends with."""
        try:
            shown = self.call(place, name, **asked)
        except Exception as error:
            return error
        raise AssertionError(f"it did not fail, it showed {shown}")

    def said(self, session: str = "s") -> list[tuple[str, Any]]:
        return said(self.home, session)

    def done(self, session: str = "s") -> list[str]:
        return [event["status"] for event in events(self.home, session) if event["type"] == "done"]

    def rounds(self, session: str = "s") -> list[int]:
        return [event["runtime"]["round"] for event in events(self.home, session) if event["type"] == "start"]

    def last(self) -> Ask:
        """The newest request that reached the provider."""
        return asked_in(self.provider.seen[-1])


@pytest.fixture(params=["sync", "async"])
def side(request: pytest.FixtureRequest, litellm: Any, provider: Provider, home: Path, runner: asyncio.Runner) -> Side:
    provider.answer = Obeying(TEXT)
    return Side(request.param, litellm, provider, home, runner)


def asked_in(seen: RecordedRequest) -> Ask:
    apis: dict[str, ApiName] = {"chat/completions": "chat", "completions": "completions", "messages": "messages"}
    return Ask(apis.get(seen.path.partition("v1/")[2], "responses"), seen.json, seen.path, seen.headers)


def asks(ask: Ask) -> bool:
    """Whether a request asks for a trailer; litellm may have made a message of the prompt that does so."""
    return any(asks_for_trailer(text) for text in (ask.system, *(text for _, text in ask.messages)))


class Obeying(Told):
    """A model that also writes its trailer when it is asked for one in a message."""

    def __call__(self, ask: Ask) -> Answer:
        if asks_for_trailer(ask.system) or not asks(ask):
            return super().__call__(ask)
        return Answer(self.text + trailer(ask), **self.answer)


def text_of(shown: Shown) -> str:
    """The text that a caller reads, out of whichever type the call gave."""
    if shown.chunks:
        return "".join(text for chunk in shown.chunks for text in delta_texts(chunk))
    if hasattr(shown.result, "output"):
        return "".join(part.text for item in shown.result.output if item.type == "message" for part in item.content)
    choice = shown.result.choices[0]
    return (choice.message.content or "") if hasattr(choice, "message") else choice.text


def delta_texts(chunk: Any) -> list[str]:
    if hasattr(chunk, "choices"):
        first = [choice for choice in chunk.choices if choice.index == 0]
        texts = [choice.delta.content if hasattr(choice, "delta") else choice.text for choice in first]
        return [text for text in texts if text]
    return [chunk.delta] if kind_of(chunk) == "response.output_text.delta" else []


def kind_of(event: Any) -> str:
    kind = getattr(event, "type", "")
    return str(getattr(kind, "value", kind))


def view(value: Any) -> Any:
    """A value for comparing: types and content at every depth, without what differs between equal answers."""
    if isinstance(value, BaseModel):
        return type(value).__name__, {name: view(item) for name, item in value if name not in NOT_THE_SAME}
    if isinstance(value, dict):
        return {name: view(item) for name, item in value.items() if name not in NOT_THE_SAME}
    if isinstance(value, (list, tuple)):
        return [view(item) for item in value]
    return value


def shown_view(shown: Shown) -> Any:
    """A call's outcome for comparing. A chunk whose text was all trailer may stay, empty."""
    if not shown.chunks:
        return type(shown.result).__name__, view(shown.result)
    return type(shown.result).__name__, joined([view(chunk) for chunk in shown.chunks if not is_emptied(chunk)])


def joined(views: list[Any]) -> list[Any]:
    """Texts that follow each other as one: what may begin a separator comes with the next piece."""
    together: list[Any] = []
    for one in views:
        frame, text = without_text(one)
        if together and text and together[-1][1] and together[-1][0] == frame:
            together[-1] = frame, together[-1][1] + text
        else:
            together.append((frame, text))
    return together


def without_text(value: Any) -> tuple[Any, str]:
    """A view of a chunk without the text in it, and that text."""
    if isinstance(value, dict):
        texts = "".join(text for name, text in value.items() if name in CARRIES_TEXT and isinstance(text, str))
        inner = {name: without_text(item) for name, item in value.items() if not isinstance(item, str)}
        rest = {name: item for name, item in value.items() if isinstance(item, str) and name not in CARRIES_TEXT}
        return rest | {name: frame for name, (frame, _) in inner.items()}, texts + "".join(t for _, t in inner.values())
    if isinstance(value, (list, tuple)):
        pairs = [without_text(item) for item in value]
        return [frame for frame, _ in pairs], "".join(text for _, text in pairs)
    return value, ""


CARRIES_TEXT = ("content", "text", "delta")


def is_emptied(chunk: Any) -> bool:
    choices = getattr(chunk, "choices", None)
    if not choices or any(choice.finish_reason for choice in choices):
        return False
    deltas = [getattr(choice, "delta", choice) for choice in choices]
    carried = ("content", "text", "role", "tool_calls", "reasoning_content", "refusal")
    return not any(getattr(delta, name, None) for delta in deltas for name in carried)


# --- the surfaces -----------------------------------------------------------------------------------------


MODELS = ("openai/practice", "anthropic/practice", "openai/gpt-4o-mini")
"""gpt-4o-mini is one that litellm knows to stream responses; those of others it streams itself."""


HAS_MCP = find_spec("mcp") is not None


def needs_mcp(name: str) -> None:
    if name == "responses" and not HAS_MCP:
        pytest.skip("litellm.responses needs the package mcp, which is not installed")


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("name", ASKED)
@pytest.mark.parametrize("place", ["module", "router"])
def test_every_function_gives_litellms_result(side: Side, place: str, name: str, model: str, stream: bool) -> None:
    needs_mcp(name)
    if (place, name, side.is_async) == ("router", "text_completion", False):
        pytest.skip("litellm's own Router.text_completion looks for no deployment and fails, bare as well")
    bare = side.litellm if place == "module" else side.router()
    asked = {**(side.at(model) if place == "module" else {"model": model}), **ASKED[name]}
    asked |= {"stream": True} if stream else {}
    theirs = side.call(bare, name, **asked)
    ours = side.call(side.wrap(bare), name, **asked)
    assert asks(side.last())
    assert_clean(*ours)
    assert text_of(ours) == text_of(theirs) == TEXT
    assert shown_view(ours) == shown_view(theirs)
    assert side.said() == [("user", "Hi there"), ("assistant", TEXT)]
    assert (side.rounds(), side.done()) == ([1], ["ok"])


@pytest.mark.parametrize("name", ASKED)
def test_stream_text_is_the_same_for_any_chunking(side: Side, name: str) -> None:
    needs_mcp(name)

    def answer(ask: Ask) -> Answer:
        whole = TEXT + trailer(ask)
        return Answer(whole, pieces=tuple(whole[at : at + 4] for at in range(0, len(whole), 4)))

    side.provider.answer = answer
    shown = side.call(side.wrap(), name, **side.at("openai/gpt-4o-mini"), **ASKED[name], stream=True)
    assert_clean(*shown)
    assert text_of(shown) == TEXT


@pytest.mark.parametrize("text", ["ends in a newline\n\n", "1 <<<", f"{SEPARATOR} is a word"])
def test_reply_without_a_trailer_is_unchanged(side: Side, text: str) -> None:
    side.provider.answer = lambda ask: Answer(text, pieces=tuple(text))
    wrapped, asked = side.wrap(), {**side.at("openai/practice"), "messages": HI}
    assert text_of(side.call(wrapped, "completion", **asked, stream=True)) == text
    assert text_of(side.call(wrapped, "completion", **asked, session="whole")) == text
    assert side.said()[-1] == side.said("whole")[-1] == ("assistant", text)


@pytest.mark.parametrize("model", ["openai/practice", "anthropic/practice"])
@pytest.mark.parametrize("place", ["module", "router"])
def test_a_stream_is_one_of_litellms_streams(side: Side, place: str, model: str) -> None:
    bare = side.litellm if place == "module" else side.router()
    asked = {**(side.at(model) if place == "module" else {"model": model}), "messages": HI, "stream": True}
    ours, theirs = side.call(side.wrap(bare), "completion", **asked), side.call(bare, "completion", **asked)
    assert isinstance(ours.result, side.litellm.CustomStreamWrapper)
    assert type(ours.result).__name__ == type(theirs.result).__name__
    assert all(isinstance(chunk, side.litellm.ModelResponseStream) for chunk in ours.chunks)
    assert ours.result.custom_llm_provider == theirs.result.custom_llm_provider


@pytest.mark.parametrize("model", ["openai/practice", "anthropic/practice"])
def test_stream_chunks_build_the_visible_reply(side: Side, model: str) -> None:
    shown = side.call(side.wrap(), "completion", **side.at(model), messages=HI, stream=True)
    built = side.litellm.stream_chunk_builder(shown.chunks, messages=HI)
    assert_clean(built)
    assert built.choices[0].message.content == TEXT
    assert built.choices[0].finish_reason == "stop"


@pytest.mark.parametrize("model", ["openai/practice", "anthropic/practice"])
def test_stream_with_usage_ends_with_the_usage_chunk(side: Side, model: str) -> None:
    asked = {**side.at(model), "messages": HI, "stream": True, "stream_options": {"include_usage": True}}
    ours, theirs = side.call(side.wrap(), "completion", **asked), side.call(side.litellm, "completion", **asked)
    assert type(ours.chunks[-1].usage) is type(theirs.chunks[-1].usage)
    assert ours.chunks[-1].usage.completion_tokens > theirs.chunks[-1].usage.completion_tokens > 0
    assert text_of(ours) == TEXT
    assert events(side.home, "s")[-1]["usage"]["completion_tokens"] == ours.chunks[-1].usage.completion_tokens


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("name", ["completion", "text_completion"])
def test_every_choice_is_returned_without_its_trailer(side: Side, name: str, stream: bool) -> None:
    if name == "text_completion" and stream:
        pytest.skip("litellm's own streams of text completions do not tell their choices apart")
    side.provider.answer = lambda ask: Answer(TEXT + trailer(ask), others=(Answer("The other." + trailer(ask)),))
    asked = {**side.at("openai/practice"), **ASKED[name], "n": 2, **({"stream": True} if stream else {})}
    shown = side.call(side.wrap(), name, **asked)
    assert_clean(*shown)
    assert choice_texts(shown, stream) == [TEXT, "The other."]
    assert side.said() == [("user", "Hi there"), ("assistant", TEXT)]
    (other,) = [event for event in events(side.home, "s") if event["type"] == "choice"]
    assert (other["index"], other["content"]) == (1, "The other.")


def test_interleaved_choices_of_litellm_show_no_trailer(side: Side) -> None:
    def answer(ask: Ask) -> Answer:
        tail = trailer(ask) if asks(ask) else ""
        return Answer(f"One two.{tail}", others=(Answer(f"Three four.{tail}"),))

    side.provider.answer = answer
    asked = {**side.at("openai/practice"), "prompt": "Hi there", "n": 2, "stream": True}
    theirs, ours = (
        side.call(side.litellm, "text_completion", **asked),
        side.call(side.wrap(), "text_completion", **asked),
    )
    assert_clean(*ours)
    assert text_of(ours) == text_of(theirs)


def choice_texts(shown: Shown, stream: bool) -> list[str]:
    texts = {0: "", 1: ""}
    for result in shown.chunks if stream else [shown.result]:
        for choice in result.choices:
            holder = getattr(choice, "delta", None) or getattr(choice, "message", None) or choice
            texts[choice.index] += getattr(holder, "content", None) or getattr(holder, "text", None) or ""
    return list(texts.values())


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_log_probabilities_are_those_of_the_visible_tokens(side: Side, stream: bool) -> None:
    asked = {**side.at("openai/practice"), "messages": HI, "logprobs": True, "top_logprobs": 2, "stream": stream}
    ours, theirs = side.call(side.wrap(), "completion", **asked), side.call(side.litellm, "completion", **asked)
    assert_clean(*ours)
    assert tokens(ours) == tokens(theirs)
    assert "".join(tokens(ours)) == TEXT


def tokens(shown: Shown) -> list[str]:
    results = shown.chunks or [shown.result]
    logprobs = [choice.logprobs for result in results for choice in result.choices if choice.logprobs]
    return [at(token, "token") for each in logprobs for token in at(each, "content") or ()]


def at(value: Any, name: str) -> Any:
    """A field of a model, or of the dict that litellm gives in its place."""
    return value[name] if isinstance(value, dict) else getattr(value, name)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("model", ["openai/practice", "anthropic/practice"])
def test_reasoning_equals_litellms(side: Side, model: str, stream: bool) -> None:
    side.provider.answer = Obeying(TEXT, reasoning="Höflich sein — und kurz.")
    asked = {**side.at(model), "messages": HI, "stream": stream}
    ours, theirs = side.call(side.wrap(), "completion", **asked), side.call(side.litellm, "completion", **asked)
    assert_clean(*ours)
    assert shown_view(ours) == shown_view(theirs)
    assert reasoning(ours) == reasoning(theirs) == "Höflich sein — und kurz."
    assert side.said()[-1] == ("assistant", TEXT)


def reasoning(shown: Shown) -> str:
    results = shown.chunks or [shown.result]
    holders = [getattr(choice, "delta", None) or choice.message for result in results for choice in result.choices]
    return "".join(getattr(holder, "reasoning_content", None) or "" for holder in holders)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("model", ["openai/practice", "anthropic/practice"])
@pytest.mark.parametrize("text", ["Let me see.", ""], ids=["text and tool", "tool only"])
def test_tool_calls_equal_litellms(side: Side, text: str, model: str, stream: bool) -> None:
    side.provider.answer = Obeying(text, tool_calls=(WEATHER,))
    asked = {**side.at(model), "messages": HI, "tools": TOOLS, "stream": stream}
    ours, theirs = side.call(side.wrap(), "completion", **asked), side.call(side.litellm, "completion", **asked)
    assert shown_view(ours) == shown_view(theirs)
    assert side.said() == [("user", "Hi there"), ("assistant", text)]
    (call,) = messages(side.home, "s")[-1]["tool_calls"]
    assert (call["id"], call["name"], call["arguments"].replace(" ", "")) == ("call_1", "weather", '{"city":"Paris"}')


# --- tool loops -------------------------------------------------------------------------------------------


def weather_model(ask: Ask) -> Answer:
    """Calls a tool, then answers with what it said."""
    if any(role == "tool" for role, _ in ask.messages):
        return Obeying("It is sunny.")(ask)
    return Obeying("Let me see.", tool_calls=(WEATHER,))(ask)


def assert_one_round_with_a_tool(side: Side) -> None:
    assert [role for role, _ in side.said()] == ["user", "assistant", "tool", "assistant"]
    assert side.said()[2:] == [("tool", "sunny"), ("assistant", "It is sunny.")]
    assert side.rounds() == [1, 1]
    shown = [state_shown(asked_in(seen)) for seen in side.provider.seen]
    assert [state["runtime"]["round"] for state in shown] == [1, 1]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("model", ["openai/practice", "anthropic/practice"])
def test_a_tool_loop_stays_in_its_round_and_carries_context_in_both_calls(side: Side, model: str, stream: bool) -> None:
    """As the documentation shows it: the reply's message goes back as it came."""
    side.provider.answer = weather_model
    wrapped, asked = side.wrap(), {**side.at(model), "tools": TOOLS, "stream": stream}
    first = side.call(wrapped, "completion", **asked, messages=HI)
    whole = side.litellm.stream_chunk_builder(first.chunks) if stream else first.result
    result = {"role": "tool", "tool_call_id": "call_1", "name": "weather", "content": "sunny"}
    second = side.call(wrapped, "completion", **asked, messages=[*HI, whole.choices[0].message, result])
    assert_clean(*first, *second)
    assert text_of(second) == "It is sunny."
    assert_one_round_with_a_tool(side)


@pytest.mark.parametrize(
    ("model", "as_json"),
    [("openai/gpt-4o-mini", False), ("openai/gpt-4o-mini", True), ("anthropic/practice", True)],
    ids=["objects", "json", "json of anthropic"],
)
def test_a_tool_loop_of_responses_stays_in_its_round(side: Side, model: str, as_json: bool) -> None:
    needs_mcp("responses")
    side.provider.answer = weather_model
    question = {"role": "user", "content": "Hi there"}
    result = {"type": "function_call_output", "call_id": "call_1", "output": "sunny"}

    def loop(place: Any, **named: Any) -> list[Any]:
        asked = {**side.at(model), "tools": RESPONSES_TOOLS, "store": False, **named}
        first = side.call(place, "responses", **asked, input=[question]).result
        output = [item.model_dump(exclude_none=True) if as_json else item for item in first.output]
        second = side.call(place, "responses", **asked, input=[question, *output, result])
        return [first, second.result, text_of(second)]

    ours = loop(side.wrap())
    assert_clean(*ours)
    assert_one_round_with_a_tool(side)
    assert view(ours) == view(loop(side.litellm))


# --- arguments --------------------------------------------------------------------------------------------


POSITIONAL: dict[str, tuple[str, tuple[Any, ...]]] = {
    "completion": ("completion", ("openai/practice", HI)),
    "text_completion": ("text_completion", ("Hi there", "openai/practice")),
    "responses": ("responses", ("Hi there", "openai/gpt-4o-mini")),
}


@pytest.mark.parametrize("name", POSITIONAL)
def test_arguments_may_be_positional(side: Side, name: str) -> None:
    needs_mcp(name)
    function, args = POSITIONAL[name]
    asked = {key: value for key, value in side.at("openai/practice").items() if key != "model"}
    shown = side.call(side.wrap(), function, *args, **asked)
    assert text_of(shown) == TEXT
    assert asks(side.last())
    assert side.said() == [("user", "Hi there"), ("assistant", TEXT)]


ROUTER_POSITIONAL: dict[str, tuple[Any, ...]] = {
    "completion": ("openai/practice", HI),
    "text_completion": ("openai/practice", "Hi there"),
}


@pytest.mark.parametrize("name", ROUTER_POSITIONAL)
def test_arguments_of_a_router_may_be_positional(side: Side, name: str) -> None:
    if name == "text_completion" and not side.is_async:
        pytest.skip("litellm's own Router.text_completion looks for no deployment and fails, bare as well")
    assert text_of(side.call(side.router(), name, *ROUTER_POSITIONAL[name])) == TEXT
    shown = side.call(side.wrap(side.router()), name, *ROUTER_POSITIONAL[name])
    assert text_of(shown) == TEXT
    assert side.said() == [("user", "Hi there"), ("assistant", TEXT)]


@pytest.mark.parametrize("name", ASKED)
def test_the_objects_a_caller_passes_are_not_changed(side: Side, name: str) -> None:
    needs_mcp(name)
    asked = copy.deepcopy({**side.at("openai/gpt-4o-mini"), **ASKED[name], "extra_headers": {"x-own": "1"}})
    if name == "completion":
        asked |= {"tools": TOOLS, "messages": [{"role": "system", "content": "Be kind."}, *HI]}
    before = copy.deepcopy(asked)
    side.call(side.wrap(), name, **asked)
    assert asked == before


def test_system_prompt_follows_the_protocol(side: Side) -> None:
    asked = [{"role": "system", "content": "Be kind."}, *HI]
    side.call(side.wrap(), "completion", **side.at("openai/practice"), messages=asked)
    assert side.last().body["messages"][0]["content"].endswith("\n\nBe kind.")
    assert [role for role, _ in side.said()] == ["system", "user", "assistant"]


def test_next_request_contains_history_and_memory(side: Side) -> None:
    wrapped = side.wrap()
    for text in ("One", "Two"):
        side.call(wrapped, "completion", **side.at("anthropic/practice"), messages=[{"role": "user", "content": text}])
    assert [text for _, text in side.last().messages][:2] == ["One", TEXT]
    assert state_shown(side.last())["memory"]["working"][0]["content"] == REMEMBERED
    assert side.rounds() == [1, 2]


SCHEMA = {"name": "person", "schema": Person.model_json_schema(), "strict": True}
TEXT_FORMAT = {"format": {"type": "json_schema", **SCHEMA}}
FORCED = {"tools": TOOLS, "tool_choice": "required"}
NO_ROOM: dict[str, tuple[str, dict[str, Any]]] = {
    "json_object": ("completion", {"response_format": {"type": "json_object"}}),
    "json_schema": ("completion", {"response_format": {"type": "json_schema", "json_schema": SCHEMA}}),
    "a pydantic model": ("completion", {"response_format": Person}),
    "a pydantic model in a stream": ("completion", {"response_format": Person, "stream": True}),
    "a required tool": ("completion", FORCED),
    "a named tool": ("completion", {**FORCED, "tool_choice": {"type": "function", "function": {"name": "weather"}}}),
    "text.format of responses": ("responses", {"text": TEXT_FORMAT}),
    "text_format of responses": ("responses", {"text_format": Person}),
}


@pytest.mark.parametrize("how", NO_ROOM)
def test_call_that_cannot_carry_a_trailer_runs_in_readonly_mode(side: Side, how: str) -> None:
    name, more = NO_ROOM[how]
    needs_mcp(name)
    side.provider.answer = Obeying('{"name": "Ada"}')
    shown = side.call(side.wrap(), name, **side.at("openai/gpt-4o-mini"), **ASKED[name], **more)
    turn = ctxwrap.turn_of(shown.result)
    assert (turn.mode, turn.report.mode_asked) == ("readonly", "enabled")
    assert READING_TEXT in side.last().system
    assert text_of(shown) == '{"name": "Ada"}'


@pytest.mark.parametrize("finish", ["length", "content_filter"])
@pytest.mark.parametrize("model", ["openai/practice", "anthropic/practice"])
def test_trailer_applies_only_after_a_natural_finish(side: Side, model: str, finish: str) -> None:
    side.provider.answer = lambda ask: Answer(TEXT + trailer(ask), finish=finish)
    shown = side.call(side.wrap(), "completion", **side.at(model), messages=HI)
    assert_clean(*shown)
    assert text_of(shown) == TEXT
    assert ctxwrap.turn_of(shown.result).operations == ()


# --- the module, its functions, the Router ----------------------------------------------------------------


def test_the_wrapped_module_is_a_module(litellm: Any, home: Path) -> None:
    wrapped = ctxwrap.wrap(litellm, store=home, session="s")
    assert isinstance(wrapped, types.ModuleType)
    assert (wrapped.__name__, wrapped.__doc__) == (litellm.__name__, litellm.__doc__)
    assert set(dir(wrapped)) >= {"completion", "acompletion", "Router", "exceptions"}


@pytest.mark.parametrize(
    "name", ["Router", "exceptions", "stream_chunk_builder", "embedding", "model_cost", "drop_params"]
)
def test_other_attributes_of_the_module_are_litellms_own(litellm: Any, home: Path, name: str) -> None:
    assert getattr(ctxwrap.wrap(litellm, store=home, session="s"), name) is getattr(litellm, name)


def test_setting_an_attribute_of_the_wrapped_module_sets_litellms(
    litellm: Any, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(litellm, "drop_params", False)
    wrapped = ctxwrap.wrap(litellm, store=home, session="s")
    wrapped.drop_params = True
    assert (litellm.drop_params, wrapped.drop_params) == (True, True)


def test_unknown_attribute_of_the_module_raises_attribute_error(litellm: Any, home: Path) -> None:
    with pytest.raises(AttributeError, match="no_such_thing"):
        _ = ctxwrap.wrap(litellm, store=home, session="s").no_such_thing


FUNCTIONS = tuple(f"{prefix}{name}" for name in ASKED for prefix in ("", "a"))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_wrapped_function_keeps_litellms_signature(litellm: Any, home: Path, name: str) -> None:
    ours, theirs = getattr(ctxwrap.wrap(litellm, store=home), name), getattr(litellm, name)
    assert inspect.signature(ours) == inspect.signature(theirs)
    assert (ours.__name__, ours.__doc__) == (theirs.__name__, theirs.__doc__)
    assert inspect.iscoroutinefunction(ours) == inspect.iscoroutinefunction(theirs)


@pytest.mark.parametrize("side", ["sync"], indirect=True)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_wrapped_router_method_keeps_litellms_signature(side: Side, name: str) -> None:
    router = side.router()
    ours, theirs = getattr(side.wrap(router), name), getattr(router, name)
    assert inspect.signature(ours) == inspect.signature(theirs)
    assert inspect.iscoroutinefunction(ours) == inspect.iscoroutinefunction(theirs)


def test_wrapping_does_not_change_litellm_itself(side: Side) -> None:
    before = {name: getattr(side.litellm, name) for name in FUNCTIONS}
    side.call(side.wrap(), "completion", **side.at("openai/practice"), messages=HI)
    assert {name: getattr(side.litellm, name) for name in FUNCTIONS} == before
    side.call(side.litellm, "completion", **side.at("openai/practice"), messages=HI)
    assert side.last().body["messages"] == HI
    assert len(side.said()) == 2


def test_wrapping_a_wrapped_module_changes_nothing(side: Side) -> None:
    for target in (side.litellm, side.litellm.completion, side.router()):
        wrapped = side.wrap(target)
        assert ctxwrap.wrap(wrapped) is wrapped


@pytest.mark.parametrize("kind", ["module", "router", "function"])
def test_rewrapping_changes_only_the_given_settings(side: Side, kind: str) -> None:
    function = side.litellm.acompletion if side.is_async else side.litellm.completion
    target = {"module": side.litellm, "router": side.router(), "function": function}[kind]
    renamed = ctxwrap.wrap(side.wrap(target), session="renamed")
    holder = types.SimpleNamespace(**{function.__name__: renamed}) if kind == "function" else renamed
    asked = {"model": "openai/practice"} if kind == "router" else side.at("openai/practice")
    assert text_of(side.call(holder, "completion", **asked, messages=HI)) == TEXT
    assert (len(side.said("renamed")), side.said()) == (2, [])


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("name", ASKED)
def test_a_function_can_be_wrapped_alone(side: Side, name: str, stream: bool) -> None:
    needs_mcp(name)
    function = getattr(side.litellm, f"a{name}" if side.is_async else name)
    holder = types.SimpleNamespace(**{function.__name__: side.wrap(function)})
    asked = {**side.at("openai/practice"), **ASKED[name], **({"stream": True} if stream else {})}
    assert text_of(side.call(holder, name, **asked)) == TEXT
    assert side.said() == [("user", "Hi there"), ("assistant", TEXT)]


def test_wrapped_router_shares_the_state_of_the_original_router(side: Side) -> None:
    router = side.router()
    wrapped = side.wrap(router)
    assert isinstance(wrapped, type(router))
    assert wrapped.model_list == router.model_list
    assert wrapped.get_model_names() == router.get_model_names()
    wrapped.set_model_list([])
    assert router.get_model_names() == []


def test_wrapping_does_not_change_the_original_router(side: Side) -> None:
    router = side.router()
    kind = type(router)
    side.call(side.wrap(router), "completion", model="openai/practice", messages=HI)
    side.call(router, "completion", model="openai/practice", messages=HI)
    assert type(router) is kind
    assert side.last().body["messages"] == HI
    assert len(side.said()) == 2


def test_router_that_takes_members_from_its_subclasses_can_be_wrapped(side: Side) -> None:
    class Taking(side.litellm.Router):  # type: ignore[misc, name-defined]  # as litellm's own since 1.109
        def __init_subclass__(cls) -> None:
            raise AssertionError("wrapping a Router shows it a subclass")

    router = side.router()
    router.__class__ = Taking
    side.call(side.wrap(router), "completion", model="openai/practice", messages=HI)
    assert len(side.said()) == 2


@pytest.mark.parametrize("name", [name for name in ASKED if name != "responses"])
def test_a_call_that_falls_back_to_another_model_is_one_round(side: Side, name: str) -> None:
    if name == "text_completion" and not side.is_async:
        pytest.skip("litellm's own Router.text_completion looks for no deployment and fails, bare as well")
    side.provider.answer = refusing_bad
    router = side.router(fallbacks=[{"openai/bad": ["openai/practice"]}])
    shown = side.call(side.wrap(router), name, model="openai/bad", **ASKED[name])
    assert text_of(shown) == TEXT
    assert_clean(*shown)
    assert_fell_back_in_one_round(side)


def refusing_bad(ask: Ask) -> Answer | Failure:
    return Failure(500, "It did not work.") if ask.model == "bad" else Obeying(TEXT)(ask)


def assert_fell_back_in_one_round(side: Side) -> None:
    first, last = side.provider.seen[0].json, side.provider.seen[-1].json
    assert (first["model"], last["model"]) == ("bad", "practice")
    assert {**first, "model": ""} == {**last, "model": ""}
    assert side.said() == [("user", "Hi there"), ("assistant", TEXT)]
    assert (side.rounds(), side.done()) == ([1], ["ok"])


def test_fallbacks_named_in_a_call_stay_in_its_round(side: Side) -> None:
    side.provider.answer = refusing_bad
    asked = {**side.at("openai/bad"), "messages": HI, "fallbacks": ["openai/practice"]}
    shown = side.call(side.wrap(), "completion", **asked)
    assert text_of(shown) == TEXT
    assert_fell_back_in_one_round(side)


def test_retried_call_is_one_turn(side: Side) -> None:
    soon = {"retry-after-ms": "1"}
    answers = iter([Failure(429, headers=soon), Failure(500, headers=soon)])
    side.provider.answer = lambda ask: next(answers, None) or Obeying(TEXT)(ask)
    asked = {**side.at("openai/practice"), "max_retries": 2, "messages": HI}
    assert text_of(side.call(side.wrap(), "completion", **asked)) == TEXT
    assert len(side.provider.seen) == 3
    assert len({seen.body for seen in side.provider.seen}) == 1
    assert side.said() == [("user", "Hi there"), ("assistant", TEXT)]
    assert (side.rounds(), side.done()) == ([1], ["ok"])


def test_mocked_reply_of_litellm_is_recorded(side: Side) -> None:
    asked = {**side.at("openai/practice"), "messages": HI, "mock_response": "It is mocked."}
    for stream in (False, True):
        assert text_of(side.call(side.wrap(), "completion", **asked, stream=stream)) == "It is mocked."
    assert [text for _, text in side.said()] == ["Hi there", "It is mocked."] * 2
    assert side.provider.seen == []


# --- ctxwrap's own completion -----------------------------------------------------------------------------


@pytest.fixture
def default_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """`CTXWRAP_HOME`, as a process finds it that calls ctxwrap.completion for the first time."""
    monkeypatch.setenv("CTXWRAP_HOME", str(tmp_path / "default"))
    first_call = sys.modules[ctxwrap.completion.__module__]._litellm
    first_call.cache_clear()
    yield tmp_path / "default"
    first_call.cache_clear()


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("model", ["openai/practice", "anthropic/practice"])
def test_completion_equals_litellms_and_records_the_session(
    side: Side, default_home: Path, model: str, stream: bool
) -> None:
    shown = side.call(ctxwrap, "completion", **side.at(model), messages=HI, stream=stream, session="s")
    bare = side.call(side.litellm, "completion", **side.at(model), messages=HI, stream=stream)
    assert shown_view(shown) == shown_view(bare)
    assert_clean(*shown)
    assert said(default_home, "s") == [("user", "Hi there"), ("assistant", TEXT)]
    assert ctxwrap.turn_of(shown.result).session == "s"


def test_completion_takes_positional_arguments_and_a_mode(side: Side, default_home: Path) -> None:
    asked = {key: value for key, value in side.at("openai/practice").items() if key != "model"}
    side.call(ctxwrap, "completion", "openai/practice", HI, **asked, session="s", contextMode="disabled")
    assert side.last().body["messages"] == HI
    assert said(default_home, "s") == [("user", "Hi there"), ("assistant", TEXT)]


def test_completion_without_a_session_warns(side: Side, default_home: Path) -> None:
    with pytest.warns(ctxwrap.NoSessionWarning):
        side.call(ctxwrap, "completion", **side.at("openai/practice"), messages=HI)
    assert side.last().body["messages"] == HI


# --- naming the session and the mode ----------------------------------------------------------------------


@pytest.mark.parametrize("name", ASKED)
@pytest.mark.parametrize("place", ["module", "router"])
def test_session_and_mode_of_a_call_apply_and_are_not_sent(side: Side, place: str, name: str) -> None:
    needs_mcp(name)
    if (place, name, side.is_async) == ("router", "text_completion", False):
        pytest.skip("litellm's own Router.text_completion looks for no deployment and fails, bare as well")
    target = side.litellm if place == "module" else side.router()
    asked = {**(side.at("openai/gpt-4o-mini") if place == "module" else {"model": "openai/gpt-4o-mini"}), **ASKED[name]}
    shown = side.call(side.wrap(target), name, **asked, session="other", context_mode="readonly")
    turn = ctxwrap.turn_of(shown.result)
    assert (turn.session, turn.mode) == ("other", "readonly")
    assert (len(side.said("other")), side.said()) == (2, [])
    assert_nothing_private_left(side)


def assert_nothing_private_left(side: Side) -> None:
    for seen in side.provider.seen:
        assert not {"session", "context_mode", "contextMode"} & seen.json.keys()
        assert [name for name in seen.headers if "ctxwrap" in name] == []


def test_using_sets_the_session(side: Side) -> None:
    with ctxwrap.using(session="other", tenant="acme"):
        side.call(side.wrap(), "completion", **side.at("openai/practice"), messages=HI, stream=True)
    assert [role for role, _ in said(side.home, "other", tenant="acme")] == ["user", "assistant"]
    assert side.said() == []


def test_session_of_the_call_overrides_using(side: Side) -> None:
    with ctxwrap.using(session="outer"):
        side.call(side.wrap(), "completion", **side.at("openai/practice"), messages=HI, session="other")
    assert (len(side.said("other")), side.said("outer")) == (2, [])


@pytest.mark.parametrize("misspelt", [{"context_mode": "enable"}, {"contextMode": "off"}, {"session": 3}], ids=repr)
@pytest.mark.parametrize("name", ["completion", "text_completion"])
def test_misspelt_setting_raises_and_sends_nothing(side: Side, name: str, misspelt: dict[str, Any]) -> None:
    error = side.failure(side.wrap(), name, **side.at("openai/practice"), **ASKED[name], **misspelt)
    assert isinstance(error, ctxwrap.SettingsError)
    assert side.provider.seen == []


@pytest.mark.parametrize("name", ASKED)
def test_hidden_params_of_a_result_contain_no_trailer(side: Side, name: str) -> None:
    needs_mcp(name)
    shown = side.call(side.wrap(), name, **side.at("openai/practice"), **ASKED[name])
    assert_clean(shown.result._hidden_params, getattr(shown.result, "_response_headers", None))
    assert text_of(shown) == TEXT


# --- the turn behind a result -----------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("name", ASKED)
def test_turn_of_returns_the_turn_of_every_result(side: Side, name: str, stream: bool) -> None:
    needs_mcp(name)
    asked = {**side.at("openai/gpt-4o-mini"), **ASKED[name], **({"stream": True} if stream else {})}
    turn = ctxwrap.turn_of(side.call(side.wrap(), name, **asked).result)
    assert (turn.session, turn.mode, turn.round) == ("s", "enabled", 1)
    assert (turn.report.status, turn.report.reading) == ("complete", "clean")
    assert [(operation.kind, operation.id) for operation in turn.operations] == [("add", "w-1")]
    assert turn.id == events(side.home, "s")[0]["run"]
    assert ctxwrap.turn_of(side.call(side.litellm, name, **asked).result) is None


# --- disabled ---------------------------------------------------------------------------------------------


SWITCHED_OFF = (
    *(("disabled", name, "openai/gpt-4o-mini") for name in ASKED),
    ("disabled", "completion", "anthropic/practice"),
    ("shadow", "completion", "openai/gpt-4o-mini"),
)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize(("mode", "name", "model"), SWITCHED_OFF)
def test_disabled_and_shadow_requests_equal_litellms_byte_for_byte(
    side: Side, mode: str, name: str, model: str, stream: bool
) -> None:
    needs_mcp(name)
    side.provider.answer = script(Answer(f"{TEXT}\n\n{SEPARATOR}\n{{}}"))
    asked = {**side.at(model), **ASKED[name], **({"stream": True} if stream else {})}
    theirs, ours = side.call(side.litellm, name, **asked), side.call(side.wrap(context_mode=mode), name, **asked)
    bare, sent = side.provider.seen
    assert (sent.method, sent.path, sent.body) == (bare.method, bare.path, bare.body)
    assert sent.headers == bare.headers
    assert shown_view(ours) == shown_view(theirs)
    assert text_of(ours).startswith(TEXT + "\n\n" + SEPARATOR)
    assert side.said()[0] == ("user", "Hi there")
    assert side.said()[1][1].startswith(TEXT)
    assert side.done() == ["ok"]


def test_disabled_router_sends_the_bare_routers_request(side: Side) -> None:
    router = side.router()
    asked = {"model": "openai/practice", "messages": HI}
    side.call(router, "completion", **asked)
    side.call(side.wrap(router), "completion", **asked, context_mode="disabled")
    bare, sent = side.provider.seen
    assert (sent.path, sent.body, sent.headers) == (bare.path, bare.body, bare.headers)
    assert side.said() == [("user", "Hi there"), ("assistant", TEXT)]


def test_disabled_call_advances_the_round_and_keeps_memory(side: Side) -> None:
    wrapped = side.wrap()
    for text, mode in (("One", "enabled"), ("Two", "disabled"), ("Three", "enabled")):
        asked = [{"role": "user", "content": text}]
        side.call(wrapped, "completion", **side.at("openai/practice"), messages=asked, context_mode=mode)
    state = state_shown(side.last())
    assert (state["runtime"]["round"], len(state["memory"]["working"])) == (3, 1)
    assert side.rounds() == [1, 2, 3]


# --- errors -----------------------------------------------------------------------------------------------


def error_view(error: Any) -> Any:
    """An exception of litellm for comparing; the number of the request is in its text."""
    names = ("status_code", "message", "llm_provider", "model", "max_retries", "num_retries", "body", "code", "param")
    carried = {name: numberless(getattr(error, name, None)) for name in names}
    return type(error), numberless(str(error)), carried


def numberless(value: Any) -> Any:
    return re.sub(r"req_practice-\d+", "req", value) if isinstance(value, str) else repr(value)


@pytest.mark.parametrize("status", [400, 401, 429, 500])
@pytest.mark.parametrize("model", ["openai/practice", "anthropic/practice"])
def test_provider_error_equals_litellms_error(side: Side, model: str, status: int) -> None:
    side.provider.answer = script(Failure(status, "It did not work."))
    asked = {**side.at(model), "messages": HI}
    ours, theirs = side.failure(side.wrap(), "completion", **asked), side.failure(side.litellm, "completion", **asked)
    assert error_view(ours) == error_view(theirs)
    assert_recorded_as_failed(side)


def test_an_error_is_caught_by_its_name_in_litellm(side: Side) -> None:
    caught = {429: side.litellm.RateLimitError, 401: side.litellm.AuthenticationError}
    for status, error in caught.items():
        side.provider.answer = script(Failure(status, "It did not work."))
        asked = {**side.at("anthropic/practice"), "messages": HI}
        assert isinstance(side.failure(side.wrap(), "completion", **asked), error)


def assert_recorded_as_failed(side: Side) -> None:
    assert side.said() == [("user", "Hi there")]
    assert side.done() == ["error"]


@pytest.mark.parametrize("name", ["text_completion", "responses"])
@pytest.mark.parametrize("place", ["module", "router"])
def test_an_error_is_the_same_in_every_function(side: Side, place: str, name: str) -> None:
    needs_mcp(name)
    side.provider.answer = script(Failure(429, "Too many."))
    bare = side.litellm if place == "module" else side.router()
    asked = {**(side.at("openai/practice") if place == "module" else {"model": "openai/practice"}), **ASKED[name]}
    ours, theirs = side.failure(side.wrap(bare), name, **asked), side.failure(bare, name, **asked)
    assert type(ours) is type(theirs)
    assert getattr(ours, "status_code", None) == getattr(theirs, "status_code", None)
    assert_recorded_as_failed(side)


def test_timeout_equals_litellms_error(side: Side) -> None:
    gate = threading.Event()
    side.provider.answer = script(Failure(500, hang=lambda: gate.wait() and None))
    asked = {**side.at("openai/practice"), "messages": HI, "timeout": 0.1}
    try:
        ours = side.failure(side.wrap(), "completion", **asked)
        theirs = side.failure(side.litellm, "completion", **asked)
    finally:
        gate.set()
    assert type(ours) is type(theirs) is side.litellm.Timeout
    assert_recorded_as_failed(side)


def test_unreachable_provider_raises_litellms_error(side: Side) -> None:
    side.provider.close()
    asked = {**side.at("openai/practice"), "messages": HI}
    ours, theirs = side.failure(side.wrap(), "completion", **asked), side.failure(side.litellm, "completion", **asked)
    assert error_view(ours) == error_view(theirs)
    assert_recorded_as_failed(side)


@pytest.mark.parametrize("model", ["openai/practice", "anthropic/practice"])
def test_broken_stream_raises_litellms_error(side: Side, model: str) -> None:
    side.provider.answer = Obeying(TEXT, error_after=2)
    asked = {**side.at(model), "messages": HI, "stream": True}
    ours, theirs = side.failure(side.wrap(), "completion", **asked), side.failure(side.litellm, "completion", **asked)
    assert error_view(ours) == error_view(theirs)
    assert side.said() == [("user", "Hi there"), ("assistant", "Grüße, Welt.")]
    assert messages(side.home, "s")[-1]["ctx"]["status"] == "aborted"
    assert side.done() == ["error"]


@pytest.mark.parametrize("side", ["async"], indirect=True)
def test_stream_that_litellm_closes_after_an_error_ends_with_the_error(
    side: Side, monkeypatch: pytest.MonkeyPatch
) -> None:
    cls = side.litellm.CustomStreamWrapper
    read = cls.__anext__

    async def closing(stream: Any) -> Any:  # as litellm's own since 1.109
        try:
            return await read(stream)
        except Exception:
            await stream.aclose()
            raise

    monkeypatch.setattr(cls, "__anext__", closing)
    side.provider.answer = Obeying(TEXT, error_after=2)
    side.failure(side.wrap(), "completion", **side.at("openai/practice"), messages=HI, stream=True)
    assert side.done() == ["error"]


@pytest.mark.parametrize("side", ["async"], indirect=True)
def test_stream_closed_early_keeps_the_text_read_so_far(side: Side) -> None:
    async def read_a_little() -> None:
        stream = await side.wrap().acompletion(**side.at("openai/practice"), messages=HI, stream=True)
        missing = 2
        while missing:
            missing -= bool((await anext(stream)).choices[0].delta.content)
        await stream.aclose()

    side.run(read_a_little())
    (answer,) = [message for message in messages(side.home, "s") if message["role"] == "assistant"]
    assert (answer["content"], answer["ctx"]["status"]) == ("Grüße, Welt.", "aborted")
    assert side.done() == ["cancelled"]
