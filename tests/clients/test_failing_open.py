"""A store that fails costs the caller its memory, never its answer; and what it held before stays."""

import errno
import json
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any

import openai
import pytest

import ctxwrap
from ctxwrap.protocol.instructions import strip_injected
from ctxwrap.stores.base import Log
from ctxwrap.testing.practice import Answer, Ask, Provider
from ctxwrap.types import Record, SessionKey
from tests.clients.test_interruptions import APIS, Desk, Heard, Side, assert_in_order, at_its_desk, on
from tests.support import PassingLog, Told, assert_clean, messages, said

SAID, TEXT = "Say hello.", "Hello, world."
KINDS = ("openai", "openai-async", "responses", "anthropic", "anthropic-async", "litellm", "litellm-async")


@pytest.fixture(name="desk")
def _desk(request: pytest.FixtureRequest, home: Path) -> Iterator[Desk]:
    with ExitStack() as stack:
        yield Desk(APIS[request.param], home, stack)


whole_and_streamed = pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])


async def answered(side: Side, *, stream: bool) -> tuple[Any, str]:
    """What the client returns, and the text in it."""
    side.answers(TEXT)
    result = await side.ask(SAID, stream=True) if stream else await side.ask(SAID)
    if not stream:
        return result, side.api.text(result)
    heard = Heard()
    await side.read(result, heard)
    return result, heard.text


def warnings_in(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "ctxwrap" and record.levelname != "INFO"]


# --- stores that fail -----------------------------------------------------------------------------------


class Fault:
    """Fails one step of a store's work until it is mended."""

    def __init__(self, step: str, error: Exception) -> None:
        self.step, self.error = step, error
        self.mended = False

    def at(self, step: str) -> None:
        if step == self.step and not self.mended:
            raise self.error


class FaultyLog(PassingLog):
    def __init__(self, inner: Log, fault: Fault) -> None:
        super().__init__(inner)
        self.fault = fault

    def locked(self, *, redoable: bool = False) -> AbstractContextManager[None]:
        self.fault.at("lock")
        return self.inner.locked(redoable=redoable)

    def read(self, stream: str, after: int = 0) -> tuple[list[Record], int]:
        self.fault.at("read")
        return self.inner.read(stream, after)

    def append(self, batches: Mapping[str, Sequence[Record]], *, lasting: bool = False) -> Mapping[str, int]:
        self.fault.at("begin" if batches["events"][0]["type"] == "start" else "end")
        return self.inner.append(batches, lasting=lasting)


class FaultyStore:
    def __init__(self, home: Path, fault: Fault) -> None:
        self._inner, self._fault = ctxwrap.open_store(home), fault

    def open(self, key: SessionKey) -> FaultyLog:
        self._fault.at("open")
        return FaultyLog(self._inner.open(key), self._fault)

    def sessions(self, tenant: str, agent: str) -> Iterable[str]:
        return self._inner.sessions(tenant, agent)


BEGINNINGS = ("open", "lock", "read", "begin")
ERRORS = {
    "unavailable": ctxwrap.StoreUnavailable("the disk is gone"),
    "corrupt": ctxwrap.StoreCorrupt("the disk is gone"),
    "full": OSError(errno.ENOSPC, "the disk is gone"),
    "unexpected": KeyError("the disk is gone"),
}
failing_at_the_beginning = pytest.mark.parametrize(
    ("step", "error"),
    [(step, "unavailable") for step in BEGINNINGS] + [("begin", error) for error in ERRORS if error != "unavailable"],
)


def assert_not_saved(result: Any, *parts: str, error: str) -> None:
    turn = ctxwrap.turn_of(result)
    assert turn is not None
    assert turn.report.not_saved == parts
    assert error in turn.report.error


@on("openai", "openai-async")
@failing_at_the_beginning
@at_its_desk
async def test_call_whose_turn_cannot_be_opened_runs_as_on_the_bare_client(
    desk: Desk, step: str, error: str, caplog: pytest.LogCaptureFixture
) -> None:
    side = desk.side(derive="inline", store=FaultyStore(desk.home, Fault(step, ERRORS[error])))
    result, text = await answered(side, stream=False)
    assert text == TEXT
    assert_not_saved(result, "request", "reply", error="the disk is gone")
    assert len(warnings_in(caplog)) == 1
    assert_clean(result, side.provider.seen[-1].body)
    assert desk.said() == []


