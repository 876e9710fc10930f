"""Growth of a long-running process: RSS, descriptors, threads and objects at the start, the middle and the end.

    python benchmarks/soak.py [--minutes 5] [--turns 20000] [--sessions 40] [--new 0.1] [--trace]

One process makes whole calls, streams, dropped streams, cancelled async streams and failing calls through OpenAI's and
Anthropic's SDKs; the provider is another process on the loopback interface. It ends after `--minutes` or `--turns`,
whichever comes first. The start is measured after a warm-up, when all code is loaded, every session is open and the
caches are in use.

`--new` is the share of turns that begin a new session; these stay in memory up to the client's limit. With `--new 0`
the number of sessions is fixed, and each reaches its full size after some hundred turns. `--trace` lists the lines that
hold more memory at the end than in the middle (tracemalloc), which makes the run slower and larger.
"""

import argparse
import asyncio
import gc
import multiprocessing
import os
import random
import sys
import tempfile
import threading
import time
import tracemalloc
from collections import Counter
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

import anthropic
import openai

import ctxwrap
from ctxwrap.testing import Answer
from ctxwrap.testing.practice import Answer as Reply
from ctxwrap.testing.practice import Ask, Failure, Provider
from ctxwrap.testing.scripted import add_snapshots

EXPECTED = (
    openai.APIError,
    anthropic.APIError,
    *(import_module(name).HTTPError for name in ("httpx", "httpx2") if find_spec(name)),  # the SDKs use different ones
)
WARM_UP = 0.15
"""Share of the run before the first measurement."""

SHOWN = 25


def told(chance: random.Random) -> Answer | Failure:
    """Mostly an answer with a good snapshot; sometimes one of the failures of providers and models."""
    text = "word " * chance.randint(1, 60)
    kinds: list[tuple[float, Callable[[], Answer | Failure]]] = [
        (0.05, lambda: Failure(500)),
        (0.10, lambda: Answer(text, cut_after=3)),
        (0.13, lambda: Answer(text, error_after=2)),
        (0.20, lambda: Answer(text, trailer="damaged")),
        (0.25, lambda: Answer(text, trailer="unusable")),
        (0.30, lambda: Answer(text, trailer="none")),
        (1.00, lambda: Answer(text, remembers=f"fact number {chance.randint(0, 50)}")),
    ]
    drawn = chance.random()
    return next(make for limit, make in kinds if drawn <= limit)()


def serve(pipe: Connection) -> None:
    chance, lock = random.Random(7), threading.Lock()

    def answer(ask: Ask) -> Reply | Failure:
        with lock:
            given = told(chance)
        return given if isinstance(given, Failure) else add_snapshots(ask, given)

    with Provider(answer, record=False) as provider:
        pipe.send(provider.url)
        pipe.recv()


class Count(NamedTuple):
    """Resources held by the process."""

    rss: int
    """In kilobytes."""
    descriptors: int
    threads: int
    objects: int

    @classmethod
    def now(cls) -> "Count":
        gc.collect()
        lines = Path("/proc/self/status").read_text().splitlines()
        rss = next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:"))
        return cls(rss, len(os.listdir("/proc/self/fd")), threading.active_count(), len(gc.get_objects()))


