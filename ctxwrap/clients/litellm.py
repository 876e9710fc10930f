"""litellm: its module, its functions and its Router, whose results are the same few types for every provider.

litellm's own loggers and caches work inside the call: they see the injected text and the trailer.
"""

import inspect
import os
import sys
import weakref
from collections import deque
from collections.abc import Callable
from copy import copy
from functools import cache, partial, wraps
from types import ModuleType
from typing import Any

from ctxwrap.clients.http import APART, call_in_flight, in_flight
from ctxwrap.clients.results import remember
from ctxwrap.clients.sdk import names_in, taken
from ctxwrap.clients.sdk_call import to_jsonable, with_cache_key, with_other_key
from ctxwrap.providers import PROVIDERS, load_adapter
from ctxwrap.providers.base import ProviderAdapter
from ctxwrap.turn import async_, sync
from ctxwrap.turn.binding import CallScope, ClientBinding
from ctxwrap.turn.lifecycle import PassthroughCall, why_stopped
from ctxwrap.types import Body, Send, SendAsync

_FUNCTIONS: dict[str, ProviderAdapter] = {
    name: load_adapter(provider)
    for provider in PROVIDERS
    if provider.litellm
    for name in (provider.litellm, f"a{provider.litellm}")
}


def load_litellm() -> Any:
    """The litellm module. When we are the first to import it, it fetches nothing and reads no `.env` file."""
    if "litellm" not in sys.modules:
        os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
        os.environ.setdefault("LITELLM_MODE", "PRODUCTION")
        import litellm

        litellm.suppress_debug_info = True
        litellm.disable_hf_tokenizer_download = True
    return sys.modules["litellm"]


def is_litellm(target: Any) -> bool:
    """Whether `target` is the litellm module, one of its functions, or a Router, without importing litellm."""
    module = sys.modules.get("litellm")
    if module is None:
        return False
    known = target is module or isinstance(target, (LitellmModule, module.Router))
    return known or _function_name(target) in _FUNCTIONS


def wrap_litellm(target: Any, context: ClientBinding) -> Any:
    if isinstance(target, ModuleType):
        return LitellmModule(vars(target).get("_module", target), context)
    if _function_name(target) in _FUNCTIONS:
        function = target.__wrapped__ if hasattr(target, "_ctxwrap") else target
        return _wrapped_function(function, _function_name(target), context)
    cls: Any = type(target)
    router: Any = object.__new__(cls if hasattr(target, "_ctxwrap") else _router_class(cls))
    router.__dict__ = target.__dict__
    object.__setattr__(router, "_ctxwrap", context)
    return router


def _function_name(target: Any) -> str:
    return target.__name__ if str(getattr(target, "__module__", "")).startswith("litellm.") and callable(target) else ""


class LitellmModule(ModuleType):
    """The module as it is, but for the functions that talk to a model."""

    def __init__(self, module: Any, context: ClientBinding) -> None:
        super().__init__(module.__name__, module.__doc__)
        vars(self).update(_module=module, _ctxwrap=context)

    def __getattr__(self, name: str) -> Any:
        value = getattr(vars(self)["_module"], name)
        if name not in _FUNCTIONS:
            return value
        vars(self)[name] = wrapped = _wrapped_function(value, name, vars(self)["_ctxwrap"])
        return wrapped

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(vars(self)["_module"], name, value)

    def __dir__(self) -> list[str]:
        return dir(vars(self)["_module"])


@cache
def _router_class(cls: type) -> type:
    """A Router that shares another's state. Some functions are set on the instance: all are wrapped on the way out."""

    def lookup(self: Any, name: str) -> Any:
        value = cls.__getattribute__(self, name)  # type: ignore[call-arg]  # an unbound method
        if name not in _FUNCTIONS:
            return value
        return _wrapped_function(value, name, object.__getattribute__(self, "_ctxwrap"))

    members = {"__slots__": ("_ctxwrap",), "__getattribute__": lookup, "__module__": cls.__module__}
    return type(cls.__name__, (cls,), members)


def _wrapped_function(function: Callable[..., Any], name: str, context: ClientBinding) -> Callable[..., Any]:
    calling = _async_call if name.startswith("a") else _call
    wrapped = calling(function, name, _FUNCTIONS[name], context)
    wrapped._ctxwrap = context  # type: ignore[attr-defined]
    return wrapped


