"""Calls that do not come to their end, and calls at the same time: the log holds what the caller got."""

import asyncio
import gc
import json
import logging
import re
import signal
import socket
import subprocess
import sys
import threading
import warnings
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from types import ModuleType
from typing import Any

import anthropic
import anyio
import httpx
import openai
import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.responses import StreamingResponse
from starlette.routing import Route

import ctxwrap
from ctxwrap.clients.litellm import load_litellm
from ctxwrap.inspect import memory_of
from ctxwrap.protocol.instructions import asks_for_trailer, strip_injected
from ctxwrap.stores.base import Log
from ctxwrap.testing.practice import Answer, Ask, Failure, Provider
from ctxwrap.types import Record, SessionKey
from tests.clients.running import PATIENCE, at_its_desk, at_once, got, on, opened, run_and_close
from tests.support import PassingLog, Told, assert_clean, events, item, lines, messages, said, trailer

"""Seconds until something that must happen counts as never happening."""

OPENING, OPENED = "My name is Ada.", "Nice to meet you, Ada."
SAID, TEXT = "Count to six.", "One two three four five six."
NEXT, FINE = "And then?", "Then comes seven."
PARTLY = "One two"
PIECES = 2
"""How many pieces of the answer the caller hears before the interruption."""

FIRST_TURN = [("user", OPENING), ("assistant", OPENED)]
KEY = SessionKey("default", "default", "s")


# --- what a client is asked, and by whom ----------------------------------------------------------------


def _make_openai(provider: Provider, is_async: bool) -> Any:
    http: Any = (openai.DefaultAsyncHttpxClient if is_async else openai.DefaultHttpxClient)(verify=False)
    cls: Any = openai.AsyncOpenAI if is_async else openai.OpenAI
    return cls(api_key="k", base_url=provider.openai_url, max_retries=0, http_client=http)


def _make_anthropic(provider: Provider, is_async: bool) -> Any:
    http: Any = (anthropic.DefaultAsyncHttpxClient if is_async else anthropic.DefaultHttpxClient)(verify=False)
    cls: Any = anthropic.AsyncAnthropic if is_async else anthropic.Anthropic
    return cls(api_key="k", base_url=provider.anthropic_url, max_retries=0, http_client=http)


def _ask_chat(side: "Side", given: Sequence[Mapping[str, str]], **options: Any) -> Any:
    return side.client.chat.completions.create(model="m", messages=given, **options)


def _ask_responses(side: "Side", given: Sequence[Mapping[str, str]], **options: Any) -> Any:
    return side.client.responses.create(model="m", input=given, **options)


def _ask_messages(side: "Side", given: Sequence[Mapping[str, str]], **options: Any) -> Any:
    return side.client.messages.create(model="m", max_tokens=100, messages=given, **options)


def _ask_litellm(side: "Side", given: Sequence[Mapping[str, str]], **options: Any) -> Any:
    call = side.client.acompletion if side.api.is_async else side.client.completion
    where = {"api_base": side.provider.openai_url, "api_key": "k", "max_retries": 0}
    return call(model="openai/m", messages=[dict(message) for message in given], **where, **options)


def _chat_piece(event: Any) -> str:
    return (event.choices[0].delta.content or "") if event.choices else ""


def _chat_ends(event: Any) -> bool:
    return bool(event.choices and event.choices[0].finish_reason)


def _response_piece(event: Any) -> str:
    return str(event.delta) if event.type == "response.output_text.delta" else ""


def _message_piece(event: Any) -> str:
    return str(event.delta.text) if event.type == "content_block_delta" else ""


def _chat_text(reply: Any) -> str:
    return str(reply.choices[0].message.content)


@dataclass(frozen=True)
class Api:
    """One client: how to ask it, and where its replies keep their text."""

    is_async: bool
    make: Callable[[Provider, bool], Any]
    ask: Callable[..., Any]
    piece: Callable[[Any], str]
    ends: Callable[[Any], bool]
    text: Callable[[Any], str]


def _apis(name: str, *how: Any) -> dict[str, Api]:
    return {name: Api(False, *how), f"{name}-async": Api(True, *how)}


APIS = {
    **_apis("openai", _make_openai, _ask_chat, _chat_piece, _chat_ends, _chat_text),
    **_apis(
        "responses",
        *(_make_openai, _ask_responses, _response_piece),
        *(lambda event: event.type == "response.completed", lambda reply: reply.output_text),
    ),
    **_apis(
        "anthropic",
        *(_make_anthropic, _ask_messages, _message_piece),
        *(lambda event: event.type == "message_delta", lambda reply: reply.content[0].text),
    ),
    **_apis("litellm", lambda *_: load_litellm(), _ask_litellm, _chat_piece, _chat_ends, _chat_text),
}
SYNC = ("openai", "anthropic")
ASYNC = ("openai-async", "anthropic-async")
SDKS = (*SYNC, *ASYNC)
CLOSEABLE = (*SDKS, "responses", "litellm-async")
"""litellm's sync stream has no way to close it: it can only be dropped."""
EVERY = (*CLOSEABLE, "litellm")


class Gate:
    """Holds whoever comes to it at `at` until it is opened, and tells when somebody came."""

    def __init__(self, at: int | None = None) -> None:
        self._at = at
        self._came, self._open = threading.Event(), threading.Event()

    def __call__(self, at: int | None = None) -> None:
        if at == self._at:
            self._came.set()
            self._open.wait(PATIENCE)

    def open(self) -> None:
        self._open.set()

    async def came(self) -> None:
        assert await asyncio.to_thread(self._came.wait, PATIENCE), "nobody came to the gate"

    def __enter__(self) -> "Gate":
        return self

    def __exit__(self, *_: object) -> None:
        self.open()


