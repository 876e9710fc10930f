"""A request that the provider calls too long is sent once more, smaller; what that comes to is what the caller sees."""

import json
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import anthropic
import httpx
import openai
import pytest
from click.testing import CliRunner
from pydantic import BaseModel

import ctxwrap
from ctxwrap.cli import main
from ctxwrap.clients.litellm import load_litellm
from ctxwrap.pack.receipt import budget_in, items_in
from ctxwrap.testing.practice import Answer, Failure, Provider, RecordedRequest, script, within
from ctxwrap.types import Record, SessionKey, TurnRecord
from tests.clients.running import at_its_desk, got, on, run_and_close
from tests.support import PassingLog, Told, apart_from_stages, assert_clean, events, said

pytestmark = pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")  # of litellm's own making

TEXT = "Hello, world."
SYSTEM = "You are the caller's own sea captain."
NEWEST = "What did the newest letter say?"
PAIRS = 20
WINDOW = 4000
"""Half of what the whole history takes fits into it, all of it does not."""

KEY = SessionKey("default", "default", "s")


def history(pairs: int = PAIRS) -> list[Any]:
    """Pairs of a question and an answer, 160 words each, and the newest question."""
    told = []
    for number in range(1, pairs + 1):
        told.append({"role": "user", "content": f"letter-{number} came " + "and " * 158})
        told.append({"role": "assistant", "content": f"answer-{number} went " + "and " * 158})
    return [*told, {"role": "user", "content": NEWEST}]


# --- the doors --------------------------------------------------------------------------------------------


def _openai(provider: Provider, is_async: bool, **options: Any) -> Any:
    http: Any = (openai.DefaultAsyncHttpxClient if is_async else openai.DefaultHttpxClient)(verify=False)
    cls: Any = openai.AsyncOpenAI if is_async else openai.OpenAI
    return cls(api_key="k", base_url=provider.openai_url, http_client=http, **{"max_retries": 0, **options})


def _anthropic(provider: Provider, is_async: bool, **options: Any) -> Any:
    http: Any = (anthropic.DefaultAsyncHttpxClient if is_async else anthropic.DefaultHttpxClient)(verify=False)
    cls: Any = anthropic.AsyncAnthropic if is_async else anthropic.Anthropic
    return cls(api_key="k", base_url=provider.anthropic_url, http_client=http, **{"max_retries": 0, **options})


def _litellm(provider: Provider, is_async: bool, **options: Any) -> Any:
    return load_litellm()


def _system(messages: Sequence[Any]) -> list[Any]:
    return [{"role": "system", "content": SYSTEM}, *messages]


def _chat(desk: "Desk", messages: Sequence[Any], **options: Any) -> Any:
    return desk.client.chat.completions.create(model="m", messages=_system(messages), **options)


def _response(desk: "Desk", messages: Sequence[Any], **options: Any) -> Any:
    return desk.client.responses.create(model="m", instructions=SYSTEM, input=list(messages), **options)


def _message(desk: "Desk", messages: Sequence[Any], **options: Any) -> Any:
    return desk.client.messages.create(model="m", system=SYSTEM, max_tokens=50, messages=list(messages), **options)


def _completion(model: str) -> Callable[..., Any]:
    def ask(desk: "Desk", messages: Sequence[Any], **options: Any) -> Any:
        function = desk.client.acompletion if desk.door.is_async else desk.client.completion
        base = desk.provider.openai_url if model.startswith("openai") else desk.provider.anthropic_url
        limits = {} if model.startswith("openai") else {"max_tokens": 50}
        at = {"model": model, "api_base": base, "api_key": "k", "max_retries": 0}
        return function(messages=_system(messages), **at, **{**limits, **options})

    return ask


def _piece_of_chat(event: Any) -> str:
    return (event.choices[0].delta.content or "") if event.choices else ""


@dataclass(frozen=True)
class Door:
    """One way in: how to ask, where replies and events keep their text, and how it refuses."""

    make: Callable[..., Any]
    ask: Callable[..., Any]
    piece: Callable[[Any], str]
    text: Callable[[Any], str]
    refusal: Callable[[], type[Exception]]
    is_async: bool = False