def _call(
    function: Callable[..., Any], name: str, adapter: ProviderAdapter, context: ClientBinding
) -> Callable[..., Any]:
    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        target = _target(context, kwargs)
        if target is None:
            return function(*args, **kwargs)
        body = partial(_body, function, name, args, kwargs)
        turn = sync.begin(context, with_cache_key(adapter, function, context, target), body, target, _sender(function))
        if isinstance(turn, PassthroughCall):
            if turn.body is not None:
                args, kwargs = (), turn.body
            return remember(function(*args, **kwargs), turn)
        if turn.rewrites:
            args, kwargs = (), turn.body
        while True:
            try:
                with call_in_flight(turn):
                    result = function(*args, **kwargs)
                if _is_stream(result):
                    return _flowing(result, turn)
                _show(result, dumped := _dump(result), turn.reply(dumped))
            except BaseException as error:
                if not turn.shrink(error):
                    turn.stop(why_stopped(error))
                    raise
            else:
                return remember(result, turn)
            kwargs = with_other_key(turn.body)

    return call


def _async_call(
    function: Callable[..., Any], name: str, adapter: ProviderAdapter, context: ClientBinding
) -> Callable[..., Any]:
    @wraps(function)
    async def call(*args: Any, **kwargs: Any) -> Any:
        target = _target(context, kwargs)
        if target is None:
            return await function(*args, **kwargs)
        body = partial(_body, function, name, args, kwargs)
        turn = await async_.begin(
            context, with_cache_key(adapter, function, context, target), body, target, _async_sender(function)
        )
        if isinstance(turn, PassthroughCall):
            if turn.body is not None:
                args, kwargs = (), turn.body
            return remember(await function(*args, **kwargs), turn)
        if turn.rewrites:
            args, kwargs = (), turn.body
        while True:
            try:
                with call_in_flight(turn):
                    result = await function(*args, **kwargs)
                if _is_stream(result):
                    return _flowing(result, turn)
                _show(result, dumped := _dump(result), await turn.reply(dumped))
            except BaseException as error:
                if not await turn.shrink(error):
                    await turn.stop(why_stopped(error))
                    raise
            else:
                return remember(result, turn)
            kwargs = with_other_key(turn.body)

    return call


def _sender(function: Callable[..., Any]) -> Send:
    """Sends bodies of our own through the function that the caller called."""

    def send(body: Body) -> Body:
        with call_in_flight(APART):
            return _dump(function(**body))

    return send


def _async_sender(function: Callable[..., Any]) -> SendAsync:
    async def send(body: Body) -> Body:
        with call_in_flight(APART):
            return _dump(await function(**body))

    return send


def _target(context: ClientBinding, kwargs: dict[str, Any]) -> CallScope | None:
    """Whose call this is; None for a call that litellm makes inside one of ours."""
    headers = taken(kwargs)
    if in_flight.get() is not None:
        return None
    return context.target(names_in(headers))


