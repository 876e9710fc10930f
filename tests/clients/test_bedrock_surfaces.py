"""Bedrock's `converse` and `converse_stream` of boto3 and aiobotocore: the bare client's results, with context."""

import copy
import gc
import json
import pickle
from base64 import b64encode
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import ctxwrap
from ctxwrap.protocol import ReplyStream
from ctxwrap.protocol.instructions import SEPARATOR, asks_for_trailer
from ctxwrap.providers.bedrock import CONVERSE
from ctxwrap.tokens import counter_for
from ctxwrap.types import Injection
from tests.clients.door_desk import HELLO, TEXT, DoorDesk
from tests.clients.running import at_its_desk, each, got, on
from tests.providers.loopback import Failure, Received, Sent, Told, aws_event, pieces
from tests.support import assert_clean, events, messages, said

boto3 = pytest.importorskip("boto3", reason="the SDK boto3 is not installed")

MODEL = "anthropic.claude-sonnet-4-5-20250929-v1:0"
ASKED: dict[str, Any] = {"modelId": MODEL, "messages": [{"role": "user", "content": [{"text": "Say hello."}]}]}
CALL = ("weather", {"city": "Paris"})
SCHEMA = {"json": {"type": "object", "properties": {"city": {"type": "string"}}}}
TOOLS = {"tools": [{"toolSpec": {"name": "weather", "inputSchema": SCHEMA}}]}
USAGE = {"inputTokens": 40, "outputTokens": 9, "totalTokens": 65, "cacheReadInputTokens": 16}
CUT_OFF = "Hello, wor"
"""A text after which a stream breaks off with an error."""
PICTURE = b"\x89PNG\r\n\x1a\n" + bytes(range(256))


def speak(asked: Received, told: Told) -> Sent:
    """The format of `converse`: blocks, or messages of an event stream."""
    text, finish = told.text_for(asked), "tool_use" if told.calls else "end_turn"
    finish = asked.body.get("requestMetadata", {}).get("stop", finish)
    thought = {"reasoningText": {"text": told.thought, "signature": "c2ln"}}
    calls = [{"toolUseId": f"{name}_{at}", "name": name, "input": args} for at, (name, args) in enumerate(told.calls)]
    blocks = [
        *([{"reasoningContent": thought}] if told.thought else []),
        *([{"text": text}] if text else []),
        *({"toolUse": call} for call in calls),
    ]
    trace = {"guardrail": {"modelOutput": [text]}} if "guardrailConfig" in asked.body else None
    end = {"usage": USAGE, "metrics": {"latencyMs": 3}, **({"trace": trace} if trace else {})}
    if asked.path.endswith("/converse"):
        reply = {"output": {"message": {"role": "assistant", "content": blocks}}, "stopReason": finish, **end}
        return Sent([json.dumps(reply).encode()])
    sent = [_event("messageStart", role="assistant")]
    for index, block in enumerate(blocks):
        if "toolUse" in block:
            start = {name: block["toolUse"][name] for name in ("toolUseId", "name")}
            sent.append(_event("contentBlockStart", start={"toolUse": start}, contentBlockIndex=index))
        sent += [_event("contentBlockDelta", delta=delta, contentBlockIndex=index) for delta in _deltas(block)]
        sent.append(_event("contentBlockStop", contentBlockIndex=index))
    sent += [_event("messageStop", stopReason=finish), _event("metadata", **end)]
    if told.text == CUT_OFF:
        sent[1 + len(pieces(CUT_OFF)) :] = [_event("throttlingException", is_error=True, message="Too many requests.")]
    return Sent(sent, "application/vnd.amazon.eventstream")


def _deltas(block: Any) -> list[Any]:
    if "text" in block:
        return [{"text": piece} for piece in pieces(block["text"])]
    if "toolUse" in block:
        return [{"toolUse": {"input": piece}} for piece in pieces(json.dumps(block["toolUse"]["input"]))]
    thought = block["reasoningContent"]["reasoningText"]
    texts = [{"reasoningContent": {"text": piece}} for piece in pieces(thought["text"])]
    return [*texts, {"reasoningContent": {"signature": thought["signature"]}}]


