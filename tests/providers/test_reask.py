"""Asking again: a body continued by its reply and a question, for one short answer that is not kept."""

import copy
from typing import Any

import pytest

from ctxwrap.protocol.instructions import SEPARATOR, ask_state, text_before_question
from ctxwrap.providers.anthropic import MESSAGES
from ctxwrap.providers.base import ProviderAdapter
from ctxwrap.providers.openai_chat import CHAT
from ctxwrap.providers.openai_completions import COMPLETIONS
from ctxwrap.providers.openai_responses import RESPONSES
from ctxwrap.types import Body, Message, ParsedReply, Reply

TRAILER = f"{SEPARATOR}\n{{broken"
REPLY = Reply((Message("assistant", "Hello."),), ParsedReply("Hello.", status="rejected", trailer=TRAILER))
AS_IT_CAME = f"Hello.\n\n{TRAILER}"
QUESTION = "Once more?"
USER = {"role": "user", "content": "hi"}
ASKED = [{"role": "assistant", "content": AS_IT_CAME}, {"role": "user", "content": QUESTION}]
TOOL: Body = {"name": "f"}


def asked(adapter: ProviderAdapter, reserve: int = 1024, **body: Any) -> Body:
    before = copy.deepcopy(body)
    sent = adapter.ask_again(body, REPLY, QUESTION, reserve)
    assert body == before
    return sent


def test_chat_continues_with_reply_and_question() -> None:
    shaped = {"stream": True, "stream_options": {}, "n": 3, "stop": ["END"], "logprobs": True, "top_logprobs": 2}
    sent = asked(CHAT, model="m", messages=[USER], temperature=0, **shaped)
    assert sent == {"model": "m", "messages": [USER, *ASKED], "temperature": 0}


def test_responses_continue_and_are_not_stored() -> None:
    sent = asked(RESPONSES, input="hi", instructions="I", previous_response_id="r", stream=True)
    assert sent == {"input": [USER, *ASKED], "instructions": "I", "previous_response_id": "r", "store": False}
    items = [USER, {"type": "function_call_output", "call_id": "c", "output": "42"}]
    assert asked(RESPONSES, input=items, store=True, tools=[TOOL]) == {
        "input": [*items, *ASKED],
        "store": False,
        "tools": [TOOL],
        "tool_choice": "none",
    }


def test_provider_conversation_gets_no_question() -> None:
    assert "conversation" not in asked(RESPONSES, input="hi", conversation="conv_1")
    assert "thread" not in asked(MESSAGES, messages=[USER], thread={"type": "create"})
    going_on = {"type": "continue", "previous_message_id": "msg_1"}
    assert asked(MESSAGES, messages=[USER], thread=going_on)["thread"] == going_on
    kept = asked(CHAT, messages=[USER], store=True, metadata={"a": "b"})
    assert kept == {"messages": [USER, *ASKED]}
    assert asked(CHAT, messages=[USER], metadata={"a": "b"})["metadata"] == {"a": "b"}


def test_completions_continue_in_the_prompt() -> None:
    sent = asked(COMPLETIONS, prompt="Say hello.", max_tokens=100, best_of=2, stop="\n")
    assert sent == {"prompt": f"Say hello.\n\n{AS_IT_CAME}\n\n{QUESTION}", "max_tokens": 1024}


def test_anthropic_messages_continue_and_keep_breakpoints() -> None:
    cached = {"type": "text", "text": "hi", "cache_control": {"type": "ephemeral"}}
    given = [{"role": "user", "content": [cached]}]
    sent = asked(MESSAGES, messages=given, max_tokens=2000, stop_sequences=["END"], stream=True)
    said = {"role": "assistant", "content": [{"type": "text", "text": AS_IT_CAME}]}
    assert sent == {"messages": [*given, said, ASKED[1]], "max_tokens": 2000}


@pytest.mark.parametrize(
    ("adapter", "tools", "choice"),
    [
        (CHAT, {"tools": [TOOL], "tool_choice": "auto"}, {"tool_choice": "none"}),
        (CHAT, {"functions": [TOOL]}, {"function_call": "none"}),
        (MESSAGES, {"tools": [TOOL]}, {"tool_choice": {"type": "none"}}),
    ],
)
def test_tools_are_sent_and_cannot_be_called(adapter: ProviderAdapter, tools: Body, choice: Body) -> None:
    sent = asked(adapter, messages=[USER], **tools)
    assert {name: sent[name] for name in {**tools, **choice}} == {**tools, **choice}
    assert not {"tool_choice", "function_call"} & asked(adapter, messages=[USER]).keys()


@pytest.mark.parametrize("begun", ["Well, ", [{"type": "text", "text": "Well, "}]])
def test_prefilled_reply_is_one_message(begun: Any) -> None:
    given = [USER, {"role": "assistant", "content": begun, "prefix": True}]
    assert asked(CHAT, messages=given)["messages"] == [
        USER,
        {"role": "assistant", "content": f"Well, {AS_IT_CAME}"},
        ASKED[1],
    ]
    said = [{"type": "text", "text": "Well, "}, {"type": "text", "text": AS_IT_CAME}]
    assert asked(MESSAGES, messages=given)["messages"] == [USER, {"role": "assistant", "content": said}, ASKED[1]]


@pytest.mark.parametrize(
    ("limit", "budget", "sent_limit", "sent_budget"),
    [
        (16_000, 8_000, 16_000, 8_000),
        (16_000, 15_900, 16_000, 14_976),
        (1_200, 1_024, 2_048, 1_024),
        (500, None, 1_024, None),
        (32_000, None, 32_000, None),
    ],
)
@pytest.mark.parametrize("adapter", [CHAT, MESSAGES], ids=lambda adapter: adapter.name)
def test_limits_leave_tokens_for_a_snapshot_after_thinking(
    adapter: ProviderAdapter, limit: int, budget: int | None, sent_limit: int, sent_budget: int | None
) -> None:
    thinking = {} if budget is None else {"thinking": {"type": "enabled", "budget_tokens": budget}}
    sent = asked(adapter, messages=[USER], max_tokens=limit, **thinking)
    assert sent["max_tokens"] == sent_limit
    assert sent.get("thinking", {}).get("budget_tokens") == sent_budget


def test_no_limit_is_added() -> None:
    assert not [name for name in asked(CHAT, messages=[USER]) if name.startswith("max")]
    assert asked(RESPONSES, input="hi", max_output_tokens=10)["max_output_tokens"] == 1024


def test_question_lists_faults_as_bounded_data() -> None:
    text = ask_state([f"{SEPARATOR} and </ctxwrap-protocol> in a fault", "x" * 5000, *["more"] * 50])
    assert len(text) < 2000
    assert text.count(SEPARATOR) == text.count("</ctxwrap-protocol>") == 1
    assert "\\u003c\\u003c\\u003cCONTEXT>>>" in text
    assert "without a state" in ask_state(())


def test_questions_are_recognised() -> None:
    assert text_before_question(ask_state(())) == ""
    assert text_before_question(f"Some prompt.\n\n{ask_state(['a'])}") == "Some prompt.\n\n"
    assert text_before_question("Some prompt.") is None
