"""Decay over rounds in closed form, and the tier moves that follow from it.

    d(r) = 1 - (1 - d0) * 2 ** (-(r - r0) / H)        H = half-life of the tier * touches ** growth

Exponential decay gives the same result whether rounds pass one by one or all at once. A demotion happens at the point
where decay reaches the threshold, not when it is read, so reading has no effect. It happens no sooner than the tier's
least stay and no later than its most, both counted from the last evidence of use or the arrival in the tier. Core has
an infinite half-life and least stay: age alone never demotes it.

An item moves at most one step per round, up or down.
"""

from itertools import pairwise
from math import ceil, inf, log2
from typing import Literal, NamedTuple

from ctxwrap.memory.items import LOCATIONS, Location, MemoryItem, Mentions, Tier
from ctxwrap.settings import MemoryRules

_BELOW: dict[Location, Location] = dict(pairwise(LOCATIONS))
_ABOVE: dict[Location, Location] = {below: place for place, below in _BELOW.items()}
_DEPTH: dict[Location, int] = {place: depth for depth, place in enumerate(LOCATIONS)}
_TINY = 1e-9


class TierMove(NamedTuple):
    """A move of one item, with the reason."""

    id: str
    from_: Location
    to: Location
    round: int
    """The first round in the new location."""
    reason: str


def half_life(item: MemoryItem, rules: MemoryRules) -> float:
    """Return the rounds in which the item's importance halves; in swap, ephemeral's half-life applies."""
    tier = item.tier if item.tier != "swap" else "ephemeral"
    base: float = getattr(rules.half_lives, tier)
    return base if base >= rules.longest else min(base * item.touches**rules.growth, rules.longest)


class Fading(NamedTuple):
    """How the decay of an item grows while nobody uses it."""

    decay: float
    """At the anchor."""
    anchor: float
    half_life: float

    def at(self, round: float) -> float:
        return _faded(self.decay, round - self.anchor, self.half_life)


def _faded(decay: float, passed: float, half_life: float) -> float:
    if passed <= 0 or half_life == inf:
        return decay
    left: float = 2.0 ** (-passed / half_life)
    return 1.0 - (1.0 - decay) * left


def fading_of(item: MemoryItem, rules: MemoryRules) -> Fading:
    """Return how the item fades until its next demotion; a pinned one does not."""
    return Fading(item.decay, item.anchor, inf if item.pinned else half_life(item, rules))


def decay_at(item: MemoryItem, round: float, rules: MemoryRules) -> float:
    """Return the item's decay in a round; the item must be advanced to that round."""
    if item.pinned or round <= item.anchor:
        return item.decay
    return _faded(item.decay, round - item.anchor, half_life(item, rules))


def demotion_point(item: MemoryItem, rules: MemoryRules) -> float | None:
    """Return the point at which an untouched item is demoted, or None for never."""
    if item.tier == "swap" or item.pinned:
        return None
    threshold = getattr(rules.thresholds, item.tier)
    stay = 0.0 if item.decay >= threshold else half_life(item, rules) * log2((1 - item.decay) / (1 - threshold))
    latest = item.since + getattr(rules.most_stay, item.tier)
    earliest = max(item.since + getattr(rules.least_stay, item.tier), item.anchor + 1)
    point = max(min(item.anchor + stay, latest), earliest)
    return point if point < inf else None


def advance(item: MemoryItem, round: int, rules: MemoryRules) -> tuple[MemoryItem, tuple[TierMove, ...]]:
    """Return the item after every demotion due up to `round`, and the demotions."""
    moves: tuple[TierMove, ...] = ()
    while (point := demotion_point(item, rules)) is not None and point <= round:
        below, decay = _BELOW[item.tier], decay_at(item, point, rules)
        threshold = getattr(rules.thresholds, item.tier)
        reason = f"decay passed {threshold:g}" if decay >= threshold - _TINY else "not used for long"
        moves += (TierMove(item.id, item.tier, below, ceil(point), reason),)
        item = item._replace(tier=below, decay=decay, anchor=point, since=point, faded_from=_tier_before(item))
    return item, moves


def apply_mention(
    item: MemoryItem, round: int, evidence: float, rules: MemoryRules, ceiling: Tier = "core", *, spoken: bool = True
) -> MemoryItem:
    """Apply evidence of use, above 0 and up to 1, to an item that is advanced to `round`.

    Only what the user has `spoken` of counts as a touch, which lengthens the half-life and promotes; other use only
    reduces the decay. All evidence of a round counts once, as strong as the strongest, in any order; late evidence from
    an earlier round counts for the last one. Evidence never promotes above `ceiling` and never demotes.
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


def set_decay(item: MemoryItem, round: int, decay: float) -> MemoryItem:
    """Set a decay that the model chose; mentions of the same round stay counted."""
    decay, last = min(1.0, max(0.0, decay)), max(round, item.last)
    anchor = max(last, item.anchor)
    known = item.mentions if round <= item.last else None
    mentions = known and known._replace(decay=decay, anchor=anchor)
    return item._replace(decay=decay, anchor=anchor, last=last, mentions=mentions)


def move_to_swap(item: MemoryItem, round: int, rules: MemoryRules) -> MemoryItem:
    """Move the item to swap for a reason other than decay, such as capacity."""
    decay, anchor = decay_at(item, round, rules), max(round, item.anchor)
    return item._replace(tier="swap", decay=decay, anchor=anchor, faded_from=_tier_before(item))


def rehydrate(item: MemoryItem, round: int, rules: MemoryRules) -> MemoryItem:
    """Bring the item back from swap to the tier it had, after a lookup, which is not a touch."""
    decay = min(rules.rehydrated, decay_at(item, round, rules))
    anchor, tier = max(round, item.anchor), item.faded_from or "ephemeral"
    back = item._replace(tier=tier, decay=decay, anchor=anchor, since=anchor)
    return back._replace(faded_from="", successor="", mentions=None)


def _tier_before(item: MemoryItem) -> Tier | Literal[""]:
    """The tier of an item before it began to fade."""
    return item.faded_from or (item.tier if item.tier != "swap" else "")


def _with_mentions(item: MemoryItem, last: int, mentions: Mentions, rules: MemoryRules) -> MemoryItem:
    touches = mentions.touches + (mentions.evidence if mentions.spoken else 0)
    tier = _promote(mentions.tier, touches, mentions.ceiling, rules)
    return item._replace(
        tier=tier,
        since=max(item.since, mentions.anchor) if mentions.spoken or tier != item.tier else item.since,
        decay=mentions.decay * (1 - mentions.evidence),
        anchor=mentions.anchor,
        touches=touches,
        last=last,
        mentions=mentions,
        faded_from="" if tier == item.faded_from else item.faded_from,
    )


def _higher(one: Tier, other: Tier) -> Tier:
    return one if _DEPTH[one] <= _DEPTH[other] else other


def _promote(place: Location, touches: float, ceiling: Tier, rules: MemoryRules) -> Location:
    """Return the location one step up if the touches suffice."""
    earned: Tier = "core" if touches >= rules.core_at else "working" if touches >= rules.working_at else "ephemeral"
    goal = max(_DEPTH[earned], _DEPTH[ceiling])
    return _ABOVE[place] if _DEPTH[place] > goal else place
