"""From what an SDK returned to the turn behind it."""

import weakref
from contextlib import suppress
from typing import Any, cast

from ctxwrap.clients.http import EXTENSION
from ctxwrap.redaction.visibility import Target, check_target
from ctxwrap.types import Resource, TurnRecord

_calls: dict[int, tuple[weakref.ref[Any], Any]] = {}
"""By identity: responses are models that can neither be hashed nor given an attribute without showing it."""


def remember(result: Any, call: Any) -> Any:
    """`result`, which from now on `turn_of` knows to be `call`'s."""
    key, pop = id(result), _calls.pop  # at the end of a program the module's own names are gone

    def forget(_: Any) -> None:
        pop(key, None)

    with suppress(TypeError):  # a plain value, as with `cast_to=str`
        _calls[key] = weakref.ref(result, forget), call
    return result


def turn_of(result: Any) -> TurnRecord | None:
    """What ctxwrap did for a response or stream, as far as it has come; None for an object it never saw."""
    call = _call_of(result)
    return None if call is None else call.record


def resources_for(target: Target, result: Any, *, tool_call_id: str = "") -> tuple[Resource, ...]:
    """What of the context of a call is for `target`, such as a tool that its reply asks for.

    That it was handed out, and for which tool call, is in the log from then on: what others are shown is not what the
    model was shown. Nothing for an object that ctxwrap never saw, and for calls that had no context.
    """
    call, wanted = _call_of(result), check_target(target)
    opened = getattr(call, "opened", None)
    return () if opened is None else cast(tuple[Resource, ...], opened.hand_out(wanted, tool_call_id))


def _call_of(result: Any) -> Any:
    known = _calls.get(id(result))
    return known[1] if known and known[0]() is result else _call_behind(result)


def _call_behind(result: Any) -> Any:
    """The call of the HTTP response that a stream, a stream helper or a raw response reads from."""
    for name in ("http_response", "response", "_response", "_raw_stream"):
        inner = getattr(result, name, None)
        extensions = getattr(inner, "extensions", None)
        if isinstance(extensions, dict) and EXTENSION in extensions:
            return extensions[EXTENSION]
        if name == "_raw_stream" and inner is not None:
            return _call_behind(inner)
    return None
