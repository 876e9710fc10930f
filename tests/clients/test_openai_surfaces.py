"""A wrapped OpenAI client is the bare one with context: every surface, every mode, every way to fail."""

import asyncio
import copy
import inspect
import threading
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import reduce
from pathlib import Path
from typing import Any

import openai
import pytest
from pydantic import BaseModel

import ctxwrap
from ctxwrap import turn_of
from ctxwrap.protocol.instructions import SEPARATOR, asks_for_trailer
from ctxwrap.testing.practice import Answer, Ask, Failure, ToolCall
from ctxwrap.testing.practice.requests import Answering, RecordedRequest
from tests.clients.openai_cases import (
    CHANGED_HEADERS,
    CHAT,
    HELLO,
    INPUT,
    PROMPT,
    SAID,
    SURFACES,
    TEXT,
    Desk,
    Surface,
    Views,
    beta_chat_helper,
    both,
    chat_copy,
    chat_create,
    chat_helper,
    chat_raw,
    chat_raw_by_client,
    chat_raw_stream,
    chat_stream,
    chat_streamed,
    chat_streamed_lines,
    chat_streamed_stream,
    chat_with_options,
    content,
    each,
    each_of,
    got,
    looked,
    mode_sent,
    named,
    need,
    open_desk,
    opened,
    response_create,
    response_helper,
    response_raw,
    response_stream,
    text_create,
    text_stream,
)
from tests.support import REMEMBERED, Told, assert_clean, events, messages, said, state_shown, trailer

CALL = ToolCall("call_1", "weather", '{"city": "Paris"}')
CITY_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
WEATHER: dict[str, Any] = {"name": "weather", "strict": True, "parameters": CITY_SCHEMA}
PROBED: dict[str, Any] = {"logprobs": True, "top_logprobs": 2}
PROBED_RESPONSE: dict[str, Any] = {"include": ["message.output_text.logprobs"], "top_logprobs": 2}

VOLATILE_HEADERS = frozenset({"host"})
"""Of a request; the two clients of a desk have a provider, and so a port, of their own."""


class City(BaseModel):
    city: str


PARIS = '{"city": "Paris"}'
CITY_FORMAT: dict[str, Any] = {"type": "json_schema", "json_schema": {"name": "city", "schema": CITY_SCHEMA}}


@pytest.fixture(params=["sync", "async"])
def desk(request: pytest.FixtureRequest, home: Path) -> Iterator[Desk]:
    with open_desk(request.param, home) as desk:
        yield desk


sync_only = pytest.mark.parametrize("desk", ["sync"], indirect=True)
async_only = pytest.mark.parametrize("desk", ["async"], indirect=True)


async def assert_alike(desk: Desk, surface: Surface, **asked: Any) -> Views:
    """The wrapped client shows what the bare one shows, and nothing of ours; gives what it showed."""
    bare = await looked(desk.bare(), surface, **asked)
    wrapped = await looked(desk.wrapped(), surface, **asked)
    assert bare.values
    assert wrapped.values == bare.values
    assert_clean(*wrapped.texts)
    return wrapped


def modes_sent(desk: Desk) -> set[str]:
    return {mode_sent(seen) for seen in desk.provider.seen}


def letter_by_letter(ask: Ask) -> Answer:
    text = Told(TEXT)(ask).text
    return Answer(text, pieces=tuple(text))


# --- every surface ------------------------------------------------------------------------------------


MAIN_CHAT = named(chat_create, chat_stream, chat_helper)
MAIN_TEXT = named(text_create, text_stream)
MAIN_RESPONSES = named(response_create, response_stream, response_helper)
STREAMS = named(chat_stream, chat_helper, text_stream, response_stream, response_helper)
MAIN = {**MAIN_CHAT, **MAIN_TEXT, **MAIN_RESPONSES}


@each_of(SURFACES)
@both
async def test_every_surface_gives_the_bare_clients_result(desk: Desk, surface: Surface) -> None:
    await assert_alike(desk, surface)
    assert modes_sent(desk) == {"enabled"}
    assert said(desk.home, "s")[:2] == HELLO


COMPRESSED = named(
    chat_create, chat_stream, chat_raw, chat_streamed_lines, chat_streamed_stream, text_create, response_stream
)


@each_of(COMPRESSED)
@both
async def test_compressed_reply_equals_the_bare_clients(desk: Desk, surface: Surface) -> None:
    desk.answer(Told(TEXT, gzip=True))
    await assert_alike(desk, surface)


@each_of(named(chat_create, chat_stream, text_stream, response_stream))
@both
async def test_text_with_whitespace_and_other_scripts_is_unchanged(desk: Desk, surface: Surface) -> None:
    desk.answer(Told("  Erste Zeile\n\n\tzweite — 日本語 🙂 <b>\n\nSchluss\n\nEnde"))
    await assert_alike(desk, surface)


@each_of(STREAMS)
@both
async def test_stream_text_is_the_same_for_any_chunking(desk: Desk, surface: Surface) -> None:
    desk.answer(letter_by_letter)
    wrapped = await looked(desk.wrapped(), surface)
    assert_clean(*wrapped.texts)
    assert said(desk.home, "s") == HELLO
    assert streamed_text(wrapped) == TEXT


def streamed_text(views: Views) -> str:
    """The deltas that were seen, put together."""
    dumps = [value[1] for value in views.values if isinstance(value, tuple) and isinstance(value[1], dict)]
    pieces = [dump["delta"] for dump in dumps if dump.get("type") in ("content.delta", "response.output_text.delta")]
    if not pieces:
        choices = [choice for dump in dumps for choice in dump.get("choices") or () if "message" not in choice]
        pieces = [(choice.get("delta") or {}).get("content") or choice.get("text") or "" for choice in choices]
    return "".join(pieces)


@each_of({**MAIN_CHAT, **MAIN_TEXT})
@both
async def test_every_choice_loses_its_trailer_and_the_first_one_is_applied(desk: Desk, surface: Surface) -> None:
    def two(ask: Ask) -> Answer:
        first, second = Told("One.")(ask), Told("Two.")(ask)
        return Answer(first.text, others=(second,))

    desk.answer(two)
    await assert_alike(desk, surface, n=2)
    assert said(desk.home, "s") == [("user", SAID), ("assistant", "One.")]
    assert [event["content"] for event in events(desk.home, "s") if event["type"] == "choice"] == ["Two."]


@pytest.mark.parametrize(
    ("surface", "asked"),
    [
        *((surface, PROBED) for surface in (*MAIN_CHAT.values(), chat_raw)),
        *((surface, {"logprobs": 2}) for surface in MAIN_TEXT.values()),
        *((surface, PROBED_RESPONSE) for surface in (*MAIN_RESPONSES.values(), response_raw)),
    ],
)
@both
async def test_log_probabilities_are_those_of_the_visible_text(
    desk: Desk, surface: Surface, asked: dict[str, Any]
) -> None:
    wrapped = await assert_alike(desk, surface, **asked)
    assert "logprob" in "".join(map(str, wrapped.texts))


@both
async def test_the_tokens_of_a_reply_join_to_its_text(desk: Desk) -> None:
    client = desk.wrapped()
    reply = await got(client.chat.completions.create(**CHAT, logprobs=True))
    assert "".join(token.token for token in reply.choices[0].logprobs.content) == content(reply) == TEXT
    legacy = await got(client.completions.create(**PROMPT, logprobs=1))
    choice = legacy.choices[0]
    assert "".join(choice.logprobs.tokens) == choice.text == TEXT
    lists = (choice.logprobs.token_logprobs, choice.logprobs.top_logprobs, choice.logprobs.text_offset)
    assert {len(values) for values in lists} == {len(choice.logprobs.tokens)}


