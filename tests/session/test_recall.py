"""A question brings memory items back from swap: by their words, and by the message they were learned from."""

import json
import re
from math import inf
from pathlib import Path
from typing import Any

import openai
import pytest

import ctxwrap
from ctxwrap.inspect import details_of
from ctxwrap.settings import MemoryRules, PerTier
from ctxwrap.stores.files.store import FileStore
from ctxwrap.testing import Answer, ScriptedProvider
from ctxwrap.testing.scripted import Request
from ctxwrap.types import SessionKey
from tests.support import events

KEY = SessionKey("default", "default", "s")
FADING = MemoryRules(
    half_lives=PerTier(core=inf, working=1, ephemeral=1),
    least_stay=PerTier(core=inf, working=1, ephemeral=1),
    most_stay=PerTier(core=inf, working=2, ephemeral=2),
)
"""An item that is not used goes from working to swap in five rounds."""

PASSING = ["Hello there!", "It rains.", "Never mind.", "The tram is late.", "Good night.", "Fine."]
DENTIST = {"id": "dentist", "content": "The dentist of the user's sister is called Halloran.", "tier": "working"}


class Chat:
    """A caller of a wrapped client; the model remembers what the test says."""

    def __init__(self, home: Path, **settings: Any) -> None:
        self.home, self._settings = home, {"memory": FADING, **settings}

    def says(self, *texts: str, remembers: Any = (), stream: bool = False) -> Request:
        """Send the messages one after the other through a client of their own; return the last request."""
        with ScriptedProvider(lambda _: Answer("I see.", remembers=remembers)) as provider:
            bare = openai.OpenAI(api_key="x", base_url=provider.openai_url, max_retries=0)
            client: Any = ctxwrap.wrap(bare, store=FileStore(self.home), session="s", **self._settings)
            for text in texts:
                said = [{"role": "user", "content": text}]
                reply = client.chat.completions.create(model="gpt-4o", messages=said, stream=stream)
                for _ in reply if stream else ():
                    pass
        ctxwrap.flush()
        return provider.last

    def tiers(self) -> dict[str, str]:
        known = details_of(FileStore(self.home), KEY)
        placed = {**known["memory"], "swap": known["swap"]}
        return {each["id"]: tier for tier, items in placed.items() for each in items}

    def recalled(self) -> list[tuple[str, str]]:
        """The items that came back, each with the reason."""
        found = [event for event in events(self.home, "s") if event["type"] == "recall"]
        return [(each["id"], each["reason"]) for event in found for each in event["operations"]]


@pytest.fixture
def chat(home: Path) -> Chat:
    return Chat(home)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_question_brings_an_item_back_to_the_tier_it_had(chat: Chat, stream: bool) -> None:
    chat.says("We spoke of teeth.", remembers=[DENTIST])
    assert DENTIST["content"] not in chat.says(*PASSING).memory
    assert chat.tiers()["dentist"] == "swap"
    asked = chat.says("Which dentist does my sister see?", stream=stream)
    assert DENTIST["content"] in asked.memory
    assert chat.tiers()["dentist"] == "working"
    assert chat.recalled() == [("dentist", "the user spoke of it again")]


def test_other_items_stay_in_swap(chat: Chat) -> None:
    others = [{"id": f"o-{at}", "content": f"The user's sister has a boat of type {at}."} for at in range(9)]
    chat.says("We spoke of teeth.", remembers=[DENTIST, *others])
    chat.says(*PASSING)
    chat.says("Which dentist does my sister see?")
    assert [id for id, _ in chat.recalled()] == ["dentist"]
    chat.says("And what is the weather in Lisbon like in autumn?")
    assert len(chat.recalled()) == 1


def test_item_returns_to_the_next_tier_if_its_own_is_full(home: Path) -> None:
    chat = Chat(home, memory=MemoryRules(capacity=PerTier(core=2, working=150, ephemeral=100)))
    chat.says("We spoke of teeth.", remembers=[{**DENTIST, "tier": "core", "decay": 0.9}])
    kept = [{"id": f"c-{at}", "content": f"Rule {at} of the house is kept.", "tier": "core"} for at in range(2)]
    chat.says("There are rules.", remembers=kept)
    assert chat.tiers() == {"dentist": "swap", "c-0": "core", "c-1": "core"}
    chat.says("Which dentist does my sister see?")
    assert chat.tiers() == {"dentist": "working", "c-0": "core", "c-1": "core"}


def test_found_message_brings_back_what_was_learned_from_it(home: Path) -> None:
    chat = Chat(home, history_tokens=30)
    drops = {"id": "drops", "content": "Juniper needs drops every second evening.", "tier": "working"}
    other = {"id": "other", "content": "The answer was to be short.", "tier": "working"}
    chat.says("Our cat Juniper needs her drops every second evening.", remembers=[drops, other])
    chat.says(*PASSING, *PASSING)
    assert {*chat.tiers().values()} == {"swap"}
    asked = chat.says("What is the name of our cat?")
    assert "Our cat Juniper" in asked.text
    assert chat.recalled() == [("drops", "the message was found")]
    assert drops["content"] in asked.memory
    assert chat.tiers() == {"drops": "working", "other": "swap"}


def test_newest_of_several_values_comes_back(chat: Chat) -> None:
    for city in ("Porto", "Lisbon"):
        lives = {"id": f"home-{city}", "content": f"The user lives in {city}.", "tier": "working"}
        chat.says("We spoke of homes.", remembers=[lives])
    assert chat.tiers() == {"home-Porto": "swap", "home-Lisbon": "working"}
    chat.says(*PASSING)
    assert {*chat.tiers().values()} == {"swap"}
    chat.says("Where do I live, was it Porto?")
    assert chat.tiers() == {"home-Porto": "swap", "home-Lisbon": "working"}


def test_of_what_was_told_twice_the_newer_comes_first_with_its_date(home: Path) -> None:
    chat = Chat(home, history_tokens=30)
    for hour in ("three", "five"):
        chat.says(f"The meeting about the harbour is at {hour}.", *PASSING)
    block = chat.says("When is the meeting about the harbour?").text.partition("<ctxwrap-found>\n")[2]
    found = [json.loads(line) for line in block.partition("\n</ctxwrap-found>")[0].split("\n")]
    said = [text for each in found for text in each.values()]
    assert [text for text in said if "harbour" in text] == [
        "The meeting about the harbour is at five.",
        "The meeting about the harbour is at three.",
    ]
    first, *others = (who for each in found for who in each)
    assert re.fullmatch(r"\d{4}-\d\d-\d\d (user|assistant)", first)
    assert {*others} <= {"user", "assistant"}  # of the same day