@on("openai", "openai-async")
@failing_at_the_beginning
@at_its_desk
async def test_strict_call_whose_turn_cannot_be_opened_raises_before_sending(desk: Desk, step: str, error: str) -> None:
    side = desk.side(derive="inline", store=FaultyStore(desk.home, Fault(step, ERRORS[error])), strict=True)
    with pytest.raises((ctxwrap.StoreError, type(ERRORS[error])), match="the disk is gone"):
        await side.ask(SAID)
    assert side.provider.seen == []


@on(*KINDS)
@whole_and_streamed
@at_its_desk
async def test_call_with_an_impossible_store_directory_is_answered(
    desk: Desk, stream: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    place = tmp_path / "file" / "x"
    place.parent.write_text("this is a file")
    side = desk.side(store=place)
    result, text = await answered(side, stream=stream)
    assert text == TEXT
    assert_not_saved(result, "request", "reply", error=str(place))
    assert len(warnings_in(caplog)) == 1
    assert_clean(result, side.provider.seen[-1].body)


@on(*KINDS)
@whole_and_streamed
@at_its_desk
async def test_strict_call_with_an_impossible_store_directory_raises(desk: Desk, stream: bool, tmp_path: Path) -> None:
    place = tmp_path / "file" / "x"
    place.parent.write_text("this is a file")
    with pytest.raises(ctxwrap.StoreUnavailable, match="file"):
        await answered(desk.side(store=place, strict=True), stream=stream)
    assert desk.provider.seen == []


@on(*KINDS)
@whole_and_streamed
@pytest.mark.parametrize("strict", [False, True], ids=["lenient", "strict"])
@at_its_desk
async def test_reply_that_cannot_be_saved_is_delivered_without_its_trailer(
    desk: Desk, stream: bool, strict: bool, caplog: pytest.LogCaptureFixture
) -> None:
    side = desk.side(derive="inline", store=FaultyStore(desk.home, Fault("end", ERRORS["full"])), strict=strict)
    result, text = await answered(side, stream=stream)
    assert text == TEXT
    assert_clean(result, text)
    assert_not_saved(result, "reply", error="the disk is gone")
    assert len(warnings_in(caplog)) == 1
    assert desk.said() == [("user", SAID)]


@on("openai", "openai-async", "anthropic")
@pytest.mark.parametrize("error", ERRORS)
@at_its_desk
async def test_store_errors_do_not_reach_the_stream_reader(
    desk: Desk, error: str, caplog: pytest.LogCaptureFixture
) -> None:
    side = desk.side(derive="inline", store=FaultyStore(desk.home, Fault("end", ERRORS[error])))
    side.answers(TEXT)
    stream = await side.ask(SAID, stream=True)
    await side.read(stream, Heard(), lambda event: bool(side.api.piece(event)))
    await side.close(stream)
    assert_not_saved(stream, "reply", error="the disk is gone")
    assert len(warnings_in(caplog)) == 1


@on("openai", "openai-async", "litellm")
@pytest.mark.parametrize("step", [*BEGINNINGS, "end"])
@at_its_desk
async def test_session_continues_after_its_store_recovers(desk: Desk, step: str) -> None:
    fault = Fault(step, ERRORS["unavailable"])
    side = desk.side(derive="inline", store=FaultyStore(desk.home, fault))
    await answered(side, stream=False)
    before = desk.said()
    if step == "end":  # the answer that could not be written is written as soon as that is possible
        before.append(("assistant", "Hello, world."))
    fault.mended = True
    side.answers("Welcome back.")
    result = await side.ask("Are you there?")
    assert side.api.text(result) == "Welcome back."
    assert desk.said() == [*before, ("user", "Are you there?"), ("assistant", "Welcome back.")]
    assert_in_order(desk.home, "s")
    turn = ctxwrap.turn_of(result)
    assert turn is not None
    assert (turn.report.not_saved, turn.report.error) == ((), "")


@on("openai", "anthropic-async", "litellm")
@at_its_desk
async def test_full_history_from_the_caller_restores_a_lost_reply(desk: Desk) -> None:
    fault = Fault("end", ERRORS["unavailable"])
    side = desk.side(derive="inline", store=FaultyStore(desk.home, fault))
    await answered(side, stream=False)
    fault.mended = True
    side.answers("Welcome back.")
    turns = [("user", SAID), ("assistant", TEXT), ("user", "Are you there?")]
    await side.send([{"role": role, "content": content} for role, content in turns])
    assert desk.said() == [*turns, ("assistant", "Welcome back.")]
    assert [entry["ctx"]["round"] for entry in desk.messages()] == [1, 1, 2, 2]


# --- a disk that is full --------------------------------------------------------------------------------

FILLS_THE_DISK = """
import json, os, resource, sys
from pathlib import Path
import openai
import ctxwrap

home, url, directory = sys.argv[1:]
client = ctxwrap.wrap(openai.OpenAI(api_key="k", base_url=url), store=home, session="s")
logs = [Path(directory, name) for name in ("messages.jsonl", "events.jsonl")]
steps = []

def room(size):
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard if size is None else size, hard))

def ask(said):
    reply = client.chat.completions.create(model="m", messages=[{"role": "user", "content": said}])
    report = ctxwrap.turn_of(reply).report
    held = [log.read_text() for log in logs]
    steps.append({"text": reply.choices[0].message.content, "not_saved": report.not_saved, "held": held})

ask("First.")
room(os.stat(logs[0]).st_size + 40)
ask("No room for this.")
room(None)
ask("Third.")
room(max(os.stat(log).st_size for log in logs) + 4096)
ask("No room for the answer: " + "long")
room(None)
ask("Fifth.")
print(json.dumps(steps))
"""


def echo(ask: Ask) -> Answer:
    text = strip_injected(ask.last_user)
    return Told("x" * 20_000 if text.endswith("long") else f"You said: {text}")(ask)


def directory_of(home: Path, session: str = "s") -> Path:
    ctxwrap.flush()
    return home / "home" / "default" / "agent" / "default" / "session" / session


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[dict[str, Any]]]:
    """A process that twice ran out of room in the middle of a write, and what it saw after each of its calls."""
    home = tmp_path_factory.mktemp("filled")
    with Provider(echo) as provider:
        command = [sys.executable, "-c", FILLS_THE_DISK, str(home), provider.openai_url, str(directory_of(home))]
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    assert done.returncode == 0, done.stderr
    return home, json.loads(done.stdout)


