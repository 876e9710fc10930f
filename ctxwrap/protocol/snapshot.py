"""The state the model returns, in canonical form: versions, tiers, items, and what breaks their rules."""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from ctxwrap.protocol.text import VERSION
from ctxwrap.types import Runtime

TIERS = ("core", "working", "ephemeral")
MAX_ITEMS = 1000
MAX_CONTENT = 16_384


def empty_state() -> dict[str, Any]:
    """The state before anything was remembered, without its runtime."""
    return {"memory": {tier: [] for tier in TIERS}, "capabilities": [], "active_task": ""}


def with_runtime(state: dict[str, Any], runtime: Runtime) -> dict[str, Any]:
    """`state` in the order of the document, with the system's own fields."""
    return {"version": VERSION, "runtime": runtime.as_json(), **state}


class Normalised(NamedTuple):
    """A state in canonical form, every rule it broke, and whether all of it could be taken."""

    snapshot: dict[str, Any]
    violations: tuple[str, ...]
    whole: bool


def normalise(data: dict[str, Any], runtime: dict[str, Any], previous: Mapping[str, Any]) -> Normalised | None:
    """`data` in canonical form with `runtime` restored; None if it is no state.

    What is missing or invalid stays as it was in `previous`, the state that the model was shown: leaving something
    out is how a model forgets, a mistake is not.
    """
    memory = data.get("memory")
    if not isinstance(memory, dict):
        return None
    before = previous.get("memory") or {}
    faults: list[str] = []
    seen: set[str] = set()
    tiers = {tier: _tier(tier, memory.get(tier), before.get(tier) or [], seen, faults) for tier in TIERS}
    faults += [f"unknown tier {tier!r} dropped" for tier in memory if tier not in TIERS]
    rest = {"capabilities": list, "active_task": str}
    faults += [f"{name} is missing" for name, kind in rest.items() if not isinstance(data.get(name), kind)]
    kept = {
        name: data[name] if isinstance(data.get(name), kind) else previous.get(name, kind())
        for name, kind in rest.items()
    }
    snapshot = {"version": VERSION, "runtime": dict(runtime), "memory": tiers, **kept}
    return Normalised(snapshot, (*_runtime_violations(data.get("runtime"), runtime), *faults), not faults)


def _runtime_violations(returned: Any, injected: dict[str, Any]) -> list[str]:
    if not isinstance(returned, dict):
        return ["runtime is missing"]
    return [
        f"runtime.{name} was changed from {value!r} to {returned.get(name)!r}"
        for name, value in injected.items()
        if returned.get(name) != value
    ]


def _tier(tier: str, items: Any, before: list[Any], seen: set[str], faults: list[str]) -> list[dict[str, Any]]:
    if not isinstance(items, list):
        faults.append(f"{tier} is no list, so it stays as it was")
        return list(before)
    known = {item["id"]: item for item in before}
    kept = []
    for item in items[:MAX_ITEMS]:
        fault = _fault(item, seen)
        if fault:
            faults.append(f"{tier} item dropped: {fault}")
            item = known.get(item.get("id")) if isinstance(item, dict) and isinstance(item.get("id"), str) else None
        if item is not None and item["id"] not in seen:
            seen.add(item["id"])
            kept.append(item)
    if len(items) > MAX_ITEMS:
        faults.append(f"{tier} has {len(items)} items, more than {MAX_ITEMS}")
    return kept


def _fault(item: Any, seen: set[str]) -> str:
    """What is wrong with an item, or nothing."""
    if not isinstance(item, dict):
        return "it is no object"
    for name in ("id", "type", "content"):
        if not isinstance(item.get(name), str) or not item[name]:
            return f"{name} is no text"
    if item["id"] in seen:
        return f"id {item['id']!r} stands twice"
    if len(item["content"]) > MAX_CONTENT:
        return f"content of {item['id']!r} is longer than {MAX_CONTENT} characters"
    decay = item.get("decay")
    if isinstance(decay, bool) or not isinstance(decay, (int, float)) or not math.isfinite(decay):
        return f"decay of {item['id']!r} is no number"
    if not 0 <= decay <= 1:
        return f"decay of {item['id']!r} is outside 0 to 1"
    if isinstance(item.get("round"), bool) or not isinstance(item.get("round"), int):
        return f"round of {item['id']!r} is no whole number"
    tags = item.get("tags")
    if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
        return f"tags of {item['id']!r} are no list of words"
    return ""
