"""The reply formats of each API: complete replies, stream events and failures."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ctxwrap.testing.practice.answer import JSON, Failure
from ctxwrap.testing.practice.apis import chat, completions, messages, responses
from ctxwrap.testing.practice.apis.parts import PracticeTurn, StreamEvent, anthropic_failure, openai_failure
from ctxwrap.testing.practice.requests import ApiName


@dataclass(frozen=True, slots=True)
class Dialect:
    """The reply formats of one API."""

    complete: Callable[[PracticeTurn], JSON]
    events: Callable[[PracticeTurn], Iterator[StreamEvent]]
    failure: Callable[[Failure, str], JSON]


DIALECTS: dict[ApiName, Dialect] = {
    "chat": Dialect(chat.complete, chat.events, openai_failure),
    "completions": Dialect(completions.complete, completions.events, openai_failure),
    "responses": Dialect(responses.complete, responses.events, openai_failure),
    "messages": Dialect(messages.complete, messages.events, anthropic_failure),
}

__all__ = ["DIALECTS", "Dialect", "PracticeTurn", "StreamEvent"]
