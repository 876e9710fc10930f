"""Token usage of the practice provider, its prompt cache, and its context window."""

import threading
from collections import deque
from collections.abc import Callable, Sequence

from ctxwrap.testing.practice.answer import JSON, Answer, Failure
from ctxwrap.testing.practice.requests import Answering, ApiName, Ask, dicts, response_items

CACHED_FROM, STEP = 1024, 128
"""The cache serves prefixes of at least this many tokens, in multiples of the step."""

_MOST_PROMPTS = 16
_TOKENIZER = "gpt-4o"
_FRAME = 3
_PATHS: dict[ApiName, str] = {
    "chat": "/chat/completions",
    "completions": "/completions",
    "responses": "/responses",
    "messages": "/messages",
}


class PromptCache:
    """Stores the newest prompts of all models; thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._prompts: deque[tuple[str, tuple[str, ...]]] = deque(maxlen=_MOST_PROMPTS)

    def take(self, ask: Ask) -> tuple[str, ...]:
        """Store a prompt and return its longest prefix in an earlier prompt of the same model, as texts."""
        if ask.api == "messages" and not _is_marked(ask.body):
            return ()
        model, prompt = f"{ask.api} {ask.model}", ask.prompt
        with self._lock:
            earlier = [known for name, known in self._prompts if name == model]
            self._prompts.append((model, prompt))
        return max((_shared_prefix(known, prompt) for known in earlier), key=_length, default=())


def cached_tokens(shared: Sequence[str], asked: int) -> int:
    """Return the cached tokens of a prompt of `asked` tokens with a known prefix."""
    known = min(asked, sum(_FRAME + tokens_in(text) for text in shared))
    return known // STEP * STEP if known >= CACHED_FROM else 0


def tokens_in(text: str) -> int:
    from ctxwrap.tokens import counter_for

    return counter_for(_TOKENIZER).count(text) if text else 0


def input_tokens(ask: Ask) -> int:
    from ctxwrap.providers import adapter_for
    from ctxwrap.tokens import counter_for

    adapter, body = adapter_for(_PATHS[ask.api]), ask.body
    assert adapter is not None
    if ask.earlier:
        body = {**body, "input": [*ask.earlier, *response_items(body)]}
    return adapter.request_tokens(body, counter_for(_TOKENIZER))


def output_tokens(answers: Sequence[Answer]) -> int:
    return sum(
        tokens_in(answer.text)
        + tokens_in(answer.refusal)
        + tokens_in(answer.reasoning)
        + sum(tokens_in(call.name) + tokens_in(call.arguments) for call in answer.tool_calls)
        for answer in answers
    )


def reasoning_tokens(answers: Sequence[Answer]) -> int:
    return sum(tokens_in(answer.reasoning) for answer in answers)


def _shared_prefix(known: Sequence[str], prompt: Sequence[str]) -> tuple[str, ...]:
    shared: list[str] = []
    for before, text in zip(known, prompt, strict=False):
        if before != text:
            return (*shared, _common_prefix(before, text))
        shared.append(text)
    return tuple(shared)


def _common_prefix(one: str, other: str) -> str:
    """Return the common prefix of two texts, by binary search."""
    same, end = 0, min(len(one), len(other))
    while same < end:
        half = (same + end + 1) // 2
        same, end = (half, end) if one[same:half] == other[same:half] else (same, half - 1)
    return one[:same]


def _length(texts: Sequence[str]) -> int:
    return sum(map(len, texts))


def _is_marked(body: JSON) -> bool:
    """Whether a request to Anthropic marks a part for its cache, which is opt-in."""
    parts = [body, *dicts(body.get("tools")), *dicts(body.get("system"))]
    for message in dicts(body.get("messages")):
        parts += dicts(message.get("content"))
    return any("cache_control" in part for part in parts)


_REPLY_LIMITS = ("max_tokens", "max_completion_tokens", "max_output_tokens")


def within(window: int, answer: Answering) -> Answering:
    """Answer requests that fit into `window` tokens with their reply limit; others get the API's own error."""

    def fitting(ask: Ask) -> Answer | Failure:
        input_size, reply = input_tokens(ask), _reply_limit(ask)
        return answer(ask) if input_size + reply <= window else _TOO_LONG[ask.api](window, input_size, reply)

    return fitting


def _reply_limit(ask: Ask) -> int:
    asked_for = next((ask.body[name] for name in _REPLY_LIMITS if ask.body.get(name)), 0)
    return asked_for if isinstance(asked_for, int) else 0


def _chat(window: int, input_size: int, reply: int) -> Failure:
    asked = f"you requested {input_size + reply} tokens ({input_size} in the messages, {reply} in the completion)"
    took = asked if reply else f"your messages resulted in {input_size} tokens"
    advice = f"Please reduce the length of the messages{' or completion' if reply else ''}."
    return _openai(f"This model's maximum context length is {window} tokens. However, {took}. {advice}", "messages")


def _completions(window: int, input_size: int, reply: int) -> Failure:
    asked = f"you requested {input_size + reply} tokens ({input_size} in your prompt; {reply} for the completion)"
    advice = "Please reduce your prompt; or completion length."
    return _openai(f"This model's maximum context length is {window} tokens, however {asked}. {advice}", None)


def _responses(window: int, input_size: int, reply: int) -> Failure:
    return _openai(
        "Your input exceeds the context window of this model. Please adjust your input and try again.", "input"
    )


def _openai(message: str, param: str | None) -> Failure:
    return Failure(400, message, param=param, code="context_length_exceeded")


def _messages(window: int, input_size: int, reply: int) -> Failure:
    if input_size > window:
        return Failure(400, f"prompt is too long: {input_size} tokens > {window} maximum")
    numbers = f"{input_size} + {reply} > {window}"
    advice = "decrease input length or `max_tokens` and try again"
    return Failure(400, f"input length and `max_tokens` exceed context limit: {numbers}, {advice}")


_TOO_LONG: dict[ApiName, Callable[[int, int, int], Failure]] = {
    "chat": _chat,
    "completions": _completions,
    "responses": _responses,
    "messages": _messages,
}
