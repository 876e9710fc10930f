"""Cohere's SDK through the HTTP door: every surface gives the bare client's result, with context."""

import json
import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import ctxwrap
from ctxwrap.protocol.instructions import asks_for_trailer
from ctxwrap.providers.cohere import CHAT
from tests.clients.door_desk import HELLO, TEXT, DoorDesk
from tests.clients.running import at_its_desk, each, got, on
from tests.providers.loopback import Failure, Received, Sent, Told, pieces
from tests.support import assert_clean, events, messages, said

cohere = pytest.importorskip("cohere", reason="the SDK cohere is not installed")

ASKED: dict[str, Any] = {"model": "command-a", "messages": [{"role": "user", "content": "Say hello."}]}
CALL = ("weather", {"city": "Paris"})
PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}}
TOOL = {"type": "function", "function": {"name": "weather", "parameters": PARAMETERS}}
USAGE = {"tokens": {"input_tokens": 40, "output_tokens": 9}, "cached_tokens": 16}


def speak(asked: Received, told: Told) -> Sent:
    """The format of `/v2/chat`: content blocks, or events named by their type."""
    said, finish = told.text_for(asked), "TOOL_CALL" if told.calls else "COMPLETE"
    thoughts = [{"type": "thinking", "thinking": told.thought}] if told.thought else []
    calls = [
        {"id": f"{name}_{at}", "type": "function", "function": {"name": name, "arguments": json.dumps(args)}}
        for at, (name, args) in enumerate(told.calls)
    ]
    cited = [{"start": 0, "end": 5, "text": said[:5]}, {"start": 900, "end": 909, "text": said[-9:]}] if said else []
    if not asked.body.get("stream"):
        content = [*thoughts, *([{"type": "text", "text": said}] if said else [])]
        message = {"role": "assistant", "content": content, "tool_calls": calls, "citations": cited}
        return Sent([json.dumps({"id": "c", "message": message, "finish_reason": finish, "usage": USAGE}).encode()])
    sent: list[Any] = [{"type": "message-start", "id": "c", "delta": {"message": {"role": "assistant", "content": []}}}]
    for index, block in enumerate([*thoughts, {"type": "text", "text": said}]):
        kind = block["type"]
        sent.append(_event("content-start", index, content={"type": kind, kind: ""}))
        sent += [_event("content-delta", index, content={kind: piece}) for piece in pieces(block[kind])]
        sent.append({"type": "content-end", "index": index})
    for index, citation in enumerate(cited):
        sent += [_event("citation-start", index, citations=citation), {"type": "citation-end", "index": index}]
    for index, call in enumerate(calls):
        empty = {**call, "function": {**call["function"], "arguments": ""}}
        sent.append(_event("tool-call-start", index, tool_calls=empty))
        for piece in pieces(call["function"]["arguments"]):
            sent.append(_event("tool-call-delta", index, tool_calls={"function": {"arguments": piece}}))
        sent.append({"type": "tool-call-end", "index": index})
    sent.append({"type": "message-end", "delta": {"finish_reason": finish, "usage": USAGE}})
    frames = [f"event: {each['type']}\ndata: {json.dumps(each)}\n\n".encode() for each in sent]
    return Sent(frames, "text/event-stream")


def _event(kind: str, index: int, **message: Any) -> Any:
    return {"type": kind, "index": index, "delta": {"message": message}}


class CohereDesk(DoorDesk):
    def make(self, url: str, http_client: Any) -> Any:
        cls = cohere.AsyncClientV2 if self.is_async else cohere.ClientV2
        return cls(api_key="k", base_url=url, httpx_client=http_client)


@pytest.fixture(params=["sync", "async"])
def desk(request: pytest.FixtureRequest, home: Path) -> Iterator[CohereDesk]:
    with ExitStack() as stack:
        yield CohereDesk(request.param == "async", home, stack, speak)


async def chat(client: Any, **options: Any) -> list[Any]:
    dump = (await got(client.chat(**{**ASKED, **options}))).model_dump()
    return [{**dump, "message": {**dump["message"], "citations": _shown(dump["message"]["citations"])}}]


def _shown(citations: Any) -> list[Any]:
    """The citations of the first words: the others are about the end of the text, which may be a trailer."""
    return [each["text"] for each in citations or () if each["start"] == 0]


async def chat_stream(client: Any, **options: Any) -> list[Any]:
    """The events, those with texts put together: one may have been cut where its trailer began."""
    seen: list[Any] = []
    text = ""
    async for event in each(client.chat_stream(**{**ASKED, **options})):
        content = getattr(getattr(getattr(event, "delta", None), "message", None), "content", None)
        if event.type == "content-delta" and getattr(content, "text", None):
            text += content.text
        elif not event.type.startswith("citation") or event.index == 0:
            seen.append(event.model_dump())
    return [text, *seen]


