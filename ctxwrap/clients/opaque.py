"""Hides long arguments from the OpenAI SDK, which would walk through them on their way to `post`.

The SDK walks each message by its type, to rename fields and to dump models. Plain JSON has nothing to dump, and no type
of a message or a tool renames a field, so the result equals the input; for a long list the walk takes most of a call.
The SDK passes on what is neither a mapping nor iterable, so such an argument travels in an `Opaque`, and `post` takes
it out again.
"""

import sys
from collections.abc import Callable
from types import FunctionType
from typing import Any

_VERSIONS = ("1", "2", "3")
"""The major versions of the SDK whose types were checked; with others nothing is hidden."""

_HIDDEN = {"create": ("messages", "input", "tools"), "parse": ("messages", "input")}
"""The arguments that a method passes on unread; `parse` reads the tools."""


class Opaque:
    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


def hidden_arguments(method: Callable[..., Any]) -> tuple[str, ...]:
    """The arguments of an SDK's method that can be hidden."""
    names = _HIDDEN.get(method.__name__, ())
    return names if names and _is_unpatched(method) else ()


def hide(keywords: dict[str, Any], names: tuple[str, ...]) -> None:
    for name in names:
        value = keywords.get(name)
        if type(value) is list:
            try:
                keywords[name] = Opaque(_copy(value))
            except (_NotPlain, RecursionError):
                continue


def revealed(body: Any) -> Any:
    """`body` with its hidden values."""
    if not isinstance(body, dict):
        return body
    return {name: value.value if type(value) is Opaque else value for name, value in body.items()}


class _NotPlain(Exception):
    pass


_SCALARS = frozenset({str, int, float, bool, type(None)})
_TEXTS = {str}


def _copy(value: Any) -> Any:
    """A copy, as the SDK makes one: the caller may change the original during the call."""
    kind = type(value)
    if kind in _SCALARS:
        return value
    if kind is list:
        return [_copy(item) for item in value]
    if kind is not dict or not _TEXTS.issuperset(map(type, value)):
        raise _NotPlain
    if _TEXTS.issuperset(map(type, value.values())):
        return value.copy()
    return {name: _copy(item) for name, item in value.items()}


def _is_unpatched(method: Any) -> bool:
    """Whether `method` and all it wraps is the SDK's own; a wrapper of others may read the arguments."""
    openai = sys.modules.get("openai")
    if str(getattr(openai, "__version__", "")).partition(".")[0] not in _VERSIONS:
        return False
    while type(method) is FunctionType and method.__globals__["__name__"].partition(".")[0] == "openai":
        if not hasattr(method, "__wrapped__"):
            return True
        method = method.__wrapped__
    return False