class Heard:
    """The text that reached the caller."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._enough = threading.Event()

    def take(self, piece: str) -> None:
        if piece:
            self._pieces.append(piece)
        if len(self._pieces) == PIECES:
            self._enough.set()

    @property
    def is_enough(self) -> bool:
        return len(self._pieces) >= PIECES

    @property
    def text(self) -> str:
        return "".join(self._pieces)

    def wait(self) -> None:
        assert self._enough.wait(PATIENCE), "the stream did not come so far"

    async def enough(self) -> None:
        await asyncio.to_thread(self.wait)


class Side:
    """A client and its provider. A scenario cannot tell whether the client is bare or wrapped."""

    def __init__(self, api: Api, provider: Provider, client: Any) -> None:
        self.api, self.provider, self.client = api, provider, client
        self.asked: list[Ask] = []
        self.answers()

    def answers(self, text: str = TEXT, *, learns: str = "w-2", **travel: Any) -> None:
        """From now on the model says `text`, and where it is asked for a trailer, that it learned `learns`."""

        def answer(ask: Ask) -> Answer:
            self.asked.append(ask)
            tail = trailer(ask, [item(learns)]) if asks_for_trailer(ask.system) else ""
            return Answer(text + tail, **travel)

        self.provider.answer = answer

    def fails(self, failure: Failure) -> None:
        self.provider.answer = lambda _: failure

    async def first_turn(self) -> None:
        """A turn that comes to its end, so that there is something to keep."""
        self.answers(OPENED, learns="w-1")
        await self.ask(OPENING)
        self.answers()

    async def ask(self, said: str = SAID, **options: Any) -> Any:
        return await self.send([{"role": "user", "content": said}], **options)

    async def send(self, given: Sequence[Mapping[str, str]], **options: Any) -> Any:
        return await got(self.api.ask(self, given, **options))

    async def stream(self, **options: Any) -> Any:
        return await self.ask(stream=True, **options)

    async def read(self, stream: Any, heard: Heard, until: Callable[[Any], bool] = lambda event: False) -> None:
        """Read on to the end, or up to an event that `until` likes."""
        if self.api.is_async:
            async for event in stream:
                heard.take(self.api.piece(event))
                if until(event):
                    break
        else:
            for event in stream:
                heard.take(self.api.piece(event))
                if until(event):
                    break

    async def read_partly(self, stream: Any, heard: Heard) -> None:
        await self.read(stream, heard, lambda _: heard.is_enough)

    async def close(self, stream: Any) -> None:
        """Close it, if it can be: litellm's sync stream can only be dropped."""
        if self.api.is_async and not hasattr(stream, "close"):
            await stream.aclose()
        elif hasattr(stream, "close"):
            await got(stream.close())


class Desk:
    """A wrapped client, and a bare one to compare it with, each with a provider of its own."""

    def __init__(self, api: Api, home: Path, stack: ExitStack) -> None:
        self.api, self.home = api, home
        self._made: list[Any] = []
        self._stack = stack
        self.provider = stack.enter_context(Provider())
        self.wrapped = self.side()

    @cached_property
    def bare(self) -> Side:
        provider = self._stack.enter_context(Provider())
        return Side(self.api, provider, self._client(provider))

    def side(self, **wrapping: Any) -> Side:
        """A wrapped client; this one differs from others as `wrapping` says."""
        client = ctxwrap.wrap(self._client(self.provider), **{"session": "s", "store": self.home, **wrapping})
        return Side(self.api, self.provider, client)

    def _client(self, provider: Provider) -> Any:
        client = self.api.make(provider, self.api.is_async)
        if not isinstance(client, ModuleType):
            self._made.append(client)
        return client

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        run_and_close(work, self._made, is_async=self.api.is_async)

    async def first_turn(self) -> dict[str, Any]:
        """The same, and the memory behind it."""
        await self.wrapped.first_turn()
        return self.memory()

    def memory(self) -> dict[str, Any]:
        """What is remembered, but for how far it has faded by now."""
        state = memory_of(ctxwrap.open_store(self.home), KEY)
        tiers = {tier: [{**entry, "decay": 0} for entry in entries] for tier, entries in state["memory"].items()}
        return {**state, "memory": tiers}

    def remembered(self) -> list[str]:
        return [entry["id"] for tier in self.memory()["memory"].values() for entry in tier]

    def said(self) -> list[tuple[str, Any]]:
        return said(self.home, "s")

    def messages(self) -> list[dict[str, Any]]:
        return messages(self.home, "s")

    def events(self, kind: str) -> list[dict[str, Any]]:
        return [event for event in events(self.home, "s") if event["type"] == kind]

    def assert_ended(self, heard: str, *, reason: str, status: str) -> None:
        """The newest turn is in the log as far as it came, and ended once."""
        partly = [("assistant", heard)] if heard else []
        assert self.said() == [*FIRST_TURN, ("user", SAID), *partly]
        if heard:
            control = self.messages()[-1]["ctx"]
            assert control["status"] == "aborted"
            assert re.fullmatch(reason, control["reason"])
        starts, ends = self.events("start"), self.events("done")
        assert [event["run"] for event in ends] == [event["run"] for event in starts]
        assert events(self.home, "s")[-1] == ends[-1]
        assert ends[-1]["status"] == status
        assert re.fullmatch(reason, ends[-1]["reason"])

    def assert_complete(self, text: str = TEXT) -> None:
        """The newest turn came to its end, and ended once."""
        assert self.said() == [*FIRST_TURN, ("user", SAID), ("assistant", text)]
        assert self.messages()[-1]["ctx"]["status"] == "complete"
        assert [event["status"] for event in self.events("done")] == ["ok", "ok"]
        assert sorted(self.remembered()) == ["w-1", "w-2"]

    async def assert_goes_on(self, heard: str) -> None:
        """The next call works, and is shown what there was of the answer before it."""
        before = self.said()
        self.wrapped.answers(FINE)
        assert self.api.text(await self.wrapped.ask(NEXT)) == FINE
        assert self.said() == [*before, ("user", NEXT), ("assistant", FINE)]
        if heard:
            assert ("assistant", heard) in self.wrapped.asked[-1].messages
        assert [entry["ctx"]["round"] for entry in self.messages()[-2:]] == [3, 3]


@pytest.fixture(scope="module", autouse=True)
def _small_heap() -> Iterator[None]:
    """Keep the collector away from the modules: it is called often here, and litellm is large."""
    load_litellm()
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture
def desk(request: pytest.FixtureRequest, home: Path) -> Iterator[Desk]:
    with ExitStack() as stack:
        yield Desk(APIS[request.param], home, stack)


# --- what comes out of a scenario -----------------------------------------------------------------------

