"""Blocking work from async code: it is waited for to its end, and waiting costs nothing."""

import asyncio
import os
import signal
import sys
import threading
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing

import anyio
import pytest

import ctxwrap
from ctxwrap.session.scope import current
from ctxwrap.session.threads import finish_in_thread, in_thread, run_uninterrupted, wait_for_detached

PATIENCE = 10.0


class Work:
    """Blocks until it is let go."""

    def __init__(self) -> None:
        self.begun, self.go, self.is_done = threading.Event(), threading.Event(), False

    def __call__(self) -> str:
        self.begun.set()
        assert self.go.wait(PATIENCE)
        self.is_done = True
        return "done"


async def turns(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def cancelled_by_asyncio(work: Callable[[], Awaitable[str]], meanwhile: Callable[[], Awaitable[None]]) -> None:
    task = asyncio.ensure_future(work())
    await meanwhile()
    for _ in range(3):
        task.cancel()
        await turns(3)
    await meanwhile()
    with pytest.raises(asyncio.CancelledError):
        await task


async def cancelled_by_anyio(work: Callable[[], Awaitable[str]], meanwhile: Callable[[], Awaitable[None]]) -> None:
    async with anyio.create_task_group() as group:
        group.start_soon(work)
        await meanwhile()
        group.cancel_scope.cancel()
        with anyio.CancelScope(shield=True):
            await meanwhile()


@pytest.mark.parametrize("cancelled", [cancelled_by_asyncio, cancelled_by_anyio])
def test_work_of_a_cancelled_caller_is_awaited_without_busy_waiting(
    cancelled: Callable[..., Awaitable[None]],
) -> None:
    work, outcome, tasks = Work(), [], []

    async def call() -> None:
        tasks.append(asyncio.current_task())
        try:
            await in_thread(work)
        except asyncio.CancelledError:
            outcome.append(work.is_done)
            raise

    async def meanwhile() -> None:
        if not work.begun.is_set():
            assert await asyncio.to_thread(work.begun.wait, PATIENCE)
            return
        await turns(100)
        assert outcome == [], "it waits for its work"
        assert tasks[0].cancelling() <= 4, "it is not woken up again and again"
        work.go.set()

    asyncio.run(asyncio.wait_for(cancelled(call, meanwhile), PATIENCE))
    assert outcome == [True]


def test_caller_gets_the_result_or_exception_of_the_work() -> None:
    def fail() -> None:
        raise LookupError("gone")

    assert asyncio.run(in_thread(int, "7")) == 7
    with pytest.raises(LookupError, match="gone"):
        asyncio.run(in_thread(fail))


def test_end_of_a_loop_does_not_interrupt_the_work_of_a_dropped_generator() -> None:
    may_end, done = threading.Event(), list[str]()

    def work() -> None:
        may_end.wait()
        wait_for_detached()  # work that waits for all work does not wait for itself
        done.append("work")

    async def pieces() -> AsyncIterator[None]:
        try:
            yield
        finally:
            await finish_in_thread(work)

    async def drop_one() -> None:
        await anext(pieces())

    asyncio.run(drop_one())
    done.append("loop")
    may_end.set()
    wait_for_detached()
    assert done == ["loop", "work"]


def test_work_of_a_closed_generator_is_awaited() -> None:
    done: list[int] = []

    async def pieces() -> AsyncIterator[None]:
        try:
            yield
        finally:
            await finish_in_thread(lambda: done.append(threading.get_ident()))

    async def close_one() -> int:
        async with aclosing(pieces()) as opened:
            await anext(opened)
        return len(done)

    assert asyncio.run(close_one()) == 1
    assert done != [threading.get_ident()]


def test_work_does_not_wait_for_the_full_thread_pool_of_the_loop() -> None:
    async def call() -> str:
        own, loop = Work(), asyncio.get_running_loop()
        loop.set_default_executor(ThreadPoolExecutor(1))
        filled = loop.run_in_executor(None, own)
        try:
            return await asyncio.wait_for(in_thread(lambda: threading.current_thread().name), PATIENCE / 2)
        finally:
            own.go.set()
            await filled

    assert asyncio.run(call()).startswith("ctxwrap")


def interrupted(times: int, work: Callable[[], None]) -> None:
    """Do it with so many signals in its middle, each of which the main thread has taken before it goes on."""
    taken: list[int] = []
    all_sent = threading.Event()

    def handler(*_: object) -> None:
        taken.append(1)
        raise KeyboardInterrupt

    def is_in_handler() -> bool:
        frame = sys._current_frames()[threading.main_thread().ident or 0]
        return any(each.f_code is handler.__code__ for each, _ in traceback.walk_stack(frame))

    def whole() -> None:
        for sent in range(1, times + 1):
            os.kill(os.getpid(), signal.SIGUSR1)
            # a signal in the handler of another would be one interruption with it
            while len(taken) < sent or is_in_handler():
                # a signal that comes just before the main thread waits is handled when another one wakes it
                os.kill(os.getpid(), signal.SIGUSR2)
        all_sent.set()
        work()

    before = signal.signal(signal.SIGUSR1, handler), signal.signal(signal.SIGUSR2, lambda *_: None)
    try:
        run_uninterrupted(whole)
    finally:
        # a signal that comes after its handler is taken away ends the process
        assert all_sent.wait(PATIENCE)
        signal.signal(signal.SIGUSR1, before[0])
        signal.signal(signal.SIGUSR2, before[1])


def test_interrupted_work_finishes_before_the_interrupt_is_raised() -> None:
    done: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        interrupted(1, lambda: done.append("all of it"))
    assert done == ["all of it"]


def test_second_interrupt_is_raised_at_once_while_work_continues() -> None:
    go, done = threading.Event(), threading.Event()

    def work() -> None:
        assert go.wait(PATIENCE)
        done.set()

    with pytest.raises(KeyboardInterrupt):
        interrupted(2, work)
    assert not done.is_set()
    go.set()
    assert done.wait(PATIENCE)


def test_uninterrupted_work_keeps_its_exceptions_and_context() -> None:
    found: list[str | None] = []
    with ctxwrap.using(session="alice"):
        run_uninterrupted(lambda: found.append(current().session))
    assert found == ["alice"]

    def fail() -> None:
        raise LookupError("gone")

    with pytest.raises(LookupError, match="gone"):
        run_uninterrupted(fail)


def test_work_outside_the_main_thread_runs_in_place() -> None:
    found: list[threading.Thread] = []
    thread = threading.Thread(target=run_uninterrupted, args=(lambda: found.append(threading.current_thread()),))
    thread.start()
    thread.join(PATIENCE)
    assert found == [thread]
