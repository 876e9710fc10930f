"""Blocking work from async code."""

from collections.abc import Callable
from typing import ParamSpec, TypeVar

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
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return work(*args, **kwargs)
    future = loop.run_in_executor(None, partial(work, *args, **kwargs))
    cancelled: BaseException | None = None
    while not future.done():
        try:
            await asyncio.wait({future})
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        future.exception()
        raise cancelled
    return future.result()
