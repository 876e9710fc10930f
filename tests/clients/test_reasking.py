"""A snapshot that cannot be used is asked for once more: the caller sees nothing of it but a moment's wait."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anthropic
import httpx
import openai
import pytest
import respx

import ctxwrap
from ctxwrap.clients.litellm import load_litellm
from ctxwrap.inspect import memory_of
from ctxwrap.protocol.instructions import SEPARATOR, text_before_question
from ctxwrap.testing.practice import Answer, Ask, Failure, PracticeModel, Provider, ToolCall
from ctxwrap.types import SessionKey, TurnRecord
from tests.clients.running import PATIENCE, at_its_desk, got, on, opened, run_and_close
from tests.providers.replies import SPEAKERS
from tests.support import assert_clean, events, item, said, state_shown, trailer

pytestmark = pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")  # of litellm's own making

"""Seconds until something that must happen counts as never happening."""

SAID, TEXT = "Say hello.", "Hello, world."
UNUSABLE = f'\n\n{SEPARATOR}\n{{"note": "no memory in it"}}'
KEY = SessionKey("default", "default", "s")

Reask = Callable[[Ask], Answer | Failure]


def usable(ask: Ask) -> Answer:
    return Answer(trailer(ask, [item("w-2")]).strip())


def useless(ask: Ask) -> Answer:
    return Answer(UNUSABLE.strip())


def bare_json(ask: Ask) -> Answer:
    return Answer(trailer(ask, [item("w-2")]).partition(SEPARATOR)[2].strip())


def failing(ask: Ask) -> Failure:
    return Failure(500)


class Model:
    """Says `text`, with an unusable trailer unless told otherwise; then answers questions for it, one by one."""

    def __init__(self, *again: Reask, text: str = TEXT, tail: str = UNUSABLE, **travel: Any) -> None:
        self._again = iter(again)
        self._answer = Answer(text + tail, **travel)
        self.calls: list[Ask] = []
        self.questions: list[Ask] = []

    def __call__(self, ask: Ask) -> Answer | Failure:
        if text_before_question(ask.last_user) is None:
            self.calls.append(ask)
            return self._answer
        self.questions.append(ask)
        return next(self._again)(ask)


# --- the doors --------------------------------------------------------------------------------------------


def _openai(provider: Provider, is_async: bool, **options: Any) -> Any:
    http: Any = (openai.DefaultAsyncHttpxClient if is_async else openai.DefaultHttpxClient)(verify=False, **options)
    cls: Any = openai.AsyncOpenAI if is_async else openai.OpenAI
    return cls(api_key="k", base_url=provider.openai_url, max_retries=0, http_client=http)


def _anthropic(provider: Provider, is_async: bool, **options: Any) -> Any:
    http: Any = (anthropic.DefaultAsyncHttpxClient if is_async else anthropic.DefaultHttpxClient)(
        verify=False, **options
    )
    cls: Any = anthropic.AsyncAnthropic if is_async else anthropic.Anthropic
    return cls(api_key="k", base_url=provider.anthropic_url, max_retries=0, http_client=http)


def _litellm(provider: Provider, is_async: bool, **options: Any) -> Any:
    return load_litellm()


def _at(desk: "Desk") -> dict[str, Any]:
    return {"model": "openai/m", "api_base": desk.provider.openai_url, "api_key": "k", "max_retries": 0}


def _function(desk: "Desk", name: str) -> Any:
    return getattr(desk.client, f"a{name}" if desk.door.is_async else name)


def _chat_piece(event: Any) -> str:
    return (event.choices[0].delta.content or "") if event.choices else ""


def _prompt_piece(event: Any) -> str:
    return (event.choices[0].text or "") if event.choices else ""


def _response_piece(event: Any) -> str:
    return str(event.delta) if event.type == "response.output_text.delta" else ""


def _message_piece(event: Any) -> str:
    return str(event.delta.text) if event.type == "content_block_delta" else ""


def _finish(event: Any) -> bool:
    return bool(event.choices and event.choices[0].finish_reason)


def _messages(text: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text}]


@dataclass(frozen=True)
class Door:
    """One way in: how to ask, and where replies and events keep their text and their end."""

    make: Callable[..., Any]
    ask: Callable[..., Any]
    piece: Callable[[Any], str]
    ends: Callable[[Any], bool]
    text: Callable[[Any], str]
    is_async: bool = False


_KINDS = {
    "chat": (
        _openai,
        lambda desk, text, **options: desk.client.chat.completions.create(
            model="m", messages=_messages(text), **options
        ),
        _chat_piece,
        _finish,
        lambda reply: reply.choices[0].message.content,
    ),
    "completions": (
        _openai,
        lambda desk, text, **options: desk.client.completions.create(model="m", prompt=text, **options),
        _prompt_piece,
        _finish,
        lambda reply: reply.choices[0].text,
    ),
    "responses": (
        _openai,
        lambda desk, text, **options: desk.client.responses.create(model="m", input=text, **options),
        _response_piece,
        lambda event: event.type == "response.completed",
        lambda reply: reply.output_text,
    ),
    "anthropic": (
        _anthropic,
        lambda desk, text, **options: desk.client.messages.create(
            model="m", max_tokens=100, messages=_messages(text), **options
        ),
        _message_piece,
        lambda event: event.type == "message_delta",
        lambda reply: reply.content[0].text,
    ),
    "litellm": (
        _litellm,
        lambda desk, text, **options: _function(desk, "completion")(messages=_messages(text), **_at(desk), **options),
        _chat_piece,
        _finish,
        lambda reply: reply.choices[0].message.content,
    ),
    "litellm-text": (
        _litellm,
        lambda desk, text, **options: _function(desk, "text_completion")(prompt=text, **_at(desk), **options),
        _prompt_piece,
        _finish,
        lambda reply: reply.choices[0].text,
    ),
    "litellm-responses": (
        _litellm,
        lambda desk, text, **options: _function(desk, "responses")(input=text, **_at(desk), **options),
        _response_piece,
        lambda event: event.type == "response.completed",
        lambda reply: reply.output_text,
    ),
}
DOORS = {
    name + ("-async" if is_async else ""): Door(*how, is_async)
    for name, how in _KINDS.items()
    for is_async in (False, True)
}
SDKS = ("chat", "chat-async", "anthropic", "anthropic-async")
MAIN = (*SDKS, "responses", "responses-async", "litellm", "litellm-async")


@dataclass
class Desk:
    """A wrapped client at one door, in front of a provider of its own."""

    door: Door
    home: Path
    provider: Provider
    client: Any = None
    heard: list[str] = field(default_factory=list)
    ended: bool = False
    _made: list[Any] = field(default_factory=list)

    def opens(self, model: Any, *, http: dict[str, Any] | None = None, **settings: Any) -> None:
        """From now on `model` answers a client that is wrapped with these settings."""
        self.provider.answer = model
        bare = self.door.make(self.provider, self.door.is_async, **(http or {}))
        if self.door.make is not _litellm:
            self._made.append(bare)
        self.client = ctxwrap.wrap(bare, store=self.home, session="s", **settings)

    async def ask(self, text: str = SAID, **options: Any) -> Any:
        return await got(self.door.ask(self, text, **options))

    async def hear(self, text: str = SAID, *, stream: bool, **options: Any) -> TurnRecord:
        """Ask and take all that comes; `heard` is the text of it."""
        self.heard.clear()
        self.ended = False
        result = await self.ask(text, **({"stream": True} if stream else {}), **options)
        if stream:
            async for event in self.each(result):
                self.take(event)
        else:
            self.heard.append(self.door.text(result))
        turn = ctxwrap.turn_of(result)
        assert turn is not None
        return turn

    async def each(self, stream: Any) -> AsyncIterator[Any]:
        """The events of a stream; litellm's have both ways to read them, whichever client they come from."""
        if self.door.is_async:
            async for event in stream:
                yield event
        else:
            for event in stream:
                yield event

    def take(self, event: Any) -> None:
        if piece := self.door.piece(event):
            self.heard.append(piece)
        self.ended = self.ended or self.door.ends(event)

    @property
    def text(self) -> str:
        return "".join(self.heard)

    def remembered(self) -> list[str]:
        state = memory_of(ctxwrap.open_store(self.home), KEY)
        return [entry["id"] for tier in state["memory"].values() for entry in tier]

    def events(self, kind: str) -> list[dict[str, Any]]:
        return [event for event in events(self.home, "s") if event["type"] == kind]

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        run_and_close(work, self._made, is_async=self.door.is_async)


