"""google-genai through the HTTP door: every surface gives the bare client's result, with context."""

import json
import re
from base64 import b64encode
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import ctxwrap
from ctxwrap.protocol.instructions import asks_for_trailer
from ctxwrap.providers import adapter_at
from ctxwrap.providers.google import GENERATE
from ctxwrap.tokens import counter_for
from tests.clients.door_desk import HELLO, TEXT, DoorDesk
from tests.clients.running import at_its_desk, each, got, on
from tests.providers.loopback import Failure, Received, Sent, Told, pieces
from tests.support import assert_clean, events, messages, said

genai = pytest.importorskip("google.genai", reason="the SDK google-genai is not installed")
types = genai.types

MODEL = "gemini-2.5-flash"
CALL = ("weather", {"city": "Paris"})
TOOL = {"function_declarations": [{"name": "weather", "parameters": {"type": "OBJECT", "properties": {}}}]}
DATA = b"\x01\x02" * 300
SECRET = "ghp_16C7e42F292c6912E7710c838347Ae178B4a"


def speak(asked: Received, told: Told) -> Sent:
    """The format of `generateContent`: parts of one candidate, whole or in server-sent events."""
    said = told.text_for(asked)
    thoughts = [{"text": told.thought, "thought": True}] if told.thought else []
    calls = [{"functionCall": {"name": name, "args": args}, "thoughtSignature": "c2ln"} for name, args in told.calls]
    counts = {"promptTokenCount": 40, "candidatesTokenCount": 9, "thoughtsTokenCount": 2, "totalTokenCount": 51}
    head = {"usageMetadata": counts, "modelVersion": MODEL, "responseId": "r-1"}
    if not asked.path.endswith(":streamGenerateContent"):
        parts = [*thoughts, *([{"text": said}] if said else []), *calls]
        reply = {"candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP"}], **head}
        return Sent([json.dumps(reply).encode()])
    assert asked.query == "alt=sse"
    chunks: list[Any] = [*([thoughts] if thoughts else []), *([{"text": piece}] for piece in pieces(said)), calls]
    sent = [{"candidates": [{"content": {"role": "model", "parts": parts}}], **head} for parts in chunks if parts]
    sent[-1]["candidates"][0]["finishReason"] = "STOP"
    return Sent([f"data: {json.dumps(each)}\r\n\r\n".encode() for each in sent], "text/event-stream")


class GoogleDesk(DoorDesk):
    library = "httpx2"

    def make(self, url: str, http_client: Any) -> Any:
        name = "httpx_async_client" if self.is_async else "httpx_client"
        options = types.HttpOptions(base_url=url, **{name: http_client})
        client = genai.Client(api_key="k", http_options=options)
        return client.aio if self.is_async else client


@pytest.fixture(params=["sync", "async"])
def desk(request: pytest.FixtureRequest, home: Path) -> Iterator[GoogleDesk]:
    with ExitStack() as stack:
        yield GoogleDesk(request.param == "async", home, stack, speak)


def dumped(response: Any) -> Any:
    """What a response shows, without its headers."""
    return response.model_dump(mode="json", exclude={"sdk_http_response", "parsed"}, exclude_none=True)


def joined(chunks: list[Any]) -> list[Any]:
    """The parts of a stream, its texts put together: a chunk may have been cut where its trailer began."""
    parts: list[Any] = []
    for part in (part for chunk in chunks for part in chunk.candidates[0].content.parts or ()):
        shown = part.model_dump(mode="json", exclude_none=True)
        if parts and shown.keys() == parts[-1].keys() == {"text"}:
            parts[-1]["text"] += shown["text"]
        elif shown != {"text": ""}:
            parts.append(shown)
    return [parts, chunks[-1].candidates[0].finish_reason, "".join(chunk.text or "" for chunk in chunks)]


# --- the surfaces: what a caller sees -----------------------------------------------------------------------


async def generate(client: Any, **config: Any) -> list[Any]:
    reply = await got(client.models.generate_content(model=MODEL, contents="Say hello.", config=config))
    return [dumped(reply), reply.text]