@both
async def test_the_tokens_of_a_stream_join_to_its_text(desk: Desk) -> None:
    desk.answer(letter_by_letter)
    client = desk.wrapped()
    stream = await got(client.chat.completions.create(**CHAT, logprobs=True, stream=True))
    choices = [choice async for chunk in each(stream) for choice in chunk.choices]
    tokens = [token.token for choice in choices if choice.logprobs for token in choice.logprobs.content or ()]
    assert "".join(tokens) == "".join(choice.delta.content or "" for choice in choices) == TEXT
    legacy = await got(client.completions.create(**PROMPT, logprobs=1, stream=True))
    pieces = [choice async for chunk in each(legacy) for choice in chunk.choices]
    tokens = [token for choice in pieces if choice.logprobs for token in choice.logprobs.tokens or ()]
    assert "".join(tokens) == "".join(choice.text for choice in pieces) == TEXT


@both
async def test_the_tokens_of_a_response_join_to_its_text(desk: Desk) -> None:
    desk.answer(letter_by_letter)
    create = need(desk.wrapped(), "responses.create")
    seen = [event async for event in each(await got(create(**INPUT, **PROBED_RESPONSE, stream=True)))]
    deltas = [event for event in seen if event.type == "response.output_text.delta"]
    assert "".join(event.delta for event in deltas) == TEXT
    assert "".join(token.token for event in deltas for token in event.logprobs or ()) == TEXT
    done = next(event for event in seen if event.type == "response.output_text.done")
    assert "".join(token.token for token in done.logprobs or ()) == done.text == TEXT
    part = seen[-1].response.output[0].content[0]
    assert "".join(token.token for token in part.logprobs) == part.text == TEXT


@each_of({**MAIN_CHAT, **MAIN_RESPONSES})
@both
async def test_reasoning_is_unchanged(desk: Desk, surface: Surface) -> None:
    desk.answer(Told(TEXT, reasoning="The user wants a greeting."))
    wrapped = await assert_alike(desk, surface)
    assert "wants a g" in "".join(map(str, wrapped.texts))


@both
async def test_reasoning_content_arrives_piece_by_piece(desk: Desk) -> None:
    desk.answer(Told(TEXT, reasoning="The user wants a greeting."))
    stream = await got(desk.wrapped().chat.completions.create(**CHAT, stream=True))
    deltas = [choice.delta async for chunk in each(stream) for choice in chunk.choices]
    thoughts = [delta.reasoning_content for delta in deltas if getattr(delta, "reasoning_content", None)]
    assert len(thoughts) > 1
    assert "".join(thoughts) == "The user wants a greeting."


@each_of({**MAIN_CHAT, **MAIN_RESPONSES})
@both
async def test_a_refusal_reaches_the_caller_and_the_log(desk: Desk, surface: Surface) -> None:
    desk.answer(lambda ask: Answer(refusal="I will not say that."))
    await assert_alike(desk, surface)
    assert said(desk.home, "s") == [("user", SAID), ("assistant", "I will not say that.")]


UNNATURAL = [
    *(("length", surface) for surface in (*MAIN_CHAT.values(), *MAIN_TEXT.values(), response_create, response_stream)),
    *(("content_filter", surface) for surface in (chat_create, chat_stream, response_create, response_stream)),
]


@pytest.mark.parametrize(("finish", "surface"), UNNATURAL)
@both
async def test_trailer_of_a_stopped_reply_is_not_applied(desk: Desk, surface: Surface, finish: str) -> None:
    desk.answer(Told(TEXT, finish=finish))
    await assert_alike(desk, surface)
    assert said(desk.home, "s") == HELLO
    assert not any("operations" in event for event in events(desk.home, "s"))


@each_of({**MAIN_CHAT, **MAIN_TEXT, **named(response_create, response_stream)})
@both
async def test_partial_trailer_is_not_shown(desk: Desk, surface: Surface) -> None:
    def stopped(ask: Ask) -> Answer:
        text = Told(TEXT)(ask).text
        return Answer(text if text == TEXT else text[: len(text) - 40], finish="length")

    desk.answer(stopped)
    await assert_alike(desk, surface)


@pytest.mark.parametrize("surface", [chat_stream, chat_helper, text_stream])
@both
async def test_the_chunk_with_the_usage_comes_last(desk: Desk, surface: Surface) -> None:
    wrapped = await assert_alike(desk, surface, stream_options={"include_usage": True})
    assert "total_tokens" in "".join(map(str, wrapped.texts))


@both
async def test_the_usage_is_the_provider_s_own(desk: Desk) -> None:
    options = {"include_usage": True}
    stream = await got(desk.wrapped().chat.completions.create(**CHAT, stream=True, stream_options=options))
    chunks = [chunk async for chunk in each(stream)]
    assert [chunk.usage is not None for chunk in chunks] == [False] * (len(chunks) - 1) + [True]
    assert chunks[-1].choices == []
    done = events(desk.home, "s")[-1]
    assert done["usage"] == chunks[-1].usage.model_dump(exclude_unset=True)


@each_of(MAIN_RESPONSES)
@pytest.mark.parametrize("instructions", [None, "Be brief."])
@both
async def test_a_response_echoes_the_caller_s_instructions(
    desk: Desk, surface: Surface, instructions: str | None
) -> None:
    asked = {} if instructions is None else {"instructions": instructions}
    wrapped = await assert_alike(desk, surface, **asked)
    dumps = [value[1] for value in wrapped.values if isinstance(value, tuple) and isinstance(value[1], dict)]
    responses = [dump if "output" in dump else dump.get("response") for dump in dumps]
    echoed = [response["instructions"] for response in responses if response]
    assert echoed
    assert set(echoed) == {instructions}


@each_of(MAIN_RESPONSES)
@both
async def test_a_response_echoes_the_caller_s_output_limit(desk: Desk, surface: Surface) -> None:
    await assert_alike(desk, surface, max_output_tokens=50)


@both
async def test_the_events_of_a_response_keep_their_order(desk: Desk) -> None:
    stream = await got(need(desk.wrapped(), "responses.create")(**INPUT, stream=True))
    numbers = [event.sequence_number async for event in each(stream)]
    assert numbers == sorted(numbers)
    assert numbers[0] == 0


# --- structured output --------------------------------------------------------------------------------


async def chat_parse(client: Any, views: Views, **asked: Any) -> None:
    parsed = await got(need(client, "chat.completions.parse")(**{**CHAT, **asked}, response_format=City))
    views.model(parsed)
    views.fact(parsed.choices[0].message.parsed)


async def chat_raw_parse(client: Any, views: Views, **asked: Any) -> None:
    raw = await got(need(client, "chat.completions.with_raw_response.parse")(**CHAT, **asked, response_format=City))
    views.raw(raw.text)
    views.model(raw.parse())


async def chat_parsing_helper(client: Any, views: Views, **asked: Any) -> None:
    await chat_helper(client, views, **asked, response_format=City)


async def response_parse(client: Any, views: Views, **asked: Any) -> None:
    parsed = await got(need(client, "responses.parse")(**{**INPUT, **asked}, text_format=City))
    views.model(parsed)
    views.fact(parsed.output_parsed)


async def response_parsing_helper(client: Any, views: Views, **asked: Any) -> None:
    await response_helper(client, views, **asked, text_format=City)


async def chat_schema(client: Any, views: Views, **asked: Any) -> None:
    await chat_create(client, views, **asked, response_format=CITY_FORMAT)


async def chat_schema_stream(client: Any, views: Views, **asked: Any) -> None:
    await chat_stream(client, views, **asked, response_format=CITY_FORMAT)


async def chat_json(client: Any, views: Views, **asked: Any) -> None:
    await chat_create(client, views, **asked, response_format={"type": "json_object"})


async def response_schema(client: Any, views: Views, **asked: Any) -> None:
    format = {"type": "json_schema", "name": "city", "schema": CITY_SCHEMA}
    await response_create(client, views, **asked, text={"format": format})


STRUCTURED = named(
    chat_parse,
    chat_raw_parse,
    chat_parsing_helper,
    chat_schema,
    chat_schema_stream,
    chat_json,
    response_parse,
    response_parsing_helper,
    response_schema,
)


@each_of(STRUCTURED)
@both
async def test_structured_output_gets_context_and_no_trailer_request(desk: Desk, surface: Surface) -> None:
    desk.answer(Told(PARIS))
    await assert_alike(desk, surface)
    assert modes_sent(desk) == {"readonly"}
    assert said(desk.home, "s") == [("user", SAID), ("assistant", PARIS)]