_KINDS: dict[str, tuple[Any, ...]] = {
    "chat": (
        _openai,
        _chat,
        _piece_of_chat,
        lambda reply: reply.choices[0].message.content,
        lambda: openai.BadRequestError,
    ),
    "responses": (
        _openai,
        _response,
        lambda event: str(event.delta) if event.type == "response.output_text.delta" else "",
        lambda reply: reply.output_text,
        lambda: openai.BadRequestError,
    ),
    "anthropic": (
        _anthropic,
        _message,
        lambda event: str(event.delta.text) if event.type == "content_block_delta" else "",
        lambda reply: reply.content[0].text,
        lambda: anthropic.BadRequestError,
    ),
    "litellm": (
        _litellm,
        _completion("openai/m"),
        _piece_of_chat,
        lambda reply: reply.choices[0].message.content,
        lambda: load_litellm().ContextWindowExceededError,
    ),
    "litellm-anthropic": (
        _litellm,
        _completion("anthropic/m"),
        _piece_of_chat,
        lambda reply: reply.choices[0].message.content,
        lambda: load_litellm().ContextWindowExceededError,
    ),
}
DOORS = {
    name + ("-async" if is_async else ""): Door(*how, is_async)
    for name, how in _KINDS.items()
    for is_async in (False, True)
}
MAIN = ("chat", "chat-async", "anthropic", "litellm", "litellm-async")


@dataclass
class Desk:
    """A wrapped client at one door, in front of a provider of its own."""

    door: Door
    home: Path
    provider: Provider
    client: Any = None
    _made: list[Any] = field(default_factory=list)

    def opens(
        self, model: Any, *, store: Any = None, options: Mapping[str, Any] | None = None, **settings: Any
    ) -> None:
        """From now on `model` answers a client that is wrapped with these settings."""
        self.provider.answer = model
        bare = self.door.make(self.provider, self.door.is_async, **(options or {}))
        if self.door.make is not _litellm:
            self._made.append(bare)
        whole = {"budget_messages": 0, **settings}  # the whole history is sent at first, so that it can be too long
        self.client = ctxwrap.wrap(bare, store=store or self.home, session="s", **whole)

    async def hear(
        self, messages: Sequence[Any] | None = None, *, stream: bool = False, **options: Any
    ) -> tuple[str, TurnRecord]:
        """Ask and take all that comes: the text of it, and the turn behind it."""
        options |= {"stream": True} if stream else {}
        result = await got(self.door.ask(self, history() if messages is None else messages, **options))
        pieces = [self.door.piece(event) async for event in self._each(result)] if stream else [self.door.text(result)]
        turn = ctxwrap.turn_of(result)
        assert turn is not None
        return "".join(pieces), turn

    async def refused(self, messages: Sequence[Any] | None = None, **options: Any) -> Any:
        """Ask, and be refused: the error."""
        with pytest.raises(self.door.refusal()) as caught:
            await self.hear(messages, **options)
        return caught.value

    async def _each(self, stream: Any) -> Any:
        """litellm's streams have both ways to read them, whichever client they come from."""
        if self.door.is_async:
            async for event in stream:
                yield event
        else:
            for event in stream:
                yield event

    @property
    def seen(self) -> list[RecordedRequest]:
        return self.provider.seen

    def kinds(self) -> list[str]:
        return [event["type"] for event in events(self.home, "s")]

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        run_and_close(work, self._made, is_async=self.door.is_async)


@cache
def _warm_litellm() -> None:
    """Its first calls import for many seconds, which no test's patience should have to last for."""
    with Provider(Told(TEXT)) as provider:
        for model, url in (("openai/m", provider.openai_url), ("anthropic/m", provider.anthropic_url)):
            load_litellm().completion(model=model, messages=history(0), api_base=url, api_key="k")


@pytest.fixture
def desk(request: pytest.FixtureRequest, home: Path) -> Iterator[Desk]:
    if DOORS[request.param].make is _litellm:
        _warm_litellm()
    with Provider() as provider:
        yield Desk(DOORS[request.param], home, provider)


STREAM = pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])


