"""Tokens of messages, content parts and tools."""

import json
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from math import ceil
from typing import Any

from ctxwrap.callers_list import values_of
from ctxwrap.tokens.counting import Counter
from ctxwrap.tokens.images import image_tokens, size_of_base64, size_of_url
from ctxwrap.types import Body, Message

_HEAD = "# Tools\n\n## functions\n\nnamespace functions {\n"
_TAIL = "\n} // namespace functions"
_PLAIN = {"string": "string", "number": "number", "integer": "number", "boolean": "boolean", "null": "null"}
_DEEPEST = 8


def as_types(tools: list[Any]) -> str:
    """The tools as one text, in the form that OpenAI models see; tools that are no functions are JSON."""
    return "\n".join((_HEAD, *map(_tool, tools), _TAIL))


def as_json(value: Any) -> str:
    """A value as compact JSON; data URLs are cut, since models do not read them as text."""
    return json.dumps(_without_data(value), ensure_ascii=False, separators=(",", ":"), default=str)


def _without_data(value: Any) -> Any:
    if isinstance(value, str):
        return value[:64] if value.startswith("data:") else value
    if isinstance(value, Mapping):
        return {str(name): _without_data(item) for name, item in value.items()}
    return [_without_data(item) for item in value] if isinstance(value, (list, tuple)) else value


def _tool(tool: Any) -> str:
    function = tool.get("function", tool) if isinstance(tool, Mapping) else None
    if not isinstance(function, Mapping) or not isinstance(function.get("parameters", {}), Mapping):
        return as_json(tool)
    if "name" not in function or tool.get("type", "function") != "function":
        return as_json(tool)
    schema = function.get("parameters") or {}
    taken = f"_: {_type(schema, _DEEPEST)}" if schema.get("properties") else ""
    return f"{_comment(function)}type {function['name']} = ({taken}) => any;\n"


def _comment(described: Mapping[str, Any]) -> str:
    return f"// {described['description']}\n" if described.get("description") else ""


def _type(schema: Any, depth: int) -> str:
    if not isinstance(schema, Mapping) or depth == 0:
        return as_json(schema)
    kind, allowed, fields = schema.get("type"), schema.get("enum"), schema.get("properties")
    if isinstance(allowed, (list, tuple)):
        return " | ".join(map(as_json, allowed))
    if isinstance(fields, Mapping):
        required = schema.get("required") or ()
        return "".join(("{\n", *(_field(name, fields[name], name in required, depth) for name in fields), "}"))
    if kind == "array" and "items" in schema:
        return _type(schema["items"], depth - 1) + "[]"
    return _PLAIN[kind] if isinstance(kind, str) and kind in _PLAIN else as_json(schema)


def _field(name: Any, schema: Any, required: bool, depth: int) -> str:
    comment = _comment(schema) if isinstance(schema, Mapping) else ""
    default = f", // default: {schema['default']}" if isinstance(schema, Mapping) and "default" in schema else ","
    return f"{comment}{name}{'' if required else '?'}: {_type(schema, depth - 1)}{default}\n"


PER_MESSAGE = 3
PER_NAME = 1
PER_REPLY = 3
"""As published by OpenAI: three tokens frame a message, a name adds one, three start the reply."""

PER_CALL = 8
"""The frame of a tool call or a tool result."""

PER_TOOL = 8
CLAUDE_TOOLS = 500
"""The frame of a tool definition, and Claude's instructions for using tools."""

AUDIO = 1000
AUDIO_BYTES_PER_TOKEN = 1600
"""Ten tokens per second at a common compression; less compressed audio is overestimated."""

PER_PAGE = 3000
BYTES_PER_PAGE = 100_000
"""A page of a document counts as an image plus its text; this many bytes count as one page."""

_HIDDEN_BYTES_PER_TOKEN = 6


def message_tokens(message: Message, counter: Counter, model: str = "") -> int:
    """The tokens of a message of the log; `model` decides the tokens of images."""
    content = content_counter(counter, model)
    tokens = PER_MESSAGE + counter.count(message.role) + content.tokens(message.content)
    if message.name:
        tokens += PER_NAME + counter.count(message.name)
    for call in message.tool_calls:
        tokens += content.call(call.get("name"), call.get("arguments"))
    return tokens


def messages_tokens(messages: Iterable[Message], counter: Counter, model: str = "") -> int:
    """The tokens of all messages of a request, and of the start of the reply."""
    return PER_REPLY + sum(message_tokens(message, counter, model) for message in messages)


