"""What the official SDKs and litellm read from the practice provider, API by API."""

import asyncio
import json
from typing import Any

import anthropic
import openai
import pytest
from pydantic import BaseModel

from ctxwrap.providers.openai_chat import CHAT
from ctxwrap.testing.practice import Answer, Ask, ToolCall
from ctxwrap.tokens import counter_for

TEA = Answer("Tea is a fine drink.")
WEATHER = ToolCall("call_1", "weather", '{"city": "Paris"}')
TOOL = {
    "name": "weather",
    "description": "The weather.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}
CHAT_TOOLS: Any = [{"type": "function", "function": TOOL}]
RESPONSE_TOOLS: Any = [{"type": "function", "strict": False, **TOOL}]
ANTHROPIC_TOOLS: Any = [{"name": "weather", "description": "The weather.", "input_schema": TOOL["parameters"]}]
HELLO: Any = [{"role": "user", "content": "hello there"}]
SAY_HELLO: dict[str, Any] = {"model": "m", "messages": HELLO}


def _tools(tools: Any) -> int:
    """What definitions of tools add to a request."""
    return CHAT.request_tokens({"tools": tools}, counter_for("gpt-4o")) - 3


# --- chat completions ---------------------------------------------------------------------------------


def test_chat_answers_completely(practice):
    reply = practice(TEA).openai.chat.completions.create(**SAY_HELLO)
    assert reply.choices[0].message.content == "Tea is a fine drink."
    assert reply.choices[0].finish_reason == "stop"
    assert (reply.id, reply.created, reply.model) == ("chatcmpl-practice-000001", 1_700_000_000, "m")
    assert (reply.usage.prompt_tokens, reply.usage.completion_tokens) == (9, 6)
    assert reply._request_id == "req_practice-000001"


def test_chat_streams_words_and_then_the_usage(practice):
    stream = practice(TEA).openai.chat.completions.create(
        **SAY_HELLO, stream=True, stream_options={"include_usage": True}
    )
    chunks = list(stream)
    assert [chunk.choices[0].delta.content for chunk in chunks[:-1]] == [
        *("", "Tea", " is", " a", " fine", " drink."),
        None,
    ]
    assert chunks[0].choices[0].delta.role == "assistant"
    assert chunks[-2].choices[0].finish_reason == "stop"
    assert chunks[-1].choices == []
    assert chunks[-1].usage.total_tokens == 15


def test_chat_without_include_usage_sends_no_usage_chunk(practice):
    chunks = list(practice(TEA).openai.chat.completions.create(**SAY_HELLO, stream=True))
    assert all(chunk.choices and chunk.usage is None for chunk in chunks)


def test_chat_stream_helper_builds_the_same_message(practice):
    answer = Answer("Let me see.", tool_calls=(WEATHER,), reasoning="They want the weather.")
    with practice(answer).openai.chat.completions.stream(**SAY_HELLO, tools=CHAT_TOOLS) as stream:
        deltas = [event for event in stream if event.type == "tool_calls.function.arguments.delta"]
        message = stream.get_final_completion().choices[0].message
    assert message.content == "Let me see."
    assert message.tool_calls[0].function.arguments == '{"city": "Paris"}'
    assert message.reasoning_content == "They want the weather."
    assert len(deltas) > 2


def test_chat_calls_tools(practice):
    reply = practice(Answer(tool_calls=(WEATHER,))).openai.chat.completions.create(**SAY_HELLO, tools=CHAT_TOOLS)
    choice = reply.choices[0]
    assert choice.finish_reason == "tool_calls"
    assert choice.message.content is None
    assert choice.message.tool_calls[0].function.name == "weather"


def test_chat_gives_n_choices_and_streams_them_in_turns(practice):
    both = practice(Answer("one two", others=(Answer("three four five"),)))
    reply = both.openai.chat.completions.create(**SAY_HELLO, n=3)
    assert [choice.message.content for choice in reply.choices] == ["one two", "three four five", "one two"]
    texts = ["", ""]
    order = []
    for chunk in both.openai.chat.completions.create(**SAY_HELLO, n=2, stream=True):
        order.append(chunk.choices[0].index)
        texts[chunk.choices[0].index] += chunk.choices[0].delta.content or ""
    assert texts == ["one two", "three four five"]
    assert order[:4] == [0, 1, 0, 1]


def test_chat_sends_logprobs_whose_tokens_are_the_pieces(practice):
    answer = Answer("Tea, warm", pieces=("Te", "a, wa", "rm"))
    asked = {**SAY_HELLO, "logprobs": True, "top_logprobs": 2}
    chat = practice(answer).openai.chat.completions
    content = chat.create(**asked).choices[0].logprobs.content
    assert [entry.token for entry in content] == ["Te", "a, wa", "rm"]
    assert all(entry.logprob <= 0 and len(entry.top_logprobs) == 2 for entry in content)
    with chat.stream(**asked) as stream:
        streamed = stream.get_final_completion().choices[0].logprobs.content
    assert streamed == content


def test_chat_can_return_a_refusal(practice):
    client = practice(Answer(refusal="I will not do that.")).openai
    message = client.chat.completions.create(**SAY_HELLO).choices[0]
    assert (message.finish_reason, message.message.refusal) == ("stop", "I will not do that.")
    with client.chat.completions.stream(**SAY_HELLO) as stream:
        assert stream.get_final_completion().choices[0].message.refusal == "I will not do that."


@pytest.mark.parametrize("finish", ["length", "content_filter"])
def test_chat_has_a_finish_reason(practice, finish):
    reply = practice(Answer("Tea is", finish=finish)).openai.chat.completions.create(**SAY_HELLO)
    assert reply.choices[0].finish_reason == finish


def test_azure_streams_a_first_chunk_without_choices(practice):
    made = practice(Answer("Tea.", azure=True))
    with openai.AzureOpenAI(
        api_key="k", azure_endpoint=made.provider.url, api_version="2024-10-21", max_retries=0
    ) as client:
        chunks = list(client.chat.completions.create(**SAY_HELLO, stream=True))
        with client.chat.completions.stream(**SAY_HELLO) as stream:
            final = stream.get_final_completion()
    assert chunks[0].choices == []
    assert chunks[0].prompt_filter_results[0]["prompt_index"] == 0
    assert final.choices[0].message.content == "Tea."
    assert made.provider.seen[0].path == "/openai/deployments/m/chat/completions?api-version=2024-10-21"


def test_stored_chats_can_be_read_again(practice):
    client = practice(TEA).openai
    reply = client.chat.completions.create(**SAY_HELLO, store=True)
    client.chat.completions.create(**SAY_HELLO)
    again = client.chat.completions.retrieve(reply.id)
    assert again.choices[0].message.content == "Tea is a fine drink."
    assert [message.content for message in client.chat.completions.messages.list(reply.id)] == ["hello there"]
    assert [chat.id for chat in client.chat.completions.list()] == [reply.id]
    assert client.chat.completions.delete(reply.id).deleted
    with pytest.raises(openai.NotFoundError):
        client.chat.completions.retrieve(reply.id)


# --- legacy completions -------------------------------------------------------------------------------


def test_completions_answer_and_stream(practice):
    client = practice(Answer("warm tea", finish="length")).openai
    whole = client.completions.create(model="m", prompt="hello there", logprobs=1)
    assert (whole.choices[0].text, whole.choices[0].finish_reason) == ("warm tea", "length")
    assert whole.choices[0].logprobs.tokens == ["warm", " tea"]
    assert whole.choices[0].logprobs.text_offset == [0, 4]
    chunks = list(
        client.completions.create(model="m", prompt="hello there", stream=True, stream_options={"include_usage": True})
    )
    assert "".join(chunk.choices[0].text for chunk in chunks[:-1]) == "warm tea"
    assert chunks[-1].usage.total_tokens == whole.usage.total_tokens == 4


# --- responses ----------------------------------------------------------------------------------------


def test_responses_answer_and_echo_the_request(practice):
    reply = practice(TEA).openai.responses.create(
        model="m", input="hello there", instructions="be nice", tools=RESPONSE_TOOLS, metadata={"a": "b"}
    )
    assert (reply.id, reply.status, reply.model) == ("resp_practice-000001", "completed", "m")
    assert reply.output_text == "Tea is a fine drink."
    assert (reply.instructions, reply.metadata, reply.store) == ("be nice", {"a": "b"}, True)
    assert reply.tools[0].name == "weather"
    assert (reply.usage.input_tokens, reply.usage.output_tokens) == (15 + _tools(RESPONSE_TOOLS), 6)


def test_responses_stream_every_event_in_order(practice):
    answer = Answer("Let me see.", tool_calls=(WEATHER,), reasoning="They want weather.")
    events = list(practice(answer).openai.responses.create(model="m", input="hello", stream=True))
    assert [event.sequence_number for event in events] == list(range(len(events)))
    kinds = [event.type.removeprefix("response.") for event in events]
    assert kinds[:3] == ["created", "in_progress", "output_item.added"]
    assert kinds[-1] == "completed"
    for kind in (
        *("reasoning_summary_part.added", "reasoning_summary_text.delta", "reasoning_summary_text.done"),
        *("content_part.added", "output_text.delta", "output_text.done", "content_part.done"),
        *("function_call_arguments.delta", "function_call_arguments.done", "output_item.done"),
    ):
        assert kind in kinds
    assert [item.type for item in events[-1].response.output] == ["reasoning", "message", "function_call"]


def test_responses_stream_helper_builds_the_same_response(practice):
    client = practice(Answer("Let me see.", tool_calls=(WEATHER,), logprobs=True)).openai
    with client.responses.stream(model="m", input="hello", tools=RESPONSE_TOOLS) as stream:
        deltas = [event for event in stream if event.type == "response.output_text.delta"]
        final = stream.get_final_response()
    assert [event.delta for event in deltas] == ["Let", " me", " see."]
    assert [entry.token for event in deltas for entry in event.logprobs] == ["Let", " me", " see."]
    assert final.output_text == "Let me see."
    assert [entry.token for entry in final.output[0].content[0].logprobs] == ["Let", " me", " see."]
    assert final.output[1].arguments == '{"city": "Paris"}'


def test_responses_can_return_a_refusal(practice):
    events = list(practice(Answer(refusal="I will not.")).openai.responses.create(model="m", input="x", stream=True))
    assert "".join(event.delta for event in events if event.type == "response.refusal.delta") == "I will not."
    assert events[-1].response.output[0].content[0].refusal == "I will not."


@pytest.mark.parametrize(("finish", "reason"), [("length", "max_output_tokens"), ("content_filter", "content_filter")])
def test_responses_can_be_incomplete(practice, finish, reason):
    client = practice(Answer("Tea is", finish=finish)).openai
    assert client.responses.create(model="m", input="x").incomplete_details.reason == reason
    last = list(client.responses.create(model="m", input="x", stream=True))[-1]
    assert (last.type, last.response.status) == ("response.incomplete", "incomplete")


def test_stored_responses_can_be_read_again(practice):
    client = practice(TEA).openai
    reply = client.responses.create(model="m", input="hello there")
    assert client.responses.retrieve(reply.id) == reply
    events = list(client.responses.retrieve(reply.id, stream=True))
    assert events[0].type == "response.created"
    assert events[-1].response.output_text == reply.output_text
    later = list(client.responses.retrieve(reply.id, stream=True, starting_after=5))
    assert later == events[6:]
    items = list(client.responses.input_items.list(reply.id))
    assert items[0].content[0].text == "hello there"
    client.responses.delete(reply.id)
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(reply.id)


def test_unstored_responses_cannot_be_read(practice):
    client = practice(TEA).openai
    reply = client.responses.create(model="m", input="hello", store=False)
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(reply.id)
    with pytest.raises(openai.BadRequestError) as caught:
        client.responses.create(model="m", input="and?", previous_response_id=reply.id)
    assert caught.value.code == "previous_response_not_found"


def test_a_response_continues_the_one_before(practice):
    made = practice()
    asks: list[Ask] = []
    made.provider.answer = lambda ask: asks.append(ask) or TEA
    first = made.openai.responses.create(model="m", input="one", instructions="be nice")
    made.openai.responses.create(model="m", input="two", previous_response_id=first.id)
    assert asks[-1].messages == [("user", "one"), ("assistant", TEA.text), ("user", "two")]
    assert asks[-1].system == ""


# --- anthropic messages -------------------------------------------------------------------------------

SAY_HELLO_A: dict[str, Any] = {**SAY_HELLO, "max_tokens": 100}


def test_messages_answer_completely(practice):
    answer = Answer("Let me see.", tool_calls=(WEATHER,), reasoning="They want weather.")
    reply = practice(answer).anthropic.messages.create(**SAY_HELLO_A, tools=ANTHROPIC_TOOLS, system="be nice")
    assert [block.type for block in reply.content] == ["thinking", "text", "tool_use"]
    assert (reply.stop_reason, reply.content[2].input) == ("tool_use", {"city": "Paris"})
    assert (reply.id, reply.usage.input_tokens) == ("msg_practice-000001", 14 + _tools(ANTHROPIC_TOOLS))
    assert reply._request_id == "req_practice-000001"


def test_messages_stream_helper_builds_the_same_message(practice):
    answer = Answer("Let me see.", tool_calls=(WEATHER,), reasoning="They want weather.")
    client = practice(answer).anthropic
    whole = client.messages.create(**SAY_HELLO_A)
    with client.messages.stream(**SAY_HELLO_A) as stream:
        texts = list(stream.text_stream)
        final = stream.get_final_message()
    assert texts == ["Let", " me", " see."]
    assert [block.to_dict() for block in final.content] == [block.to_dict() for block in whole.content]
    assert (final.stop_reason, final.usage.output_tokens) == ("tool_use", whole.usage.output_tokens)


def test_messages_send_the_raw_events_of_the_api(practice):
    with practice(Answer("Tea.")).http.stream("POST", "/v1/messages", json={**SAY_HELLO_A, "stream": True}) as reply:
        names = [line.removeprefix("event: ") for line in reply.iter_lines() if line.startswith("event: ")]
    assert names == [
        *("message_start", "ping", "content_block_start", "content_block_delta", "content_block_stop"),
        *("message_delta", "message_stop"),
    ]


@pytest.mark.parametrize(("finish", "reason"), [("stop", "end_turn"), ("length", "max_tokens"), ("refusal", "refusal")])
def test_messages_have_a_stop_reason(practice, finish, reason):
    reply = practice(Answer("Tea", finish=finish)).anthropic.messages.create(**SAY_HELLO_A)
    assert reply.stop_reason == reason


def test_messages_are_counted(practice):
    made = practice(TEA)
    counted = made.anthropic.messages.count_tokens(model="m", messages=HELLO, system="be nice")
    assert counted.input_tokens == 14
    assert made.openai.responses.input_tokens.count(model="m", input="one two three").input_tokens == 10


# --- what a prompt cache gives ------------------------------------------------------------------------

ONE_TOKEN = " tea"
FRAMES = 3 + 4
"""What chat puts around a message of the user, and before its reply."""


def _cached(made, text, *, model="m", **more):
    usage = made.openai.chat.completions.create(model=model, messages=[{"role": "user", "content": text}], **more).usage
    assert usage.prompt_tokens == FRAMES + text.count("tea") + text.count("milk")
    return usage.prompt_tokens_details.cached_tokens


@pytest.mark.parametrize(("alike", "cached"), [(1000, 0), (1100, 1024), (1200, 1152), (2400, 2304)])
def test_cache_counts_whole_steps_of_a_shared_prefix(practice, alike, cached):
    made = practice(TEA)
    assert _cached(made, ONE_TOKEN * alike + " milk" * 500) == 0
    assert _cached(made, ONE_TOKEN * alike + " tea milk" * 250) == cached


def test_cache_is_separate_per_model(practice):
    made, text = practice(TEA), ONE_TOKEN * 2000
    assert _cached(made, text) == 0
    assert _cached(made, text, model="other") == 0
    assert _cached(made, "milk") == 0
    assert _cached(made, text) == 1920


def test_different_tools_miss_the_cache(practice):
    made, message = practice(TEA), {"role": "user", "content": ONE_TOKEN * 2000}
    for tools in ({}, {"tools": CHAT_TOOLS}):
        usage = made.openai.chat.completions.create(model="m", messages=[message], **tools).usage
        assert usage.prompt_tokens_details.cached_tokens == 0


def test_continued_responses_hit_the_cache(practice):
    made = practice(TEA)
    first = made.openai.responses.create(model="m", input=ONE_TOKEN * 1500)
    second = made.openai.responses.create(model="m", input="more", previous_response_id=first.id)
    assert second.usage.input_tokens > first.usage.input_tokens
    assert second.usage.input_tokens_details.cached_tokens == 1408


def test_messages_are_cached_at_breakpoints_and_counted_separately(practice):
    made, system = practice(TEA), {"type": "text", "text": ONE_TOKEN * 1500}
    marked = {**system, "cache_control": {"type": "ephemeral"}}
    systems = (system, system, marked, marked)
    given = [made.anthropic.messages.create(**SAY_HELLO_A, system=[each]).usage for each in systems]
    assert [usage.cache_read_input_tokens for usage in given] == [0, 0, 0, 1408]
    assert {usage.input_tokens + usage.cache_read_input_tokens for usage in given} == {1512}


# --- async, litellm, parsing --------------------------------------------------------------------------


def test_async_clients_get_answers(practice):
    made = practice(TEA)

    async def talk() -> tuple[str, str]:
        async with (
            openai.AsyncOpenAI(api_key="k", base_url=made.provider.openai_url) as open_client,
            anthropic.AsyncAnthropic(api_key="k", base_url=made.provider.anthropic_url) as anthropic_client,
        ):
            stream = await open_client.chat.completions.create(**SAY_HELLO, stream=True)
            said = "".join([chunk.choices[0].delta.content or "" async for chunk in stream])
            async with anthropic_client.messages.stream(**SAY_HELLO_A) as helper:
                return said, await helper.get_final_text()

    assert asyncio.run(talk()) == (TEA.text, TEA.text)


def test_litellm_gets_answers(practice, monkeypatch):
    monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    import litellm

    url = practice(Answer("Let me see.", tool_calls=(WEATHER,))).provider.url
    for model, base in (("openai/m", f"{url}/v1"), ("anthropic/m", url)):
        asked = {"model": model, "messages": HELLO, "api_base": base, "api_key": "k", "max_tokens": 10}
        whole = litellm.completion(**asked)
        built = litellm.stream_chunk_builder(list(litellm.completion(**asked, stream=True)))
        for reply in (whole, built):
            message = reply.choices[0].message
            assert message.content == "Let me see."
            assert json.loads(message.tool_calls[0].function.arguments) == {"city": "Paris"}


def test_parse_reads_structured_answers(practice):
    class Drink(BaseModel):
        name: str
        hot: bool

    client = practice(Answer('{"name": "tea", "hot": true}')).openai
    chat = client.chat.completions.parse(**SAY_HELLO, response_format=Drink)
    assert chat.choices[0].message.parsed == Drink(name="tea", hot=True)
    response = client.responses.parse(model="m", input="x", text_format=Drink)
    assert response.output_parsed == Drink(name="tea", hot=True)
    assert response.text.format.type == "json_schema"
