"""How memory ages: decay in closed form over rounds, and the moves between tiers that follow from it.

    d(r) = 1 - (1 - d0) * 2 ** (-(r - r0) / H)        H = half-life of the tier * touches ** growth

Halving is the one law under which it makes no difference whether rounds pass one by one or all at once. A demotion
happens at the very point where decay reaches the threshold, not when somebody looks, so looking changes nothing. It
comes no sooner than the tier's least stay and no later than its most, both counted from the item's last evidence of use
or its coming to the tier. Core has an endless half-life and an endless least stay: age does not end it.

An item moves at most one step a round, up or down.
"""

from dataclasses import replace
from itertools import pairwise
from math import ceil, inf, log2
from typing import NamedTuple

from ctxwrap.memory.items import PLACES, Location, MemoryItem, Mentions, Tier
from ctxwrap.settings import MemoryRules

_BELOW: dict[Location, Location] = dict(pairwise(PLACES))
_ABOVE: dict[Location, Location] = {below: place for place, below in _BELOW.items()}
_DEPTH: dict[Location, int] = {place: depth for depth, place in enumerate(PLACES)}
_TINY = 1e-9


class TierMove(NamedTuple):
    """One item's way from one place to another, and why."""

    id: str
    from_: Location
    to: Location
    round: int
    """The first round in which it was there."""
    reason: str


def half_life(item: MemoryItem, rules: MemoryRules) -> float:
    """The rounds in which the item comes to matter half as much; in swap it goes on as in ephemeral."""
    tier = item.tier if item.tier != "swap" else "ephemeral"
    base: float = getattr(rules.half_lives, tier)
    return base if base >= rules.longest else min(base * item.touches**rules.growth, rules.longest)


def decay_at(item: MemoryItem, round: float, rules: MemoryRules) -> float:
    """The item's decay in a round up to which it is `advanced`."""
    passed, life = round - item.anchor, half_life(item, rules)
    if passed <= 0 or item.pinned or life == inf:
        return item.decay
    left: float = 2.0 ** (-passed / life)
    return 1.0 - (1.0 - item.decay) * left


def due(item: MemoryItem, rules: MemoryRules) -> float | None:
    """The point at which the item falls to the place below if nobody touches it; None for never."""
    if item.tier == "swap" or item.pinned:
        return None
    threshold = getattr(rules.thresholds, item.tier)
    stay = 0.0 if item.decay >= threshold else half_life(item, rules) * log2((1 - item.decay) / (1 - threshold))
    latest = item.since + getattr(rules.most_stay, item.tier)
    earliest = max(item.since + getattr(rules.least_stay, item.tier), item.anchor + 1)
    point = max(min(item.anchor + stay, latest), earliest)
    return point if point < inf else None


def advanced(item: MemoryItem, round: int, rules: MemoryRules) -> tuple[MemoryItem, tuple[TierMove, ...]]:
    """The item after every demotion that was due up to `round`, and these demotions."""
    moves: tuple[TierMove, ...] = ()
    while (point := due(item, rules)) is not None and point <= round:
        below, decay = _BELOW[item.tier], decay_at(item, point, rules)
        threshold = getattr(rules.thresholds, item.tier)
        reason = f"decay passed {threshold:g}" if decay >= threshold - _TINY else "not used for long"
        moves += (TierMove(item.id, item.tier, below, ceil(point), reason),)
        item = replace(item, tier=below, decay=decay, anchor=point, since=point)
    return item, moves


def mentioned(
    item: MemoryItem, round: int, evidence: float, rules: MemoryRules, ceiling: Tier = "core", *, spoken: bool = True
) -> MemoryItem:
    """The item, advanced to `round`, after evidence of its use, above 0 and up to 1.

    Only what the user has `spoken` of is touched, which lengthens its half-life and lifts it; other use takes of its
    decay. All evidence of one round counts as one, as strong as the strongest, in whatever order it comes; what comes
    late, from a round before the last, is counted among that of the last. What lies in swap comes back. No evidence
    lifts the item above `ceiling`, and none takes it down from where it is.
    """
    known = item.mentions if round <= item.last else None
    if known is None:
        anchor = max(round, item.anchor)
        joined = Mentions(decay_at(item, anchor, rules), anchor, item.touches, item.tier, evidence, ceiling, spoken)
    else:
        joined = known._replace(
            evidence=max(known.evidence, evidence),
            ceiling=_higher(known.ceiling, ceiling),
            spoken=known.spoken or spoken,
        )
    return item if joined == known else _with_mentions(item, max(round, item.last), joined, rules)


def renewed(item: MemoryItem, round: int) -> MemoryItem:
    """The item as one that is in use in `round`: its stay in its tier is counted from there."""
    return replace(item, since=max(item.since, round))


def stated(item: MemoryItem, round: int, decay: float) -> MemoryItem:
    """The item with a decay that the model chose; mentions of the same round stay counted."""
    decay, last = min(1.0, max(0.0, decay)), max(round, item.last)
    anchor = max(last, item.anchor)
    known = item.mentions if round <= item.last else None
    mentions = known and known._replace(decay=decay, anchor=anchor)
    return replace(item, decay=decay, anchor=anchor, last=last, mentions=mentions)


def swapped(item: MemoryItem, round: int, rules: MemoryRules) -> MemoryItem:
    """The item put into swap for another reason than its decay, such as want of room."""
    return replace(item, tier="swap", decay=decay_at(item, round, rules), anchor=max(round, item.anchor))


def rehydrated(item: MemoryItem, round: int, rules: MemoryRules) -> MemoryItem:
    """The item brought back from swap because it was looked up, which is no touch."""
    decay = min(rules.rehydrated, decay_at(item, round, rules))
    anchor = max(round, item.anchor)
    return replace(item, tier="ephemeral", decay=decay, anchor=anchor, since=anchor, successor="", mentions=None)


def _with_mentions(item: MemoryItem, last: int, mentions: Mentions, rules: MemoryRules) -> MemoryItem:
    touches = mentions.touches + (mentions.evidence if mentions.spoken else 0)
    tier = _promoted(mentions.tier, touches, mentions.ceiling, rules)
    return replace(
        item,
        tier=tier,
        since=max(item.since, mentions.anchor) if mentions.spoken or tier != item.tier else item.since,
        decay=mentions.decay * (1 - mentions.evidence),
        anchor=mentions.anchor,
        touches=touches,
        last=last,
        mentions=mentions,
    )


def _higher(one: Tier, other: Tier) -> Tier:
    return one if _DEPTH[one] <= _DEPTH[other] else other


def _promoted(place: Location, touches: float, ceiling: Tier, rules: MemoryRules) -> Location:
    """One step up, if so many touches earn it."""
    earned: Tier = "core" if touches >= rules.core_at else "working" if touches >= rules.working_at else "ephemeral"
    goal = max(_DEPTH[earned], _DEPTH[ceiling])
    return _ABOVE[place] if _DEPTH[place] > goal else place
