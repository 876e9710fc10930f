"""Ollama's own API, through the HTTP door and by `wrap`: every surface gives the bare client's result, with context."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

import ctxwrap
from ctxwrap.protocol.instructions import asks_for_trailer
from ctxwrap.providers.ollama import CHAT
from ctxwrap.providers.sse import LineFramer
from ctxwrap.tokens import counter_for
from tests.clients.door_desk import HELLO, TEXT, DoorDesk
from tests.clients.running import at_its_desk, each, got, on
from tests.providers.loopback import Failure, Received, Sent, Told, pieces
from tests.support import assert_clean, events, messages, said

ollama = pytest.importorskip("ollama", reason="the SDK ollama is not installed")

ASKED: dict[str, Any] = {"model": "qwen3", "messages": [{"role": "user", "content": "Say hello."}]}
CALL = ("weather", {"city": "Paris"})
PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}}
TOOL = {"type": "function", "function": {"name": "weather", "parameters": PARAMETERS}}


def speak(asked: Received, told: Told) -> Sent:
    """The format of `/api/chat`: one object, or a line for each piece of the reply."""
    head = {"model": asked.body["model"], "created_at": "2026-01-01T00:00:00Z"}
    said = told.text_for(asked)
    thoughts = {"thinking": told.thought} if told.thought else {}
    calls = {"tool_calls": [{"function": {"name": name, "arguments": args}} for name, args in told.calls]}
    end = {"done": True, "done_reason": "stop", "prompt_eval_count": 40, "eval_count": 9}
    if asked.body.get("stream") is False:
        message = {"role": "assistant", "content": said, **thoughts, **(calls if told.calls else {})}
        return Sent([json.dumps({**head, "message": message, **end}).encode()])
    parts: list[Any] = [*([thoughts] if thoughts else []), *({"content": piece} for piece in pieces(said))]
    parts += [calls] if told.calls else []
    lines = [{**head, "message": {"role": "assistant", "content": "", **part}, "done": False} for part in parts]
    lines.append({**head, "message": {"role": "assistant", "content": ""}, **end})
    return Sent([json.dumps(line).encode() + b"\n" for line in lines], "application/x-ndjson")


class OllamaDesk(DoorDesk):
    """Ollama's client takes a transport."""

    def make(self, url: str, http_client: Any) -> Any:
        cls = ollama.AsyncClient if self.is_async else ollama.Client
        return cls(host=url, transport=http_client._transport)

    def held(self, client: Any) -> Any:
        return client._client


@pytest.fixture(params=["sync", "async", "sync by wrap", "async by wrap"])
def desk(request: pytest.FixtureRequest, home: Path) -> Iterator[OllamaDesk]:
    with ExitStack() as stack:
        desk = OllamaDesk(request.param.startswith("async"), home, stack, speak)
        desk.wraps = request.param.endswith("wrap")
        yield desk


def joined(chunks: list[Any]) -> list[Any]:
    """A stream whose texts are put together: a chunk may have been cut where its trailer began."""
    shown = [chunk.model_dump(exclude_none=True) for chunk in chunks]
    rest = [{**each, "message": {**each["message"], "content": ""}} for each in shown]
    plain = {"role": "assistant", "content": ""}
    return ["".join(each["message"]["content"] for each in shown)] + [
        each for each in rest if each["message"] != plain or each["done"]
    ]


async def chat(client: Any, **options: Any) -> list[Any]:
    return [(await got(client.chat(**{**ASKED, **options}))).model_dump(exclude_none=True)]


async def chat_stream(client: Any, **options: Any) -> list[Any]:
    return joined([chunk async for chunk in each(await got(client.chat(**{**ASKED, **options}, stream=True)))])


SURFACES = pytest.mark.parametrize("surface", [chat, chat_stream])


@SURFACES
@at_its_desk
async def test_every_surface_gives_the_bare_clients_result(desk: OllamaDesk, surface: Any) -> None:
    bare, ours = await surface(desk.bare()), await surface(desk.wrapped())
    assert TEXT in str(bare)
    assert ours == bare
    assert_clean(ours)
    assert asks_for_trailer(desk.provider.seen[0].body["messages"][0]["content"])
    assert said(desk.home, "s") == HELLO
    (done,) = [event for event in events(desk.home, "s") if event["type"] == "done"]
    assert (done["status"], done["usage"]) == ("ok", {"prompt_tokens": 40, "completion_tokens": 9})


