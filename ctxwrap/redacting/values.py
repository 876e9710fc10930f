"""Redacting what lies inside of JSON: requests, messages, records."""

import json
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from ctxwrap.redacting.policy import Redaction

_SAID = ("messages", "system", "instructions", "input", "prompt", "suffix", "prediction", "tools", "functions")
"""Where a request says something; the rest of it, such as keys and headers of litellm's, is how it is to be sent."""

_NAMES = frozenset(
    {"id", "call_id", "tool_call_id", "tool_use_id", "item_id", "file_id", "type", "role", "model", "status", "mode"}
    | {"run", "ctx", "sha256", "prefix", "runtime", "wire", "kind", "tier", "origin", "detail", "media_type"}
    | {"signature", "encrypted_content", "file_data"}
)
"""Fields that tie things together, or hold no text."""

_SIGNED = frozenset({"thinking", "redacted_thinking", "reasoning"})
"""Parts that a provider takes back only as it gave them."""


class Redactor:
    """A policy at work, which counts what it finds."""

    def __init__(self, redaction: Redaction) -> None:
        self.redaction = redaction
        self.found = Counter[str]()

    def text(self, text: str) -> str:
        redacted = self.redaction.redacted(text)
        self.found.update(dict(redacted.found))
        return redacted.text

    def body(self, body: dict[str, Any]) -> dict[str, Any]:
        """A request, where it says something; the very request if it says nothing secret."""
        return _with(body, {name: self.value(body[name], signed=True) for name in _SAID if name in body})

    def value(self, value: Any, *, signed: bool = False) -> Any:
        """JSON whose texts are redacted, however deep they lie; the very value if they were.

        `signed` leaves alone what a provider signed.
        """
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list | tuple):
            changed = type(value)(self.value(each, signed=signed) for each in value)
            return value if all(new is old for new, old in zip(changed, value, strict=True)) else changed
        if not isinstance(value, dict) or (signed and value.get("type") in _SIGNED):
            return value
        return _with(value, {name: self._field(name, value, signed) for name in value if name not in _NAMES})

    def _field(self, name: str, value: dict[str, Any], signed: bool) -> Any:
        """What an object says under a name: arguments of a call are JSON, and what is encoded is no text."""
        inner = value[name]
        if name in ("arguments", "partial_json") and isinstance(inner, str):
            return self.json_text(inner)
        if name == "input" and "name" in value:
            return self.numbers_too(inner)
        if isinstance(inner, str) and _is_encoded(name, inner, value.get("type")):
            return inner
        return self.value(inner, signed=signed)

    def numbers_too(self, value: Any) -> Any:
        """The same for what a model wrote for a program: a number may be a card's."""
        if isinstance(value, dict):
            return _with(value, {name: self.numbers_too(each) for name, each in value.items()})
        if isinstance(value, list):
            changed = [self.numbers_too(each) for each in value]
            return value if all(new is old for new, old in zip(changed, value, strict=True)) else changed
        if isinstance(value, int) and not isinstance(value, bool):
            redacted = self.text(str(value)) if abs(value) < 10**19 else str(value)
            return value if redacted == str(value) else redacted
        return self.text(value) if isinstance(value, str) else value

    def json_text(self, text: str) -> str:
        """A text that is JSON or should be: what it says is redacted, however it is spelled."""
        if not text:
            return text
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            return self.text(text)
        changed = self.numbers_too(value)
        return text if changed is value else json.dumps(changed, ensure_ascii=False)


def _is_encoded(name: str, text: str, kind: Any) -> bool:
    if name == "data":
        return bool(kind != "text")
    return name in ("url", "image_url") and text.startswith("data:")


def _with(value: dict[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """An object with changes, or the very object if there are none."""
    return value if all(new is value[name] for name, new in changes.items()) else {**value, **changes}


def change_of(redaction: Redaction | None) -> Callable[[Any], Any]:
    """What a policy makes of a text or of JSON; the same if there is none."""
    return Redactor(redaction).value if redaction else _same


def _same(value: Any) -> Any:
    return value
