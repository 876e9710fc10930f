"""Epochs: memory as the model was shown it some rounds ago, the same bytes in every call, and what changed since.

A provider reads again what it has read before only up to the first byte that differs. So the memory of an epoch stands
where it seldom changes, and what changes in the rounds after it rides on the newest message.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from ctxwrap.memory.items import TIERS

EpochState = Mapping[str, Any]
Tiers = dict[str, list[dict[str, Any]]]

LEAST = 256
"""So many tokens of changes are told beside an epoch before a new one begins, however small it is."""

FEW = 128
"""And so many where what follows memory in a request changes anyway."""

SHARE = 0.25
"""And so much of an epoch's own tokens, if that is more."""


class Since(NamedTuple):
    """The memory of a turn, as far as it is not told by its epoch."""

    shown: Tiers
    """All that the model sees, in the words that it sees."""
    changes: Tiers
    dropped: list[str]
    unchanged: list[str]
    """The ids of what the epoch tells and is so still."""


def frozen(memory: Tiers) -> Tiers:
    """Memory as an epoch tells it: in an order that does not depend on what matters most at the moment."""
    return {tier: sorted(memory[tier], key=lambda item: str(item["id"])) for tier in TIERS}


def brief(item: Mapping[str, Any]) -> list[Any]:
    """An item as its epoch's place shows it."""
    return [item["id"], item.get("decay", 0.5), item["content"]]


def from_brief(value: Any) -> Tiers:
    """The items that `brief` told of, by tier; what it does not tell is filled in."""
    tiers = {tier: value.get(tier) if isinstance(value, dict) else None for tier in TIERS}
    return {tier: [_filled(*each) for each in items or () if len(each) == len(_BRIEF)] for tier, items in tiers.items()}


_BRIEF = ("id", "decay", "content")


def _filled(id: str, decay: float, content: str) -> dict[str, Any]:
    return {"id": id, "type": "fact", "decay": decay, "round": 0, "tags": [], "content": content}


def epoch_in(value: Any) -> Tiers:
    """The epoch that an event of the log tells of; a ValueError if it makes no sense, whoever wrote it."""
    epoch: Tiers = {}
    for tier in TIERS:
        items = value.get(tier) if isinstance(value, dict) else None
        if not isinstance(items, list) or not all(isinstance(each, dict) and each.keys() >= _NEEDED for each in items):
            raise ValueError("an epoch holds lists of memory items")
        epoch[tier] = list(items)
    return epoch


_NEEDED = {"id", "content"}


def since(epoch: Tiers, memory: Tiers) -> Since:
    """What `memory` is beyond `epoch`. That an item fades or is touched is no change: it says the same as before."""
    before, now = _placed(epoch), _placed(memory)
    same = {id for id, known in now.items() if id in before and _alike(before[id], known)}
    told = {id: before[id] if id in same else known for id, known in now.items()}
    shown: Tiers = {tier: [] for tier in TIERS}
    changes: Tiers = {tier: [] for tier in TIERS}
    for id, (tier, item) in told.items():
        shown[tier].append(item)
        if id not in same:
            changes[tier].append(item)
    return Since(shown, changes, sorted(before.keys() - now.keys()), sorted(same))


def unchanged(epoch: Tiers, changes: Mapping[str, Any], dropped: Iterable[str]) -> list[str]:
    """The ids of what an epoch tells and is so still: what neither changed nor was dropped since."""
    gone = {*dropped, *(item["id"] for items in changes.values() for item in items)}
    return sorted(item["id"] for items in epoch.values() for item in items if item["id"] not in gone)


def is_over(epoch_tokens: int, changed_tokens: int, *, at_hand: bool = False) -> bool:
    """Whether so much has changed since an epoch began that a new one pays; it costs little `at_hand` of a cut."""
    return changed_tokens > (FEW if at_hand else max(LEAST, SHARE * epoch_tokens))


def _placed(memory: Tiers) -> dict[str, tuple[str, dict[str, Any]]]:
    return {str(item["id"]): (tier, item) for tier in TIERS for item in memory[tier]}


def _alike(one: tuple[str, dict[str, Any]], other: tuple[str, dict[str, Any]]) -> bool:
    return one[0] == other[0] and {**one[1], **_PASSING} == {**other[1], **_PASSING}


_PASSING = {"decay": 0, "round": 0}
"""What changes with every round."""
