"""The fold over operations: nothing is lost, looking changes nothing, and a checkpoint is as good as a replay."""

import json
from dataclasses import replace
from math import inf
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ctxwrap.memory.items import MemoryItem, is_foreign
from ctxwrap.memory.memory import Memory, rules_as_json
from ctxwrap.memory.operations import Circumstances, compare
from ctxwrap.memory.similarity import subjects
from ctxwrap.settings import MemoryRules, PerTier
from ctxwrap.types import Operation

RULES = MemoryRules(capacity=PerTier(core=3, working=3, ephemeral=2))
IDS = st.sampled_from([f"m-{number}" for number in range(9)])
ITEMS = st.builds(
    lambda id, decay, text: {
        "id": id,
        "type": "fact",
        "decay": decay,
        "round": 1,
        "tags": [],
        "content": f"The number {text} of {id}",
    },
    IDS,
    st.floats(0, 1),
    st.integers(0, 3),
)
TIERS = st.sampled_from(["core", "working", "ephemeral"])
TURNS = st.lists(
    st.tuples(st.integers(0, 30), st.lists(st.tuples(TIERS, ITEMS), max_size=4), st.sets(IDS), st.booleans()),
    max_size=8,
)
Logged = tuple[int, tuple[Operation, ...]]


def played(turns: list[Any], memory: Memory) -> list[Logged]:
    """The operations of some turns: rounds go by, the model drops some of what it sees and writes something new."""
    log: list[Logged] = []
    for rounds, written, dropped, foreign in turns:
        round = memory.round + rounds + 1
        memory.advance(round)
        shown = memory.shown()
        memories = {
            tier: [each for each in items if each["id"] not in dropped] for tier, items in shown["memory"].items()
        }
        known = {each["id"] for items in memories.values() for each in items}
        for tier, new in {new["id"]: (tier, new) for tier, new in written}.values():
            if new["id"] not in known:
                memories[tier].append(new)
        turn = Circumstances(round, "tool" if foreign else "user")
        operations = compare(shown, {**shown, "memory": memories}, memory, turn)
        memory.apply(operations, round)
        log.append((round, operations))
    return log


def replayed(log: list[Logged]) -> Memory:
    memory = Memory(RULES)
    for round, operations in log:
        memory.apply(operations, round)
    return memory


@given(TURNS)
def test_every_item_is_in_memory_or_swap(turns: list[Any]) -> None:
    memory = Memory(RULES)
    log = played(turns, memory)
    added = {operation.id for _, operations in log for operation in operations}
    assert memory.items.keys() | memory.swap.keys() == added
    assert not memory.items.keys() & memory.swap.keys()
    held = [each.tier for each in memory.items.values()]
    assert all(held.count(tier) <= getattr(RULES.capacity, tier) for tier in ("core", "working", "ephemeral"))


@given(TURNS, st.integers(0, 8), st.integers(0, 60))
def test_checkpoint_restores_the_same_memory_as_the_log(turns: list[Any], at: int, later: int) -> None:
    memory = Memory(RULES)
    log = played(turns, memory)
    kept = Memory(RULES)
    kept.restore(json.loads(json.dumps(replayed(log[:at]).as_json())))
    for round, operations in log[at:]:
        kept.apply(operations, round)
    whole, target = replayed(log), memory.round + later
    for each in (memory, kept, whole):
        each.advance(target)
    assert kept.as_json() == whole.as_json() == memory.as_json()


@given(TURNS, st.integers(0, 200))
def test_reading_memory_more_often_changes_nothing(turns: list[Any], rounds: int) -> None:
    one, other = Memory(RULES), Memory(RULES)
    log = played(turns, one)
    for round, operations in log:
        other.apply(operations, round)
    target = one.round + rounds
    seen, _ = one.at(target)
    moves = [move for round in range(one.round, target + 1) for move in one.advance(round)]
    assert {move[:3] for move in other.advance(target)} == {move[:3] for move in moves}
    assert one.shown() == other.shown() == seen


@given(TURNS)
def test_foreign_text_never_reaches_core(turns: list[Any]) -> None:
    memory = Memory(RULES)
    played([(*turn[:3], True) for turn in turns], memory)
    memory.advance(memory.round + 1)
    assert all(each.tier != "core" and each.origin == "tool" for each in memory.items.values())