@pytest.fixture
def desk(request: pytest.FixtureRequest, home: Path) -> Iterator[Desk]:
    with ExitStack() as stack:
        yield Desk(DOORS[request.param], home, stack.enter_context(Provider()))


STREAM = pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])


# --- what it does ---------------------------------------------------------------------------------------


@on(*DOORS)
@STREAM
@at_its_desk
async def test_unusable_snapshot_is_reasked(desk: Desk, stream: bool) -> None:
    model = Model(usable)
    desk.opens(model)
    turn = await desk.hear(stream=stream)
    assert desk.text == TEXT
    assert (turn.report.reasks, turn.report.reading, turn.repairs) == (1, "repaired", ("reask",))
    assert [operation.id for operation in turn.operations] == ["w-2"]
    assert len(turn.violations) == 1
    assert said(desk.home, "s") == [("user", SAID), ("assistant", TEXT)]
    assert desk.remembered() == ["w-2"]
    (question,) = model.questions
    assert not question.stream
    assert "no memory" in question.last_user
    assert any(UNUSABLE.strip() in text for _, text in question.messages)
    await desk.hear("And again.", stream=False)
    assert [entry["id"] for entry in state_shown(model.calls[1])["memory"]["working"]] == ["w-2"]


@on(*MAIN)
@STREAM
@at_its_desk
async def test_reask_usage_is_recorded_apart_from_the_replys_usage(desk: Desk, stream: bool) -> None:
    desk.opens(Model(useless, usable), max_reasks=2)
    turn = await desk.hear(stream=stream)
    reasks = desk.events("reask")
    assert [(event["attempt"], event["status"], event["error"]) for event in reasks] == [
        (1, "rejected", ""),
        (2, "clean", ""),
    ]
    assert turn.report.reasks == 2
    for name, total in turn.report.reask_usage.items():
        assert total == sum(event["usage"].get(name, 0) for event in reasks)
    assert any(total > 0 for total in turn.report.reask_usage.values())
    assert SEPARATOR in reasks[0]["text"]
    (done,) = desk.events("done")
    assert all(done["usage"] != event["usage"] for event in reasks)
    kinds = [event["type"] for event in events(desk.home, "s")]
    assert kinds == ["start", "reask", "reask", "snapshot", "done"]


