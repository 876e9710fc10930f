"""The state the model returns, in canonical form: versions, tiers, items, and what breaks their rules."""

import math
from typing import Any

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


def normalise(data: dict[str, Any], runtime: dict[str, Any]) -> tuple[dict[str, Any] | None, tuple[str, ...]]:
    """`data` in canonical form with `runtime` restored, and every rule it broke; None if it is no state."""
    memory = data.get("memory")
    if not isinstance(memory, dict):
        return None, ("the trailer has no memory object",)
    violations = _runtime_violations(data.get("runtime"), runtime)
    seen: set[str] = set()
    tiers = {tier: _tier(tier, memory.get(tier, []), seen, violations) for tier in TIERS}
    violations += [f"unknown tier {tier!r} dropped" for tier in memory if tier not in TIERS]
    task = data.get("active_task")
    capabilities = data.get("capabilities")
    return {
        "version": VERSION,
        "runtime": dict(runtime),
        "memory": tiers,
        "capabilities": capabilities if isinstance(capabilities, list) else [],
        "active_task": task if isinstance(task, str) else "",
    }, tuple(violations)


def _runtime_violations(returned: Any, injected: dict[str, Any]) -> list[str]:
    if not isinstance(returned, dict):
        return ["runtime is missing"]
    return [
        f"runtime.{name} was changed from {value!r} to {returned.get(name)!r}"
        for name, value in injected.items()
        if returned.get(name) != value
    ]


def _tier(tier: str, items: Any, seen: set[str], violations: list[str]) -> list[dict[str, Any]]:
    if not isinstance(items, list):
        violations.append(f"{tier} is no list")
        return []
    kept = []
    for item in items[:MAX_ITEMS]:
        fault = _fault(item, seen)
        if fault:
            violations.append(f"{tier} item dropped: {fault}")
        else:
            seen.add(item["id"])
            kept.append(item)
    if len(items) > MAX_ITEMS:
        violations.append(f"{tier} has {len(items)} items, more than {MAX_ITEMS}")
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
