"""The OpenAI and Anthropic clients: every call of theirs that talks to a model passes through `post`, once.

`post` runs above the SDK's retry loop, so a turn is one logical call however often it is sent. What it changes is
the body; what comes back is changed where the SDK reads it (`clients.http`).
"""

import inspect
from collections.abc import Callable
from functools import cache, wraps
from importlib import import_module
from typing import Any

from ctxwrap.clients.http import facade
from ctxwrap.clients.keywords import give_keywords, with_keywords
from ctxwrap.context import Context
from ctxwrap.threads import in_thread
from ctxwrap.tokens.encodings import preload

_ENCODINGS = {"openai": "o200k_base", "anthropic": "cl100k_base"}
"""What most models of an SDK are counted with."""


def is_sdk_client(client: Any) -> bool:
    """Whether `client` is a client of the OpenAI or Anthropic SDK, without importing either."""
    roots = [cls for cls in type(client).__mro__ if cls.__name__ in ("SyncAPIClient", "AsyncAPIClient")]
    return any(_package(cls) in _ENCODINGS for cls in roots)


def _package(cls: type) -> str:
    return cls.__module__.partition(".")[0]


def wrap_client(client: Any, context: Context) -> Any:
    """A copy of the client, of a subclass of its own type, that shares its connections."""
    wrapped = client.copy(http_client=facade(client._client))
    if not hasattr(client, "_ctxwrap"):
        cls: Any = type(client)
        wrapped.__class__ = _wrapped_class(cls)
    give_keywords(wrapped)
    wrapped._ctxwrap = context
    if context.settings.context_mode != "disabled":
        encoding = next(_ENCODINGS[package] for package in map(_package, type(client).__mro__) if package in _ENCODINGS)
        preload(encoding, _prepare)
    return wrapped


@cache
def _wrapped_class(cls: type) -> type:
    """A subclass of the client's class; one base only, or Python would not let an instance change to it."""
    base: Any = with_keywords(cls)
    made = _async_door(base) if inspect.iscoroutinefunction(base.post) else _door(base)
    made.__name__, made.__qualname__, made.__module__, made.__doc__ = (
        cls.__name__,
        cls.__qualname__,
        cls.__module__,
        cls.__doc__,
    )
    return made


def _door(base: Any) -> type:
    class Door(base):  # type: ignore[misc]
        @wraps(base.copy)
        def copy(self, **changes: Any) -> Any:
            return _copied(self, super().copy, changes)

        with_options = copy

        @wraps(base.close)
        def close(self) -> None:
            _finish(self._ctxwrap)
            super().close()

        @wraps(base.post)
        def post(self, path: str, *, body: Any = None, options: Any = None, **rest: Any) -> Any:
            return _posting().post(self, super().post, path, body, options, rest)

    return Door


def _async_door(base: Any) -> type:
    class AsyncDoor(base):  # type: ignore[misc]
        @wraps(base.copy)
        def copy(self, **changes: Any) -> Any:
            return _copied(self, super().copy, changes)

        with_options = copy

        @wraps(base.close)
        async def close(self) -> None:
            await in_thread(_finish, self._ctxwrap)
            await super().close()

        @wraps(base.post)
        async def post(self, path: str, *, body: Any = None, options: Any = None, **rest: Any) -> Any:
            return await _posting().post_async(self, super().post, path, body, options, rest)

    return AsyncDoor


def _copied(client: Any, copy: Callable[..., Any], changes: dict[str, Any]) -> Any:
    """A copy of a wrapped client, as wrapped as it is."""
    made = copy(**{**changes, "http_client": facade(changes.get("http_client") or client._client)})
    give_keywords(made)
    made._ctxwrap = client._ctxwrap
    return made


@cache
def _posting() -> Any:
    """What a call needs, loaded with the first one, or before it in the thread that loads the tokenizer."""
    return import_module("ctxwrap.clients.posting")


def _prepare() -> None:
    """Load what a call needs, and compile the patterns with which a reply is read."""
    _posting().read_sample()


def _finish(context: Context) -> None:
    """Do what is left to do for the sessions of a client; one that never called has none."""
    if context.sessions:
        from ctxwrap.documenting import finish

        finish(context.sessions)
