"""Whom a call is for: what `using` names goes where contextvars go, and into threads only if it is carried there."""

import asyncio
import contextlib
import inspect
import queue
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from multiprocessing.pool import ThreadPool
from pathlib import Path
from typing import Any

import openai
import pytest

import ctxwrap
from ctxwrap.session.scope import current
from ctxwrap.testing.practice import Provider

PATIENCE = 10.0


def here() -> str | None:
    return current().session


class Queue:
    """One thread that does what it is given, for as long as it is wanted."""

    def __init__(self) -> None:
        self._asked: queue.Queue[Callable[[], Any] | None] = queue.Queue()
        self._told: queue.Queue[Any] = queue.Queue()
        threading.Thread(target=self._serve, daemon=True).start()

    def __call__(self, work: Callable[[], Any]) -> Any:
        self._asked.put(work)
        return self._told.get(timeout=PATIENCE)

    def _serve(self) -> None:
        while (work := self._asked.get()) is not None:
            self._told.put(work())

    def close(self) -> None:
        self._asked.put(None)


class Pool(ThreadPool):
    def __init__(self) -> None:
        super().__init__(1)

    def __call__(self, work: Callable[[], Any]) -> Any:
        return self.apply(work)


class Executor(ThreadPoolExecutor):
    def __init__(self) -> None:
        super().__init__(1)

    def __call__(self, work: Callable[[], Any]) -> Any:
        return self.submit(work).result(PATIENCE)

    def close(self) -> None:
        self.shutdown()


class Timer:
    """A thread for each of its works."""

    def __call__(self, work: Callable[[], Any]) -> Any:
        told: list[Any] = []
        timer = threading.Timer(0, lambda: told.append(work()))
        timer.start()
        timer.join(PATIENCE)
        return told[0]

    def close(self) -> None:
        pass


Workers = Callable[[], Any]


@pytest.mark.parametrize("workers", [Queue, Pool, Executor, Timer])
def test_threads_started_in_a_block_have_no_scope(workers: Workers) -> None:
    with ctxwrap.using(session="alice"):
        threads = workers()
        assert threads(here) is None
        assert threads(ctxwrap.carry(here)) == "alice"
        assert threads(partial(copy_context().run, here)) == "alice"
        of_alice = ctxwrap.carry(here)
    with ctxwrap.using(session="bob"):
        assert threads(here) is None
        assert threads(ctxwrap.carry(here)) == "bob"
    assert threads(of_alice) == "alice", "bound to where it was carried from"
    assert threads(here) is None
    threads.close()


def test_scopes_patch_nothing_in_the_interpreter() -> None:
    before = threading.Thread.start, threading.Thread.run, ThreadPoolExecutor.submit
    with ctxwrap.using(session="alice"):
        pass
    assert (threading.Thread.start, threading.Thread.run, ThreadPoolExecutor.submit) == before
    assert all(each.__module__.startswith(("threading", "concurrent")) for each in before)
    assert not any(hasattr(each, "__wrapped__") for each in before)


def test_call_in_a_thread_without_a_scope_passes_through_with_a_warning(provider: Provider, home: Path) -> None:
    client = ctxwrap.wrap(openai.OpenAI(api_key="k", base_url=provider.openai_url), store=home)

    def ask() -> str:
        said: Any = [{"role": "user", "content": "Hello."}]
        turn = ctxwrap.turn_of(client.chat.completions.create(model="m", messages=said))
        assert turn is not None
        return str(turn.session)

    with ThreadPoolExecutor(1) as pool:
        with ctxwrap.using(session="alice"):
            with pytest.warns(ctxwrap.NoSessionWarning):
                assert pool.submit(ask).result(PATIENCE) == ""
            assert pool.submit(ctxwrap.carry(ask)).result(PATIENCE) == "alice"
        with ctxwrap.using(session="bob"):
            assert pool.submit(ask).result(PATIENCE) == ""


def test_carried_function_passes_arguments_results_and_exceptions() -> None:
    def divided(value: int, *, by: int) -> float:
        return value / by

    carried = ctxwrap.carry(divided)
    assert carried(6, by=3) == 2
    assert carried.__name__ == "divided"
    with pytest.raises(ZeroDivisionError):
        carried(6, by=0)


def test_carried_function_runs_in_many_threads_and_recursively() -> None:
    gate = threading.Barrier(4)

    def work(again: bool) -> str | None:
        if again:
            return carried(False)
        gate.wait(PATIENCE)
        return here()

    with ctxwrap.using(session="alice"):
        carried = ctxwrap.carry(work)
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(carried, [True, False] * 2)) == ["alice"] * 4


def test_scope_entered_in_a_carried_function_does_not_leak() -> None:
    def work() -> str | None:
        block = ctxwrap.using(session="inner")
        block.__enter__()
        return here()

    with ctxwrap.using(session="alice"):
        carried = ctxwrap.carry(work)
    assert carried() == "inner"
    assert here() is None


async def steps() -> list[str | None]:
    """The session before and behind a wait, and of a task that is created there."""
    found = [here()]
    await asyncio.sleep(0)
    found.append(here())
    found.append(await asyncio.create_task(_later()))
    return found


async def _later() -> str | None:
    return here()


class Called:
    async def __call__(self) -> list[str | None]:
        return await steps()


@pytest.mark.parametrize("work", [steps, partial(steps), Called()], ids=["function", "partial", "object"])
def test_a_coroutine_function_is_carried_through_all_its_steps(work: Any) -> None:
    with ctxwrap.using(session="alice"):
        carried = ctxwrap.carry(work)
    assert inspect.iscoroutinefunction(carried)

    async def all_of_it() -> None:
        assert await carried() == ["alice"] * 3
        with ctxwrap.using(session="bob"):
            assert list(await asyncio.gather(carried(), steps())) == [["alice"] * 3, ["bob"] * 3]
            assert here() == "bob"

    asyncio.run(all_of_it())
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(lambda: asyncio.run(carried())).result(PATIENCE) == ["alice"] * 3


def test_carried_coroutine_keeps_cancellation_and_exceptions() -> None:
    found: list[str | None] = []

    async def waits() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            found.append(here())

    async def fails() -> None:
        await asyncio.sleep(0)
        raise LookupError("gone")

    async def all_of_it() -> None:
        with ctxwrap.using(session="alice"):
            waiting, failing = ctxwrap.carry(waits), ctxwrap.carry(fails)
        task = asyncio.create_task(waiting())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        with pytest.raises(LookupError, match="gone"):
            await failing()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await waiting()
        dropped = waiting()
        with contextlib.suppress(StopIteration):
            dropped.send(None)
        dropped.close()

    asyncio.run(all_of_it())
    assert found == ["alice"] * 3


def test_a_generator_is_not_carried() -> None:
    def some() -> Iterator[int]:
        yield 1

    async def others() -> AsyncIterator[int]:
        yield 1

    for work in (some, others):
        with pytest.raises(TypeError, match="generator"):
            ctxwrap.carry(work)


def test_task_that_outlives_the_block_keeps_its_scope() -> None:
    async def all_of_it() -> None:
        go = asyncio.Event()

        async def works() -> list[str | None]:
            found = [here()]
            await go.wait()
            return [*found, here(), await asyncio.to_thread(here)]

        with ctxwrap.using(session="alice"):
            task = asyncio.create_task(works())
            await asyncio.sleep(0)
        with ctxwrap.using(session="bob"):
            other = asyncio.create_task(works())
            go.set()
            assert await task == ["alice"] * 3
        assert await other == ["bob"] * 3
        assert here() is None

    asyncio.run(all_of_it())
