"""What a model says it can do: it may change that, but for what it once wrote as `write_once`."""

import json
from pathlib import Path
from typing import Any

import openai
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ctxwrap
from ctxwrap.inspection import memory_of
from ctxwrap.memory.capabilities import is_fixed, merged, name_of
from ctxwrap.practice import Answer, Ask, Provider
from ctxwrap.protocol.text import SEPARATOR
from ctxwrap.session.finding import key_for
from ctxwrap.stores.files import FileStore
from ctxwrap.types import TurnRecord
from tests.support import events, state_shown

SEARCH = {"name": "search", "scope": "write_once", "note": "the web, ten results"}
DRAW = {"name": "draw", "note": "small pictures"}

ENTRIES = st.one_of(
    st.sampled_from(["search", "draw"]),
    st.fixed_dictionaries(
        {"name": st.sampled_from(["search", "draw", "count"]), "note": st.integers(0, 2)},
        optional={"scope": st.sampled_from(["write_once", "session"])},
    ),
)
LISTS = st.lists(ENTRIES, max_size=4, unique_by=name_of)


@given(LISTS, LISTS)
def test_what_is_fixed_stays_and_all_else_is_as_returned(before: list[Any], returned: list[Any]) -> None:
    result, violation = merged(before, returned)
    fixed = {name_of(each): each for each in before if is_fixed(each)}
    assert {name_of(each): each for each in result} == {name_of(each): each for each in returned} | fixed
    assert len({name_of(each) for each in result}) == len(result)
    assert bool(violation) == any(fixed.get(name_of(each), each) != each for each in returned)
    assert merged(result, returned)[0] == result, "saying it again changes nothing"


class Chat:
    """A session whose model writes the capabilities that a test says."""

    def __init__(self, provider: Provider, home: Path) -> None:
        self.provider, self.home = provider, home
        self.restart()

    def restart(self, **settings: Any) -> None:
        bare = openai.OpenAI(api_key="k", base_url=self.provider.openai_url)
        self.client = ctxwrap.wrap(bare, store=self.home, session="s", **settings)

    def hear(self, *capabilities: Any) -> TurnRecord:
        def answer(ask: Ask) -> Answer:
            state = {**state_shown(ask), "capabilities": list(capabilities)}
            return Answer(f"Fine.\n\n{SEPARATOR}\n{json.dumps(state)}")

        self.provider.answer = answer
        reply = self.client.chat.completions.create(model="m", messages=[{"role": "user", "content": "Hi"}])
        turn = ctxwrap.turn_of(reply)
        assert turn is not None
        return turn

    @property
    def known(self) -> list[Any]:
        known: list[Any] = memory_of(FileStore(self.home), key_for("s"))["capabilities"]
        return known


@pytest.fixture
def chat(provider: Provider, home: Path) -> Chat:
    return Chat(provider, home)


@pytest.mark.parametrize("snapshot", ["delta", "full"])
def test_what_is_write_once_is_not_changed(chat: Chat, snapshot: str) -> None:
    chat.restart(snapshot=snapshot)
    assert chat.hear(SEARCH, DRAW).violations == ()
    changed = chat.hear({**SEARCH, "note": "everything"}, {**DRAW, "note": "large pictures"})
    assert changed.violations == ("capability 'search' is write_once and was changed: it stays",)
    assert chat.known == [SEARCH, {**DRAW, "note": "large pictures"}]
    told = [event["violations"] for event in events(chat.home, "s") if event["type"] == "snapshot"]
    assert told == [[], ["capability 'search' is write_once and was changed: it stays"]]


def test_what_is_write_once_cannot_be_made_otherwise_or_left_out(chat: Chat) -> None:
    chat.hear(SEARCH, DRAW)
    assert chat.hear().violations == ()
    assert chat.known == [SEARCH]
    chat.hear({**SEARCH, "scope": "session"}, "search")
    assert SEARCH in chat.known
    assert {**SEARCH, "scope": "session"} not in chat.known


def test_it_is_so_for_another_process_too(chat: Chat) -> None:
    chat.hear(SEARCH)
    for checkpoint in chat.home.rglob(".checkpoint"):
        checkpoint.unlink()
    chat.restart()
    assert len(chat.hear({**SEARCH, "note": "everything"}).violations) == 1
    assert chat.known == [SEARCH]


def test_the_model_is_shown_what_stayed(chat: Chat) -> None:
    chat.hear(SEARCH)
    chat.hear({**SEARCH, "note": "everything"})
    chat.hear(SEARCH)
    sent = chat.provider.seen[-1].json["messages"][-1]["content"]
    assert "the web, ten results" in sent
    assert "everything" not in sent