@on(*SDKS, "responses", "litellm")
@at_its_desk
async def test_second_reask_includes_the_first_reasks_answer(desk: Desk) -> None:
    model = Model(useless, usable)
    desk.opens(model, max_reasks=2)
    turn = await desk.hear(stream=False)
    assert turn.report.reading == "repaired"
    first, second = (question.messages for question in model.questions)
    assert second[: len(first)] == first
    assert [role for role, _ in second[len(first) :]] == ["assistant", "user"]
    assert second[-2][1] == UNUSABLE.strip()


@on(*MAIN)
@STREAM
@pytest.mark.parametrize("limit", [0, 1, 2])
@at_its_desk
async def test_exhausted_reasks_leave_memory_unchanged(desk: Desk, stream: bool, limit: int) -> None:
    model = Model(*[useless] * 3)
    desk.opens(model, max_reasks=limit)
    turn = await desk.hear(stream=stream)
    assert len(model.questions) == limit
    assert desk.text == TEXT
    assert (turn.report.reasks, turn.report.reading, turn.report.status) == (limit, "rejected", "complete")
    assert len(turn.violations) == 1
    assert (turn.snapshot, turn.operations, turn.repairs) == (None, (), ())
    assert desk.remembered() == []
    assert [event["status"] for event in desk.events("reask")] == ["rejected"] * limit


@on(*MAIN)
@STREAM
@at_its_desk
async def test_failed_reask_is_not_repeated_and_changes_no_memory(desk: Desk, stream: bool) -> None:
    model = Model(failing)
    desk.opens(model, max_reasks=2)
    turn = await desk.hear(stream=stream)
    assert desk.text == TEXT
    assert len(model.questions) == 1
    assert (turn.report.reasks, turn.report.reading, turn.report.error) == (1, "rejected", "")
    assert turn.report.reask_error == "InternalServerError"
    assert [(event["status"], event["error"]) for event in desk.events("reask")] == [("failed", "InternalServerError")]
    assert [event["status"] for event in desk.events("done")] == ["ok"]


@on("chat", "chat-async", "anthropic", "responses", "litellm")
@STREAM
@pytest.mark.parametrize(
    "answer",
    [
        Answer(""),
        Answer("I would rather not."),
        Answer(UNUSABLE.strip(), finish="length"),
        Answer(tool_calls=(ToolCall("t", "f"),)),
    ],
    ids=["empty", "prose", "cut", "tool call"],
)
@at_its_desk
async def test_reask_answer_without_a_snapshot_is_rejected(desk: Desk, stream: bool, answer: Answer) -> None:
    desk.opens(Model(lambda _: answer))
    turn = await desk.hear(stream=stream)
    assert desk.text == TEXT
    assert (turn.report.reasks, turn.report.reading) == (1, "rejected")
    assert desk.remembered() == []


