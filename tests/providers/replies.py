"""Replies of each API as JSON, made by the practice provider, and how a caller reads their text."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ctxwrap.providers.anthropic import MESSAGES
from ctxwrap.providers.base import ProviderAdapter
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
