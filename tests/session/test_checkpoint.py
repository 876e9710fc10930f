"""Checkpoints: a session opened from one is the session that its whole log makes, whatever happened to it."""

import json
import logging
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxwrap.errors import NotFound
from ctxwrap.inspect import memory_of
from ctxwrap.memory.items import MemoryItem
from ctxwrap.session.purge import forget, purge
from ctxwrap.session.session import _CHECKPOINT_EVERY, Session
from ctxwrap.stores.base import Checkpoint, Store
from ctxwrap.stores.files.store import FileStore
from ctxwrap.stores.log_format import as_record
from ctxwrap.stores.memory import MemoryStore
from ctxwrap.types import Message, Record, Request, SessionKey, TurnInputs
from tests.support import PassingLog

KEY = SessionKey("t", "a", "s")
OTHER = KEY._replace(session="other")
NOW = datetime(2026, 2, 20, 18, 30, tzinfo=UTC)
CALL = Message("assistant", "", tool_calls=({"id": "c1", "name": "f", "arguments": '{"x": 1}'},))
RESULT = Message("tool", "42", tool_call_id="c1", extra={"cached": True})
PICTURE = Message("user", [{"type": "text", "text": "Look:"}, {"type": "image", "url": "data:…"}], name="ada")


def user(text: str) -> Message:
    return Message("user", text)


class Bare(PassingLog):
    """A log without its checkpoint."""

    def load_checkpoint(self) -> Checkpoint | None:
        return None

    def save_checkpoint(self, checkpoint: Checkpoint) -> None:
        raise OSError("nothing is kept")


class Caller:
    """Somebody who talks to a session through any of its instances."""

    def __init__(self, store: Store, key: SessionKey = KEY) -> None:
        self.store, self.key = store, key
        self.sessions = [self.opened(), self.opened()]
        self.state: list[Message] = []
        self.turns = 0

    def opened(self) -> Session:
        return Session(self.key, self.store.open(self.key))

    def replayed(self) -> Session:
        return Session(self.key, Bare(self.store.open(self.key)))

    def turn(self, messages: Sequence[Message], answer: Message | None, *, at: int = 0, keeps: str = "") -> TurnInputs:
        """One turn of instance `at`, whose answer remembers `keeps`; without an answer it is aborted."""
        self.turns += 1
        session, id = self.sessions[at], f"t{self.turns}"
        with session.locked():
            opening = session.open_turn(Request(tuple(messages)), NOW)
            parents = iter([opening.parent])
            said = [
                as_record(message, round=number, parent="" if message.role == "system" else next(parents, ""))
                for message, number in opening.new
            ]
            session.append(id, said, [{"type": "start", "runtime": opening.runtime.as_json(), "ctx": {}}], NOW)
        if answer is None:
            return opening
        parent = "" if any(message.role != "system" for message, _ in opening.new) else opening.parent
        with session.locked():
            reply = as_record(answer, round=opening.runtime.round, parent=parent)
            session.append(id, [reply], [remembers(keeps)] if keeps else [], NOW)
        return opening

    def says(self, message: Message, answer: Message | None, sends: int | None = None, **how: Any) -> TurnInputs:
        """Go on with `message` and send the last `sends` messages of the past along, or all of them."""
        self.state.append(message)
        sent = self.state if sends is None else self.state[max(0, len(self.state) - 1 - sends) :]
        opening = self.turn(sent, answer, **how)
        self.state += [answer] if answer else []
        return opening

    def goes_back(self, count: int) -> None:
        del self.state[max(0, len(self.state) - count) :]


def remembers(text: str) -> Record:
    item = MemoryItem(
        id=f"core-{len(text)}",
        type="fact",
        content=text,
        tags=(),
        tier="core",
        decay=0.1,
        anchor=1,
        first=1,
        last=1,
        since=1,
        importance=0.1,
    )
    operation = {"kind": "add", "id": item.id, "tier": item.tier, "item": item.as_json()}
    return {"type": "snapshot", "operations": [operation], "active_task": text, "ctx": {}}


def openings(session: Session, past: Sequence[Message]) -> list[TurnInputs]:
    """Everything that a turn could start from, for callers of every kind."""
    session.refresh()
    requests = (
        [user("new")],
        [*past, user("new")],
        [*past[-3:], user("new")],
        [*past[:-1], user("edited")],
        [*past[:-3], user("edited"), Message("assistant", "mine"), user("new")],
        [Message("system", "Be brief."), *past],
        past[:-1],
        [RESULT],
        [user("strange"), Message("assistant", "beginning"), *past[-2:], user("new")],
    )
    return [session.open_turn(Request(tuple(messages)), NOW) for messages in requests]