Scenario = Callable[[Side, Heard], Coroutine[Any, Any, None]]


class Mine(Exception):
    """What a consumer's own code raises."""


@dataclass(frozen=True)
class Outcome:
    heard: str
    error: Any = None


async def outcome(side: Side, scenario: Scenario) -> Outcome:
    heard = Heard()
    try:
        await scenario(side, heard)
    except BaseException as error:
        return Outcome(heard.text, described(error, side.provider.url))
    return Outcome(heard.text)


_FACTS = ("status_code", "code", "param", "type", "request_id", "message", "body", "llm_provider", "model", "args")


def described(error: BaseException, url: str) -> dict[str, Any]:
    """All of an error that a caller may look at."""
    facts: dict[str, Any] = {name: repr(getattr(error, name)) for name in _FACTS if hasattr(error, name)}
    facts |= {"class": type(error), "text": str(error), "cause": type(error.__cause__)}
    request, response = getattr(error, "_request", None) or _of(error, "request"), _of(error, "response")
    if request is not None:
        facts["request"] = (request.method, request.url.path)
    if response is not None:
        facts["response"] = (response.status_code, response.headers.get("x-request-id"))
    return {name: _untimed(fact.replace(url, "URL")) if isinstance(fact, str) else fact for name, fact in facts.items()}


def _untimed(text: str) -> str:
    return re.sub(r"time taken=[\d.]+", "time taken", text)


def _of(error: BaseException, name: str) -> Any:
    try:
        return getattr(error, name, None)
    except RuntimeError:  # httpx, when an error has none
        return None


async def settled(desk: Desk) -> None:
    """Let the collector find what was dropped, and whoever still is at work on it come to its end."""
    never = threading.Event()
    for _ in range(200):
        gc.collect()
        with suppress(json.JSONDecodeError):  # a line is being written
            if len(desk.events("done")) == len(desk.events("start")):
                return
        await asyncio.to_thread(never.wait, 0.01) if desk.api.is_async else never.wait(0.01)


@dataclass(frozen=True)
class Interruption:
    run: Scenario
    kinds: tuple[str, ...]
    heard: str
    reason: str
    status: str
    dropped: bool


INTERRUPTIONS: list[Interruption] = []


def interruption(
    *kinds: str, heard: str = PARTLY, reason: str, status: str = "cancelled", dropped: bool = False
) -> Callable[[Scenario], Scenario]:
    """A scenario for these clients, what the caller has heard behind it, and what the log says about it.

    A stream that is `dropped` is only over when the collector has found it.
    """

    def add(scenario: Scenario) -> Scenario:
        INTERRUPTIONS.append(Interruption(scenario, kinds, heard, reason, status, dropped))
        return scenario

    return add


# --- the ways not to come to an end ---------------------------------------------------------------------


@interruption(*CLOSEABLE, reason="closed")
async def closed_after_a_break(side: Side, heard: Heard) -> None:
    stream = await side.stream()
    await side.read_partly(stream, heard)
    await side.close(stream)


@interruption("anthropic", "anthropic-async", heard=TEXT, reason="closed")
async def closed_between_the_text_and_the_stop_reason(side: Side, heard: Heard) -> None:
    stream = await side.stream()
    await side.read(stream, heard, lambda event: event.type == "content_block_stop")
    await side.close(stream)


@interruption(*SDKS, reason="closed")
async def left_its_with_block(side: Side, heard: Heard) -> None:
    async with opened(await side.stream()) as stream:
        await side.read_partly(stream, heard)


@interruption(*EVERY, reason="closed|abandoned", dropped=True)
async def dropped_after_a_break(side: Side, heard: Heard) -> None:
    await side.read_partly(await side.stream(), heard)


@interruption(*SDKS, heard="", reason="closed")
async def closed_unread(side: Side, heard: Heard) -> None:
    await side.close(await side.stream())


@interruption(*SDKS, "litellm", heard="", reason="abandoned", dropped=True)
async def dropped_unread(side: Side, heard: Heard) -> None:
    await side.stream()


@interruption(*SDKS, reason="closed")
async def own_error_in_a_with_block(side: Side, heard: Heard) -> None:
    async with opened(await side.stream()) as stream:
        await side.read_partly(stream, heard)
        raise Mine


@interruption(*SDKS, reason="closed|abandoned", dropped=True)
async def own_error_in_the_loop(side: Side, heard: Heard) -> None:
    def fail(event: Any) -> bool:
        if heard.is_enough:
            raise Mine
        return False

    await side.read(await side.stream(), heard, fail)


@interruption(*EVERY, reason="provider_error.*", status="error")
async def connection_cut(side: Side, heard: Heard) -> None:
    side.answers(cut_after=PIECES)
    await side.read(await side.stream(), heard)


@interruption(*EVERY, reason="provider_error.*", status="error")
async def error_event(side: Side, heard: Heard) -> None:
    side.answers(error_after=PIECES)
    await side.read(await side.stream(), heard)


@interruption(*SYNC, "litellm", reason="cancelled")
async def keyboard_interrupt(side: Side, heard: Heard) -> None:
    with Gate(PIECES) as gate, _keyboard() as press:

        def pause(at: int) -> None:
            if at == PIECES:
                heard.wait()
                press()
            gate(at)

        side.answers(pause=pause)
        await side.read(await side.stream(), heard)


@contextmanager
def _keyboard() -> Iterator[Callable[[], None]]:
    """A way to press Ctrl-C once, from another thread."""
    pressed = threading.Event()

    def interrupt(*_: object) -> None:
        if not pressed.is_set():
            pressed.set()
            raise KeyboardInterrupt

    def press() -> None:
        """Until it is felt: a signal just before a blocking read wakes nobody."""
        while not pressed.is_set():
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
            pressed.wait(0.05)

    before = signal.signal(signal.SIGINT, interrupt)
    try:
        yield press
    finally:
        pressed.set()
        signal.signal(signal.SIGINT, before)


@interruption(*ASYNC, heard="", reason="cancelled")
async def cancelled_before_the_reply(side: Side, heard: Heard) -> None:
    with Gate() as gate:
        side.fails(Failure(500, hang=gate))
        task = asyncio.create_task(side.ask())
        await gate.came()
        task.cancel()
        await task


