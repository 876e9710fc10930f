"""Blocking work from async code, uninterruptible work, and finalizers that wait for a safe moment."""

import os
import sys
import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from contextvars import copy_context
from functools import cache, partial
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

if TYPE_CHECKING:
    from concurrent.futures import Executor


_THREADS = 32
"""The most writes at once; others wait."""

P = ParamSpec("P")
T = TypeVar("T")


async def in_thread(work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Run `work` in a thread and wait for its end, even if the caller is cancelled meanwhile.

    An abandoned write is how answers get lost when a client disconnects. The cancellation is raised when the work is
    done. Without an asyncio loop the work blocks.
    """
    import asyncio

    try:
        future = asyncio.get_running_loop().run_in_executor(_executor(), partial(work, *args, **kwargs))
    except RuntimeError:  # no loop, or the interpreter is shutting down and starts no threads
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


async def finish_in_thread(work: Callable[P, None], /, *args: P.args, **kwargs: P.kwargs) -> None:
    """Run `work` in a thread, and wait for its end if anybody waits for this task.

    Nobody waits for the task that closes a generator which was dropped while open: the loop may end before it.
    """
    import asyncio

    try:
        task = asyncio.current_task()
    except RuntimeError:  # no loop
        task = None
    if task is None or not isinstance(task.get_coro(), _ACLOSE):
        await in_thread(work, *args, **kwargs)
        return
    done = threading.Event()
    _detached.add(done)

    def run() -> None:
        _thread.is_detached = True
        try:
            work(*args, **kwargs)
        finally:
            _thread.is_detached = False
            _detached.discard(done)
            done.set()

    _start_thread(run)  # a thread of the executor may be waiting for this very work


def wait_for_detached() -> None:
    """Wait for the work of `finish_in_thread` that nobody waited for."""
    if not _thread.is_detached:
        for done in list(_detached):
            done.wait()


_detached: set[threading.Event] = set()
"""One per work that is not done yet."""


async def _generator() -> AsyncGenerator[None]:
    yield


_aclose = _generator().aclose()
_ACLOSE = type(_aclose)
"""The type of what closes a generator, which has no public name."""
_aclose.close()  # else Python warns that nobody awaited it


@cache
def _executor() -> "Executor":
    """Our own threads: the application may have filled the loop's executor."""
    from concurrent.futures import ThreadPoolExecutor

    return ThreadPoolExecutor(_THREADS, thread_name_prefix="ctxwrap")


def _forget_threads() -> None:
    _executor.cache_clear()
    _idle.clear()
    _detached.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_threads)  # threads do not survive a fork


def run_uninterrupted(work: Callable[[], None]) -> None:
    """Run `work` to its end, whatever a signal handler raises meanwhile; that is raised afterwards.

    Handlers run in the main thread, between any two steps, so work of the main thread runs in another one. After a
    second interrupt the caller stops waiting and the work continues. Never call it from a finalizer: this thread may
    hold a lock that starting a thread needs.
    """
    if threading.current_thread() is not threading.main_thread():
        work()
        return
    context, begun, over = copy_context(), threading.Lock(), threading.Lock()
    done: list[BaseException | None] = []
    """What the work raised, if anything."""
    over.acquire()

    def run() -> None:
        if begun.acquire(blocking=False):  # interrupted while starting a thread: start another
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
                _start_thread(run)
            over.acquire()
        except BaseException as interruption:
            interruptions.append(interruption)
    for error in (*interruptions, *done):
        if error is not None:
            raise error


def _start_thread(work: Callable[[], None]) -> None:
    """Use an idle thread or a new one: starting a thread costs more than most work."""
    if sys.is_finalizing():  # no other thread is left
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
    except RuntimeError:  # the interpreter is shutting down and starts no threads
        work()


_idle: list[SimpleQueue[Callable[[], None]]] = []
"""The queues of idle threads."""


async def in_thread_if(is_long: bool, work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Run `work` in a thread if it may take long; short work is faster without one."""
    return await in_thread(work, *args, **kwargs) if is_long else work(*args, **kwargs)


def _left_alone() -> AbstractContextManager[Any]:
    """A block shielded from anyio's cancellation, which is delivered on every loop iteration and would spin."""
    anyio = sys.modules.get("anyio")
    return anyio.CancelScope(shield=True) if anyio else nullcontext()


class _Thread(threading.local):
    def __init__(self) -> None:
        self.is_detached = False
        """Whether the thread does work that `wait_for_detached` waits for."""
        self.depth = 0
        self.waiting: list[Callable[[], None]] = []


_thread = _Thread()


class _DeferringFinalizers:  # a generator as context manager takes several times as long
    def __enter__(self) -> None:
        _thread.depth += 1

    def __exit__(self, *error: object) -> None:
        _thread.depth -= 1
        while _thread.waiting and not _thread.depth:
            _thread.waiting.pop(0)()


_deferring_finalizers = _DeferringFinalizers()


def defer_finalizers() -> AbstractContextManager[None]:
    """A block in which this thread runs no `run_when_safe` work; it runs after the block.

    The garbage collector may run a finalizer at any moment, also while this thread holds the lock that it needs.
    """
    return _deferring_finalizers


def run_when_safe(work: Callable[[], None]) -> None:
    """Run `work` now, or as soon as this thread leaves its `defer_finalizers` block."""
    if _thread.depth:
        _thread.waiting.append(work)
    else:
        work()
