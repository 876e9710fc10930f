"""Whatever habits a model has: the user sees its answer, and memory keeps what it should and no more."""

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest

import ctxwrap
from ctxwrap.errors import SettingsError
from ctxwrap.memory.items import TIERS
from ctxwrap.testing import Request, ScriptedProvider
from ctxwrap.testing.habits import HABITS, Habit, ReplyParts
from ctxwrap.testing.practice import Ask, Provider
from ctxwrap.testing.practice.model import before_reask
from tests.support import assert_clean

TURNS = 150
TOLD = {
    1: "My name is Ada and I am allergic to peanuts.",
    2: "I need to book the ferry to Oslo.",
    3: "I am on the train right now.",
    100: "I live in Bergen.",
}
"""What matters, by turn: two facts for good, a task, a hint that soon is not true any more, and a late fact."""

FACTS = ("Ada", "peanuts", "Bergen")
TASK, HINT = "ferry", "train"
TASK_STAYS, HINT_GOES = 30, 60

SMALL_TALK = [
    " ".join(words)
    for words in product(
        ("The sun", "This song", "That story", "The soup", "The garden", "The match", "The river", "The cat"),
        ("looks fine", "was better last year", "came as a surprise", "takes its time", "makes people smile"),
        ("today.", "again.", "somehow.", "as ever."),
    )
]

ASKED_AGAIN = {"copies_example", "translates_keys", "narrates"}
"""What they write is no state in any reading, so each of their states may be asked for once more."""

DROPS_FACTS = {"drops_everything_once": ("Ada", "peanuts")}
"""It drops by name what it was told before, and nobody tells it again."""

DROPS_TASK = {"drops_everything_once"}

KEEPS_HINT = {
    "all_core",  # it says that the hint is core, which does not age
    "dates_contents",  # another number is another statement, and only what is not said again ages
}
HINT_IN_CORE = {"all_core"}

SHOWS_MORE = {"narrates"}
"""Prose behind the separator is no state, and the text of a reply is never lost: it stays in the answer."""


@dataclass
class Chat:
    """A conversation as it went: what the provider was asked, what it meant, and what the user saw."""

    habit: Habit
    asks: list[Ask] = field(default_factory=list)
    asked_again: list[Ask] = field(default_factory=list)
    shown: list[dict[str, list[str]]] = field(default_factory=list)
    """The contents that the model was shown in each turn, by tier."""
    meant: list[ReplyParts] = field(default_factory=list)
    seen: list[str] = field(default_factory=list)

    def answer(self, ask: Ask) -> ReplyParts:
        reply = self.habit(ask)
        if before_reask(ask.messages) is not None:
            self.asked_again.append(ask)
        else:
            memory = (Request(ask).context or {}).get("memory", {})
            self.shown.append({tier: [note["content"] for note in memory.get(tier, [])] for tier in TIERS})
            self.asks.append(ask)
            self.meant.append(reply)
        return reply

    def contents(self, turn: int) -> list[str]:
        return [content for contents in self.shown[turn - 1].values() for content in contents]


Say = Callable[[str, bool], str]


def openai_chat(provider: Provider, store: Any) -> Say:
    bare = openai.OpenAI(api_key="x", base_url=provider.openai_url, max_retries=0)
    client = ctxwrap.wrap(bare, store=store, session="s")

    def say(text: str, streams: bool) -> str:
        said: Any = [{"role": "user", "content": text}]
        reply: Any = client.chat.completions.create(model="m", messages=said, stream=streams)
        if not streams:
            return reply.choices[0].message.content or ""
        return "".join(chunk.choices[0].delta.content or "" for chunk in reply if chunk.choices)

    return say


def anthropic_chat(provider: Provider, store: Any) -> Say:
    bare = anthropic.Anthropic(api_key="x", base_url=provider.anthropic_url, max_retries=0)
    client = ctxwrap.wrap(bare, store=store, session="s")

    def say(text: str, streams: bool) -> str:
        said: Any = [{"role": "user", "content": text}]
        if not streams:
            reply = client.messages.create(model="m", max_tokens=999, messages=said)
            return "".join(block.text for block in reply.content if block.type == "text")
        with client.messages.stream(model="m", max_tokens=999, messages=said) as stream:
            return "".join(stream.text_stream)

    return say