@interruption(*ASYNC, heard="", reason="cancelled")
async def cancelled_before_the_first_piece(side: Side, heard: Heard) -> None:
    with Gate(0) as gate:
        side.answers(pause=gate)
        stream = await side.stream()
        task = asyncio.create_task(side.read(stream, heard))
        await gate.came()
        task.cancel()
        await task


@interruption(*ASYNC, "litellm-async", reason="cancelled")
async def cancelled_in_the_middle(side: Side, heard: Heard) -> None:
    with Gate(PIECES) as gate:
        side.answers(pause=gate)
        task = asyncio.create_task(_stream_and_read(side, heard))
        await heard.enough()
        task.cancel()
        await task


@interruption(*ASYNC, reason="cancelled")
async def cancelled_twice_at_once(side: Side, heard: Heard) -> None:
    with Gate(PIECES) as gate:
        side.answers(pause=gate)
        task = asyncio.create_task(_stream_and_read(side, heard))
        await heard.enough()
        task.cancel()
        await asyncio.sleep(0)
        task.cancel()
        await task


@interruption(*ASYNC, reason="cancelled")
async def timed_out(side: Side, heard: Heard) -> None:
    with Gate(PIECES) as gate:
        side.answers(pause=gate)
        async with asyncio.timeout(None) as limit, asyncio.TaskGroup() as group:

            async def expire() -> None:
                await heard.enough()
                limit.reschedule(asyncio.get_running_loop().time())

            group.create_task(expire())
            await _stream_and_read(side, heard)


@interruption(*ASYNC, "litellm-async", reason="cancelled")
async def cancelled_at_every_await(side: Side, heard: Heard) -> None:
    """anyio cancels whatever is awaited in a cancelled scope, again and again."""
    with Gate(PIECES) as gate:
        side.answers(pause=gate)
        async with anyio.create_task_group() as group:

            async def cancel() -> None:
                await heard.enough()
                group.cancel_scope.cancel()

            group.start_soon(cancel)
            await _stream_and_read(side, heard)


async def _stream_and_read(side: Side, heard: Heard) -> None:
    await side.read(await side.stream(), heard)


def _helper(side: Side) -> AbstractContextManager[Any]:
    """The SDK's own helper for streams."""
    given: Any = [{"role": "user", "content": SAID}]
    if hasattr(side.client, "messages"):
        return side.client.messages.stream(model="m", max_tokens=100, messages=given)  # type: ignore[no-any-return]
    return side.client.chat.completions.stream(model="m", messages=given)  # type: ignore[no-any-return]


def _helper_piece(event: Any) -> str:
    if event.type == "content.delta":
        return str(event.delta)
    return str(event.text) if event.type == "text" else ""


async def _read_helper(stream: Any, heard: Heard) -> None:
    events = stream if hasattr(stream, "__aiter__") else _as_async(stream)
    async for event in events:
        heard.take(_helper_piece(event))
        if heard.is_enough:
            break


async def _as_async(values: Any) -> Any:
    for value in values:
        yield value


@interruption(*SDKS, reason="closed")
async def left_the_helpers_with_block(side: Side, heard: Heard) -> None:
    async with opened(_helper(side)) as stream:
        await _read_helper(stream, heard)


@interruption(*SDKS, reason="closed")
async def left_the_raw_response(side: Side, heard: Heard) -> None:
    resource = side.client.messages if hasattr(side.client, "messages") else side.client.chat.completions
    given: dict[str, Any] = {"model": "m", "max_tokens": 100, "messages": [{"role": "user", "content": SAID}]}
    async with opened(resource.with_streaming_response.create(**given, stream=True)) as response:
        lines = response.iter_lines()
        async for line in lines if side.api.is_async else _as_async(lines):
            heard.take("".join(re.findall(r'"(?:content|text)":"([^"]+)"', line)))
            if heard.is_enough:
                break


# --- what the log holds then ----------------------------------------------------------------------------

INTERRUPTED = [
    pytest.param(kind, case, id=f"{case.run.__name__}-{kind}") for case in INTERRUPTIONS for kind in case.kinds
]


@pytest.mark.parametrize(("desk", "case"), INTERRUPTED, indirect=["desk"])
@at_its_desk
async def test_interrupted_turn_keeps_the_text_read_so_far(desk: Desk, case: Interruption) -> None:
    memory = await desk.first_turn()
    await desk.bare.first_turn()
    bare = await outcome(desk.bare, case.run)
    wrapped = await outcome(desk.wrapped, case.run)
    if case.dropped:
        await settled(desk)
    assert wrapped == bare
    assert wrapped.heard == case.heard
    desk.assert_ended(case.heard, reason=case.reason, status=case.status)
    assert desk.memory() == memory
    assert desk.remembered() == ["w-1"]
    await desk.assert_goes_on(case.heard)


@on("openai", "openai-async", "responses", "anthropic", "litellm")
@pytest.mark.parametrize("break_off", ["cut_after", "error_after"])
@at_its_desk
async def test_stream_broken_inside_its_trailer_changes_no_memory(desk: Desk, break_off: str) -> None:
    memory = await desk.first_turn()
    await desk.bare.first_turn()
    words = len(TEXT.split())

    async def breaks(side: Side, heard: Heard, *, after: int) -> None:
        travel: dict[str, Any] = {break_off: after}
        side.answers(**travel)
        await side.read(await side.stream(), heard)

    bare = await outcome(desk.bare, partial(breaks, after=words))
    wrapped = await outcome(desk.wrapped, partial(breaks, after=words + 3))
    assert wrapped == bare
    assert wrapped.heard == TEXT
    assert_clean(wrapped)
    desk.assert_ended(TEXT, reason="provider_error.*", status="error")
    assert desk.memory() == memory


class Rechunked(httpx.SyncByteStream):
    """A body whose events all arrive together, as a proxy on the way may deliver them."""

    def __init__(self, inner: Any, last: bytes) -> None:
        self._inner, self._last = inner, last

    def __iter__(self) -> Iterator[bytes]:
        """All of it, or up to the event that holds `last`."""
        whole = b"".join(self._inner)
        yield whole[: whole.find(b"\n\n", whole.find(self._last)) + 2] if self._last else whole

    def close(self) -> None:
        self._inner.close()


