"""Between the messages of an API and the one form the log keeps."""

from collections.abc import Iterable, Mapping
from typing import Any

from ctxwrap.types import Body, Content

TEXT_TYPES = frozenset({"text", "input_text", "output_text"})
_UNSENT = frozenset({"thinking", "redacted_thinking", "reasoning"})


def plain(content: Any) -> Content:
    """Content as text when it is all text, else its parts with text parts spelled one way."""
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


def spelled(content: Content, text_type: str, known: Iterable[str]) -> Content:
    """Content from the log for an API whose text parts are `text_type` and which knows the part types `known`."""
    if isinstance(content, str):
        return content
    return [_spelled_part(part, text_type, frozenset(known)) for part in content]


def _spelled_part(part: Body, text_type: str, known: frozenset[str]) -> Body:
    kind = part.get("type")
    if kind == "text":
        return {"type": text_type, "text": part["text"]}
    return part if kind in known else {"type": text_type, "text": f"[{kind}]"}


def joined(*texts: str) -> str:
    """The texts that are not empty, a blank line between them."""
    return "\n\n".join(text for text in texts if text)


def tool_call(call_id: Any, name: Any, arguments: Any) -> Body:
    return {"id": str(call_id or ""), "name": str(name or ""), "arguments": str(arguments or "")}


def unknown_keys(message: Mapping[str, Any], known: frozenset[str]) -> dict[str, Any]:
    """What a caller's message carries beyond the keys we have a place for."""
    return {key: value for key, value in message.items() if key not in known and value is not None}