@SURFACES
@at_its_desk
async def test_thinking_and_tool_calls_equal_the_bare_clients(desk: OllamaDesk, surface: Any) -> None:
    desk.answer(Told("Let me see.", thought="The weather.", calls=(CALL, CALL)))
    bare = await surface(desk.bare(), tools=[TOOL], think=True)
    assert await surface(desk.wrapped(), tools=[TOOL], think=True) == bare
    reply = messages(desk.home, "s")[-1]
    assert reply["content"] == "Let me see."
    assert [call["id"] for call in reply["tool_calls"]] == ["weather", "weather-2"]


@SURFACES
@at_its_desk
async def test_observed_calls_are_logged_and_not_changed(desk: OllamaDesk, surface: Any) -> None:
    bare = await surface(desk.bare())
    assert await surface(desk.wrapped(context_mode="shadow")) == bare
    assert desk.provider.seen[0].body == desk.bare_provider.seen[0].body
    assert said(desk.home, "s") == HELLO


@at_its_desk
async def test_tool_calls_and_results_of_earlier_turns_are_sent_in_the_apis_form(desk: OllamaDesk) -> None:
    client = desk.wrapped()
    desk.answer(Told(calls=(CALL,)))
    await chat(client, tools=[TOOL], options={"num_predict": 50})
    desk.answer(Told(TEXT))
    await chat(client, messages=[{"role": "tool", "tool_name": "weather", "content": "Rain."}])
    await chat(client, messages=[{"role": "user", "content": "And now?", "images": [b"\x01\x02"]}])
    assert desk.provider.seen[0].body["options"]["num_predict"] > 50
    sent = desk.provider.seen[2].body["messages"]
    assert [message["role"] for message in sent] == ["system", "user", "assistant", "tool", "assistant", "user"]
    assert sent[2]["tool_calls"] == [{"function": {"name": "weather", "arguments": {"city": "Paris"}}}]
    assert sent[3] == {"role": "tool", "content": "Rain.", "tool_name": "weather"}
    assert sent[5]["content"].startswith("And now?")
    assert sent[5]["images"] == ["AQI="]
    await chat(client)
    assert desk.provider.seen[3].body["messages"][5]["images"] == ["AQI="]


@SURFACES
@at_its_desk
async def test_a_missing_snapshot_is_asked_for_with_a_whole_reply(desk: OllamaDesk, surface: Any) -> None:
    desk.answer(lambda asked: Told(TEXT, forgets=len(desk.provider.seen) == 1))
    ours = await surface(desk.wrapped(on_missing="reask"), tools=[TOOL])
    assert TEXT in str(ours)
    assert_clean(ours)
    assert desk.provider.seen[1].body["stream"] is False
    assert "w-1" in str([event.get("operations") for event in events(desk.home, "s")])


@on("sync")
@at_its_desk
async def test_a_format_gets_context_and_no_trailer_request(desk: OllamaDesk) -> None:
    desk.answer(Told('{"city": "Paris"}'))
    (reply,) = await chat(desk.wrapped(), format="json")
    assert reply["message"]["content"] == '{"city": "Paris"}'
    assert not any(map(asks_for_trailer, desk.provider.seen[0].texts))


@at_its_desk
async def test_an_error_is_the_sdks_own(desk: OllamaDesk) -> None:
    desk.answer(lambda asked: Failure(404, {"error": "model 'qwen3' not found"}))
    with pytest.raises(ollama.ResponseError, match="not found"):
        await chat(desk.wrapped())
    assert events(desk.home, "s")[-1]["reason"] == "provider_error: HTTP 404"


@on("sync")
@at_its_desk
async def test_redaction_finds_texts_and_leaves_images(desk: OllamaDesk) -> None:
    secret, image = "ghp_16C7e42F292c6912E7710c838347Ae178B4a", b"\x01\x02" * 300
    asked = [{"role": "user", "content": f"It is {secret}.", "images": [image]}]
    await chat(desk.wrapped(redaction=ctxwrap.Redaction()), messages=asked)
    (sent,) = desk.provider.seen
    assert secret not in json.dumps(sent.body)
    assert len(sent.body["messages"][-1]["images"][0]) == 800