SURFACES = pytest.mark.parametrize("surface", [chat, chat_stream])


@SURFACES
@at_its_desk
async def test_every_surface_gives_the_bare_clients_result(desk: CohereDesk, surface: Any) -> None:
    bare, ours = await surface(desk.bare()), await surface(desk.wrapped())
    assert TEXT in str(bare)
    assert "citation-start" in str(bare) or bare[0]["message"]["citations"] == ["Hello"]
    assert ours == bare
    assert_clean(ours)
    assert asks_for_trailer(desk.provider.seen[0].body["messages"][0]["content"])
    assert said(desk.home, "s") == HELLO
    (done,) = [event for event in events(desk.home, "s") if event["type"] == "done"]
    cached = {"prompt_tokens_details": {"cached_tokens": 16}}
    assert (done["status"], done["usage"]) == ("ok", {"prompt_tokens": 40, "completion_tokens": 9, **cached})


@SURFACES
@at_its_desk
async def test_thinking_and_tool_calls_equal_the_bare_clients(desk: CohereDesk, surface: Any) -> None:
    desk.answer(Told("Let me see.", thought="The user asks for the weather.", calls=(CALL, CALL)))
    bare = await surface(desk.bare(), tools=[TOOL])
    assert await surface(desk.wrapped(), tools=[TOOL]) == bare
    reply = messages(desk.home, "s")[-1]
    assert reply["content"] == "Let me see."
    assert [json.loads(call["arguments"]) for call in reply["tool_calls"]] == [CALL[1], CALL[1]]


@at_its_desk
async def test_citations_of_the_trailer_are_left_out(desk: CohereDesk) -> None:
    client = desk.wrapped()
    (reply,) = ((await got(client.chat(**ASKED))).message,)
    assert [citation.text for citation in reply.citations] == ["Hello"]
    kinds = [event.type async for event in each(client.chat_stream(**ASKED))]
    assert kinds.count("citation-start") == kinds.count("citation-end") == 1


@at_its_desk
async def test_history_of_tool_calls_is_sent_in_the_apis_form(desk: CohereDesk) -> None:
    client = desk.wrapped()
    desk.answer(Told(calls=(CALL,)))
    await chat_stream(client, tools=[TOOL], max_tokens=50)
    desk.answer(Told(TEXT))
    await chat(client, messages=[{"role": "tool", "tool_call_id": "weather_0", "content": "Rain."}])
    first, second = (seen.body for seen in desk.provider.seen)
    assert first["max_tokens"] > 50
    assert [message["role"] for message in second["messages"]] == ["system", "user", "assistant", "tool"]
    assert second["messages"][2]["tool_calls"][0]["function"] == {"name": "weather", "arguments": json.dumps(CALL[1])}
    assert second["messages"][3]["tool_call_id"] == "weather_0"


@SURFACES
@at_its_desk
async def test_a_missing_snapshot_is_asked_for_with_a_whole_reply(desk: CohereDesk, surface: Any) -> None:
    desk.answer(lambda asked: Told(TEXT, forgets=len(desk.provider.seen) == 1))
    ours = await surface(desk.wrapped(on_missing="reask"), tools=[TOOL])
    assert_clean(ours)
    asked = desk.provider.seen[1].body
    assert ("stream" in asked and asked["stream"], asked["tool_choice"]) == (False, "NONE")
    assert "w-1" in str([event.get("operations") for event in events(desk.home, "s")])


@on("sync")
@at_its_desk
async def test_an_error_is_the_sdks_own_and_too_long_requests_get_smaller(desk: CohereDesk) -> None:
    client = desk.wrapped()
    for _ in range(6):
        await chat(client)
    text = "too many tokens: total number of tokens in the prompt cannot exceed 700 - received 900."
    desk.answer(lambda asked: Failure(400, {"message": text}) if len(desk.provider.seen) == 7 else Told(TEXT))
    await chat(client)
    assert len(json.dumps(desk.provider.seen[7].body)) < len(json.dumps(desk.provider.seen[6].body))
    desk.answer(lambda asked: Failure(401, {"message": "invalid api token"}))
    with pytest.raises(cohere.UnauthorizedError):
        await chat(client)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"tool_choice": "REQUIRED"}, "forced tool choice"),
        ({"logprobs": True}, "log probabilities"),
        ({"response_format": {"type": "json_object"}}, "structured output"),
        ({}, ""),
    ],
)
def test_requests_without_a_trailer_say_why(options: dict[str, Any], reason: str) -> None:
    assert CHAT.read({**ASKED, **options}).no_trailer == reason


def test_wrap_names_the_argument_that_takes_the_door() -> None:
    with pytest.raises(
        ctxwrap.UnsupportedClient, match=re.escape("cohere.ClientV2(httpx_client=ctxwrap.http_client(...))")
    ):
        ctxwrap.wrap(cohere.ClientV2(api_key="k"), store="memory:")