def _event(kind: str, *, is_error: bool = False, **payload: Any) -> bytes:
    return aws_event(kind, payload, is_error=is_error)


class BedrockDesk(DoorDesk):
    async def made(self, url: str, **options: Any) -> Any:
        known = {"endpoint_url": url, "region_name": "us-east-1"}
        keys = {"aws_access_key_id": "k", "aws_secret_access_key": "s"}
        if not self.is_async:
            return self._closed_later(boto3.client("bedrock-runtime", **known, **keys, **options))
        session = pytest.importorskip("aiobotocore.session", reason="the SDK aiobotocore is not installed")
        making = session.get_session().create_client("bedrock-runtime", **known, **keys, **options)
        return self._closed_later(await making.__aenter__())

    async def bare_client(self, **options: Any) -> Any:
        return await self.made(self.bare_provider.url, **options)

    async def wrapped_client(self, **settings: Any) -> Any:
        options = {"store": self.home, "session": "s", **settings}
        return self._closed_later(ctxwrap.wrap(await self.made(self.provider.url), **options))


@pytest.fixture(params=["sync", "async"])
def desk(request: pytest.FixtureRequest, home: Path) -> Iterator[BedrockDesk]:
    with ExitStack() as stack:
        yield BedrockDesk(request.param == "async", home, stack, speak)


async def converse(client: Any, **options: Any) -> list[Any]:
    reply = await got(client.converse(**{**ASKED, **options}))
    assert reply.pop("ResponseMetadata")["HTTPStatusCode"] == 200
    return [reply]


async def converse_stream(client: Any, **options: Any) -> list[Any]:
    """The events, those with texts put together: one may have been cut where its trailer began."""
    seen: list[Any] = []
    text = ""
    reply = await got(client.converse_stream(**{**ASKED, **options}))
    assert reply["ResponseMetadata"]["HTTPStatusCode"] == 200
    async for event in each(reply["stream"]):
        delta = event.get("contentBlockDelta", {}).get("delta", {})
        if "text" in delta:
            text += delta["text"]
        else:
            seen.append(event)
    return [text, *seen]


async def broken(stream: Any) -> tuple[str, Exception]:
    """The text of a stream that breaks off, and its error."""
    text = ""
    try:
        async for event in each(stream):
            text += event.get("contentBlockDelta", {}).get("delta", {}).get("text", "")
    except Exception as error:
        return text, error
    raise AssertionError("the stream came to its end")


SURFACES = pytest.mark.parametrize("surface", [converse, converse_stream])


@SURFACES
@at_its_desk
async def test_every_surface_gives_the_bare_clients_result(desk: BedrockDesk, surface: Any) -> None:
    system = [{"text": "Be brief."}, {"cachePoint": {"type": "default"}}]
    bare = await surface(await desk.bare_client(), system=system)
    ours = await surface(await desk.wrapped_client(), system=system)
    assert TEXT in str(bare)
    assert ours == bare
    assert_clean(ours)
    sent = desk.provider.seen[0].body
    assert asks_for_trailer(sent["system"][0]["text"])
    assert sent["system"][1:3] == system
    assert said(desk.home, "s") == [("system", "Be brief."), *HELLO]
    (done,) = [event for event in events(desk.home, "s") if event["type"] == "done"]
    counted = {"input_tokens": 40, "output_tokens": 9, "cache_read_input_tokens": 16}
    assert (done["status"], done["usage"]) == ("ok", counted)


@SURFACES
@at_its_desk
async def test_reasoning_and_tool_calls_equal_the_bare_clients(desk: BedrockDesk, surface: Any) -> None:
    desk.answer(Told("Let me see.", thought="The user asks for the weather.", calls=(CALL, CALL)))
    bare = await surface(await desk.bare_client(), toolConfig=TOOLS)
    assert await surface(await desk.wrapped_client(), toolConfig=TOOLS) == bare
    reply = messages(desk.home, "s")[-1]
    assert reply["content"] == "Let me see."
    assert [json.loads(call["arguments"]) for call in reply["tool_calls"]] == [CALL[1], CALL[1]]