def assert_trimmed(first: RecordedRequest, second: RecordedRequest) -> None:
    """The second request is the first one without the oldest of its history, and nothing else of the caller's."""
    before, after = first.body.decode(), second.body.decode()
    assert len(after) < len(before)
    assert NEWEST in after
    assert SYSTEM in after
    kept = [number for number in range(1, PAIRS + 1) if f"letter-{number} " in after]
    assert "letter-1 " in before
    assert kept == list(range(PAIRS - len(kept) + 1, PAIRS + 1)), "the newest of the history stay, in one piece"
    assert 0 < len(kept) < PAIRS
    assert [number for number in range(1, PAIRS + 1) if f"answer-{number} " in after] == kept
    assert _callers(first) == _callers(second)


def _callers(seen: RecordedRequest) -> dict[str, Any]:
    """What a request says beside messages, and what is raised for our sake."""
    ours = ("messages", "input", "system", "instructions", "max_tokens")
    return {name: value for name, value in seen.json.items() if name not in ours}


# --- one smaller request ------------------------------------------------------------------------------------


@on(*DOORS)
@STREAM
@at_its_desk
async def test_too_long_request_is_resent_once_with_a_smaller_pack(desk: Desk, stream: bool) -> None:
    desk.opens(within(WINDOW, Told(TEXT)))
    text, turn = await desk.hear(stream=stream)
    assert text == TEXT
    assert_clean(text)
    first, second = desk.seen
    assert_trimmed(first, second)
    assert (turn.report.repacked, turn.report.status, turn.report.reading) == (True, "complete", "clean")
    assert [operation.id for operation in turn.operations] == ["w-1"]
    assert [message["role"] for message in history()] + ["assistant"] == [
        role for role, _ in said(desk.home, "s") if role != "system"
    ]


@on(*DOORS)
@at_its_desk
async def test_log_records_the_repacked_request(desk: Desk) -> None:
    desk.opens(within(WINDOW, Told(TEXT)))
    _, turn = await desk.hear()
    assert desk.kinds() == ["start", "repack", "snapshot", "done"]
    start, repack, _, done = events(desk.home, "s")
    assert repack["run"] == start["run"] == turn.id
    assert repack["sha256"] == turn.report.sha256 != start["sha256"]
    assert repack["budget"]["set_by"] == "the provider"
    assert budget_in(repack)["used"] < budget_in(start)["used"]
    assert items_in(repack) == turn.pack
    assert done["status"] == "ok"
    assert ctxwrap.verify("s", store=desk.home).findings == ()


@on("chat", "responses-async", "anthropic", "litellm")
@at_its_desk
async def test_repack_trims_history_added_from_the_log(desk: Desk) -> None:
    desk.opens(Told(TEXT), retrieval=False)
    await desk.hear([*history()[:-1], {"role": "user", "content": "And letter-0 ?"}])
    desk.seen.clear()
    desk.provider.answer = within(WINDOW, Told(TEXT))
    text, turn = await desk.hear(history()[-1:])
    assert text == TEXT
    assert turn.report.repacked
    first, second = desk.seen
    kept = [number for number in range(1, PAIRS + 1) if f"letter-{number} " in second.body.decode()]
    before = [number for number in range(1, PAIRS + 1) if f"letter-{number} " in first.body.decode()]
    assert len(kept) < len(before)
    assert kept == before[-len(kept) :]
    assert NEWEST in second.body.decode()
    assert SYSTEM in second.body.decode()


@on("chat", "anthropic-async")
@at_its_desk
async def test_call_after_a_repack_continues_the_session(desk: Desk) -> None:
    desk.opens(within(WINDOW, Told(TEXT)))
    await desk.hear()
    text, turn = await desk.hear([{"role": "user", "content": "And then?"}])
    assert (text, turn.round) == (TEXT, PAIRS + 2)
    assert f"letter-{PAIRS} " in desk.seen[-1].body.decode()


@on("chat", "chat-async", "litellm")
@at_its_desk
async def test_repack_restores_the_callers_output_limit(desk: Desk) -> None:
    question = history(0)
    desk.opens(Told(TEXT))
    _, turn = await desk.hear(question, max_tokens=50)
    (asked,) = desk.seen
    assert asked.json["max_tokens"] == 50 + ctxwrap.Settings().snapshot_reserve
    desk.provider.answer = within(1000, Told(TEXT))
    desk.seen.clear()
    text, turn = await desk.hear(question, max_tokens=50)
    assert (text, turn.report.repacked) == (TEXT, True)
    assert [seen.json["max_tokens"] for seen in desk.seen] == [asked.json["max_tokens"], 50]


