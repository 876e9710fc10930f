"""Blocking work from async code: it is waited for to its end, and waiting costs nothing."""

import asyncio
import threading
from collections.abc import Awaitable, Callable

import anyio
import pytest

from ctxwrap.threads import in_thread

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
def test_work_whose_caller_is_cancelled_is_waited_for_and_the_loop_rests_meanwhile(
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


def test_what_work_gives_or_raises_is_the_callers() -> None:
    def fail() -> None:
        raise LookupError("gone")

    assert asyncio.run(in_thread(int, "7")) == 7
    with pytest.raises(LookupError, match="gone"):
        asyncio.run(in_thread(fail))
