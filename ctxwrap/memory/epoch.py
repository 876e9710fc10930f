"""Epochs: memory frozen as the model was shown it, so that requests begin alike, and what changed since."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from ctxwrap.memory.items import TIERS

Tiers = dict[str, list[dict[str, Any]]]

MIN_CHANGES = 256
"""Minimum tokens of changes before a new epoch begins."""

MIN_CHANGES_AT_CUT = 128
"""The same where the text after the memory block changes anyway."""

MIN_CHANGE_SHARE = 0.25
"""Minimum changes as a share of the epoch's tokens, if that is more."""


class EpochDelta(NamedTuple):
    """The memory of a turn compared with its epoch."""

    shown: Tiers
    """Everything the model sees, as it sees it."""
    changes: Tiers
    dropped: list[str]
    unchanged: list[str]
    """Ids of epoch items that are still valid."""


def freeze_memory(memory: Tiers) -> Tiers:
    """Sort memory in an order that does not depend on current importance."""
    return {tier: sorted(memory[tier], key=lambda item: str(item["id"])) for tier in TIERS}


def brief_item(item: Mapping[str, Any]) -> list[Any]:
    """Return the short form of an item in the memory block."""
    return [item["id"], item.get("decay", 0.5), item["content"]]


def expand_brief(value: Any) -> Tiers:
    """Return the items of short forms by tier, with default values for the omitted fields."""
    tiers = {tier: value.get(tier) if isinstance(value, dict) else None for tier in TIERS}
    return {
        tier: [_expanded(*each) for each in items or () if len(each) == len(_BRIEF)] for tier, items in tiers.items()
    }


_BRIEF = ("id", "decay", "content")


def _expanded(id: str, decay: float, content: str) -> dict[str, Any]:
    return {"id": id, "type": "fact", "decay": decay, "round": 0, "tags": [], "content": content}


def parse_epoch(value: Any) -> Tiers:
    """Parse the epoch of a log event; raise ValueError if it is malformed."""
    epoch: Tiers = {}
    for tier in TIERS:
        items = value.get(tier) if isinstance(value, dict) else None
        if not isinstance(items, list) or not all(isinstance(each, dict) and each.keys() >= _NEEDED for each in items):
            raise ValueError("an epoch must hold lists of memory items")
        epoch[tier] = list(items)
    return epoch


_NEEDED = {"id", "content"}


def diff_epoch(epoch: Tiers, memory: Tiers) -> EpochDelta:
    """Compare `memory` with `epoch`. A new decay or touch is not a change: the content is the same."""
    before, now = _placed(epoch), _placed(memory)
    same: list[str] = []
    shown: Tiers = {tier: [] for tier in TIERS}
    changes: Tiers = {tier: [] for tier in TIERS}
    for id, (tier, item) in now.items():
        if id in before and _is_unchanged(before[id], (tier, item)):
            same.append(id)
            shown[tier].append(before[id][1])
        else:
            changes[tier].append(item)
            shown[tier].append(item)
    return EpochDelta(shown, changes, sorted(before.keys() - now.keys()), sorted(same))


def unchanged_ids(epoch: Tiers, changes: Mapping[str, Any], dropped: Iterable[str]) -> list[str]:
    """Return the ids of epoch items that were neither changed nor dropped."""
    gone = {*dropped, *(item["id"] for items in changes.values() for item in items)}
    return sorted(item["id"] for items in epoch.values() for item in items if item["id"] not in gone)


def should_end_epoch(epoch_tokens: int, changed_tokens: int, is_history_cut: Callable[[], bool]) -> bool:
    """Whether the changes justify a new epoch; fewer do when history is cut, which loses the prompt cache anyway."""
    if changed_tokens > max(MIN_CHANGES, MIN_CHANGE_SHARE * epoch_tokens):
        return True
    return changed_tokens > MIN_CHANGES_AT_CUT and is_history_cut()


def _placed(memory: Tiers) -> dict[str, tuple[str, dict[str, Any]]]:
    return {str(item["id"]): (tier, item) for tier in TIERS for item in memory[tier]}


def _is_unchanged(one: tuple[str, dict[str, Any]], other: tuple[str, dict[str, Any]]) -> bool:
    return one == other or (one[0] == other[0] and {**one[1], **_VOLATILE} == {**other[1], **_VOLATILE})


_VOLATILE = {"decay": 0, "round": 0}
"""Changes every round."""
