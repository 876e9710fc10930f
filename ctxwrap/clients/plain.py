"""Requests as plain JSON: callers send back what replies held, models of their SDK and all."""

from collections.abc import Iterable
from typing import Any


def plain_json(value: Any) -> Any:
    """`value` as the JSON that an SDK would make of it."""
    if isinstance(value, dict):
        return value if _is_simple(value) else {name: plain_json(item) for name, item in value.items()}
    if isinstance(value, (str, int, float, type(None))):
        return value
    if hasattr(value, "model_dump") and not isinstance(value, type):
        return value.model_dump(mode="json", by_alias=True, exclude_unset=True, warnings=False)
    if isinstance(value, Iterable) and not isinstance(value, (bytes, bytearray, type)):
        return [plain_json(item) for item in value]
    return value


def _is_simple(message: dict[str, Any]) -> bool:
    """Whether there is nothing but text in it, as in most messages."""
    return set(map(type, message.values())) == {str}