Filled = tuple[Path, list[dict[str, Any]]]


def test_full_disk_does_not_block_replies(filled: Filled) -> None:
    _, steps = filled
    said = ["First.", "No room for this.", "Third.", "", "Fifth."]
    assert [step["text"] for step in steps] == [f"You said: {text}" if text else "x" * 20_000 for text in said]
    assert [step["not_saved"] for step in steps] == [[], ["request", "reply"], [], ["reply"], []]


def test_partial_write_failure_leaves_the_log_unchanged(filled: Filled) -> None:
    _, (first, no_room, third, no_answer, fifth) = filled
    assert no_room["held"] == first["held"]
    for before, after in ((no_room, third), (third, no_answer), (no_answer, fifth)):
        for held, grown in zip(before["held"], after["held"], strict=True):
            assert grown.startswith(held)
    assert all(held.endswith("\n") for held in no_answer["held"])


def test_session_continues_after_disk_space_returns(filled: Filled) -> None:
    home, _ = filled
    assert said(home, "s") == [
        ("user", "First."),
        ("assistant", "You said: First."),
        ("user", "Third."),
        ("assistant", "You said: Third."),
        ("user", "No room for the answer: long"),
        ("assistant", "x" * 20_000),
        ("user", "Fifth."),
        ("assistant", "You said: Fifth."),
    ]
    assert_in_order(home, "s")


# --- logs that were damaged -----------------------------------------------------------------------------


class Talk:
    """A session of which every client is a new process's, as far as a client can tell."""

    def __init__(self, provider: Provider, home: Path) -> None:
        self.provider, self.home = provider, home
        self.asked: list[Ask] = []
        provider.answer = self._answer

    def _answer(self, ask: Ask) -> Answer:
        self.asked.append(ask)
        return echo(ask)

    def client(self) -> openai.OpenAI:
        client = openai.OpenAI(api_key="k", base_url=self.provider.openai_url, max_retries=0)
        return ctxwrap.wrap(client, store=self.home, session="s")

    def say(self, text: str, client: openai.OpenAI | None = None) -> None:
        """Say something, and see that it is answered and saved."""
        asking = client or self.client()
        reply = asking.chat.completions.create(model="m", messages=[{"role": "user", "content": text}])
        turn = ctxwrap.turn_of(reply)
        assert turn is not None
        assert reply.choices[0].message.content == f"You said: {text}"
        assert (turn.report.not_saved, turn.report.error, turn.report.status) == ((), "", "complete")
        assert said(self.home, "s")[-2:] == [("user", text), ("assistant", f"You said: {text}")]

    def path(self, stream: str) -> Path:
        return directory_of(self.home) / f"{stream}.jsonl"


