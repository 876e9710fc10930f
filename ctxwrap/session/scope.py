"""Who is calling: `using(...)` names a session, tenant, agent or mode for everything inside its block."""

import logging
from collections.abc import Callable, Coroutine, Generator, Iterator
from contextlib import contextmanager
from contextvars import Context, ContextVar, copy_context
from dataclasses import dataclass, fields, replace
from functools import partial, wraps
from inspect import isasyncgenfunction, iscoroutinefunction, isgeneratorfunction
from typing import Any, ParamSpec, TypeVar

from ctxwrap.errors import unknown_name
from ctxwrap.settings import Mode, check_mode
from ctxwrap.types import Offer, SessionKey

logger = logging.getLogger("ctxwrap")

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
    offers: tuple[Offer, ...] = ()
    """What was offered for calls inside the block."""


_NAMES = tuple(field.name for field in fields(Scope) if field.name not in ("is_apart", "offers"))
_MOST_OFFERS = 64
"""So many offers wait for a call at most; older ones are dropped."""
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


def add_offer(offer: Offer) -> None:
    """Keep an offer for calls in this context, until the block of `using` ends."""
    here = _current.get()
    waiting = [each for each in here.offers if each.holder is None]
    _current.set(replace(here, offers=(*waiting, offer)[-_MOST_OFFERS:]))


def offers_for(key: SessionKey | None) -> tuple[Offer, ...]:
    """What was offered in this context for a call of that session."""
    offers = _current.get().offers
    for each in offers:
        if key and each.key != key and each.key.session == key.session and not (each.holder or each.warned):
            each.warned = True
            logger.warning(
                "ctxwrap: an offer for session %r is for tenant %r and agent %r, and not for this call; name both",
                key.session,
                each.key.tenant,
                each.key.agent,
            )
    return tuple(each for each in offers if each.key == key)


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
