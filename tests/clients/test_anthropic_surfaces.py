"""Anthropic's client: whatever a caller can do with it, done bare and done wrapped, looks the same."""

import asyncio
import contextvars
import copy
import inspect
import json
import re
import sys
import threading
from base64 import b64encode
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, ClassVar, TypeVar
from urllib.request import Request, urlopen

import pytest
from pydantic import BaseModel

import ctxwrap
from ctxwrap.protocol.instructions import DELTA_TEXT, READING_TEXT, SEPARATOR, asks_for_trailer
from ctxwrap.testing.practice import Answer, Ask, Failure, Provider, ToolCall
from ctxwrap.testing.practice.requests import Answering, RecordedRequest
from tests.clients.running import at_once, each, got, opened
from tests.providers.loopback import aws_event
from tests.support import CANARY, REMEMBERED, Told, assert_clean, events, messages, said, state_shown, trailer

anthropic = pytest.importorskip("anthropic")

T = TypeVar("T")
Use = Callable[[Any], Coroutine[Any, Any, list[Any]]]
"""One way to use a client, sync or async: it returns everything that a caller can see there."""

TEXT = "Grüße, Welt.\n\nAnd a second line: a <b> c."
HELLO: dict[str, Any] = {"model": "practice", "max_tokens": 64, "messages": [{"role": "user", "content": "Hi there"}]}
WEATHER = ToolCall("toolu_1", "weather", '{"city": "Paris"}')
TOOLS = [
    {
        "name": "weather",
        "description": "The weather in a city.",
        "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    }
]
SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string"}},
    "required": ["name"],
    "additionalProperties": False,
}
NOT_THE_SAME = frozenset({"host", "date"})
"""Headers that differ between two equal exchanges: the port of the provider, and the second."""


class Person(BaseModel):
    name: str


# --- one text for sync and async --------------------------------------------------------------------------


async def all_of(stream: Any) -> list[Any]:
    return [piece async for piece in each(stream)]


class Twins:
    """A bare and a wrapped client of one flavour, each with a provider of its own that gives the same answers."""

    def __init__(self, flavour: str, home: Path, stack: ExitStack) -> None:
        self.is_async = flavour == "async"
        self.home = home
        self._stack = stack
        self._runner = stack.enter_context(asyncio.Runner()) if self.is_async else None
        self.theirs = stack.enter_context(Provider(Told(TEXT)))
        self.ours = stack.enter_context(Provider(Told(TEXT)))
        self.bare = self.client(self.theirs)
        self.wrapped = self.wrap()

    @property
    def client_type(self) -> Any:
        return anthropic.AsyncAnthropic if self.is_async else anthropic.Anthropic

    def client(self, provider: Provider, **options: Any) -> Any:
        """A plain client of `provider`."""
        known = {
            "api_key": "k",
            "base_url": provider.anthropic_url,
            "max_retries": 0,
            "http_client": self.http_client(),
        }
        return self.closing(self.client_type(**{**known, **options}))

    def http_client(self, **options: Any) -> Any:
        """The SDK's own HTTP client, which reads no certificates: that would take most of a test's time."""
        name = "DefaultAsyncHttpxClient" if self.is_async else "DefaultHttpxClient"
        return getattr(anthropic, name)(**{"verify": False, **options})

    def wrap(self, *, client: dict[str, Any] | None = None, **names: Any) -> Any:
        """Another wrapped client of our provider."""
        return ctxwrap.wrap(self.client(self.ours, **(client or {})), **{"store": self.home, "session": "s", **names})

    def closing(self, client: Any) -> Any:
        self._stack.callback(lambda: self.run(got(client.close())))
        return client

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return at_once(work) if self._runner is None else self._runner.run(work, context=contextvars.copy_context())

    def do(self, use: Use, client: Any = None) -> list[Any]:
        """What `use` shows of the wrapped client, or of another one."""
        return self.run(use(self.wrapped if client is None else client))

    def do_both(self, use: Use) -> tuple[list[Any], list[Any]]:
        """What `use` shows of the wrapped client, and what it shows of the bare one."""
        return self.do(use), self.do(use, self.bare)

    def fail_both(self, use: Use) -> tuple[Exception, Exception]:
        return self.run(failure(use(self.wrapped))), self.run(failure(use(self.bare)))

    def answer(self, *answers: Answering | Answer | Failure) -> None:
        """Let both providers give these answers in turn; the last one repeats."""
        self.ours.answer, self.theirs.answer = in_turn(*answers), in_turn(*answers)

    def said(self, session: str = "s") -> list[tuple[str, Any]]:
        return said(self.home, session)

    def done(self, session: str = "s") -> list[str]:
        """How each turn ended."""
        return [event["status"] for event in events(self.home, session) if event["type"] == "done"]

    def rounds(self, session: str = "s") -> list[int]:
        """The round of each turn."""
        return [event["runtime"]["round"] for event in events(self.home, session) if event["type"] == "start"]


@pytest.fixture(params=["sync", "async"])
def twins(request: pytest.FixtureRequest, home: Path) -> Iterator[Twins]:
    with ExitStack() as stack:
        yield Twins(request.param, home, stack)


def in_turn(*answers: Answering | Answer | Failure) -> Answering:
    waiting = list(answers)

    def answer(ask: Ask) -> Answer | Failure:
        now = waiting.pop(0) if len(waiting) > 1 else waiting[0]
        return now(ask) if callable(now) else now

    return answer


def asked(seen: RecordedRequest) -> Ask:
    return Ask("messages", seen.json, seen.path, seen.headers)


async def failure(work: Awaitable[Any]) -> Exception:
    """The exception that `work` ends with."""
    try:
        shown = await work
    except Exception as error:
        return error
    raise AssertionError(f"it did not fail, it showed {shown}")


