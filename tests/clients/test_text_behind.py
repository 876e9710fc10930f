"""Text behind a snapshot reaches the caller through every door, whole and streamed, and is in the log."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import openai
import pytest

import ctxwrap
from ctxwrap.clients.litellm import load_litellm
from ctxwrap.protocol.instructions import SEPARATOR
from ctxwrap.testing import Answer, ScriptedProvider
from tests.support import messages

anthropic = pytest.importorskip("anthropic")

BEFORE, BEHIND = "Sure: grüße!", "The answer is 42.\n\n1. Read it.\n2. Done."
SEEN = f"{BEFORE}\n\n{BEHIND}"
SAID: list[Any] = [{"role": "user", "content": "Hi there"}]
Door = Callable[[Any, bool], tuple[str, Any]]


def snapshot(request: Any) -> str:
    item = {"id": "a", "type": "fact", "decay": 0.1, "round": 1, "tags": [], "content": "A"}
    state = {
        "version": "2.2",
        "runtime": request.context["runtime"],
        "memory": {"core": [item], "working": [], "ephemeral": []},
        "capabilities": [],
        "active_task": "",
    }
    return f"{SEPARATOR}\n{json.dumps(state)}"


@pytest.fixture
def provider() -> Iterator[ScriptedProvider]:
    def answer(request: Any) -> Answer:
        return Answer(f"{BEFORE}\n\n{snapshot(request)}\n\n{BEHIND}\n\n{snapshot(request)}", trailer="none")

    with ScriptedProvider(answer) as provider:
        yield provider


def chat(client: Any, stream: bool) -> tuple[str, Any]:
    asked: dict[str, Any] = {"model": "gpt-5", "messages": SAID, "logprobs": True}
    if not stream:
        reply = client.chat.completions.create(**asked)
        assert "".join(token.token for token in reply.choices[0].logprobs.content) == SEEN
        return reply.choices[0].message.content, reply
    reply = client.chat.completions.create(**asked, stream=True)
    choices = [choice for chunk in reply for choice in chunk.choices]
    tokens = [token.token for choice in choices if choice.logprobs for token in choice.logprobs.content or ()]
    assert "".join(tokens) == SEEN
    return "".join(choice.delta.content or "" for choice in choices), reply


def responses(client: Any, stream: bool) -> tuple[str, Any]:
    reply = client.responses.create(model="gpt-5", input="Hi there", stream=stream)
    if not stream:
        return reply.output_text, reply
    events = list(reply)
    done = [event.text for event in events if event.type == "response.output_text.done"]
    assert done == [events[-1].response.output_text] == [SEEN]
    return "".join(event.delta for event in events if event.type == "response.output_text.delta"), reply


def message(client: Any, stream: bool) -> tuple[str, Any]:
    asked: dict[str, Any] = {"model": "claude", "max_tokens": 500, "messages": SAID}
    if not stream:
        reply = client.messages.create(**asked)
        return reply.content[0].text, reply
    with client.messages.stream(**asked) as reply:
        text = "".join(reply.text_stream)
        assert reply.get_final_message().content[0].text == text
    return text, reply


def through_litellm(client: Any, stream: bool) -> tuple[str, Any]:
    reply = client.completion(model="openai/gpt-5", messages=SAID, stream=stream)
    if not stream:
        return reply.choices[0].message.content, reply
    return "".join(chunk.choices[0].delta.content or "" for chunk in reply), reply


def client_for(door: Door, provider: ScriptedProvider) -> Any:
    if door is message:
        return anthropic.Anthropic(api_key="k", base_url=provider.anthropic_url, max_retries=0)
    if door is through_litellm:
        return load_litellm()
    return openai.OpenAI(api_key="k", base_url=provider.openai_url, max_retries=0)


@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("door", [chat, responses, message, through_litellm])
def test_text_after_a_snapshot_is_delivered_and_logged(
    door: Door, stream: bool, provider: ScriptedProvider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_BASE", provider.openai_url)
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    client = ctxwrap.wrap(client_for(door, provider), store=tmp_path, session="s")
    text, reply = door(client, stream)
    turn = ctxwrap.turn_of(reply)
    assert text == SEEN
    assert [said["content"] for said in messages(tmp_path, "s")][-1] == SEEN
    assert turn is not None
    assert {"text follows the snapshot", "more than one snapshot"} <= set(turn.violations)
    assert turn.snapshot["memory"]["core"][0]["content"] == "A"