class Traffic:
    """Turns of all kinds in random order."""

    def __init__(self, url: str, home: str, sessions: int, new: float) -> None:
        self._chance = random.Random(11)
        self._url, self._sessions, self._new = url, sessions, new
        self.store = ctxwrap.open_store(home)
        bare = openai.OpenAI(api_key="x", base_url=f"{url}/v1", max_retries=0)
        self._openai = ctxwrap.wrap(bare, store=self.store)
        self._anthropic = ctxwrap.wrap(anthropic.Anthropic(api_key="x", base_url=url, max_retries=0), store=self.store)
        bare_async = openai.AsyncOpenAI(api_key="x", base_url=f"{url}/v1", max_retries=0)
        self._async = ctxwrap.wrap(bare_async, store=self.store)
        self._loop = asyncio.new_event_loop()
        self.done: Counter[str] = Counter()

    @property
    def turns(self) -> int:
        return sum(self.done.values()) - self.done["failed"]

    def some(self) -> None:
        """Make one turn in this thread, or a few at once in an event loop."""
        kinds = (self._whole, self._whole_anthropic, self._stream, self._drop, self._stream_anthropic)
        kind = self._chance.choices((*kinds, self._at_once), (8, 4, 4, 2, 2, 1))[0]
        try:
            kind(self._session())
        except EXPECTED:
            self.done["failed"] += 1

    def close(self) -> None:
        self._loop.run_until_complete(self._async.close())
        self._loop.close()
        self.store.close()

    def _session(self) -> str:
        is_new = self._chance.random() < self._new
        return f"new-{self.turns}" if is_new else f"chat-{self._chance.randrange(self._sessions)}"

    def _said(self) -> list[Any]:
        said = f"question {self._chance.randrange(10**6)}: " + "some words " * self._chance.randint(1, 30)
        return [{"role": "user", "content": said}]

    def _whole(self, session: str) -> None:
        self.done["whole"] += 1
        with ctxwrap.using(session=session):
            self._openai.chat.completions.create(model="gpt-5", messages=self._said())

    def _whole_anthropic(self, session: str) -> None:
        self.done["whole"] += 1
        with ctxwrap.using(session=session):
            self._anthropic.messages.create(model="claude-sonnet-4-6", max_tokens=100, messages=self._said())

    def _stream(self, session: str) -> None:
        self.done["streamed"] += 1
        with ctxwrap.using(session=session):
            for _ in self._openai.chat.completions.create(model="gpt-5", messages=self._said(), stream=True):
                pass

    def _stream_anthropic(self, session: str) -> None:
        self.done["streamed"] += 1
        with (
            ctxwrap.using(session=session),
            self._anthropic.messages.stream(model="claude-sonnet-4-6", max_tokens=100, messages=self._said()) as stream,
        ):
            for _ in stream.text_stream:
                pass

    def _drop(self, session: str) -> None:
        """Read two pieces and drop the stream without closing it."""
        self.done["dropped"] += 1
        with ctxwrap.using(session=session):
            stream = self._openai.chat.completions.create(model="gpt-5", messages=self._said(), stream=True)
        next(stream, None)
        next(stream, None)

    def _at_once(self, _: str) -> None:
        self._loop.run_until_complete(self._async_turns())

    async def _async_turns(self) -> None:
        turns = [asyncio.create_task(self._async_turn(self._session())) for _ in range(4)]
        await asyncio.sleep(0.01)
        turns[0].cancel()
        for outcome in await asyncio.gather(*turns, return_exceptions=True):
            if isinstance(outcome, EXPECTED):
                self.done["failed"] += 1
            elif isinstance(outcome, BaseException) and not isinstance(outcome, asyncio.CancelledError):
                raise outcome

    async def _async_turn(self, session: str) -> None:
        self.done["async"] += 1
        with ctxwrap.using(session=session):
            stream = await self._async.chat.completions.create(model="gpt-5", messages=self._said(), stream=True)
            async for _ in stream:
                pass


def soak(traffic: Traffic, seconds: float, turns: int, trace: bool) -> None:
    """Make turns until the time or the number of turns is reached, and print the measurements."""
    begun = time.monotonic()
    before: tracemalloc.Snapshot | None = None
    first: Count | None = None
    print(f"{'':8} {'turns':>7} {'seconds':>7} {'RSS MB':>7} {'files':>6} {'threads':>7} {'objects':>8}")
    for name, share in (("start", WARM_UP), ("middle", 0.5), ("end", 1.0)):
        while time.monotonic() - begun < share * seconds and traffic.turns < share * turns:
            traffic.some()
        count, spent = Count.now(), time.monotonic() - begun
        first = first or count
        print(
            f"{name:8} {traffic.turns:7} {spent:7.0f} {count.rss / 1024:7.1f} {count.descriptors:6} {count.threads:7} "
            f"{count.objects:8}",
            flush=True,
        )
        if trace and name == "middle":
            before = tracemalloc.take_snapshot()
        if name == "end":
            print(f"RSS grew by {count.rss / first.rss - 1:.1%} since the start; turns by kind: {dict(traffic.done)}")
    if before is not None:
        for difference in tracemalloc.take_snapshot().compare_to(before, "lineno")[:SHOWN]:
            print(difference)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--turns", type=int, default=20_000)
    parser.add_argument("--sessions", type=int, default=40)
    parser.add_argument("--new", type=float, default=0.1)
    parser.add_argument("--trace", action="store_true")
    options = parser.parse_args()
    if not sys.platform.startswith("linux"):
        raise SystemExit("this benchmark reads /proc and runs on Linux only")
    here, there = multiprocessing.get_context("spawn").Pipe()
    server = multiprocessing.get_context("spawn").Process(target=serve, args=(there,), daemon=True)
    server.start()
    url = here.recv()
    if options.trace:
        tracemalloc.start(6)
    with tempfile.TemporaryDirectory() as home:
        traffic = Traffic(url, home, options.sessions, options.new)
        soak(traffic, options.minutes * 60, options.turns, options.trace)
        traffic.close()
    here.send("done")
    server.join(timeout=5)


if __name__ == "__main__":
    main()