def view(value: Any) -> Any:
    """A value for comparing: types and content at every depth; of a usage, which counts our words too, the fields."""
    if isinstance(value, BaseModel):
        fields = {name: sorted(dict(item)) if name == "usage" and item else view(item) for name, item in value}
        return type(value), fields
    if isinstance(value, dict):
        return {name: sorted(item) if name == "usage" and item else view(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [view(item) for item in value]
    if isinstance(value, (str, bytes)) and re.search(rb'"usage":', as_bytes(value)):
        return re.sub(rb'_tokens":\s*\d+', b'_tokens":0', as_bytes(value))
    return value


def as_bytes(value: str | bytes) -> bytes:
    return value.encode() if isinstance(value, str) else value


def need(holder: Any, name: str) -> Any:
    """An attribute that a client of this version may lack."""
    if not hasattr(holder, name):
        pytest.skip(f"anthropic {anthropic.__version__} has no {type(holder).__name__}.{name}")
    return getattr(holder, name)


def on_messages(use: Callable[[Any], Coroutine[Any, Any, list[Any]]], *, beta: bool) -> Use:
    """`use`, which takes the resource, for a client."""

    async def using_client(client: Any) -> list[Any]:
        return await use(client.beta.messages if beta else client.messages)

    using_client.__name__ = f"{'beta_' if beta else ''}{use.__name__}"
    return using_client


def name_of(value: Any) -> str | None:
    return value.__name__ if callable(value) else None


# --- the surfaces -----------------------------------------------------------------------------------------


async def create(resource: Any) -> list[Any]:
    message = await got(resource.create(**HELLO))
    return [message, message._request_id, message.to_dict(), message.to_json(), message.model_dump_json()]


async def create_stream(resource: Any) -> list[Any]:
    stream = await got(resource.create(**HELLO, stream=True))
    return [type(stream), *await all_of(stream)]


async def create_stream_in_a_with_block(resource: Any) -> list[Any]:
    async with opened(await got(resource.create(**HELLO, stream=True))) as stream:
        return await all_of(stream)


async def helper_text_stream(resource: Any) -> list[Any]:
    async with opened(resource.stream(**HELLO)) as stream:
        pieces = await all_of(stream.text_stream)
        return [type(stream), pieces, await got(stream.get_final_text()), await got(stream.get_final_message())]


async def helper_events(resource: Any) -> list[Any]:
    async with opened(resource.stream(**HELLO)) as stream:
        shown = [copy.deepcopy([event, stream.current_message_snapshot]) async for event in each(stream)]
        return [*shown, stream.current_message_snapshot]


async def helper_until_done(resource: Any) -> list[Any]:
    async with opened(resource.stream(**HELLO)) as stream:
        await got(stream.until_done())
        return [stream.current_message_snapshot, await got(stream.get_final_message()), stream.request_id]


async def parse(resource: Any) -> list[Any]:
    return [await got(need(resource, "parse")(**HELLO))]


async def raw(resource: Any) -> list[Any]:
    response = await got(resource.with_raw_response.create(**HELLO))
    text = await got(response.text() if callable(response.text) else response.text)
    inner = response.http_response
    return [
        *(type(response), response.status_code, response.request_id, text, await got(response.parse())),
        *(inner.text, inner.content, inner.json(), list(inner.iter_lines()), inner.elapsed.total_seconds() > 0),
    ]


async def raw_stream(resource: Any) -> list[Any]:
    response = await got(resource.with_raw_response.create(**HELLO, stream=True))
    return [type(response), *await all_of(await got(response.parse()))]


def streaming_response(read: str) -> Callable[[Any], Coroutine[Any, Any, list[Any]]]:
    async def read_streaming_response(resource: Any) -> list[Any]:
        async with opened(resource.with_streaming_response.create(**HELLO)) as response:
            shown = getattr(response, read)()
            return [type(response), await all_of(shown) if read.startswith("iter_") else await got(shown)]

    read_streaming_response.__name__ = f"streaming_response_{read}"
    return read_streaming_response


async def streaming_response_events(resource: Any) -> list[Any]:
    async with opened(resource.with_streaming_response.create(**HELLO, stream=True)) as response:
        return await all_of(await got(response.parse()))


def streaming_response_stream(read: str) -> Callable[[Any], Coroutine[Any, Any, list[Any]]]:
    async def read_stream(resource: Any) -> list[Any]:
        async with opened(resource.with_streaming_response.create(**HELLO, stream=True)) as response:
            joint = b"" if read == "iter_bytes" else "\n" if read == "iter_lines" else ""
            return [joint.join(await all_of(getattr(response, read)()))]

    read_stream.__name__ = f"streaming_response_stream_{read}"
    return read_stream


async def raw_client(client: Any) -> list[Any]:
    return [await got((await got(client.with_raw_response.messages.create(**HELLO))).parse())]


async def streaming_client(client: Any) -> list[Any]:
    async with opened(client.with_streaming_response.messages.create(**HELLO)) as response:
        return [await got(response.parse())]


async def post(client: Any) -> list[Any]:
    return [await got(client.post("/v1/messages", body=HELLO, cast_to=anthropic.types.Message))]


async def post_for_a_response(client: Any) -> list[Any]:
    module = http_module()
    response = await got(client.post("/v1/messages", body=HELLO, cast_to=module.Response))
    return [type(response), response.status_code, response.text, response.json()]


def http_module() -> Any:
    """httpx, or httpx2 in newer versions."""
    names = [cls.__module__.partition(".")[0] for cls in anthropic.DefaultHttpxClient.__mro__]
    return sys.modules[next(name for name in names if name in ("httpx", "httpx2"))]


ON_BOTH = (
    create,
    create_stream,
    create_stream_in_a_with_block,
    helper_text_stream,
    helper_events,
    helper_until_done,
    parse,
    raw,
    raw_stream,
    *(streaming_response(read) for read in ("parse", "read", "text", "json", "iter_bytes", "iter_text", "iter_lines")),
    streaming_response_events,
    *(streaming_response_stream(read) for read in ("iter_bytes", "iter_text", "iter_lines")),
)
SURFACES: tuple[Use, ...] = (
    *(on_messages(use, beta=beta) for beta in (False, True) for use in ON_BOTH),
    raw_client,
    streaming_client,
    post,
    post_for_a_response,
)
MAIN_SURFACES = tuple(
    on_messages(use, beta=False)
    for use in (create, create_stream, helper_events, raw, streaming_response_stream("iter_lines"))
)


def assert_same_but_asked_for_more(twins: Twins, use: Use) -> list[Any]:
    """The promise of every surface: the wrapped call asks for a trailer, and shows what the bare one shows."""
    ours, theirs = twins.do_both(use)
    assert asks_for_trailer(asked(twins.ours.seen[-1]).system)
    assert_clean(*ours)
    assert view(ours) == view(theirs)
    return ours


@pytest.mark.parametrize("use", SURFACES, ids=name_of)
def test_every_surface_gives_the_bare_clients_result(twins: Twins, use: Use) -> None:
    assert_same_but_asked_for_more(twins, use)
    assert twins.said() == [("user", "Hi there"), ("assistant", TEXT)]
    assert twins.done() == ["ok"]


@pytest.mark.parametrize("use", MAIN_SURFACES, ids=name_of)
def test_compressed_replies_equal_the_bare_clients(twins: Twins, use: Use) -> None:
    twins.answer(Told(TEXT, gzip=True))
    assert_same_but_asked_for_more(twins, use)


@pytest.mark.parametrize("use", MAIN_SURFACES, ids=name_of)
def test_thinking_and_tool_use_equal_the_bare_clients(twins: Twins, use: Use) -> None:
    twins.answer(Told("Let me see.", reasoning="Sie fragen nach dem Wetter — höflich.", tool_calls=(WEATHER,)))
    assert_same_but_asked_for_more(twins, use)
    assert twins.said() == [("user", "Hi there"), ("assistant", "Let me see.")]
    (call,) = messages(twins.home, "s")[-1]["tool_calls"]
    assert (call["id"], call["name"], json.loads(call["arguments"])) == ("toolu_1", "weather", {"city": "Paris"})


@pytest.mark.parametrize("use", MAIN_SURFACES, ids=name_of)
def test_tool_use_alone_equals_the_bare_clients(twins: Twins, use: Use) -> None:
    twins.answer(Told("", tool_calls=(WEATHER,)))
    assert_same_but_asked_for_more(twins, use)
    assert twins.said() == [("user", "Hi there"), ("assistant", "")]


@pytest.mark.parametrize("use", MAIN_SURFACES, ids=name_of)
def test_refusal_equals_the_bare_clients(twins: Twins, use: Use) -> None:
    twins.answer(Told(TEXT, finish="refusal", refusal="No."))
    assert_same_but_asked_for_more(twins, use)


@pytest.mark.parametrize("size", [1, 7])
@pytest.mark.parametrize("text", [TEXT, "ends in a newline\n", f"says {SEPARATOR} in passing", "", "1 <<<"])
def test_stream_text_equals_the_whole_reply_for_any_chunking(twins: Twins, size: int, text: str) -> None:
    def answer(ask: Ask) -> Answer:
        whole = text + trailer(ask)
        return Answer(whole, pieces=tuple(whole[at : at + size] for at in range(0, len(whole), size)))

    async def read(client: Any) -> list[Any]:
        async with opened(client.messages.stream(**HELLO)) as stream:
            pieces = "".join(await all_of(stream.text_stream))
            final = await got(stream.get_final_text())
        whole = (await got(client.messages.create(**HELLO, session="whole"))).content[0].text
        return [pieces, final, whole]

    twins.ours.answer = answer
    pieces, final, whole = twins.do(read)
    assert pieces == final == whole == text.rstrip()
    assert CANARY not in pieces


@pytest.mark.parametrize("text", [TEXT, "ends in a newline\n\n", "1 <<<", f"{SEPARATOR} is a word"])
def test_reply_without_a_trailer_is_unchanged(twins: Twins, text: str) -> None:
    async def read(client: Any) -> list[Any]:
        async with opened(client.messages.stream(**HELLO)) as stream:
            final = await got(stream.get_final_text())
        return [final, (await got(client.messages.create(**HELLO, session="whole"))).content[0].text]

    twins.ours.answer = lambda ask: Answer(text, pieces=tuple(text))
    assert twins.do(read) == [text, text]
    assert twins.said()[-1] == twins.said("whole")[-1] == ("assistant", text)


async def thinking_bytes(client: Any) -> list[Any]:
    async with opened(client.messages.with_streaming_response.create(**HELLO, stream=True)) as response:
        return [b"".join(await all_of(response.iter_bytes()))]


def test_thinking_and_its_signature_stream_byte_for_byte(twins: Twins) -> None:
    twins.answer(Told(TEXT, reasoning="Höflich sein — und kurz."))
    (ours,), (theirs,) = twins.do_both(thinking_bytes)
    frames = [
        [frame for frame in sent.split(b"\n\n") if b"thinking" in frame or b"signature" in frame]
        for sent in (ours, theirs)
    ]
    assert frames[0] == frames[1]
    assert b"signature_delta" in b"".join(frames[0])


def test_thinking_and_its_signature_are_returned_byte_for_byte(twins: Twins) -> None:
    twins.answer(Told(TEXT, reasoning="Höflich sein — und kurz."))

    async def content(client: Any) -> list[Any]:
        return [(await got(client.messages.with_raw_response.create(**HELLO))).http_response.content]

    (ours,), (theirs,) = twins.do_both(content)
    block = re.search(rb'\{"type":"thinking".*?\}', theirs)
    assert block is not None
    assert b"signature" in block[0]
    assert block[0] in ours


def test_thinking_stays_out_of_the_log(twins: Twins) -> None:
    twins.answer(Told(TEXT, reasoning="Nobody should read this."))
    twins.do(on_messages(create_stream, beta=False))
    assert twins.said()[-1] == ("assistant", TEXT)


# --- where a caller stops early ---------------------------------------------------------------------------


async def helper_closed_early(client: Any) -> list[Any]:
    async with opened(client.messages.stream(**HELLO)) as stream:
        async for event in each(stream):
            if event.type == "text":
                await got(stream.close())
                return [event]
    raise AssertionError("no text came")


async def stream_closed_early(client: Any) -> list[Any]:
    stream = await got(client.messages.create(**HELLO, stream=True))
    async for event in each(stream):
        if event.type == "content_block_delta":
            await got(stream.close())
            return [event]
    raise AssertionError("no text came")


async def response_left_early(client: Any) -> list[Any]:
    async with opened(client.messages.with_streaming_response.create(**HELLO, stream=True)) as response:
        async for line in each(response.iter_lines()):
            if "text_delta" in line:
                return [line]
    raise AssertionError("no text came")


@pytest.mark.parametrize("use", [helper_closed_early, stream_closed_early, response_left_early], ids=name_of)
def test_stream_closed_early_keeps_the_text_read_so_far(twins: Twins, use: Use) -> None:
    ours, theirs = twins.do_both(use)
    assert view(ours) == view(theirs)
    (answer,) = [message for message in messages(twins.home, "s") if message["role"] == "assistant"]
    assert answer["content"]
    assert TEXT.startswith(answer["content"])
    assert answer["ctx"]["status"] == "aborted"
    assert twins.done() == ["cancelled"]


def test_closing_a_finished_stream_changes_nothing(twins: Twins) -> None:
    async def read_and_close(client: Any) -> list[Any]:
        stream = await got(client.messages.create(**HELLO, stream=True))
        shown = await all_of(stream)
        await got(stream.close())
        return [shown, ctxwrap.turn_of(stream)]

    assert twins.do(read_and_close)[1].report.status == "complete"
    assert twins.done() == ["ok"]


# --- clients made of the client ---------------------------------------------------------------------------


def with_options(client: Any) -> Any:
    return client.with_options(timeout=20)


def copied(client: Any) -> Any:
    return client.copy(max_retries=1)


def copied_twice(client: Any) -> Any:
    return client.copy().with_options(default_headers={"x-own": "1"})


def copied_with_another_http_client(client: Any) -> Any:
    name = "DefaultAsyncHttpxClient" if isinstance(client, anthropic.AsyncAnthropic) else "DefaultHttpxClient"
    return client.copy(http_client=getattr(anthropic, name)(verify=False))


def with_middleware(client: Any) -> Any:
    def passing_on(request: Any, call_next: Any) -> Any:
        return call_next(request)

    async def passing_on_async(request: Any, call_next: Any) -> Any:
        return await call_next(request)

    is_async = isinstance(client, anthropic.AsyncAnthropic)
    return need(client, "with_middleware")(passing_on_async if is_async else passing_on)


DERIVED = (with_options, copied, copied_twice, copied_with_another_http_client, with_middleware)


@pytest.mark.parametrize("derive", DERIVED, ids=name_of)
@pytest.mark.parametrize("use", [create, helper_events], ids=name_of)
def test_client_copied_from_a_wrapped_one_is_wrapped(twins: Twins, derive: Callable[[Any], Any], use: Use) -> None:
    async def using_derived(client: Any) -> list[Any]:
        made = derive(client)
        try:
            return [isinstance(made, twins.client_type), *await use(made.messages)]
        finally:
            await got(made.close())

    assert_same_but_asked_for_more(twins, using_derived)
    assert twins.said() == [("user", "Hi there"), ("assistant", TEXT)]


def test_copied_client_accepts_ctxwrap_keywords(twins: Twins) -> None:
    async def in_another_session(client: Any) -> list[Any]:
        return [await got(client.with_options(timeout=20).messages.create(**HELLO, session="other"))]

    twins.do(in_another_session)
    assert (len(twins.said("other")), twins.said()) == (2, [])


def test_middleware_sees_the_reply_without_its_trailer(twins: Twins) -> None:
    replies: list[Any] = []

    def watching(request: Any, call_next: Any) -> Any:
        response = call_next(request)
        replies.append(response.parse())
        return response

    async def watching_async(request: Any, call_next: Any) -> Any:
        response = await call_next(request)
        replies.append(await got(response.parse()))
        return response

    watched = need(twins.wrapped, "with_middleware")(watching_async if twins.is_async else watching)
    twins.do(on_messages(create, beta=False), watched)
    assert [reply.content[0].text for reply in replies] == [TEXT]


# --- what is sent -----------------------------------------------------------------------------------------


def sent(twins: Twins, **asked: Any) -> Any:
    """The body that left for the provider after a wrapped call."""

    async def ask(client: Any) -> list[Any]:
        return [await got(client.messages.create(**{**HELLO, **asked}))]

    twins.do(ask)
    return twins.ours.seen[-1].json


def text_of(content: Any) -> str:
    """A system prompt or a message as the model reads it."""
    return content if isinstance(content, str) else "\n\n".join(block["text"] for block in content)


def test_protocol_is_in_the_system_prompt_and_state_in_the_newest_message(twins: Twins) -> None:
    body = sent(twins)
    assert text_of(body["system"]) == DELTA_TEXT
    assert text_of(body["messages"][0]["content"]).startswith("Hi there\n\n<ctxwrap-context>\n")


def test_cache_control_marks_the_stable_prefix_of_a_request(twins: Twins) -> None:
    body = sent(twins)
    assert [block.get("cache_control") for block in body["system"]] == [{"type": "ephemeral"}]
    assert [block.get("cache_control") for block in body["messages"][0]["content"]] == [{"type": "ephemeral"}, None]


def test_system_prompt_follows_the_protocol(twins: Twins) -> None:
    assert text_of(sent(twins, system="Be kind.")["system"]) == f"{DELTA_TEXT}\n\nBe kind."
    assert twins.said()[0] == ("system", "Be kind.")


def test_system_blocks_and_their_cache_marks_are_unchanged(twins: Twins) -> None:
    blocks = [
        {"type": "text", "text": "Be kind.", "cache_control": {"type": "ephemeral"}},
        {"type": "text", "text": "Be short."},
    ]
    body = sent(twins, system=blocks)
    ours = {**blocks[1], "cache_control": {"type": "ephemeral"}}
    assert body["system"] == [{"type": "text", "text": DELTA_TEXT}, blocks[0], ours]


@pytest.mark.parametrize("kind", [tuple, iter], ids=["tuple", "iterator"])
def test_system_blocks_may_be_any_iterable(twins: Twins, kind: Callable[[list[Any]], Any]) -> None:
    body = sent(twins, system=kind([{"type": "text", "text": "Be kind."}]))
    assert [block["text"] for block in body["system"][1:]] == ["Be kind."]
    assert twins.said()[0] == ("system", "Be kind.")


@pytest.mark.parametrize("absent", ["NOT_GIVEN", "omit"])
def test_arguments_with_a_not_given_value_are_not_sent(twins: Twins, absent: str) -> None:
    body = sent(twins, system=getattr(anthropic, absent), tools=getattr(anthropic, absent))
    assert text_of(body["system"]) == DELTA_TEXT
    assert "tools" not in body


def test_content_blocks_of_the_newest_message_keep_position_and_cache_mark(twins: Twins) -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}
    text = {"type": "text", "text": "What is this?", "cache_control": {"type": "ephemeral"}}
    body = sent(twins, messages=[{"role": "user", "content": [image, text]}])
    assert body["messages"][0]["content"][:2] == [image, text]
    assert len(body["messages"][0]["content"]) == 3


def test_other_arguments_are_sent_unchanged(twins: Twins) -> None:
    own = {
        "thinking": {"type": "enabled", "budget_tokens": 1024},
        "tools": TOOLS,
        "tool_choice": {"type": "auto"},
        "metadata": {"user_id": "u"},
        "stop_sequences": ["END"],
    }
    body = sent(twins, **own, extra_body={"future": {"field": 1}})
    assert {name: body[name] for name in own} == own
    assert body["future"] == {"field": 1}
    assert (body["model"], body["max_tokens"]) == ("practice", 64 + ctxwrap.Settings().snapshot_reserve)


def weather_conversation(content: Any) -> list[dict[str, Any]]:
    """A conversation whose newest message is a tool's result; `content` is what the assistant had said."""
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "sunny"}
    return [
        {"role": "user", "content": "Weather in Paris?"},
        {"role": "assistant", "content": content},
        {"role": "user", "content": [result]},
    ]


