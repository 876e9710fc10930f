"""Nothing of a call is kept when its caller has let go of it, however it ended."""

import asyncio
import gc
import threading
import weakref
from functools import partial
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest

import ctxwrap
from ctxwrap.clients.sdk_call import _call_of
from ctxwrap.testing.practice import Answer, Provider

ENDINGS = {
    "cut": Answer("One two three four five.", cut_after=2),
    "error": Answer("One two three four five.", error_after=2),
    "whole": Answer("One two three four five."),
}
SAID: Any = [{"role": "user", "content": "Hi."}]


def left(streams: "list[weakref.ref[Any]]") -> int:
    gc.collect()
    return sum(stream() is not None for stream in streams)


@pytest.mark.parametrize("mode", ["enabled", "disabled"])
@pytest.mark.parametrize("ending", ENDINGS)
def test_failed_tasks_keep_no_stream_alive(provider: Provider, home: Path, ending: str, mode: str) -> None:
    provider.answer = lambda _: ENDINGS[ending]
    streams: list[weakref.ref[Any]] = []

    async def turn(client: Any, session: str) -> None:
        stream = await client.chat.completions.create(model="m", messages=SAID, stream=True, session=session)
        streams.append(weakref.ref(stream))
        async for _ in stream:
            pass

    async def turns() -> None:
        bare = openai.AsyncOpenAI(api_key="k", base_url=provider.openai_url, max_retries=0)
        client = ctxwrap.wrap(bare, store=home, context_mode=mode)
        tasks = [asyncio.create_task(turn(client, f"s{number}")) for number in range(3)]
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        assert [isinstance(outcome, Exception) for outcome in outcomes] == [ending != "whole"] * 3

    asyncio.run(turns())
    assert len(streams) == 3
    assert left(streams) == 0


def test_threads_that_keep_their_error_keep_no_stream_alive(provider: Provider, home: Path) -> None:
    provider.answer = lambda _: ENDINGS["cut"]
    streams: list[weakref.ref[Any]] = []
    client: Any = ctxwrap.wrap(openai.OpenAI(api_key="k", base_url=provider.openai_url, max_retries=0), store=home)

    class Worker(threading.Thread):
        error: Exception | None = None

        def run(self) -> None:
            try:
                stream = client.chat.completions.create(model="m", messages=SAID, stream=True, session="s")
                streams.append(weakref.ref(stream))
                for _ in stream:
                    pass
            except Exception as error:
                self.error = error

    worker: Worker | None = Worker()
    assert worker is not None
    worker.start()
    worker.join()
    assert worker.error is not None
    assert len(streams) == 1
    worker = None
    assert left(streams) == 0


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("sdk", ["openai", "anthropic"])
def test_turns_are_freed_without_a_garbage_collection(provider: Provider, home: Path, sdk: str, stream: bool) -> None:
    if sdk == "openai":
        client: Any = ctxwrap.wrap(openai.OpenAI(api_key="k", base_url=provider.openai_url), store=home)
        create = partial(client.chat.completions.create, model="m")
    else:
        client = ctxwrap.wrap(anthropic.Anthropic(api_key="k", base_url=provider.url), store=home)
        create = partial(client.messages.create, model="m", max_tokens=100)

    def call() -> "list[weakref.ref[Any]]":
        reply = create(messages=SAID, stream=stream, session="s")
        for _ in reply if stream else ():
            pass
        managed = _call_of(reply).managed
        return [weakref.ref(managed), weakref.ref(managed.turn), weakref.ref(managed.turn.reader)]

    call()
    gc.collect()
    gc.disable()
    try:
        assert [kept() for kept in call()] == [None] * 3
    finally:
        gc.enable()
