"""Requests that can be sent: halves of characters, which no encoding of bytes has, are replaced."""

from typing import Any, TypeVar

T = TypeVar("T")


def sendable(value: T) -> T:
    """`value`, or a copy of it where text holds half a character: a surrogate whose other half is missing."""
    return _sendable(value)  # type: ignore[no-any-return]  # of the type it has


def _sendable(value: Any) -> Any:
    if isinstance(value, str):
        return value if _is_whole(value) else value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, dict):
        made = {_sendable(name): _sendable(item) for name, item in value.items()}
        return value if all(made.get(name) is item for name, item in value.items()) else made
    if isinstance(value, list):
        items = [_sendable(item) for item in value]
        return value if all(new is old for new, old in zip(items, value, strict=True)) else items
    return value


def _is_whole(text: str) -> bool:
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
