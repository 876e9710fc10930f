"""How memory ages: decay in closed form over rounds, and the moves between tiers that follow from it.

    d(r) = 1 - (1 - d0) * 2 ** (-(r - r0) / H)        H = half-life of the tier * touches ** growth

Halving is the one law under which it makes no difference whether rounds pass one by one or all at once. A demotion
happens at the very point where decay reaches the threshold, not when somebody looks, so looking changes nothing.

An item moves at most one step a round, up or down. One that comes to a tier, or is touched there, with a decay
beyond the tier's threshold therefore stays for one round and leaves then.
"""

from dataclasses import replace
from math import ceil, log2
from typing import NamedTuple

from ctxwrap.memory.items import PLACES, Item, Mentions, Place, Tier
from ctxwrap.settings import MemoryRules

_BELOW: dict[Place, Place] = dict(zip(PLACES, PLACES[1:], strict=False))
_ABOVE: dict[Place, Place] = {below: place for place, below in _BELOW.items()}
_DEPTH: dict[Place, int] = {place: depth for depth, place in enumerate(PLACES)}


class Move(NamedTuple):
    """One item's way from one place to another, and why."""

    id: str
    from_: Place
    to: Place
    round: int
    """The first round in which it was there."""
    reason: str


class Aged(NamedTuple):
    """An item after some rounds, and the moves it made in them."""

    item: Item
    moves: tuple[Move, ...] = ()


def half_life(item: Item, rules: MemoryRules) -> float:
    """The rounds in which half of what the item still matters is lost; in swap it goes on as in ephemeral."""
    tier = item.tier if item.tier != "swap" else "ephemeral"
    grown: float = getattr(rules.half_lives, tier) * item.touches**rules.growth
    return grown if grown < rules.longest else rules.longest


def decay_at(item: Item, round: float, rules: MemoryRules) -> float:
    """The item's decay in a round up to which it is `advanced`."""
    passed = round - item.anchor
    if passed <= 0 or item.pinned:
        return item.decay
    return 1.0 - (1.0 - item.decay) * 2.0 ** (-passed / half_life(item, rules))


def due(item: Item, rules: MemoryRules) -> float | None:
    """The point at which the item falls to the place below if nobody touches it; None for never."""
    if item.tier == "swap" or item.pinned:
        return None
    threshold = getattr(rules.thresholds, item.tier)
    earliest = item.anchor + 1
    if item.decay >= threshold:
        return earliest
    return max(earliest, item.anchor + half_life(item, rules) * log2((1 - item.decay) / (1 - threshold)))


def advanced(item: Item, round: int, rules: MemoryRules) -> Aged:
    """The item with every demotion that was due up to `round`."""
    moves: list[Move] = []
    while (point := due(item, rules)) is not None and point <= round:
        below = _BELOW[item.tier]
        reason = f"decay passed {getattr(rules.thresholds, item.tier):g}"
        moves.append(Move(item.id, item.tier, below, ceil(point), reason))
        item = replace(item, tier=below, decay=decay_at(item, point, rules), anchor=point)
    return Aged(item, tuple(moves))


def mentioned(item: Item, round: int, evidence: float, rules: MemoryRules, ceiling: Tier = "core") -> Item:
    """The item, advanced to `round`, after a mention with `evidence` above 0 and up to 1.

    The mentions of one round count as one, as strong as the strongest, in whatever order they come; one that comes
    late, from a round before the last touch, is counted among those of the last touch. What lies in swap comes back.
    No mention lifts the item above `ceiling`, and none takes it down from where it is.
    """
    known = item.mentions if round <= item.last else None
    if known is None:
        point = max(round, item.anchor)
        joined = Mentions(decay_at(item, point, rules), item.touches, item.tier, evidence, ceiling)
    else:
        point = item.last
        joined = known._replace(evidence=max(known.evidence, evidence), ceiling=_higher(known.ceiling, ceiling))
        if joined == known:
            return item
    touches = joined.touches + joined.evidence
    return replace(
        item,
        decay=joined.decay * (1 - joined.evidence),
        touches=touches,
        tier=_promoted(joined.tier, touches, joined.ceiling, rules),
        anchor=point,
        last=max(round, item.last),
        mentions=joined,
    )


def stated(item: Item, round: int, decay: float) -> Item:
    """The item with a decay that the model chose; mentions of the same round stay counted."""
    decay = min(1.0, max(0.0, decay))
    mentions = item.mentions._replace(decay=decay) if item.mentions and round <= item.last else None
    last = max(round, item.last)
    return replace(item, decay=decay, anchor=max(last, item.anchor), last=last, mentions=mentions)


def swapped(item: Item, round: int, rules: MemoryRules) -> Item:
    """The item put into swap for another reason than its decay, such as want of room."""
    return replace(item, tier="swap", decay=decay_at(item, round, rules), anchor=max(round, item.anchor))


def rehydrated(item: Item, round: int, rules: MemoryRules) -> Item:
    """The item brought back from swap because it was looked up, which is no touch."""
    decay = min(rules.rehydrated, decay_at(item, round, rules))
    return replace(item, tier="ephemeral", decay=decay, anchor=max(round, item.anchor), mentions=None)


def _higher(one: Tier, other: Tier) -> Tier:
    return one if _DEPTH[one] <= _DEPTH[other] else other


def _promoted(place: Place, touches: float, ceiling: Tier, rules: MemoryRules) -> Place:
    """One step up, if so many touches earn it."""
    earned: Tier = "core" if touches >= rules.core_at else "working" if touches >= rules.working_at else "ephemeral"
    goal = max(_DEPTH[earned], _DEPTH[ceiling])
    return _ABOVE[place] if _DEPTH[place] > goal else place
