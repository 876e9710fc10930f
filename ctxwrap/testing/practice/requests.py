"""Requests to the practice provider: as recorded, and parsed independently of the API."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from ctxwrap.protocol.instructions import DELTA_TEXT, PROTOCOL_TEXT, READING_TEXT
from ctxwrap.testing.practice.answer import JSON, Answer, Failure

ApiName = Literal["chat", "completions", "responses", "messages"]
SpokenLine = tuple[str, str]

_SYSTEM_ROLES = ("system", "developer")
_TEXT_PARTS = ("text", "input_text", "output_text")
_TOOL_ROLES = ("tool", "function")


@dataclass(frozen=True, slots=True)
class RecordedRequest:
    """One request as received; header names are in lower case."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True, slots=True)
class Ask:
    """One request to a model; header names are in lower case."""

    api: ApiName
    body: JSON
    path: str
    headers: Mapping[str, str]

    earlier: tuple[JSON, ...] = ()
    """The items of the stored responses that this one continues (Responses only)."""

    @property
    def system(self) -> str:
        """The texts of the system and developer roles; for `responses` with the instructions."""
        return "\n\n".join(text for role, text in self._lines() if role in _SYSTEM_ROLES and text)

    @property
    def messages(self) -> list[SpokenLine]:
        """The rest of the conversation in order, as (role, text); the roles are user, assistant and tool."""
        return [(role, text) for role, text in self._lines() if role not in _SYSTEM_ROLES]

    @property
    def prompt(self) -> tuple[str, ...]:
        """All texts that the model reads, in order: tools, system prompt, messages."""
        tools = json.dumps(self.body.get("tools") or [], ensure_ascii=False)
        if self.api == "completions":
            return (tools, *(text for _, text in self._lines()))
        above = text_of(self.body.get("instructions" if self.api == "responses" else "system"))
        items = response_items(self.body) if self.api == "responses" else dicts(self.body.get("messages"))
        return (tools, above, *map(_prompt_text, (*self.earlier, *items)))

    @property
    def last_user(self) -> str:
        return next((text for role, text in reversed(self.messages) if role == "user"), "")

    @property
    def stream(self) -> bool:
        return self.body.get("stream") is True

    @property
    def n(self) -> int:
        n = self.body.get("n")
        return n if isinstance(n, int) and n > 0 and self.api in ("chat", "completions") else 1

    @property
    def model(self) -> str:
        return str(self.body.get("model") or "practice")

    @property
    def tools(self) -> dict[str, JSON]:
        """The argument schemas of the available functions, by name."""
        tools = [dict_at(tool, "function") or tool for tool in dicts(self.body.get("tools"))]
        return {
            str(tool["name"]): dict_at(tool, "parameters") or dict_at(tool, "input_schema")
            for tool in tools
            if "name" in tool
        }

    @property
    def schema(self) -> JSON | None:
        """The JSON schema of the answer, `{}` for any object; None for free text."""
        format = _answer_format(self.api, self.body)
        if format.get("type") == "json_schema":
            return dict_at(dict_at(format, "json_schema") or format, "schema")
        return {} if format.get("type") == "json_object" else None

    def _lines(self) -> Iterator[SpokenLine]:
        match self.api:
            case "chat":
                return _chat_lines(self.body)
            case "completions":
                return _prompt_lines(self.body)
            case "responses":
                return _responses_lines(self.body, self.earlier)
            case "messages":
                return _anthropic_lines(self.body)


Answering = Callable[[Ask], Answer | Failure]


def dicts(value: object) -> list[JSON]:
    """Return the objects in `value` if it is a list: requests are untrusted."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def dict_at(value: Mapping[str, Any], key: str) -> JSON:
    inner = value.get(key)
    return inner if isinstance(inner, dict) else {}


def text_of(content: object) -> str:
    """Return the text of a message's content, which is a string or a list of parts."""
    if isinstance(content, str):
        return content
    texts = (part.get("text", part.get("refusal")) for part in dicts(content))
    return "\n".join(text for text in texts if isinstance(text, str))


def response_items(body: JSON) -> list[JSON]:
    """Return the input of a Responses request as a list of items."""
    given = body.get("input")
    if isinstance(given, str):
        return [{"role": "user", "content": given}]
    return dicts(given)


def _chat_lines(body: JSON) -> Iterator[SpokenLine]:
    for message in dicts(body.get("messages")):
        role = str(message.get("role", "user"))
        yield "tool" if role in _TOOL_ROLES else role, text_of(message.get("content"))


def _prompt_lines(body: JSON) -> Iterator[SpokenLine]:
    """A legacy prompt has no roles: the protocol at its start is what a system prompt would say."""
    prompt = body.get("prompt")
    text = "\n".join(part for part in prompt if isinstance(part, str)) if isinstance(prompt, list) else prompt
    text = text if isinstance(text, str) else ""
    for protocol in (PROTOCOL_TEXT, DELTA_TEXT, READING_TEXT):
        if text.startswith(protocol):
            yield "system", protocol
            text = text.removeprefix(protocol).removeprefix("\n\n")
    yield "user", text


def _responses_lines(body: JSON, earlier: tuple[JSON, ...]) -> Iterator[SpokenLine]:
    yield "system", text_of(body.get("instructions"))
    for item in [*earlier, *response_items(body)]:
        if item.get("type") == "function_call_output":
            yield "tool", text_of(item.get("output"))
        elif "role" in item:
            yield str(item["role"]), text_of(item.get("content"))


def _anthropic_lines(body: JSON) -> Iterator[SpokenLine]:
    yield "system", text_of(body.get("system"))
    for message in dicts(body.get("messages")):
        content = message.get("content")
        results = [part for part in dicts(content) if part.get("type") == "tool_result"]
        for result in results:
            yield "tool", text_of(result.get("content"))
        own = [part for part in dicts(content) if part.get("type") == "text"]
        if own or not results:
            yield str(message.get("role", "user")), text_of(own or content)


def _prompt_text(message: JSON) -> str:
    """Return a message as one text, with tool calls and results but without cache markers."""
    content = message.get("content")
    parts = [part for part in dicts(content) if part.get("type") not in _TEXT_PARTS]
    bare = [{name: value for name, value in part.items() if name != "cache_control"} for part in parts]
    rest = {name: value for name, value in message.items() if name not in ("role", "content")}
    others = json.dumps([bare, rest], ensure_ascii=False) if bare or rest else ""
    return f"{message.get('role', '')}\n{text_of(content)}{others}"


def _answer_format(api: ApiName, body: JSON) -> JSON:
    match api:
        case "responses":
            return dict_at(dict_at(body, "text"), "format")
        case "messages":
            return dict_at(dict_at(body, "output_config"), "format") or dict_at(body, "output_format")
        case _:
            return dict_at(body, "response_format")