@SURFACES
@at_its_desk
async def test_observed_calls_are_logged_and_not_changed(desk: BedrockDesk, surface: Any) -> None:
    bare = await surface(await desk.bare_client())
    assert await surface(await desk.wrapped_client(context_mode="shadow")) == bare
    assert desk.provider.seen[0].body == desk.bare_provider.seen[0].body
    assert said(desk.home, "s") == HELLO


STOPS = ("max_tokens", "guardrail_intervened", "content_filtered", "model_context_window_exceeded", "a_new_reason")


@SURFACES
@at_its_desk
async def test_replies_that_the_provider_stopped_equal_the_bare_clients(desk: BedrockDesk, surface: Any) -> None:
    bare, client = await desk.bare_client(), await desk.wrapped_client()
    desk.answer(Told(TEXT, forgets=True))
    for stop in STOPS:
        asked = {"requestMetadata": {"stop": stop}}
        assert await surface(client, **asked) == await surface(bare, **asked)
    assert [event["reason"] for event in events(desk.home, "s") if event["type"] == "done"] == list(STOPS)


@SURFACES
@at_its_desk
async def test_redaction_keeps_signed_reasoning_and_bytes(desk: BedrockDesk, surface: Any) -> None:
    secret = "ghp_16C7e42F292c6912E7710c838347Ae178B4a"
    thought = {"reasoningText": {"text": f"It is {secret}.", "signature": "c2ln" * 100}}
    image = {"image": {"format": "png", "source": {"bytes": PICTURE}}}
    asked = [
        {"role": "user", "content": [{"text": f"My token is {secret}."}, image]},
        {"role": "assistant", "content": [{"reasoningContent": thought}, {"text": "I see."}]},
        {"role": "user", "content": [{"text": "Say hello."}]},
    ]
    await surface(await desk.wrapped_client(redaction=ctxwrap.Redaction()), messages=asked)
    first, second, _ = desk.provider.seen[0].body["messages"]
    assert secret not in str(first)
    assert first["content"][-1]["image"]["source"]["bytes"] == b64encode(PICTURE).decode()
    assert second["content"][0]["reasoningContent"] == thought
    assert secret not in str(messages(desk.home, "s"))


@SURFACES
@at_its_desk
async def test_the_output_in_a_guardrails_trace_is_what_the_caller_sees(desk: BedrockDesk, surface: Any) -> None:
    guard = {"guardrailIdentifier": "g", "guardrailVersion": "1", "trace": "enabled"}
    bare = await surface(await desk.bare_client(), guardrailConfig=guard)
    ours = await surface(await desk.wrapped_client(), guardrailConfig=guard)
    assert f"'modelOutput': ['{TEXT}']" in str(bare)
    assert ours == bare


@at_its_desk
async def test_history_with_tool_calls_has_the_apis_form_and_its_roles_take_turns(desk: BedrockDesk) -> None:
    client = await desk.wrapped_client()
    desk.answer(Told(calls=(CALL,)))
    image = {"image": {"format": "png", "source": {"bytes": PICTURE}}}
    paper = {"document": {"format": "txt", "name": "notes", "source": {"bytes": b"Bring an umbrella."}}}
    asked = {"role": "user", "content": [{"text": "The weather?"}, image, paper]}
    await converse_stream(client, messages=[asked], toolConfig=TOOLS, inferenceConfig={"maxTokens": 50})
    desk.answer(Told(TEXT))
    result = {"toolResult": {"toolUseId": "weather_0", "content": [{"json": {"sky": "rain"}}], "status": "error"}}
    await converse(client, messages=[{"role": "user", "content": [result]}], toolConfig=TOOLS)
    first, second = (seen.body for seen in desk.provider.seen)
    assert first["inferenceConfig"]["maxTokens"] > 50
    assert [message["role"] for message in second["messages"]] == ["user", "assistant", "user"]
    encoded = b64encode(PICTURE).decode()
    assert {"image": {"format": "png", "source": {"bytes": encoded}}} in second["messages"][0]["content"]
    notes = b64encode(b"Bring an umbrella.").decode()
    assert {"document": {**paper["document"], "source": {"bytes": notes}}} in second["messages"][0]["content"]
    called = {"toolUseId": "weather_0", "name": "weather", "input": CALL[1]}
    assert second["messages"][1]["content"] == [{"toolUse": called}]
    assert second["messages"][2]["content"][0] == result
    await converse(client)
    third = desk.provider.seen[2].body["messages"]
    assert [message["role"] for message in third] == ["user", "assistant", "user", "assistant", "user"]
    assert "toolUse" not in str(third), "the API takes calls only in requests that have tools"
    assert '[called weather: {"city":"Paris"}]' in str(third)