@pytest.fixture
def talk(provider: Provider, home: Path) -> Talk:
    talk = Talk(provider, home)
    client = talk.client()
    talk.say("First.", client)
    talk.say("Second.", client)
    return talk


@pytest.mark.parametrize("stream", ["messages", "events"])
@pytest.mark.parametrize("cut", [2, 20, 60])
def test_torn_batch_is_set_aside_and_earlier_records_stay_readable(talk: Talk, stream: str, cut: int) -> None:
    path = talk.path(stream)
    whole = path.read_bytes()
    path.write_bytes(whole[:-cut])
    *_, last = map(json.loads, whole.splitlines())
    batch = last["ctx"].get("b", [0, 1])[1]
    good = b"".join(whole.splitlines(keepends=True)[:-batch])
    talk.say("Third.")
    assert path.read_bytes().startswith(good)
    (torn,) = path.parent.glob(f"{stream}*.torn-*")
    assert torn.read_bytes() == whole[len(good) : -cut]
    assert_in_order(talk.home, "s")
    assert ("user", "First.") in talk.asked[-1].messages


@pytest.mark.parametrize("stream", ["messages", "events"])
def test_complete_last_line_without_a_newline_is_kept(talk: Talk, stream: str) -> None:
    path = talk.path(stream)
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    talk.say("Third.")
    assert path.read_bytes().startswith(whole)
    assert_in_order(talk.home, "s")


def test_line_torn_by_another_process_does_not_block_writes(talk: Talk) -> None:
    client = talk.client()
    talk.say("Third.", client)
    with talk.path("messages").open("ab") as log:
        log.write(b'{"role":"user","content":"half a li')
    talk.say("Fourth.", client)
    assert len(messages(talk.home, "s")) == 8
    assert_in_order(talk.home, "s")


GARBAGE = [b"garbage", b"\xff\xfe\x00\x01", b"", b'{"role":"user"', b"[1,2]", b"null", b"[" * 100_000]
STRANGE_MESSAGES = [
    b"{}",
    b'{"role":"user","content":"x","ctx":3}',
    b'{"role":"user","content":{"a":1},"ctx":{"round":"x"}}',
    b'{"role":"assistant","content":null,"tool_calls":[{}],"ctx":null}',
]
STRANGE_EVENTS = [
    b'{"type":"start"}',
    b'{"type":"start","runtime":{"round":"x"}}',
    b'{"type":"snapshot","operations":[{}]}',
    b'{"type":"snapshot","operations":[{"kind":"burn","id":"x","tier":"attic"}]}',
]


def put_in_the_middle(path: Path, line: bytes) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:2], line + b"\n", *lines[2:]]))


@pytest.mark.parametrize(
    ("stream", "line"),
    [
        *(("messages", line) for line in (*GARBAGE, *STRANGE_MESSAGES)),
        *(("events", line) for line in (*GARBAGE, *STRANGE_EVENTS)),
    ],
    ids=lambda value: value[:40].decode("latin-1") if isinstance(value, bytes) else value,
)
def test_invalid_log_line_hides_no_other_line(talk: Talk, stream: str, line: bytes) -> None:
    put_in_the_middle(talk.path(stream), line)
    client = talk.client()
    for text in ("Third.", "Fourth."):
        reply = client.chat.completions.create(model="m", messages=[{"role": "user", "content": text}])
        turn = ctxwrap.turn_of(reply)
        assert turn is not None
        assert (turn.report.not_saved, turn.report.error) == ((), "")
    shown = talk.asked[-1].messages
    assert [text for role, text in shown if text in ("First.", "Second.", "Third.")] == ["First.", "Second.", "Third."]
    assert line in talk.path(stream).read_bytes()
