"""Messages and options of any provider: the log's form, where injected texts go, output limits, cache keys."""

import json
import marshal
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Any, TypeVar

from ctxwrap.protocol.instructions import sanitise
from ctxwrap.types import Body, Content, Injection, Reply, SessionKey

TEXT_TYPES = frozenset({"text", "input_text", "output_text"})
_UNSENT = frozenset({"thinking", "redacted_thinking", "reasoning"})


def log_content(content: Any) -> Content:
    """Content in the log's form: one text if it is all text, otherwise parts whose text parts have type `text`."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, Mapping):
        content = [content]
    parts = [_part(part) for part in content]
    parts = [part for part in parts if part.get("type") not in _UNSENT]
    if all(part.get("type") == "text" for part in parts):
        return "\n".join(part["text"] for part in parts)
    return parts


def _part(part: Any) -> Body:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    if not isinstance(part, Mapping):
        return {"type": "unknown", "value": str(part)}
    if part.get("type") in TEXT_TYPES and isinstance(part.get("text"), str):
        return {"type": "text", "text": part["text"]}
    return dict(part)


def blocks_of(content: Any) -> list[Body]:
    """Content as a list of blocks: a text is one text block."""
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content or ())


def api_content(content: Content, text_type: str, known: Iterable[str]) -> Content:
    """Content of the log for an API whose text parts have type `text_type` and which accepts the part types `known`."""
    if isinstance(content, str):
        return content
    return [_api_part(part, text_type, frozenset(known)) for part in content]


def _api_part(part: Body, text_type: str, known: frozenset[str]) -> Body:
    kind = part.get("type")
    if kind == "text":
        return {"type": text_type, "text": part["text"]}
    return part if kind in known else {"type": text_type, "text": f"[{kind}]"}


def join_texts(*texts: str) -> str:
    """The non-empty texts, separated by blank lines."""
    return "\n\n".join(filter(None, texts))


def tool_call(call_id: Any, name: Any, arguments: Any) -> Body:
    return {"id": str(call_id or ""), "name": str(name or ""), "arguments": str(arguments or "")}


def id_of_call(given: Any, name: str, times: Counter[str]) -> str:
    """The id of a call or a result. Some APIs give none: then it is the function's name, and a number from the second
    call of a message on; `times` counts them.
    """
    times[name] += 1
    return str(given or (name if times[name] == 1 else f"{name}-{times[name]}"))


def unknown_keys(message: Mapping[str, Any], known: frozenset[str]) -> dict[str, Any]:
    """The keys of a caller's message that `Message` has no field for."""
    return {key: value for key, value in message.items() if key not in known and value is not None}


Matches = Callable[[Body], bool]


_OPERATORS = ("system", "developer")


def is_operator(message: Body) -> bool:
    return message.get("role") in _OPERATORS


def is_user(message: Body) -> bool:
    return message.get("role") == "user"


WithResults = Callable[[Body, Mapping[str, str]], Body]
"""A message with other texts for its tool results, by the ids of the calls."""


def sent_messages(messages: Iterable[Body], injection: Injection, with_results: WithResults) -> list[Body]:
    """The caller's messages that are sent, references in place of repeated tool results; the operator's always are."""
    left_out = injection.left_out
    messages = with_references(messages, injection, with_results) if injection.references else list(messages)
    if not left_out:
        return messages
    return [message for at, message in enumerate(messages) if at not in left_out or message.get("role") in _OPERATORS]


def with_references(messages: Iterable[Body], injection: Injection, with_results: WithResults) -> list[Body]:
    messages = list(messages)
    for at, texts in injection.references.items():
        messages[at] = with_results(messages[at], texts)
    return messages


def leading_operators(messages: list[Body]) -> int:
    """The number of operator messages before all others."""
    for at, message in enumerate(messages):
        if message.get("role") not in _OPERATORS:
            return at
    return len(messages)


def first_index(messages: list[Body], matches: Matches) -> int:
    """The index of the first matching message, or -1."""
    for at, message in enumerate(messages):
        if matches(message):
            return at
    return -1