async def tool_loop_by_hand(client: Any) -> list[Any]:
    """As the documentation shows it: the reply's content goes back as it came."""
    first = await got(
        client.messages.create(
            model="practice", max_tokens=64, tools=TOOLS, messages=[{"role": "user", "content": "Weather in Paris?"}]
        )
    )
    again = weather_conversation(first.content)
    second = await got(client.messages.create(model="practice", max_tokens=64, tools=TOOLS, messages=again))
    return [first, second]


def weather_model(ask: Ask) -> Answer:
    """Calls a tool, then answers with what it said."""
    if any(role == "tool" for role, _ in ask.messages):
        return Told("It is sunny.")(ask)
    return Told("Let me see.", tool_calls=(WEATHER,))(ask)


def assert_one_round_with_a_tool(twins: Twins, session: str = "s") -> None:
    assert [role for role, _ in twins.said(session)] == ["user", "assistant", "tool", "assistant"]
    assert twins.said(session)[2:] == [("tool", "sunny"), ("assistant", "It is sunny.")]
    assert twins.rounds(session) == [1, 1]
    shown = [state_shown(asked(seen)) for seen in twins.ours.seen]
    assert [state["runtime"]["round"] for state in shown] == [1, 1]


async def streamed_tool_loop_by_hand(client: Any) -> list[Any]:
    """The same with streams, and with the reply's content as JSON."""
    question = {**HELLO, "tools": TOOLS, "messages": [{"role": "user", "content": "Weather in Paris?"}]}
    async with opened(client.messages.stream(**question)) as stream:
        first = await got(stream.get_final_message())
    content = [block.model_dump(exclude_none=True) for block in first.content]
    async with opened(client.messages.stream(**{**question, "messages": weather_conversation(content)})) as stream:
        return [first, await got(stream.get_final_message())]


