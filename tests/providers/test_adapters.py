"""Adapters read requests, inject into them without changing the caller's, and remove the trailer from replies."""

import copy
import json
from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxwrap.protocol import ReplyStream
from ctxwrap.protocol.instructions import SEPARATOR
from ctxwrap.providers import adapter_for
from ctxwrap.providers.anthropic import MESSAGES
from ctxwrap.providers.base import ProviderAdapter
from ctxwrap.providers.bedrock import CONVERSE
from ctxwrap.providers.cohere import CHAT as COHERE
from ctxwrap.providers.google import GENERATE
from ctxwrap.providers.ollama import CHAT as OLLAMA
from ctxwrap.providers.openai_chat import CHAT
from ctxwrap.providers.openai_completions import COMPLETIONS
from ctxwrap.providers.openai_responses import RESPONSES
from ctxwrap.providers.text_channel import Channel
from ctxwrap.testing.practice.answer import Answer, ToolCall
from ctxwrap.types import Body, Injection, Message
from tests.providers.replies import ALL_SPEAKERS, Speaker
from tests.support import CANARY

TRAILER = f'\n\n{SEPARATOR}\n{{"memory": {{"core": [], "working": [], "ephemeral": []}}, "active_task": "{CANARY}"}}'
INJECTION = Injection("PROTOCOL", "BLOCK", (Message("user", "earlier"), Message("assistant", "indeed")), reserve=100)
SPOKEN = st.text(max_size=30).filter(lambda text: "context" not in text.lower())
"""What is no separator; hypothesis tries the words that it finds in the code."""

SPEAKER = pytest.mark.parametrize("speaker", ALL_SPEAKERS, ids=lambda speaker: speaker.adapter.name)


@pytest.mark.parametrize(
    ("path", "adapter"),
    [
        ("/chat/completions", CHAT),
        ("/v1/messages", MESSAGES),
        ("/v1/messages?beta=true", MESSAGES),
        ("/responses", RESPONSES),
        ("/completions", COMPLETIONS),
        ("/embeddings", None),
        ("/responses/input_tokens", None),
        ("/v1/messages/count_tokens", None),
    ],
)
def test_adapter_is_found_by_url_path(path: str, adapter: ProviderAdapter | None) -> None:
    assert adapter_for(path) is adapter


BODIES: list[tuple[ProviderAdapter, Body]] = [
    (CHAT, {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 10}),
    (CHAT, {"messages": [{"role": "developer", "content": "be brief"}, {"role": "user", "content": "hi"}]}),
    (
        CHAT,
        {"messages": [{"role": "system", "content": [{"type": "text", "text": "be"}]}, {"role": "user", "content": [
            {"type": "text", "text": "hi"}, {"type": "image_url", "image_url": {"url": "data:,"}}]}]},
    ),
    (CHAT, {"messages": [{"role": "system", "content": "no user yet"}]}),
    (RESPONSES, {"input": "hi", "instructions": "be brief", "max_output_tokens": 10}),
    (RESPONSES, {"input": [{"role": "user", "content": [{"type": "input_text", "text": "hi"}]}], "store": False}),
    (COMPLETIONS, {"prompt": "hi", "max_tokens": 10}),
    (COHERE, {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 10}),
    (GENERATE, {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}),
    (GENERATE, {"contents": [{"parts": [{"functionResponse": {"name": "f", "response": {"result": "42"}}}]}]}),
    (CONVERSE, {"messages": [{"role": "user", "content": [{"text": "hi"}]}], "inferenceConfig": {"maxTokens": 10}}),
    (CONVERSE, {"messages": [{"role": "user", "content": [{"toolResult": {"toolUseId": "t", "content": []}}]}]}),
    (OLLAMA, {"model": "m", "messages": [{"role": "user", "content": "hi", "images": ["AAAA"]}]}),
    (OLLAMA, {"messages": [{"role": "system", "content": "be brief"}, {"role": "tool", "content": "42"}]}),
    (MESSAGES, {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 10, "system": "be brief"}),
    (
        MESSAGES,
        {
            "messages": [
                {"role": "user", "content": "hi"},
                {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "f", "input": {}}]},
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "42"}]},
            ],
            "system": [{"type": "text", "text": "be brief", "cache_control": {"type": "ephemeral"}}],
        },
    ),
]  # fmt: skip