class Rechunking(httpx.HTTPTransport):
    def __init__(self, last: bytes = b"") -> None:
        super().__init__()
        self._last = last

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        response = super().handle_request(request)
        response.stream = Rechunked(response.stream, self._last)
        return response


MODES = pytest.mark.parametrize("mode", ["enabled", "readonly", "shadow", "disabled"])


@contextmanager
def behind_a_proxy(proxy: Rechunking, provider: Provider, home: Path, mode: str) -> Iterator[Side]:
    with httpx.Client(transport=proxy) as http:
        client = openai.OpenAI(api_key="k", base_url=provider.openai_url, http_client=http, max_retries=0)
        yield Side(APIS["openai"], provider, ctxwrap.wrap(client, store=home, session="s", context_mode=mode))


@MODES
def test_log_leaves_out_text_the_caller_did_not_read(provider: Provider, home: Path, mode: str) -> None:
    heard = Heard()
    with behind_a_proxy(Rechunking(), provider, home, mode) as side:
        at_once(closed_after_a_break(side, heard))
    assert heard.text == PARTLY
    assert said(home, "s") == [("user", SAID), ("assistant", PARTLY)]
    assert messages(home, "s")[-1]["ctx"]["status"] == "aborted"


@MODES
def test_stream_without_a_finish_is_logged_as_aborted(provider: Provider, home: Path, mode: str) -> None:
    heard = Heard()
    with behind_a_proxy(Rechunking(last=b"two"), provider, home, mode) as side:
        at_once(_stream_and_read(side, heard))
    assert heard.text == PARTLY
    assert said(home, "s") == [("user", SAID), ("assistant", PARTLY)]
    assert messages(home, "s")[-1]["ctx"]["status"] == "aborted"
    assert events(home, "s")[-1]["reason"] == "incomplete stream"


@on("openai", "openai-async", "responses", "anthropic", "litellm-async")
@pytest.mark.parametrize("mode", ["shadow", "disabled"])
@at_its_desk
async def test_interrupted_turn_in_disabled_and_shadow_keeps_its_text(desk: Desk, mode: str) -> None:
    await desk.first_turn()
    side = desk.side(context_mode=mode)
    found = await outcome(side, dropped_after_a_break)
    await settled(desk)
    assert found == Outcome(PARTLY)
    desk.assert_ended(PARTLY, reason="closed|abandoned", status="cancelled")


# --- what counts as complete ----------------------------------------------------------------------------


@on(*EVERY)
@at_its_desk
async def test_stream_left_at_its_finish_reason_is_complete(desk: Desk) -> None:
    await desk.first_turn()
    heard = Heard()
    stream = await desk.wrapped.stream()
    await desk.wrapped.read(stream, heard, desk.api.ends)
    await desk.wrapped.close(stream)
    del stream
    await settled(desk)
    assert heard.text == TEXT
    desk.assert_complete()


@on(*EVERY)
@at_its_desk
async def test_a_stream_read_in_two_parts_is_one_turn(desk: Desk) -> None:
    await desk.first_turn()
    heard = Heard()
    stream = await desk.wrapped.stream()
    await desk.wrapped.read_partly(stream, heard)
    await desk.wrapped.read(stream, heard)
    assert heard.text == TEXT
    desk.assert_complete()
    await desk.wrapped.close(stream)
    del stream
    await settled(desk)
    desk.assert_complete()


@on(*SDKS)
@pytest.mark.parametrize("finish", ["get_final", "until_done"])
@at_its_desk
async def test_stream_helper_that_reads_the_rest_makes_one_turn(desk: Desk, finish: str) -> None:
    await desk.first_turn()
    heard = Heard()
    async with opened(_helper(desk.wrapped)) as stream:
        await _read_helper(stream, heard)
        if finish == "until_done":
            await got(stream.until_done())
        final = stream.get_final_message if hasattr(stream, "get_final_message") else stream.get_final_completion
        whole = await got(final())
        desk.assert_complete()
    assert desk.api.text(whole) == TEXT
    desk.assert_complete()


# --- cancelled while the log is written -----------------------------------------------------------------


class HeldLog(PassingLog):
    """A log whose appends pass a gate, which is told how many came before."""

    def __init__(self, inner: Log, gate: Gate) -> None:
        super().__init__(inner)
        self._gate, self._appends = gate, 0

    def append(self, batches: Mapping[str, Sequence[Record]], *, lasting: bool = False) -> Mapping[str, int]:
        self._appends += 1
        self._gate(self._appends)
        return self.inner.append(batches, lasting=lasting)


class HeldStore:
    def __init__(self, home: Path, gate: Gate) -> None:
        self._inner, self._gate = ctxwrap.open_store(home), gate

    def open(self, key: SessionKey) -> HeldLog:
        return HeldLog(self._inner.open(key), self._gate)

    def sessions(self, tenant: str, agent: str) -> Any:
        return self._inner.sessions(tenant, agent)


OPENS, CLOSES = 1, 2
"""The appends of a turn."""


async def _cancelled_at(append: int, desk: Desk, work: Scenario) -> Heard:
    """Cancel `work` in the middle, and twice more while the log is written."""
    heard = Heard()
    with Gate(PIECES) as pause, Gate(append) as writing:
        side = desk.side(store=HeldStore(desk.home, writing))
        side.answers(pause=pause)
        task = asyncio.create_task(work(side, heard))
        if append == CLOSES:
            await heard.enough()
            task.cancel()
        await writing.came()
        for _ in range(2):
            task.cancel()
            await asyncio.sleep(0)
        assert not task.done(), "the write was left to itself"
        writing.open()
        with pytest.raises(asyncio.CancelledError):
            await task
    return heard


@on(*ASYNC)
@at_its_desk
async def test_second_cancellation_does_not_stop_the_partial_reply_write(desk: Desk) -> None:
    await desk.first_turn()
    heard = await _cancelled_at(CLOSES, desk, _stream_and_read)
    assert heard.text == PARTLY
    desk.assert_ended(PARTLY, reason="cancelled", status="cancelled")