@on("chat", "anthropic", "responses-async", "litellm")
@at_its_desk
async def test_reask_answer_of_bare_json_is_a_snapshot(desk: Desk) -> None:
    desk.opens(Model(bare_json))
    turn = await desk.hear(stream=False)
    assert (turn.report.reading, desk.remembered()) == ("repaired", ["w-2"])


@on(*MAIN)
@STREAM
@pytest.mark.parametrize("on_missing", ["keep", "reask"])
@at_its_desk
async def test_missing_snapshot_is_reasked_when_on_missing_is_reask(desk: Desk, stream: bool, on_missing: str) -> None:
    model = Model(usable, tail="")
    desk.opens(model, on_missing=on_missing)
    turn = await desk.hear(stream=stream)
    asked = on_missing == "reask"
    assert desk.text == TEXT
    assert len(model.questions) == turn.report.reasks == asked
    assert turn.report.reading == ("repaired" if asked else "missing")
    assert desk.remembered() == ["w-2"] * asked


@on("chat", "chat-async", "anthropic", "responses", "litellm")
@STREAM
@pytest.mark.parametrize(
    ("mode", "travel"),
    [
        ("readonly", {}),
        ("disabled", {}),
        ("shadow", {}),
        ("enabled", {"finish": "length"}),
        ("enabled", {"tool_calls": (ToolCall("t", "f"),)}),
        ("enabled", {"text": "", "tail": "", "refusal": "No."}),
    ],
    ids=["readonly", "disabled", "shadow", "cut", "tool call", "refusal"],
)
@at_its_desk
async def test_turn_that_needs_no_snapshot_is_not_reasked(
    desk: Desk, stream: bool, mode: str, travel: dict[str, Any]
) -> None:
    model = Model(**travel)
    desk.opens(model, context_mode=mode, on_missing="reask")
    result = await desk.ask(**({"stream": True} if stream else {}))
    if stream:
        assert [event async for event in desk.each(result)]
    turn = ctxwrap.turn_of(result)
    assert turn is not None
    assert (len(model.calls), len(model.questions), turn.report.reasks) == (1, 0, 0)


# --- streams --------------------------------------------------------------------------------------------


@on(*DOORS)
@pytest.mark.parametrize(
    ("text", "tail", "settings"),
    [(TEXT, UNUSABLE, {}), (f"{TEXT}\n\n<<", "", {"on_missing": "reask"})],
    ids=["trailer", "held back"],
)
@at_its_desk
async def test_stream_delivers_its_text_before_the_reask_and_its_end_after(
    desk: Desk, text: str, tail: str, settings: dict[str, Any]
) -> None:
    heard: list[tuple[str, bool]] = []

    def answer(ask: Ask) -> Answer:
        heard.append((desk.text, desk.ended))
        return usable(ask)

    desk.opens(Model(answer, text=text, tail=tail), **settings)
    turn = await desk.hear(stream=True)
    assert heard == [(text, False)]
    assert (desk.text, desk.ended) == (text, True)
    assert turn.report.reading == "repaired"


@on("chat", "chat-async")
@at_its_desk
async def test_stream_delivers_the_other_choices_before_the_reask(desk: Desk) -> None:
    shown: list[str] = []
    heard: list[str] = []

    def answer(ask: Ask) -> Answer:
        heard.append("".join(shown))
        return usable(ask)

    desk.opens(Model(answer, others=(Answer("Another one, and much longer at that."),)))
    stream = await desk.ask(stream=True, n=2)
    async for chunk in desk.each(stream):
        shown.extend(choice.delta.content or "" for choice in chunk.choices if choice.index == 1)
    assert heard == ["Another one, and much longer at that."]
    assert "n" not in json.loads(desk.provider.seen[-1].body)


@on(*SDKS, "responses", "litellm-async")
@pytest.mark.parametrize("pieces", [1, 2], ids=["early", "before the end"])
@at_its_desk
async def test_closed_stream_is_not_reasked(desk: Desk, pieces: int) -> None:
    model = Model()
    desk.opens(model)
    stream = await desk.ask(stream=True)
    iterator = desk.each(stream)
    while len(desk.heard) < pieces:
        desk.take(await anext(iterator))
    await got(stream.close() if hasattr(stream, "close") else stream.aclose())
    await iterator.aclose()
    assert model.questions == []
    assert desk.events("reask") == []
    assert len(desk.events("done")) == 1


