"""Users' items in requests: kind, share and receipt, a stable prefix, facts of earlier sessions, and no leaks."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import ctxwrap
from benchmarks.users import recall
from ctxwrap.settings import Shares
from ctxwrap.testing.practice import Provider
from tests.support import examples
from tests.users.chats import Script, client, core, say


@pytest.fixture
def model(provider: Provider) -> Script:
    provider.answer = script = Script()
    return script


def tell_many(provider: Provider, model: Script, store: Any, count: int) -> list[str]:
    """What the user's memory then has."""
    facts = [f"The user owns the book number {100 + number} about subject {number}" for number in range(count)]
    model.on("Books.", core=[core(f"book-{number}", fact) for number, fact in enumerate(facts)])
    say(client(provider, store, user="ada", session="books"), "Books.")
    return facts


def test_items_of_a_user_are_durable_memory_of_a_share_of_their_own(
    provider: Provider, model: Script, home: Path
) -> None:
    tell_many(provider, model, home, 3)
    reply = say(client(provider, home, user="ada", session="new"), "Which books do I own?")
    (item,) = [each for each in ctxwrap.turn_of(reply).pack if each.kind == "user_items"]
    assert (item.included, item.refs) == (True, ("user+book-0", "user+book-1", "user+book-2"))
    assert ctxwrap.turn_of(reply).report.budget["spent"]["user"] == item.tokens > 0
    ctxwrap.flush()
    handle = ctxwrap.open_session("new", store=str(home))
    evidence = handle.envelope(1, target="model")
    kinds = {each.context_kind for each in evidence.items if each.metadata.get("pack_kind") == "user_items"}
    assert kinds == {"durable_memory"}
    assert "user_items" in json.dumps(handle.pack(1).as_json())
    assert handle.verify().findings == ()


def test_share_limits_the_items_and_the_question_chooses_among_them(
    provider: Provider, model: Script, home: Path
) -> None:
    facts = tell_many(provider, model, home, 60)
    wrapped = client(provider, home, user="ada", session="new", shares=Shares(user=0.01))
    reply = say(wrapped, "What about subject 57 and the book number 157?")
    shown = model.shown["What about subject 57 and the book number 157?"].values()
    assert facts[57] in shown
    assert len(shown) < 30
    left_out = [each for each in ctxwrap.turn_of(reply).pack if each.kind == "user_items" and not each.included]
    assert sum(len(each.refs) for each in left_out) == 60 - len(shown)


def test_prefix_stays_the_same_while_another_session_adds_a_fact(provider: Provider, model: Script, home: Path) -> None:
    tell_many(provider, model, home, 30)
    mine, other = (client(provider, home, user="ada", session=name) for name in ("mine", "other"))
    systems = []
    for number in range(6):
        say(mine, f"Question {number}?")
        systems.append(json.loads(model.requests[f"Question {number}?"])["messages"][0]["content"])
        model.on(f"News {number}.", core=[core(f"news-{number}", f"The user met the person number {number}")])
        say(other, f"News {number}.")
    assert "The user met the person number 4" in model.shown["Question 5?"].values()
    assert len(set(systems)) == 1


def test_facts_of_earlier_sessions_are_in_the_request_when_asked(home: Path) -> None:
    known, asked = recall(1, 7, home)
    assert asked > 30
    assert known / asked >= 0.95


NAMES = st.tuples(st.sampled_from("AB"), st.sampled_from("xy"), st.sampled_from("mn"))
"""A tenant, a user of it, and a session of that user."""


@given(st.lists(NAMES, min_size=2, max_size=8))
@examples(45)
def test_no_text_of_a_user_reaches_another(turns: list[tuple[str, str, str]]) -> None:
    script, store = Script(), ctxwrap.open_store("memory:")
    with Provider(script) as provider:
        chats: dict[tuple[str, str, str], Any] = {}
        for number, (tenant, user, session) in enumerate(turns):
            names = {"tenant": tenant, "user": user, "session": f"{user}{session}", "search": "user"}
            chat = chats.setdefault((tenant, user, session), client(provider, store, **names))
            canary = f"canary{tenant}{user}{number}"
            said = f"Turn {number}: my {canary} is my best friend, remember this canary friend."
            script.on(said, core=[core(f"c-{number}", f"The user has a friend called {canary}")])
            say(chat, said)
        for (tenant, user, _), chat in chats.items():
            say(chat, "Who is my best friend, the canary friend?")
            sent = script.requests["Who is my best friend, the canary friend?"]
            own = [number for number, names in enumerate(turns) if names[:2] == (tenant, user)]
            for number, (other, name, _) in enumerate(turns):
                assert (f"canary{other}{name}{number}" in sent) == (number in own)
    ctxwrap.flush()