@both
async def test_parsed_reply_reports_readonly_mode(desk: Desk) -> None:
    desk.answer(Told(PARIS))
    client = desk.wrapped()
    replies = [
        await got(need(client, "chat.completions.parse")(**CHAT, response_format=City)),
        await got(need(client, "responses.parse")(**INPUT, text_format=City)),
    ]
    turns = [turn_of(reply) for reply in replies]
    assert [turn.mode for turn in turns if turn] == ["readonly"] * 2
    assert all(turn.report.mode_asked == "enabled" and "structured output" in turn.report.reason for turn in turns)


# --- tools --------------------------------------------------------------------------------------------

CHAT_TOOLS: dict[str, Any] = {"tools": [{"type": "function", "function": WEATHER}]}
RESPONSE_TOOLS: dict[str, Any] = {"tools": [{"type": "function", **WEATHER}]}


@pytest.mark.parametrize(
    ("surface", "tools", "text"),
    [
        *((surface, CHAT_TOOLS, "") for surface in MAIN_CHAT.values()),
        *((surface, RESPONSE_TOOLS, "") for surface in MAIN_RESPONSES.values()),
        (chat_stream, CHAT_TOOLS, "Let me look."),
        (response_stream, RESPONSE_TOOLS, "Let me look."),
    ],
)
@both
async def test_tool_calls_are_unchanged(desk: Desk, surface: Surface, tools: Any, text: str) -> None:
    desk.answer(Told(text, tool_calls=(CALL,)))
    await assert_alike(desk, surface, **tools)
    answer = messages(desk.home, "s")[-1]
    assert (answer["role"], answer["content"]) == ("assistant", text)
    assert answer["tool_calls"] == [{"id": "call_1", "name": "weather", "arguments": PARIS}]


def sunny(ask: Ask) -> Answer:
    """Calls the tool first, and answers when it has the result."""
    if any(role == "tool" for role, _ in ask.messages):
        return Told("It is sunny.")(ask)
    return Told("", tool_calls=(CALL,))(ask)


TOOL_LOG = [("user", SAID), ("assistant", ""), ("tool", "sun"), ("assistant", "It is sunny.")]


def as_dict(message: Any) -> Any:
    return message.model_dump(exclude_none=True)


def as_it_is(message: Any) -> Any:
    return message


@pytest.mark.parametrize("spell", [as_dict, as_it_is])
@both
async def test_a_tool_loop_of_chat_is_one_round(desk: Desk, spell: Callable[[Any], Any]) -> None:
    desk.answer(sunny)
    client = desk.wrapped()
    conversation: list[Any] = list(CHAT["messages"])
    first = await got(client.chat.completions.create(model="m", messages=conversation, **CHAT_TOOLS))
    conversation.append(spell(first.choices[0].message))
    conversation.append({"role": "tool", "tool_call_id": "call_1", "content": "sun"})
    second = await got(client.chat.completions.create(model="m", messages=conversation, **CHAT_TOOLS))
    assert content(second) == "It is sunny."
    assert [turn_of(first).round, turn_of(second).round] == [1, 1]
    assert said(desk.home, "s") == TOOL_LOG
    conversation += [spell(second.choices[0].message), {"role": "user", "content": "Thanks."}]
    third = await got(client.chat.completions.create(model="m", messages=conversation, **CHAT_TOOLS))
    assert turn_of(third).round == 2
    assert said(desk.home, "s")[4] == ("user", "Thanks.")


@both
async def test_a_streamed_tool_loop_is_one_round(desk: Desk) -> None:
    desk.answer(sunny)
    client = desk.wrapped()
    conversation: list[Any] = list(CHAT["messages"])
    async with opened(need(client, "chat.completions.stream")(model="m", messages=conversation, **CHAT_TOOLS)) as first:
        message = (await got(first.get_final_completion())).choices[0].message
    conversation.append(message)
    conversation.append({"role": "tool", "tool_call_id": "call_1", "content": "sun"})
    async with opened(client.chat.completions.stream(model="m", messages=conversation, **CHAT_TOOLS)) as second:
        assert content(await got(second.get_final_completion())) == "It is sunny."
    assert [turn_of(first).round, turn_of(second).round] == [1, 1]
    assert said(desk.home, "s") == TOOL_LOG


@pytest.mark.parametrize("spell", [as_dict, as_it_is])
@both
async def test_a_tool_loop_of_responses_is_one_round(desk: Desk, spell: Callable[[Any], Any]) -> None:
    desk.answer(sunny)
    create = need(desk.wrapped(), "responses.create")
    conversation: list[Any] = [{"role": "user", "content": SAID}]
    first = await got(create(model="m", input=conversation, **RESPONSE_TOOLS))
    conversation += [spell(item) for item in first.output]
    conversation.append({"type": "function_call_output", "call_id": "call_1", "output": "sun"})
    second = await got(create(model="m", input=conversation, **RESPONSE_TOOLS))
    assert second.output_text == "It is sunny."
    assert [turn_of(first).round, turn_of(second).round] == [1, 1]
    assert said(desk.home, "s") == TOOL_LOG


@both
async def test_a_tool_loop_over_stored_responses_is_one_round(desk: Desk) -> None:
    desk.answer(sunny)
    create = need(desk.wrapped(), "responses.create")
    first = await got(create(**INPUT, **RESPONSE_TOOLS))
    result = [{"type": "function_call_output", "call_id": "call_1", "output": "sun"}]
    second = await got(create(model="m", input=result, previous_response_id=first.id, **RESPONSE_TOOLS))
    assert second.output_text == "It is sunny."
    assert [turn_of(first).round, turn_of(second).round] == [1, 1]
    assert said(desk.home, "s") == TOOL_LOG
    assert desk.provider.seen[1].json["input"] == result


# --- what the provider keeps --------------------------------------------------------------------------


@both
async def test_a_chain_of_responses_keeps_context_out_of_its_input(desk: Desk) -> None:
    create = need(desk.wrapped(), "responses.create")
    previous: dict[str, Any] = {}
    for number, text in enumerate(("One.", "Two.", "Three."), 1):
        response = await got(create(model="m", input=text, **previous))
        assert response.output_text == TEXT
        assert turn_of(response).round == number
        previous = {"previous_response_id": response.id}
    for seen, text in zip(desk.provider.seen, ("One.", "Two.", "Three."), strict=True):
        assert seen.json["input"] == text
        assert mode_sent(seen) == "enabled"
        assert "<ctxwrap-context>" in seen.json["instructions"]
    assert [role for role, _ in said(desk.home, "s")] == ["user", "assistant"] * 3


@both
async def test_a_response_that_is_not_stored_carries_context_on_the_newest_message(desk: Desk) -> None:
    await got(need(desk.wrapped(), "responses.create")(**INPUT, store=False, instructions="Be brief."))
    sent = desk.provider.seen[0].json
    assert "Be brief." in sent["instructions"]
    assert "<ctxwrap-context>\n" not in sent["instructions"].partition("Be brief.")[2]
    assert sent["input"][-1]["content"].startswith(SAID)
    assert "<ctxwrap-context>" in sent["input"][-1]["content"]


async def stored_response(client: Any, views: Views, **asked: Any) -> None:
    response = await got(need(client, "responses.create")(**{**INPUT, **asked}))
    views.model(await got(client.responses.retrieve(response.id)))


async def stored_response_stream(client: Any, views: Views, **asked: Any) -> None:
    response = await got(need(client, "responses.create")(**{**INPUT, **asked}))
    async for event in each(await got(client.responses.retrieve(response.id, stream=True))):
        views.model(event)


async def stored_response_raw(client: Any, views: Views, **asked: Any) -> None:
    response = await got(need(client, "responses.create")(**{**INPUT, **asked}))
    views.raw((await got(client.responses.with_raw_response.retrieve(response.id))).text)


async def stored_response_input(client: Any, views: Views, **asked: Any) -> None:
    response = await got(need(client, "responses.create")(**{**INPUT, **asked}))
    async for item in each(await got(client.responses.input_items.list(response.id))):
        views.model(item)


