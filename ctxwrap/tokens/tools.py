"""Definitions of tools in the form in which OpenAI's models are known to see them: types, not JSON."""

import json
from collections.abc import Mapping
from typing import Any

_HEAD = "# Tools\n\n## functions\n\nnamespace functions {\n"
_TAIL = "\n} // namespace functions"
_PLAIN = {"string": "string", "number": "number", "integer": "number", "boolean": "boolean", "null": "null"}
_DEEPEST = 8


def as_types(tools: list[Any]) -> str:
    """All tools as one text; what is no function is in it as JSON."""
    return "\n".join((_HEAD, *map(_tool, tools), _TAIL))


def as_json(value: Any) -> str:
    """A value as compact JSON, without what data URLs hold: nobody reads that as text."""
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
