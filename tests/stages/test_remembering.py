"""Which memories a call gets to see: the longest-lived first, within their room, and seldom in a new place."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ctxwrap.memory.items import TIERS
from ctxwrap.stages.remembering import chosen, remembered

ITEMS = st.lists(
    st.tuples(st.sampled_from(["fact", "task", "decision", "file"]), st.floats(0, 1), st.integers(1, 40)), max_size=20
)


@given(ITEMS, ITEMS, st.integers(0, 300))
def test_memory_is_chosen_by_tier_first(core: list[Any], working: list[Any], room: int) -> None:
    def tier(name: str, items: list[Any]) -> list[dict[str, Any]]:
        return [{"id": f"{name}{at}", "type": t, "decay": d, "size": s} for at, (t, d, s) in enumerate(items)]

    memory = {"core": tier("c", core), "working": tier("w", working), "ephemeral": []}
    ids, items = chosen(memory, room, lambda item: int(item["size"]))
    everything = {item["id"]: item["size"] for items in memory.values() for item in items}
    assert sorted(id for item in items for id in item.refs) == sorted(everything)
    assert {id for item in items if item.included for id in item.refs} == ids
    assert sum(everything[id] for id in ids) <= room
    left = room - sum(size for id, size in everything.items() if id in ids and id.startswith("c"))
    assert all(everything[id] > left for id in everything if id.startswith("c") and id not in ids)


SIZED = st.lists(st.integers(1, 60), max_size=15)


@given(SIZED, SIZED, st.integers(0, 1500), st.booleans())
def test_what_is_told_fits_and_is_all_that_is_shown(was: list[int], now: list[int], room: int, may: bool) -> None:
    def memory(sizes: list[int]) -> dict[str, list[dict[str, Any]]]:
        items = [{"id": f"m{at}", "type": "fact", "decay": 0.1, "size": size} for at, size in enumerate(sizes)]
        return {"core": items, "working": [], "ephemeral": []}

    made = remembered(memory(now), memory(was), room, lambda item: int(item["size"]), may_begin=may)
    told = [item for part in (made.epoch, made.told.changes) for tier in TIERS for item in part[tier]]
    assert made.tokens == sum(item["size"] for item in told) <= room
    assert may or not made.is_new
    shown = {item["id"] for tier in TIERS for item in made.told.shown[tier]}
    assert shown == {item["id"] for item in told} - set(made.told.dropped)
    assert shown == {id for item in made.items if item.included for id in item.refs}


def test_memory_that_is_too_large_does_not_begin_an_epoch_with_every_call() -> None:
    """What has faded a little more than another makes way for it: that alone is no reason to tell all anew."""
    epoch, began = None, 0
    for round in range(60):
        items = [
            {"id": f"m{at}", "type": "fact", "decay": ((at * 7 + round) % 50) / 50, "content": at} for at in range(100)
        ]
        memory = {"core": items, "working": [], "ephemeral": []}
        made = remembered(memory, epoch, 3000, lambda _: 50, may_begin=True)
        epoch, began = made.epoch, began + made.is_new
    assert began <= 12
