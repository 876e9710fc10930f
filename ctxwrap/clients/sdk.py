"""Wraps clients of SDKs like OpenAI's and Anthropic's: methods take our keywords, `post` goes through `sdk_call`."""

from collections.abc import Callable, Collection, Mapping
from functools import cache, cached_property, partial, wraps
from importlib import import_module
from inspect import iscoroutinefunction
from typing import Any

from ctxwrap.clients import preparation
from ctxwrap.clients.http import facade
from ctxwrap.clients.sdk_arguments import SdkMethod, SdkPost, hidden_arguments, hide
from ctxwrap.clients.shortcuts import add_shortcuts
from ctxwrap.errors import SettingsError
from ctxwrap.providers import PROVIDERS, ProviderSpec
from ctxwrap.session.threads import in_thread
from ctxwrap.settings import check_mode
from ctxwrap.turn.binding import NO_SESSION_NAMES, ClientBinding, SessionNames

SESSION_HEADER = "x-ctxwrap-session"
MODE_HEADER = "x-ctxwrap-mode"
USER_HEADER = "x-ctxwrap-user"
TEAM_HEADER = "x-ctxwrap-team"
PURPOSE_HEADER = "x-ctxwrap-purpose"

_HEADERS = (SESSION_HEADER, MODE_HEADER, USER_HEADER, TEAM_HEADER, PURPOSE_HEADER)

_KEYWORDS = {
    "session": SESSION_HEADER,
    "context_mode": MODE_HEADER,
    "contextMode": MODE_HEADER,
    "for_user": USER_HEADER,
    "for_team": TEAM_HEADER,
    "purpose": PURPOSE_HEADER,
}
"""`user` is a parameter of OpenAI's API, which callers may fill with one value for all their users."""

_MODES = frozenset({"context_mode", "contextMode"})

_METHODS = ("create", "parse", "stream", "tool_runner", "chat")

_COPY_OPTIONS = {"cerebras": {"warm_tcp_connection": False}}
"""Arguments for copies of a client: they share its connections, so that no SDK needs to open one."""


def pop_keywords(keywords: dict[str, Any]) -> dict[str, str]:
    """Remove ctxwrap's keywords from `keywords`, check them, and return them as headers.

    A mode in `extra_body` counts as a keyword: there callers of typed clients put fields that their SDK does not know.
    """
    extra = keywords.get("extra_body")
    if isinstance(extra, Mapping) and not _MODES.isdisjoint(extra):
        keywords["extra_body"] = {name: value for name, value in extra.items() if name not in _MODES}
        if all(keywords.get(name) is None for name in _MODES):
            keywords.update({name: extra[name] for name in _MODES & extra.keys()})
    headers: dict[str, str] = {}
    for name in [name for name in _KEYWORDS if name in keywords]:
        header, value = _KEYWORDS[name], keywords.pop(name)
        if value is None:
            continue
        if header == MODE_HEADER:
            check_mode(value)
        elif not isinstance(value, str):
            raise SettingsError(f"{name} must be a string, not {value!r}: pass str({name})")
        headers[header] = value
    return headers


def split_headers(headers: Mapping[str, Any] | None) -> tuple[dict[str, Any], SessionNames]:
    """The headers without ctxwrap's, and what those name."""
    rest: dict[str, Any] = {}
    ours: dict[str, Any] = {}
    for name, value in (headers or {}).items():
        if (small := name.lower()) in _HEADERS:
            ours[small] = value
        else:
            rest[name] = value
    return rest, names_in(ours) if ours else NO_SESSION_NAMES


def names_in(headers: Mapping[str, Any]) -> SessionNames:
    return SessionNames(*map(headers.get, _HEADERS))


@cache
def with_keywords(cls: type, path: str = "") -> type:
    """A subclass of `cls`, a client or the resource at `path`, whose methods and resources take ctxwrap's keywords."""
    inside = f"{path}." if path else ""
    resources = _resources(cls)
    names = {each.removeprefix(inside).partition(".")[0] for each in resources if each.startswith(inside)}
    members = {
        name: _resource(cls, name, inside + name) for name in names if isinstance(_member(cls, name), cached_property)
    }
    if path in resources:
        members |= {name: _method_with_keywords(getattr(cls, name)) for name in _METHODS if hasattr(cls, name)}
    return type(cls.__name__, (cls,), {"__module__": cls.__module__, "__doc__": cls.__doc__, **members})


def give_keywords(client: Any) -> None:
    """Do the same for resources that a client created with itself, as cloud clients do."""
    for name in {each.partition(".")[0] for each in _resources(type(client))} & vars(client).keys():
        cls: Any = type(vars(client)[name])
        setattr(client, name, with_keywords(cls, name)(client))


def _resources(cls: type) -> list[str]:
    """The client attributes, also those of the beta API, whose methods call a model; `cls` is a class of the SDK."""
    return [path for provider in providers_of(cls) for path in (provider.resource, f"beta.{provider.resource}")]


def _member(cls: type, name: str) -> Any:
    return next((vars(base)[name] for base in cls.__mro__ if name in vars(base)), None)


def _resource(cls: type, name: str, path: str) -> Any:
    original = _member(cls, name)

    def resource(self: Any) -> Any:
        value = original.func(self)
        cls: Any = type(value)
        value.__class__ = with_keywords(cls, path)
        return value

    return cached_property(resource)


