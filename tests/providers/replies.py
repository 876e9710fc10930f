"""Replies of each API as JSON, made by the practice provider or here, and how a caller reads their text."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ctxwrap.providers.anthropic import MESSAGES
from ctxwrap.providers.base import ProviderAdapter
from ctxwrap.providers.bedrock import CONVERSE
from ctxwrap.providers.cohere import CHAT as COHERE
from ctxwrap.providers.google import GENERATE
from ctxwrap.providers.ollama import CHAT as OLLAMA
from ctxwrap.providers.openai_chat import CHAT
from ctxwrap.providers.openai_completions import COMPLETIONS
from ctxwrap.providers.openai_responses import RESPONSES
from ctxwrap.testing.practice.answer import Answer
from ctxwrap.testing.practice.apis import DIALECTS
from ctxwrap.testing.practice.apis.parts import PracticeTurn
from ctxwrap.testing.practice.requests import ApiName, Ask
from ctxwrap.types import Body

_REQUEST: Body = {"model": "m", "messages": [], "input": "", "prompt": ""}


@dataclass(frozen=True)
class Speaker:
    adapter: ProviderAdapter
    api: ApiName
    text_of: Callable[[Any], str]
    delta_of: Callable[[Any], str]
    has_logprobs: bool = True

    def whole(self, answer: Answer) -> Body:
        return json.loads(json.dumps(DIALECTS[self.api].complete(self._turn(answer))))

    def events(self, answer: Answer) -> list[Body]:
        events = DIALECTS[self.api].events(self._turn(answer))
        return [json.loads(json.dumps(event.data)) for event in events if isinstance(event.data, dict)]

    def streamed_text(self, events: list[Body]) -> str:
        return "".join(self.delta_of(event) for event in events)

    def _turn(self, answer: Answer) -> PracticeTurn:
        return PracticeTurn(Ask(self.api, _REQUEST, "/", {}), answer, number=1, created=1)


def _chat_delta(event: Body) -> str:
    return "".join(choice["delta"].get("content") or "" for choice in event["choices"])


def _responses_text(payload: Body) -> str:
    return "".join(part["text"] for item in payload["output"] for part in item["content"])


SPEAKERS = (
    Speaker(CHAT, "chat", lambda payload: payload["choices"][0]["message"]["content"] or "", _chat_delta),
    Speaker(
        COMPLETIONS,
        "completions",
        lambda payload: str(payload["choices"][0]["text"]),
        lambda event: "".join(choice["text"] for choice in event["choices"]),
    ),
    Speaker(
        RESPONSES,
        "responses",
        _responses_text,
        lambda event: event["delta"] if event["type"] == "response.output_text.delta" else "",
    ),
    Speaker(
        MESSAGES,
        "messages",
        lambda payload: "".join(block["text"] for block in payload["content"]),
        lambda event: event["delta"].get("text", "") if event["type"] == "content_block_delta" else "",
        has_logprobs=False,
    ),
)


@dataclass(frozen=True)
class ScriptedSpeaker(Speaker):
    """A speaker of an API that the practice provider does not have."""

    complete: Callable[[Answer], Body] = lambda answer: {}
    stream: Callable[[Answer], list[Body]] = lambda answer: []

    def whole(self, answer: Answer) -> Body:
        return self.complete(answer)

    def events(self, answer: Answer) -> list[Body]:
        return self.stream(answer)


def _pieces(answer: Answer) -> tuple[str, ...]:
    return answer.pieces or (answer.text,)


def _google(parts: list[Body], **end: str) -> Body:
    return {"candidates": [{"content": {"role": "model", "parts": parts}, **end}], "responseId": "r"}


def _google_calls(answer: Answer) -> list[Body]:
    calls = answer.tool_calls
    return [{"functionCall": {"id": each.id, "name": each.name, "args": json.loads(each.arguments)}} for each in calls]


def _google_stream(answer: Answer) -> list[Body]:
    end = _google(_google_calls(answer), finishReason="STOP")
    return [*(_google([{"text": piece}]) for piece in _pieces(answer)), end]


def _google_text(payload: Body) -> str:
    return "".join(part.get("text", "") for part in payload["candidates"][0]["content"]["parts"])


def _ollama(message: Body, **end: Any) -> Body:
    return {"model": "m", "message": {"role": "assistant", "content": "", **message}, "done": bool(end), **end}


def _ollama_calls(answer: Answer) -> list[Body]:
    calls = answer.tool_calls
    return [{"id": each.id, "function": {"name": each.name, "arguments": json.loads(each.arguments)}} for each in calls]


def _ollama_stream(answer: Answer) -> list[Body]:
    texts = [_ollama({"content": piece}) for piece in _pieces(answer)]
    return [*texts, _ollama({"tool_calls": _ollama_calls(answer)}), _ollama({}, done_reason="stop")]


def _cohere_calls(answer: Answer) -> list[Body]:
    calls = answer.tool_calls
    return [{"id": each.id, "function": {"name": each.name, "arguments": each.arguments}} for each in calls]


def _cohere(answer: Answer) -> Body:
    content = [{"type": "text", "text": answer.text}]
    message = {"role": "assistant", "content": content, "tool_calls": _cohere_calls(answer)}
    return {"id": "c", "message": message, "finish_reason": "COMPLETE"}


def _cohere_event(kind: str, index: int = 0, **message: Any) -> Body:
    return {"type": kind, "index": index, "delta": {"message": message}}


def _cohere_stream(answer: Answer) -> list[Body]:
    texts = [_cohere_event("content-delta", content={"text": piece}) for piece in _pieces(answer)]
    calls = [_cohere_event("tool-call-start", at, tool_calls=call) for at, call in enumerate(_cohere_calls(answer))]
    start, end = _cohere_event("content-start", content={"type": "text", "text": ""}), _cohere_event("content-end")
    return [start, *texts, end, *calls, {"type": "message-end", "delta": {"finish_reason": "COMPLETE"}}]


def _cohere_delta(event: Body) -> str:
    return str(event["delta"]["message"]["content"]["text"]) if event["type"] == "content-delta" else ""


def _bedrock_calls(answer: Answer) -> list[Body]:
    return [
        {"toolUseId": each.id, "name": each.name, "input": json.loads(each.arguments)} for each in answer.tool_calls
    ]


def _bedrock(answer: Answer) -> Body:
    content = [{"text": answer.text}, *({"toolUse": call} for call in _bedrock_calls(answer))]
    return {"output": {"message": {"role": "assistant", "content": content}}, "stopReason": "end_turn"}


def _bedrock_event(kind: str, index: int, **fields: Any) -> Body:
    return {kind: {"contentBlockIndex": index, **fields}}


def _bedrock_stream(answer: Answer) -> list[Body]:
    texts = [_bedrock_event("contentBlockDelta", 0, delta={"text": piece}) for piece in _pieces(answer)]
    events = [*texts, _bedrock_event("contentBlockStop", 0)]
    for index, call in enumerate(_bedrock_calls(answer), 1):
        given = json.dumps(call.pop("input"))
        events.append(_bedrock_event("contentBlockStart", index, start={"toolUse": call}))
        events.append(_bedrock_event("contentBlockDelta", index, delta={"toolUse": {"input": given}}))
        events.append(_bedrock_event("contentBlockStop", index))
    return [
        {"messageStart": {"role": "assistant"}},
        *events,
        {"messageStop": {"stopReason": "end_turn"}},
        {"metadata": {}},
    ]


ALL_SPEAKERS = (
    *SPEAKERS,
    ScriptedSpeaker(
        GENERATE,
        "chat",
        _google_text,
        _google_text,
        has_logprobs=False,
        complete=lambda answer: _google([{"text": answer.text}, *_google_calls(answer)], finishReason="STOP"),
        stream=_google_stream,
    ),
    ScriptedSpeaker(
        OLLAMA,
        "chat",
        lambda payload: str(payload["message"]["content"]),
        lambda event: str(event["message"]["content"]),
        has_logprobs=False,
        complete=lambda answer: _ollama(
            {"content": answer.text, "tool_calls": _ollama_calls(answer)}, done_reason="stop"
        ),
        stream=_ollama_stream,
    ),
    ScriptedSpeaker(
        COHERE,
        "chat",
        lambda payload: "".join(block["text"] for block in payload["message"]["content"]),
        _cohere_delta,
        has_logprobs=False,
        complete=_cohere,
        stream=_cohere_stream,
    ),
    ScriptedSpeaker(
        CONVERSE,
        "chat",
        lambda payload: "".join(block.get("text", "") for block in payload["output"]["message"]["content"]),
        lambda event: str(event.get("contentBlockDelta", {}).get("delta", {}).get("text", "")),
        has_logprobs=False,
        complete=_bedrock,
        stream=_bedrock_stream,
    ),
)
