"""How memory changes: what a turn was shown against what came back, as operations, and the fold over them."""

from collections.abc import Iterable, Mapping
from typing import Any

from ctxwrap.types import Operation

State = Mapping[str, Any]
"""`{"memory": {tier: [item, …]}, "capabilities": […], "active_task": "…"}`"""


def compare(shown: State, returned: State) -> tuple[Operation, ...]:
    """What the model did to the memory it was shown: every item that is new, other than it was, or left out."""
    before, after = _placed(shown), _placed(returned)
    changes = [
        Operation("update" if id in before else "add", id, tier, item)
        for id, (tier, item) in after.items()
        if before.get(id) != (tier, item)
    ]
    drops = [Operation("drop", id, tier, reason="left out") for id, (tier, _) in before.items() if id not in after]
    return (*changes, *drops)


def apply(state: State, operations: Iterable[Operation]) -> dict[str, Any]:
    """`state` after the operations; items keep their place, new ones come last."""
    placed = _placed(state)
    for operation in operations:
        if operation.kind == "drop":
            placed.pop(operation.id, None)
        elif operation.item is not None:
            placed[operation.id] = (operation.tier, operation.item)
    tiers: dict[str, list[Any]] = {tier: [] for tier in state["memory"]}
    for tier, item in placed.values():
        tiers.setdefault(tier, []).append(item)
    return {**state, "memory": tiers}


def _placed(state: State) -> dict[str, tuple[str, Any]]:
    return {item["id"]: (tier, item) for tier, items in state["memory"].items() for item in items}