@on("chat", "anthropic", "litellm", "chat-async", "litellm-async")
@at_its_desk
async def test_repack_does_not_reuse_the_callers_idempotency_key(desk: Desk) -> None:
    desk.opens(within(WINDOW, Told(TEXT)))
    await desk.hear(extra_headers={"Idempotency-Key": "k-1", "x-other": "o"})
    first, second = (seen.headers for seen in desk.seen)
    assert first["idempotency-key"] == "k-1"
    assert second["idempotency-key"] not in ("", "k-1")
    assert first["x-other"] == second["x-other"] == "o"


def test_repack_does_not_reuse_the_sdks_idempotency_keys(provider: Provider, home: Path) -> None:
    class Keyed(openai.OpenAI):
        """Sends the keys that it makes, as some clients of this make do."""

        def __init__(self, **options: Any) -> None:
            super().__init__(**options)
            self._idempotency_header = "Idempotency-Key"

    provider.answer = within(WINDOW, Told(TEXT))
    with Keyed(api_key="k", base_url=provider.openai_url, max_retries=0) as bare:
        client = ctxwrap.wrap(bare, store=home, session="s", budget_messages=0)
        client.chat.completions.create(model="m", messages=history())
        options: Any = {"idempotency_key": "mine"}
        body = {"model": "m", "messages": history()}
        client.post("/chat/completions", body=body, options=options, cast_to=object)
    keys = [seen.headers["idempotency-key"] for seen in provider.seen]
    assert len(set(keys)) == 4
    assert keys[2] == "mine"


SURFACES: dict[str, tuple[str, Callable[[Any, Any], Any], Callable[[Any], str]]] = {
    "raw": (
        "chat",
        lambda client, asked: client.chat.completions.with_raw_response.create(**asked),
        lambda raw: raw.parse().choices[0].message.content,
    ),
    "streaming response": (
        "chat",
        lambda client, asked: client.chat.completions.with_streaming_response.create(**asked),
        lambda response: json.loads(response.read())["choices"][0]["message"]["content"],
    ),
    "stream helper": (
        "chat",
        lambda client, asked: client.chat.completions.stream(**asked),
        lambda stream: stream.get_final_completion().choices[0].message.content,
    ),
    "responses helper": (
        "responses",
        lambda client, asked: client.responses.stream(model="m", input=asked["messages"]),
        lambda stream: stream.get_final_response().output_text,
    ),
    "messages helper": (
        "anthropic",
        lambda client, asked: client.messages.stream(**asked, system=SYSTEM, max_tokens=50),
        lambda stream: stream.get_final_text(),
    ),
}


@pytest.mark.parametrize("surface", SURFACES)
def test_every_surface_resends_a_too_long_request(provider: Provider, home: Path, surface: str) -> None:
    kind, ask, text = SURFACES[surface]
    provider.answer = within(WINDOW, Told(TEXT))
    with DOORS[kind].make(provider, False) as bare:
        client = ctxwrap.wrap(bare, store=home, session="s", budget_messages=0)
        result = ask(client, {"model": "m", "messages": history()})
        if hasattr(result, "__enter__"):
            with result as inside:
                heard = text(inside)
        else:
            heard = text(result)
    assert heard == TEXT
    assert len(provider.seen) == 2
    assert [event["type"] for event in events(home, "s")] == ["start", "repack", "snapshot", "done"]


# --- refused again --------------------------------------------------------------------------------------------


@on(*DOORS)
@STREAM
@at_its_desk
async def test_second_too_long_error_reaches_the_caller(desk: Desk, stream: bool) -> None:
    desk.opens(within(10, Told(TEXT)))
    error = await desk.refused(stream=stream)
    assert len(desk.seen) == 2
    desk.opens(within(10, Told(TEXT)), context_mode="disabled", record=False)
    bare = await desk.refused(stream=stream)
    assert len(desk.seen) == 3
    assert type(error) is type(bare)
    assert error.status_code == bare.status_code == 400
    assert _numberless(str(error)) == _numberless(str(bare))
    assert not [each for each in _behind(error) if isinstance(each, desk.door.refusal())]
    assert desk.kinds() == ["start", "repack", "done"]
    done = events(desk.home, "s")[-1]
    assert (done["status"], done["reason"]) == ("error", f"provider_error: {type(error).__name__}")
    assert said(desk.home, "s")[-1] == ("user", NEWEST)


