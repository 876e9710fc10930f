"""How the practice model answers when the answer must be JSON of a given schema."""

import json
import re
from typing import Any

from ctxwrap.practice.answer import JSON
from ctxwrap.practice.ask import dict_at
from ctxwrap.practice.words import bare

_DEEPEST = 8


def structured(schema: JSON, text: str, contents: list[str]) -> str:
    """A small object for `schema`, from the facts in `contents` and from `text`, the answer in words."""
    if schema.get("type") != "object" or not dict_at(schema, "properties"):
        return json.dumps({"answer": text}, ensure_ascii=False)
    return json.dumps(_Filling(schema, text, contents).value(schema, "", 0), ensure_ascii=False)


class _Filling:
    """Fills a schema: a text with the fact of its name, else with the answer in words."""

    def __init__(self, root: JSON, text: str, contents: list[str]) -> None:
        self._root = root
        self._text = text
        self._contents = contents

    def value(self, schema: JSON, name: str, depth: int) -> Any:
        schema = self._plain(schema)
        if "const" in schema:
            return schema["const"]
        if schema.get("enum"):
            return schema["enum"][0]
        match _kind(schema):
            case "object" if depth < _DEEPEST:
                properties = dict_at(schema, "properties")
                return {key: self.value(inner, key, depth + 1) for key, inner in properties.items()}
            case "array" if depth < _DEEPEST:
                items = dict_at(schema, "items")
                return [self.value(items, name, depth + 1) for _ in range(schema.get("minItems", 0))]
            case "string":
                return self._known(name) or self._text
            case kind:
                return {"boolean": False, "null": None}.get(kind, schema.get("minimum", 0))

    def _plain(self, schema: JSON) -> JSON:
        """`schema` with its reference followed, or with the first of its alternatives."""
        reference = schema.get("$ref")
        if isinstance(reference, str):
            return dict_at(dict_at(self._root, "$defs"), reference.rpartition("/")[2])
        for key in ("anyOf", "oneOf", "allOf"):
            if schema.get(key):
                return self._plain(schema[key][0])
        return schema

    def _known(self, name: str) -> str | None:
        wanted = re.compile(rf"The user's {re.escape(name.replace('_', ' '))} (?:is|are) (.+)", re.I)
        found = (wanted.fullmatch(bare(content)) for content in self._contents)
        return next((match[1] for match in found if match), None)


def _kind(schema: JSON) -> str:
    kind = schema.get("type", "string")
    return str(kind[0]) if isinstance(kind, list) else str(kind)
