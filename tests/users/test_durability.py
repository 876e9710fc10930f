"""Users' logs in every store: other processes, crashes between the two logs, encryption, verification."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import ctxwrap
from ctxwrap.errors import StoreUnavailable
from ctxwrap.inspect import details_of
from ctxwrap.session.lookup import owner_key
from ctxwrap.session.session import Session
from ctxwrap.stores.base import Log, StoreWrapper
from ctxwrap.stores.names import owner_kind
from ctxwrap.testing.practice import Provider
from ctxwrap.types import SessionKey
from tests.support import PassingLog
from tests.users.chats import Script, client, core, say, texts_in

ADA = owner_key("user", "ada")


@pytest.fixture
def model(provider: Provider) -> Script:
    provider.answer = script = Script()
    script.on("I am Ada.", core=[core("name", "The user is called Ada")])
    return script


class _UnsureLog(PassingLog):
    def __init__(self, inner: Log, fails: Callable[[], bool]) -> None:
        super().__init__(inner)
        self._fails = fails

    def append(self, batches: Any, **how: Any) -> Any:
        if self._fails() and any(event.get("type") == "merge" for event in batches.get("events", ())):
            raise StoreUnavailable("the disk is full")
        return self.inner.append(batches, **how)


class UnsureStore(StoreWrapper):
    """Fails to write merges to users' logs while `fails` is set."""

    fails = False

    def open(self, key: SessionKey) -> Any:
        log = self._store.open(key)
        return _UnsureLog(log, lambda: self.fails) if owner_kind(key.agent) else log


def test_contribution_that_was_not_merged_is_merged_by_the_next_turn(
    provider: Provider, model: Script, home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = UnsureStore(ctxwrap.open_store(home))
    wrapped = client(provider, store, user="ada", session="one")
    store.fails = True
    reply = say(wrapped, "I am Ada.")
    assert ctxwrap.turn_of(reply).report.not_saved == ()
    assert "updated by the session's next turn" in caplog.text
    store.fails = False
    say(client(provider, home, user="ada", session="one"), "Who am I?")
    assert model.shown["Who am I?"] == {"user+name": "The user is called Ada"}


@pytest.mark.parametrize("died", ["merge", "contribution"])
def test_process_that_dies_between_the_logs_loses_and_doubles_nothing(
    provider: Provider, model: Script, home: Path, died: str
) -> None:
    """The process is killed when it is about to write to the user's log, or just before it returns from it."""
    code = f"""
import os, sys
import tests.users.test_durability as module
from ctxwrap.testing.practice import Provider
import ctxwrap, openai
class Deadly(module._UnsureLog):
    def append(self, batches, **how):
        if any(event.get("type") == "merge" for event in batches.get("events", ())):
            if {died!r} == "merge":
                self.inner.append(batches, **how)
            os._exit(7)
        return self.inner.append(batches, **how)
module._UnsureLog = Deadly
store = module.UnsureStore(ctxwrap.open_store({str(home)!r}))
bare = openai.OpenAI(api_key="x", base_url={provider.openai_url!r}, max_retries=0)
module.say(ctxwrap.wrap(bare, store=store, user="ada", session="one"), "I am Ada.")
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 7
    for number in range(2):
        say(client(provider, home, user="ada", session="one"), f"Who am I, {number}?")
        assert model.shown[f"Who am I, {number}?"] == {"user+name": "The user is called Ada"}
    (event,) = [
        event.record
        for event in ctxwrap.open_session(user="ada", store=str(home)).events()
        if event.record["type"] == "merge" and event.record["operations"]
    ]
    assert [operation["kind"] for operation in event["operations"]] == ["add"]


OTHER = """
import sys, ctxwrap, openai
bare = openai.OpenAI(api_key="x", base_url=sys.argv[1], max_retries=0)
client = ctxwrap.wrap(bare, store=sys.argv[2], user="ada", session=sys.argv[3])
client.chat.completions.create(model="m", messages=[{"role": "user", "content": sys.argv[4]}])
"""


def tell_elsewhere(provider: Provider, store: str, session: str, text: str) -> None:
    subprocess.run([sys.executable, "-c", OTHER, provider.openai_url, store, session, text], check=True)


@pytest.mark.parametrize("place", ["files", "postgres", "encrypted"])
def test_fact_told_in_another_process_is_known_at_the_next_call(
    provider: Provider, model: Script, home: Path, place: str, request: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = request.getfixturevalue("database") if place == "postgres" else str(home)
    if place == "encrypted":
        monkeypatch.setenv("CTXWRAP_KEY", "11" * 32)
    wrapped = client(provider, store, user="ada", session="mine")
    say(wrapped, "Hello.")
    assert model.shown["Hello."] == {}
    tell_elsewhere(provider, store, "theirs", "I am Ada.")
    say(wrapped, "Who am I?")
    assert model.shown["Who am I?"] == {"user+name": "The user is called Ada"}
    ctxwrap.flush()
    handle = ctxwrap.open_session(user="ada", store=store)
    assert handle.verify().findings == ()
    before = details_of(handle.store, ADA)
    handle.rebuild()
    assert details_of(handle.store, ADA) == before
    if place == "encrypted":
        assert not [name for name, text in texts_in(home) if "called Ada" in text]


def test_users_are_no_sessions_and_sessions_no_users(provider: Provider, model: Script, home: Path) -> None:
    for store in (ctxwrap.open_store(home), ctxwrap.open_store("memory:")):
        say(client(provider, store, user="Ada Lovelace", session="s"), "I am Ada.")
        assert list(store.keys()) == [SessionKey("default", "default", "s")]
        assert list(store.agents("default")) == ["default"]
        assert list(store.sessions("default", ADA.agent)) == ["Ada Lovelace"]
    with pytest.raises(ctxwrap.InvalidId, match="is reserved"):
        ctxwrap.open_session("ada", agent="\x1fuser", store=str(home))


def test_checkpoint_of_a_user_restores_members_and_forgotten_facts(
    provider: Provider, model: Script, home: Path
) -> None:
    say(client(provider, home, user="ada", session="one"), "I am Ada.")
    ctxwrap.forget(user="ada", item="user+name", store=str(home))
    log = ctxwrap.open_store(home).open(ADA)
    first = Session(ADA, log)
    with first.locked():
        first._save()
    again = Session(ADA, ctxwrap.open_store(home).open(ADA))
    again._resume()
    assert again.state.as_json() == first.state.as_json()
    assert again.state.is_forgotten("The user is called Ada.")
    assert again.state.members == first.state.members != {}