async def stored_chat(client: Any, views: Views, **asked: Any) -> None:
    reply = await got(client.chat.completions.create(**{**CHAT, **asked}, store=True))
    views.model(await got(need(client, "chat.completions.retrieve")(reply.id)))


async def stored_chats(client: Any, views: Views, **asked: Any) -> None:
    await got(client.chat.completions.create(**{**CHAT, **asked}, store=True))
    async for reply in each(await got(need(client, "chat.completions.list")())):
        views.model(reply)


async def stored_chat_messages(client: Any, views: Views, **asked: Any) -> None:
    reply = await got(client.chat.completions.create(**{**CHAT, **asked}, store=True))
    views.fact(
        [
            (message.role, message.content)
            async for message in each(await got(need(client, "chat.completions.messages.list")(reply.id)))
            if message.content
        ]
    )


STORED = named(
    stored_response,
    stored_response_stream,
    stored_response_raw,
    stored_response_input,
    stored_chat,
    stored_chats,
    stored_chat_messages,
)


@each_of(STORED)
@both
async def test_stored_replies_are_retrieved_without_a_trailer(desk: Desk, surface: Surface) -> None:
    await assert_alike(desk, surface)
    assert modes_sent_by_posts(desk) == {"enabled"}


def modes_sent_by_posts(desk: Desk) -> set[str]:
    return {mode_sent(seen) for seen in desk.provider.seen if seen.method == "POST"}


# --- types and identity -------------------------------------------------------------------------------

METHODS = {
    "chat.completions": ("create", "parse", "stream"),
    "beta.chat.completions": ("create", "parse", "stream"),
    "completions": ("create",),
    "responses": ("create", "parse", "stream"),
}


def methods_of(client: Any) -> dict[str, Any]:
    """Every method that talks to a model, as far as this version of the SDK has it."""
    found = {"copy": client.copy, "with_options": client.with_options}
    for path, names in METHODS.items():
        resource = reduce(lambda value, name: getattr(value, name, None), path.split("."), client)
        found |= {f"{path}.{name}": getattr(resource, name) for name in names if hasattr(resource, name)}
    return found


@both
async def test_a_wrapped_client_is_still_a_client(desk: Desk) -> None:
    bare, wrapped = desk.bare(), desk.wrapped()
    assert isinstance(wrapped, type(bare))
    assert (type(wrapped).__name__, type(wrapped).__module__) == (type(bare).__name__, type(bare).__module__)
    assert isinstance(wrapped.chat.completions, type(bare.chat.completions))
    assert type(wrapped.chat.completions).__name__ == type(bare.chat.completions).__name__
    assert (wrapped.api_key, wrapped.base_url.path, wrapped.max_retries) == ("k", bare.base_url.path, 0)


@both
async def test_methods_keep_their_signatures(desk: Desk) -> None:
    bare, wrapped = methods_of(desk.bare()), methods_of(desk.wrapped())
    assert {"chat.completions.create", "completions.create", "copy"} <= set(bare)
    for look in (inspect.signature, lambda method: method.__name__, inspect.getdoc):
        assert {name: look(method) for name, method in wrapped.items()} == {
            name: look(method) for name, method in bare.items()
        }


@both
async def test_a_coroutine_function_stays_one(desk: Desk) -> None:
    bare, wrapped = methods_of(desk.bare()), methods_of(desk.wrapped())
    expected = {name for name, method in bare.items() if inspect.iscoroutinefunction(method)}
    assert {name for name, method in wrapped.items() if inspect.iscoroutinefunction(method)} == expected


@both
async def test_wrapping_a_wrapped_client_changes_nothing(desk: Desk) -> None:
    wrapped = desk.wrapped()
    assert ctxwrap.wrap(wrapped) is wrapped
    other = ctxwrap.wrap(wrapped, session="other")
    assert type(other) is type(wrapped)
    await got(other.chat.completions.create(**CHAT))
    assert said(desk.home, "s") == []
    assert said(desk.home, "other") == HELLO
    assert desk.provider.seen[0].body.count(b"<ctxwrap-protocol ") == 1


@both
async def test_the_client_that_was_wrapped_is_not_changed(desk: Desk) -> None:
    client = desk.client()
    cls, http_client = type(client), client._client
    wrapped = ctxwrap.wrap(client, store=desk.home, session="s")
    await got(wrapped.chat.completions.create(**CHAT))
    reply = await got(client.chat.completions.create(**CHAT))
    await got(desk.bare().chat.completions.create(**CHAT))
    assert (type(client), client._client) == (cls, http_client)
    assert type(client.chat.completions) is type(desk.bare().chat.completions)
    assert desk.provider.seen[1].body == desk.bare_provider.seen[0].body
    assert (content(reply), turn_of(reply)) == (TEXT, None)
    assert said(desk.home, "s") == HELLO


@both
async def test_a_copy_keeps_type_and_context(desk: Desk) -> None:
    wrapped = desk.wrapped()
    for made in (wrapped.copy(), wrapped.with_options(timeout=3), wrapped.with_options(http_client=desk.http_client())):
        assert type(made) is type(wrapped)
        assert turn_of(await got(made.chat.completions.create(**CHAT))).session == "s"
    assert [turn["mode"] for turn in events(desk.home, "s") if turn["type"] == "start"] == ["enabled"] * 3


@both
async def test_a_copy_with_its_own_http_client_sends_through_it(desk: Desk) -> None:
    sent: list[str] = []

    def note(request: Any) -> None:
        sent.append(request.url.path)

    async def note_async(request: Any) -> None:
        note(request)

    http_client = desk.http_client()
    http_client.event_hooks = {"request": [note_async if desk.is_async else note], "response": []}
    await got(desk.wrapped().with_options(http_client=http_client).chat.completions.create(**CHAT))
    assert sent == ["/v1/chat/completions"]


@sync_only
@both
async def test_httpx2_client_is_supported(desk: Desk) -> None:
    pytest.importorskip("httpx2")
    if not hasattr(openai, "DefaultHttpx2Client"):
        pytest.skip(f"openai {openai.__version__} takes no httpx2 client")
    http_client = desk.closed_later(openai.DefaultHttpx2Client(verify=False))
    client = desk.wrapped(options={"http_client": http_client})
    for surface in (chat_create, chat_stream, chat_streamed, response_helper):
        assert_clean(*(await looked(client, surface)).texts)
    assert said(desk.home, "s")[:2] == HELLO


NESTED: dict[str, Any] = {
    "messages": [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": SAID}]},
        {"role": "assistant", "content": "Hello."},
        {"role": "user", "content": [{"type": "text", "text": "Again."}]},
    ],
    "tools": CHAT_TOOLS["tools"],
    "metadata": {"a": "b"},
    "stop": ["END"],
    "max_completion_tokens": 50,
}
NESTED_INPUT: dict[str, Any] = {
    "input": [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": [{"type": "input_text", "text": SAID}]},
    ],
    "tools": RESPONSE_TOOLS["tools"],
    "metadata": {"a": "b"},
    "max_output_tokens": 50,
}
ASKED = [
    *((surface, NESTED) for surface in (chat_create, chat_helper, chat_parse)),
    *((surface, NESTED_INPUT) for surface in (response_create, response_helper, response_parse)),
    (response_create, {**NESTED_INPUT, "store": False}),
]


@pytest.mark.parametrize(("surface", "asked"), ASKED)
@both
async def test_arguments_of_the_caller_are_not_changed(desk: Desk, surface: Surface, asked: dict[str, Any]) -> None:
    desk.answer(Told(PARIS))
    given = {**copy.deepcopy(asked), "extra_body": {"own": {"x": [1]}}, "extra_headers": {"x-own": "1"}}
    before = copy.deepcopy(given)
    views = await looked(desk.wrapped(), surface, **given)
    assert views.values
    assert given == before
    assert modes_sent(desk) <= {"enabled", "readonly"}
    assert desk.provider.seen[0].json["own"] == {"x": [1]}
    assert desk.provider.seen[0].headers["x-own"] == "1"


