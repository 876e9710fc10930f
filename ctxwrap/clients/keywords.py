"""`session=` and `context_mode=` as keywords of an SDK's own methods."""

from collections.abc import Callable, Mapping
from functools import cache, cached_property, wraps
from inspect import iscoroutinefunction
from typing import Any

from ctxwrap.clients.opaque import hidden_arguments, hide
from ctxwrap.context import Names
from ctxwrap.errors import SettingsError
from ctxwrap.settings import check_mode

SESSION_HEADER = "x-ctxwrap-session"
MODE_HEADER = "x-ctxwrap-mode"

_KEYWORDS = {"session": SESSION_HEADER, "context_mode": MODE_HEADER, "contextMode": MODE_HEADER}

_MODES = frozenset({"context_mode", "contextMode"})

_RESOURCES = (
    "chat.completions",
    "completions",
    "responses",
    "messages",
    "beta.chat.completions",
    "beta.responses",
    "beta.messages",
)
"""Where an SDK keeps the methods that talk to a model."""

_METHODS = ("create", "parse", "stream", "tool_runner")


def taken(keywords: dict[str, Any]) -> dict[str, str]:
    """Our keywords, taken out of `keywords` and checked, as the headers that carry them to the call.

    A mode in `extra_body`, where callers of typed clients put fields that their SDK does not know, counts as a keyword.
    """
    extra = keywords.get("extra_body")
    if isinstance(extra, Mapping) and not _MODES.isdisjoint(extra):
        keywords["extra_body"] = {name: value for name, value in extra.items() if name not in _MODES}
        if all(keywords.get(name) is None for name in _MODES):
            keywords.update({name: extra[name] for name in _MODES & extra.keys()})
    headers = {}
    for name, header in _KEYWORDS.items():
        value = keywords.pop(name, None)
        if value is None:
            continue
        if header == MODE_HEADER:
            check_mode(value)
        elif not isinstance(value, str):
            raise SettingsError(f"session must be a text, not {value!r}")
        headers[header] = value
    return headers


def split_headers(headers: Mapping[str, Any] | None) -> tuple[dict[str, Any], Names]:
    """Headers without ours, and what ours named."""
    rest: dict[str, Any] = {}
    ours: dict[str, Any] = {}
    for name, value in (headers or {}).items():
        (ours if name.lower() in (SESSION_HEADER, MODE_HEADER) else rest)[name] = value
    return rest, names_in({name.lower(): value for name, value in ours.items()})


def names_in(headers: Mapping[str, Any]) -> Names:
    return Names(headers.get(SESSION_HEADER), headers.get(MODE_HEADER))


@cache
def with_keywords(cls: type, path: str = "") -> type:
    """A subclass of `cls`, a client or a resource at `path`, whose methods and resources take our keywords."""
    inside = f"{path}." if path else ""
    names = {target.removeprefix(inside).partition(".")[0] for target in _RESOURCES if target.startswith(inside)}
    members = {
        name: _resource(cls, name, inside + name) for name in names if isinstance(_member(cls, name), cached_property)
    }
    if path in _RESOURCES:
        members |= {name: _taking(getattr(cls, name)) for name in _METHODS if hasattr(cls, name)}
    return type(cls.__name__, (cls,), {"__module__": cls.__module__, "__doc__": cls.__doc__, **members})


def give_keywords(client: Any) -> None:
    """The same for resources that a client made itself when it was created, as those of the clouds do."""
    for name in {target.partition(".")[0] for target in _RESOURCES} & vars(client).keys():
        cls: Any = type(vars(client)[name])
        setattr(client, name, with_keywords(cls, name)(client))


def _member(cls: type, name: str) -> Any:
    return next((vars(base)[name] for base in cls.__mro__ if name in vars(base)), None)


def _resource(cls: type, name: str, path: str) -> Any:
    original = _member(cls, name)

    def resource(self: Any) -> Any:
        made = original.func(self)
        cls: Any = type(made)
        made.__class__ = with_keywords(cls, path)
        return made

    return cached_property(resource)


def _taking(method: Callable[..., Any]) -> Callable[..., Any]:
    """`method`, with our keywords turned into headers; a coroutine function stays one."""
    hidden = hidden_arguments(method)

    @wraps(method)
    def taking(self: Any, *args: Any, **keywords: Any) -> Any:
        hide(keywords, hidden)
        return method(self, *args, **_as_headers(keywords))

    @wraps(method)
    async def taking_async(self: Any, *args: Any, **keywords: Any) -> Any:
        hide(keywords, hidden)
        return await method(self, *args, **_as_headers(keywords))

    return taking_async if iscoroutinefunction(method) else taking


def _as_headers(keywords: dict[str, Any]) -> dict[str, Any]:
    headers = taken(keywords)
    if headers:
        keywords["extra_headers"] = {**(keywords.get("extra_headers") or {}), **headers}
    return keywords
