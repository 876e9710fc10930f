"""Content blocks of Anthropic Messages as the messages of the log, and back."""

import json
from typing import Any

from ctxwrap.types import Body, Message
from ctxwrap.wires.messages import plain, spelled, tool_call

_PARTS = ("image", "document", "search_result", "container_upload")


def blocks_of(content: Any) -> list[Body]:
    """Content as blocks, in which form the API sees a text, too."""
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content or ())


def is_spoken(message: Body) -> bool:
    """A user message that says something, not only the results of tools."""
    return message.get("role") == "user" and any(map(_says, blocks_of(message.get("content"))))


def _says(block: Body) -> bool:
    return block.get("type") != "tool_result"


def opened(content: Any, text: str, text_type: str = "text") -> list[Body]:
    """Content with `text` before what is said in it: the results of tools must come first.

    A block of its own in any case: a message that comes from the log is in blocks where the caller's was one text.
    """
    blocks = blocks_of(content or ())  # an empty text is no block
    at = next((at for at, block in enumerate(blocks) if _says(block)), len(blocks))
    return [*blocks[:at], {"type": text_type, "text": text}, *blocks[at:]]


def split(message: Body) -> list[Message]:
    """One message of the API as the messages of the log: results of tools stand for themselves there."""
    role = message.get("role")
    blocks = blocks_of(message.get("content"))
    results = [
        Message(
            "tool",
            plain(block.get("content")),
            tool_call_id=str(block.get("tool_use_id") or ""),
            extra={"is_error": True} if block.get("is_error") is True else {},
        )
        for block in blocks
        if block.get("type") == "tool_result"
    ]
    calls = tuple(called(block) for block in blocks if block.get("type") == "tool_use")
    rest = [block for block in blocks if block.get("type") not in ("tool_result", "tool_use")]
    if rest or calls or not results:
        results.append(Message(role, plain(rest), tool_calls=calls))  # type: ignore[arg-type]  # as it was given
    return results


def called(block: Body) -> Body:
    """The call in a block of type `tool_use`."""
    return tool_call(block.get("id"), block.get("name"), _dumped(block.get("input")))


def _dumped(value: Any) -> str:
    return json.dumps(value or {}, ensure_ascii=False, separators=(",", ":"), default=str)


def merged(history: tuple[Message, ...]) -> list[Body]:
    """Messages from the log as the API wants them: results of tools inside user messages, nothing empty."""
    messages: list[Body] = []
    for message in history:
        role = "assistant" if message.role == "assistant" else "user"
        blocks = _spell(message)
        if blocks and messages and messages[-1]["role"] == role:
            messages[-1]["content"] += blocks
        elif blocks:
            messages.append({"role": role, "content": blocks})
    return messages


def _spell(message: Message) -> list[Body]:
    if message.role == "tool":
        failed = {"is_error": True} if message.extra.get("is_error") is True else {}
        return [{"type": "tool_result", "tool_use_id": message.tool_call_id, "content": message.text, **failed}]
    blocks = blocks_of(spelled(message.content, "text", _PARTS))
    blocks = [_unmarked(block) for block in blocks if block.get("type") != "text" or block["text"].strip()]
    return blocks + [
        {"type": "tool_use", "id": call["id"], "name": call["name"], "input": _loaded(call["arguments"])}
        for call in message.tool_calls
    ]


def _unmarked(block: Body) -> Body:
    """A mark was meant for the call that it came with; those of many calls would be too many."""
    return {name: value for name, value in block.items() if name != "cache_control"}


def _loaded(arguments: str) -> Any:
    try:
        return json.loads(arguments or "{}")
    except ValueError:
        return {"arguments": arguments}