def _method_with_keywords(method: Callable[..., Any]) -> Callable[..., Any]:
    """`method`, which turns ctxwrap's keywords into headers; a coroutine function stays one."""
    hidden, kept = hidden_arguments(method), SdkMethod(method)

    @wraps(method)
    def call(self: Any, *args: Any, **keywords: Any) -> Any:
        headers = pop_keywords(keywords)
        hide(keywords, hidden)
        request = None if args else kept.request(self._client, keywords)
        if request is None:
            return method(self, *args, **_with_headers(keywords, headers))
        options = request.options_with(headers)
        return self._post(request.path, body=request.filled(keywords), options=options, **request.rest)

    @wraps(method)
    async def call_async(self: Any, *args: Any, **keywords: Any) -> Any:
        headers = pop_keywords(keywords)
        hide(keywords, hidden)
        request = None if args else kept.request(self._client, keywords)
        if request is None:
            return await method(self, *args, **_with_headers(keywords, headers))
        options = request.options_with(headers)
        return await self._post(request.path, body=request.filled(keywords), options=options, **request.rest)

    return call_async if iscoroutinefunction(method) else call


def _with_headers(keywords: dict[str, Any], headers: dict[str, str]) -> dict[str, Any]:
    if headers:
        keywords["extra_headers"] = {**(keywords.get("extra_headers") or {}), **headers}
    return keywords


def is_sdk_client(client: Any) -> bool:
    """Whether `client` is a client of a known SDK, without importing any."""
    roots = [cls for cls in type(client).__mro__ if cls.__name__ in ("SyncAPIClient", "AsyncAPIClient")]
    return any(provider.sdk == package_of(cls) for cls in roots for provider in PROVIDERS)


@cache
def providers_of(cls: type) -> tuple[ProviderSpec, ...]:
    """The APIs of the SDK that a class, or one of its bases, comes from."""
    packages = set(map(package_of, cls.__mro__))
    return tuple(provider for provider in PROVIDERS if provider.sdk in packages)


def package_of(cls: type) -> str:
    """The package that a class comes from."""
    return cls.__module__.partition(".")[0]


def bind_client(client: Any, binding: ClientBinding, names: Collection[str]) -> Any:
    """A copy of a wrapped client; `names`, which the binding has, no longer come from the client's own headers."""
    bound = client.copy()
    bound._ctxwrap = binding
    replaced = {header for name, header in _KEYWORDS.items() if name in names}
    bound._custom_headers = {
        name: value for name, value in bound._custom_headers.items() if name.lower() not in replaced
    }
    return bound


def wrap_client(client: Any, binding: ClientBinding) -> Any:
    """A copy of the client that shares its connections; its type is a subclass of the client's."""
    wrapped = client.copy(**_copy_options(client), http_client=facade(client._client))
    if not hasattr(client, "_ctxwrap"):
        cls: Any = type(client)
        wrapped.__class__ = _wrapped_class(cls)
    give_keywords(wrapped)
    wrapped._ctxwrap = binding
    prepare_calls(type(client), binding)
    return wrapped


@cache
def _wrapped_class(cls: type) -> type:
    """A subclass of the client's class, with one base only: else Python refuses to set it on an instance."""
    base: Any = with_keywords(cls)
    made = _async_client_class(base) if iscoroutinefunction(base.post) else _client_class(base)
    add_shortcuts(made, cls)
    return named_like(made, cls)


def named_like(made: type, cls: type) -> type:
    """`made`, a subclass of `cls`, with the names by which `cls` is shown."""
    for name in ("__name__", "__qualname__", "__module__", "__doc__"):
        setattr(made, name, getattr(cls, name))
    return made


def _client_class(base: Any) -> type:
    send = SdkPost(base.post)

    class Client(base):  # type: ignore[misc]
        @wraps(base.copy)
        def copy(self, **changes: Any) -> Any:
            return _copied(self, super().copy, changes)

        with_options = copy

        @wraps(base.close)
        def close(self) -> None:
            finish_sessions(self._ctxwrap)
            super().close()

        @wraps(base.post)
        def post(self, path: str, *, body: Any = None, options: Any = None, **rest: Any) -> Any:
            return _sdk_call().post(self, partial(send, self), path, body, options, rest)

    return Client


def _async_client_class(base: Any) -> type:
    send = SdkPost(base.post)

    class AsyncClient(base):  # type: ignore[misc]
        @wraps(base.copy)
        def copy(self, **changes: Any) -> Any:
            return _copied(self, super().copy, changes)

        with_options = copy

        @wraps(base.close)
        async def close(self) -> None:
            await in_thread(finish_sessions, self._ctxwrap)
            await super().close()

        @wraps(base.post)
        async def post(self, path: str, *, body: Any = None, options: Any = None, **rest: Any) -> Any:
            return await _sdk_call().post_async(self, partial(send, self), path, body, options, rest)

    return AsyncClient


def _copied(client: Any, copy: Callable[..., Any], changes: dict[str, Any]) -> Any:
    """A copy of a wrapped client, which is wrapped too."""
    copied = copy(
        **{**_copy_options(client), **changes, "http_client": facade(changes.get("http_client") or client._client)}
    )
    give_keywords(copied)
    copied._ctxwrap = client._ctxwrap
    return copied


def _copy_options(client: Any) -> Mapping[str, Any]:
    cls: Any = type(client)
    return _COPY_OPTIONS.get(providers_of(cls)[0].sdk, {})


@cache
def _sdk_call() -> Any:
    """The module for calls; loaded by the first call, or before it by the thread that prepares calls."""
    return import_module("ctxwrap.clients.sdk_call")


def prepare_calls(cls: type, binding: ClientBinding) -> None:
    """Load what calls of a client need, its tokenizer above all, in a thread; nothing if they have no context."""
    if binding.settings.context_mode != "disabled":
        preparation.prepare_calls(providers_of(cls)[0].encoding)


def finish_sessions(binding: ClientBinding) -> None:
    """Bring documents and derived files of the client's sessions up to date."""
    if binding.sessions:
        from ctxwrap.turn.document_updates import finish_documents

        finish_documents(binding.sessions)
