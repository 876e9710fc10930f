"""Who is calling: `using(...)` names a session, tenant, agent or mode for everything inside its block."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, fields, replace
from functools import wraps
from typing import Any

from ctxwrap.errors import unknown_name
from ctxwrap.settings import Mode, check_mode


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

    It holds in async tasks and threads started inside, and in work handed to a thread pool there. Inner blocks
    add to outer ones. Nothing of it outlives the block, so a pool's threads never carry one caller's session
    to the next.
    """
    if "contextMode" in names:
        names["context_mode"] = names.pop("contextMode")
    for name in names:
        if name not in _NAMES:
            raise unknown_name("argument of using()", name, _NAMES)
    if "context_mode" in names:
        check_mode(names["context_mode"])
    _carry_into_threads()
    with _entered(replace(_current.get(), **names)):  # type: ignore[arg-type]  # checked above
        yield


@contextmanager
def apart() -> Iterator[None]:
    """Let every wrapped call made inside the block go through as it is: for calls that ctxwrap itself asks for."""
    _carry_into_threads()
    with _entered(Scope(is_apart=True)):
        yield


@contextmanager
def _entered(scope: Scope) -> Iterator[None]:
    token = _current.set(scope)
    try:
        yield
    finally:
        _current.reset(token)


def _carry_into_threads() -> None:
    """Let threads and pool work start in the scope of whoever starts them; Python 3.14 may do so by itself.

    Installed by the first `using()`, and without effect outside its blocks.
    """
    if not hasattr(threading.Thread.start, "_ctxwrap"):
        threading.Thread.start = _carrying_start(threading.Thread.start)  # type: ignore[method-assign, assignment]
        ThreadPoolExecutor.submit = _carrying_submit(ThreadPoolExecutor.submit)  # type: ignore[method-assign]


def _carrying_start(start: Callable[[threading.Thread], None]) -> Callable[[threading.Thread], None]:
    @wraps(start)
    def carrying(thread: threading.Thread) -> None:
        if current() != _NOBODY:
            thread.run = _bound(current(), thread.run)  # type: ignore[method-assign]
        start(thread)

    carrying._ctxwrap = True  # type: ignore[attr-defined]
    return carrying


def _carrying_submit(submit: Callable[..., Future[Any]]) -> Callable[..., Future[Any]]:
    @wraps(submit)
    def carrying(self: ThreadPoolExecutor, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        scope = current()
        if scope == _NOBODY:
            return submit(self, fn, *args, **kwargs)
        # a worker thread started here outlives the work: only the work itself is bound
        with _entered(_NOBODY):
            return submit(self, _bound(scope, fn), *args, **kwargs)

    return carrying


def _bound(scope: Scope, work: Callable[..., Any]) -> Callable[..., Any]:
    def bound(*args: Any, **kwargs: Any) -> Any:
        with _entered(scope):
            return work(*args, **kwargs)

    return bound
