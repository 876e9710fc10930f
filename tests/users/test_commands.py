"""Users in the command line: listing, memory over time, export and import, forgetting and purging."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import ctxwrap
from ctxwrap.cli import main
from ctxwrap.inspect import details_of
from ctxwrap.session.lookup import owner_key
from ctxwrap.testing.practice import Provider
from ctxwrap.types import SessionKey
from tests.users.chats import Script, client, core, say

ADA = owner_key("user", "ada")


def run(*words: str, home: Path, fails: bool = False) -> str:
    result = CliRunner().invoke(main, [*words, "--store", str(home)])
    assert (result.exit_code != 0) == fails, result.output
    return result.output


@pytest.fixture
def chats(provider: Provider, home: Path) -> Script:
    provider.answer = script = Script()
    script.on("Berlin.", core=[core("home", "The user lives in Berlin")])
    script.on("Munich.", core=[core("city", "The user lives in Munich")])
    say(client(provider, home, user="ada", session="one"), "Berlin.")
    say(client(provider, home, user="ada", session="two", agent="helper"), "Munich.")
    say(client(provider, home, user="bob", session="three"), "Hello.")
    ctxwrap.flush()
    return script


def test_users_are_listed_with_their_sessions(chats: Script, home: Path) -> None:
    listed = json.loads(run("users", "--json", home=home))
    assert [(each["name"], each["sessions"], each["items"]) for each in listed] == [("ada", 2, 1), ("bob", 1, 0)]
    assert "ada" in run("users", home=home)
    assert run("users", "--teams", home=home) == "no teams of tenant default\n"
    assert sorted(ctxwrap.open_session(user="ada", store=str(home)).sessions()) == [
        SessionKey("default", "default", "one"),
        SessionKey("default", "helper", "two"),
    ]


def test_memory_of_a_user_at_a_date(chats: Script, home: Path) -> None:
    handle = ctxwrap.open_session(user="ada", store=str(home))
    first, second = [event.record for event in handle.events() if event.record["type"] == "merge"]
    between = datetime.fromisoformat(first["ctx"]["time"]) + timedelta(microseconds=1)
    then = json.loads(run("memory", "--user", "ada", "--at", between.isoformat(), "--json", home=home))
    assert [each["content"] for each in then["memory"]["core"]] == ["The user lives in Berlin"]
    today = datetime.now(UTC).date()
    now = json.loads(run("memory", "--user", "ada", "--at", str(today), "--json", home=home))
    assert [each["content"] for each in now["memory"]["core"]] == ["The user lives in Munich"]
    (old,) = now["swap"]
    assert (old["since"], old["until"]) == (first["ctx"]["time"], second["ctx"]["time"])
    assert f"until {today}  The user lives in Berlin" in run("memory", "--user", "ada", home=home)
    before = json.loads(run("memory", "--user", "ada", "--at", "2020-01-01", "--json", home=home))
    assert before["memory"]["core"] == before["swap"] == []
    assert "--at takes a round or a date" in run("memory", "--user", "ada", "--at", "May", home=home, fails=True)


def test_changed_value_keeps_the_dates_of_the_former_one(provider: Provider, chats: Script, home: Path) -> None:
    chats.on("Hamburg.", core=[core("user+city", "The user lives in Hamburg")])
    say(client(provider, home, user="ada", session="one"), "Hamburg.")
    details = details_of(ctxwrap.open_store(home), ADA)
    (now,) = details["memory"]["core"]
    munich = next(each for each in details["swap"] if "Munich" in each["content"])
    assert munich["until"] == now["since"] > munich["since"]


def test_export_and_import_of_a_user_with_all_sessions(
    provider: Provider, chats: Script, home: Path, tmp_path: Path
) -> None:
    file, other = tmp_path / "ada.zip", tmp_path / "other"
    assert "4 messages" in run("export", "--user", "ada", "-o", str(file), home=home)
    assert "user 'ada' of tenant 'default': 4 messages" in run("import", str(file), home=other)
    stores = [ctxwrap.open_store(place) for place in (home, other)]
    assert details_of(stores[0], ADA) == details_of(stores[1], ADA)
    assert sorted(stores[1].keys()) == [SessionKey("default", "default", "one"), SessionKey("default", "helper", "two")]
    for store in stores:
        handle = ctxwrap.open_session("two", agent="helper", store=store)
        assert [message.record["content"] for message in handle.messages()] == ["Munich.", "Noted."]
    say(client(provider, other, user="ada", session="new"), "Where do I live?")
    assert list(chats.shown["Where do I live?"].values()) == ["The user lives in Munich"]
    assert "there is already a user 'ada'" in run("import", str(file), home=other, fails=True)
    file.write_bytes(file.read_bytes().replace(b"ctxwrap-owner", b"ctxwrap-other"))
    with pytest.raises(ctxwrap.InvalidArchive):
        ctxwrap.import_session(file, store=str(tmp_path / "third"))


def test_copy_takes_users_along(chats: Script, home: Path, tmp_path: Path) -> None:
    list(ctxwrap.copy_sessions(str(home), str(tmp_path / "copy")))
    assert details_of(ctxwrap.open_store(tmp_path / "copy"), ADA) == details_of(ctxwrap.open_store(home), ADA)


def test_forget_and_purge_of_a_user(chats: Script, home: Path) -> None:
    shown = run("forget", "--user", "ada", "--query", "Munich", "--yes", home=home)
    assert shown == "deleted 1 memory item: user+city, and what these sessions had of it: two\n"
    assert "intact" in run("verify", "--user", "ada", home=home)
    assert run("purge", "--user", "ada", "--yes", home=home) == (
        "deleted everything of user ada and all texts of 2 sessions\n"
    )
    assert [each["name"] for each in json.loads(run("users", "--json", home=home))] == ["bob"]


@pytest.mark.parametrize("command", ["memory", "forget", "purge", "export", "verify", "rebuild"])
def test_commands_take_a_session_or_an_owner(home: Path, command: str) -> None:
    for words in ((), ("s", "--user", "ada"), ("--user", "ada", "--team", "x")):
        assert "name either a SESSION, --user or --team" in run(command, *words, home=home, fails=True)


def test_users_of_other_tenants_are_not_listed(provider: Provider, chats: Script, home: Path) -> None:
    names: dict[str, Any] = {"user": "eve", "tenant": "acme", "session": "s"}
    say(client(provider, home, **names), "Hello.")
    assert [each["name"] for each in json.loads(run("users", "--tenant", "acme", "--json", home=home))] == ["eve"]