def _numberless(text: str) -> str:
    return "".join(character for character in text if not character.isdigit())


def _behind(error: BaseException) -> Iterable[BaseException]:
    """What an error was raised from, or while handling."""
    while error := error.__cause__ or error.__context__:  # type: ignore[assignment]
        yield error


@on(*MAIN)
@at_its_desk
async def test_error_of_the_resent_request_reaches_the_caller(desk: Desk) -> None:
    refusing, calls = within(10, Told(TEXT)), iter([0])
    desk.opens(lambda ask: refusing(ask) if next(calls, None) == 0 else Failure(403, "not yours"))
    with pytest.raises(Exception, match="not yours") as caught:
        await desk.hear()
    assert getattr(caught.value, "status_code", None) == 403
    assert len(desk.seen) == 2
    assert desk.kinds() == ["start", "repack", "done"]


@on(*MAIN)
@at_its_desk
async def test_request_that_cannot_shrink_is_not_resent(desk: Desk) -> None:
    desk.opens(within(10, Told(TEXT)))
    await desk.refused(history(0))
    assert len(desk.seen) == 1
    assert desk.kinds() == ["start", "done"]


@on(*MAIN)
@at_its_desk
async def test_other_provider_errors_cause_no_resend(desk: Desk) -> None:
    desk.opens(lambda ask: Failure(400, "the messages make no sense"))
    with pytest.raises(Exception, match="make no sense"):
        await desk.hear()
    assert len(desk.seen) == 1


@on("chat", "chat-async", "anthropic", "anthropic-async")
@at_its_desk
async def test_sdk_retries_apply_before_and_after_a_repack(desk: Desk) -> None:
    busy = Failure(429, "prompt is too long for this minute", headers={"retry-after-ms": "1"})
    answers, fits = iter([busy, None, busy, busy, None]), within(WINDOW, Told(TEXT))
    desk.opens(lambda ask: next(answers) or fits(ask), options={"max_retries": 2})
    text, turn = await desk.hear()
    assert (text, turn.report.repacked) == (TEXT, True)
    first, refused, *again = (seen.body for seen in desk.seen)
    assert first == refused
    assert len(again) == 3
    assert len(set(again)) == 1
    assert desk.kinds() == ["start", "repack", "snapshot", "done"]


# --- modes and settings -----------------------------------------------------------------------------------


@on(*MAIN)
@STREAM
@pytest.mark.parametrize("mode", ["disabled", "shadow"])
@at_its_desk
async def test_disabled_and_shadow_never_resend_a_request(desk: Desk, stream: bool, mode: Any) -> None:
    desk.opens(within(WINDOW, Told(TEXT)), context_mode=mode)
    await desk.refused(stream=stream)
    assert len(desk.seen) == 1
    assert desk.kinds() == ["start", "done"]


@on(*MAIN)
@pytest.mark.parametrize("settings", [{"strict": True}, {"context_mode": "readonly"}], ids=["strict", "readonly"])
@at_its_desk
async def test_strict_and_readonly_calls_resend_a_too_long_request(desk: Desk, settings: dict[str, Any]) -> None:
    desk.opens(within(WINDOW, Told(TEXT)), **settings)
    text, turn = await desk.hear()
    assert (text, turn.report.repacked) == (TEXT, True)
    assert_trimmed(*desk.seen)


@on("chat", "chat-async", "litellm")
@at_its_desk
async def test_strict_repack_does_not_leave_out_a_vital_file(desk: Desk, tmp_path: Path) -> None:
    (tmp_path / "vital.md").write_text("vital " * 3000)
    manifest = tmp_path / "working-set.yml"
    manifest.write_text("files:\n  - path: vital.md\n    priority: 1.0\n    truncate_strategy: never\n")
    desk.opens(within(WINDOW, Told(TEXT)), working_set=str(manifest), strict=True)
    await desk.refused()
    assert len(desk.seen) == 1
    desk.opens(within(WINDOW, Told(TEXT)), working_set=str(manifest), strict=False)
    desk.seen.clear()
    text, turn = await desk.hear()
    assert (text, turn.report.repacked) == (TEXT, True)
    assert any(item.source == "vital.md" and not item.included for item in turn.pack)


