"""Finds the turn of what an SDK returned."""

import weakref
from contextlib import suppress
from typing import Any, cast

from ctxwrap.clients.http import EXTENSION
from ctxwrap.redaction.visibility import Target, check_target
from ctxwrap.types import Resource, TurnRecord

_calls: dict[int, tuple[weakref.ref[Any], Any]] = {}
"""By identity: responses are models that cannot be hashed, and that show every attribute they are given."""


def remember(result: Any, call: Any) -> Any:
    """Return `result`, and let `turn_of` find `call` for it."""
    key, pop = id(result), _calls.pop  # during interpreter shutdown the module's names are gone

    def forget(_: Any) -> None:
        pop(key, None)

    with suppress(TypeError):  # a plain value, as with `cast_to=str`
        _calls[key] = weakref.ref(result, forget), call
    return result


def turn_of(result: Any) -> TurnRecord | None:
    """The record so far of the turn behind a response or stream; None for an object that ctxwrap does not know."""
    call = _call_of(result)
    return None if call is None else call.record


def resources_for(target: Target, result: Any, *, tool_call_id: str = "") -> tuple[Resource, ...]:
    """What of a call's context `target` may see, such as a tool that the reply calls.

    The log records that it was handed out, and for which tool call. Empty for an object that ctxwrap does not know and
    for calls without context.
    """
    call, wanted = _call_of(result), check_target(target)
    managed = getattr(call, "managed", None)
    return () if managed is None else cast(tuple[Resource, ...], managed.hand_out(wanted, tool_call_id))


def _call_of(result: Any) -> Any:
    known = _calls.get(id(result))
    return known[1] if known and known[0]() is result else _call_behind(result)


def _call_behind(result: Any) -> Any:
    """The call of the HTTP response behind a stream, a stream helper or a raw response."""
    for name in ("http_response", "response", "_response", "_raw_stream"):
        inner = getattr(result, name, None)
        extensions = getattr(inner, "extensions", None)
        if isinstance(extensions, dict) and EXTENSION in extensions:
            return extensions[EXTENSION]
        if name == "_raw_stream" and inner is not None:
            return _call_behind(inner)
    return None
