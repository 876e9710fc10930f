"""Forgetting and purging what a user told: in the user's log, in every session, in every file and row."""

import threading
from pathlib import Path
from typing import Any

import psycopg
import pytest

import ctxwrap
from ctxwrap.inspect import details_of
from ctxwrap.session.lookup import owner_key
from ctxwrap.testing.practice import Answer, Ask, Provider
from tests.support import item
from tests.users.chats import Script, client, core, say, texts_in

SECRET = "The user is allergic to marzipan"
TOLD = "Careful, I am allergic to marzipan!"


@pytest.fixture
def model(provider: Provider) -> Script:
    provider.answer = script = Script()
    script.on(TOLD, core=[core("allergy", SECRET), core("name", "The user is called Ada")])
    script.on("Book a table.", working=[item("w", "Book a table without marzipan for the allergic user")])
    return script


def chat(provider: Provider, store: Any) -> dict[str, Any]:
    """Two sessions of Ada that know the secret, and one of Bob."""
    sessions = {name: client(provider, store, user="ada", session=name) for name in ("one", "two")}
    say(sessions["one"], TOLD)
    say(sessions["two"], "Book a table.")
    say(sessions["two"], "Go on.")
    say(sessions["one"], "Go on there.")
    say(client(provider, store, user="bob", session="three"), "I like marzipan.")
    ctxwrap.flush()
    return sessions


def mentions(home: Path, user: str = "ada") -> list[str]:
    own = [home / "home/default/user" / user]
    own += [home / "home/default/agent/default/session" / name for name in ("one", "two")]
    return [f"{place.name}/{name}" for place in own for name, text in texts_in(place) if "marzipan" in text.lower()]


def test_forgotten_fact_is_in_no_file_and_no_next_request(provider: Provider, model: Script, home: Path) -> None:
    sessions = chat(provider, home)
    assert mentions(home), "the secret is everywhere before"
    forgotten = ctxwrap.forget(user="ada", query="marzipan", store=str(home))
    assert forgotten == ("user+allergy", "session/one", "session/two")
    assert mentions(home) == []
    for name, wrapped in sessions.items():
        say(wrapped, f"What now, {name}?")
        assert "marzipan" not in model.requests[f"What now, {name}?"]
        assert model.shown[f"What now, {name}?"]["user+name"] == "The user is called Ada"
        assert ctxwrap.verify(name, store=str(home)).findings == ()
    assert "marzipan" in str(ctxwrap.open_session("three", store=str(home)).messages())


def test_repetition_by_a_model_brings_nothing_back_but_the_user_can(
    provider: Provider, model: Script, home: Path
) -> None:
    sessions = chat(provider, home)
    ctxwrap.forget(user="ada", item="user+allergy", store=str(home))
    model.on("Anything else?", core=[core("again", SECRET)])
    say(sessions["two"], "Anything else?")
    known = details_of(ctxwrap.open_store(home), owner_key("user", "ada"))["memory"]["core"]
    assert [each["content"] for each in known] == ["The user is called Ada"]
    said = "The user is allergic to marzipan, that is me"
    model.on(said, core=[core("stated", SECRET)])
    say(sessions["two"], said)
    say(sessions["one"], "And now?")
    assert SECRET in model.shown["And now?"].values()


def test_turn_that_is_open_while_a_fact_is_forgotten_writes_nothing_of_it(provider: Provider, home: Path) -> None:
    script, reached, go_on = Script(), threading.Event(), threading.Event()
    script.on(TOLD, core=[core("allergy", SECRET)])
    script.on("Slow.", core=[core("c", SECRET)], working=[item("w", SECRET)])

    def slow(ask: Ask) -> Answer:
        if ask.messages[-1][1].startswith("Slow."):
            reached.set()
            assert go_on.wait(30)
        return script(ask)

    provider.answer = slow
    say(client(provider, home, user="ada", session="one"), TOLD)
    wrapped = client(provider, home, user="ada", session="two")
    call = threading.Thread(target=say, args=(wrapped, "Slow."))
    call.start()
    assert reached.wait(30)
    ctxwrap.forget(user="ada", item="user+allergy", store=str(home))
    go_on.set()
    call.join(30)
    ctxwrap.flush()
    assert mentions(home) == []


def test_purge_of_a_user_leaves_no_text_of_any_session(provider: Provider, model: Script, home: Path) -> None:
    chat(provider, home)
    ctxwrap.open_session("one", store=str(home)).put("pinned/note", b"marzipan for Ada")
    assert ctxwrap.purge(user="ada", store=str(home)) == ("session/one", "session/two")
    left = [home / "home/default/user/ada", *(home / f"home/default/agent/default/session/{s}" for s in ("one", "two"))]
    for place in left:
        for name, text in texts_in(place):
            assert not any(word in text for word in ("marzipan", "Ada", "table", "Noted", "Go on")), (name, text)
    store = ctxwrap.open_store(home)
    assert ctxwrap.verify("one", store=str(home)).findings == ()
    assert [message.record["content"] for message in ctxwrap.open_session("three", store=store).messages()] == [
        "I like marzipan.",
        "Noted.",
    ]
    say(client(provider, home, user="ada", session="four"), "Hello again.")
    assert model.shown["Hello again."] == {}


def test_reply_that_comes_after_a_purge_is_not_saved(provider: Provider, model: Script, home: Path) -> None:
    wrapped = client(provider, home, user="ada", session="one")
    say(wrapped, "Hello.")
    with wrapped.chat.completions.create(
        model="m", messages=[{"role": "user", "content": TOLD}], stream=True
    ) as stream:
        chunks = [next(stream)]
        ctxwrap.purge(user="ada", store=str(home))
        chunks += stream
        turn = ctxwrap.turn_of(stream)
    ctxwrap.flush()
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == "Noted."
    assert turn is not None
    assert turn.report.not_saved == ("reply",)
    for place in (home / "home/default/user/ada", home / "home/default/agent/default/session/one"):
        assert not [name for name, text in texts_in(place) if "marzipan" in text or "Noted" in text]
    assert ctxwrap.verify("one", store=str(home)).findings == ()
    say(wrapped, "Hello again.")
    assert "marzipan" not in model.requests["Hello again."]


def test_forgetting_and_purging_in_postgres(provider: Provider, model: Script, database: str) -> None:
    sessions = chat(provider, database)
    ctxwrap.forget(user="ada", query="marzipan", store=database)
    say(sessions["two"], "What now?")
    assert "marzipan" not in model.requests["What now?"]
    ctxwrap.flush()
    assert rows_with(database, "marzipan") == {"three"}
    ctxwrap.purge(user="ada", store=database)
    assert rows_with(database, "Noted") == {"three"}


def rows_with(database: str, word: str) -> set[str]:
    """The sessions with a row that contains the word."""
    with psycopg.connect(database) as connection:
        tables = ("ctxwrap_records", "ctxwrap_pieces", "ctxwrap_checkpoints")
        found = [
            connection.execute(f"SELECT DISTINCT session FROM {table} WHERE position(%s in body) > 0", (word.encode(),))
            for table in tables
        ]
        return {session for rows in found for (session,) in rows}


def test_forget_and_purge_need_one_name(home: Path) -> None:
    for erase in (ctxwrap.forget, ctxwrap.purge):
        with pytest.raises(ctxwrap.SettingsError, match="either a session, a user or a team"):
            erase(store=str(home))
        with pytest.raises(ctxwrap.NotFound, match="there is no user 'ada' of tenant 'default'"):
            erase(user="ada", store=str(home), **({"item": "x"} if erase is ctxwrap.forget else {}))