def last_index(messages: list[Body], matches: Matches) -> int:
    """The index of the last matching message, or -1."""
    for at in range(len(messages) - 1, -1, -1):
        if matches(messages[at]):
            return at
    return -1


def with_injected_texts(
    messages: list[Body], injection: Injection, is_spoken: Matches, text_type: str
) -> tuple[list[Body], str]:
    """`messages` with the background before the first spoken one and the block after the newest; and the rest.

    The rest is what has no spoken message to go to. Content that is one text stays one, so that the message has the
    same bytes when it is sent again without the block.
    """
    newest, block = last_index(messages, is_spoken), injection.block
    if newest < 0:
        return messages, join_texts(injection.background, block)
    messages = list(messages)
    if injection.background:
        first = first_index(messages, is_spoken)
        messages[first] = with_content(messages[first], prepend_text, injection.background, text_type)
    message = messages[newest]
    content = message.get("content")
    if isinstance(content, str) and content and block:  # most requests
        messages[newest] = {**message, "content": f"{content}\n\n{block}"}
    else:
        messages[newest] = with_content(message, append_text, block, text_type)
    return messages, ""


def with_content(message: Body, add: Callable[[Any, str, str], Any], text: str, text_type: str = "text") -> Body:
    """`message` with `text` added to its content, or `message` itself if `text` is empty."""
    return {**message, "content": add(message.get("content"), text, text_type)} if text else message


def prepend_text(content: Any, text: str, text_type: str = "text") -> Any:
    """Content with `text` before it."""
    if content is None or isinstance(content, str):
        return join_texts(text, content or "")
    return [*_added(text, text_type), *_parts(content)]


def append_text(content: Any, text: str, text_type: str = "text") -> Any:
    """Content with `text` after it."""
    if content is None or isinstance(content, str):
        return join_texts(content or "", text)
    return [*_parts(content), *_added(text, text_type)]


def _added(text: str, text_type: str) -> list[Body]:
    return [{"type": text_type, "text": text}] if text else []


def _parts(content: Any) -> Iterable[Any]:
    return [content] if isinstance(content, Mapping) else content


def neutral_message(message: Body) -> Body:
    """A message with neutral texts, or `message` itself if they are neutral; the operator may write anything.

    In an assistant message only the text parts change. Its trailer was removed, so a separator in it is quoted or
    comes from elsewhere. Thinking is signed, and tool calls must stay exact.
    """
    if message.get("role") in _OPERATORS:
        return message
    content = message.get("content")
    if isinstance(content, str):
        neutral: Any = sanitise(content)
    else:
        neutral = (_neutral_text if message.get("role") == "assistant" else neutral_value)(content)
    return message if neutral is content else {**message, "content": neutral}


def neutral_value(value: Any) -> Any:
    """A value whose texts are neutral at any depth; `value` itself if they are neutral already."""
    if isinstance(value, str):
        return sanitise(value)
    if isinstance(value, list):
        return _same_or([neutral_value(item) for item in value], value)
    if isinstance(value, dict):
        changed = {name: neutral_value(item) for name, item in value.items()}
        return value if all(changed[name] is value[name] for name in value) else changed
    return value


def _neutral_text(content: Any) -> Any:
    if isinstance(content, str):
        return sanitise(content)
    if not isinstance(content, list):
        return content
    return _same_or([_neutral_part(part) for part in content], content)


def _neutral_part(part: Any) -> Any:
    is_text = isinstance(part, dict) and part.get("type", "text") in TEXT_TYPES
    return changed_field(part, "text", neutral_value) if is_text else part


def changed_field(value: Body, name: str, change: Callable[[Any], Any]) -> Body:
    """`value` with `change` applied to one field, or `value` itself if the field stays the same."""
    changed = change(value.get(name))
    return value if changed is value.get(name) else {**value, name: changed}


def _same_or(changed: list[Any], value: list[Any]) -> list[Any]:
    return value if all(new is old for new, old in zip(changed, value, strict=True)) else changed


