"""What is remembered: one item, where it lies, and where it came from."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal, NamedTuple, get_args

Tier = Literal["core", "working", "ephemeral"]
TIERS: tuple[Tier, ...] = get_args(Tier)
"""From the longest to the shortest memory."""

Place = Literal["core", "working", "ephemeral", "swap"]
PLACES: tuple[Place, ...] = get_args(Place)
"""The tiers, and below them the place of what is kept but no longer shown."""

Origin = Literal["operator", "user", "rule", "assistant", "file", "retrieved", "tool"]
ORIGINS: tuple[Origin, ...] = get_args(Origin)
"""From the most to the least trusted; `rule` is what rules took from the user's own words."""


class Mentions(NamedTuple):
    """All mentions of an item within one round: what it was before them, and what they amount to."""

    decay: float
    anchor: float
    touches: float
    tier: Place
    evidence: float
    """The strongest evidence among them."""
    ceiling: Tier
    """The highest tier that one of them may lift the item to."""
    spoken: bool = True
    """Whether the user spoke of the item; all else is no touch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One thing remembered, as it was at its last touch or move."""

    id: str
    type: str
    content: str
    tags: tuple[str, ...]
    tier: Place
    decay: float
    """From 0, most important, to 1, least important, at `anchor`."""
    anchor: float
    """The round from which decay is counted; a demotion may lie between two rounds."""
    first: int
    """The round of the first touch."""
    last: int
    """The round of the last touch."""
    touches: float = 1.0
    """How often the user spoke of it, the first time included."""
    since: float = -1.0
    """The round in which it came to its tier, or was last spoken of or changed; `anchor` if that is not known."""
    importance: float = -1.0
    """The decay that it was first given; its present one if that is not known."""
    pinned: bool = False
    """Whether the operator keeps it: it neither fades nor leaves."""
    successor: str = ""
    """The id of the item that took its place, if one did."""
    origin: Origin = "assistant"
    """The least trusted source it was made from."""
    source: str = ""
    """Where it was said, such as `messages:12-18`."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Fields of the model's that have no name here."""
    mentions: Mentions | None = None
    """The mentions in round `last`, if there were any."""

    def __post_init__(self) -> None:
        if self.since < 0:
            object.__setattr__(self, "since", self.anchor)
        if self.importance < 0:
            object.__setattr__(self, "importance", self.decay)

    def shown(self, decay: float) -> dict[str, Any]:
        """The item as the model sees it, with its present `decay`."""
        return {
            "id": self.id,
            "type": self.type,
            "decay": decay,
            "round": self.last,
            "tags": list(self.tags),
            "content": self.content,
            **self.extra,
        }

    def as_json(self) -> dict[str, Any]:
        """The item as it is stored; what has its default is left out."""
        data = {name: getattr(self, name) for name in _NAMES}
        data |= {"tags": list(self.tags), "extra": dict(self.extra), "mentions": self.mentions and list(self.mentions)}
        defaults = {**_DEFAULTS, "since": self.anchor, "importance": self.decay}
        return {name: value for name, value in data.items() if name not in defaults or value != defaults[name]}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Item":
        """The item that `as_json` gave `data` for."""
        mentions = Mentions(*data["mentions"]) if "mentions" in data else None
        return cls(**{**data, "tags": tuple(data["tags"]), "mentions": mentions})


_NAMES = tuple(each.name for each in fields(Item))
_DEFAULTS = {
    "touches": 1.0,
    "pinned": False,
    "successor": "",
    "origin": "assistant",
    "source": "",
    "extra": {},
    "mentions": None,
}