@pytest.mark.parametrize("use", [tool_loop_by_hand, streamed_tool_loop_by_hand], ids=name_of)
def test_a_tool_loop_by_hand_stays_in_its_round_and_carries_context_in_both_calls(twins: Twins, use: Use) -> None:
    twins.answer(weather_model)
    ours, theirs = twins.do_both(use)
    assert view(ours) == view(theirs)
    assert_clean(*ours)
    assert_one_round_with_a_tool(twins)


def test_a_tool_result_in_a_user_message_stays_where_it_is(twins: Twins) -> None:
    use = {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {"city": "Paris"}}
    given = weather_conversation([{"type": "text", "text": "Let me see."}, use])
    body = sent(twins, messages=given, tools=TOOLS)
    assert body["messages"][1:] == given[1:]
    assert [(role, text) for role, text in twins.said()] == [
        ("user", "Weather in Paris?"),
        ("assistant", "Let me see."),
        ("tool", "sunny"),
        ("assistant", TEXT),
    ]


async def create_with(resource: Any, **asked: Any) -> Any:
    return await got(resource.create(**{**HELLO, **asked}))


async def parse_with(resource: Any, **asked: Any) -> Any:
    return await got(need(resource, "parse")(**{**HELLO, **asked}))


async def stream_with(resource: Any, **asked: Any) -> Any:
    async with opened(resource.stream(**{**HELLO, **asked})) as stream:
        await got(stream.until_done())
        return stream


CALLS = (create_with, parse_with, stream_with)


@pytest.mark.parametrize("call", CALLS, ids=name_of)
@pytest.mark.parametrize("beta", [False, True], ids=["messages", "beta"])
def test_messages_accept_content_objects_of_earlier_replies(
    twins: Twins, call: Callable[..., Awaitable[Any]], beta: bool
) -> None:
    twins.answer(weather_model)

    async def ask(client: Any) -> list[Any]:
        resource = client.beta.messages if beta else client.messages
        first = await got(resource.create(**{**HELLO, "messages": weather_conversation("")[:1]}, tools=TOOLS))
        return [await call(resource, messages=weather_conversation(first.content), tools=TOOLS)]

    (result,) = twins.do(ask)
    assert_one_round_with_a_tool(twins)
    assert ctxwrap.turn_of(result).mode == "enabled"


@pytest.mark.parametrize("call", CALLS, ids=name_of)
@pytest.mark.parametrize("kind", [tuple, iter], ids=["tuple", "iterator"])
def test_messages_may_be_any_iterable(
    twins: Twins, call: Callable[..., Awaitable[Any]], kind: Callable[[list[Any]], Any]
) -> None:
    async def ask(client: Any) -> list[Any]:
        given = [
            {"role": "user", "content": "One"},
            {"role": "assistant", "content": "Two"},
            {"role": "user", "content": "Three"},
        ]
        return [await call(client.messages, messages=kind(given))]

    twins.do(ask)
    body = twins.ours.seen[-1].json
    assert [message["role"] for message in body["messages"]] == ["user", "assistant", "user"]
    assert text_of(body["messages"][2]["content"]).startswith("Three\n\n<ctxwrap-context>")
    assert [text for _, text in twins.said()] == ["One", "Two", "Three", TEXT]


def test_history_from_the_log_is_added_to_a_request_with_only_new_messages(twins: Twins) -> None:
    sent(twins)
    body = sent(twins, messages=[{"role": "user", "content": "And now?"}])
    assert [message["role"] for message in body["messages"]] == ["user", "assistant", "user"]
    assert text_of(body["messages"][1]["content"]) == TEXT
    assert twins.rounds() == [1, 2]


def test_memory_of_one_call_is_in_the_next_request(twins: Twins) -> None:
    sent(twins)
    sent(twins, messages=[{"role": "user", "content": "And now?"}])
    state = state_shown(asked(twins.ours.seen[-1]))
    assert [item["content"] for item in state["memory"]["working"]] == [REMEMBERED]


# --- replies that carry no trailer, or one that does not count --------------------------------------------


FORMAT = {"format": {"type": "json_schema", "schema": SCHEMA}}
FORCED = {"tools": TOOLS, "tool_choice": {"type": "tool", "name": "weather"}}
NO_ROOM: dict[str, tuple[Callable[..., Awaitable[Any]], dict[str, Any]]] = {
    "create output_config": (create_with, {"output_config": FORMAT}),
    "create stream output_config": (create_with, {"output_config": FORMAT, "stream": True}),
    "create output_config in extra_body": (create_with, {"extra_body": {"output_config": FORMAT}}),
    "create output_format in extra_body": (create_with, {"extra_body": {"output_format": FORMAT["format"]}}),
    "parse output_format": (parse_with, {"output_format": Person}),
    "parse output_config": (parse_with, {"output_config": FORMAT}),
    "stream output_format": (stream_with, {"output_format": Person}),
    "create tool_choice tool": (create_with, FORCED),
    "create tool_choice any": (create_with, {**FORCED, "tool_choice": {"type": "any"}}),
}


@pytest.mark.parametrize("how", NO_ROOM)
def test_call_that_cannot_carry_a_trailer_runs_in_readonly_mode(twins: Twins, how: str) -> None:
    twins.answer(Told('{"name": "Ada"}'))
    call, asked = NO_ROOM[how]

    async def ask(client: Any) -> list[Any]:
        result = await call(client.messages, **asked)
        return [result, await all_of(result) if asked.get("stream") else None]

    result, _ = twins.do(ask)
    turn = ctxwrap.turn_of(result)
    assert (turn.mode, turn.report.mode_asked) == ("readonly", "enabled")
    assert "leaves no room for a trailer" in turn.report.reason
    body = twins.ours.seen[-1].json
    assert text_of(body["system"]) == READING_TEXT
    assert "<ctxwrap-context>" in text_of(body["messages"][0]["content"])
    assert body["max_tokens"] == 64


@pytest.mark.parametrize("call", [parse_with, stream_with], ids=name_of)
@pytest.mark.parametrize("beta", [False, True], ids=["messages", "beta"])
def test_structured_output_is_parsed_as_with_the_bare_client(
    twins: Twins, call: Callable[..., Awaitable[Any]], beta: bool
) -> None:
    twins.answer(Told('{"name": "Ada"}'))

    async def parsed(client: Any) -> list[Any]:
        result = await call(client.beta.messages if beta else client.messages, output_format=Person)
        message = await got(result.get_final_message()) if call is stream_with else result
        return [message, message.parsed_output]

    ours, theirs = twins.do_both(parsed)
    assert view(ours) == view(theirs)
    assert ours[1] == Person(name="Ada")


@pytest.mark.parametrize("use", [create, create_stream], ids=name_of)
@pytest.mark.parametrize(
    ("finish", "more"),
    [("length", {}), ("refusal", {"refusal": "No."}), ("tool_calls", {"tool_calls": (WEATHER,)})],
    ids=["max_tokens", "refusal", "tool_use"],
)
def test_trailer_applies_only_after_a_natural_finish(twins: Twins, use: Use, finish: str, more: dict[str, Any]) -> None:
    twins.ours.answer = lambda ask: Answer(TEXT + trailer(ask), finish=finish, **more)
    assert_clean(*twins.do(on_messages(use, beta=False)))
    assert twins.said()[1] == ("assistant", TEXT)
    assert twins.done() == ["ok"]

    twins.ours.answer = Told()
    sent(twins, messages=[{"role": "user", "content": "And now?"}])
    assert CANARY not in twins.ours.seen[-1].body.decode()


