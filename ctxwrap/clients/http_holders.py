"""Wraps clients that hold an HTTP client somewhere inside: a copy of them holds one with the HTTP door."""

from copy import copy
from typing import Any

from ctxwrap.clients.http import is_http_client
from ctxwrap.clients.sdk import package_of, prepare_calls, providers_of
from ctxwrap.clients.transport import behind_door
from ctxwrap.turn.binding import ClientBinding


def wrap_holder(client: Any, binding: ClientBinding) -> Any | None:
    """A copy of the client that shares its connections; None if its SDK is unknown or it holds no HTTP client."""
    cls: Any = type(client)
    if all(provider.resource for provider in providers_of(cls)):
        return None
    copying = _Copying(package_of(cls), binding)
    wrapped = copying.copy(client)
    if not copying.doors:
        return None
    prepare_calls(cls, binding)
    wrapped._ctxwrap = binding
    wrapped._ctxwrap_of = client  # some clients close their connections as soon as they are dropped
    return wrapped


class _Copying:
    """Copies objects of one package as far as they lead to an HTTP client; everything else is shared."""

    def __init__(self, package: str, binding: ClientBinding) -> None:
        self.doors = 0
        self._package, self._binding = package, binding
        self._made: dict[int, Any] = {}

    def copy(self, value: Any) -> Any:
        if id(value) in self._made:
            return self._made[id(value)]
        if is_http_client(value):
            self.doors += 1
            self._made[id(value)] = behind_door(value, self._binding)
        elif package_of(type(value)) == self._package and _has_parts(value):
            self._made[id(value)] = made = copy(value)
            vars(made).update({name: self.copy(part) for name, part in vars(value).items() if name != "_ctxwrap_of"})
        else:
            return value
        return self._made[id(value)]


def _has_parts(value: Any) -> bool:
    """Whether an object is built of others; pydantic's models are values, and some are compared by identity."""
    return hasattr(value, "__dict__") and not hasattr(value, "__pydantic_fields_set__")
