"""Items of OpenAI Responses as the messages of the log, and back."""

from typing import Any, NamedTuple

from ctxwrap.types import Body, Message
from ctxwrap.wires.messages import plain, spelled, tool_call
from ctxwrap.wires.placing import is_operator

_PARTS = ("input_image", "input_file", "input_audio", "refusal")
_TOOL_RESULTS = frozenset({"function_call_output", "custom_tool_call_output", "computer_call_output"})

CALLS = {"function_call": "arguments", "custom_tool_call": "input"}
"""Items that call a tool, and where they say with what."""


OWN = frozenset(
    {"message", "reasoning", "item_reference", *CALLS}
    | {"computer_call", "local_shell_call", "shell_call", "apply_patch_call"}
)
"""Items in which somebody says or asks for something; all others tell of what was run or fetched."""


def is_fetched(item: Body) -> bool:
    """Whether an item shows that a tool ran, or that a text cites what one found."""
    parts = item.get("content")
    cites = isinstance(parts, list) and any(isinstance(part, dict) and part.get("annotations") for part in parts)
    return item.get("type", "message") not in OWN or cites


class Placed(NamedTuple):
    """A message of the log and the item that it begins with."""

    message: Message
    place: int


def as_items(given: Any) -> list[Body]:
    """The `input` of a request as a list."""
    if isinstance(given, str):
        return [{"role": "user", "content": given}]
    return list(given or ())


def read_items(given: Any) -> list[Placed]:
    """The messages that an `input` amounts to."""
    read: list[Placed] = []
    for at, item in enumerate(as_items(given)):
        _read(item, -1 if isinstance(given, str) else at, read)
    return read


def _read(item: Body, at: int, read: list[Placed]) -> None:
    kind = item.get("type", "message")
    if kind in CALLS:
        _add_call(tool_call(item.get("call_id"), item.get("name"), item.get(CALLS[kind])), at, read)
    elif kind in _TOOL_RESULTS:
        result = Message("tool", plain(item.get("output")), tool_call_id=str(item.get("call_id") or ""))
        read.append(Placed(result, at))
    elif "role" in item:
        role = "system" if is_operator(item) else item["role"]
        message = Message(role, plain(item.get("content")))  # type: ignore[arg-type]  # as it was given
        read.append(Placed(message, at))


def _add_call(call: Body, at: int, read: list[Placed]) -> None:
    """A call belongs to the assistant's message before it; the API lists them side by side."""
    if read and read[-1].message.role == "assistant":
        said, place = read.pop()
        read.append(Placed(Message("assistant", said.content, tool_calls=(*said.tool_calls, call)), place))
    else:
        read.append(Placed(Message("assistant", tool_calls=(call,)), at))


def kept_items(items: list[Body], left_out: frozenset[int]) -> list[Body]:
    """The items that are sent; one that begins no message, such as a thought, goes with the one before it."""
    if not left_out:
        return list(items)
    places = [placed.place for placed in read_items(items) if not is_operator(items[placed.place])]
    begins, kept = frozenset(places), list[Body]()
    goes = bool(places) and places[0] in left_out
    for at, item in enumerate(items):
        goes = at in left_out if at in begins else goes
        if is_operator(item) or not (goes or at in left_out):
            kept.append(item)
    return kept


def spelled_items(message: Message) -> list[Body]:
    """A message from the log as the API wants it."""
    if message.role == "tool":
        return [{"type": "function_call_output", "call_id": message.tool_call_id, "output": message.text}]
    text_type = "output_text" if message.role == "assistant" else "input_text"
    items: list[Body] = []
    if message.content:
        items.append({"role": message.role, "content": spelled(message.content, text_type, _PARTS)})
    items += [
        {"type": "function_call", "call_id": call["id"], "name": call["name"], "arguments": call["arguments"]}
        for call in message.tool_calls
    ]
    return items
