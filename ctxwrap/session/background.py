"""Background work, one thread per process; blocking and uninterruptible work; time and ids of turns."""

import logging
import os
import secrets
import sys
import threading
import time
from collections.abc import Callable, Hashable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from contextvars import copy_context
from datetime import UTC, datetime
from functools import cache, partial
from queue import SimpleQueue
from time import monotonic
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

if TYPE_CHECKING:
    from concurrent.futures import Executor


logger = logging.getLogger("ctxwrap")

_DELAY = 5.0
"""Seconds between scheduling work and doing it; work scheduled meanwhile is coalesced."""

_IDLE = 10.0
"""Seconds without work after which the thread ends."""

Work = Callable[[], None]


class Background:
    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._due: dict[Hashable, tuple[float, Work]] = {}
        """Due time and work per subject, in the order of due times."""
        self._doing: Hashable | None = None
        """The subject whose work is running."""
        self._is_running = False
        self._thread = 0

    def schedule(self, subject: Hashable, work: Work, *, starts: bool = True) -> None:
        """Run `work` soon; it replaces pending work of the same `subject` and keeps its due time.

        Pass `starts=False` where the garbage collector may be running: no thread can be started there.
        """
        with self._changed:
            due, _ = self._due.get(subject, (monotonic() + _DELAY, work))
            self._due[subject] = due, work
            if starts and not self._is_running:
                self._is_running = _start(self._run)

    def finish(self, is_wanted: Callable[[Any], bool] = lambda _: True) -> None:
        """Run pending work whose subject `is_wanted` in this thread, and wait for what is running."""
        with self._changed:
            subjects = [each for each in list(self._due) if is_wanted(each)]  # a finalizer may add another
            works = [self._due.pop(subject)[1] for subject in subjects]
        for work in works:
            _do(work)
        with self._changed:
            while self._doing is not None and is_wanted(self._doing) and self._thread != threading.get_ident():
                self._changed.wait()

    def _run(self) -> None:
        self._thread = threading.get_ident()
        while (work := self._next()) is not None:
            _do(work)
            with self._changed:
                self._doing = None
                self._changed.notify_all()

    def _next(self) -> Work | None:
        """The next work when it is due; None after `_IDLE` seconds without any."""
        with self._changed:
            waits_since = monotonic()
            while True:
                now = monotonic()
                subject, (due, work) = next(iter(self._due.items()), (None, (waits_since + _IDLE, None)))
                if due <= now:
                    self._due.pop(subject, None)
                    self._doing, self._is_running = subject, work is not None
                    return work
                self._changed.wait(min(due - now, _DELAY))  # waking the thread would cost the caller time


def _do(work: Work) -> None:
    try:
        work()
    except Exception as error:
        logger.info("ctxwrap: background work failed: %r", error)


def _start(run: Work) -> bool:
    try:
        threading.Thread(target=run, name="ctxwrap-background", daemon=True).start()
    except RuntimeError:  # the interpreter is shutting down and starts no threads: `finish` does the work
        return False
    return True


background = Background()


def _begin_anew() -> None:
    """Pending work belongs to the parent of a forked process."""
    background.__init__()  # type: ignore[misc]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_anew)


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


@cache
def _executor() -> "Executor":
    """Our own threads: the application may have filled the loop's executor."""
    from concurrent.futures import ThreadPoolExecutor

    return ThreadPoolExecutor(_THREADS, thread_name_prefix="ctxwrap")


def _forget_threads() -> None:
    _executor.cache_clear()
    _idle.clear()


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
        self.depth = 0
        self.waiting: list[Callable[[], None]] = []


_thread = _Thread()


@contextmanager
def defer_finalizers() -> Iterator[None]:
    """A block in which this thread runs no `run_when_safe` work; it runs after the block.

    The garbage collector may run a finalizer at any moment, also while this thread holds the lock that it needs.
    """
    _thread.depth += 1
    try:
        yield
    finally:
        _thread.depth -= 1
        while _thread.waiting and not _thread.depth:
            _thread.waiting.pop(0)()


def run_when_safe(work: Callable[[], None]) -> None:
    """Run `work` now, or as soon as this thread leaves its `defer_finalizers` block."""
    if _thread.depth:
        _thread.waiting.append(work)
    else:
        work()


def new_turn_id() -> str:
    """Unique, and in the order of time."""
    return f"{time.time_ns() // 1_000_000:011x}{secrets.token_hex(5)}"


def utc_now() -> datetime:
    return datetime.now(UTC)
