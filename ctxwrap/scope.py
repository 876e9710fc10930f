"""Who is calling: `using(...)` names a session, tenant, agent or mode for everything inside its block."""

from collections.abc import Callable, Coroutine, Generator, Iterator
from contextlib import contextmanager
from contextvars import Context, ContextVar, copy_context
from dataclasses import dataclass, fields, replace
from functools import partial, wraps
from inspect import isasyncgenfunction, iscoroutinefunction, isgeneratorfunction
from typing import Any, ParamSpec, TypeVar

from ctxwrap.errors import unknown_name
from ctxwrap.settings import Mode, check_mode

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Scope:
    session: str | None = None
    tenant: str | None = None
    agent: str | None = None
    context_mode: Mode | None = None
    is_apart: bool = False
    """Whether calls are no part of any conversation, whatever they name."""


_NAMES = tuple(field.name for field in fields(Scope) if field.name != "is_apart")
_NOBODY = Scope()
_current: ContextVar[Scope] = ContextVar("ctxwrap_scope", default=_NOBODY)


def current() -> Scope:
    return _current.get()


@contextmanager
def using(**names: str) -> Iterator[None]:
    """Name the session, tenant, agent or context_mode of every wrapped call made inside the block.

    Inner blocks add to outer ones. It goes where `contextvars` go: an async task keeps what it was created with,
    also when it outlives the block, and so does `asyncio.to_thread`. A thread has nothing of it, since it may
    serve others next; `carry` takes it there.
    """
    if "contextMode" in names:
        names["context_mode"] = names.pop("contextMode")
    for name in names:
        if name not in _NAMES:
            raise unknown_name("argument of using()", name, _NAMES)
    if "context_mode" in names:
        check_mode(names["context_mode"])
    with _entered(replace(_current.get(), **names)):  # type: ignore[arg-type]  # checked above
        yield


@contextmanager
def apart() -> Iterator[None]:
    """Let every wrapped call made inside the block go through as it is: for calls that ctxwrap itself asks for."""
    with _entered(Scope(is_apart=True)):
        yield


@contextmanager
def _entered(scope: Scope) -> Iterator[None]:
    token = _current.set(scope)
    try:
        yield
    finally:
        _current.reset(token)


def carry(work: Callable[P, T]) -> Callable[P, T]:
    """`work` bound to a copy of the present context, for a thread or a task that would not have it.

    Every call has a copy of its own, so that any number of threads may call it at once. Functions and coroutine
    functions; the body of a generator runs in the context of whoever reads it, so that it cannot be bound.
    """
    here, called = copy_context(), getattr(work, "__call__", work)  # noqa: B004  # an object's, to look at
    if any(is_generator(each) for each in (work, called) for is_generator in (isgeneratorfunction, isasyncgenfunction)):
        raise TypeError("carry() cannot bind a generator: name the session inside of it, with using()")
    if not (iscoroutinefunction(work) or iscoroutinefunction(called)):

        @wraps(work)
        def bound(*args: P.args, **kwargs: P.kwargs) -> T:
            return here.copy().run(work, *args, **kwargs)

        return bound

    @wraps(work)
    async def bound_async(*args: P.args, **kwargs: P.kwargs) -> Any:
        context = here.copy()
        return await _Within(context, context.run(work, *args, **kwargs))  # type: ignore[arg-type]  # a coroutine

    return bound_async  # type: ignore[return-value]  # as async as `work` is


class _Within:
    """A coroutine each of whose steps runs in a context, inside the task that awaits it."""

    def __init__(self, context: Context, work: Coroutine[Any, Any, Any]) -> None:
        self._context, self._work = context, work

    def __await__(self) -> Generator[Any, Any, Any]:
        step: Callable[[], Any] = partial(self._work.send, None)
        while True:
            try:
                awaited = self._context.run(step)
            except StopIteration as end:
                return end.value
            try:
                step = partial(self._work.send, (yield awaited))
            except GeneratorExit:
                self._context.run(self._work.close)
                raise
            except BaseException as error:
                step = partial(self._work.throw, error)