@on(*ASYNC)
@at_its_desk
async def test_cancelling_during_the_final_write_keeps_the_turn_complete(desk: Desk) -> None:
    await desk.first_turn()
    heard = Heard()
    with Gate(CLOSES) as writing:
        side = desk.side(store=HeldStore(desk.home, writing))
        task = asyncio.create_task(_stream_and_read(side, heard))
        await writing.came()
        task.cancel()
        writing.open()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert heard.text == TEXT
    desk.assert_complete()


@on(*ASYNC)
@pytest.mark.parametrize("stream", [False, True])
@at_its_desk
async def test_cancelling_while_a_turn_opens_sends_no_request(desk: Desk, stream: bool) -> None:
    await desk.first_turn()
    asked = len(desk.wrapped.provider.seen)
    await _cancelled_at(OPENS, desk, lambda side, _: side.ask(stream=stream))
    assert len(desk.wrapped.provider.seen) == asked
    desk.assert_ended("", reason="cancelled", status="cancelled")


# --- a client that disconnects from an ASGI app ---------------------------------------------------------


@contextmanager
def served(endpoint: Callable[..., Awaitable[Any]]) -> Iterator[str]:
    """A real server with `endpoint` at its root."""
    app = Starlette(routes=[Route("/", endpoint)])
    server = uvicorn.Server(uvicorn.Config(app, log_level="critical", lifespan="off", ws="none"))
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=asyncio.run, args=(server.serve(sockets=[listening]),), daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}/"
        finally:
            server.should_exit = True
            thread.join(PATIENCE)
    assert not thread.is_alive()


@on("openai-async", "litellm-async")
@pytest.mark.parametrize("waits_for", ["the provider", "something else"])
def test_disconnected_browser_leaves_the_delivered_text_in_the_log(desk: Desk, waits_for: str) -> None:
    side, ended = desk.wrapped, threading.Event()
    with Gate(PIECES) as gate:

        async def endpoint(request: Any) -> StreamingResponse:
            await side.first_turn()
            side.answers(pause=gate)
            stream = await side.stream()

            async def body() -> Any:
                heard = 0
                try:
                    async for event in stream:
                        piece = side.api.piece(event)
                        heard += bool(piece)
                        yield piece
                        if heard == PIECES and waits_for == "something else":
                            await asyncio.Event().wait()
                finally:
                    ended.set()

            return StreamingResponse(body())

        with served(endpoint) as url:
            with httpx.stream("GET", url, timeout=PATIENCE) as response:
                seen = ""
                for piece in response.iter_text():
                    seen += piece
                    if seen == PARTLY:
                        break
            assert ended.wait(PATIENCE), "the app did not notice"
    gc.collect()
    desk.assert_ended(PARTLY, reason="cancelled|closed|abandoned", status="cancelled")


# --- an event loop that ends ----------------------------------------------------------------------------


def _end_by_run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(work)


def _end_by_close(work: Coroutine[Any, Any, None]) -> None:
    """As `run` does not: generators that are still open are left as they are."""
    loop = asyncio.new_event_loop()
    loop.run_until_complete(work)
    loop.close()


@contextmanager
def noises(caplog: pytest.LogCaptureFixture) -> Iterator[set[str]]:
    """What Python complains about to nobody in particular, without numbers."""
    found: list[str] = []
    complaints: set[str] = set()
    hook, sys.unraisablehook = sys.unraisablehook, lambda args: found.append(f"{args.err_msg} {args.exc_value!r}")
    caplog.clear()
    try:
        with warnings.catch_warnings(record=True) as warned, caplog.at_level(logging.WARNING):
            warnings.simplefilter("always")
            yield complaints
            gc.collect()
    finally:
        sys.unraisablehook = hook
    found += [f"{warning.category.__name__} {warning.message}" for warning in warned]
    found += [f"{record.name} {record.getMessage()}" for record in caplog.records if not _is_collision(record)]
    complaints |= {re.sub(r"0x[0-9a-f]+|\d+", "#", complaint) for complaint in found}


def _is_collision(record: logging.LogRecord) -> bool:
    """httpx2's nested generators get into each other's way when a loop ends them all at once, by chance."""
    error = record.exc_info[1] if record.exc_info else None
    return isinstance(error, RuntimeError) and "already running" in str(error)


@on(*ASYNC)  # and not litellm, which leaves tasks of its own behind
@pytest.mark.parametrize("end", [_end_by_run, _end_by_close])
@pytest.mark.parametrize("keeps_it", [True, False])
def test_event_loop_end_keeps_an_open_streams_text_without_extra_warnings(
    desk: Desk, end: Callable[[Any], None], keeps_it: bool, caplog: pytest.LogCaptureFixture
) -> None:
    def noise_of(side: Side) -> set[str]:
        kept: list[Any] = []

        async def leaves_it_open() -> None:
            await side.first_turn()
            stream, heard = await side.stream(), Heard()
            await side.read_partly(stream, heard)
            assert heard.text == PARTLY
            if keeps_it:
                kept.append(stream)

        with noises(caplog) as complaints:
            end(leaves_it_open())
            kept.clear()
        ctxwrap.flush()
        return complaints

    bare = noise_of(desk.bare)
    assert noise_of(desk.wrapped) <= bare
    desk.assert_ended(PARTLY, reason="closed|abandoned|cancelled", status="cancelled")


# --- a process that ends --------------------------------------------------------------------------------


def run_program(program: str, *arguments: object, seconds: float = 6 * PATIENCE) -> subprocess.CompletedProcess[str]:
    """Run a program in a process of its own."""
    command = [sys.executable, "-c", program, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)


def run_alone(program: str, *arguments: object, seconds: float = 6 * PATIENCE) -> str:
    """Run a program that succeeds; what it wrote to stderr."""
    done = run_program(program, *arguments, seconds=seconds)
    assert done.returncode == 0, done.stderr
    return done.stderr