@contextmanager
def limits(*, every: int = 1, window: int = 2000, recent: int = 400, size: int = 1_000_000) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ctxwrap.session.session._CHECKPOINT_EVERY", every)
        patch.setattr("ctxwrap.session.branch._WINDOW", window)
        patch.setattr("ctxwrap.session.branch._RECENT", recent)
        patch.setattr("ctxwrap.session.branch._RECENT_SIZE", size)
        yield


def checkpoint_of(root: Path, key: SessionKey = KEY) -> Path:
    return FileStore(root).open(key).directory / ".checkpoint"


TEXTS = st.sampled_from(["ok", "yes", "no", "a longer text " * 3, "\ud800", ""])
MESSAGES = st.one_of(TEXTS.map(user), st.just(PICTURE))
ANSWERS = st.one_of(st.none(), TEXTS.map(lambda text: Message("assistant", text)), st.just(CALL))
SENDS = st.one_of(st.none(), st.integers(0, 9))
STEPS = st.one_of(
    st.tuples(st.just("say"), MESSAGES, ANSWERS, SENDS, st.integers(0, 1), st.sampled_from(["", "", "fact", "other"])),
    st.tuples(st.just("tool"), ANSWERS),
    st.tuples(st.just("edit"), st.integers(1, 12), MESSAGES, ANSWERS),
    st.tuples(st.just("again"), ANSWERS),
    st.tuples(st.just("system"), TEXTS),
    st.tuples(st.just("reopen"), st.integers(0, 1)),
    st.tuples(st.just("by hand"), TEXTS),
    st.tuples(st.just("purge"), st.integers(1, 30)),
    st.tuples(st.just("forget"), st.sampled_from(["fact", "other"])),
    st.tuples(st.just("damage"), st.sampled_from(["cut", "flip", "empty", "gone", "old", "strange", "list"]),
              st.floats(0, 0.999)),
)  # fmt: skip
LIMITS = st.fixed_dictionaries(
    {
        "every": st.integers(1, 12),
        "window": st.integers(1, 12),
        "recent": st.integers(1, 8),
        "size": st.integers(1, 200),
    }
)