@pytest.mark.parametrize(("adapter", "body"), BODIES)
def test_injection_only_adds_to_the_callers_body(adapter: ProviderAdapter, body: Body) -> None:
    before = copy.deepcopy(body)
    sent = adapter.inject(body, INJECTION)
    assert body == before
    text = json.dumps(sent)
    assert text.count("PROTOCOL") == text.count("BLOCK") == 1
    assert text.count("earlier") == text.count("indeed") == 1
    for name, value in body.items():
        if name.startswith("max"):
            assert sent[name] == value + 100


def test_block_stays_on_the_user_message_when_tool_results_follow() -> None:
    """So that the prefix of the prompt stays the same within a round."""
    first = {"messages": [{"role": "user", "content": "hi"}]}
    second = {
        "messages": [
            *first["messages"],
            {"role": "assistant", "content": "", "tool_calls": []},
            {"role": "tool", "content": "42"},
        ]
    }
    assert CHAT.inject(second, INJECTION)["messages"][:4] == CHAT.inject(first, INJECTION)["messages"]


def test_stored_responses_call_has_no_injected_input() -> None:
    body = {"input": "hi", "previous_response_id": "r"}
    sent = RESPONSES.inject(body, Injection("PROTOCOL", "BLOCK"))
    assert (sent["input"], sent["instructions"]) == ("hi", "PROTOCOL\n\nBLOCK")


@pytest.mark.parametrize(
    ("adapter", "body", "reason"),
    [
        (CHAT, {"response_format": {"type": "json_schema"}}, "structured output"),
        (CHAT, {"response_format": {"type": "json_object"}}, "structured output"),
        (CHAT, {"response_format": {"type": "text"}}, ""),
        (CHAT, {"modalities": ["text", "audio"]}, "audio output"),
        (CHAT, {"tool_choice": "required"}, "forced tool choice"),
        (CHAT, {"tool_choice": "auto"}, ""),
        (RESPONSES, {"text": {"format": {"type": "json_schema"}}}, "structured output"),
        (RESPONSES, {"tool_choice": {"type": "function", "name": "f"}}, "forced tool choice"),
        (MESSAGES, {"output_config": {"format": {"type": "json_schema"}}}, "structured output"),
        (MESSAGES, {"output_format": {"type": "json_schema"}}, "structured output"),
        (MESSAGES, {"tool_choice": {"type": "any"}}, "forced tool choice"),
        (MESSAGES, {"tool_choice": {"type": "auto"}}, ""),
    ],
)
def test_request_says_why_its_reply_cannot_have_a_trailer(adapter: ProviderAdapter, body: Body, reason: str) -> None:
    assert adapter.read({"messages": [], "input": "", **body}).no_trailer == reason


@pytest.mark.parametrize(
    "body", [{"prompt": ["a", "b"]}, {"prompt": [1, 2]}, {"prompt": "a", "echo": True}, {"prompt": "a", "suffix": "b"}]
)
def test_request_says_why_its_prompt_cannot_have_context(body: Body) -> None:
    assert COMPLETIONS.read(body).no_context


CALLS = ({"id": "t1", "name": "f", "arguments": '{"a":1}'},)
CONVERSATION = (
    Message("system", "be brief"),
    Message("user", "hi"),
    Message("assistant", "let me see", tool_calls=CALLS),
    Message("tool", "42", tool_call_id="t1"),
    Message("assistant", "it is 42"),
    Message("user", "thanks"),
)


