"""One call of a function of litellm: its arguments as a request, its results changed in place."""

import inspect
import weakref
from collections.abc import Callable
from copy import copy
from functools import cache, partial
from typing import Any

from ctxwrap.clients.function_call import (
    EventQueue,
    ResultForm,
    async_sender,
    finished,
    finished_async,
    scope_of,
    sender,
)
from ctxwrap.clients.litellm import FUNCTIONS, load_litellm
from ctxwrap.clients.sdk import named_like
from ctxwrap.clients.sdk_call import remember, to_jsonable, with_cache_key
from ctxwrap.providers import load_adapter
from ctxwrap.providers.text_channel import EventPassthrough
from ctxwrap.session.queue import this_caller
from ctxwrap.turn import async_, sync
from ctxwrap.turn.binding import ClientBinding
from ctxwrap.types import Body


def call(
    function: Callable[..., Any], name: str, binding: ClientBinding, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    scope = scope_of(binding, kwargs)
    if scope is None:
        return function(*args, **kwargs)
    body = partial(_body, function, name, args, kwargs)
    keyed = with_cache_key(load_adapter(FUNCTIONS[name]), function, binding, scope)
    turn = sync.begin(binding, keyed, body, scope, sender(function, _FORM))
    return finished(function, turn, _FORM, args, kwargs)


async def call_async(
    function: Callable[..., Any], name: str, binding: ClientBinding, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    scope = scope_of(binding, kwargs)
    if scope is None:
        return await function(*args, **kwargs)
    body = partial(_body, function, name, args, kwargs)
    keyed = with_cache_key(load_adapter(FUNCTIONS[name]), function, binding, scope)
    turn = await async_.begin(binding, keyed, body, scope, async_sender(function, _FORM))
    return await finished_async(function, turn, _FORM, args, kwargs)


def _body(function: Callable[..., Any], name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Body:
    """The call's arguments by name."""
    body = {**dict(zip(_parameters(function, name) if args else (), args, strict=False)), **kwargs}
    field = load_adapter(FUNCTIONS[name]).input_field
    return {**body, field: to_jsonable(body[field])} if field in body else body


def _parameters(function: Callable[..., Any], name: str) -> tuple[str, ...]:
    """The names of a function's positional parameters; an async function without any takes those of its sync twin."""
    parameters = inspect.signature(function).parameters.values()
    names = tuple(p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD)
    return names or _parameters(getattr(load_litellm(), name.removeprefix("a")), name)


def _dump(value: Any) -> Body:
    dumped: Body = value if isinstance(value, dict) else value.model_dump(warnings=False)
    return dumped


def _is_stream(result: Any) -> bool:
    return hasattr(result, "__next__") or hasattr(result, "__anext__")


def _show(result: Any, dumped: Body, reply: Body) -> None:
    """Change `result`, which was dumped as `dumped`, to what `reply` says."""
    if reply is dumped:
        return
    _overlay(result, dumped, reply)
    hidden = getattr(result, "_hidden_params", None)
    if _get(hidden, "original_response"):  # the provider's text, with the trailer
        _set(hidden, "original_response", None)


def _overlay(target: Any, before: Any, after: Any) -> None:
    """Apply the change from `before` to `after` to `target`, the object that `before` was dumped from."""
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
    """The new value; a shortened list is made of the objects that its items were dumped from."""
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


class _ChunkQueue(EventQueue):
    """The chunks of a stream, which are models of litellm."""

    def __init__(self, call: Any) -> None:
        super().__init__(call)
        self._samples: dict[Any, Any] = {}
        self._deltas = EventPassthrough()

    def dumped(self, event: Any) -> Body:
        dumped = _dump(event)
        self._samples[dumped.get("type")] = event
        return dumped

    def passes(self, dumped: Body) -> bool | None:
        return self._deltas.take(dumped)

    def learn(self, dumped: Body) -> None:
        self._deltas.learn(dumped, self.call.text_delta(dumped))

    def shown(self, event: Any, dumped: Body, shown: list[Body]) -> list[Any]:
        kind = dumped.get("type")
        return [
            self._changed(event, dumped, each)
            if each is dumped or (each.get("type") == kind and each is shown[-1])
            else self.made(each)
            for each in shown
        ]

    def made(self, event: Body) -> Any:
        sample = self._samples[event.get("type")].model_copy(deep=True)
        _overlay(sample, _dump(sample), event)
        return sample

    def _changed(self, chunk: Any, dumped: Body, event: Body) -> Any:
        if event is not dumped:
            _overlay(chunk, dumped, event)
        return chunk


@cache
def _rewritten_stream_class(cls: Any) -> type:
    """A subclass of a stream's class whose chunks come without the trailer."""

    class RewrittenStream(cls):  # type: ignore[misc]
        def __next__(self) -> Any:
            return self._ctxwrap_queue.read(super().__next__)

        async def __anext__(self) -> Any:
            return await self._ctxwrap_queue.read_async(super().__anext__)

        async def aclose(self) -> None:
            try:
                await super().aclose()
            finally:
                if self._ctxwrap_queue.reader != this_caller():  # else litellm closes a stream that broke
                    await self._ctxwrap_queue.call.stop("closed")

    return named_like(RewrittenStream, cls)


def _rewritten_stream(stream: Any, call: Any) -> Any:
    cls: Any = type(stream)
    stream = copy(stream)  # litellm's logger holds the original, which would never be dropped
    stream.__class__ = _rewritten_stream_class(cls)
    stream._ctxwrap_queue = _ChunkQueue(call)
    weakref.finalize(stream, call.abandon)
    return remember(stream, call)


_FORM = ResultForm(_dump, _show, _is_stream, _rewritten_stream)