def test_a_trailer_cut_by_the_length_limit_stays_hidden(twins: Twins) -> None:
    twins.ours.answer = lambda ask: Answer((TEXT + trailer(ask))[:-40], finish="length")
    assert_clean(*twins.do(on_messages(helper_events, beta=False)))
    assert twins.said()[1] == ("assistant", TEXT)


# --- calls that are none of ours --------------------------------------------------------------------------


async def count_tokens(client: Any) -> list[Any]:
    return [await got(client.messages.count_tokens(model="practice", messages=HELLO["messages"], system="Be kind."))]


async def beta_count_tokens(client: Any) -> list[Any]:
    return [await got(client.beta.messages.count_tokens(model="practice", messages=HELLO["messages"]))]


async def models_list(client: Any) -> list[Any]:
    return [await all_of(client.models.list())]


async def models_retrieve(client: Any) -> list[Any]:
    return [await got(client.models.retrieve("practice"))]


@pytest.mark.parametrize("use", [count_tokens, beta_count_tokens, models_list, models_retrieve], ids=name_of)
def test_other_api_calls_pass_through_unchanged(twins: Twins, use: Use) -> None:
    ours, theirs = twins.do_both(use)
    assert view(ours) == view(theirs)
    assert_same_request(twins)
    assert events(twins.home, "s") == []


def test_batch_passes_through_unchanged(twins: Twins) -> None:
    async def batch(client: Any) -> list[Any]:
        return [await got(client.messages.batches.create(requests=[{"custom_id": "1", "params": HELLO}]))]

    ours, theirs = twins.fail_both(batch)
    assert error_view(ours) == error_view(theirs)
    assert_same_request(twins)


def assert_same_request(twins: Twins) -> None:
    """Our provider got what the bare client's got: path, headers and bytes."""
    ours, theirs = request_view(twins.ours.seen[-1]), request_view(twins.theirs.seen[-1])
    assert ours == theirs


def request_view(seen: RecordedRequest) -> Any:
    headers = {name: value for name, value in seen.headers.items() if name not in NOT_THE_SAME}
    return seen.method, seen.path, list(headers.items()), seen.body


# --- tool_runner and threads ------------------------------------------------------------------------------


def weather_tool(is_async: bool) -> Any:
    if is_async:

        async def weather(city: str) -> str:
            """The weather in a city."""
            return "sunny"

        return anthropic.beta_async_tool(weather)

    def weather_now(city: str) -> str:
        """The weather in a city."""
        return "sunny"

    return anthropic.beta_tool(weather_now, name="weather")


def run_tools(twins: Twins, *, stream: bool = False, threaded: bool = False, **named: Any) -> Use:
    """A whole tool loop; `threaded` lets the provider hold the conversation, where the SDK knows that."""

    async def run(client: Any) -> list[Any]:
        tool_runner = need(client.beta.messages, "tool_runner")
        knows_threads = "thread" in inspect.signature(tool_runner).parameters
        if threaded and not knows_threads:
            pytest.skip(f"anthropic {anthropic.__version__} has no message threads")
        ours = {} if client is twins.bare else named
        runner = tool_runner(
            model="practice",
            max_tokens=64,
            messages=[{"role": "user", "content": "Weather in Paris?"}],
            tools=[weather_tool(twins.is_async)],
            **({"stream": True} if stream else {}),
            **({"thread": False} if knows_threads and not threaded else {}),
            **ours,
        )
        shown: list[Any] = [type(runner)]
        async for item in each(runner):
            shown += [await all_of(item), await got(item.get_final_message())] if stream else [item]
        return shown

    return run


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_a_tool_runner_stays_in_its_round_and_carries_context_in_both_calls(twins: Twins, stream: bool) -> None:
    twins.answer(weather_model)
    ours, theirs = twins.do_both(run_tools(twins, stream=stream))
    assert view(ours) == view(theirs)
    assert_clean(*ours)
    assert len(twins.ours.seen) == 2
    assert_one_round_with_a_tool(twins)
    assert twins.done() == ["ok", "ok"]


def test_tool_runner_until_done_returns_the_last_message(twins: Twins) -> None:
    twins.answer(weather_model)

    async def until_done(client: Any) -> list[Any]:
        runner = need(client.beta.messages, "tool_runner")(**HELLO, tools=[weather_tool(twins.is_async)])
        return [await got(runner.until_done())]

    ours, theirs = twins.do_both(until_done)
    assert view(ours) == view(theirs)
    assert_clean(*ours)


@pytest.mark.parametrize("named_by", ["keyword", "using"])
def test_a_tool_runner_keeps_the_session_it_was_given_in_every_call(twins: Twins, named_by: str) -> None:
    twins.answer(weather_model)
    if named_by == "keyword":
        twins.do(run_tools(twins, session="other"))
    else:
        with ctxwrap.using(session="other"):
            twins.do(run_tools(twins))
    assert_one_round_with_a_tool(twins, "other")
    assert twins.said() == []


class Threads:
    """Holds conversations for callers, and like the API refuses what a thread was created with a second time."""

    def __init__(self) -> None:
        self.created: Ask | None = None

    def __call__(self, ask: Ask) -> Answer | Failure:
        if ask.body["thread"]["type"] == "create":
            self.created = ask
            return weather_model(ask)
        repeated = {"system", "tools"} & ask.body.keys()
        if repeated:
            return Failure(400, f"the thread has its {' and '.join(sorted(repeated))} already")
        assert self.created is not None
        asked = asks_for_trailer(self.created.system)
        return Answer("It is sunny." + (trailer(self.created) if asked else ""))


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_thread_held_by_the_provider_is_not_sent_again(twins: Twins, stream: bool) -> None:
    twins.ours.answer, twins.theirs.answer = Threads(), Threads()
    ours, theirs = twins.do_both(run_tools(twins, stream=stream, threaded=True))
    assert view(ours) == view(theirs)
    assert_clean(*ours)
    continued = twins.ours.seen[-1].json
    assert continued["thread"]["type"] == "continue"
    assert [message["role"] for message in continued["messages"]] == ["user"]
    assert [role for role, _ in twins.said()] == ["user", "assistant", "tool", "assistant"]
    assert twins.rounds() == [1, 1]


def test_each_turn_of_a_thread_is_recorded_and_equals_the_bare_clients(twins: Twins) -> None:
    async def talk(client: Any) -> list[Any]:
        thread = need(client.beta.messages, "thread")(model="practice", max_tokens=64)
        replies = [await got(thread.send({"role": "user", "content": text})) for text in ("One", "Two")]
        return [*replies, list(thread.messages)]

    ours, theirs = twins.do_both(talk)
    assert view(ours) == view(theirs)
    assert_clean(*ours)
    assert [text for _, text in twins.said()] == ["One", TEXT, "Two", TEXT]
    assert len(twins.ours.seen[-1].json["messages"]) == 1


# --- types ------------------------------------------------------------------------------------------------


METHODS = (
    *(f"messages.{name}" for name in ("create", "stream", "parse", "count_tokens")),
    *(f"beta.messages.{name}" for name in ("create", "stream", "parse", "count_tokens", "tool_runner", "thread")),
    *("copy", "with_options", "with_middleware", "post", "get", "close"),
)


def member(client: Any, path: str) -> Any:
    for name in path.split("."):
        client = need(client, name)
    return client


@pytest.mark.parametrize("path", METHODS)
def test_methods_keep_the_bare_clients_signature(twins: Twins, path: str) -> None:
    ours, theirs = member(twins.wrapped, path), member(twins.bare, path)
    assert inspect.signature(ours) == inspect.signature(theirs)
    assert (ours.__name__, ours.__doc__) == (theirs.__name__, theirs.__doc__)
    assert inspect.iscoroutinefunction(ours) == inspect.iscoroutinefunction(theirs)


def test_a_wrapped_client_is_one_of_its_own_type(twins: Twins) -> None:
    assert isinstance(twins.wrapped, twins.client_type)
    assert type(twins.wrapped).__name__ == twins.client_type.__name__
    assert inspect.signature(type(twins.wrapped)) == inspect.signature(twins.client_type)
    for path in ("messages", "beta", "beta.messages", "models", "messages.batches"):
        assert isinstance(member(twins.wrapped, path), type(member(twins.bare, path)))
        assert type(member(twins.wrapped, path)).__name__ == type(member(twins.bare, path)).__name__


def test_wrapping_a_wrapped_client_changes_nothing(twins: Twins) -> None:
    assert ctxwrap.wrap(twins.wrapped) is twins.wrapped


def test_rewrapping_changes_only_the_given_settings(twins: Twins) -> None:
    renamed = ctxwrap.wrap(twins.wrapped, session="renamed")
    twins.do(on_messages(create, beta=False), renamed)
    assert_clean(*twins.do(on_messages(create, beta=False), renamed))
    assert (len(twins.said("renamed")), twins.said()) == (4, [])


