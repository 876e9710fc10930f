"""Two turns of one session at once: the second waits, is refused, or goes on beside the first, as settings say."""

import asyncio
import gc
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest

import ctxwrap
from ctxwrap.clients.litellm import load_litellm
from ctxwrap.testing.practice import Answer, Ask, Provider
from tests.clients.running import PATIENCE
from tests.support import Told, events, said


def ask(client: Any, text: str, **options: Any) -> Any:
    return client.chat.completions.create(model="m", messages=[{"role": "user", "content": text}], **options)


class Gate:
    """Answers the first request when it is told to, and every other at once."""

    def __init__(self) -> None:
        self.came, self.open = threading.Event(), threading.Event()

    def __call__(self, request: Ask) -> Answer:
        if "first" in request.last_user:
            self.came.set()
            assert self.open.wait(6 * PATIENCE)
        return Told()(request)


@pytest.fixture
def gate(provider: Provider) -> Gate:
    provider.answer = gate = Gate()
    return gate


@pytest.fixture
def wrapped(provider: Provider, home: Path) -> Callable[..., Any]:
    def wrapped(kind: Any = openai.OpenAI, **settings: Any) -> Any:
        bare = kind(api_key="k", base_url=provider.openai_url, max_retries=0)
        return ctxwrap.wrap(bare, store=home, session="s", **settings)

    return wrapped


def in_background(work: Callable[[], Any]) -> threading.Thread:
    thread = threading.Thread(target=work)
    thread.start()
    return thread


def test_second_turn_waits_for_the_first(wrapped: Callable[..., Any], gate: Gate, home: Path) -> None:
    client = wrapped()
    first = in_background(lambda: ask(client, "the first one"))
    assert gate.came.wait(PATIENCE)
    second = in_background(lambda: ask(client, "the second one"))
    second.join(0.1)
    assert second.is_alive()
    assert said(home, "s") == [("user", "the first one")]
    gate.open.set()
    first.join(PATIENCE)
    second.join(PATIENCE)
    assert [text for role, text in said(home, "s") if role == "user"] == ["the first one", "the second one"]
    assert [role for role, _ in said(home, "s")] == ["user", "assistant", "user", "assistant"]


def test_waiting_turns_run_in_order_of_arrival(wrapped: Callable[..., Any], gate: Gate, home: Path) -> None:
    client = wrapped()
    waiting = [in_background(lambda: ask(client, "the first one"))]
    assert gate.came.wait(PATIENCE)
    context = client._ctxwrap
    (session,) = context._sessions.values()
    for number in range(5):
        waiting.append(in_background(lambda number=number: ask(client, f"number {number}")))
        while len(session.line.waiting) <= number:
            pass
    gate.open.set()
    for thread in waiting:
        thread.join(PATIENCE)
    questions = [text for role, text in said(home, "s") if role == "user"]
    assert questions == ["the first one", *(f"number {number}" for number in range(5))]
    assert not session.line.waiting


def test_turn_that_waits_beyond_busy_timeout_is_refused(wrapped: Callable[..., Any], gate: Gate, home: Path) -> None:
    client, impatient = wrapped(), wrapped(busy_timeout=0.05)
    first = in_background(lambda: ask(client, "the first one"))
    assert gate.came.wait(PATIENCE)
    with pytest.raises(ctxwrap.SessionBusy, match="session 's' has another turn in progress"):
        ask(impatient, "the second one")
    gate.open.set()
    first.join(PATIENCE)
    ask(impatient, "the third one")
    assert [text for role, text in said(home, "s") if role == "user"] == ["the first one", "the third one"]


def test_on_busy_reject_refuses_a_concurrent_turn_at_once(
    wrapped: Callable[..., Any], gate: Gate, provider: Provider
) -> None:
    client = wrapped(on_busy="reject")
    first = in_background(lambda: ask(client, "the first one"))
    assert gate.came.wait(PATIENCE)
    with pytest.raises(ctxwrap.SessionBusy):
        ask(client, "the second one")
    assert len(provider.seen) == 1
    gate.open.set()
    first.join(PATIENCE)
    ask(client, "the third one")


@pytest.mark.parametrize(
    "settings", [{"on_busy": "interleave"}, {"context_mode": "disabled"}, {"context_mode": "shadow"}]
)
def test_interleaved_disabled_and_shadow_turns_do_not_wait(
    wrapped: Callable[..., Any], gate: Gate, home: Path, settings: dict[str, Any]
) -> None:
    first = in_background(lambda: ask(wrapped(), "the first one"))
    assert gate.came.wait(PATIENCE)
    ask(wrapped(**settings), "the second one")
    assert len(said(home, "s")) == 3
    gate.open.set()
    first.join(PATIENCE)
    assert len(said(home, "s")) == 4


