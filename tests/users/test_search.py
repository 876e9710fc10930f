"""Passages of a user's other sessions: off by default, with date and title, never of another user."""

from pathlib import Path
from typing import Any

import pytest

import ctxwrap
from ctxwrap.testing.practice import Provider
from tests.users.chats import Script, client, say

SAID = "The violin teacher is called Mrs Okonkwo and she lives in Harbour Street."
ASKED = "What was the violin teacher called again, and in which street does she live?"


@pytest.fixture
def model(provider: Provider) -> Script:
    provider.answer = script = Script()
    return script


def tell(provider: Provider, store: Any, **names: Any) -> None:
    wrapped = client(provider, store, **names)
    say(wrapped, SAID)
    for number in range(6):
        say(wrapped, f"Something else, number {number}, about the garden and its roses.")


@pytest.mark.parametrize("place", ["files", "postgres"])
def test_passage_of_another_session_of_the_user_is_shown(
    provider: Provider, model: Script, home: Path, place: str, request: Any
) -> None:
    store = request.getfixturevalue("database") if place == "postgres" else home
    tell(provider, store, user="ada", session="music")
    wrapped = client(provider, store, user="ada", session="new", search="user")
    reply = say(wrapped, ASKED)
    sent = model.requests[ASKED]
    assert "Mrs Okonkwo" in sent
    assert "From another conversation of this user, 20" in sent
    assert "'music'. The user said:" in sent
    items = [each for each in ctxwrap.turn_of(reply).pack if each.kind == "user_excerpts" and each.included]
    assert "offer://session:music/messages:1-1" in [each.source for each in items]
    assert {each.origin for each in items} == {"user"}
    assert ctxwrap.verify("new", store=store if place == "postgres" else str(store)).findings == ()


def test_other_sessions_are_not_searched_by_default_nor_for_other_users(
    provider: Provider, model: Script, home: Path
) -> None:
    tell(provider, home, user="ada", session="music")
    for number, names in enumerate(
        ({"user": "ada"}, {"user": "bob", "search": "user"}, {"search": "user"}, {"team": "ada", "search": "user"})
    ):
        say(client(provider, home, session=f"s{number}", **names), ASKED)
        assert "Okonkwo" not in model.requests[ASKED]


def test_text_of_tools_in_another_session_is_not_shown(provider: Provider, model: Script, home: Path) -> None:
    wrapped = client(provider, home, user="ada", session="music")
    call = {"id": "c-1", "type": "function", "function": {"name": "read", "arguments": "{}"}}
    messages: Any = [
        {"role": "user", "content": "Read the page."},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c-1", "content": SAID},
    ]
    wrapped.chat.completions.create(model="m", messages=messages)
    say(client(provider, home, user="ada", session="new", search="user"), ASKED)
    assert "Okonkwo" not in model.requests[ASKED]


def test_preview_shows_passages_and_items_of_the_user(provider: Provider, model: Script, home: Path) -> None:
    tell(provider, home, user="ada", session="music")
    wrapped = client(provider, home, session="new", search="user")
    question: Any = [{"role": "user", "content": ASKED}]
    view = ctxwrap.preview(wrapped, for_user="ada", model="m", messages=question)
    assert "Mrs Okonkwo" in str(view.body)
    assert "Mrs Okonkwo" not in str(ctxwrap.preview(wrapped, model="m", messages=question).body)
