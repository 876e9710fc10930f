"""Mistral's SDK through the HTTP door and by `wrap`: OpenAI's API, with content in parts where the model thinks."""

import gc
import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import ctxwrap
from ctxwrap.protocol.instructions import asks_for_trailer
from tests.clients.door_desk import HELLO, TEXT, DoorDesk
from tests.clients.running import at_its_desk, each, got, on
from tests.providers.loopback import Failure, Loopback, Received, Sent, Told, pieces
from tests.support import assert_clean, events, messages, said

mistralai = pytest.importorskip("mistralai.client", reason="the SDK mistralai is not installed")

ASKED: dict[str, Any] = {"model": "magistral", "messages": [{"role": "user", "content": "Say hello."}]}
CALL = ("weather", {"city": "Paris"})
PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}}
TOOL = {"type": "function", "function": {"name": "weather", "parameters": PARAMETERS}}
USAGE = {"prompt_tokens": 40, "completion_tokens": 9, "total_tokens": 49}


def speak(asked: Received, told: Told) -> Sent:
    """Chat completions whose content is a list of parts if there is a thought."""
    said, finish = told.text_for(asked), "tool_calls" if told.calls else "stop"
    head = {"id": "m", "object": "chat.completion", "created": 1, "model": asked.body["model"]}
    calls = [
        {"id": "abcdefghi", "index": at, "function": {"name": name, "arguments": json.dumps(args)}}
        for at, (name, args) in enumerate(told.calls)
    ]
    thoughts = [{"type": "thinking", "thinking": [{"type": "text", "text": told.thought}]}] if told.thought else []
    if not asked.body.get("stream"):
        content: Any = [*thoughts, {"type": "text", "text": said}] if thoughts else said
        message = {"role": "assistant", "content": content, "tool_calls": calls or None}
        choice = {"index": 0, "message": message, "finish_reason": finish}
        return Sent([json.dumps({**head, "choices": [choice], "usage": USAGE}).encode()])
    deltas: list[Any] = [{"content": thoughts}] if thoughts else []
    deltas += [{"content": [{"type": "text", "text": piece}] if thoughts else piece} for piece in pieces(said)]
    deltas += [{"content": "", "tool_calls": calls}] if calls else []
    chunks = [{**head, "choices": [{"index": 0, "delta": each, "finish_reason": None}]} for each in deltas]
    end = {"index": 0, "delta": {"content": ""}, "finish_reason": finish}
    chunks.append({**head, "choices": [end], "usage": USAGE})
    frames = [f"data: {json.dumps(chunk)}\n\n".encode() for chunk in chunks]
    return Sent([*frames, b"data: [DONE]\n\n"], "text/event-stream")


class MistralDesk(DoorDesk):
    library = "httpx2"

    def make(self, url: str, http_client: Any) -> Any:
        name = "async_client" if self.is_async else "client"
        return mistralai.Mistral(api_key="k", server_url=url, **{name: http_client})

    def held(self, client: Any) -> Any:
        known = client.sdk_configuration
        return known.async_client if self.is_async else known.client


@pytest.fixture(params=["sync", "async", "sync by wrap", "async by wrap"])
def desk(request: pytest.FixtureRequest, home: Path) -> Iterator[MistralDesk]:
    with ExitStack() as stack:
        desk = MistralDesk(request.param.startswith("async"), home, stack, speak)
        desk.wraps = request.param.endswith("wrap")
        yield desk


async def complete(desk: MistralDesk, client: Any, **options: Any) -> list[Any]:
    method = client.chat.complete_async if desk.is_async else client.chat.complete
    return [(await got(method(**{**ASKED, **options}))).model_dump(mode="json")]


async def stream(desk: MistralDesk, client: Any, **options: Any) -> list[Any]:
    """The deltas, their texts put together: one may have been cut where its trailer began."""
    method = client.chat.stream_async if desk.is_async else client.chat.stream
    text, seen = "", list[Any]()
    async for event in each(await got(method(**{**ASKED, **options}))):
        (choice,) = event.data.model_dump(mode="json")["choices"]
        content = choice["delta"].pop("content", None) or []
        parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
        text += "".join(part["text"] for part in parts if part["type"] == "text")
        rest = [part for part in parts if part["type"] != "text"]
        if rest or any(choice["delta"].values()) or choice["finish_reason"]:
            seen.append((rest, choice))
    return [text, *seen]


SURFACES = pytest.mark.parametrize("surface", [complete, stream])


@SURFACES
@pytest.mark.parametrize("thought", ["", "A greeting."])
@at_its_desk
async def test_every_surface_gives_the_bare_clients_result(desk: MistralDesk, surface: Any, thought: str) -> None:
    desk.answer(Told(TEXT, thought=thought))
    bare, ours = await surface(desk, desk.bare()), await surface(desk, desk.wrapped())
    assert TEXT in str(bare)
    assert thought in str(bare)
    assert ours == bare
    assert_clean(ours)
    assert asks_for_trailer(desk.provider.seen[0].body["messages"][0]["content"])
    assert said(desk.home, "s") == HELLO
    (done,) = [event for event in events(desk.home, "s") if event["type"] == "done"]
    assert (done["status"], done["usage"]) == ("ok", USAGE)
    assert "w-1" in str([event.get("operations") for event in events(desk.home, "s")])


@SURFACES
@at_its_desk
async def test_tool_calls_equal_the_bare_clients(desk: MistralDesk, surface: Any) -> None:
    desk.answer(Told(calls=(CALL,)))
    bare = await surface(desk, desk.bare(), tools=[TOOL])
    assert await surface(desk, desk.wrapped(), tools=[TOOL]) == bare
    assert [call["name"] for call in messages(desk.home, "s")[-1]["tool_calls"]] == ["weather"]


@on("sync")
@at_its_desk
async def test_a_forced_call_asks_for_no_trailer(desk: MistralDesk) -> None:
    desk.answer(Told(calls=(CALL,)))
    await complete(desk, desk.wrapped(), tools=[TOOL], tool_choice="any")
    assert not any(map(asks_for_trailer, desk.provider.seen[0].texts))


@at_its_desk
async def test_an_error_is_the_sdks_own(desk: MistralDesk) -> None:
    desk.answer(lambda asked: Failure(401, {"detail": "Unauthorized"}))
    with pytest.raises(mistralai.errors.SDKError, match="401"):
        await complete(desk, desk.wrapped())


def test_a_wrapped_client_has_the_parts_of_its_own_and_outlives_the_bare_one(home: Path) -> None:
    with Loopback(speak, lambda asked: Told(TEXT)) as provider:
        bare = mistralai.Mistral(api_key="k", server_url=provider.url)
        assert bare.chat is bare.chat, "it is made by its first use, and kept"
        client = ctxwrap.wrap(bare, session="s", store=home)
        assert type(client) is type(bare)
        assert client.chat is not bare.chat
        del bare
        gc.collect()
        with client:
            client.chat.complete(**ASKED)
    assert said(home, "s") == HELLO