@at_its_desk
async def test_a_turn_that_failed_leaves_no_two_messages_of_one_role(desk: BedrockDesk) -> None:
    client = await desk.wrapped_client()
    desk.answer(lambda asked: Failure(403, {"__type": "AccessDeniedException", "message": "no"}))
    with pytest.raises(client.exceptions.AccessDeniedException):
        await converse(client)
    desk.answer(Told(TEXT))
    await converse(client, messages=[{"role": "user", "content": [{"text": "And now?"}]}])
    assert [message["role"] for message in desk.provider.seen[-1].body["messages"]] == ["user"]


@SURFACES
@at_its_desk
async def test_a_missing_snapshot_is_asked_for_with_a_whole_reply(desk: BedrockDesk, surface: Any) -> None:
    desk.answer(lambda asked: Told(TEXT, forgets=len(desk.provider.seen) == 1))
    choice = {**TOOLS, "toolChoice": {"auto": {}}}
    thinking = {"thinking": {"type": "enabled", "budget_tokens": 1024}, "top_k": 5}
    ours = await surface(
        await desk.wrapped_client(on_missing="reask"), toolConfig=choice, additionalModelRequestFields=thinking
    )
    assert TEXT in str(ours)
    assert_clean(ours)
    again = desk.provider.seen[1]
    assert again.path.endswith("/converse")
    assert (again.body["toolConfig"], again.body["additionalModelRequestFields"]) == (TOOLS, {"top_k": 5})
    assert "w-1" in str([event.get("operations") for event in events(desk.home, "s")])


@SURFACES
@at_its_desk
async def test_a_request_that_is_too_long_is_sent_again_smaller(desk: BedrockDesk, surface: Any) -> None:
    client = await desk.wrapped_client()
    for _ in range(6):
        await surface(client)
    refusal = {"__type": "ValidationException", "message": "Input is too long for requested model."}
    desk.answer(lambda asked: Failure(400, refusal) if len(desk.provider.seen) == 7 else Told(TEXT))
    assert TEXT in str(await surface(client))
    assert len(json.dumps(desk.provider.seen[7].body)) < len(json.dumps(desk.provider.seen[6].body))


@SURFACES
@at_its_desk
async def test_errors_are_the_sdks_own(desk: BedrockDesk, surface: Any) -> None:
    client = await desk.wrapped_client()
    refusal = {"__type": "ThrottlingException", "message": "Too many tokens, please wait before trying again."}
    desk.answer(lambda asked: Failure(429, refusal) if len(desk.provider.seen) == 1 else Told(TEXT))
    assert TEXT in str(await surface(client)), "botocore tries again inside the call"
    assert len(said(desk.home, "s")) == 2
    desk.answer(lambda asked: Failure(400, {"__type": "ValidationException", "message": "bad model"}))
    with pytest.raises(client.exceptions.ValidationException, match="bad model"):
        await surface(client)
    wrong: Any = [{"role": "user", "content": "a text"}]
    for each_client in (await desk.bare_client(), client):
        with pytest.raises(Exception, match="Invalid type for parameter messages"):
            await surface(each_client, messages=wrong)


@at_its_desk
async def test_an_error_in_a_stream_comes_after_the_text_before_it(desk: BedrockDesk) -> None:
    desk.answer(Told(CUT_OFF, forgets=True))
    for client in (await desk.bare_client(), await desk.wrapped_client()):
        text, error = await broken((await got(client.converse_stream(**ASKED)))["stream"])
        assert (type(error).__name__, text) == ("EventStreamError", CUT_OFF)
    (done,) = [event for event in events(desk.home, "s") if event["type"] == "done"]
    assert (done["status"], done["reason"]) == ("error", "provider_error: EventStreamError")
    assert said(desk.home, "s")[-1] == ("assistant", CUT_OFF)