@given(TURNS, st.lists(st.integers(0, 40), max_size=8), st.booleans())
def test_memory_that_was_looked_at_is_seen_like_one_from_the_log(
    turns: list[Any], ahead: list[int], aging: bool
) -> None:
    """What is kept of items between rounds never outlives a change of an item, its tier or the rules."""
    memory, log = Memory(RULES), list[Logged]()
    for at, turn in enumerate(turns):
        log += played([turn], memory)
        later = memory.round + (ahead[at] if at < len(ahead) else 1)
        assert memory.at(later) == replayed(log).at(later)
    rules = replace(RULES, half_lives=PerTier(core=40 if aging else inf, working=3, ephemeral=2))
    fresh = replayed(log)
    for each in (memory, fresh):
        each.govern(rules, evolves=True)
    assert memory.at(memory.round + 2) == fresh.at(memory.round + 2) == _replayed_by(rules, log).at(memory.round + 2)


def _replayed_by(rules: MemoryRules, log: list[Logged]) -> Memory:
    """Items as the log has them, read from a checkpoint, under other rules."""
    memory = Memory(rules)
    memory.restore({**replayed(log).as_json(), "rules": rules_as_json(rules, evolves=True)})
    return memory


CHANGES = st.lists(
    st.tuples(
        st.integers(0, 20),
        st.sampled_from(["update", "update", "update", "drop", "forget"]),
        st.fixed_dictionaries(
            {
                "id": st.sampled_from(["a", "b", "c", "d"]),
                "type": st.sampled_from(["fact", "todo"]),
                "content": st.sampled_from(
                    [f"The {drink} of the {who}" for drink in ("tea", "milk") for who in ("user", "cat")]
                ),
                "tags": st.just(()),
                "tier": st.sampled_from(["core", "working", "ephemeral", "swap"]),
                "decay": st.sampled_from([0.1, 0.4, 0.7]),
                "anchor": st.just(1),
                "first": st.just(1),
                "last": st.just(1),
                "pinned": st.booleans(),
                "origin": st.sampled_from(["user", "assistant", "rule", "tool"]),
            }
        ).map(MemoryItem.from_json),
    ),
    max_size=14,
)


@given(CHANGES, st.sets(st.integers(0, 13)))
def test_memory_that_was_searched_answers_like_one_that_was_just_read(changes: Any, unsearched: set[int]) -> None:
    """Whatever is kept of items follows their contents, tiers and origins, however they change."""
    memory = Memory(RULES)
    for at, (rounds, kind, item) in enumerate(changes):
        made = item._replace(anchor=memory.round, last=memory.round, since=memory.round).as_json()
        memory.apply([Operation(kind, item.id, item.tier, made if kind == "update" else None)], memory.round + rounds)
        if at not in unsearched:
            fresh = Memory(RULES)
            fresh.restore(json.loads(json.dumps(memory.as_json())))
            assert _answers(memory, item) == _answers(fresh, item)
    every = {**memory.items, **memory.swap}
    assert memory.foreign == {id: item.origin for id, item in every.items() if is_foreign(item.origin)}
    assert memory.from_rules() == [item for item in memory.items.values() if item.origin == "rule"]
    words = subjects("milk")
    assert memory.sharing_words(words) == {id for id, item in every.items() if words & subjects(item.content)}


def _answers(memory: Memory, item: MemoryItem) -> tuple[Any, ...]:
    then = memory.round + 3
    return (
        memory.at(memory.round),
        memory.at(then),
        memory.find_same(item.content),
        memory.find_same(item.content, item.id),
        memory.asked_in_swap(item.content),
        memory.sharing_words(subjects(item.content)),
        memory.foreign,
        memory.from_rules(),
    )


@given(TURNS, st.sampled_from(["user", "tool", "rule"]))
def test_forgotten_items_leave_nothing_behind(turns: list[Any], origin: Any) -> None:
    memory = Memory(RULES)
    played(turns, memory)
    for item in [*memory.items.values(), *memory.swap.values()]:
        memory.apply([Operation("update", item.id, item.tier, item._replace(origin=origin).as_json())], memory.round)
    for id in [*memory.items, *memory.swap]:
        memory.apply([Operation("forget", id, "core")], memory.round)
    assert not any(memory.shown()["memory"].values())
    assert not memory.foreign
    assert not memory.from_rules()
