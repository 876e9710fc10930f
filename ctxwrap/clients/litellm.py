"""Wraps litellm: its module, its functions and its Router. Their results have the same few types for every provider.

litellm's own loggers and caches work inside the call: they see the injected text and the trailer.
"""

import os
import sys
from collections.abc import Callable
from functools import cache, wraps
from importlib import import_module
from types import ModuleType
from typing import Any

from ctxwrap.clients.preparation import prepare_calls
from ctxwrap.providers import PROVIDERS, ProviderSpec
from ctxwrap.turn.binding import ClientBinding

FUNCTIONS: dict[str, ProviderSpec] = {
    name: provider for provider in PROVIDERS if provider.litellm for name in (provider.litellm, f"a{provider.litellm}")
}
"""The functions that call a model, and whose requests they take."""


def load_litellm() -> Any:
    """The litellm module. If nothing has imported it yet, it fetches nothing and reads no `.env` file on import."""
    if "litellm" not in sys.modules:
        os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
        os.environ.setdefault("LITELLM_MODE", "PRODUCTION")
        litellm: Any = import_module("litellm")  # an import statement would have type checkers read all of it
        litellm.suppress_debug_info = True
        litellm.disable_hf_tokenizer_download = True
    return sys.modules["litellm"]


def is_litellm(client: Any) -> bool:
    """Whether `client` is the litellm module, one of its functions, or a Router, without importing litellm."""
    module = sys.modules.get("litellm")
    if module is None:
        return False
    known = client is module or isinstance(client, (LitellmModule, module.Router))
    return known or _function_name(client) in FUNCTIONS


def wrap_litellm(client: Any, binding: ClientBinding) -> Any:
    if binding.settings.context_mode != "disabled":
        prepare_calls(FUNCTIONS["completion"].encoding)
    if isinstance(client, ModuleType):
        return LitellmModule(vars(client).get("_module", client), binding)
    if _function_name(client) in FUNCTIONS:
        function = client.__wrapped__ if hasattr(client, "_ctxwrap") else client
        return _wrapped_function(function, _function_name(client), binding)
    cls: Any = type(client)
    router: Any = object.__new__(cls if hasattr(client, "_ctxwrap") else _router_class(cls))
    object.__setattr__(router, "__dict__", client.__dict__)
    object.__setattr__(router, "_ctxwrap", binding)
    return router


def _function_name(client: Any) -> str:
    return client.__name__ if str(getattr(client, "__module__", "")).startswith("litellm.") and callable(client) else ""


class LitellmModule(ModuleType):
    """The litellm module, with wrapped functions that call a model."""

    def __init__(self, module: Any, binding: ClientBinding) -> None:
        super().__init__(module.__name__, module.__doc__)
        vars(self).update(_module=module, _ctxwrap=binding)

    def __getattr__(self, name: str) -> Any:
        value = getattr(vars(self)["_module"], name)
        if name not in FUNCTIONS:
            return value
        vars(self)[name] = wrapped = _wrapped_function(value, name, vars(self)["_ctxwrap"])
        return wrapped

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(vars(self)["_module"], name, value)

    def __dir__(self) -> list[str]:
        return dir(vars(self)["_module"])


class _Unannounced:
    """Keeps a subclass from `__init_subclass__` of its other base: newer Routers move the subclass's members there."""

    __slots__ = ()

    def __init_subclass__(cls) -> None:
        pass


@cache
def _router_class(cls: type) -> type:
    """A Router class for a copy that shares state. Functions are wrapped on lookup: some are instance attributes."""

    def lookup(self: Any, name: str) -> Any:
        value = cls.__getattribute__(self, name)  # type: ignore[call-arg]  # an unbound method
        if name not in FUNCTIONS:
            return value
        return _wrapped_function(value, name, object.__getattribute__(self, "_ctxwrap"))

    members = {"__slots__": ("_ctxwrap",), "__getattribute__": lookup, "__module__": cls.__module__}
    return type(cls.__name__, (_Unannounced, cls), members)


def _wrapped_function(function: Callable[..., Any], name: str, binding: ClientBinding) -> Callable[..., Any]:
    wrapped = (_async_call if name.startswith("a") else _call)(function, name, binding)
    wrapped._ctxwrap = binding  # type: ignore[attr-defined]
    return wrapped


def _call(function: Callable[..., Any], name: str, binding: ClientBinding) -> Callable[..., Any]:
    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        return _litellm_call().call(function, name, binding, args, kwargs)

    return call


def _async_call(function: Callable[..., Any], name: str, binding: ClientBinding) -> Callable[..., Any]:
    @wraps(function)
    async def call(*args: Any, **kwargs: Any) -> Any:
        return await _litellm_call().call_async(function, name, binding, args, kwargs)

    return call


@cache
def _litellm_call() -> Any:
    """The module for calls; loaded by the first call, most of it before that by the thread that prepares calls."""
    return import_module("ctxwrap.clients.litellm_call")
