"""Arguments that the OpenAI SDK does not walk on their way to `post`.

The SDK walks each message by its types, to rename fields and to dump models. In plain JSON there is nothing to dump,
and no type of a message or a tool renames a field, so the outcome is the input; for a long list the walk is most of a
call. It passes on what is neither a mapping nor iterable, so such an argument goes through it in an `Opaque`, and
`post` takes it out again.
"""

import sys
from collections.abc import Callable
from types import FunctionType
from typing import Any

_VERSIONS = ("1", "2", "3")
"""The SDK's major versions whose types were compared; others walk."""

_HIDDEN = {"create": ("messages", "input", "tools"), "parse": ("messages", "input")}
"""Arguments that a method passes on without looking at them; `parse` reads the tools."""


class Opaque:
    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


def hidden_arguments(method: Callable[..., Any]) -> tuple[str, ...]:
    """Which arguments of an SDK's method can go past its walk."""
    names = _HIDDEN.get(method.__name__, ())
    return names if names and _is_openais(method) else ()


def hide(keywords: dict[str, Any], names: tuple[str, ...]) -> None:
    for name in names:
        value = keywords.get(name)
        if type(value) is list:
            try:
                keywords[name] = Opaque(_copy(value))
            except (_NotPlain, RecursionError):
                continue


def revealed(body: Any) -> Any:
    """`body` with what was hidden in it, as if the SDK had walked it."""
    if not isinstance(body, dict):
        return body
    return {name: value.value if type(value) is Opaque else value for name, value in body.items()}


class _NotPlain(Exception):
    pass


_SCALARS = frozenset({str, int, float, bool, type(None)})
_TEXTS = {str}


def _copy(value: Any) -> Any:
    """A copy, as the SDK makes one: what the caller changes while the call is under way does not reach it."""
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


def _is_openais(method: Any) -> bool:
    """Whether all of `method` is the SDK's own; what others put around it may read the arguments."""
    openai = sys.modules.get("openai")
    if str(getattr(openai, "__version__", "")).partition(".")[0] not in _VERSIONS:
        return False
    while type(method) is FunctionType and method.__globals__["__name__"].partition(".")[0] == "openai":
        if not hasattr(method, "__wrapped__"):
            return True
        method = method.__wrapped__
    return False