LEAVES_STREAMS_OPEN = """
import asyncio, sys
import openai
import ctxwrap

url, *home = sys.argv[1:]
call = {"model": "m", "messages": [{"role": "user", "content": "Count to six."}], "stream": True}

def completions(cls, session):
    client = cls(api_key="k", base_url=url)
    return (ctxwrap.wrap(client, store=home[0], session=session) if home else client).chat.completions

def heard(event):
    return event.choices[0].delta.content == " two"

stream = completions(openai.OpenAI, "sync").create(**call)
while not heard(next(stream)):
    pass

async def read():
    stream = await completions(openai.AsyncOpenAI, "async").create(**call)
    while not heard(await anext(stream)):
        pass
    return stream

loop = asyncio.new_event_loop()
kept = loop.run_until_complete(read())
"""


def test_process_exit_keeps_the_text_of_open_streams(provider: Provider, home: Path) -> None:
    provider.answer = Told(TEXT)
    bare = run_program(LEAVES_STREAMS_OPEN, provider.openai_url)
    done = run_program(LEAVES_STREAMS_OPEN, provider.openai_url, home)
    # Python 3.13.0 itself crashes when it ends with an open stream
    assert (done.returncode, done.stderr) == (bare.returncode, "")
    for session in ("sync", "async"):
        assert said(home, session) == [("user", SAID), ("assistant", PARTLY)]
        assert messages(home, session)[-1]["ctx"]["status"] == "aborted"
        assert events(home, session)[-1]["status"] == "cancelled"


OUTLIVES_THE_MAIN_THREAD = """
import asyncio, sys, threading
import openai
import ctxwrap

home, url = sys.argv[1:]
client = ctxwrap.wrap(openai.AsyncOpenAI(api_key="k", base_url=url), store=home, session="s")
call = {"model": "m", "messages": [{"role": "user", "content": "Count to six."}], "stream": True}
begun = threading.Event()

async def read():
    stream = await client.chat.completions.create(**call)
    await anext(stream)
    begun.set()
    threading.main_thread().join()
    async for event in stream:
        pass

threading.Thread(target=asyncio.run, args=(read(),)).start()
begun.wait(10)
"""


def test_stream_can_be_read_after_the_main_thread_ends(provider: Provider, home: Path) -> None:
    assert run_alone(OUTLIVES_THE_MAIN_THREAD, home, provider.openai_url) == ""
    assert said(home, "s") == [("user", SAID), ("assistant", "Hello, world.")]
    assert messages(home, "s")[-1]["ctx"]["status"] == "complete"


FORKS_WITH_AN_OPEN_STREAM = """
import os, sys
import openai
import ctxwrap

home, url = sys.argv[1:]
client = ctxwrap.wrap(openai.OpenAI(api_key="k", base_url=url), store=home, session="s")
call = {"model": "m", "messages": [{"role": "user", "content": "Count to six."}], "stream": True}
stream = client.chat.completions.create(**call)
for event in stream:
    if event.choices[0].delta.content:
        break
child = os.fork()
if not child:
    sys.exit()
os.waitpid(child, 0)
for event in stream:
    pass
"""


def test_fork_exit_does_not_end_the_parents_turns(provider: Provider, home: Path) -> None:
    run_alone(FORKS_WITH_AN_OPEN_STREAM, home, provider.openai_url)
    assert said(home, "s") == [("user", SAID), ("assistant", "Hello, world.")]
    kinds = [event["type"] for event in events(home, "s")]
    assert [kind for kind in kinds if kind != "delta"] == ["start", "snapshot", "done"]  # slow machines write deltas


# --- a stream that is collected at a bad moment ---------------------------------------------------------

COLLECTS_WHILE_WRITING = """
import gc, sys
import openai
import ctxwrap

home, url = sys.argv[1:]

class Log:
    def __init__(self, inner):
        self._inner = inner

    def __getattr__(self, name):
        return getattr(self._inner, name)

    def append(self, batches, **how):
        gc.collect()
        return self._inner.append(batches, **how)

class Store:
    def __init__(self):
        self._inner = ctxwrap.open_store(home)
        self.sessions = self._inner.sessions

    def open(self, key):
        return Log(self._inner.open(key))

gc.disable()
client = ctxwrap.wrap(openai.OpenAI(api_key="k", base_url=url), store=Store(), session="s")

def ask(said, **options):
    return client.chat.completions.create(model="m", messages=[{"role": "user", "content": said}], **options)

for event in ask("Count to six.", stream=True):
    if "two" in event.model_dump_json():
        break
ask("And then?")
"""


def test_dropped_stream_can_be_collected_during_a_session_write(provider: Provider, home: Path) -> None:
    provider.answer = Told(TEXT)
    run_alone(COLLECTS_WHILE_WRITING, home, provider.openai_url, seconds=40)
    turns = [("user", SAID), ("assistant", PARTLY), ("user", NEXT), ("assistant", TEXT)]
    assert sorted(said(home, "s")) == sorted(turns)
    assert_in_order(home, "s")


# --- errors before any text -----------------------------------------------------------------------------


def _refused(status: int) -> Scenario:
    async def refused(side: Side, heard: Heard) -> None:
        side.fails(Failure(status, "no tea left", headers={"retry-after": "7"}))
        await side.ask()

    return refused


async def _refused_stream(side: Side, heard: Heard) -> None:
    side.fails(Failure(500, "no tea left"))
    await side.read(await side.stream(), heard)


async def _cut_at_once(side: Side, heard: Heard) -> None:
    side.answers(cut_after=0)
    await side.read(await side.stream(), heard)


async def _error_at_once(side: Side, heard: Heard) -> None:
    side.answers(error_after=0)
    await side.read(await side.stream(), heard)


async def _no_answer_in_time(side: Side, heard: Heard) -> None:
    with Gate() as gate:
        side.fails(Failure(500, hang=gate))
        await side.ask(timeout=0.1)


async def _nobody_there(side: Side, heard: Heard) -> None:
    side.provider.close()
    await side.ask()


FAILURES = {
    "rate-limit": _refused(429),
    "stream-refused": _refused_stream,
    "cut": _cut_at_once,
    "error-event": _error_at_once,
    "timeout": _no_answer_in_time,
    "unreachable": _nobody_there,
}
FAILING = [
    pytest.param(kind, name, id=f"{name}-{kind}")
    for name in FAILURES
    for kind in (*SDKS, *(("litellm", "litellm-async") if name in ("rate-limit", "cut") else ()))
]