class World:
    """A session in files to which anything may happen, and another one beside it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.caller = Caller(FileStore(root))
        self.path = checkpoint_of(root)
        self.old = b""
        stranger = Caller(FileStore(root), OTHER)
        for _ in range(12):
            stranger.says(user("mine"), Message("assistant", "yours"))

    def step(self, kind: str, *details: Any) -> None:
        getattr(self, kind.replace(" ", "_"))(*details)

    def say(self, message: Message, answer: Message | None, sends: int | None, at: int, keeps: str) -> None:
        self.caller.says(message, answer, sends, at=at, keeps=keeps)

    def tool(self, answer: Message | None) -> None:
        self.caller.says(user("use the tool"), CALL)
        self.caller.says(RESULT, answer, at=1)

    def edit(self, back: int, message: Message, answer: Message | None) -> None:
        self.caller.goes_back(back)
        self.caller.says(message, answer)

    def again(self, answer: Message | None) -> None:
        if self.caller.state and self.caller.state[-1].role == "assistant":
            self.caller.goes_back(1)
            self.caller.turn(self.caller.state, answer)
            self.caller.state += [answer] if answer else []

    def system(self, text: str) -> None:
        self.caller.turn([Message("system", text), user("and?")], None)

    def reopen(self, at: int) -> None:
        self.caller.sessions[at] = self.caller.opened()

    def by_hand(self, text: str) -> None:
        with self.caller.sessions[0].locked(), open(self.path.parent.parent / "messages.jsonl", "ab") as file:
            file.write(json.dumps({"role": "user", "content": text}).encode() + b"\nno record\n")

    def purge(self, number: int) -> None:
        """What callers send is as new, or as well known, as it was before."""
        before = openings(self.caller.replayed(), self.caller.state)
        with suppress(NotFound):
            purge(KEY.session, message=number, store=self.caller.store, tenant=KEY.tenant, agent=KEY.agent)
        after = openings(self.caller.replayed(), self.caller.state)
        assert [(opening.new, opening.parent) for opening in after] == [
            (opening.new, opening.parent) for opening in before
        ]

    def forget(self, query: str) -> None:
        with suppress(NotFound):
            forget(KEY.session, query=query, store=self.caller.store, tenant=KEY.tenant, agent=KEY.agent)
        contents = [item["content"] for tier in memory_of(self.caller.store, KEY)["memory"].values() for item in tier]
        assert query not in contents

    def damage(self, how: str, where: float) -> None:
        if not self.path.exists():
            return
        whole = self.path.read_bytes()
        at = int(len(whole) * where)
        others = checkpoint_of(self.root, OTHER)
        match how:
            case "gone":
                self.path.unlink()
            case "old":
                self.path.write_bytes(self.old or whole)
                self.old = whole
            case "cut":
                self.path.write_bytes(whole[:at])
            case "flip" if whole:
                self.path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
            case "empty":
                self.path.write_bytes(b"")
            case "list":
                self.path.write_bytes(b"[1]\n")
            case "strange" if others.exists():
                self.path.write_bytes(others.read_bytes())

    def compare(self) -> None:
        past = self.caller.state
        replayed = self.caller.replayed()
        expected = openings(replayed, past)
        for session in (self.caller.opened(), *self.caller.sessions):
            assert openings(session, past) == expected
            assert session.state.as_json() == self.known
        assert memory_of(self.caller.store, KEY) == replayed.memory.shown()

    @property
    def known(self) -> Record:
        session = self.caller.replayed()
        session.refresh()
        return session.state.as_json()


@given(st.lists(STEPS, max_size=30), LIMITS)
def test_session_from_checkpoint_equals_session_from_log(steps: list[Any], bounds: dict[str, int]) -> None:
    with TemporaryDirectory() as root, limits(**bounds):
        world = World(Path(root))
        for step in steps:
            world.step(*step)
            world.compare()


def test_opening_reads_only_records_after_the_checkpoint(tmp_path: Path) -> None:
    caller = Caller(FileStore(tmp_path))
    for number in range(100):
        caller.says(user(f"{number}"), Message("assistant", f"re {number}"), keeps=f"{number}")
    checkpoint = FileStore(tmp_path).open(KEY).load_checkpoint()
    assert checkpoint is not None
    for stream, position in checkpoint.positions.items():
        path = FileStore(tmp_path).open(KEY).directory / f"{stream}.jsonl"
        lines = path.read_bytes()
        assert lines[position:].count(b"\n") < _CHECKPOINT_EVERY
        path.write_bytes(b"x" * (position - 100) + lines[position - 100 :])
    assert openings(caller.opened(), caller.state) == openings(caller.sessions[0], caller.state)


def test_checkpoint_of_a_truncated_or_replaced_log_is_ignored(tmp_path: Path) -> None:
    with limits():
        caller = Caller(FileStore(tmp_path))
        for number in range(9):
            caller.says(user(f"{number}"), Message("assistant", f"re {number}"))
        log = FileStore(tmp_path).open(KEY)
        assert log.load_checkpoint() is not None
        path = log.directory / "messages.jsonl"
        lines = path.read_bytes().splitlines(keepends=True)
        other = lines[-1][:-6] + (b"0" if lines[-1][-6:-5] != b"0" else b"1") + lines[-1][-5:]
        for kept in (lines[:-1], [*lines[:-1], other], lines[:4], []):
            path.write_bytes(b"".join(kept))
            assert log.load_checkpoint() is None
            assert openings(caller.opened(), caller.state) == openings(caller.replayed(), caller.state)
        path.unlink()
        assert log.load_checkpoint() is None


@pytest.mark.parametrize("store", [FileStore, lambda _: MemoryStore()], ids=["files", "memory"])
@pytest.mark.parametrize(
    "change",
    [{"format": 99}, {"branch": None}, {"branch": {}}, {"sequence": {}}, {"runtime": {"x": 1}}, {"round": ...}],
)
def test_checkpoint_of_another_version_is_ignored(
    tmp_path: Path, store: Any, change: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    caller = Caller(store(tmp_path))
    caller.says(user("one"), Message("assistant", "1"), keeps="fact")
    log = caller.store.open(KEY)
    known = {
        name: value for name, value in {**caller.sessions[0].state.as_json(), **change}.items() if value is not ...
    }
    with log.locked():
        log.save_checkpoint(Checkpoint({stream: log.read(stream)[1] for stream in ("messages", "events")}, known))
    with caplog.at_level(logging.DEBUG, "ctxwrap"):
        assert openings(caller.opened(), caller.state) == openings(caller.replayed(), caller.state)
    assert "ignored its checkpoint" in caplog.text
    assert {entry.levelname for entry in caplog.records} == {"DEBUG"}


def test_unwritable_checkpoint_is_no_error(tmp_path: Path) -> None:
    with limits():
        caller = Caller(FileStore(tmp_path))
        caller.says(user("one"), Message("assistant", "1"))
        checkpoint_of(tmp_path).unlink()
        checkpoint_of(tmp_path).mkdir()
        caller.says(user("two"), Message("assistant", "2"))
        assert openings(caller.opened(), caller.state) == openings(caller.replayed(), caller.state)


def test_inspection_reads_the_checkpoint_and_writes_nothing(tmp_path: Path) -> None:
    caller = Caller(FileStore(tmp_path))
    for number in range(100):
        caller.says(user(f"{number}"), Message("assistant", "yes"), keeps=f"fact {number}")
    checkpoint_of(tmp_path).unlink()
    before = {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in tmp_path.rglob("*")}
    assert memory_of(caller.store, KEY)["active_task"] == "fact 99"
    assert before == {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in tmp_path.rglob("*")}


def test_many_instances_write_no_more_checkpoints_than_one(monkeypatch: pytest.MonkeyPatch) -> None:
    for instances in (1, 2):
        saved = []
        monkeypatch.setattr(
            "ctxwrap.stores.simple.SimpleLog.save_checkpoint", lambda _, kept, saved=saved: saved.append(kept)
        )
        caller = Caller(MemoryStore())
        for number in range(400):
            caller.says(user("x"), Message("assistant", "y"), 0, at=number % instances)
        assert 1200 // _CHECKPOINT_EVERY - 1 <= len(saved) <= 1200 // _CHECKPOINT_EVERY


def test_short_lived_processes_keep_checkpoints_too(tmp_path: Path) -> None:
    caller = Caller(FileStore(tmp_path))
    for number in range(100):
        caller.sessions[0] = caller.opened()
        caller.says(user(f"{number}"), Message("assistant", "yes"), 0)
    assert checkpoint_of(tmp_path).exists()


class TestALongSession:
    """Callers whose list begins before what the session still knows."""

    @pytest.fixture
    def caller(self) -> Iterator[Caller]:
        with limits(window=20, recent=10):
            caller = Caller(MemoryStore())
            for number in range(30):
                caller.says(user(f"{number}"), Message("assistant", f"re {number}"), 0)
            yield caller

    @pytest.mark.parametrize("sends", [None, 50, 21, 20, 19, 3, 0])
    def test_any_suffix_of_the_history_may_be_sent(self, caller: Caller, sends: int | None) -> None:
        opening = caller.says(user("new"), Message("assistant", "yes"), sends)
        assert [message for message, _ in opening.new] == [user("new")]
        assert (opening.parent, opening.runtime.round) == ("", 31)

    @pytest.mark.parametrize("sends", [None, 45])
    @pytest.mark.parametrize("back", [1, 2, 7, 18])
    def test_edit_within_the_known_history_is_a_branch(self, caller: Caller, back: int, sends: int | None) -> None:
        at = len(caller.state) - back
        caller.goes_back(back)
        opening = caller.says(user("edited"), Message("assistant", "yes"), sends)
        assert [message for message, _ in opening.new] == [user("edited")]
        assert opening.parent == caller.store.open(KEY).read("messages")[0][at - 1]["ctx"]["id"]
        onward = caller.says(user("onward"), None)
        assert ([message for message, _ in onward.new], onward.parent) == ([user("onward")], "")

    def test_edit_before_the_known_history_is_a_branch_from_the_root(self, caller: Caller) -> None:
        caller.goes_back(41)
        caller.state += [user("edited"), Message("assistant", "mine")]
        opening = caller.says(user("new"), Message("assistant", "yes"))
        assert opening.parent == "root"
        assert [message for message, _ in opening.new] == caller.state[:-1]
        onward = caller.says(user("onward"), None)
        assert ([message for message, _ in onward.new], onward.parent) == ([user("onward")], "")

    def test_repeated_first_message_starts_no_new_history(self, caller: Caller) -> None:
        caller.says(user("0"), None)
        opening = caller.turn(caller.state, None)
        assert opening.new == ()
        assert opening.parent == ""

    def test_message_with_an_unknown_parent_starts_a_new_history(self, caller: Caller) -> None:
        session = caller.sessions[0]
        forgotten = caller.store.open(KEY).read("messages")[0][3]["ctx"]["id"]
        with session.locked():
            session.append("late", [as_record(user("late"), round=31, parent=forgotten)], [], NOW)
        opening = caller.turn([user("next")], None)
        assert [kept.message.content for kept in opening.history] == ["late"]
        whole = caller.turn([*caller.state[:4], user("late"), user("next"), user("more")], None)
        assert ([message for message, _ in whole.new], whole.parent) == ([user("more")], "")

    def test_history_in_memory_is_bounded_by_size(self) -> None:
        with limits(size=1000):
            caller = Caller(MemoryStore())
            for _ in range(9):
                caller.says(user("x" * 300), Message("assistant", "y"), 0)
            assert len(caller.turn([user("z")], None).history) == 7
            caller.says(user("x" * 3000), None, 0)
            assert [kept.message.content for kept in caller.turn([RESULT], None).history] == ["x" * 3000]


def test_digests_are_the_same_in_every_process() -> None:
    code = (
        "from ctxwrap.session.branch import digest; from tests.session.test_checkpoint import *;"
        "print([digest(m) for m in (user('a'), CALL, RESULT, PICTURE, user('\\ud800'))])"
    )
    seen = {
        subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=True,
            cwd=Path(__file__).parents[2],
            env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2")
    }
    assert len(seen) == 1