async def generate_stream(client: Any, **config: Any) -> list[Any]:
    stream = client.models.generate_content_stream(model=MODEL, contents="Say hello.", config=config)
    return joined([chunk async for chunk in each(await got(stream))])


async def chat(client: Any, **config: Any) -> list[Any]:
    talk = client.chats.create(model=MODEL, config=config)
    reply = await got(talk.send_message("Say hello."))
    return [dumped(reply), [each.model_dump(exclude_none=True) for each in talk.get_history()]]


async def chat_stream(client: Any, **config: Any) -> list[Any]:
    talk = client.chats.create(model=MODEL, config=config)
    return joined([chunk async for chunk in each(await got(talk.send_message_stream("Say hello.")))])


SURFACES = pytest.mark.parametrize("surface", [generate, generate_stream, chat, chat_stream])


@SURFACES
@at_its_desk
async def test_every_surface_gives_the_bare_clients_result(desk: GoogleDesk, surface: Any) -> None:
    bare, ours = await surface(desk.bare()), await surface(desk.wrapped())
    assert TEXT in str(bare)
    assert ours == bare
    assert_clean(ours)
    assert said(desk.home, "s") == HELLO
    (done,) = [event for event in events(desk.home, "s") if event["type"] == "done"]
    assert done["status"] == "ok"
    assert done["usage"]["completion_tokens"] == 11


@SURFACES
@at_its_desk
async def test_thoughts_and_calls_equal_the_bare_clients(desk: GoogleDesk, surface: Any) -> None:
    desk.answer(Told("Let me see.", thought="The user asks for the weather.", calls=(CALL, CALL)))
    config = {"tools": [TOOL], "automatic_function_calling": {"disable": True}}
    bare = await surface(desk.bare(), **config)
    assert await surface(desk.wrapped(), **config) == bare
    reply = messages(desk.home, "s")[-1]
    assert reply["content"] == "Let me see."
    assert [call["id"] for call in reply["tool_calls"]] == ["weather", "weather-2"]


@SURFACES
@at_its_desk
async def test_thoughts_before_a_text_equal_the_bare_clients(desk: GoogleDesk, surface: Any) -> None:
    desk.answer(Told(TEXT, thought="A greeting."))
    bare = await surface(desk.bare())
    ours = await surface(desk.wrapped())
    assert ours == bare
    assert_clean(ours)
    assert said(desk.home, "s") == HELLO


@at_its_desk
async def test_system_prompt_comes_between_protocol_and_standing_texts(desk: GoogleDesk) -> None:
    await generate(desk.wrapped(), system_instruction="Be kind.", max_output_tokens=50)
    (sent,) = desk.provider.seen
    system = [part["text"] for part in sent.body["systemInstruction"]["parts"]]
    assert asks_for_trailer(system[0])
    assert system[1] == "Be kind."
    assert sent.body["generationConfig"]["maxOutputTokens"] > 50
    assert said(desk.home, "s") == [("system", "Be kind."), *HELLO]


@at_its_desk
async def test_history_and_memory_come_with_the_next_call(desk: GoogleDesk) -> None:
    client = desk.wrapped()
    for surface in (generate, generate_stream):
        await surface(client)
    contents = desk.provider.seen[1].body["contents"]
    assert [content["role"] for content in contents] == ["user", "model", "user"]
    assert contents[1]["parts"] == [{"text": TEXT}]
    assert "canary-in-the-trailer of w-1" in contents[2]["parts"][-1]["text"]


@at_its_desk
async def test_a_chat_that_sends_its_whole_history_is_logged_once(desk: GoogleDesk) -> None:
    talk = desk.wrapped().chats.create(model=MODEL)
    await got(talk.send_message("Say hello."))
    await got(talk.send_message("Again."))
    assert said(desk.home, "s") == [*HELLO, ("user", "Again."), ("assistant", TEXT)]
    assert [content["role"] for content in desk.provider.seen[1].body["contents"]] == ["user", "model", "user"]


