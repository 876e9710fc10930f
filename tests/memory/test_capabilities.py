"""What a model says it can do: it may change that, but for what it once wrote as `write_once`."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import openai
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ctxwrap
from ctxwrap.inspect import memory_of
from ctxwrap.memory.memory import Memory, capability_name, is_write_once, merge_capabilities
from ctxwrap.memory.operations import Circumstances, compare
from ctxwrap.protocol.instructions import SEPARATOR
from ctxwrap.session.lookup import key_for, open_existing
from ctxwrap.settings import MemoryRules
from ctxwrap.stores.files.store import FileStore
from ctxwrap.testing.practice import Answer, Ask, Provider
from ctxwrap.types import TurnRecord
from tests.support import events, item, state_shown

SEARCH = {"name": "search", "scope": "write_once", "note": "the web, ten results"}
DRAW = {"name": "draw", "note": "small pictures"}

ENTRIES = st.one_of(
    st.sampled_from(["search", "draw"]),
    st.fixed_dictionaries(
        {"name": st.sampled_from(["search", "draw", "count"]), "note": st.integers(0, 2)},
        optional={"scope": st.sampled_from(["write_once", "session"])},
    ),
)
LISTS = st.lists(ENTRIES, max_size=4, unique_by=capability_name)


@given(LISTS, LISTS)
def test_write_once_capabilities_stay_and_others_are_as_returned(before: list[Any], returned: list[Any]) -> None:
    result, violation = merge_capabilities(before, returned)
    fixed = {capability_name(each): each for each in before if is_write_once(each)}
    assert {capability_name(each): each for each in result} == {
        capability_name(each): each for each in returned
    } | fixed
    assert len({capability_name(each) for each in result}) == len(result)
    assert bool(violation) == any(fixed.get(capability_name(each), each) != each for each in returned)
    assert merge_capabilities(result, returned)[0] == result, "saying it again changes nothing"


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
def test_write_once_capability_is_not_changed(chat: Chat, snapshot: str) -> None:
    chat.restart(snapshot=snapshot)
    assert chat.hear(SEARCH, DRAW).violations == ()
    changed = chat.hear({**SEARCH, "note": "everything"}, {**DRAW, "note": "large pictures"})
    assert changed.violations == ("capability 'search' is write_once and was changed: it stays",)
    assert chat.known == [SEARCH, {**DRAW, "note": "large pictures"}]
    told = [event["violations"] for event in events(chat.home, "s") if event["type"] == "snapshot"]
    assert told == [[], ["capability 'search' is write_once and was changed: it stays"]]


def test_write_once_capability_cannot_be_made_mutable_or_left_out(chat: Chat) -> None:
    chat.hear(SEARCH, DRAW)
    assert chat.hear().violations == ()
    assert chat.known == [SEARCH]
    chat.hear({**SEARCH, "scope": "session"}, "search")
    assert SEARCH in chat.known
    assert {**SEARCH, "scope": "session"} not in chat.known


def test_write_once_capability_is_kept_by_another_process(chat: Chat) -> None:
    chat.hear(SEARCH)
    for checkpoint in chat.home.rglob(".checkpoint"):
        checkpoint.unlink()
    chat.restart()
    assert len(chat.hear({**SEARCH, "note": "everything"}).violations) == 1
    assert chat.known == [SEARCH]


def test_kept_capability_is_shown_to_the_model(chat: Chat) -> None:
    chat.hear(SEARCH)
    chat.hear({**SEARCH, "note": "everything"})
    chat.hear(SEARCH)
    sent = chat.provider.seen[-1].json["messages"][-1]["content"]
    assert "the web, ten results" in sent
    assert "everything" not in sent


MEMORY = {"name": "memory", "scope": "write_once"}


class WriteOnceChat(Chat):
    """A session whose memory is write_once, with a model that writes the items that a test says."""

    def tell(self, *items: dict[str, Any], dropped: Sequence[str] = ()) -> TurnRecord:
        def answer(ask: Ask) -> Answer:
            state = state_shown(ask) | {"capabilities": [MEMORY], "dropped": list(dropped)}
            state["memory"] = {"core": list(items), "working": [], "ephemeral": []}
            return Answer(f"Fine.\n\n{SEPARATOR}\n{json.dumps(state)}")

        self.provider.answer = answer
        reply = self.client.chat.completions.create(model="m", messages=[{"role": "user", "content": "Go on."}])
        turn = ctxwrap.turn_of(reply)
        assert turn is not None
        return turn

    @property
    def items(self) -> dict[str, tuple[str, str]]:
        """Content and place of each item."""
        memory = open_existing(key_for("s"), self.home, keeps_all=True).memory
        return {each.id: (each.content, each.tier) for each in (*memory.items.values(), *memory.swap.values())}


LISBON, PORTO = "The office is in Lisbon.", "The printer is in Porto, on the third floor."


@pytest.fixture(params=[{}, {"evolution": "off"}, {"snapshot": "full"}], ids=["delta", "off", "full"])
def once(provider: Provider, home: Path, request: pytest.FixtureRequest) -> WriteOnceChat:
    chat = WriteOnceChat(provider, home)
    chat.restart(**request.param)
    return chat


def test_an_item_of_write_once_memory_keeps_its_content(once: WriteOnceChat) -> None:
    assert once.tell(item("c-1", LISBON)).violations == ()
    turn = once.tell(item("c-1", PORTO))
    assert turn.violations == ("memory is write_once: 'c-1' keeps its content, 'c-1-2' has the new one",)
    assert once.items == {"c-1": (LISBON, "swap"), "c-1-2": (PORTO, "core")}
    drop = next(each for each in turn.operations if each.kind == "drop")
    assert (drop.id, drop.successor) == ("c-1", "c-1-2")
    assert any(turn.violations[0] in event["violations"] for event in events(once.home, "s") if "violations" in event)


def test_write_once_memory_accepts_new_items_and_drops(once: WriteOnceChat) -> None:
    once.tell(item("c-1", LISBON), item("c-2", "The team has four members."))
    turn = once.tell(item("c-2", "The team has four members."), item("c-3", PORTO), dropped=["c-1"])
    assert turn.violations == ()
    assert {id for id, (_, tier) in once.items.items() if tier != "swap"} == {"c-2", "c-3"}


def test_a_pinned_item_of_write_once_memory_stays_beside_the_new_one(once: WriteOnceChat) -> None:
    once.tell(item("c-1", LISBON))
    ctxwrap.pin("s", "c-1", store=once.home)
    once.tell(item("c-1", PORTO))
    assert once.items == {"c-1": (LISBON, "core"), "c-1-2": (PORTO, "core")}


def test_write_once_notice_is_sent_only_while_memory_is_write_once(chat: Chat) -> None:
    sentence = "Memory is write_once: an object keeps its content."
    chat.hear(SEARCH)
    chat.hear(MEMORY)
    chat.hear(MEMORY)
    sent = [str(seen.json["messages"]) for seen in chat.provider.seen]
    assert [sentence in text for text in sent] == [False, False, True]
    chat.restart(context_mode="readonly")
    chat.hear(MEMORY)
    assert sentence not in str(chat.provider.seen[-1].json["messages"])


@given(st.lists(st.dictionaries(st.sampled_from("abc"), st.sampled_from([LISBON, PORTO, "Tea is fine.", "No, 7."]))))
def test_no_content_of_write_once_memory_is_ever_rewritten(replies: list[dict[str, str]]) -> None:
    memory, contents = Memory(MemoryRules()), dict[str, str]()
    memory.capabilities = [MEMORY]
    for round, told in enumerate(replies, 1):
        shown = memory.at(round)[0]
        known = [item(id, content, round=round) for id, content in told.items()]
        returned = {**shown, "memory": {"core": known, "working": [], "ephemeral": []}}
        memory.apply(compare(shown, returned, memory, Circumstances(round)), round)
        for each in (*memory.items.values(), *memory.swap.values()):
            assert contents.setdefault(each.id, each.content) == each.content
