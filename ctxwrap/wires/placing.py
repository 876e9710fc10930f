"""Where the texts of an injection go among a caller's messages."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ctxwrap.types import Body, Injection
from ctxwrap.wires.messages import joined

Matches = Callable[[Body], bool]


def is_operator(message: Body) -> bool:
    return message.get("role") in ("system", "developer")


def is_user(message: Body) -> bool:
    return message.get("role") == "user"


def kept(messages: Iterable[Body], injection: Injection) -> list[Body]:
    """The messages that are sent, with references in the place of copies; those of the operator always are."""
    left_out = injection.left_out
    messages = with_references(messages, injection)
    if not left_out:
        return messages
    return [message for at, message in enumerate(messages) if at not in left_out or is_operator(message)]


def with_references(messages: Iterable[Body], injection: Injection) -> list[Body]:
    messages = list(messages)
    for at, texts in injection.references.items():
        messages[at] = _with_results(messages[at], texts)
    return messages


def _with_results(message: Body, texts: Mapping[str, str]) -> Body:
    """A message with other texts for what tools gave in it, by the ids of the calls."""
    if "output" in message:
        return {**message, "output": texts[str(message.get("call_id") or "")]}
    if message.get("role") in ("tool", "function"):
        return {**message, "content": texts[str(message.get("tool_call_id") or "")]}
    return {**message, "content": [_with_result(block, texts) for block in message["content"]]}


def _with_result(block: Body, texts: Mapping[str, str]) -> Body:
    is_copy = block.get("type") == "tool_result" and block.get("tool_use_id") in texts
    return {**block, "content": texts[block["tool_use_id"]]} if is_copy else block


def leading(messages: list[Body]) -> int:
    """How many messages of the operator's stand before all others."""
    return next((at for at, message in enumerate(messages) if not is_operator(message)), len(messages))


def first_index(messages: list[Body], matches: Matches) -> int:
    """Where the first matching message stands, else -1."""
    return next((at for at, message in enumerate(messages) if matches(message)), -1)


def last_index(messages: list[Body], matches: Matches) -> int:
    """Where the last matching message stands, else -1."""
    return next((at for at in range(len(messages) - 1, -1, -1) if matches(messages[at])), -1)


def surrounded(
    messages: list[Body], injection: Injection, is_spoken: Matches, text_type: str
) -> tuple[list[Body], str]:
    """`messages` with the background before the first spoken one and the block behind the newest, or what is left over.

    Content that is one text stays one, so that a message looks the same when it is sent again without the block.
    """
    first, newest = first_index(messages, is_spoken), last_index(messages, is_spoken)
    if newest < 0:
        return messages, joined(injection.background, injection.block)
    messages = list(messages)
    messages[first] = with_content(messages[first], preceded, injection.background, text_type)
    messages[newest] = with_content(messages[newest], extended, injection.block, text_type)
    return messages, ""


def with_content(message: Body, changing: Callable[[Any, str, str], Any], text: str, text_type: str = "text") -> Body:
    """`message` with `text` in its content, or the very message if there is none to add."""
    return {**message, "content": changing(message.get("content"), text, text_type)} if text else message


def preceded(content: Any, text: str, text_type: str = "text") -> Any:
    """Content with `text` before it."""
    if content is None or isinstance(content, str):
        return joined(text, content or "")
    return [*_added(text, text_type), *_parts(content)]


def extended(content: Any, text: str, text_type: str = "text") -> Any:
    """Content with `text` behind it."""
    if content is None or isinstance(content, str):
        return joined(content or "", text)
    return [*_parts(content), *_added(text, text_type)]


def _added(text: str, text_type: str) -> list[Body]:
    return [{"type": text_type, "text": text}] if text else []


def _parts(content: Any) -> Iterable[Any]:
    return [content] if isinstance(content, Mapping) else content