def set_path(value: Body, path: Sequence[str | int], new: Any) -> Body:
    """A copy of `value` with `new` at an existing `path`; everything off the path is shared."""
    *holders, last = path
    changed = value.copy()
    inner: Any = changed
    for step in holders:
        inner[step] = inner[step].copy()
        inner = inner[step]
    inner[last] = new
    return changed


T = TypeVar("T")


def sendable(value: T) -> T:
    """`value`, or a copy of it without lone surrogates, which cannot be encoded as UTF-8."""
    try:
        written = marshal.dumps(value, 2)  # type: ignore[arg-type]
    except ValueError:  # something else than JSON
        return _sendable(value)  # type: ignore[no-any-return]
    return value if b"\xed" not in written else _sendable(value)  # in bytes, surrogates and few others begin with ED


def _sendable(value: Any) -> Any:
    if isinstance(value, str):
        return value if _is_whole(value) else value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, dict):
        made = {_sendable(name): _sendable(item) for name, item in value.items()}
        return value if all(made.get(name) is item for name, item in value.items()) else made
    if isinstance(value, list):
        items = [_sendable(item) for item in value]
        return value if all(new is old for new, old in zip(items, value, strict=True)) else items
    return value


def _is_whole(text: str) -> bool:
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


_ANSWER_OPTIONS = frozenset(
    {
        *("stream", "stream_options", "n", "best_of", "stop", "stop_sequences"),
        *("logprobs", "top_logprobs", "prediction", "web_search_options"),
    }
)
"""Options that shape the answer for its reader or could cut a snapshot short."""


def short_answer_options(body: Body) -> Body:
    """`body` for one whole text answer; tools stay, since the history may hold calls to them."""
    kept = {name: value for name, value in body.items() if name not in _ANSWER_OPTIONS}
    return {**kept, "tool_choice": "none"} if body.get("tools") else kept


def reply_text(reply: Reply) -> str:
    """The text of a reply, including its trailer."""
    return join_texts(reply.messages[0].text, reply.reading.trailer if reply.reading else "")


_AMPLE = 4096
"""A reply limit that is not raised: it leaves enough tokens for a trailer, and some models allow no higher one."""

_LEAST_THINKING = 1024
"""Providers reject a smaller thinking budget."""


def raise_limits(body: Body, names: tuple[str, ...], reserve: int) -> Body:
    """The caller's reply limits plus `reserve` tokens for the trailer, up to what every model allows."""
    raised: Body = {}
    for name in names:
        limit = body.get(name)
        if isinstance(limit, int) and limit < _AMPLE:
            raised[name] = min(limit + reserve, _AMPLE)
    return raised


def ample_limits(body: Body, names: tuple[str, ...], reserve: int) -> Body:
    """The caller's reply limits, with at least `reserve` tokens left after thinking, whose budget may be lowered."""
    limits = {name: max(body[name], reserve) for name in names if isinstance(body.get(name), int)}
    thinking = body.get("thinking")
    budget = thinking.get("budget_tokens") if isinstance(thinking, dict) else None
    if not limits or not isinstance(thinking, dict) or not isinstance(budget, int):
        return limits
    budget = min(budget, max(_LEAST_THINKING, min(limits.values()) - reserve))
    limits = {name: max(limit, budget + reserve) for name, limit in limits.items()}
    return {**limits, "thinking": {**thinking, "budget_tokens": budget}}


CACHE_KEY_FIELD = "prompt_cache_key"

_OWN = re.compile(r"ctxwrap-[0-9a-f]{40}")


def cache_key(key: SessionKey) -> str:
    """A session's key, the same in every process. It is a hash, so it does not show the session's names."""
    return f"ctxwrap-{sha256(json.dumps(key).encode()).hexdigest()[:40]}"


def is_cache_key(value: object) -> bool:
    """Whether ctxwrap made a key, not the caller."""
    return isinstance(value, str) and _OWN.fullmatch(value) is not None