@pytest.mark.parametrize("kind", [tuple, iter])
@both
async def test_messages_may_be_any_iterable(desk: Desk, kind: Callable[[Any], Any]) -> None:
    reply = await got(desk.wrapped().chat.completions.create(model="m", messages=kind(CHAT["messages"])))
    assert content(reply) == TEXT
    assert said(desk.home, "s") == HELLO
    assert mode_sent(desk.provider.seen[0]) == "enabled"


@both
async def test_turn_of_a_foreign_object_is_none(desk: Desk) -> None:
    bare = desk.bare()
    stream = await got(bare.chat.completions.create(**CHAT, stream=True))
    raw = await got(bare.chat.completions.with_raw_response.create(**CHAT))
    reply = await got(bare.chat.completions.create(**CHAT))
    foreign = [None, "text", 3, object(), {}, reply, stream, raw, bare, desk.wrapped()]
    assert [turn_of(value) for value in foreign] == [None] * len(foreign)
    assert len([chunk async for chunk in each(stream)]) > 1


async def as_reply(client: Any) -> Any:
    return await got(client.chat.completions.create(**CHAT))


async def as_stream(client: Any) -> Any:
    stream = await got(client.chat.completions.create(**CHAT, stream=True))
    assert [chunk async for chunk in each(stream)]
    return stream


async def as_raw(client: Any) -> Any:
    return await got(client.chat.completions.with_raw_response.create(**CHAT))


async def as_raw_stream(client: Any) -> Any:
    raw = await got(client.chat.completions.with_raw_response.create(**CHAT, stream=True))
    assert [chunk async for chunk in each(raw.parse())]
    return raw


async def as_stream_of_raw(client: Any) -> Any:
    stream = (await got(client.chat.completions.with_raw_response.create(**CHAT, stream=True))).parse()
    assert [chunk async for chunk in each(stream)]
    return stream


async def as_streamed(client: Any) -> Any:
    async with opened(client.chat.completions.with_streaming_response.create(**CHAT)) as response:
        await got(response.read())
    return response


async def as_helper(client: Any) -> Any:
    async with opened(need(client, "chat.completions.stream")(**CHAT)) as stream:
        await got(stream.until_done())
    return stream


async def as_legacy(client: Any) -> Any:
    return await got(client.completions.create(**PROMPT))


async def as_response(client: Any) -> Any:
    return await got(need(client, "responses.create")(**INPUT))


async def as_response_stream(client: Any) -> Any:
    stream = await got(need(client, "responses.create")(**INPUT, stream=True))
    assert [event async for event in each(stream)]
    return stream


async def as_response_helper(client: Any) -> Any:
    async with opened(need(client, "responses.stream")(**INPUT)) as stream:
        await got(stream.until_done())
    return stream


RESULTS = (
    as_reply,
    as_stream,
    as_raw,
    as_raw_stream,
    as_stream_of_raw,
    as_streamed,
    as_helper,
    as_legacy,
    as_response,
    as_response_stream,
    as_response_helper,
)


@pytest.mark.parametrize("result", RESULTS)
@both
async def test_turn_of_returns_the_record_of_a_results_turn(desk: Desk, result: Callable[[Any], Any]) -> None:
    turn = turn_of(await result(desk.wrapped()))
    assert turn is not None
    assert (turn.mode, turn.session, turn.tenant, turn.agent, turn.round) == ("enabled", "s", "default", "default", 1)
    assert (turn.report.status, turn.report.reading) == ("complete", "clean")
    assert [(change.kind, change.id) for change in turn.operations] == [("add", "w-1")]
    assert turn.snapshot["memory"]["working"][0]["content"] == REMEMBERED
    assert {item.kind for item in turn.pack} >= {"system", "memory", "request"}


@both
async def test_memory_of_one_call_is_in_the_next_request(desk: Desk) -> None:
    shown: list[Any] = []

    def looking(ask: Ask) -> Answer:
        shown.append(state_shown(ask)["memory"]["working"])
        return Told(TEXT)(ask)

    client = desk.wrapped()
    desk.provider.answer = looking
    for surface in (chat_create, response_stream, text_create):
        assert_clean(*(await looked(client, surface)).texts)
    assert [[memory["content"] for memory in memories] for memories in shown] == [[], [REMEMBERED], [REMEMBERED]]


# --- names for one request ----------------------------------------------------------------------------


METHODS_TO_CALL = {
    **named(chat_create, chat_stream, chat_helper, beta_chat_helper, chat_raw, chat_raw_by_client, chat_with_options),
    **named(chat_streamed_lines, text_create, response_create, response_helper, response_raw),
    **named(chat_parse, response_parse),
}
"""Every method that takes our keywords, and every way to it."""


@pytest.mark.parametrize(
    ("surface", "keyword"),
    [*((surface, "context_mode") for surface in METHODS_TO_CALL.values()), (chat_create, "contextMode")],
)
@both
async def test_call_accepts_session_and_mode(desk: Desk, surface: Surface, keyword: str) -> None:
    desk.answer(Told(PARIS))
    await looked(desk.bare(), surface)
    client = desk.wrapped()
    await looked(client, surface, **{"session": "own", keyword: "disabled"})
    assert [seen.body for seen in desk.provider.seen] == [seen.body for seen in desk.bare_provider.seen]
    views = await looked(client, surface, session="own")
    assert_clean(*views.texts)
    assert mode_sent(desk.provider.seen[-1]) != "disabled"
    assert said(desk.home, "own") == [("user", SAID), ("assistant", PARIS)] * 2
    assert said(desk.home, "s") == []
    assert_no_private_headers(desk.provider.seen)


OWN_HEADERS = {"x-ctxwrap-session": "own", "x-ctxwrap-mode": "readonly"}
NAMED_BY_HEADERS = [
    *((surface, OWN_HEADERS) for surface in (chat_create, chat_stream, chat_raw, chat_helper, response_create)),
    (text_create, {"X-Ctxwrap-Session": "own", "X-CTXWRAP-MODE": "readonly"}),
]


@pytest.mark.parametrize(("surface", "headers"), NAMED_BY_HEADERS)
@both
async def test_headers_of_a_call_set_session_and_mode(desk: Desk, surface: Surface, headers: dict[str, str]) -> None:
    await looked(desk.wrapped(), surface, extra_headers={**headers, "x-own": "1"})
    assert said(desk.home, "own") == HELLO
    assert modes_sent(desk) == {"readonly"}
    assert desk.provider.seen[0].headers["x-own"] == "1"
    assert_no_private_headers(desk.provider.seen)


@pytest.mark.parametrize(("surface", "headers"), NAMED_BY_HEADERS)
@both
async def test_headers_of_a_client_set_session_and_mode(desk: Desk, surface: Surface, headers: dict[str, str]) -> None:
    options = {"default_headers": {**headers, "x-own": "1"}}
    for client in (desk.wrapped(options=options), desk.wrapped().with_options(**options)):
        await looked(client, surface)
    assert said(desk.home, "own") == HELLO * 2
    assert modes_sent(desk) == {"readonly"}
    assert desk.provider.seen[0].headers["x-own"] == "1"
    assert_no_private_headers(desk.provider.seen)


@both
async def test_other_requests_do_not_send_ctxwrap_headers(desk: Desk) -> None:
    own = {"x-ctxwrap-session": "own", "x-ctxwrap-mode": "shadow"}
    client = desk.wrapped(options={"default_headers": own})
    assert [model.id async for model in each(await got(client.models.list()))] == ["practice"]
    await got(client.embeddings.create(model="m", input="text", extra_headers=own))
    assert len(desk.provider.seen) == 2
    assert_no_private_headers(desk.provider.seen)


def assert_no_private_headers(requests: list[RecordedRequest]) -> None:
    names = {name for seen in requests for name in seen.headers}
    assert names
    assert not [name for name in names if "ctxwrap" in name]