class ForgetfulLog(PassingLog):
    """Takes everything but the news of a smaller request."""

    def append(self, batches: Mapping[str, Sequence[Record]], *, lasting: bool = False) -> Mapping[str, int]:
        if any(event["type"] == "repack" for event in batches["events"]):
            raise ctxwrap.StoreUnavailable("the disk is gone")
        return self.inner.append(batches, lasting=lasting)


class ForgetfulStore:
    def __init__(self, home: Path) -> None:
        self._inner = ctxwrap.open_store(home)

    def open(self, key: SessionKey) -> ForgetfulLog:
        return ForgetfulLog(self._inner.open(key))

    def sessions(self, tenant: str, agent: str) -> Iterable[str]:
        return self._inner.sessions(tenant, agent)


@on(*MAIN)
@at_its_desk
async def test_failed_repack_log_write_only_logs_a_warning(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    desk.opens(within(WINDOW, Told(TEXT)), store=ForgetfulStore(desk.home), strict=True)
    text, turn = await desk.hear()
    assert (text, turn.report.repacked, turn.report.not_saved) == (TEXT, True, ())
    assert desk.kinds() == ["start", "snapshot", "done"]
    assert [record.getMessage() for record in caplog.records if record.name == "ctxwrap"] == [
        "ctxwrap: the log does not say that a smaller request was sent: the disk is gone"
    ]


# --- what only looks like it ----------------------------------------------------------------------------------


def test_reply_that_quotes_a_too_long_error_causes_no_resend(provider: Provider, home: Path) -> None:
    class Wanted(BaseModel):
        number: int

    provider.answer = script(Answer("prompt is too long: 9 tokens > 5 maximum"))
    with openai.OpenAI(api_key="k", base_url=provider.openai_url, max_retries=0) as bare:
        client = ctxwrap.wrap(bare, store=home, session="s", budget_messages=0)
        with pytest.raises(ValueError, match="prompt is too long"):
            client.chat.completions.parse(model="m", messages=history(), response_format=Wanted)
    assert len(provider.seen) == 1
    assert [event["type"] for event in events(home, "s")] == ["start", "done"]


def test_too_long_error_inside_a_stream_causes_no_resend(home: Path) -> None:
    error = {"error": {"message": "prompt is too long", "type": "invalid", "code": "context_length_exceeded"}}
    sent = []

    def answer(request: httpx.Request) -> httpx.Response:
        sent.append(request)
        headers = {"content-type": "text/event-stream"}
        return httpx.Response(200, headers=headers, content=f"data: {json.dumps(error)}\n\n")

    http = httpx.Client(transport=httpx.MockTransport(answer))
    with openai.OpenAI(api_key="k", base_url="http://localhost/v1", max_retries=0, http_client=http) as bare:
        client = ctxwrap.wrap(bare, store=home, session="s", budget_messages=0)
        stream = client.chat.completions.create(model="m", messages=history(), stream=True)
        with pytest.raises(openai.APIError, match="prompt is too long"):
            list(stream)
    assert len(sent) == 1
    assert [event["type"] for event in events(home, "s")] == ["start", "done"]


# --- to be seen ---------------------------------------------------------------------------------------------


def test_cli_commands_show_the_repack(provider: Provider, home: Path) -> None:
    provider.answer = within(WINDOW, Told(TEXT))
    with openai.OpenAI(api_key="k", base_url=provider.openai_url, max_retries=0) as bare:
        client = ctxwrap.wrap(bare, store=home, session="s", budget_messages=0)
        client.chat.completions.create(model="m", messages=history())

    def shown(*arguments: str) -> str:
        name, *rest = arguments
        result = CliRunner().invoke(main, [name, "--store", str(home), "s", *rest], env={"COLUMNS": "120"})
        assert result.exit_code == 0, result.output
        return result.stdout

    assert "the provider rejected that as too long" in shown("show", "--turn", "1")
    happened = apart_from_stages(json.loads(shown("show", "--turn", "1", "--json"))["events"])
    assert [event["type"] for event in happened][:2] == ["start", "repack"]
    assert "repack" in shown("tail", "--events")
    assert TEXT in shown("show")
    shown("verify")