@pytest.mark.parametrize(("desk", "failure"), FAILING, indirect=["desk"])
@at_its_desk
async def test_error_before_any_text_is_the_sdks_and_keeps_the_user_message(desk: Desk, failure: str) -> None:
    memory = await desk.first_turn()
    await desk.bare.first_turn()
    bare = await outcome(desk.bare, FAILURES[failure])
    wrapped = await outcome(desk.wrapped, FAILURES[failure])
    assert wrapped == bare
    desk.assert_ended("", reason="provider_error.*", status="error")
    assert desk.memory() == memory


ONLY_NEW = [{"role": "user", "content": SAID}]
WHOLE_HISTORY = [*({"role": role, "content": content} for role, content in FIRST_TURN), *ONLY_NEW]


@on("openai", "responses", "anthropic-async", "litellm-async")
@pytest.mark.parametrize("given", [ONLY_NEW, WHOLE_HISTORY], ids=["only-new", "whole-history"])
@pytest.mark.parametrize("travel", [None, {"cut_after": 0}], ids=["refused", "cut"])
@at_its_desk
async def test_call_repeated_after_an_error_stays_in_its_round(
    desk: Desk, given: list[dict[str, str]], travel: dict[str, Any] | None
) -> None:
    await desk.first_turn()
    side = desk.wrapped
    for _ in range(2):
        side.fails(Failure(500)) if travel is None else side.answers(**travel)
        with pytest.raises(Exception):  # noqa: B017, PT011  # each SDK has its own, compared above
            await side.read(await side.send(given, stream=True), Heard())
    side.answers()
    heard = Heard()
    await side.read(await side.send(given, stream=True), heard)
    assert heard.text == TEXT
    assert desk.said() == [*FIRST_TURN, ("user", SAID), ("assistant", TEXT)]
    assert [entry["ctx"]["round"] for entry in desk.messages()] == [1, 1, 2, 2]
    assert [event["status"] for event in desk.events("done")] == ["ok", "error", "error", "ok"]


# --- turns at the same time -----------------------------------------------------------------------------


@dataclass
class Meeting:
    """Answers nobody before all are there."""

    size: int
    _barrier: threading.Barrier = field(init=False)

    def __post_init__(self) -> None:
        self._barrier = threading.Barrier(self.size)

    def __call__(self, ask: Ask) -> Answer:
        self._barrier.wait(PATIENCE)
        return echo(ask)


def echo(ask: Ask) -> Answer:
    tail = trailer(ask, [item("w-1")]) if asks_for_trailer(ask.system) else ""
    return Answer(f"You said: {strip_injected(ask.last_user)}" + tail)


def assert_all_there(home: Path, session: str, said: Sequence[str]) -> None:
    """Everything said and answered once, in rounds of its own; no line lost, torn or out of order."""
    log = messages(home, session)
    questions = [entry for entry in log if entry["role"] == "user"]
    answers = [entry for entry in log if entry["role"] == "assistant"]
    rounds = {entry["content"]: entry["ctx"]["round"] for entry in questions}
    assert sorted(entry["content"] for entry in questions) == sorted(said)
    assert sorted(entry["content"] for entry in answers) == sorted(f"You said: {text}" for text in said)
    assert [entry["ctx"]["round"] for entry in questions] == [*range(1, len(said) + 1)]
    for entry in answers:
        assert entry["ctx"]["round"] == rounds[entry["content"].removeprefix("You said: ")]
        assert entry["ctx"]["status"] == "complete"
    assert_in_order(home, session)


def assert_in_order(home: Path, session: str) -> None:
    """Every line is a record, and every record has the next number."""
    for records in (lines(home, session, "messages"), lines(home, session, "events")):
        assert [record["ctx"]["seq"] for record in records] == [*range(1, len(records) + 1)]
        assert len({record["ctx"]["id"] for record in records}) == len(records)


async def _say(side: Side, text: str, stream: bool, heard: dict[str, str]) -> None:
    if stream:
        pieces = Heard()
        await side.read(await side.ask(text, stream=True), pieces)
        heard[text] = pieces.text
    else:
        heard[text] = side.api.text(await side.ask(text))


@on("openai", "openai-async", "anthropic", "litellm-async")
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@at_its_desk
async def test_eight_concurrent_turns_are_all_recorded(desk: Desk, stream: bool) -> None:
    said, heard = [f"Question {number}?" for number in range(8)], dict[str, str]()
    side = desk.side(on_busy="interleave")
    side.provider.answer = Meeting(len(said))
    turns = [_say(side, text, stream, heard) for text in said]
    if desk.api.is_async:
        await asyncio.gather(*turns)
    else:
        with ThreadPoolExecutor(len(said)) as pool:
            list(pool.map(at_once, turns))
    assert heard == {text: f"You said: {text}" for text in said}
    assert_all_there(desk.home, "s", said)


@on(*EVERY)
@at_its_desk
async def test_turn_inside_another_turns_stream_is_recorded_separately(desk: Desk) -> None:
    side = desk.wrapped
    side.provider.answer = echo
    outer = Heard()
    stream = await side.ask("The outer one", stream=True)
    await side.read_partly(stream, outer)
    assert side.api.text(await side.ask("The inner one")) == "You said: The inner one"
    await side.read(stream, outer)
    assert outer.text == "You said: The outer one"
    assert_all_there(desk.home, "s", ["The outer one", "The inner one"])


TALKS = """
import sys
import openai
import ctxwrap

home, url, name, calls = sys.argv[1:]
client = openai.OpenAI(api_key="k", base_url=url)
client = ctxwrap.wrap(client, store=home, session="s", on_busy="interleave")
for number in range(int(calls)):
    client.chat.completions.create(model="m", messages=[{"role": "user", "content": f"{name} {number}"}])
"""


def test_two_processes_share_a_session(provider: Provider, home: Path) -> None:
    names, calls = ("left", "right"), 20
    provider.answer = Meeting(len(names))
    command = [sys.executable, "-c", TALKS, str(home), provider.openai_url]
    talking = [subprocess.Popen([*command, name, str(calls)]) for name in names]
    assert [process.wait(6 * PATIENCE) for process in talking] == [0, 0]
    assert_all_there(home, "s", [f"{name} {number}" for name in names for number in range(calls)])
