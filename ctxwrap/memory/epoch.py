"""Epochs: memory frozen as the model was shown it, so that requests begin alike, and what changed since."""

from collections.abc import Callable, Iterable, Mapping, Set
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


class KnownEpoch:
    """What is worked out of an epoch once: it never changes, and is sent in many turns."""

    def __init__(self, epoch: Tiers) -> None:
        self.epoch = epoch
        self.places = {str(item["id"]): (tier, item) for tier, items in epoch.items() for item in items}
        """The items by id, each with its tier."""
        self.tokens: dict[object, int] = {}
        """By what counted them."""


def known_epoch(epoch: Tiers) -> KnownEpoch:
    """Return what is known of an epoch that nobody changes any more."""
    known = _known_epochs.get(id(epoch))
    if known is None or known.epoch is not epoch:
        if len(_known_epochs) >= _MAX_KNOWN:
            _known_epochs.clear()
        known = _known_epochs[id(epoch)] = KnownEpoch(epoch)
    return known


_MAX_KNOWN = 64
_known_epochs: dict[int, KnownEpoch] = {}
"""By identity."""


def diff_epoch(epoch: Tiers, memory: Tiers, among: Set[str] | None = None) -> EpochDelta:
    """Compare `memory`, or those `among` its items, with `epoch`.

    A new decay or touch is not a change: the content is the same.
    """
    before = known_epoch(epoch).places
    kept: set[str] = set()
    same: list[str] = []
    shown: Tiers = {"core": [], "working": [], "ephemeral": []}
    changes: Tiers = {"core": [], "working": [], "ephemeral": []}
    for tier in TIERS:
        here = shown[tier]
        for item in memory[tier]:
            id = item["id"]
            if among is not None and id not in among:
                continue
            was = before.get(id)
            if was is not None:
                kept.add(id)
                if _is_unchanged(was, (tier, item)):
                    same.append(id)
                    here.append(was[1])
                    continue
            changes[tier].append(item)
            here.append(item)
    dropped = sorted(before.keys() - kept) if len(kept) < len(before) else []
    return EpochDelta(shown, changes, dropped, sorted(same))


def unchanged_ids(epoch: Tiers, changes: Mapping[str, Any], dropped: Iterable[str]) -> list[str]:
    """Return the ids of epoch items that were neither changed nor dropped."""
    gone = {*dropped, *[item["id"] for items in changes.values() for item in items]}
    return sorted(known_epoch(epoch).places.keys() - gone) if epoch else []


def should_end_epoch(epoch_tokens: int, changed_tokens: int, is_history_cut: Callable[[], bool]) -> bool:
    """Whether the changes justify a new epoch; fewer do when history is cut, which loses the prompt cache anyway."""
    if changed_tokens > max(MIN_CHANGES, MIN_CHANGE_SHARE * epoch_tokens):
        return True
    return changed_tokens > MIN_CHANGES_AT_CUT and is_history_cut()


def _is_unchanged(one: tuple[str, dict[str, Any]], other: tuple[str, dict[str, Any]]) -> bool:
    return one == other or (one[0] == other[0] and {**one[1], **_VOLATILE} == {**other[1], **_VOLATILE})


_VOLATILE = {"decay": 0, "round": 0}
"""Changes every round."""
