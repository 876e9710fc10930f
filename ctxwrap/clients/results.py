"""From what an SDK returned to the turn behind it."""

import weakref
from contextlib import suppress
from typing import Any

from ctxwrap.clients.http import EXTENSION
from ctxwrap.types import TurnRecord

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
    known = _calls.get(id(result))
    call = known[1] if known and known[0]() is result else _call_behind(result)
    return None if call is None else call.record


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