def test_async_turns_wait_without_blocking_the_loop(
    wrapped: Callable[..., Any], provider: Provider, home: Path
) -> None:
    async def many() -> int:
        client = wrapped(openai.AsyncOpenAI)
        beats = 0

        async def beat() -> None:
            nonlocal beats
            while True:
                beats += 1
                await asyncio.sleep(0)

        heart = asyncio.create_task(beat())
        await asyncio.gather(*(ask(client, f"number {number}") for number in range(20)))
        heart.cancel()
        await client.close()
        return beats

    provider.answer = Told()
    assert asyncio.run(asyncio.wait_for(many(), 3 * PATIENCE)) > 20
    assert [role for role, _ in said(home, "s")] == ["user", "assistant"] * 20


def test_cancelled_waiting_turn_leaves_the_queue(wrapped: Callable[..., Any], gate: Gate, home: Path) -> None:
    async def turns() -> None:
        client = wrapped(openai.AsyncOpenAI)
        first = asyncio.create_task(ask(client, "the first one"))
        await asyncio.to_thread(gate.came.wait, PATIENCE)
        second = asyncio.create_task(ask(client, "the second one"))
        (session,) = client._ctxwrap._sessions.values()
        while not session.line.waiting:
            await asyncio.sleep(0)
        second.cancel()
        with pytest.raises(asyncio.CancelledError):
            await second
        assert not session.line.waiting
        gate.open.set()
        await first
        await ask(client, "the third one")
        await client.close()

    asyncio.run(asyncio.wait_for(turns(), 2 * PATIENCE))
    assert [text for role, text in said(home, "s") if role == "user"] == ["the first one", "the third one"]


@pytest.mark.parametrize("ends", ["closed", "dropped", "read"])
def test_open_stream_holds_the_session_until_it_ends(wrapped: Callable[..., Any], home: Path, ends: str) -> None:
    client, other = wrapped(), wrapped(on_busy="reject")
    stream = ask(client, "the first one", stream=True)
    refused = []

    def second() -> None:
        try:
            ask(other, "the second one")
        except ctxwrap.SessionBusy as error:
            refused.append(error)

    with ThreadPoolExecutor(1) as pool:
        pool.submit(second).result(PATIENCE)
        assert len(refused) == 1
        if ends == "closed":
            stream.close()
        elif ends == "read":
            list(stream)
        del stream
        gc.collect()
        pool.submit(second).result(PATIENCE)
    assert len(refused) == 1
    assert [text for role, text in said(home, "s") if role == "user"] == ["the first one", "the second one"]


# --- one caller, several clients ------------------------------------------------------------------------


def _anthropic(provider: Provider, is_async: bool) -> Any:
    cls: Any = anthropic.AsyncAnthropic if is_async else anthropic.Anthropic
    return cls(api_key="k", base_url=provider.anthropic_url, max_retries=0)


def _openai(provider: Provider, is_async: bool) -> Any:
    cls: Any = openai.AsyncOpenAI if is_async else openai.OpenAI
    return cls(api_key="k", base_url=provider.openai_url, max_retries=0)


def ask_anthropic(client: Any, text: str, **options: Any) -> Any:
    said = [{"role": "user", "content": text}]
    return client.messages.create(model="m", max_tokens=100, messages=said, **options)


def ask_responses(client: Any, text: str, **options: Any) -> Any:
    return client.responses.create(model="m", input=text, **options)


def ask_litellm(client: Any, text: str, **options: Any) -> Any:
    return client(model="openai/m", messages=[{"role": "user", "content": text}], **options)


def _litellm(provider: Provider, is_async: bool) -> Any:
    litellm = load_litellm()
    return partial(
        litellm.acompletion if is_async else litellm.completion,
        api_base=provider.openai_url,
        api_key="k",
        num_retries=0,
    )


def _wrapped(make: Callable[..., Any], provider: Provider, home: Path, is_async: bool = False, **settings: Any) -> Any:
    client = make(provider, is_async)
    if make is not _litellm:
        return ctxwrap.wrap(client, store=home, session="s", **settings)
    return partial(ctxwrap.wrap(client.func, store=home, session="s", **settings), **client.keywords)


KINDS = pytest.mark.parametrize(
    ("make", "ask_it"),
    [(_openai, ask), (_openai, ask_responses), (_anthropic, ask_anthropic), (_litellm, ask_litellm)],
    ids=["chat", "responses", "messages", "litellm"],
)


@pytest.fixture
def no_garbage_is_collected() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def reasons(home: Path) -> list[str]:
    return [event["status"] for event in events(home, "s") if event["type"] == "done"]


