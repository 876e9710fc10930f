"""Blocking work from async code, and work that comes at any moment, even in the middle of other work."""

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from contextvars import copy_context
from functools import cache, partial
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

if TYPE_CHECKING:
    from concurrent.futures import Executor

_THREADS = 32
"""So many writes go on at once; the others wait for one of them."""

P = ParamSpec("P")
T = TypeVar("T")


async def in_thread(work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Run `work` in a thread and wait for it to its end, however often the caller is cancelled meanwhile.

    A cancelled write that nobody waits for is how answers get lost when a client disconnects. The cancellation
    is raised when the work is done. Without an asyncio loop the work simply blocks.
    """
    import asyncio

    try:
        future = asyncio.get_running_loop().run_in_executor(_executor(), partial(work, *args, **kwargs))
    except RuntimeError:  # no loop, or an interpreter that starts no more threads since it is about to end
        return work(*args, **kwargs)
    try:
        await asyncio.wait({future})
    except asyncio.CancelledError:
        with _left_alone():
            while not future.done():
                with suppress(asyncio.CancelledError):
                    await asyncio.wait({future})
        future.exception()
        raise
    return future.result()


@cache
def _executor() -> "Executor":
    """Threads of our own: the loop's are the application's, which may have filled them with work of its own."""
    from concurrent.futures import ThreadPoolExecutor

    return ThreadPoolExecutor(_THREADS, thread_name_prefix="ctxwrap")


def _forget_threads() -> None:
    _executor.cache_clear()
    _idle.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_threads)  # a forked child has no threads but its own


def run_uninterrupted(work: Callable[[], None]) -> None:
    """Do `work` to its end, whatever a signal's handler raises meanwhile, which is raised behind it.

    Handlers run in the main thread alone and between any two steps of it, so work that begins there is done in another
    one. Who is interrupted twice does not wait any more; the work goes on. Never call it where an object may be
    collected: then this thread may hold a lock that starting another needs.
    """
    if threading.current_thread() is not threading.main_thread():
        work()
        return
    context, begun, over = copy_context(), threading.Lock(), threading.Lock()
    done: list[BaseException | None] = []
    """What the work raised, if anything."""
    over.acquire()

    def run() -> None:
        if begun.acquire(blocking=False):  # who was interrupted while starting a thread starts another
            error = None
            try:
                context.run(work)
            except BaseException as raised:
                error = raised
            done.append(error)
            over.release()

    interruptions: list[BaseException] = []
    while not done and len(interruptions) < 2:
        try:
            if not begun.locked():
                _start(run)
            over.acquire()
        except BaseException as interruption:
            interruptions.append(interruption)
    for error in (*interruptions, *done):
        if error is not None:
            raise error


def _start(work: Callable[[], None]) -> None:
    """Let an idle thread do it, or a new one: starting one costs more than most work."""
    if sys.is_finalizing():  # no other thread runs any more
        work()
        return
    try:
        _idle.pop().put(work)
    except IndexError:
        _start_worker(work)


def _start_worker(work: Callable[[], None]) -> None:
    jobs: SimpleQueue[Callable[[], None]] = SimpleQueue()
    jobs.put(work)

    def serve() -> None:
        while True:
            jobs.get()()
            _idle.append(jobs)

    try:
        threading.Thread(target=serve, name="ctxwrap", daemon=True).start()
    except RuntimeError:  # an interpreter that is about to end starts no more threads
        work()


_idle: list[SimpleQueue[Callable[[], None]]] = []
"""The queues of threads that wait for work."""


async def in_thread_if(is_long: bool, work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Run `work` in a thread if it may take long; what is short is done sooner than a thread begins."""
    return await in_thread(work, *args, **kwargs) if is_long else work(*args, **kwargs)


def _left_alone() -> AbstractContextManager[Any]:
    """A block that anyio's cancellation does not reach: it comes again at every turn of the loop, which would spin."""
    anyio = sys.modules.get("anyio")
    return anyio.CancelScope(shield=True) if anyio else nullcontext()


class _Thread(threading.local):
    def __init__(self) -> None:
        self.depth = 0
        self.waiting: list[Callable[[], None]] = []


_thread = _Thread()


@contextmanager
def defer_finalizers() -> Iterator[None]:
    """A block in which no `when_undisturbed` work of this thread runs; what came up meanwhile runs behind it.

    An object may go, and its last words be due, at any moment, also while this thread holds the very lock that
    they need.
    """
    _thread.depth += 1
    try:
        yield
    finally:
        _thread.depth -= 1
        while _thread.waiting and not _thread.depth:
            _thread.waiting.pop(0)()


def run_when_safe(work: Callable[[], None]) -> None:
    """Do `work` now, or as soon as this thread leaves the block it is in."""
    if _thread.depth:
        _thread.waiting.append(work)
    else:
        work()
