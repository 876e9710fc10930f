"""A large tool output is sent once in a request, on every API, and a pack shows just that."""

import json
import re
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ctxwrap
from ctxwrap.pack.older_messages import OlderMessages, counted_once, referred
from ctxwrap.testing import Answer, Request, ScriptedProvider, ToolCall
from ctxwrap.tokens.measure import Measure
from ctxwrap.types import HistoryMessage, LoggedMessage, Message

LOG = "full test log from failed build\n" + "".join(f"test {number} FAILED\n" for number in range(200))
OTHER = LOG.replace("FAILED", "passed")
MEASURE = Measure("gpt-4o")


def older(texts: list[str]) -> OlderMessages:
    messages = [Message("tool", text, tool_call_id=f"c{at}") for at, text in enumerate(texts)]
    return OlderMessages.of(
        [HistoryMessage(at, each, MEASURE.message(LoggedMessage(at, each))) for at, each in enumerate(messages, 1)]
    )


@given(st.lists(st.sampled_from([LOG, OTHER, "short"]), max_size=8), st.integers(0, 8))
def test_repeated_output_is_sent_whole_once_within_its_counted_tokens(texts: list[str], start: int) -> None:
    counted = counted_once(older(texts), MEASURE)
    sent, copies = referred(counted[start:], MEASURE)
    shown = [each.message.text for each in sent]
    assert all(shown.count(text) == (text in texts[start:]) for text in (LOG, OTHER))
    assert shown.count("short") == texts[start:].count("short")
    assert [each.message.tool_call_id for each in sent] == [f"c{at}" for at in range(start, len(texts))]
    real = sum(MEASURE.message(LoggedMessage(each.number, each.message)) for each in sent)
    assert real == sum(each.tokens for each in sent) <= sum(each.tokens for each in counted[start:])
    assert all(texts[copy - 1] == texts[first - 1] and first < copy for copy, first in copies.items())


def question(number: int) -> dict[str, Any]:
    return {"role": "user", "content": f"Run it, time {number}."}


def chat_turn(number: int) -> list[dict[str, Any]]:
    call = {"id": f"c{number}", "type": "function", "function": {"name": "run", "arguments": "{}"}}
    result = {"role": "tool", "tool_call_id": f"c{number}", "content": LOG}
    return [question(number), {"role": "assistant", "content": None, "tool_calls": [call]}, result]


def messages_turn(number: int) -> list[dict[str, Any]]:
    call = {"type": "tool_use", "id": f"c{number}", "name": "run", "input": {}}
    result = {"type": "tool_result", "tool_use_id": f"c{number}", "content": LOG}
    return [question(number), {"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]


def responses_turn(number: int) -> list[dict[str, Any]]:
    call = {"type": "function_call", "call_id": f"c{number}", "name": "run", "arguments": "{}"}
    return [question(number), call, {"type": "function_call_output", "call_id": f"c{number}", "output": LOG}]


SAID = {"role": "assistant", "content": "Fine."}


def create(api: str, provider: ScriptedProvider, said: list[Any], **settings: Any) -> None:
    if api == "messages":
        bare = anthropic.Anthropic(api_key="k", base_url=provider.anthropic_url)
        client = ctxwrap.wrap(bare, session="s", **settings)
        client.messages.create(model="claude-opus-4-5", max_tokens=99, messages=said)
        return
    client = ctxwrap.wrap(openai.OpenAI(api_key="k", base_url=provider.openai_url), session="s", **settings)
    if api == "chat":
        client.chat.completions.create(model="gpt-4o", messages=said)
    else:
        client.responses.create(model="gpt-4o", input=said)


def copies(provider: ScriptedProvider) -> int:
    """How often the newest request has the output."""
    return json.dumps(provider.last.ask.body).count(json.dumps(LOG)[1:-1])


def answer(request: Request) -> Answer:
    """Calls the tool when it is asked to."""
    newest = json.dumps((request.ask.body.get("messages") or request.ask.body["input"])[-1])
    asked = re.search(r"Run it, time (\d)", newest)
    return Answer(tool_calls=(ToolCall(f"c{asked[1]}", "run", "{}"),)) if asked else Answer("Fine.")


TURNS = {"chat": chat_turn, "messages": messages_turn, "responses": responses_turn}


@pytest.mark.parametrize("api", TURNS)
@pytest.mark.parametrize("keeps_list", [True, False], ids=["whole list", "newest messages"])
def test_the_first_result_is_whole_and_later_ones_refer_to_it(api: str, keeps_list: bool, tmp_path: Path) -> None:
    past: list[Any] = []
    settings: dict[str, Any] = {"store": tmp_path, "budget_messages": 0}
    with ScriptedProvider(answer) as provider:
        for number in (1, 2, 3):
            said = TURNS[api](number)
            create(api, provider, [*past, *said[:1]], **settings)
            create(api, provider, [*past, *said], **settings)
            assert copies(provider) == min(2, number), "what the caller just sent is sent as it is"
            past += [*said, SAID] if keeps_list else []
        create(api, provider, [*past, {"role": "user", "content": "And now?"}], **settings)
        body = json.dumps(provider.last.ask.body)
        assert (copies(provider), body.count("tool call c1 above")) == (1, 2)
        assert body.index("test 199 FAILED") < body.index("tool call c1 above")
    ctxwrap.flush()
    shown = next(tmp_path.rglob("pack.md")).read_text()
    assert (shown.count("test 199 FAILED"), shown.count("tool call c1 above")) == (1, 2)
    assert ctxwrap.verify("s", store=tmp_path).findings == ()


def test_callers_own_history_is_not_changed(tmp_path: Path) -> None:
    said = [message for number in (1, 2, 3) for message in (*chat_turn(number), SAID)]
    with ScriptedProvider(lambda _: Answer("Fine.")) as provider:
        create("chat", provider, [*said, {"role": "user", "content": "And now?"}], store=tmp_path, history="caller")
        assert provider.last.text.count("test 199 FAILED") == 3


def test_failed_tool_is_marked_in_its_event_and_for_the_model(tmp_path: Path) -> None:
    question, call, result = messages_turn(1)
    result["content"][0] |= {"content": "no such file", "is_error": True}
    with ScriptedProvider(lambda _: Answer("Fine.")) as provider:
        create("messages", provider, [question, call, result], store=tmp_path)
        create("messages", provider, [{"role": "user", "content": "And now?"}], store=tmp_path)
        blocks = [block for each in provider.last.ask.body["messages"] for block in each["content"]]
    assert [block["is_error"] for block in blocks if block["type"] == "tool_result"] == [True]
    events = [json.loads(line) for line in next(tmp_path.rglob("events.jsonl")).read_text().splitlines()]
    (told,) = [event for event in events if event["type"] == "tool_result"]
    assert (told["id"], told["name"], told["message"], told["bytes"], told["error"]) == ("c1", "run", 3, 12, True)