@pytest.mark.usefixtures("no_garbage_is_collected")
@pytest.mark.parametrize("pieces", [0, 1])
@KINDS
def test_dropped_stream_releases_the_session(
    provider: Provider, home: Path, make: Callable[..., Any], ask_it: Callable[..., Any], pieces: int
) -> None:
    patience = "wait" if make is _litellm else "reject"  # whose own threads have a stream for a moment more
    client, other = _wrapped(make, provider, home), _wrapped(make, provider, home, on_busy=patience)

    def leave_off() -> None:
        stream = ask_it(client, "the first one", stream=True)
        for _, _ in zip(range(pieces), stream, strict=False):
            break

    leave_off()
    with ThreadPoolExecutor(1) as pool:
        pool.submit(ask_it, other, "the second one").result(3 * PATIENCE)
    assert reasons(home) == ["cancelled", "ok"]


@pytest.mark.usefixtures("no_garbage_is_collected")
@pytest.mark.parametrize("pieces", [0, 1])
@KINDS
def test_dropped_async_stream_releases_the_session(
    provider: Provider, home: Path, make: Callable[..., Any], ask_it: Callable[..., Any], pieces: int
) -> None:
    async def turns() -> None:
        client = _wrapped(make, provider, home, True)

        async def leave_off() -> None:
            stream = await ask_it(client, "the first one", stream=True)
            if pieces:
                async for _ in stream:
                    break

        await leave_off()
        await asyncio.create_task(ask_it(client, "the second one"))
        assert reasons(home) == ["cancelled", "ok"]

    asyncio.run(asyncio.wait_for(turns(), 3 * PATIENCE))


@pytest.mark.parametrize("mode", ["wait", "reject"])
@KINDS
def test_caller_with_an_open_stream_can_call_through_any_client(
    wrapped: Callable[..., Any], provider: Provider, home: Path, make: Any, ask_it: Callable[..., Any], mode: str
) -> None:
    stream = ask(wrapped(), "the first one", stream=True)
    next(iter(stream))
    ask_it(_wrapped(make, provider, home, on_busy=mode), "the second one")
    assert reasons(home) == ["ok"]
    list(stream)
    assert reasons(home) == ["ok", "ok"]


def test_task_with_an_open_stream_can_call_through_another_client(wrapped: Callable[..., Any], home: Path) -> None:
    async def turns() -> None:
        stream = await ask(wrapped(openai.AsyncOpenAI), "the first one", stream=True)
        await ask(wrapped(openai.AsyncOpenAI, on_busy="reject"), "the second one")
        with pytest.raises(ctxwrap.SessionBusy):
            await asyncio.create_task(ask(wrapped(openai.AsyncOpenAI, on_busy="reject"), "of another task"))
        assert [chunk async for chunk in stream]
        assert reasons(home) == ["ok", "ok"]

    asyncio.run(asyncio.wait_for(turns(), 3 * PATIENCE))


def test_sync_call_does_not_wait_for_a_turn_that_needs_its_thread(wrapped: Callable[..., Any], home: Path) -> None:
    stream = ask(wrapped(), "of the thread that runs the loop", stream=True)

    async def turns() -> None:
        await ask(wrapped(openai.AsyncOpenAI, on_busy="reject"), "while that thread is in the loop")
        list(stream)
        theirs = await ask(wrapped(openai.AsyncOpenAI), "of a task", stream=True)

        async def blocking() -> None:
            ask(wrapped(on_busy="reject"), "while the loop stands still")

        await asyncio.create_task(blocking())
        assert [chunk async for chunk in theirs]

    asyncio.run(asyncio.wait_for(turns(), 3 * PATIENCE))
    assert reasons(home) == ["ok"] * 4


def test_symlinked_store_directory_is_the_same_store(
    wrapped: Callable[..., Any], provider: Provider, home: Path
) -> None:
    stream = ask(wrapped(), "the first one", stream=True)
    (home.parent / "linked").symlink_to(home)
    linked = ctxwrap.wrap(_openai(provider, False), store=home.parent / "linked", session="s", on_busy="reject")
    ask(linked, "the second one")
    list(stream)


def test_turn_in_another_process_waits_for_the_first(
    wrapped: Callable[..., Any], gate: Gate, provider: Provider, home: Path
) -> None:
    code = (
        "import sys, openai, ctxwrap; home, url = sys.argv[1:];"
        "client = ctxwrap.wrap(openai.OpenAI(api_key='k', base_url=url), store=home, session='s', on_busy='reject');"
        "client.chat.completions.create(model='m', messages=[{'role': 'user', 'content': 'from outside'}])"
    )
    command = [sys.executable, "-c", code, str(home), provider.openai_url]
    client = wrapped()
    first = in_background(lambda: ask(client, "the first one"))
    assert gate.came.wait(PATIENCE)
    refused = subprocess.run(command, capture_output=True, text=True, timeout=6 * PATIENCE)
    assert "SessionBusy" in refused.stderr
    gate.open.set()
    first.join(PATIENCE)
    assert subprocess.run(command, capture_output=True, timeout=6 * PATIENCE).returncode == 0
    assert [event["status"] for event in events(home, "s") if event["type"] == "done"] == ["ok", "ok"]
