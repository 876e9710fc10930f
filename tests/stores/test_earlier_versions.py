"""A session that an earlier version wrote: its rounds are told by their own rules, new ones go by the new rules.

`tests/earlier` is its log, written when core faded by half in 96 rounds and no rule said how long items stay, and what
was remembered at the end of each of its rounds.
"""

import json
import shutil
from math import inf
from pathlib import Path
from typing import Any

import openai
import pytest

import ctxwrap
from ctxwrap.inspect import memory_at, memory_of, pack_of
from ctxwrap.memory.items import TIERS
from ctxwrap.memory.memory import rules_from_json
from ctxwrap.session.lookup import key_for
from ctxwrap.settings import MemoryRules
from ctxwrap.stores.files.store import FileStore
from ctxwrap.testing.practice import Provider
from tests.support import Told, lines

EARLIER = Path(__file__).parent / "earlier"
THEN = json.loads((EARLIER / "memory.json").read_text())
"""The decay of each item by tier, round by round."""
ROUNDS = len(THEN)
KEY = key_for("ada")


@pytest.fixture
def home(home: Path) -> Path:
    directory = home / "home" / "default" / "agent" / "default" / "session" / "ada"
    directory.mkdir(parents=True)
    for name in ("events.jsonl", "messages.jsonl"):
        shutil.copy(EARLIER / name, directory)
    return home


def placed(state: dict[str, Any]) -> dict[str, dict[str, float]]:
    return {tier: {item["id"]: item["decay"] for item in state["memory"][tier]} for tier in TIERS}


def go_on(provider: Provider, home: Path, rounds: int, **settings: Any) -> None:
    provider.answer = Told("Good morning.")
    bare = openai.OpenAI(api_key="k", base_url=provider.openai_url)
    client = ctxwrap.wrap(bare, store=home, session="ada", **settings)
    for _ in range(rounds):
        client.chat.completions.create(model="m", messages=[{"role": "user", "content": "Good morning!"}])


def rules_told(home: Path) -> list[MemoryRules]:
    return [rules_from_json(event["rules"])[0] for event in lines(home, "ada", "events") if "rules" in event]


def test_rounds_of_an_earlier_version_follow_its_rules(home: Path) -> None:
    store = FileStore(home)
    assert [placed(memory_at(store, KEY, round)) for round in range(1, ROUNDS + 1)] == THEN
    assert THEN[0]["core"]["core-name"] < THEN[-1]["core"]["core-name"], "core faded then"


def test_new_turns_follow_new_rules_and_change_no_earlier_round(provider: Provider, home: Path) -> None:
    store = FileStore(home)
    go_on(provider, home, 40)
    assert [rules.half_lives.core for rules in rules_told(home)] == [96, inf]
    assert rules_told(home)[-1] == MemoryRules()
    assert [placed(memory_at(store, KEY, round)) for round in range(1, ROUNDS + 1)] == THEN
    now = placed(memory_of(store, KEY))
    assert now == placed(memory_at(store, KEY, ROUNDS + 40))
    assert now["core"].keys() == THEN[-1]["core"].keys(), "nothing of core has left"
    assert memory_at(store, KEY, ROUNDS + 1)["memory"]["core"] == memory_of(store, KEY)["memory"]["core"], "nor faded"
    assert "task-1" not in now["working"]


def test_decayed_core_items_regain_the_decay_of_their_last_use(provider: Provider, home: Path) -> None:
    """Its decay is counted from its last use on by the rules of the day: core has that of its last use again."""
    go_on(provider, home, 1)
    now = placed(memory_of(FileStore(home), KEY))["core"]
    assert now == {"core-name": 0.05, "fact-1": 0.0, "fact-2": 0.3}


def test_restart_of_a_session_across_versions_gives_the_same_memory(provider: Provider, home: Path) -> None:
    go_on(provider, home, 3)
    told = memory_of(FileStore(home), KEY)
    for checkpoint in home.rglob(".checkpoint"):
        checkpoint.unlink()
    assert memory_of(FileStore(home), KEY) == told


def test_packs_of_an_earlier_version_are_restored_except_unkept_texts(home: Path) -> None:
    view = pack_of(FileStore(home), KEY, ROUNDS)
    assert view.notes == ("the text of protocol is no longer kept",)
    told = {block.name: block.text for block in view.blocks}
    assert '"content":"The user\'s name is Ada."' in told["memory"], "an epoch had whole items then"
    assert told["message"] == "Hello!"
    assert "reminder" not in told


def test_next_request_contains_the_memory_of_an_earlier_version(provider: Provider, home: Path) -> None:
    go_on(provider, home, 1, budget_messages=0)
    sent = json.dumps(provider.seen[-1].json)
    assert "The user's name is Ada." in sent
    assert "Tom4" in sent