@both
async def test_settings_of_the_call_override_using_and_using_overrides_wrap(desk: Desk) -> None:
    client = desk.wrapped(session="of-wrap", context_mode="readonly")
    turns = [turn_of(await as_reply(client))]
    with ctxwrap.using(session="of-using", context_mode="shadow"):
        turns.append(turn_of(await as_reply(client)))
        own = {"session": "of-call", "context_mode": "enabled"}
        turns.append(turn_of(await got(client.chat.completions.create(**CHAT, **own))))
        headers = {"x-ctxwrap-session": "of-header", "x-ctxwrap-mode": "disabled"}
        turns.append(turn_of(await got(client.chat.completions.create(**CHAT, extra_headers=headers))))
        turns.append(turn_of(await got(client.chat.completions.create(**CHAT, **own, extra_headers=headers))))
    turns.append(turn_of(await as_reply(client)))
    assert [(turn.session, turn.mode) for turn in turns if turn] == [
        ("of-wrap", "readonly"),
        ("of-using", "shadow"),
        ("of-call", "enabled"),
        ("of-header", "disabled"),
        ("of-call", "enabled"),
        ("of-wrap", "readonly"),
    ]


@both
async def test_nested_using_blocks_combine(desk: Desk) -> None:
    client = desk.wrapped()

    async def names() -> tuple[str, ...]:
        turn = turn_of(await as_reply(client))
        return (turn.tenant, turn.agent, turn.session, turn.mode)

    with ctxwrap.using(tenant="t", session="outer"):
        assert await names() == ("t", "default", "outer", "enabled")
        with ctxwrap.using(agent="a", session="inner", contextMode="readonly"):
            assert await names() == ("t", "a", "inner", "readonly")
        assert await names() == ("t", "default", "outer", "enabled")
    assert await names() == ("default", "default", "s", "enabled")
    assert said(desk.home, "outer", tenant="t") == HELLO * 2


def session_of(client: Any) -> str:
    return turn_of(client.chat.completions.create(**CHAT)).session


@sync_only
@both
async def test_thread_gets_the_session_of_using_only_through_carry(desk: Desk) -> None:
    client = desk.wrapped()
    with ThreadPoolExecutor(1) as pool:
        for name in ("first", "second"):
            with ctxwrap.using(session=name):
                assert pool.submit(session_of, client).result() == "s", "the client's own"
                assert pool.submit(ctxwrap.carry(session_of), client).result() == name
                assert list(pool.map(ctxwrap.carry(session_of), [client] * 2)) == [name] * 2


@sync_only
@both
async def test_threads_of_different_sessions_do_not_mix(desk: Desk) -> None:
    client = desk.wrapped()
    gate, names = threading.Barrier(4), [f"session-{number}" for number in range(4)]

    def work(name: str) -> str:
        with ctxwrap.using(session=name):
            gate.wait(10)
            return session_of(client)

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(work, names)) == names
    assert [said(desk.home, name) for name in names] == [HELLO] * 4


@async_only
@both
async def test_a_task_started_inside_using_belongs_to_it(desk: Desk) -> None:
    client = desk.wrapped()
    with ctxwrap.using(session="own"):
        task = asyncio.create_task(as_reply(client))
    assert turn_of(await task).session == "own"
    assert turn_of(await as_reply(client)).session == "s"


@async_only
@both
async def test_tasks_of_different_sessions_do_not_mix(desk: Desk) -> None:
    client = desk.wrapped()
    names = [f"session-{number}" for number in range(4)]

    async def work(name: str) -> str:
        with ctxwrap.using(session=name):
            return turn_of(await as_reply(client)).session

    assert await asyncio.gather(*map(work, names)) == names
    assert [said(desk.home, name) for name in names] == [HELLO] * 4


@async_only
@both
async def test_a_stream_read_in_another_task_stays_in_its_session(desk: Desk) -> None:
    client = desk.wrapped()
    with ctxwrap.using(session="own"):
        stream = await got(client.chat.completions.create(**CHAT, stream=True))

    async def read() -> str:
        return "".join([choice.delta.content or "" async for chunk in stream for choice in chunk.choices])

    with ctxwrap.using(session="other"):
        assert await asyncio.create_task(read()) == TEXT
    assert said(desk.home, "own") == HELLO
    assert said(desk.home, "other") == []


@pytest.mark.parametrize(
    ("surface", "asked"),
    [
        *((surface, {"context_mode": "enabld"}) for surface in (chat_create, chat_stream, chat_raw, response_helper)),
        (chat_helper, {"contextMode": "enabld"}),
        (text_create, {"contextMode": "enabld"}),
    ],
)
@both
async def test_a_misspelt_mode_of_a_call_is_an_error_and_sends_nothing(
    desk: Desk, surface: Surface, asked: dict[str, str]
) -> None:
    with pytest.raises(ctxwrap.SettingsError, match=r"did you mean 'enabled'.* disabled, enabled, readonly, shadow"):
        await looked(desk.wrapped(), surface, **asked)
    assert desk.provider.seen == []
    assert said(desk.home, "s") == []


@both
async def test_a_misspelt_mode_in_a_header_is_an_error_and_sends_nothing(desk: Desk) -> None:
    bad = {"x-ctxwrap-mode": "readnly"}
    with pytest.raises(ctxwrap.SettingsError, match="did you mean 'readonly'"):
        await got(desk.wrapped().chat.completions.create(**CHAT, extra_headers=bad))
    with pytest.raises(ctxwrap.SettingsError, match="did you mean 'readonly'"):
        await got(desk.wrapped(options={"default_headers": bad}).chat.completions.create(**CHAT))
    assert desk.provider.seen == []


@pytest.mark.parametrize(
    ("settings", "hint"),
    [
        ({"context_mode": "enabld"}, "did you mean 'enabled'"),
        ({"contextMode": "enabld"}, "did you mean 'enabled'"),
        ({"contxt_mode": "enabled"}, "did you mean 'context_mode'"),
        ({"recrod": False}, "did you mean 'record'"),
        ({"history_tokens": -1}, "history_tokens must be a whole number"),
    ],
)
@both
async def test_a_misspelt_setting_is_an_error(desk: Desk, settings: dict[str, Any], hint: str) -> None:
    with pytest.raises(ctxwrap.SettingsError, match=hint):
        desk.wrapped(**settings)
    with pytest.raises(ctxwrap.SettingsError, match=hint):
        ctxwrap.wrap(desk.wrapped(), **settings)


@pytest.mark.parametrize(
    ("names", "hint"),
    [({"sesion": "own"}, "did you mean 'session'"), ({"context_mode": "shadw"}, "did you mean 'shadow'")],
)
@both
async def test_a_misspelt_name_of_using_is_an_error(desk: Desk, names: dict[str, str], hint: str) -> None:
    client = desk.wrapped()
    with pytest.raises(ctxwrap.SettingsError, match=hint), ctxwrap.using(**names):
        await as_reply(client)
    assert desk.provider.seen == []


@both
async def test_unknown_keyword_raises_the_sdks_error(desk: Desk) -> None:
    with pytest.raises(TypeError, match="sesion"):
        await got(desk.wrapped().chat.completions.create(**CHAT, sesion="own"))
    assert desk.provider.seen == []


@pytest.mark.parametrize("session", ["", "x" * 2000])
@both
async def test_invalid_session_name_raises_and_sends_nothing(desk: Desk, session: str) -> None:
    with pytest.raises(ctxwrap.InvalidId):
        await got(desk.wrapped().chat.completions.create(**CHAT, session=session))
    assert desk.provider.seen == []


@each_of(named(chat_create, chat_stream, chat_helper, chat_raw, response_create, text_create))
@both
async def test_call_without_a_session_warns_once_and_runs_unwrapped(desk: Desk, surface: Surface) -> None:
    await looked(desk.bare(), surface)
    client = desk.wrapped(session=None)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for user in (client, client, client.with_options(timeout=3)):
            await looked(user, surface)
    ours = [warning for warning in caught if not issubclass(warning.category, ResourceWarning)]
    assert [warning.category for warning in ours] == [ctxwrap.NoSessionWarning]
    assert "session=" in str(caught[0].message)
    assert [seen.body for seen in desk.provider.seen] == [desk.bare_provider.seen[0].body] * 3
    assert not list(desk.home.rglob("*.jsonl"))