def test_a_stream_that_breaks_off_shows_and_logs_what_came(home: Path) -> None:
    line = json.dumps({"model": "m", "message": {"role": "assistant", "content": "Hello, "}, "done": False})
    error = json.dumps({"error": "out of memory"})
    reply = httpx.Response(200, text=f"{line}\n{error}\n", headers={"content-type": "application/x-ndjson"})
    door = ctxwrap.transport(httpx.MockTransport(lambda request: reply), session="s", store=home)
    seen: list[str] = []

    def read(client: Any) -> None:
        for chunk in client.chat(**ASKED, stream=True):
            seen.append(chunk.message.content)  # noqa: PERF401 - what came before the error counts

    with ollama.Client(transport=door) as client, pytest.raises(ollama.ResponseError, match="out of memory"):
        read(client)
    assert "".join(seen) == "Hello, "
    assert said(home, "s")[-1] == ("assistant", "Hello, ")
    assert events(home, "s")[-1]["status"] == "error"


@pytest.mark.parametrize("size", [1, 2, 5, 1000])
def test_lines_are_frames_for_any_chunking(size: int) -> None:
    raw = '{"a": "é"}\n\n{"b": 1}\n'.encode()
    framer = LineFramer()
    frames = [frame for at in range(0, len(raw), size) for frame in framer.feed(raw[at : at + size])]
    assert b"".join(frame.raw for frame in frames) == raw
    assert [frame.json() for frame in frames] == [{"a": "é"}, None, {"b": 1}]


def test_a_negative_limit_is_none_and_a_request_without_messages_is_left_alone() -> None:
    assert CHAT.reply_limit({"options": {"num_predict": -1}}) is None
    assert CHAT.reply_limit({"options": {"num_predict": 9}}) == 9
    assert CHAT.read({"model": "m"}).no_context == "a request that only loads the model"
    tokens = [CHAT.request_tokens({**ASKED, **tools}, counter_for("m")) for tools in ({}, {"tools": [TOOL]})]
    assert 0 < tokens[0] < tokens[1]


def test_concurrent_streams_of_one_client_stay_apart(home: Path) -> None:
    """Each call has a framer of its own."""

    def reply(request: httpx.Request) -> httpx.Response:
        name = json.loads(request.content)["messages"][-1]["content"].partition("\n")[0]
        lines = [{"message": {"role": "assistant", "content": part}, "done": False} for part in (name, " there")]
        lines.append({"message": {"role": "assistant", "content": ""}, "done": True, "done_reason": "stop"})
        text = "".join(f"{json.dumps(line)}\n" for line in lines)
        return httpx.Response(200, text=text, headers={"content-type": "application/x-ndjson"})

    async def ask(client: Any, name: str) -> str:
        with ctxwrap.using(session=name):
            asked = [{"role": "user", "content": name}]
            stream = await client.chat(model="m", messages=asked, stream=True)
            return "".join([chunk.message.content async for chunk in stream])

    async def both() -> list[str]:
        door = ctxwrap.async_transport(httpx.MockTransport(reply), store=home)
        async with ollama.AsyncClient(transport=door) as client:
            return await asyncio.gather(ask(client, "ada"), ask(client, "bob"))

    assert asyncio.run(both()) == ["ada there", "bob there"]


@at_its_desk
async def test_a_wrapped_client_is_a_copy_of_its_type_that_can_be_bound(desk: OllamaDesk) -> None:
    bare = desk.make(desk.provider.url, desk._http_client())
    client = ctxwrap.wrap(bare, session="s", store=desk.home)
    bound = ctxwrap.bind(client, session="other")
    desk._made += [client._client, bound._client]
    assert {type(client), type(bound)} == {type(bare)}
    assert ctxwrap.wrap(client) is client
    await chat(bound)
    assert (said(desk.home, "s"), said(desk.home, "other")) == ([], HELLO)
    with ctxwrap.using(session="third"):
        await chat(client)
    assert said(desk.home, "third") == HELLO
    assert await chat(bare)
    assert "ctxwrap" not in str(desk.provider.seen[-1].body)
    view = ctxwrap.preview(client, **ASKED)
    assert asks_for_trailer(view.body["messages"][0]["content"])
