"""Epochs: with the changes told beside it, an epoch is memory as it is, but for what changes with every round."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxwrap.memory.epoch import diff_epoch, freeze_memory, parse_epoch, unchanged_ids
from ctxwrap.memory.items import TIERS
from ctxwrap.memory.operations import complete_state

ITEM = st.builds(
    lambda id, decay, round, content: {"id": id, "decay": decay, "round": round, "content": content},
    st.sampled_from("abcdefgh"),
    st.sampled_from([0.1, 0.2, 0.3]),
    st.integers(1, 3),
    st.sampled_from(["tea", "rain"]),
)


def _memory(items: list[tuple[str, dict[str, Any]]]) -> dict[str, list[dict[str, Any]]]:
    placed = {item["id"]: (tier, item) for tier, item in items}
    return {tier: [item for where, item in placed.values() if where == tier] for tier in TIERS}


MEMORY = st.lists(st.tuples(st.sampled_from(TIERS), ITEM), max_size=10).map(_memory)


def known(memory: Any) -> dict[str, Any]:
    return {item["id"]: (tier, {**item, "decay": 0, "round": 0}) for tier in TIERS for item in memory[tier]}


@given(MEMORY, MEMORY)
def test_epoch_plus_changes_equals_memory(before: Any, now: Any) -> None:
    epoch = freeze_memory(before)
    told = diff_epoch(epoch, now)
    merged = complete_state({"memory": epoch}, {"memory": told.changes, "dropped": told.dropped})["memory"]
    assert known(merged) == known(told.shown) == known(now)
    assert {item["id"]: item for tier in TIERS for item in merged[tier]} == {
        item["id"]: item for tier in TIERS for item in told.shown[tier]
    }


@given(MEMORY, MEMORY)
def test_epoch_diff_contains_only_changed_items(before: Any, now: Any) -> None:
    told = diff_epoch(freeze_memory(before), now)
    changed = {item["id"] for tier in TIERS for item in told.changes[tier]}
    assert changed == {id for id, item in known(now).items() if known(before).get(id) != item}
    assert told.dropped == sorted(known(before).keys() - known(now).keys())


@given(MEMORY, MEMORY, st.none() | st.sets(st.sampled_from("abcdefgh")))
def test_unchanged_items_follow_from_the_epoch_and_its_changes(before: Any, now: Any, among: set[str] | None) -> None:
    epoch = freeze_memory(before)
    told = diff_epoch(epoch, now, among)
    assert told.unchanged == unchanged_ids(epoch, told.changes, told.dropped)
    for id in told.dropped:  # it came back from swap
        back = {**told.changes, "core": [*told.changes["core"], {"id": id}]}
        assert told.unchanged == unchanged_ids(epoch, back, [each for each in told.dropped if each != id])


@given(MEMORY)
def test_epoch_does_not_depend_on_the_order_in_memory(memory: Any) -> None:
    turned = {tier: memory[tier][::-1] for tier in TIERS}
    assert freeze_memory(memory) == freeze_memory(turned)
    nothing = diff_epoch(freeze_memory(memory), memory)
    assert not any(nothing.changes.values())


@given(MEMORY)
def test_epoch_is_restored_from_the_log(memory: Any) -> None:
    assert parse_epoch(freeze_memory(memory)) == freeze_memory(memory)


@pytest.mark.parametrize("value", [None, [], {}, {"core": 3}, {"core": [], "working": [1], "ephemeral": []}, "core"])
def test_invalid_epoch_is_rejected(value: Any) -> None:
    with pytest.raises(ValueError, match="lists of memory items"):
        parse_epoch(value)
