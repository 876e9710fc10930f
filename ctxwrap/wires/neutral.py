"""The conversation as the model gets to see it: no text in it poses as the separator or as a frame of ours."""

from typing import Any

from ctxwrap.protocol.text import neutral
from ctxwrap.types import Body
from ctxwrap.wires.messages import TEXT_TYPES

_OPERATOR = ("system", "developer")


def neutral_message(message: Body) -> Body:
    """A message with neutral texts, or the very message if they are; the operator may say anything.

    Of a model's own message only the words are changed: a reply has left its trailer behind, so a separator in it was
    quoted, or it comes from elsewhere. What it thought is signed, and what it called must stay exact.
    """
    if message.get("role") in _OPERATOR:
        return message
    return _with(message, "content", _neutral_words if message.get("role") == "assistant" else neutral_value)


def neutral_item(item: Body) -> Body:
    """The same for an item that may also be a call or what a tool gave back."""
    if "role" in item:
        return neutral_message(item)
    for name in ("output", "outputs", "results"):
        item = _with(item, name, neutral_value)
    return item


def neutral_value(value: Any) -> Any:
    """A value whose texts are neutral, however deep they lie; the very value if they were."""
    if isinstance(value, str):
        return neutral(value)
    if isinstance(value, list):
        return _same_or([neutral_value(item) for item in value], value)
    if isinstance(value, dict):
        changed = {name: neutral_value(item) for name, item in value.items()}
        return value if all(changed[name] is value[name] for name in value) else changed
    return value


def _neutral_words(content: Any) -> Any:
    if isinstance(content, str):
        return neutral(content)
    if not isinstance(content, list):
        return content
    return _same_or([_neutral_part(part) for part in content], content)


def _neutral_part(part: Any) -> Any:
    is_text = isinstance(part, dict) and part.get("type") in TEXT_TYPES
    return _with(part, "text", neutral_value) if is_text else part


def _with(value: Body, name: str, changing: Any) -> Body:
    """`value` with what stands under `name` changed, or the very value if it did not change."""
    changed = changing(value.get(name))
    return value if changed is value.get(name) else {**value, name: changed}


def _same_or(changed: list[Any], value: list[Any]) -> list[Any]:
    return value if all(new is old for new, old in zip(changed, value, strict=True)) else changed
