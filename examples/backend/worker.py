"""The resources of one worker process: the store, one client for all users, the running answers."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field

from openai import AsyncOpenAI

import ctxwrap
from ctxwrap.stores.base import Store
from ctxwrap.testing.practice import Provider

from .passwords import Checks
from .readiness import Readiness
from .settings import Settings
from .signing import Signing

_THREADS = 32
_LAST_WORDS = 20.0
"""Seconds allowed for saving answers that uvicorn cancelled."""

_MODEL_SILENT = 60.0
"""Timeout of a model request in seconds; until then the user's next message waits."""


class UnderWay:
    """Counts running answers."""

    def __init__(self) -> None:
        self._count = 0
        self._none = asyncio.Event()
        self._none.set()

    @contextmanager
    def one(self) -> Iterator[None]:
        self._count += 1
        self._none.clear()
        try:
            yield
        finally:
            self._count -= 1
            if not self._count:
                self._none.set()

    async def ended(self) -> None:
        await asyncio.wait_for(self._none.wait(), _LAST_WORDS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    settings: Settings
    signing: Signing
    store: Store
    client: AsyncOpenAI
    memories: ctxwrap.Memories
    readiness: Readiness
    checks: Checks = field(default_factory=Checks)
    under_way: UnderWay = field(default_factory=UnderWay)

    def session(self, name: str) -> ctxwrap.SessionHandle:
        return ctxwrap.open_session(name, store=self.store)


@asynccontextmanager
async def running(settings: Settings) -> AsyncIterator[Worker]:
    # writes block a thread each, for long if the store is unavailable; the default is five on a small machine
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(_THREADS, "backend"))
    with ExitStack() as stack:
        store = ctxwrap.open_store(settings.store)
        # an exiting process does this itself, but uvicorn ends its workers by a signal
        stack.callback(store.close)
        worker = Worker(
            settings=settings,
            signing=Signing(settings),
            store=store,
            client=_client(settings, store, stack),
            memories=ctxwrap.Memories(store),
            readiness=Readiness(store),
        )
        worker.readiness.leave_slowly(settings.drain_seconds)
        stack.callback(worker.checks.close)
        try:
            yield worker
        finally:
            await _ended(worker)


async def _ended(worker: Worker) -> None:
    try:
        await worker.under_way.ended()
    finally:
        await worker.client.close()
        await asyncio.to_thread(ctxwrap.flush)


def _client(settings: Settings, store: Store, stack: ExitStack) -> AsyncOpenAI:
    key, url = settings.api_key.get_secret_value(), settings.base_url
    if settings.is_practice:
        key, url = "practice", stack.enter_context(Provider(record=False)).openai_url
    return ctxwrap.wrap(
        AsyncOpenAI(api_key=key, base_url=url, timeout=_MODEL_SILENT),
        store=store,
        budget=settings.budget,
        on_busy="wait",
        busy_timeout=settings.busy_seconds,
        # a message that is not in the log gets no answer: `accepted` promises that it is stored
        strict=True,
    )