class ContentCounter:
    """Counts content of any API, as the log may hold parts of each; unknown parts count as JSON."""

    def __init__(self, counter: Counter, model: str) -> None:
        self._count = counter.count
        self._model = model

    def tokens(self, content: Any) -> int:
        """The tokens of a text, a part or a list of them."""
        if isinstance(content, str):
            return self._count(content) if content else 0
        if isinstance(content, Mapping):
            return self._part(dict(content))
        if isinstance(content, (list, tuple)):
            return sum(map(self.tokens, content))
        return 0 if content is None else self._json(content)

    def message(self, message: Any) -> int:
        """The tokens of a message with `role` and `content`."""
        if not isinstance(message, (dict, Mapping)):  # a dict is recognised without a look at `Mapping`
            return PER_MESSAGE + self.tokens(message)
        role, content = message.get("role"), message.get("content")
        if isinstance(role, str) and isinstance(content, str) and role and content:
            tokens = PER_MESSAGE + self._count(role) + self._count(content)
            if len(message) == 2:
                return tokens  # most messages
        else:
            tokens = PER_MESSAGE + self.tokens(role) + self.tokens(content)
        if message.get("name"):
            tokens += PER_NAME + self.tokens(message["name"])
        tokens += self.tokens(message.get("refusal")) + self.tokens(message.get("reasoning_content"))
        return tokens + sum(
            map(self._chat_call, as_list(message.get("tool_calls")) + as_list(message.get("function_call")))
        )

    def messages(self, messages: Any) -> int:
        return sum(values_of(messages if isinstance(messages, list) else as_list(messages), self.message))

    def item(self, item: Any) -> int:
        """An item of the Responses API: a message, or an entry beside messages."""
        if isinstance(item, Mapping) and "role" not in item:
            return self._part(dict(item))
        return self.message(item)

    def tools(self, tools: Any) -> int:
        """The tokens of tool definitions: as JSON for Claude, in OpenAI's form for other models."""
        listed = as_list(tools)
        if not listed:
            return 0
        if "claude" in self._model.lower():
            return CLAUDE_TOOLS + sum(PER_TOOL + self._json(tool) for tool in listed)
        return self._count(as_types(listed))

    def schema(self, schema: Any) -> int:
        """The tokens of the schema for the reply, if there is one."""
        return self._json(schema) if isinstance(schema, Mapping) and len(schema) > 1 else 0

    def call(self, name: Any, arguments: Any) -> int:
        written = arguments if isinstance(arguments, str) else as_json(arguments or {})
        return PER_CALL + self.tokens(name) + self.tokens(written)

    def _chat_call(self, call: Any) -> int:
        if not isinstance(call, Mapping):
            return self._json(call)
        function = call.get("function") or call.get("custom") or call
        if not isinstance(function, Mapping):
            return self._json(call)
        return self.call(function.get("name"), function.get("arguments", function.get("input")))

    def result(self, content: Any) -> int:
        return PER_CALL + self.tokens(content)

    def hidden(self, part: Body, name: str) -> int:
        """Encrypted reasoning, estimated by its size, and its visible summary."""
        shown = self.tokens(part.get("summary")) + self.tokens(part.get("content"))
        return shown + ceil(len(str(part.get(name) or "")) / _HIDDEN_BYTES_PER_TOKEN)

    def _part(self, part: Body) -> int:
        known = _PARTS.get(str(part.get("type")))
        return known(self, part) if known else self._json(part)

    def image(self, part: Body) -> int:
        given = part.get("image_url") or part.get("source") or {}
        given = given if isinstance(given, Mapping) else {"url": given}
        detail = str(given.get("detail") or part.get("detail") or "auto")
        data = given.get("data")
        size = size_of_base64(data) if isinstance(data, str) else size_of_url(str(given.get("url") or ""))
        return image_tokens(self._model, size, detail)

    def audio(self, part: Body) -> int:
        sound = part.get("input_audio")
        data = sound.get("data") if isinstance(sound, Mapping) else None
        return max(AUDIO // 10, _size(data) // AUDIO_BYTES_PER_TOKEN) if data else AUDIO

    def file(self, part: Body) -> int:
        given = next((part[name] for name in ("source", "file") if isinstance(part.get(name), Mapping)), part)
        if given.get("type") == "text":
            return self.tokens(given.get("data"))
        if given.get("type") == "content":
            return self.tokens(given.get("content"))
        data = given.get("data") or given.get("file_data")
        return PER_PAGE * max(1, ceil(_size(data) / BYTES_PER_PAGE))

    def _json(self, value: Any) -> int:
        return self._count(as_json(value))


@lru_cache(maxsize=64)
def content_counter(counter: Counter, model: str) -> ContentCounter:
    """The same object for the same arguments, so that what it counted in one call is known in the next."""
    return ContentCounter(counter, model)


_Part = Callable[[ContentCounter, Body], int]


def _text_in(name: str) -> _Part:
    return lambda content, part: content.tokens(part.get(name))


def _call_with(name: str) -> _Part:
    return lambda content, part: content.call(part.get("name"), part.get(name))


def _result_in(name: str) -> _Part:
    return lambda content, part: content.result(part.get(name))


def _hidden_in(name: str) -> _Part:
    return lambda content, part: content.hidden(part, name)


_PARTS: dict[str, _Part] = {
    **dict.fromkeys(("text", "input_text", "output_text", "summary_text", "reasoning_text"), _text_in("text")),
    "refusal": _text_in("refusal"),
    "thinking": _text_in("thinking"),
    "redacted_thinking": _hidden_in("data"),
    "reasoning": _hidden_in("encrypted_content"),
    **dict.fromkeys(("image_url", "input_image", "image"), ContentCounter.image),
    "input_audio": ContentCounter.audio,
    **dict.fromkeys(("file", "input_file", "document", "container_upload"), ContentCounter.file),
    **dict.fromkeys(("tool_use", "server_tool_use", "custom_tool_call"), _call_with("input")),
    "function_call": _call_with("arguments"),
    "tool_result": _result_in("content"),
    **dict.fromkeys(("function_call_output", "custom_tool_call_output"), _result_in("output")),
}


def as_list(value: Any) -> list[Any]:
    if isinstance(value, (list, tuple)):
        return list(value)
    return [] if value is None else [value]


def _size(data: Any) -> int:
    """The number of bytes in base64 data."""
    return len(data) * 3 // 4 if isinstance(data, str) else 0
