"""A session whose process is killed, or whose disk refuses, at any moment of three turns opens again and goes on."""

import errno
import itertools
import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import ctxwrap
from ctxwrap.inspect import session_details
from ctxwrap.protocol.instructions import SEPARATOR, parse_block
from ctxwrap.providers.openai_chat import OpenAIChat
from ctxwrap.session.lookup import open_existing
from ctxwrap.session.verify import verify
from ctxwrap.settings import Settings
from ctxwrap.stores.files.store import FileStore
from ctxwrap.turn import sync
from ctxwrap.turn.binding import CallScope, ClientBinding
from ctxwrap.turn.lifecycle import PassthroughCall
from ctxwrap.types import Body, SessionKey
from tests.stores.faults import Seam, failing, installed, killing
from tests.support import item

KEY = SessionKey("default", "default", "s")
LARGE = "a line of output\n" * 200

EVERY = int(os.environ.get("CTXWRAP_TEST_EVERY", "3"))
"""Each call of the system that may be the last takes a tenth of a second to try: 1 is all of them."""
Tell = Callable[[str], object]


def no_question(body: Body) -> Body:
    raise AssertionError("nothing is to be asked again")


def answered(call: sync.Call, text: str, number: int) -> None:
    content = call.body["messages"][-1]["content"]
    state = parse_block(content if isinstance(content, str) else content[-1]["text"])
    assert state is not None
    state["memory"]["working"].append(item(f"w-{number}", f"Thing number {number} of some interest"))
    message = {"role": "assistant", "content": f"{text}\n\n{SEPARATOR}\n{json.dumps(state)}"}
    call.reply({"id": "x", "model": "m", "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]})


def turns(root: Path, tell: Tell, *, first: int = 0, durability: Any = "turn", derive: Any = "inline") -> None:
    """Three turns, one of them with a large content, as a wrapped client drives them; each is told when it is saved."""
    context = ClientBinding(store=FileStore(root), settings=Settings(durability=durability, derive=derive), session="s")
    for number in range(first, first + 3):
        said = f"question {number} {LARGE if number == 1 else ''}"
        body = {"model": "m", "messages": [{"role": "user", "content": said}]}
        if number == 1:
            body["messages"][0]["content"] = said * 8
        call = sync.begin(context, OpenAIChat(), lambda body=body: body, CallScope(KEY, "enabled"), no_question)
        if isinstance(call, PassthroughCall):
            continue
        tell(f"question {number}")
        answered(call, f"answer {number}", number)
        if not call.record.report.not_saved:
            tell(f"answer {number}")
    ctxwrap.flush()


def in_child(work: Callable[[Tell], None]) -> tuple[list[str], int]:
    """What a child told, and the signal that ended it."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reading)
            work(lambda text: os.write(writing, f"{text}\n".encode()))
        finally:
            os._exit(1)
        os._exit(0)
    os.close(writing)
    with open(reading) as heard:
        told = heard.read().splitlines()
    status = os.waitpid(child, 0)[1]
    return told, os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0


def said(root: Path) -> list[str]:
    session = open_existing(KEY, root)
    return [" ".join(str(record["content"]).split()[:2]) for record in session.records("messages")]


def assert_whole(root: Path, told: list[str], derive: str) -> None:
    """All that was told is there once and in order, nothing is damaged, and the session goes on."""
    before = [text for text in (said(root) if told else []) if text in told]
    assert before == told
    turns(root, told.append, first=10, derive=derive)
    after = said(root)
    assert [text for text in after if text in told] == told
    report = verify("s", store=root)
    assert [finding for finding in report.findings if finding.severity != "note"] == []
    session = open_existing(KEY, root)
    derived = derived_files(root)
    with session.locked():
        assert session.state.turns.begun == {}
        session.rebuild()
    assert derived_files(root) == derived


def derived_files(root: Path) -> dict[str, bytes]:
    directory = FileStore(root).open(KEY).directory
    found = [path for path in (directory / "context").rglob("*") if path.is_file() and not path.name.startswith(".")]
    assert any(path.name == "pack.json" for path in found)
    return {str(path.relative_to(directory)): path.read_bytes() for path in found}


def counted(root: Path, **how: Any) -> Seam:
    """A seam that has seen three turns go well."""
    ctxwrap.flush()  # what other tests left
    with installed(Seam()) as seam:
        turns(root, lambda text: None, **how)
    return seam


@pytest.mark.parametrize(
    ("durability", "derive", "step"),
    [("os", "inline", 5 * EVERY), ("always", "inline", EVERY), ("turn", "behind", 2 * EVERY)],
)
def test_kill_at_any_system_call_of_three_turns_loses_no_turn(
    tmp_path: Path, durability: str, derive: str, step: int
) -> None:
    last = counted(tmp_path / "counted", durability=durability, derive=derive).total
    deaths = 0
    for number in itertools.count(1, step):

        def work(tell: Tell, number: int = number) -> None:
            with installed(Seam(killing(number))):
                turns(tmp_path / str(number), tell, durability=durability, derive=derive)

        told, ended_by = in_child(work)
        if ended_by != signal.SIGKILL:
            break
        deaths += 1
        assert_whole(tmp_path / str(number), told, derive)
    assert deaths > last // step // 2


CODES = (errno.ENOSPC, errno.EIO, errno.EDQUOT)


@pytest.mark.parametrize("derive", ["inline", "behind"])
@pytest.mark.parametrize("for_ever", [False, True], ids=["once", "for ever"])
def test_refused_write_at_any_point_of_three_turns_loses_no_turn(tmp_path: Path, for_ever: bool, derive: str) -> None:
    for number in range(1, counted(tmp_path / "counted", derive=derive).counts["write"] + 1):

        def work(tell: Tell, number: int = number) -> None:
            with installed(Seam(failing("write", number, CODES[number % len(CODES)], for_ever=for_ever))):
                turns(tmp_path / str(number), tell, derive=derive)

        assert_whole(tmp_path / str(number), in_child(work)[0], derive)


def begun(root: Path) -> tuple[ClientBinding, sync.Call]:
    """A turn whose answer is written down as far as it came."""
    context = ClientBinding(store=FileStore(root), settings=Settings(), session="s")
    body = {"model": "m", "stream": True, "messages": [{"role": "user", "content": "question 0"}]}
    call = sync.begin(context, OpenAIChat(), lambda: body, CallScope(KEY, "enabled"), no_question)
    assert isinstance(call, sync.Call)
    for _ in range(250):
        call.event({"id": "x", "model": "m", "choices": [{"index": 0, "delta": {"content": "word "}}]})
    return context, call


def streams(root: Path) -> dict[str, bytes]:
    return {
        name: (FileStore(root).open(KEY).directory / name).read_bytes() for name in ("messages.jsonl", "events.jsonl")
    }


def cuts(before: bytes, after: bytes) -> list[int]:
    """Where the writing of what was added may have stopped: within each of its lines, and between them."""
    ends = [at + 1 for at, byte in enumerate(after) if byte == ord("\n") and at + 1 >= len(before)]
    return sorted({len(before), *ends, *(end - 7 for end in ends if end > len(before))})


def test_partly_written_turn_end_leaves_the_reply_once(tmp_path: Path) -> None:
    """The streams are written one after the other: of the events nothing is there before all messages are."""
    _, call = begun(tmp_path)
    before = streams(tmp_path)
    assert b'"delta"' in before["events.jsonl"]
    call.event({"id": "x", "model": "m", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    call.end()
    after = streams(tmp_path)
    (writer,) = (tmp_path / ".writers").iterdir()
    writer.unlink()
    prefixes = [(at, len(before["events.jsonl"])) for at in cuts(before["messages.jsonl"], after["messages.jsonl"])]
    prefixes += [(len(after["messages.jsonl"]), at) for at in cuts(before["events.jsonl"], after["events.jsonl"])]
    directory = FileStore(tmp_path).open(KEY).directory
    for prefix in prefixes:
        for (name, whole), length in zip(after.items(), prefix, strict=True):
            (directory / name).write_bytes(whole[:length])
        (directory / ".checkpoint").unlink(missing_ok=True)
        session = open_existing(KEY, tmp_path)
        with session.locked():
            history = [(kept.message.role, kept.message.text.split()) for kept in session.state.branch.history(0)]
        assert [role for role, _ in history] == ["user", "assistant"], prefix
        assert 200 <= len(history[1][1]) <= 250
        assert len(history[1][1]) == 250 or prefix[0] < len(after["messages.jsonl"])
        with open_existing(KEY, tmp_path).locked():
            pass
        assert [finding for finding in verify("s", store=tmp_path).findings if finding.severity == "damage"] == []
        (turn,) = session_details(FileStore(tmp_path), KEY).turns
        assert turn.status == ("ok" if prefix[0] == len(after["messages.jsonl"]) else "cancelled")


def test_half_written_turn_end_is_completed(tmp_path: Path) -> None:
    context, call = begun(tmp_path)
    end = {"id": "x", "model": "m", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
    call.event(end)
    refused = failing("write", 2, errno.ENOSPC)

    def refuses(name: str, number: int, total: int) -> int | None:
        if name == "ftruncate":
            raise OSError(errno.EIO, "Input/output error")
        return refused(name, number, total)

    with installed(Seam(refuses)):
        call.end()
    assert call.record.report.not_saved == ("reply",)
    session = context.session(KEY)
    with session.locked():
        pass
    assert len([text for text in said(tmp_path) if text == "word word"]) == 1
    assert session.state.turns.is_over(call.record.id)
    assert [finding for finding in verify("s", store=tmp_path).findings if finding.severity != "note"] == []


def test_reply_refused_by_the_disk_is_written_later(tmp_path: Path) -> None:
    context = ClientBinding(store=FileStore(tmp_path), settings=Settings(), session="s")
    calls = []
    for number in range(2):
        body = {"model": "m", "messages": [{"role": "user", "content": f"question {number}"}]}
        call = sync.begin(context, OpenAIChat(), lambda body=body: body, CallScope(KEY, "enabled"), no_question)
        assert isinstance(call, sync.Call)
        with installed(Seam(failing("write", 1, errno.ENOSPC, for_ever=number == 0))):
            answered(call, f"answer {number}", number)
        calls.append(call.record.report.not_saved)
    assert calls[0] == ("reply",)
    assert said(tmp_path)[:3] == ["question 0", "answer 0", "question 1"]
    assert "w-0" in open_existing(KEY, tmp_path).memory.items


def test_turn_is_ended_after_a_failed_sync_of_its_start(tmp_path: Path) -> None:
    context = ClientBinding(store=FileStore(tmp_path), settings=Settings(durability="always"), session="s")
    body = {"model": "m", "messages": [{"role": "user", "content": "question"}]}
    with installed(Seam(failing("fdatasync", 2, errno.EIO))):  # the first is that of the protocol's words
        call = sync.begin(context, OpenAIChat(), lambda: body, CallScope(KEY, "enabled"), no_question)
    assert isinstance(call, PassthroughCall)
    past = open_existing(KEY, tmp_path).state
    assert past.turns.begun == {}
    assert past.turns.state != "active"