@both
async def test_turn_of_a_call_without_a_session_reports_it(desk: Desk) -> None:
    client = desk.wrapped(session=None)
    with pytest.warns(ctxwrap.NoSessionWarning):
        turns = [turn_of(await result(client)) for result in (as_reply, as_stream, as_raw, as_response)]
    assert [(turn.mode, turn.session, turn.report.reason) for turn in turns if turn] == [
        ("disabled", "", "no session was named")
    ] * 4


@both
async def test_disabled_call_without_a_session_does_not_warn(desk: Desk) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        reply = await as_reply(desk.wrapped(session=None, context_mode="disabled"))
    assert (content(reply), turn_of(reply).mode) == (TEXT, "disabled")


# --- disabled, shadow, readonly -----------------------------------------------------------------------


async def raw_bytes_of_chat(client: Any, **asked: Any) -> bytes:
    raw = await got(client.chat.completions.with_raw_response.create(**NESTED, model="m", **asked))
    return raw.content


async def raw_bytes_of_chat_stream(client: Any, **asked: Any) -> bytes:
    create = client.chat.completions.with_streaming_response.create
    async with opened(create(**NESTED, model="m", stream=True, **asked)) as response:
        return await got(response.read())


async def raw_bytes_of_text(client: Any, **asked: Any) -> bytes:
    return (await got(client.completions.with_raw_response.create(**PROMPT, max_tokens=5, **asked))).content


async def raw_bytes_of_response(client: Any, **asked: Any) -> bytes:
    create = need(client, "responses.with_raw_response.create")
    return (await got(create(**NESTED_INPUT, model="m", **asked))).content


async def raw_bytes_of_response_stream(client: Any, **asked: Any) -> bytes:
    create = need(client, "responses.with_streaming_response.create")
    async with opened(create(**NESTED_INPUT, model="m", stream=True, **asked)) as response:
        return await got(response.read())


async def raw_bytes_of_parse(client: Any, **asked: Any) -> bytes:
    parse = need(client, "chat.completions.with_raw_response.parse")
    return (await got(parse(**CHAT, response_format=City, **asked))).content


async def raw_bytes_of_response_parse(client: Any, **asked: Any) -> bytes:
    parse = need(client, "responses.with_raw_response.parse")
    return (await got(parse(**INPUT, text_format=City, **asked))).content


RAW_BYTES = (
    raw_bytes_of_chat,
    raw_bytes_of_chat_stream,
    raw_bytes_of_text,
    raw_bytes_of_response,
    raw_bytes_of_response_stream,
    raw_bytes_of_parse,
    raw_bytes_of_response_parse,
)


def on_the_wire(seen: RecordedRequest) -> tuple[Any, ...]:
    headers = [(name, value) for name, value in seen.headers.items() if name not in VOLATILE_HEADERS]
    return seen.method, seen.path, headers, seen.body


@pytest.mark.parametrize(
    ("mode", "ask"),
    [
        *(("disabled", ask) for ask in RAW_BYTES),
        *(("shadow", ask) for ask in (raw_bytes_of_chat, raw_bytes_of_chat_stream, raw_bytes_of_response_stream)),
    ],
)
@both
async def test_disabled_and_shadow_change_no_byte_in_either_direction(
    desk: Desk, ask: Callable[..., Any], mode: str
) -> None:
    desk.answer(Told(PARIS))
    expected = await ask(desk.bare())
    assert await ask(desk.wrapped(context_mode=mode)) == expected
    assert on_the_wire(desk.provider.seen[0]) == on_the_wire(desk.bare_provider.seen[0])
    assert said(desk.home, "s")[-1] == ("assistant", PARIS)


@pytest.mark.parametrize("ask", [raw_bytes_of_chat, raw_bytes_of_chat_stream, raw_bytes_of_response_stream])
@both
async def test_disabled_call_records_a_compressed_reply(desk: Desk, ask: Callable[..., Any]) -> None:
    desk.answer(Told(PARIS, gzip=True))
    expected = await ask(desk.bare())
    assert await ask(desk.wrapped(context_mode="disabled")) == expected
    assert said(desk.home, "s")[-1] == ("assistant", PARIS)


@each_of({**STREAMS, **named(chat_create, chat_raw_stream, chat_copy, chat_parse)})
@both
async def test_disabled_call_equals_the_bare_clients_request_and_result(desk: Desk, surface: Surface) -> None:
    desk.answer(Told(PARIS))
    bare = await looked(desk.bare(), surface)
    wrapped = await looked(desk.wrapped(context_mode="disabled"), surface)
    assert (wrapped.values, wrapped.texts) == (bare.values, bare.texts)
    assert list(map(on_the_wire, desk.provider.seen)) == list(map(on_the_wire, desk.bare_provider.seen))


@pytest.mark.parametrize("mode", ["disabled", "shadow"])
@pytest.mark.parametrize("ask", [raw_bytes_of_chat, raw_bytes_of_chat_stream, raw_bytes_of_response_stream])
@both
async def test_disabled_and_shadow_keep_a_reply_that_looks_like_a_trailer(
    desk: Desk, ask: Callable[..., Any], mode: str
) -> None:
    text = f'{TEXT}\n\n{SEPARATOR}\n{{"version": "2.2"}}'
    desk.answer(lambda ask: Answer(text))
    expected = await ask(desk.bare())
    assert SEPARATOR.encode() in expected
    assert await ask(desk.wrapped(context_mode=mode)) == expected
    assert said(desk.home, "s")[-1] == ("assistant", text)


@both
async def test_disabled_with_a_session_is_recorded_and_the_round_advances(desk: Desk) -> None:
    client = desk.wrapped(context_mode="disabled")
    turns = [turn_of(await result(client)) for result in (as_reply, as_stream, as_response)]
    assert [(turn.mode, turn.round, turn.operations) for turn in turns if turn] == [
        ("disabled", number, ()) for number in (1, 2, 3)
    ]
    assert said(desk.home, "s") == HELLO * 3
    assert [event["status"] for event in events(desk.home, "s") if event["type"] == "done"] == ["ok"] * 3
    reply = await got(client.chat.completions.create(**CHAT, context_mode="enabled"))
    assert turn_of(reply).round == 4


@both
async def test_disabled_without_recording_leaves_no_log(desk: Desk) -> None:
    client = desk.wrapped(context_mode="disabled", record=False)
    for result in (as_reply, as_stream, as_response, as_helper):
        assert turn_of(await result(client)).mode == "disabled"
    assert not list(desk.home.rglob("*.jsonl"))
    assert modes_sent(desk) == {"disabled"}


@both
async def test_shadow_records_what_it_would_have_sent(desk: Desk) -> None:
    client = desk.wrapped(context_mode="shadow")
    turns = [turn_of(await result(client)) for result in (as_reply, as_stream, as_raw, as_response)]
    assert [turn.mode for turn in turns if turn] == ["shadow"] * 4
    for turn in turns:
        assert {item.kind for item in turn.pack if item.included} >= {"system", "memory", "request"}
    assert said(desk.home, "s") == HELLO * 4
    assert modes_sent(desk) == {"disabled"}


@each_of(MAIN)
@both
async def test_readonly_shows_context_and_asks_for_no_trailer(desk: Desk, surface: Surface) -> None:
    asks: list[Ask] = []

    def noting(ask: Ask) -> Answer:
        asks.append(ask)
        return Told(TEXT)(ask)

    desk.provider.answer = noting
    bare = await looked(desk.bare(), surface)
    wrapped = await looked(desk.wrapped(context_mode="readonly"), surface)
    assert wrapped.values == bare.values
    assert_clean(*wrapped.texts)
    assert modes_sent(desk) == {"readonly"}
    assert [state_shown(ask)["runtime"]["round"] for ask in asks] == list(range(1, len(asks) + 1))
    assert not any(asks_for_trailer(ask.system) for ask in asks)


@each_of(named(chat_create, chat_stream, text_create, response_stream))
@both
async def test_unrequested_trailer_is_not_shown_and_not_applied(desk: Desk, surface: Surface) -> None:
    desk.provider.answer = lambda ask: Answer(TEXT + trailer(ask))
    bare = await looked(desk.bare(), surface)
    wrapped = await looked(desk.wrapped(context_mode="readonly"), surface)
    assert wrapped.values == bare.values
    assert_clean(*wrapped.texts)
    assert not any("operations" in event for event in events(desk.home, "s"))