def test_wrapping_does_not_change_the_original_client(twins: Twins) -> None:
    client = twins.client(twins.ours)
    before, http = dict(vars(client)), client._client
    wrapped = ctxwrap.wrap(client, store=twins.home, session="s")
    twins.do(on_messages(create, beta=False), wrapped)
    assert type(client) is twins.client_type
    assert dict(vars(client)) == before
    assert client._client is http

    twins.do(on_messages(create, beta=False), client)
    twins.do(on_messages(create, beta=False), twins.bare)
    assert_same_request(twins)
    assert len(twins.said()) == 2


def test_a_wrapped_client_closes_and_enters_as_the_bare_one(twins: Twins) -> None:
    async def inside(client: Any) -> list[Any]:
        async with opened(client) as entered:
            shown = [entered is client, *await create(entered.messages)]
        return [*shown, client.is_closed()]

    ours, theirs = twins.do_both(inside)
    assert view(ours) == view(theirs)
    assert ours[-1] is True


def test_the_objects_a_caller_passes_are_not_changed(twins: Twins) -> None:
    asked: dict[str, Any] = {
        **HELLO,
        "messages": weather_conversation([{"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {}}]),
        "system": [{"type": "text", "text": "Be kind.", "cache_control": {"type": "ephemeral"}}],
        "tools": TOOLS,
        "extra_headers": {"x-own": "1", "x-ctxwrap-session": "other"},
        "extra_body": {"future": {"field": 1}},
    }
    before = copy.deepcopy(asked)

    async def ask(client: Any) -> list[Any]:
        async with opened(client.messages.stream(**asked)) as stream:
            await got(stream.until_done())
        return [await got(client.messages.create(**asked)), await got(client.beta.messages.create(**asked))]

    twins.do(ask)
    assert asked == before
    assert len(twins.ours.seen) == 3


# --- the turn behind a result -----------------------------------------------------------------------------


async def turn_of_create(client: Any) -> Any:
    return ctxwrap.turn_of(await got(client.messages.create(**HELLO)))


async def turn_of_beta_create(client: Any) -> Any:
    return ctxwrap.turn_of(await got(client.beta.messages.create(**HELLO)))


async def turn_of_parse(client: Any) -> Any:
    return ctxwrap.turn_of(await parse_with(client.messages))


async def turn_of_stream(client: Any) -> Any:
    stream = await got(client.messages.create(**HELLO, stream=True))
    await all_of(stream)
    return ctxwrap.turn_of(stream)


async def turn_of_helper(client: Any) -> Any:
    return ctxwrap.turn_of(await stream_with(client.messages))


async def turn_of_beta_helper(client: Any) -> Any:
    return ctxwrap.turn_of(await stream_with(client.beta.messages))


async def turn_of_raw(client: Any) -> Any:
    return ctxwrap.turn_of(await got(client.messages.with_raw_response.create(**HELLO)))


async def turn_of_raw_stream(client: Any) -> Any:
    response = await got(client.messages.with_raw_response.create(**HELLO, stream=True))
    await all_of(await got(response.parse()))
    return ctxwrap.turn_of(response)


async def turn_of_streaming_response(client: Any) -> Any:
    async with opened(client.messages.with_streaming_response.create(**HELLO)) as response:
        await got(response.read())
        return ctxwrap.turn_of(response)


TURNS = (
    turn_of_create,
    turn_of_beta_create,
    turn_of_parse,
    turn_of_stream,
    turn_of_helper,
    turn_of_beta_helper,
    turn_of_raw,
    turn_of_raw_stream,
    turn_of_streaming_response,
)


@pytest.mark.parametrize("use", TURNS, ids=name_of)
def test_turn_of_returns_the_turn_of_every_result(twins: Twins, use: Callable[[Any], Coroutine[Any, Any, Any]]) -> None:
    turn = twins.run(use(twins.wrapped))
    assert (turn.session, turn.tenant, turn.agent) == ("s", "default", "default")
    assert (turn.mode, turn.round, turn.report.status, turn.report.reading) == ("enabled", 1, "complete", "clean")
    assert [(operation.kind, operation.id) for operation in turn.operations] == [("add", "w-1")]
    assert turn.snapshot["memory"]["working"][0]["content"] == REMEMBERED
    assert turn.id == events(twins.home, "s")[0]["run"]


@pytest.mark.parametrize("use", [turn_of_create, turn_of_helper, turn_of_raw], ids=name_of)
def test_turn_of_a_bare_result_is_none(twins: Twins, use: Callable[[Any], Coroutine[Any, Any, Any]]) -> None:
    assert twins.run(use(twins.bare)) is None


FOREIGN = (None, 3, "text", [], {}, object(), Told(), Person(name="Ada"))


@pytest.mark.parametrize("foreign", FOREIGN, ids=lambda value: type(value).__name__)
def test_turn_of_a_foreign_object_is_none(foreign: Any) -> None:
    assert ctxwrap.turn_of(foreign) is None


def test_turn_of_a_stream_is_open_until_the_stream_ends(twins: Twins) -> None:
    async def watch(client: Any) -> list[Any]:
        stream = await got(client.messages.create(**HELLO, stream=True))
        before = ctxwrap.turn_of(stream).report.status
        await all_of(stream)
        return [before, ctxwrap.turn_of(stream).report.status]

    assert twins.do(watch) == ["open", "complete"]


# --- naming the session and the mode ----------------------------------------------------------------------


@pytest.mark.parametrize("beta", [False, True], ids=["messages", "beta"])
@pytest.mark.parametrize("call", CALLS, ids=name_of)
def test_call_accepts_a_session(twins: Twins, call: Callable[..., Awaitable[Any]], beta: bool) -> None:
    async def ask(client: Any) -> list[Any]:
        resource = client.beta.messages if beta else client.messages
        return [await call(resource, session="other", extra_headers={"x-own": "1"})]

    (result,) = twins.do(ask)
    assert ctxwrap.turn_of(result).session == "other"
    assert (len(twins.said("other")), twins.said()) == (2, [])
    assert_nothing_private_left(twins)
    assert twins.ours.seen[-1].headers["x-own"] == "1"


@pytest.mark.parametrize("keyword", ["context_mode", "contextMode"])
@pytest.mark.parametrize("call", CALLS, ids=name_of)
def test_call_accepts_a_mode(twins: Twins, call: Callable[..., Awaitable[Any]], keyword: str) -> None:
    async def ask(client: Any) -> list[Any]:
        return [await call(client.messages, **{keyword: "readonly"})]

    (result,) = twins.do(ask)
    assert ctxwrap.turn_of(result).mode == "readonly"
    assert text_of(twins.ours.seen[-1].json["system"]) == READING_TEXT
    assert_nothing_private_left(twins)


async def raw_in_other(client: Any) -> Any:
    return await got(client.messages.with_raw_response.create(**HELLO, session="other"))


async def raw_client_in_other(client: Any) -> Any:
    return await got(client.with_raw_response.messages.create(**HELLO, session="other"))


async def streaming_response_in_other(client: Any) -> Any:
    async with opened(client.messages.with_streaming_response.create(**HELLO, session="other")) as response:
        await got(response.read())
        return response


async def named_by_header(client: Any) -> Any:
    return await create_with(client.messages, extra_headers={"X-Ctxwrap-Session": "other"})


async def named_by_default_header(client: Any) -> Any:
    return await create_with(client.with_options(default_headers={"x-ctxwrap-session": "other"}).messages)


async def named_by_using(client: Any) -> Any:
    with ctxwrap.using(session="other"):
        return await create_with(client.messages)


async def named_by_call_inside_using(client: Any) -> Any:
    with ctxwrap.using(session="outer"):
        return await create_with(client.messages, session="other")


NAMING = (
    raw_in_other,
    raw_client_in_other,
    streaming_response_in_other,
    named_by_header,
    named_by_default_header,
    named_by_using,
    named_by_call_inside_using,
)


@pytest.mark.parametrize("use", NAMING, ids=name_of)
def test_session_can_be_named_in_every_documented_way(
    twins: Twins, use: Callable[[Any], Coroutine[Any, Any, Any]]
) -> None:
    result = twins.run(use(twins.wrapped))
    assert ctxwrap.turn_of(result).session == "other"
    assert (len(twins.said("other")), twins.said()) == (2, [])
    assert_nothing_private_left(twins)


def assert_nothing_private_left(twins: Twins) -> None:
    """No request carries a word that is meant for us."""
    for seen in twins.ours.seen:
        assert [name for name in seen.headers if "ctxwrap" in name] == []
        assert not {"session", "context_mode", "contextMode"} & seen.json.keys()


def test_using_sets_tenant_and_agent(twins: Twins) -> None:
    with ctxwrap.using(tenant="acme", session="other"):
        twins.do(on_messages(helper_events, beta=False))
    assert [role for role, _ in said(twins.home, "other", tenant="acme")] == ["user", "assistant"]


@pytest.mark.parametrize("wrong", ["enable", "Enabled", "", True])
@pytest.mark.parametrize("keyword", ["context_mode", "contextMode"])
def test_misspelt_mode_raises_and_sends_nothing(twins: Twins, keyword: str, wrong: Any) -> None:
    async def ask(client: Any) -> list[Any]:
        return [await create_with(client.messages, **{keyword: wrong})]

    assert isinstance(twins.run(failure(ask(twins.wrapped))), ctxwrap.SettingsError)
    assert twins.ours.seen == []


async def mode_in_a_header(client: Any) -> list[Any]:
    return [await create_with(client.messages, extra_headers={"x-ctxwrap-mode": "enable"})]


async def mode_in_using(client: Any) -> list[Any]:
    with ctxwrap.using(context_mode="enable"):
        return [await create_with(client.messages)]


async def name_in_using(client: Any) -> list[Any]:
    with ctxwrap.using(sesion="s"):
        return [await create_with(client.messages)]


async def session_that_is_no_text(client: Any) -> list[Any]:
    return [await create_with(client.messages, session=3)]


async def setting_in_wrap(client: Any) -> list[Any]:
    return [ctxwrap.wrap(client, contextmode="disabled")]


async def mode_in_wrap(client: Any) -> list[Any]:
    return [ctxwrap.wrap(client, context_mode="enable")]


MISSPELT = (
    mode_in_a_header,
    mode_in_using,
    name_in_using,
    session_that_is_no_text,
    setting_in_wrap,
    mode_in_wrap,
)


@pytest.mark.parametrize("use", MISSPELT, ids=name_of)
def test_misspelt_setting_raises_and_sends_nothing(twins: Twins, use: Use) -> None:
    error = twins.run(failure(use(twins.wrapped)))
    assert isinstance(error, ctxwrap.SettingsError)
    assert twins.ours.seen == []


def test_misspelt_keyword_raises_the_bare_clients_error(twins: Twins) -> None:
    async def ask(client: Any) -> list[Any]:
        return [await create_with(client.messages, sesion="s")]

    ours, theirs = twins.fail_both(ask)
    assert (type(ours), str(ours)) == (type(theirs), str(theirs))


def test_call_without_a_session_warns_and_runs_unwrapped(twins: Twins) -> None:
    client = twins.wrap(session=None)
    with pytest.warns(ctxwrap.NoSessionWarning):
        (message, *_) = twins.do(on_messages(create, beta=False), client)
    twins.do(on_messages(create, beta=False), twins.bare)
    assert_same_request(twins)
    assert ctxwrap.turn_of(message).report.reason == "no session was named"


# --- disabled ---------------------------------------------------------------------------------------------


def disabled_in_wrap(twins: Twins, use: Use) -> list[Any]:
    return twins.do(use, twins.wrap(context_mode="disabled"))


def disabled_in_wrap_as_camel_case(twins: Twins, use: Use) -> list[Any]:
    return twins.do(use, twins.wrap(contextMode="disabled"))


def disabled_in_using(twins: Twins, use: Use) -> list[Any]:
    with ctxwrap.using(context_mode="disabled"):
        return twins.do(use)


def disabled_in_a_header(twins: Twins, use: Use) -> list[Any]:
    return twins.do(use, twins.wrap(client={"default_headers": {"x-ctxwrap-mode": "disabled"}}))


def shadow(twins: Twins, use: Use) -> list[Any]:
    """Builds everything and sends the caller's own request."""
    return twins.do(use, twins.wrap(context_mode="shadow"))


SWITCHES = (
    disabled_in_wrap,
    disabled_in_wrap_as_camel_case,
    disabled_in_using,
    disabled_in_a_header,
    shadow,
)


def every_switch_and_every_surface() -> Iterator[Any]:
    """Each way to switch off with one surface, each surface with one way to switch off."""
    for off in SWITCHES:
        yield pytest.param(off, MAIN_SURFACES[0], id=off.__name__)
    for use in (*MAIN_SURFACES[1:], on_messages(create, beta=True), on_messages(helper_events, beta=True), post):
        yield pytest.param(disabled_in_using, use, id=use.__name__)


@pytest.mark.parametrize(("off", "use"), [*every_switch_and_every_surface()])
def test_disabled_request_equals_the_bare_clients_byte_for_byte(
    twins: Twins, off: Callable[[Twins, Use], list[Any]], use: Use
) -> None:
    ours, theirs = off(twins, use), twins.do(use, twins.bare)
    assert_same_request(twins)
    assert ours == theirs
    assert twins.said() == [("user", "Hi there"), ("assistant", TEXT)]
    assert twins.done() == ["ok"]


async def whole_reply(client: Any) -> list[Any]:
    response = (await got(client.messages.with_raw_response.create(**HELLO))).http_response
    return [response.content, reply_headers(response), response.elapsed.total_seconds() > 0]


async def streamed_reply(client: Any) -> list[Any]:
    async with opened(client.messages.with_streaming_response.create(**HELLO, stream=True)) as response:
        inner = response.http_response
        is_async = isinstance(client, anthropic.AsyncAnthropic)
        pieces = await all_of(inner.aiter_raw() if is_async else inner.iter_raw())
        return [b"".join(pieces), reply_headers(inner)]


def reply_headers(response: Any) -> list[tuple[str, str]]:
    return [(name, value) for name, value in response.headers.multi_items() if name not in NOT_THE_SAME]


@pytest.mark.parametrize("mode", ["disabled", "shadow"])
@pytest.mark.parametrize("gzip", [False, True], ids=["plain", "gzip"])
@pytest.mark.parametrize("use", [whole_reply, streamed_reply], ids=name_of)
def test_disabled_and_shadow_replies_equal_the_bare_clients_byte_for_byte(
    twins: Twins, use: Use, gzip: bool, mode: str
) -> None:
    twins.answer(Answer(f"{TEXT}\n\n{SEPARATOR}\n{{}}", gzip=gzip))
    with ctxwrap.using(context_mode=mode):
        ours, theirs = twins.do_both(use)
    assert ours == theirs
    assert twins.said()[-1][1].startswith(TEXT)
    assert twins.done() == ["ok"]


def test_disabled_call_advances_the_round_and_keeps_memory(twins: Twins) -> None:
    sent(twins, messages=[{"role": "user", "content": "One"}])
    sent(twins, messages=[{"role": "user", "content": "Two"}], context_mode="disabled")
    sent(twins, messages=[{"role": "user", "content": "Three"}])
    assert twins.rounds() == [1, 2, 3]
    state = state_shown(asked(twins.ours.seen[-1]))
    assert (state["runtime"]["round"], len(state["memory"]["working"])) == (3, 1)
    assert [text for _, text in twins.said()] == ["One", TEXT, "Two", TEXT, "Three", TEXT]


def test_disabled_call_without_recording_writes_nothing(twins: Twins) -> None:
    client = twins.wrap(context_mode="disabled", record=False)
    twins.do(on_messages(create, beta=False), client)
    assert events(twins.home, "s") == []


# --- retries and errors -----------------------------------------------------------------------------------


SOON = {"retry-after-ms": "1"}


@pytest.mark.parametrize("use", [create, create_stream, helper_events, raw], ids=name_of)
def test_retried_call_is_one_turn(twins: Twins, use: Use) -> None:
    twins.answer(Failure(429, headers=SOON), Failure(529, headers=SOON), Told(TEXT))

    async def patiently(client: Any) -> list[Any]:
        return await use(client.with_options(max_retries=2).messages)

    ours, theirs = twins.do_both(patiently)
    assert view(ours) == view(theirs)
    assert_clean(*ours)
    assert [seen.headers["x-stainless-retry-count"] for seen in twins.ours.seen] == ["0", "1", "2"]
    assert len({seen.body for seen in twins.ours.seen}) == 1
    assert twins.said() == [("user", "Hi there"), ("assistant", TEXT)]
    assert (twins.rounds(), twins.done()) == ([1], ["ok"])


def error_view(error: Exception) -> Any:
    """An SDK's exception for comparing: its class, what it says, what it carries."""
    response = getattr(error, "response", None)
    carried = {name: getattr(error, name, None) for name in ("status_code", "message", "body", "request_id", "type")}
    whole = None if response is None else (response.status_code, response.content, reply_headers(response))
    cause = type(error.__cause__)
    return type(error), str(error), carried, whole, cause


@pytest.mark.parametrize("use", [create, create_stream], ids=name_of)
@pytest.mark.parametrize("status", [400, 401, 403, 404, 429, 500, 529])
def test_provider_error_equals_the_bare_clients_error(twins: Twins, status: int, use: Use) -> None:
    twins.answer(Failure(status, "It did not work."))
    ours, theirs = twins.fail_both(on_messages(use, beta=False))
    assert error_view(ours) == error_view(theirs)
    assert isinstance(ours, anthropic.APIStatusError)
    assert_recorded_as_failed(twins)


def assert_recorded_as_failed(twins: Twins) -> None:
    assert twins.said() == [("user", "Hi there")]
    assert twins.done() == ["error"]


@pytest.mark.parametrize("use", [create, create_stream], ids=name_of)
def test_timeout_equals_the_bare_clients_error(twins: Twins, use: Use) -> None:
    gate = threading.Event()
    twins.answer(Failure(500, hang=lambda: gate.wait() and None))

    async def hurried(client: Any) -> list[Any]:
        return await use(client.with_options(timeout=http_module().Timeout(5, read=0.05)).messages)

    try:
        ours, theirs = twins.fail_both(hurried)
    finally:
        gate.set()
    assert error_view(ours) == error_view(theirs)
    assert isinstance(ours, anthropic.APITimeoutError)
    assert_recorded_as_failed(twins)


@pytest.mark.parametrize("use", [create, create_stream], ids=name_of)
def test_unreachable_provider_raises_the_bare_clients_error(twins: Twins, use: Use) -> None:
    twins.ours.close()
    twins.theirs.close()
    ours, theirs = twins.fail_both(on_messages(use, beta=False))
    assert error_view(ours) == error_view(theirs)
    assert isinstance(ours, anthropic.APIConnectionError)
    assert_recorded_as_failed(twins)


async def as_far_as_it_comes(stream: Any, shown: list[Any]) -> None:
    """Adds what a stream gives to `shown`, also what it gave before it broke."""
    async for piece in each(stream):
        shown += [piece]


async def until_broken(client: Any) -> list[Any]:
    """The events that came before a stream broke, and how it broke."""
    shown: list[Any] = []
    error = await failure(as_far_as_it_comes(await got(client.messages.create(**HELLO, stream=True)), shown))
    return [*shown, type(error), str(error)]


async def until_helper_broken(client: Any) -> list[Any]:
    shown: list[Any] = []
    async with opened(client.messages.stream(**HELLO)) as stream:
        error = await failure(as_far_as_it_comes(stream.text_stream, shown))
    return [*shown, type(error), str(error)]


@pytest.mark.parametrize("use", [until_broken, until_helper_broken], ids=name_of)
@pytest.mark.parametrize("how", ["error_after", "cut_after"])
def test_broken_stream_equals_the_bare_clients(twins: Twins, use: Use, how: str) -> None:
    twins.answer(Told(TEXT, **{how: 2}))
    ours, theirs = twins.do_both(use)
    assert view(ours) == view(theirs)
    assert twins.said() == [("user", "Hi there"), ("assistant", "Grüße, Welt.")]
    assert messages(twins.home, "s")[-1]["ctx"]["status"] == "aborted"
    assert twins.done() == ["error"]


def test_failed_call_repeated_by_the_caller_stays_in_its_round(twins: Twins) -> None:
    twins.answer(Failure(400), Told(TEXT))
    twins.run(failure(on_messages(create, beta=False)(twins.wrapped)))
    twins.do(on_messages(create, beta=False))
    assert twins.rounds() == [1, 1]
    assert twins.said() == [("user", "Hi there"), ("assistant", TEXT)]


# --- other clients of the SDK -----------------------------------------------------------------------------


class Clouds:
    """Clients of Anthropic's API as clouds offer it: what they send is kept, then goes to our provider's own path."""

    CLIENTS: ClassVar[dict[str, dict[str, Any]]] = {
        "AnthropicBedrock": {"api_key": "k", "aws_region": "us-east-1"},
        "AnthropicVertex": {"access_token": "t", "project_id": "p", "region": "us-east5"},
        "AnthropicFoundry": {"api_key": "k"},
    }

    def __init__(self, twins: Twins) -> None:
        self._twins = twins
        self.requests: list[tuple[str, bytes]] = []

    def client(self, name: str, **http_options: Any) -> Any:
        hook = self._redirect_async if self._twins.is_async else self._redirect
        made = getattr(anthropic, f"Async{name}" if self._twins.is_async else name)(
            http_client=self._twins.http_client(**http_options or {"event_hooks": {"request": [hook]}}),
            base_url=self._twins.ours.anthropic_url,
            max_retries=0,
            **self.CLIENTS[name],
        )
        return self._twins.closing(made)

    def _redirect(self, request: Any) -> None:
        self.requests.append((request.url.path, request.content))
        request.url = request.url.copy_with(path="/v1/messages", query=None)

    async def _redirect_async(self, request: Any) -> None:
        self._redirect(request)


@pytest.mark.parametrize("name", Clouds.CLIENTS)
@pytest.mark.parametrize("named_by", ["wrap", "keyword"])
def test_cloud_clients_carry_context(twins: Twins, name: str, named_by: str) -> None:
    clouds = Clouds(twins)
    client = need_copyable(clouds.client(name))
    wrapped = ctxwrap.wrap(client, store=twins.home, session="s" if named_by == "wrap" else "unused")

    async def ask(client: Any) -> list[Any]:
        named = {"session": "s"} if named_by == "keyword" else {}
        return [await got(client.messages.create(**HELLO, **named))]

    (message,) = twins.do(ask, wrapped)
    assert message.content[0].text == TEXT
    assert text_of(json.loads(clouds.requests[-1][1])["system"]) == DELTA_TEXT
    assert twins.said() == [("user", "Hi there"), ("assistant", TEXT)]


def need_copyable(client: Any) -> Any:
    """Some versions of some clients cannot be copied at all."""
    try:
        client.copy()
    except TypeError as error:
        pytest.skip(f"anthropic {anthropic.__version__} cannot copy a {type(client).__name__}: {error}")
    return client


@pytest.mark.parametrize("use", [create_stream, helper_events], ids=name_of)
def test_vertex_stream_carries_context(twins: Twins, use: Use) -> None:
    wrapped = ctxwrap.wrap(Clouds(twins).client("AnthropicVertex"), store=twins.home, session="s")
    assert_clean(*twins.do(on_messages(use, beta=False), wrapped))
    assert twins.said() == [("user", "Hi there"), ("assistant", TEXT)]


def as_aws_messages(sse: bytes) -> Iterator[bytes]:
    """Server-sent events in the messages of an AWS event stream."""
    for line in sse.decode().splitlines():
        if line.startswith("data: "):
            yield aws_event("chunk", {"bytes": b64encode(line.removeprefix("data: ").encode()).decode(), "p": "abc"})


@pytest.mark.parametrize("is_cut", [False, True], ids=["whole", "cut"])
@pytest.mark.parametrize("use", [create_stream, helper_events], ids=name_of)
def test_bedrock_stream_carries_context(twins: Twins, use: Use, is_cut: bool) -> None:
    pytest.importorskip("botocore", reason="the SDK reads such streams with botocore")

    def serve(request: Any) -> Any:
        assert request.url.path.endswith("/invoke-with-response-stream")
        body = json.dumps({**json.loads(request.content), "model": "m", "stream": True}).encode()
        with urlopen(Request(f"{twins.ours.url}/v1/messages", body, {"content-type": "application/json"})) as reply:
            messages = list(as_aws_messages(reply.read()))
        if is_cut:
            messages[5:] = [aws_event("throttlingException", {"message": "Too many requests."}, is_error=True)]
        kind = {"content-type": "application/vnd.amazon.eventstream"}
        return http_module().Response(200, headers=kind, content=b"".join(messages))

    bare = Clouds(twins).client("AnthropicBedrock", transport=http_module().MockTransport(serve))
    wrapped = ctxwrap.wrap(bare, store=twins.home, session="s")
    if is_cut:
        for client in (bare, wrapped):
            with pytest.raises(Exception, match="Too many requests"):
                twins.do(on_messages(use, beta=False), client)
        (done,) = [event for event in events(twins.home, "s") if event["type"] == "done"]
        assert done["status"] == "error"
        return
    ours = twins.do(on_messages(use, beta=False), wrapped)
    assert_clean(*ours)
    seen = [*ours, *(each for part in ours if isinstance(part, list) for each in part)]
    deltas = [event.delta.text for event in seen if getattr(event, "type", "") == "content_block_delta"]
    assert "".join(deltas) == TEXT
    assert twins.said() == [("user", "Hi there"), ("assistant", TEXT)]


@pytest.mark.parametrize("use", [create, create_stream], ids=name_of)
def test_replies_of_a_mocked_transport_equal_the_bare_clients(twins: Twins, use: Use) -> None:
    """Tests often replace the transport: its responses have been read before anyone asked for them."""

    def serve(request: Any) -> Any:
        reply = urlopen(Request(f"{twins.ours.url}/v1/messages", request.content, {"content-type": "application/json"}))
        with reply:
            return http_module().Response(200, headers=dict(reply.headers), content=reply.read())

    mocked = twins.client(twins.ours, http_client=twins.http_client(transport=http_module().MockTransport(serve)))
    ours = twins.do(on_messages(use, beta=False), ctxwrap.wrap(mocked, store=twins.home, session="s"))
    assert_clean(*ours)
    assert twins.said() == [("user", "Hi there"), ("assistant", TEXT)]