@at_its_desk
async def test_a_stream_that_is_closed_ends_its_turn(desk: BedrockDesk) -> None:
    stream = (await got((await desk.wrapped_client()).converse_stream(**ASKED)))["stream"]
    async for event in each(stream):
        if "contentBlockDelta" in event:
            break
    stream.close()
    (done,) = [event for event in events(desk.home, "s") if event["type"] == "done"]
    assert (done["status"], done["reason"]) == ("cancelled", "closed")
    turn = ctxwrap.turn_of(stream)
    assert turn is not None
    assert turn.session == "s"


@on("sync")
@at_its_desk
async def test_a_stream_that_is_dropped_ends_its_turn_at_once(desk: BedrockDesk) -> None:
    client = await desk.wrapped_client()
    gc.disable()
    try:
        for event in client.converse_stream(**ASKED)["stream"]:
            if "contentBlockDelta" in event:
                break
    finally:
        gc.enable()
    (done,) = [event for event in events(desk.home, "s") if event["type"] == "done"]
    assert (done["status"], done["reason"]) == ("cancelled", "abandoned")


@on("sync")
@at_its_desk
async def test_a_call_without_a_session_warns_at_its_own_line(desk: BedrockDesk) -> None:
    client = ctxwrap.wrap(await desk.bare_client(), store=desk.home)
    with pytest.warns(ctxwrap.NoSessionWarning) as warned:
        client.converse(**ASKED)
    assert warned[0].filename == __file__


@at_its_desk
async def test_a_stream_can_be_read_in_two_loops(desk: BedrockDesk) -> None:
    seen = []
    for client in (await desk.bare_client(), await desk.wrapped_client()):
        stream = (await got(client.converse_stream(**ASKED)))["stream"]
        kinds = []
        loop = each(stream)
        async for event in loop:
            kinds += event
            break
        await loop.aclose()
        kinds += [kind async for event in each(stream) for kind in event]
        seen.append(list(dict.fromkeys(kinds)))
    assert seen[0] == seen[1]
    assert said(desk.home, "s") == HELLO


@SURFACES
@at_its_desk
async def test_names_of_a_call_and_its_turn(desk: BedrockDesk, surface: Any) -> None:
    client = await desk.wrapped_client()
    reply = await got(getattr(client, surface.__name__)(**ASKED, session="other", context_mode="readonly"))
    turn = ctxwrap.turn_of(reply)
    assert turn is not None
    assert (turn.session, turn.mode) == ("other", "readonly")
    assert await surface(ctxwrap.bind(client, session="third"))
    assert said(desk.home, "third") == HELLO
    assert ctxwrap.turn_of({"ResponseMetadata": {}}) is None
    assert type(pickle.loads(pickle.dumps(reply["ResponseMetadata"]))) is dict


@at_its_desk
async def test_the_client_keeps_its_type_and_everything_else(desk: BedrockDesk) -> None:
    bare = await desk.bare_client()
    client = ctxwrap.wrap(bare, session="s", store=desk.home)
    assert isinstance(client, type(bare))
    assert (type(client).__name__, type(client).__module__) == (type(bare).__name__, type(bare).__module__)
    assert client.meta is bare.meta
    assert client.exceptions.ThrottlingException is bare.exceptions.ThrottlingException
    assert client.can_paginate("list_async_invokes")
    assert client.waiter_names == bare.waiter_names
    assert not hasattr(bare, "_ctxwrap")
    assert {name for name in dir(client) if not name.startswith("_")} == {
        name for name in dir(bare) if not name.startswith("_")
    }
    for each_client in (bare, client):
        with pytest.raises((TypeError, AttributeError, pickle.PicklingError)):
            pickle.dumps(each_client)
    view = ctxwrap.preview(client, **ASKED)
    assert "Say hello." in str(view.body["messages"])


@on("sync")
@at_its_desk
async def test_other_operations_pass_unchanged(desk: BedrockDesk) -> None:
    body = json.dumps({"prompt": "Say hello."})
    client = await desk.wrapped_client()
    reply = client.invoke_model(modelId=MODEL, body=body)
    assert reply["body"].read()
    assert desk.provider.seen[0].body == json.loads(body)
    assert said(desk.home, "s") == []