@at_its_desk
async def test_tools_that_the_sdk_calls_are_one_conversation(desk: GoogleDesk) -> None:
    def weather(city: str) -> str:
        """The weather in a city."""
        return f"Rain in {city}."

    def answer(asked: Received) -> Told:
        return Told(TEXT) if "Rain in Paris." in asked.texts else Told(calls=(CALL,))

    desk.answer(answer)
    bare = await generate(desk.bare(), tools=[weather])
    ours = await generate(desk.wrapped(), tools=[weather])
    assert ours[1] == bare[1] == TEXT
    assert [message["role"] for message in messages(desk.home, "s")] == ["user", "assistant", "tool", "assistant"]
    assert messages(desk.home, "s")[2]["content"] == "Rain in Paris."


@pytest.mark.parametrize(("model", "is_signed"), [("gemini-2.5-pro", False), ("gemini-3.6-flash", True)])
@at_its_desk
async def test_tool_calls_and_results_of_earlier_turns_are_sent_in_the_apis_form(
    desk: GoogleDesk, model: str, is_signed: bool
) -> None:
    client = desk.wrapped()
    desk.answer(Told(calls=(CALL,)))
    await generate(client, tools=[TOOL], automatic_function_calling={"disable": True})
    desk.answer(Told(TEXT))
    result = types.Part.from_function_response(name="weather", response={"result": "Rain."})
    await got(client.models.generate_content(model=model, contents=[types.Content(role="user", parts=[result])]))
    await got(client.models.generate_content(model=model, contents="And now?"))
    asked, called, answered, *_ = desk.provider.seen[2].body["contents"]
    assert asked["parts"] == [{"text": "Say hello."}]
    assert called["parts"][0]["functionCall"] == {"name": "weather", "args": {"city": "Paris"}}
    assert ("thoughtSignature" in called["parts"][0]) is is_signed
    assert answered["parts"][0]["functionResponse"] == {"name": "weather", "response": {"result": "Rain."}}


@on("sync")
@at_its_desk
async def test_structured_output_gets_context_and_no_trailer_request(desk: GoogleDesk) -> None:
    desk.answer(Told('{"city": "Paris"}'))
    schema = {"type": "OBJECT", "properties": {"city": {"type": "STRING"}}}
    config = {"response_mime_type": "application/json", "response_schema": schema}
    assert (await generate(desk.wrapped(), **config))[1] == '{"city": "Paris"}'
    assert not any(map(asks_for_trailer, desk.provider.seen[0].texts))
    assert "systemInstruction" in desk.provider.seen[0].body


@pytest.mark.parametrize("surface", [generate, generate_stream])
@at_its_desk
async def test_a_missing_snapshot_is_asked_for_with_a_whole_reply(desk: GoogleDesk, surface: Any) -> None:
    desk.answer(lambda asked: Told(TEXT, forgets=len(desk.provider.seen) == 1))
    ours = await surface(desk.wrapped(on_missing="reask"), tools=[TOOL], max_output_tokens=20)
    assert TEXT in str(ours)
    assert_clean(ours)
    first, second = desk.provider.seen
    assert second.path == first.path.replace("streamGenerate", "generate")
    assert second.body["toolConfig"] == {"functionCallingConfig": {"mode": "NONE"}}
    assert "w-1" in str([event.get("operations") for event in events(desk.home, "s")])


@at_its_desk
async def test_a_request_that_is_too_long_is_sent_again_smaller(desk: GoogleDesk) -> None:
    client = desk.wrapped()
    for _ in range(6):
        await generate(client)
    text = "The input token count (900) exceeds the maximum number of tokens allowed (700)."
    error = {"error": {"code": 400, "message": text, "status": "INVALID_ARGUMENT"}}
    desk.answer(lambda asked: Failure(400, error) if len(desk.provider.seen) == 7 else Told(TEXT))
    assert (await generate(client))[1] == TEXT
    assert len(desk.provider.seen) == 8
    assert len(json.dumps(desk.provider.seen[7].body)) < len(json.dumps(desk.provider.seen[6].body))


