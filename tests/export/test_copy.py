"""Copying sessions between stores: every record as it was, once, whatever interrupts it."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import ctxwrap
from ctxwrap.cli import main
from ctxwrap.errors import Conflict, NotFound, StoreCorrupt, StoreUnavailable
from ctxwrap.stores import open_store
from ctxwrap.stores.files.store import FileStore
from ctxwrap.stores.memory import MemoryStore
from ctxwrap.testing.practice import Answer, Provider
from ctxwrap.testing.practice.answer import ToolCall
from ctxwrap.types import SessionKey
from tests.export.logs import Chat
from tests.support import PassingLog, item, trailer

KEY = SessionKey("default", "default", "s")
MASTER = "00" * 32


def told(provider: Provider, store: Any, turns: int = 5) -> Chat:
    """A chat with memory, a tool, a large content and a pinned text."""
    chat = Chat(provider, store)
    log = store.open(KEY)
    with log.locked():
        log.files.save("context/pinned/a.md", b"pinned")
    for number in range(turns):
        chat.say(f"say {number}", answer=lambda ask: Answer("Noted." + trailer(ask, [item("w-1")])))
    call = ToolCall("call-1", "lookup", "{}")
    chat.say("Look it up.", answer=lambda ask: Answer("Wait.", tool_calls=(call,)))
    chat.say("word " * 8000)
    return chat


def records(store: Any, stream: str) -> list[dict[str, Any]]:
    found = store.open(KEY).read(stream)[0]
    seals = ("c", "b", "w")
    return [{**each, "ctx": {name: v for name, v in each["ctx"].items() if name not in seals}} for each in found]


def assert_same(one: Any, other: Any) -> None:
    for stream in ("messages", "events"):
        assert records(one, stream) == records(other, stream)
    pinned = "context/pinned/a.md"
    assert one.open(KEY).files.load(pinned) == other.open(KEY).files.load(pinned)
    assert not ctxwrap.verify("s", store=other).findings


def stores(tmp_path: Path) -> Iterator[tuple[str, Any]]:
    yield "files", FileStore(tmp_path / "files")
    yield "memory", MemoryStore()
    yield "encrypted", open_store(tmp_path / "encrypted", key=MASTER)


@pytest.mark.parametrize("kind", ["files", "memory", "encrypted"])
def test_copied_session_equals_the_original(provider: Provider, home: Path, tmp_path: Path, kind: str) -> None:
    source, target = FileStore(home), dict(stores(tmp_path))[kind]
    told(provider, source)
    (copied,) = ctxwrap.copy_sessions(source, target, session="s")
    assert copied.new == copied.messages + copied.events
    assert_same(source, target)
    (again,) = ctxwrap.copy_sessions(source, target, session="s")
    assert again.new == 0
    Chat(provider, target).say("And on it goes.")
    assert records(target, "messages")[-2]["content"] == "And on it goes."


def test_a_copy_catches_up_with_a_session_that_grew(provider: Provider, home: Path) -> None:
    source, target = FileStore(home), MemoryStore()
    chat = told(provider, source)
    list(ctxwrap.copy_sessions(source, target))
    chat.say("One more.")
    (copied,) = ctxwrap.copy_sessions(source, target)
    assert 0 < copied.new < 20
    assert_same(source, target)


class _Failing(PassingLog):
    """A log that refuses its nth append."""

    def __init__(self, inner: Any, nth: int) -> None:
        super().__init__(inner)
        self.left = nth

    def append(self, batches: Any, **how: Any) -> Any:
        self.left -= 1
        if self.left < 0:
            raise StoreUnavailable("full")
        return self.inner.append(batches, **how)


class _FailingStore:
    def __init__(self, inner: Any, nth: int) -> None:
        self._inner, self._nth = inner, nth
        self.keys, self.sessions, self.agents = inner.keys, inner.sessions, inner.agents

    def open(self, key: SessionKey) -> Any:
        return _Failing(self._inner.open(key), self._nth)


@pytest.mark.parametrize("nth", [0, 1])
def test_interrupted_copy_can_be_resumed(provider: Provider, home: Path, tmp_path: Path, nth: int) -> None:
    source, target = FileStore(home), FileStore(tmp_path / "target")
    told(provider, source)
    with pytest.raises(StoreUnavailable):
        list(ctxwrap.copy_sessions(source, _FailingStore(target, nth)))
    list(ctxwrap.copy_sessions(source, target))
    assert_same(source, target)


def test_partly_copied_step_is_completed(provider: Provider, home: Path) -> None:
    source, target = FileStore(home), MemoryStore()
    told(provider, source)
    log = target.open(KEY)
    with log.locked():
        log.append({"events": records(source, "events")[:7]})
    list(ctxwrap.copy_sessions(source, target))
    assert_same(source, target)


def test_different_session_of_the_same_name_is_not_changed(provider: Provider, home: Path) -> None:
    source, target = FileStore(home), MemoryStore()
    told(provider, source)
    Chat(provider, target).say("I was here first.")
    before = records(target, "messages"), records(target, "events")
    with pytest.raises(Conflict, match="a different record"):
        list(ctxwrap.copy_sessions(source, target))
    assert (records(target, "messages"), records(target, "events")) == before


def test_a_damaged_session_is_not_copied_as_if_it_were_whole(provider: Provider, home: Path) -> None:
    source = FileStore(home)
    told(provider, source)
    path = home / "home/default/agent/default/session/s/messages.jsonl"
    path.write_bytes(path.read_bytes().replace(b"say 2", b"SAY 2", 1))
    with pytest.raises(StoreCorrupt, match="verify"):
        list(ctxwrap.copy_sessions(FileStore(home), MemoryStore()))


def test_copy_includes_all_sessions_of_all_tenants(provider: Provider, home: Path) -> None:
    source, target = FileStore(home), MemoryStore()
    for tenant, session in (("a", "s"), ("a", "t"), ("b", "s")):
        with ctxwrap.using(tenant=tenant, session=session):
            Chat(provider, source).say(f"I am {tenant} {session}.")
    copied = list(ctxwrap.copy_sessions(source, target))
    assert [each.key[::2] for each in copied] == [("a", "s"), ("a", "t"), ("b", "s")]
    assert sorted(target.keys()) == sorted(source.keys())


def test_empty_copy_is_reported(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        list(ctxwrap.copy_sessions(tmp_path / "empty", MemoryStore()))


def test_copy_command_copies_sessions(provider: Provider, home: Path, tmp_path: Path) -> None:
    told(provider, FileStore(home))
    target = tmp_path / "target"
    result = CliRunner().invoke(main, ["copy", str(home), str(target), "--json"])
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["key"]["session"] == "s"
    assert_same(FileStore(home), FileStore(target))
    again = CliRunner().invoke(main, ["copy", str(home), str(target), "--session", "s"])
    assert "0 new" in again.stdout
