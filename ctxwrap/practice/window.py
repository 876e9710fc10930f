"""A window for the practice model: what does not fit is refused in the words of the API that was asked."""

from collections.abc import Callable

from ctxwrap.practice.answer import Answer, Failure
from ctxwrap.practice.ask import Answering, ApiName, Ask
from ctxwrap.practice.usage import input_tokens

_REPLY_LIMITS = ("max_tokens", "max_completion_tokens", "max_output_tokens")


def within(window: int, answer: Answering) -> Answering:
    """`answer`, if a request and the room it asks for the reply fit into `window` tokens."""

    def fitting(ask: Ask) -> Answer | Failure:
        said, reply = input_tokens(ask), _reply_asked_for(ask)
        return answer(ask) if said + reply <= window else _WORDS[ask.api](window, said, reply)

    return fitting


def _reply_asked_for(ask: Ask) -> int:
    asked_for = next((ask.body[name] for name in _REPLY_LIMITS if ask.body.get(name)), 0)
    return asked_for if isinstance(asked_for, int) else 0


def _chat(window: int, said: int, reply: int) -> Failure:
    asked = f"you requested {said + reply} tokens ({said} in the messages, {reply} in the completion)"
    took = asked if reply else f"your messages resulted in {said} tokens"
    advice = f"Please reduce the length of the messages{' or completion' if reply else ''}."
    return _openai(f"This model's maximum context length is {window} tokens. However, {took}. {advice}", "messages")


def _completions(window: int, said: int, reply: int) -> Failure:
    asked = f"you requested {said + reply} tokens ({said} in your prompt; {reply} for the completion)"
    advice = "Please reduce your prompt; or completion length."
    return _openai(f"This model's maximum context length is {window} tokens, however {asked}. {advice}", None)


def _responses(window: int, said: int, reply: int) -> Failure:
    return _openai(
        "Your input exceeds the context window of this model. Please adjust your input and try again.", "input"
    )


def _openai(message: str, param: str | None) -> Failure:
    return Failure(400, message, param=param, code="context_length_exceeded")


def _messages(window: int, said: int, reply: int) -> Failure:
    if said > window:
        return Failure(400, f"prompt is too long: {said} tokens > {window} maximum")
    numbers = f"{said} + {reply} > {window}"
    advice = "decrease input length or `max_tokens` and try again"
    return Failure(400, f"input length and `max_tokens` exceed context limit: {numbers}, {advice}")


_WORDS: dict[ApiName, Callable[[int, int, int], Failure]] = {
    "chat": _chat,
    "completions": _completions,
    "responses": _responses,
    "messages": _messages,
}