@at_its_desk
async def test_an_error_is_the_sdks_own(desk: GoogleDesk) -> None:
    desk.answer(lambda asked: Failure(403, {"error": {"code": 403, "message": "No.", "status": "PERMISSION_DENIED"}}))
    with pytest.raises(genai.errors.ClientError, match="PERMISSION_DENIED"):
        await generate(desk.wrapped())
    assert events(desk.home, "s")[-1]["reason"] == "provider_error: HTTP 403"


@on("sync")
@at_its_desk
async def test_redaction_finds_texts_and_leaves_structure(desk: GoogleDesk) -> None:
    picture = types.Part.from_bytes(data=DATA, mime_type="image/png")
    client = desk.wrapped(redaction=ctxwrap.Redaction())
    client.models.generate_content(
        model=MODEL, contents=[f"It is {SECRET}.", picture], config={"system_instruction": SECRET}
    )
    (sent,) = desk.provider.seen
    assert SECRET not in json.dumps(sent.body)
    assert sent.body["contents"][0]["parts"][1]["inlineData"]["data"] == b64encode(DATA).decode()


# --- the adapter ----------------------------------------------------------------------------------------------


def at(path: str, query: str = "") -> Any:
    adapter = adapter_at(path, query)
    assert adapter is not None
    return adapter


@pytest.mark.parametrize(
    ("path", "model", "stream"),
    [
        ("/v1beta/models/gemini-2.5-pro:generateContent", "gemini-2.5-pro", False),
        ("/v1beta/models/gemini-2.5-pro:streamGenerateContent", "gemini-2.5-pro", True),
        ("/v1/projects/p/locations/l/publishers/google/models/m:generateContent", "m", False),
    ],
)
def test_model_and_stream_are_read_from_the_url(path: str, model: str, stream: bool) -> None:
    read = at(path, "alt=sse").read({"contents": [{"parts": [{"text": "Hi."}]}]})
    assert (read.model, read.stream, read.no_context) == (model, stream, "")
    assert [(message.role, message.text) for message in read.messages] == [("user", "Hi.")]


def test_requests_that_nothing_can_be_added_to_say_why() -> None:
    contents = {"contents": [{"parts": [{"text": "Hi."}]}]}
    assert at("/v1beta/models/m:streamGenerateContent").read(contents).no_context == "a stream without alt=sse"
    cached = {**contents, "cachedContent": "cachedContents/1"}
    assert GENERATE.read(cached).no_context == "cached content holds the system prompt"


def test_snake_case_is_read_like_camel_case() -> None:
    body = {
        "system_instruction": {"parts": [{"text": "Be kind."}]},
        "contents": [{"role": "user", "parts": [{"function_response": {"name": "f", "response": {"a": 1}}}]}],
        "generation_config": {"max_output_tokens": 9, "response_mime_type": "application/json"},
    }
    read = GENERATE.read(body)
    assert [(message.role, message.text) for message in read.messages] == [("system", "Be kind."), ("tool", '{"a":1}')]
    assert read.no_trailer == "structured output"
    assert GENERATE.reply_limit(body) == 9


def test_texts_tools_and_schemas_are_counted() -> None:
    counter = counter_for(MODEL)
    plain = {"contents": [{"role": "user", "parts": [{"text": "One two three."}]}]}
    tools = {"tools": [{"functionDeclarations": [{"name": "weather", "description": "What it is like outside."}]}]}
    picture = {"inlineData": {"mimeType": "image/png", "data": "AAAA" * 10_000}}
    counts = [
        GENERATE.request_tokens(body, counter)
        for body in (plain, {**plain, **tools}, {"contents": [{"role": "user", "parts": [picture]}]})
    ]
    assert counter.count("One two three.") < counts[0] < counts[1]
    assert counts[2] < 10_000


def test_wrap_names_the_argument_that_takes_the_door() -> None:
    with pytest.raises(
        ctxwrap.UnsupportedClient,
        match=re.escape("types.HttpOptions(httpx_client=ctxwrap.http_client(library='httpx2', ...)"),
    ):
        ctxwrap.wrap(genai.Client(api_key="k"), store="memory:")
