"""The calling scope: `using(...)` names session, tenant, agent, user, team, mode or purpose of calls in its block."""

import logging
from collections.abc import Callable, Coroutine, Generator, Iterator, Mapping
from contextlib import contextmanager
from contextvars import Context, ContextVar, copy_context
from functools import partial, wraps
from inspect import isasyncgenfunction, iscoroutinefunction, isgeneratorfunction
from typing import Any, NamedTuple, ParamSpec, TypedDict, TypeVar, Unpack

from ctxwrap.errors import SettingsError, unknown_name
from ctxwrap.settings import Mode, Purpose, SettingsDict, check_mode, check_purpose
from ctxwrap.stores.names import check_id
from ctxwrap.types import Offer, SessionKey

logger = logging.getLogger("ctxwrap")

P = ParamSpec("P")
T = TypeVar("T")


class Scope(NamedTuple):
    session: str | None = None
    tenant: str | None = None
    agent: str | None = None
    user: str | None = None
    team: str | None = None
    context_mode: Mode | None = None
    purpose: Purpose | None = None
    """`aux`: calls beside the conversation, such as those for its title, run as if they named no session."""
    is_apart: bool = False
    """Whether calls bypass ctxwrap, whatever session they name."""
    offers: tuple[Offer, ...] = ()
    """Offers for calls inside the block."""


class ScopeNames(TypedDict, total=False):
    """What `using` and `bind` name, as keywords."""

    session: str
    tenant: str
    agent: str
    user: str
    team: str
    context_mode: Mode
    contextMode: Mode  # another spelling of context_mode
    purpose: Purpose


_NAMES = tuple(name for name in Scope._fields if name not in ("is_apart", "offers"))
_MOST_OFFERS = 64
"""Limit of waiting offers; older ones are dropped."""
_NOBODY = Scope()
_current: ContextVar[Scope] = ContextVar("ctxwrap_scope", default=_NOBODY)


def current() -> Scope:
    return _current.get()


def names_from(function: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """The keywords of `using` or `bind`, checked, in one spelling."""
    names = {("context_mode" if name == "contextMode" else name): value for name, value in given.items()}
    for name, value in names.items():
        if name not in _NAMES:
            hint = "; settings are arguments of wrap()" if name in SettingsDict.__annotations__ else ""
            raise SettingsError(f"{unknown_name(f'argument of {function}()', name, _NAMES)}{hint}")
        if name == "context_mode":
            check_mode(value)
        elif name == "purpose":
            check_purpose(value)
        else:
            check_id(name, value)
    return names


@contextmanager
def using(**names: Unpack[ScopeNames]) -> Iterator[None]:
    """Name the session, tenant, agent, user, team, context_mode or purpose of every wrapped call inside the block.

    Inner blocks add to outer ones. The scope is a context variable: an async task and `asyncio.to_thread` inherit it
    when they start, and keep it after the block ends. Other threads do not; use `carry` for them.
    """
    with _entered(_current.get()._replace(**names_from("using", names))):
        yield


def add_offer(offer: Offer) -> None:
    """Keep an offer for calls in this context until its `using` block ends."""
    here = _current.get()
    waiting = [each for each in here.offers if each.holder is None]
    _current.set(here._replace(offers=(*waiting, offer)[-_MOST_OFFERS:]))


def offers_for(key: SessionKey) -> tuple[Offer, ...]:
    """Return the offers of this context for a call of that session."""
    offers = _current.get().offers
    for each in offers:
        if each.key != key and each.key.session == key.session and not (each.holder or each.warned):
            each.warned = True
            logger.warning(
                "ctxwrap: an offer for session %r is for tenant %r and agent %r, not for this call; name both",
                key.session,
                each.key.tenant,
                each.key.agent,
            )
    return tuple(each for each in offers if each.key == key)


@contextmanager
def apart() -> Iterator[None]:
    """Pass every wrapped call inside the block through unchanged: for calls that ctxwrap makes itself."""
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
    """Bind a function or coroutine function to a copy of the current context, for use in another thread or task.

    Every call gets its own copy, so several threads may call it at once. A generator cannot be bound: its body runs in
    the context of its reader.
    """
    here, called = copy_context(), getattr(work, "__call__", work)  # noqa: B004  # an object's, to look at
    if any(is_generator(each) for each in (work, called) for is_generator in (isgeneratorfunction, isasyncgenfunction)):
        raise TypeError("carry() cannot bind a generator: call using() inside it")
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
    """Runs each step of a coroutine in a given context, inside the awaiting task."""

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