@on("chat", "chat-async", "responses", "anthropic", "anthropic-async")
@at_its_desk
async def test_reask_works_with_a_single_connection(desk: Desk) -> None:
    module: Any = httpx if desk.door.make is _openai else __import__("httpx2")
    desk.opens(Model(usable), http={"limits": module.Limits(max_connections=1), "timeout": PATIENCE})
    turn = await desk.hear(stream=True)
    assert (desk.text, turn.report.reading) == (TEXT, "repaired")


@on("chat", "chat-async")
@at_its_desk
async def test_reask_of_helpers_and_raw_responses_is_a_plain_request(desk: Desk) -> None:
    desk.opens(Model(usable, usable, usable))
    asked: dict[str, Any] = {"model": "m", "messages": _messages(SAID)}
    async with opened(desk.client.chat.completions.stream(**asked)) as stream:
        final = [event async for event in desk.each(stream)][-1]
    assert_clean(final)
    raw = await got(desk.client.chat.completions.with_raw_response.create(**asked))
    assert raw.parse().choices[0].message.content == TEXT
    parsed = await got(desk.client.chat.completions.parse(**asked))
    assert parsed.choices[0].message.content == TEXT
    turns = [ctxwrap.turn_of(result) for result in (stream, raw, parsed)]
    assert [turn and turn.report.reading for turn in turns] == ["repaired"] * 3
    questions = [
        seen for seen in desk.provider.seen if text_before_question(json.loads(seen.body)["messages"][-1]["content"])
    ]
    assert not [name for seen in questions for name in seen.headers if name.startswith("x-stainless-raw")]


@on("anthropic", "anthropic-async")
@at_its_desk
async def test_reask_of_a_message_stream_is_a_plain_request(desk: Desk) -> None:
    desk.opens(Model(usable))
    asked: dict[str, Any] = {"model": "m", "max_tokens": 100, "messages": _messages(SAID), "stop_sequences": ["END"]}
    async with opened(desk.client.messages.stream(**asked)) as stream:
        final = await got(stream.get_final_message())
    assert final.content[0].text == TEXT
    assert desk.remembered() == ["w-2"]
    assert "stop_sequences" not in json.loads(desk.provider.seen[-1].body)


@on("litellm", "litellm-async")
@STREAM
@at_its_desk
async def test_router_reasks_through_itself(desk: Desk, stream: bool) -> None:
    desk.provider.answer = Model(usable)
    deployments = [{"model_name": "openai/m", "litellm_params": _at(desk)}]
    desk.client = ctxwrap.wrap(load_litellm().Router(model_list=deployments), store=desk.home, session="s")
    name = "acompletion" if desk.door.is_async else "completion"
    result = await got(getattr(desk.client, name)(model="openai/m", messages=_messages(SAID), stream=stream))
    if stream:
        async for chunk in desk.each(result):
            desk.take(chunk)
    else:
        desk.heard.append(desk.door.text(result))
    assert (desk.text, desk.remembered()) == (TEXT, ["w-2"])


# --- what comes between ---------------------------------------------------------------------------------


@on("chat-async", "responses-async", "anthropic-async", "litellm-async")
@STREAM
@at_its_desk
async def test_cancelled_reask_keeps_the_reply_in_the_log(desk: Desk, stream: bool) -> None:
    came, goes_on = threading.Event(), threading.Event()

    def hang() -> None:
        came.set()
        goes_on.wait(PATIENCE)

    desk.opens(Model(lambda _: Failure(500, hang=hang)))
    task = asyncio.ensure_future(desk.hear(stream=stream))
    assert await asyncio.to_thread(came.wait, PATIENCE)
    task.cancel()
    try:
        with pytest.raises(asyncio.CancelledError):
            await task
    finally:
        goes_on.set()
    assert said(desk.home, "s") == [("user", SAID), ("assistant", TEXT)]
    assert [event["error"] for event in desk.events("reask")] == ["CancelledError"]
    assert [event["status"] for event in desk.events("done")] == ["ok"]
    assert desk.remembered() == []