@pytest.mark.parametrize(
    ("adapter", "body"),
    [
        (CHAT, {"messages": [
            {"role": "developer", "content": "be brief"}, {"role": "user", "content": [{"type": "text", "text": "hi"}]},
            {"role": "assistant", "content": "let me see", "refusal": None, "tool_calls": [
                {"id": "t1", "type": "function", "function": {"name": "f", "arguments": '{"a":1}'}}]},
            {"role": "tool", "tool_call_id": "t1", "content": "42"}, {"role": "assistant", "content": "it is 42"},
            {"role": "user", "content": "thanks"}]}),
        (RESPONSES, {"instructions": "be brief", "input": [
            {"role": "user", "content": "hi"},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "let me see"}]},
            {"type": "function_call", "call_id": "t1", "name": "f", "arguments": '{"a":1}'},
            {"type": "reasoning", "summary": []},
            {"type": "function_call_output", "call_id": "t1", "output": "42"},
            {"role": "assistant", "content": "it is 42"},
            {"role": "user", "content": [{"type": "input_text", "text": "thanks"}]}]}),
        (MESSAGES, {"system": [{"type": "text", "text": "be brief"}], "messages": [
            {"role": "user", "content": "hi"},
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "hm", "signature": "s"}, {"type": "text", "text": "let me see"},
                {"type": "tool_use", "id": "t1", "name": "f", "input": {"a": 1}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "42"}]},
            {"role": "assistant", "content": [{"type": "text", "text": "it is 42"}]},
            {"role": "user", "content": "thanks"}]}),
        (GENERATE, {"systemInstruction": {"parts": [{"text": "be brief"}]}, "contents": [
            {"parts": [{"text": "hi"}]},
            {"role": "model", "parts": [
                {"text": "hm", "thought": True, "thoughtSignature": "s"}, {"text": "let me see"},
                {"functionCall": {"id": "t1", "name": "f", "args": {"a": 1}}}]},
            {"role": "user", "parts": [
                {"functionResponse": {"id": "t1", "name": "f", "response": {"result": "42"}}}]},
            {"role": "model", "parts": [{"text": "it is 42"}]}, {"role": "user", "parts": [{"text": "thanks"}]}]}),
        (OLLAMA, {"messages": [
            {"role": "system", "content": "be brief"}, {"role": "user", "content": "hi"},
            {"role": "assistant", "content": "let me see", "thinking": "hm", "tool_calls": [
                {"id": "t1", "function": {"name": "f", "arguments": {"a": 1}}}]},
            {"role": "tool", "tool_name": "f", "tool_call_id": "t1", "content": "42"},
            {"role": "assistant", "content": "it is 42"}, {"role": "user", "content": "thanks"}]}),
    ],
    ids=["chat", "responses", "messages", "google", "ollama"],
)  # fmt: skip
def test_conversation_reads_the_same_in_every_api(adapter: ProviderAdapter, body: Body) -> None:
    assert nameless(adapter.read(body).messages) == CONVERSATION


def nameless(messages: Iterable[Message]) -> tuple[Message, ...]:
    """Messages without the names of functions, which some APIs give with a tool's result."""
    return tuple(message._replace(name="") for message in messages)


@pytest.mark.parametrize("adapter", [CHAT, RESPONSES, MESSAGES, COHERE, GENERATE], ids=lambda adapter: adapter.name)
def test_injected_history_reads_back_unchanged(adapter: ProviderAdapter) -> None:
    body = {"messages": [{"role": "user", "content": "and now?"}], "input": "and now?"}
    body["contents"] = [{"role": "user", "parts": [{"text": "and now?"}]}]
    sent = adapter.inject(body, Injection("P", "B", CONVERSATION[1:5]))
    read = [message for message in adapter.read(sent).messages if message.role != "system"]
    assert nameless(read[:-1]) == CONVERSATION[1:5]


Pieces = Callable[[str], tuple[str, ...]]


def cut(text: str, cuts: list[int]) -> tuple[str, ...]:
    edges = [0, *sorted(cut % (len(text) + 1) for cut in cuts), len(text)]
    return tuple(text[start:end] for start, end in pairwise(edges) if end > start)


@SPEAKER
@given(text=SPOKEN | st.just("A line\n<<<CONTROL flow"), cuts=st.lists(st.integers(0, 300), max_size=9))
def test_stream_shows_the_text_of_the_whole_reply_for_every_cut(speaker: Speaker, text: str, cuts: list[int]) -> None:
    answer = Answer(text + TRAILER, pieces=cut(text + TRAILER, cuts), logprobs=speaker.has_logprobs)
    whole, stream = (speaker.adapter.rewriter({}, ReplyStream) for _ in range(2))
    payload = whole.whole(speaker.whole(answer))
    events = [out for event in speaker.events(answer) for out in stream.event(event)] + stream.close()
    assert speaker.text_of(payload) == speaker.streamed_text(events) == text.rstrip(" \t\r\n")
    assert whole.reply.messages == stream.reply.messages
    assert whole.reply.reading == stream.reply.reading
    assert stream.reply.natural
    assert CANARY not in json.dumps([payload, events])


@SPEAKER
@given(text=SPOKEN, cuts=st.lists(st.integers(0, 300), max_size=9))
def test_reply_without_a_trailer_passes_unchanged(speaker: Speaker, text: str, cuts: list[int]) -> None:
    answer = Answer(text, pieces=cut(text, cuts))
    whole, stream = (speaker.adapter.rewriter({}, ReplyStream) for _ in range(2))
    payload = speaker.whole(answer)
    assert whole.whole(payload) == payload
    events = [out for event in speaker.events(answer) for out in stream.event(event)] + stream.close()
    assert speaker.streamed_text(events) == text