def test_other_services_of_boto3_are_refused_by_name() -> None:
    keys = {"region_name": "us-east-1", "aws_access_key_id": "k", "aws_secret_access_key": "s"}
    with pytest.raises(ctxwrap.UnsupportedClient, match=r"boto3\.client\('bedrock-runtime'\)"):
        ctxwrap.wrap(boto3.client("bedrock", **keys))


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"toolConfig": {**TOOLS, "toolChoice": {"any": {}}}}, "forced tool choice"),
        ({"toolConfig": {**TOOLS, "toolChoice": {"auto": {}}}}, ""),
        ({"outputConfig": {"textFormat": {"type": "json_schema"}}}, "structured output"),
        ({}, ""),
    ],
)
def test_requests_without_a_trailer_say_why(options: dict[str, Any], reason: str) -> None:
    assert CONVERSE.read({**ASKED, **options}).no_trailer == reason


def test_a_prompt_that_bedrock_holds_gets_no_context() -> None:
    read = CONVERSE.read({"modelId": "arn:aws:bedrock:us-east-1:111122223333:prompt/P1:1", "promptVariables": {}})
    assert read.no_context


def test_texts_with_citations_lose_their_trailer() -> None:
    cited = {"citationsContent": {"content": [{"text": f"Hello.\n\n{SEPARATOR}\n{{}}"}], "citations": [{"title": "t"}]}}
    payload = {"output": {"message": {"role": "assistant", "content": [cited]}}, "stopReason": "end_turn"}
    rewriter = CONVERSE.rewriter({}, ReplyStream)
    (block,) = rewriter.whole(payload)["output"]["message"]["content"]
    assert block["citationsContent"] == {"content": [{"text": "Hello."}], "citations": [{"title": "t"}]}
    assert (rewriter.reply.messages[0].text, rewriter.fetched) == ("Hello.", True)


def test_a_separator_that_a_tool_wrote_is_neutral() -> None:
    result = {"toolResult": {"toolUseId": "t", "content": [{"text": SEPARATOR}]}}
    made = CONVERSE.inject({"messages": [{"role": "user", "content": [result]}]}, Injection("PROTOCOL", "BLOCK"))
    assert SEPARATOR not in str(made["messages"])


def test_requests_are_counted_with_their_reasoning_results_and_tools() -> None:
    counter = counter_for(MODEL)
    text = "Rain is expected in the evening. " * 20

    def tokens(*content: Any, **options: Any) -> int:
        return CONVERSE.request_tokens({"messages": [{"role": "user", "content": list(content)}], **options}, counter)

    least = counter.count(text) - 5
    said = tokens({"text": "hi"})
    assert tokens({"text": text}) > least
    assert tokens({"reasoningContent": {"reasoningText": {"text": text, "signature": "c2ln"}}}) > least
    assert tokens({"toolResult": {"toolUseId": "t", "content": [{"text": text}]}}) > least
    assert tokens({"text": "hi"}, system=[{"text": text}]) > said + least
    assert tokens({"text": "hi"}, toolConfig=TOOLS) > said
    assert tokens({"image": {"format": "png", "source": {"bytes": PICTURE}}}) < 10_000, "bytes are not counted as text"


def test_blocks_of_the_log() -> None:
    content = [
        {"guardContent": {"text": {"qualifiers": ["query"], "text": "Guarded."}}},
        {"citationsContent": {"content": [{"text": "Cited."}], "citations": []}},
        {"reasoningContent": {"reasoningText": {"text": "Hidden.", "signature": "c2ln"}}},
        {"cachePoint": {"type": "default"}},
    ]
    body = {"modelId": MODEL, "messages": [{"role": "user", "content": content}]}
    before = copy.deepcopy(body)
    (message,) = CONVERSE.read(body).messages
    assert message.content == "Guarded.\nCited."
    video = {"video": {"format": "mp4", "source": {"bytes": b"\x00\x01"}}}
    (message,) = CONVERSE.read({"messages": [{"role": "user", "content": [video]}]}).messages
    assert json.dumps(message.content)
    assert body == before