@on("chat", "responses", "anthropic")
@STREAM
@at_its_desk
async def test_keyboard_interrupt_during_a_reask_reaches_the_caller(desk: Desk, stream: bool) -> None:
    def interrupt(request: Any) -> None:
        if b"could not be taken" in request.content:
            raise KeyboardInterrupt

    desk.opens(Model(), http={"event_hooks": {"request": [interrupt]}})
    with pytest.raises(KeyboardInterrupt):
        await desk.hear(stream=stream)
    assert said(desk.home, "s") == [("user", SAID), ("assistant", TEXT)]
    assert [event["error"] for event in desk.events("reask")] == ["KeyboardInterrupt"]


URL = "https://api.example.com/v1"


@pytest.mark.parametrize(
    "error", [httpx.ReadTimeout("slow"), httpx.ConnectError("gone")], ids=["timeout", "no network"]
)
@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_reask_connection_error_does_not_affect_the_reply(error: Exception, is_async: bool, home: Path) -> None:
    async def call() -> Any:
        with respx.mock:
            reply = httpx.Response(200, json=SPEAKERS[0].whole(Answer(TEXT + UNUSABLE)))
            route = respx.post(f"{URL}/chat/completions").mock(side_effect=[reply, error])
            cls: Any = openai.AsyncOpenAI if is_async else openai.OpenAI
            client = ctxwrap.wrap(cls(api_key="x", base_url=URL, max_retries=0), session="s", store=home)
            result = await got(client.chat.completions.create(model="m", messages=_messages(SAID)))
            assert route.call_count == 2
            return result

    reply = asyncio.run(call())
    assert reply.choices[0].message.content == TEXT
    turn = ctxwrap.turn_of(reply)
    assert turn is not None
    assert turn.report.reask_error == ("APITimeoutError" if "slow" in str(error) else "APIConnectionError")
    assert said(home, "s") == [("user", SAID), ("assistant", TEXT)]


def test_stream_error_after_the_finish_reaches_the_caller(home: Path) -> None:
    """The rest of a stream is read before the question is sent; its failure is the caller's all the same."""

    class Broken(httpx.SyncByteStream):
        def __iter__(self) -> Iterator[bytes]:
            for event in SPEAKERS[0].events(Answer(TEXT + UNUSABLE)):
                yield f"data: {json.dumps(event)}\n\n".encode()
            raise httpx.ReadError("gone")

    with respx.mock:
        headers = {"content-type": "text/event-stream"}
        answers = [httpx.Response(200, headers=headers, stream=Broken()), httpx.Response(500)]
        respx.post(f"{URL}/chat/completions").mock(side_effect=answers)
        client = ctxwrap.wrap(openai.OpenAI(api_key="x", base_url=URL, max_retries=0), session="s", store=home)
        stream = client.chat.completions.create(model="m", messages=_messages(SAID), stream=True)  # type: ignore[call-overload]
        shown: list[Any] = []
        with pytest.raises(httpx.ReadError, match="gone"):
            shown.extend(stream)
    assert "".join(map(_chat_piece, shown)) == TEXT
    assert _finish(shown[-1])


# --- the practice model ---------------------------------------------------------------------------------


PRACTICED = on("chat", "completions", "responses", "anthropic", "litellm")


@PRACTICED
@STREAM
@at_its_desk
async def test_practice_model_answers_a_reask_for_a_missing_snapshot(desk: Desk, stream: bool) -> None:
    desk.opens(PracticeModel(missing=1.0), on_missing="reask")
    for text in ("My name is Ada.", "I like tea.", "I need to buy milk."):
        turn = await desk.hear(text, stream=stream)
        assert (turn.report.reading, turn.report.reasks) == ("repaired", 1)
        assert SEPARATOR not in desk.text
    state = memory_of(ctxwrap.open_store(desk.home), KEY)
    contents = [entry["content"] for tier in state["memory"].values() for entry in tier]
    assert contents == ["The user's name is Ada.", "The user likes tea.", "The user needs to buy milk."]


@PRACTICED
@STREAM
@at_its_desk
async def test_practice_model_answers_a_reask_for_a_damaged_snapshot(desk: Desk, stream: bool) -> None:
    desk.opens(PracticeModel(damaged=1.0))
    for number in range(6):
        turn = await desk.hear(f"I like tea number {number}.", stream=stream)
        assert turn.report.reading in ("repaired", "partial") or "text follows the snapshot" in turn.violations
        assert SEPARATOR not in desk.text
    assert {event["status"] for event in desk.events("reask")} <= {"clean"}
