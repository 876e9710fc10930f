"""Blocking work from async code, and work that comes at any moment, even in the middle of other work."""

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


async def in_thread(work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Run `work` in a thread and wait for it to its end, however often the caller is cancelled meanwhile.

    A cancelled write that nobody waits for is how answers get lost when a client disconnects. The cancellation
    is raised when the work is done. Without an asyncio loop the work simply blocks.
    """
    import asyncio
    from functools import partial

    try:
        future = asyncio.get_running_loop().run_in_executor(None, partial(work, *args, **kwargs))
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
def undisturbed() -> Iterator[None]:
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


def when_undisturbed(work: Callable[[], None]) -> None:
    """Do `work` now, or as soon as this thread leaves the block it is in."""
    if _thread.depth:
        _thread.waiting.append(work)
    else:
        work()