def _body(function: Callable[..., Any], name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Body:
    """The call's arguments by name."""
    body = {**dict(zip(_parameters(function, name) if args else (), args, strict=False)), **kwargs}
    field = _FUNCTIONS[name].input_field
    return {**body, field: to_jsonable(body[field])} if field in body else body


def _parameters(function: Callable[..., Any], name: str) -> tuple[str, ...]:
    """The names of a function's positional parameters; an async function without any has its sync twin's."""
    parameters = inspect.signature(function).parameters.values()
    names = tuple(p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD)
    return names or _parameters(getattr(load_litellm(), name.removeprefix("a")), name)


def _dump(value: Any) -> Body:
    dumped: Body = value if isinstance(value, dict) else value.model_dump(warnings=False)
    return dumped


def _is_stream(result: Any) -> bool:
    return hasattr(result, "__next__") or hasattr(result, "__anext__")


def _show(result: Any, dumped: Body, reply: Body) -> None:
    """Make `result`, which was dumped as `dumped`, say what `reply` says."""
    if reply is dumped:
        return
    _overlay(result, dumped, reply)
    hidden = getattr(result, "_hidden_params", None)
    if _get(hidden, "original_response"):  # the provider's own text, as it came
        _set(hidden, "original_response", None)


def _overlay(target: Any, before: Any, after: Any) -> None:
    """Bring the change from `before` to `after` into `target`, the object that `before` was dumped from."""
    keys = after if isinstance(after, dict) else range(len(after))
    for key in keys:
        old = before.get(key) if isinstance(before, dict) else before[key]
        new = after[key]
        if old is new or old == new:
            continue
        if _same_shape(old, new):
            _overlay(_get(target, key), old, new)
        else:
            _set(target, key, _originals(_get(target, key), old, new))


def _same_shape(old: Any, new: Any) -> bool:
    return (isinstance(old, dict) and isinstance(new, dict)) or (
        isinstance(old, list) and isinstance(new, list) and len(old) == len(new)
    )


def _originals(target: Any, old: Any, new: Any) -> Any:
    """A list that was cut, made of the objects it was dumped from."""
    if not (isinstance(old, list) and isinstance(new, list)):
        return new
    known = {id(dumped): item for dumped, item in zip(old, target, strict=False)}
    return [known.get(id(item), item) for item in new]


def _get(target: Any, key: Any) -> Any:
    if isinstance(target, dict):
        return target.get(key)
    return target[key] if isinstance(target, list) else getattr(target, str(key), None)


def _set(target: Any, key: Any, value: Any) -> None:
    if isinstance(target, (dict, list)):
        target[key] = value
    else:
        setattr(target, str(key), value)


class _Flow:
    """A stream's chunks between litellm and the caller."""

    def __init__(self, call: Any) -> None:
        self.call = call
        self.ready: deque[Any] = deque()
        self._end: Exception | None = None
        self._samples: dict[Any, Any] = {}

    def take(self, chunk: Any, dumped: Body, events: list[Body]) -> None:
        kind = dumped.get("type")
        self._samples[kind] = chunk
        for event in events:
            same = event is dumped or (event.get("type") == kind and event is events[-1])
            self.ready.append(self._changed(chunk, dumped, event) if same else self._made(event))

    def next(self) -> Any:
        """The next chunk. The last one waits until the call is settled, when all before it has been given."""
        if self.call.unsettled and len(self.ready) == 1:
            self.call.settle()
        return self.ready.popleft()

    async def next_async(self) -> Any:
        if self.call.unsettled and len(self.ready) == 1:
            await self.call.settle()
        return self.ready.popleft()

    def give(self, events: list[Body]) -> None:
        """Events that no chunk of litellm's stands for."""
        self.ready.extend(self._made(event) for event in events)

    def end_with(self, held: list[Body], end: Exception) -> None:
        """What ended the stream; it is raised once all that was held back has been given."""
        self.give(held)
        self._end = end

    def raise_end(self) -> None:
        end, self._end = self._end, None
        if end is not None:
            raise end

    def _changed(self, chunk: Any, dumped: Body, event: Body) -> Any:
        if event is not dumped:
            _overlay(chunk, dumped, event)
        return chunk

    def _made(self, event: Body) -> Any:
        sample = self._samples[event.get("type")].model_copy(deep=True)
        _overlay(sample, _dump(sample), event)
        return sample


@cache
def _flowing_class(cls: Any) -> type:
    """A subclass of a stream's own class whose chunks come without the trailer."""

    class FlowingStream(cls):  # type: ignore[misc]
        def __next__(self) -> Any:
            flow = self._ctxwrap_flow
            while not flow.ready:
                flow.raise_end()
                try:
                    chunk = super().__next__()
                    flow.take(chunk, dumped := _dump(chunk), flow.call.event(dumped))
                except StopIteration as end:
                    flow.end_with(flow.call.end(), end)
                except Exception as error:
                    flow.end_with(flow.call.cut(why_stopped(error)), error)
                except BaseException as error:
                    flow.call.stop(why_stopped(error))
                    raise
            return flow.next()

        async def __anext__(self) -> Any:
            flow = self._ctxwrap_flow
            while not flow.ready:
                flow.raise_end()
                try:
                    chunk = await super().__anext__()
                    flow.take(chunk, dumped := _dump(chunk), await flow.call.event(dumped))
                except StopAsyncIteration as end:
                    flow.end_with(await flow.call.end(), end)
                except Exception as error:
                    flow.end_with(await flow.call.cut(why_stopped(error)), error)
                except BaseException as error:
                    await flow.call.stop(why_stopped(error))
                    raise
            return await flow.next_async()

        async def aclose(self) -> None:
            try:
                await super().aclose()
            finally:
                await self._ctxwrap_flow.call.stop("closed")

    FlowingStream.__name__, FlowingStream.__qualname__ = cls.__name__, cls.__qualname__
    FlowingStream.__module__ = cls.__module__
    return FlowingStream


def _flowing(stream: Any, call: Any) -> Any:
    cls: Any = type(stream)
    stream = copy(stream)  # litellm keeps its own with the logger that a stream keeps: it would never be dropped
    stream.__class__ = _flowing_class(cls)
    stream._ctxwrap_flow = _Flow(call)
    weakref.finalize(stream, call.abandon)
    return remember(stream, call)