# --- retries and errors -------------------------------------------------------------------------------

BUSY = Failure(429, headers={"retry-after-ms": "1"})


def after_failures(answering: Answering, *failures: Failure) -> Answering:
    waiting = list(failures)
    return lambda ask: waiting.pop(0) if waiting else answering(ask)


RETRIED = named(
    chat_create, chat_stream, chat_helper, chat_raw, chat_raw_stream, response_create, response_stream, text_create
)


@each_of(RETRIED)
@both
async def test_a_retry_is_one_turn(desk: Desk, surface: Surface) -> None:
    desk.provider.answer = after_failures(Told(TEXT), BUSY, BUSY)
    views = await looked(desk.wrapped(options={"max_retries": 2}), surface)
    assert_clean(*views.texts)
    assert [seen.headers["x-stainless-retry-count"] for seen in desk.provider.seen] == ["0", "1", "2"]
    assert len({seen.body for seen in desk.provider.seen}) == 1
    assert modes_sent(desk) == {"enabled"}
    assert said(desk.home, "s") == HELLO
    assert [event["type"] for event in events(desk.home, "s")] == ["start", "snapshot", "done"]
    assert {message["ctx"]["round"] for message in messages(desk.home, "s")} == {1}


@both
async def test_call_repeated_after_an_error_stays_in_its_round(desk: Desk) -> None:
    desk.provider.answer = after_failures(Told(TEXT), Failure(400))
    client = desk.wrapped()
    with pytest.raises(openai.BadRequestError):
        await as_reply(client)
    assert turn_of(await as_reply(client)).round == 1


FAILING = named(chat_stream, chat_helper, chat_raw, chat_streamed_lines, response_create, response_helper, text_create)


def about(error: BaseException) -> dict[str, Any]:
    """Everything a caller can learn from an error."""
    names = ("message", "code", "param", "type", "body", "status_code", "request_id")
    facts: dict[str, Any] = {name: getattr(error, name, None) for name in names}
    facts |= {"class": type(error), "text": str(error), "cause": type(error.__cause__)}
    request, response = getattr(error, "request", None), getattr(error, "response", None)
    if request is not None:
        facts["request"] = (type(request), request.method, request.url.path)
    if response is not None:
        headers = {name: value for name, value in response.headers.items() if name not in CHANGED_HEADERS}
        facts["response"] = (type(response), response.status_code, response.text, headers)
        facts["its request"] = response.request is request
    return facts


async def failure_of(client: Any, surface: Surface, **asked: Any) -> dict[str, Any]:
    with pytest.raises(openai.APIError) as caught:
        await looked(client, surface, **asked)
    assert_clean(str(caught.value), repr(caught.value))
    return about(caught.value)


def assert_logged_as_failed(desk: Desk) -> None:
    assert said(desk.home, "s") == [("user", SAID)]
    assert [event["type"] for event in events(desk.home, "s")] == ["start", "done"]
    assert events(desk.home, "s")[-1]["status"] == "error"


@pytest.mark.parametrize(
    ("status", "surface"),
    [
        *((status, chat_create) for status in (400, 401, 404, 429, 500, 503)),
        *((429, surface) for surface in FAILING.values()),
    ],
)
@both
async def test_provider_error_equals_the_bare_clients_error(desk: Desk, surface: Surface, status: int) -> None:
    desk.script(Failure(status, "no tea left", param="tea", code="empty", headers={"x-own": "1"}))
    expected = await failure_of(desk.bare(), surface)
    assert (expected["status_code"], expected["code"]) == (status, "empty")
    assert await failure_of(desk.wrapped(), surface) == expected
    assert_logged_as_failed(desk)


@both
async def test_an_error_after_all_retries_is_one_failed_turn(desk: Desk) -> None:
    desk.script(BUSY)
    expected = await failure_of(desk.bare(max_retries=2), chat_create)
    assert await failure_of(desk.wrapped(options={"max_retries": 2}), chat_create) == expected
    assert len(desk.provider.seen) == len(desk.bare_provider.seen) == 3
    assert_logged_as_failed(desk)


@each_of(named(chat_create, chat_stream, response_helper))
@both
async def test_a_refused_connection_is_the_bare_client_s_error(desk: Desk, surface: Surface) -> None:
    bare, wrapped = desk.bare(), desk.wrapped()
    desk.bare_provider.close()
    desk.provider.close()
    expected = await failure_of(bare, surface)
    assert expected["class"] is openai.APIConnectionError
    assert await failure_of(wrapped, surface) == expected
    assert_logged_as_failed(desk)


@each_of(named(chat_create, chat_stream, response_helper))
@both
async def test_a_timeout_is_the_bare_client_s_error(desk: Desk, surface: Surface) -> None:
    waiting, short = threading.Event(), openai.Timeout(10, read=0.05)  # a busy machine takes longer to connect
    desk.script(Failure(500, hang=lambda: waiting.wait(10)))
    try:
        expected = await failure_of(desk.bare(), surface, timeout=short)
        assert expected["class"] is openai.APITimeoutError
        assert await failure_of(desk.wrapped(), surface, timeout=short) == expected
    finally:
        waiting.set()
    assert_logged_as_failed(desk)


@pytest.mark.parametrize("mode", ["disabled", "shadow", "readonly"])
@both
async def test_an_error_is_logged_in_every_mode(desk: Desk, mode: str) -> None:
    desk.script(Failure(400, "no tea left"))
    expected = await failure_of(desk.bare(), chat_create)
    assert await failure_of(desk.wrapped(context_mode=mode), chat_create) == expected
    assert_logged_as_failed(desk)


async def as_left_chat(client: Any) -> Any:
    return await left(await got(client.chat.completions.create(**CHAT, stream=True)))


async def as_left_text(client: Any) -> Any:
    return await left(await got(client.completions.create(**PROMPT, stream=True)))


async def as_left_response(client: Any) -> Any:
    return await left(await got(need(client, "responses.create")(**INPUT, stream=True)))


async def as_left_helper(client: Any) -> Any:
    async with opened(need(client, "chat.completions.stream")(**CHAT)) as stream:
        return await left(stream)


async def left(stream: Any) -> Any:
    """`stream`, closed after its first event."""
    assert await got(anext(stream) if hasattr(stream, "__anext__") else next(stream))
    await got(stream.close())
    return stream


@pytest.mark.parametrize("how", ["error_after", "cut_after"])
@each_of(STREAMS)
@both
async def test_broken_stream_equals_the_bare_clients(desk: Desk, surface: Surface, how: str) -> None:
    desk.answer(Told(TEXT, **{how: 1}))
    bare, bare_error = await broken(desk.bare(), surface)
    wrapped, error = await broken(desk.wrapped(), surface)
    assert wrapped.values == bare.values
    assert_clean(*wrapped.texts, str(error))
    assert (error and about(error)) == (bare_error and about(bare_error))
    assert [message["content"] for message in messages(desk.home, "s")] == [SAID, "Hello,"]
    assert messages(desk.home, "s")[-1]["ctx"]["status"] == "aborted"
    assert events(desk.home, "s")[-1]["status"] == "error"


async def broken(client: Any, surface: Surface) -> tuple[Views, Exception | None]:
    """What was seen of a stream until it broke, and what was raised then."""
    views = Views()
    try:
        await surface(client, views)
    except Exception as error:
        return views, error
    return views, None


@each_of(named(as_left_chat, as_left_helper, as_left_text, as_left_response))
@both
async def test_stream_left_by_the_caller_is_logged_as_cancelled(desk: Desk, surface: Callable[[Any], Any]) -> None:
    stream = await surface(desk.wrapped())
    assert said(desk.home, "s")[0] == ("user", SAID)
    assert events(desk.home, "s")[-1]["status"] == "cancelled"
    assert turn_of(stream).report.status == "aborted"
    assert not any("operations" in event for event in events(desk.home, "s"))
