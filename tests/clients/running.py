"""One text for sync and async clients: a coroutine that waits only where an async client makes it."""

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager
from functools import wraps
from typing import Any, TypeVar

import pytest

T = TypeVar("T")
PATIENCE = 10.0
"""Seconds after which something that should come will not."""


def run_and_close(work: Coroutine[Any, Any, None], clients: Iterable[Any], *, is_async: bool) -> None:
    """Run a test, and close the clients that it made by its end."""

    async def both() -> None:
        try:
            await work
        finally:
            for client in clients:
                await got(client.aclose() if hasattr(client, "aclose") else client.close())

    if is_async:
        asyncio.run(asyncio.wait_for(both(), 2 * PATIENCE))
    else:
        at_once(both())


def at_its_desk(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """`test` runs at its `desk`, whose clients block or are awaited."""

    @wraps(test)
    def run(**fixtures: Any) -> None:
        fixtures["desk"].run(test(**fixtures))

    return run


def on(*kinds: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("desk", kinds, indirect=True)


def at_once(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine over a sync client: nothing in it waits, so it needs no event loop."""
    try:
        work.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    raise AssertionError("a sync client made its caller wait in an event loop")


async def got(value: Any) -> Any:
    """What a sync method returned, or what an async one returns when awaited."""
    return await value if inspect.isawaitable(value) else value


async def each(stream: Any) -> AsyncIterator[Any]:
    if hasattr(stream, "__aiter__"):
        async for piece in stream:
            yield piece
    else:
        for piece in stream:
            yield piece


@asynccontextmanager
async def opened(manager: Any) -> AsyncIterator[Any]:
    if hasattr(manager, "__aenter__"):
        async with manager as inside:
            yield inside
    else:
        with manager as inside:
            yield inside