def chat_with(habit: Habit, turns: int = TURNS) -> Chat:
    """The conversation of so many turns, in each of which the caller sends only its newest message.

    One session goes on over both SDKs, two turns each, the first whole and the second streamed.
    """
    chat, store = Chat(habit), ctxwrap.open_store("memory:")
    with Provider(chat.answer, record=False) as provider:
        clients = [client(provider, store) for client in (openai_chat, anthropic_chat)]
        for turn in range(1, turns + 1):
            said = TOLD.get(turn) or SMALL_TALK[turn % len(SMALL_TALK)]
            chat.seen.append(clients[(turn - 1) // 2 % 2](said, turn % 2 == 0))
    return chat


@pytest.mark.parametrize("habit", HABITS.values(), ids=HABITS)
def test_long_chat_with_each_habit_keeps_its_promises(habit: Habit) -> None:
    chat = chat_with(habit)
    faults = [fault for check in CHECKS for fault in check(chat, habit.name)]
    assert not faults, "\n".join(faults)


def the_user_sees_the_answer(chat: Chat, name: str) -> list[str]:
    faults = []
    for turn, (reply, seen) in enumerate(zip(chat.meant, chat.seen, strict=True), 1):
        if name in SHOWS_MORE:
            holds = seen.startswith(reply.visible)
        elif reply.text.startswith(reply.visible):
            holds = seen == reply.visible
        else:  # where a state stood within the answer, white space may be left of it
            holds = seen.split() == reply.visible.split()
        if not holds:
            faults.append(f"turn {turn}: {reply.visible!r} was seen as {seen[:300]!r}")
    if name not in SHOWS_MORE:
        assert_clean(*(seen for seen in chat.seen if not faults))
    return faults[:1]


def facts_are_shown_to_the_end(chat: Chat, name: str) -> list[str]:
    shown = " ".join(chat.contents(TURNS))
    expected = [fact for fact in FACTS if fact not in DROPS_FACTS.get(name, ())]
    return [f"{fact} is not in the last request's memory: {shown}" for fact in expected if fact not in shown]


def the_task_lasts(chat: Chat, name: str) -> list[str]:
    shown = " ".join(chat.contents(TASK_STAYS))
    return [] if name in DROPS_TASK or TASK in shown else [f"the task is gone in turn {TASK_STAYS}: {shown}"]


def the_hint_goes(chat: Chat, name: str) -> list[str]:
    in_core = [turn for turn in range(1, TURNS + 1) if HINT in " ".join(chat.shown[turn - 1]["core"])]
    there = [turn for turn in range(HINT_GOES, TURNS + 1) if HINT in " ".join(chat.contents(turn))]
    faults = [f"the hint was core in turn {in_core[0]}"] if in_core and name not in HINT_IN_CORE else []
    return [*faults, *([f"the hint was there in turn {there[-1]}"] if there and name not in KEEPS_HINT else [])]


def nothing_is_remembered_twice(chat: Chat, name: str) -> list[str]:
    for turn in range(1, TURNS + 1):
        words = Counter(" ".join(re.findall(r"\b(?!the\b)\w+", text.casefold())) for text in chat.contents(turn))
        if twice := [text for text, times in words.items() if times > 1]:
            return [f"shown twice in turn {turn}: {twice}"]
    return []


def the_provider_is_asked_once_a_turn(chat: Chat, name: str) -> list[str]:
    most = TURNS if name in ASKED_AGAIN else 0
    told = f"{len(chat.asks)} calls and {len(chat.asked_again)} questions for a state in {TURNS} turns"
    return [] if len(chat.asks) == TURNS and len(chat.asked_again) <= most else [told]


CHECKS = [
    the_user_sees_the_answer,
    facts_are_shown_to_the_end,
    the_task_lasts,
    the_hint_goes,
    nothing_is_remembered_twice,
    the_provider_is_asked_once_a_turn,
]


def test_every_habit_has_a_name_and_says_what_it_does_in_one_sentence() -> None:
    for name, habit in HABITS.items():
        assert habit.name == name
        assert re.fullmatch(r"[A-Z][^.]+\.", habit.description), habit.description
    assert len({habit.description for habit in HABITS.values()}) == len(HABITS)


@pytest.mark.parametrize("habit", HABITS.values(), ids=HABITS)
def test_a_habit_answers_a_scripted_provider_and_the_same_request_alike(habit: Habit) -> None:
    with ScriptedProvider(habit) as provider:
        say = openai_chat(provider, ctxwrap.open_store("memory:"))
        say(TOLD[1], False)
    asked = provider.last
    assert habit(asked) == habit(asked.ask)
    assert habit(asked).visible.startswith("Nice to meet you, Ada.")


def test_habits_write_no_snapshot_unless_asked_for_one() -> None:
    for name, habit in HABITS.items():
        with Provider(habit=name) as provider, openai.OpenAI(api_key="x", base_url=provider.openai_url) as client:
            said: Any = [{"role": "user", "content": TOLD[1]}]
            text = client.chat.completions.create(model="m", messages=said).choices[0].message.content
            assert text == "Nice to meet you, Ada. Noted: you are allergic to peanuts."
            assert provider.answer is habit


def test_docs_page_names_every_habit() -> None:
    page = (Path(__file__).parents[2] / "docs" / "testing.md").read_text()
    assert [name for name in HABITS if f"`{name}`" not in page] == []


def test_provider_rejects_an_unknown_habit_or_two_models() -> None:
    with pytest.raises(SettingsError, match="habit"):
        Provider(habit="obedeint")
    with pytest.raises(SettingsError, match="either"):
        Provider(HABITS["silent"], habit=HABITS["silent"])
