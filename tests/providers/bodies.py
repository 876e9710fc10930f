"""Requests of each API as callers write them, and as a provider sees them."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from ctxwrap.providers.anthropic import MESSAGES
from ctxwrap.providers.base import ProviderAdapter
from ctxwrap.providers.openai_chat import CHAT
from ctxwrap.providers.openai_responses import RESPONSES
from ctxwrap.types import Body, Message

BLOCK = "«block»"
TEXT_TYPES = ("text", "input_text", "output_text")

words = st.text("ab<> \n", max_size=8).map(lambda text: f"a{text}.")


@dataclass(frozen=True)
class Exchange:
    """What a user said, what came of it, and how the caller writes it."""

    user: str
    reply: str
    called: int = 0
    """How often a tool was called before the reply."""
    in_parts: bool = False


exchanges = st.builds(Exchange, words, words, st.integers(0, 2), st.booleans())
conversations = st.lists(exchanges, min_size=1, max_size=5)


@dataclass(frozen=True)
class Speech:
    """How the callers of one API write requests."""

    adapter: ProviderAdapter
    user: Callable[[Exchange], Body]
    answer: Callable[[Exchange], list[Body]]
    body: Callable[[list[Body], Any], Body]
    """A request out of messages and a system prompt."""

    def whole(self, said: list[Exchange], system: Any) -> Body:
        """A caller's who sends all that was said; the answer to the last of it is yet to come."""
        *before, newest = said
        messages = [message for exchange in before for message in (self.user(exchange), *self.answer(exchange))]
        return self.body([*messages, self.user(newest)], system)


def logged(said: list[Exchange]) -> tuple[Message, ...]:
    """What the log has of it."""
    return tuple(message for exchange in said for message in _logged(exchange))


def _logged(exchange: Exchange) -> list[Message]:
    messages = [Message("user", exchange.user)]
    for number in range(exchange.called):
        call = {"id": f"c{number}", "name": "f", "arguments": "{}"}
        messages += [Message("assistant", tool_calls=(call,)), Message("tool", "42", tool_call_id=f"c{number}")]
    return [*messages, Message("assistant", exchange.reply)]


def _user(text_type: str) -> Callable[[Exchange], Body]:
    def user(said: Exchange) -> Body:
        parts = [{"type": text_type, "text": said.user}]
        return {"role": "user", "content": parts if said.in_parts else said.user}

    return user


def _chat_answer(said: Exchange) -> list[Body]:
    messages: list[Body] = []
    for number in range(said.called):
        call = {"id": f"c{number}", "type": "function", "function": {"name": "f", "arguments": "{}"}}
        messages += [{"role": "assistant", "content": None, "tool_calls": [call]}]
        messages += [{"role": "tool", "tool_call_id": f"c{number}", "content": "42"}]
    return [*messages, {"role": "assistant", "content": said.reply}]


def _responses_answer(said: Exchange) -> list[Body]:
    items: list[Body] = []
    for number in range(said.called):
        items += [{"type": "reasoning", "id": f"r{number}", "summary": []}]
        items += [{"type": "function_call", "call_id": f"c{number}", "name": "f", "arguments": "{}"}]
        items += [{"type": "function_call_output", "call_id": f"c{number}", "output": "42"}]
    return [*items, {"role": "assistant", "content": [{"type": "output_text", "text": said.reply}]}]


def _messages_answer(said: Exchange) -> list[Body]:
    messages: list[Body] = []
    for number in range(said.called):
        call = {"type": "tool_use", "id": f"c{number}", "name": "f", "input": {}}
        result = {"type": "tool_result", "tool_use_id": f"c{number}", "content": "42"}
        messages += [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]
    return [*messages, {"role": "assistant", "content": said.reply}]


def _chat_body(messages: list[Body], system: Any) -> Body:
    opening = (
        [] if system is None else [{"role": "system", "content": "First."}, {"role": "developer", "content": system}]
    )
    return {"messages": [*opening, *messages]}


def _responses_body(messages: list[Body], system: Any) -> Body:
    instructions = {"instructions": system} if isinstance(system, str) else {}
    opening = [{"role": "developer", "content": system}] if isinstance(system, list) else []
    return {"input": [*opening, *messages], "store": False, **instructions}


def _messages_body(messages: list[Body], system: Any) -> Body:
    return {"messages": messages, **({} if system is None else {"system": system})}


SPEECHES = (
    Speech(CHAT, _user("text"), _chat_answer, _chat_body),
    Speech(RESPONSES, _user("input_text"), _responses_answer, _responses_body),
    Speech(MESSAGES, _user("text"), _messages_answer, _messages_body),
)


def seen(adapter: ProviderAdapter, body: Body) -> str:
    """A request as its provider goes through it to find what it knows already: no marks, and all text as parts."""
    system = body.get("instructions") if adapter is RESPONSES else body.get("system")
    pieces = [f"[system]{_parts(system)}"] if system else []
    role = ""
    for message in body["input" if adapter is RESPONSES else "messages"]:
        others = {name: value for name, value in message.items() if name not in ("role", "content")}
        if adapter is not MESSAGES or message["role"] != role:  # Anthropic puts messages of one role together
            pieces.append(f"[{message.get('role')}]")
        role = message.get("role", "")
        pieces.append(_parts(message.get("content")) + (json.dumps(others) if others else ""))
    return "".join(pieces)


def _parts(content: Any) -> str:
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else content or ()
    return "".join(f"|{_part(part)}" for part in parts)


def _part(part: Body) -> str:
    if part.get("type") in TEXT_TYPES:
        return str(part["text"])
    return json.dumps({name: value for name, value in part.items() if name != "cache_control"}, sort_keys=True)


def before_the_block(text: str) -> str:
    """What a provider sees before the block, without what sets it apart."""
    head, found, _ = text.partition(BLOCK)
    assert found
    return head[:-1] if head.endswith("|") else head.removesuffix("\n\n")