@SPEAKER
def test_payload_is_not_changed_in_place(speaker: Speaker) -> None:
    payload = speaker.whole(Answer("Hello." + TRAILER))
    before = copy.deepcopy(payload)
    speaker.adapter.rewriter({}, ReplyStream).whole(payload)
    assert payload == before


@pytest.mark.parametrize(
    "speaker", [s for s in ALL_SPEAKERS if s.adapter is not COMPLETIONS], ids=lambda s: s.adapter.name
)
def test_tool_calls_are_read_from_whole_and_streamed_replies(speaker: Speaker) -> None:
    answer = Answer("Let me see.", tool_calls=(ToolCall("t1", "f", '{"a": 1}'), ToolCall("t2", "g", "{}")))
    whole, stream = (speaker.adapter.rewriter({}, ReplyStream) for _ in range(2))
    whole.whole(speaker.whole(answer))
    for event in speaker.events(answer):
        stream.event(event)
    for rewriter in (whole, stream):
        (message,) = rewriter.reply.messages
        assert message.content == "Let me see."
        calls = [(call["id"], call["name"], json.loads(call["arguments"] or "{}")) for call in message.tool_calls]
        assert calls == [("t1", "f", {"a": 1}), ("t2", "g", {})]


@pytest.mark.parametrize(
    ("adapter", "said", "text_of"),
    [
        (CHAT, {"delta": {"content": "Hello.\n<"}}, lambda choice: choice["delta"].get("content", "")),
        (COMPLETIONS, {"text": "Hello.\n<"}, lambda choice: choice["text"]),
    ],
    ids=["chat", "completions"],
)
def test_text_in_the_last_event_keeps_its_order(
    adapter: ProviderAdapter, said: Body, text_of: Callable[[Body], str]
) -> None:
    choice = {"index": 0, **said, "finish_reason": "stop"}
    choices = [event["choices"][0] for event in adapter.rewriter({}, ReplyStream).event({"choices": [choice]})]
    assert "".join(map(text_of, choices)) == "Hello.\n<"
    assert [choice["finish_reason"] for choice in choices] == [None, None, "stop"]


@pytest.mark.parametrize(
    "event",
    [
        {"choices": []},
        {"choices": [{}]},
        {"choices": [{"index": 0, "delta": None}]},
        {"choices": None, "usage": {"total_tokens": 1}},
        {"prompt_filter_results": [], "choices": []},
    ],
)
def test_chunks_without_choices_or_deltas_pass(event: dict[str, Any]) -> None:
    assert CHAT.rewriter({}, ReplyStream).event(event) == [event]


@given(
    st.lists(st.sampled_from(["Grüße", " ", "\n\n", "and 😀", f"\n{SEPARATOR}\n", "{", "}"]), max_size=8),
    st.lists(st.integers(0, 900), max_size=60),
)
def test_log_probabilities_match_the_visible_text(pieces: list[str], cuts: list[int]) -> None:
    snapshot = f"\n\n{SEPARATOR}\n" + json.dumps({"version": "2.2", "runtime": {}, "memory": {"core": []}}) + "\n"
    text = "Hello." + snapshot + "".join(pieces) + snapshot + "\nBye."
    edges = sorted({0, len(text), *(cut % len(text) for cut in cuts)})
    tokens: list[Body] = [{"token": text[start:end]} for start, end in pairwise(edges)]
    channel, released = Channel(ReplyStream()), list[Body]()
    for token in tokens:
        channel.feed(token["token"])
        released += channel.tokens([token])
        assert channel.text.startswith("".join(token["token"] for token in released))
    channel.close()
    released += channel.tokens([])
    assert "".join(token["token"] for token in released) == channel.text
    assert channel.tokens_of_all(tokens) == released


def test_snapshot_in_an_earlier_text_is_read_and_later_text_is_visible() -> None:
    texts = [f"One.{TRAILER}", "Two."]
    content = [{"type": "text", "text": text} for text in texts]
    rewriter = MESSAGES.rewriter({}, ReplyStream)
    shown = rewriter.whole({"id": "m", "content": content, "stop_reason": "end_turn"})
    assert [block["text"] for block in shown["content"]] == ["One.", "Two."]
    reading = rewriter.reply.reading
    assert reading is not None
    assert (reading.snapshot or {})["active_task"] == CANARY
    assert "text follows the snapshot" in reading.violations
