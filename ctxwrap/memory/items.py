"""Memory items: their location, kind, origin and trust."""

import re
from collections.abc import Iterable, Mapping, Set
from functools import lru_cache
from math import log2
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, get_args

from ctxwrap.types import Message, Request, TurnInputs

Tier = Literal["core", "working", "ephemeral"]
TIERS: tuple[Tier, ...] = get_args(Tier)
"""From the longest to the shortest memory."""

Location = Literal["core", "working", "ephemeral", "swap"]
LOCATIONS: tuple[Location, ...] = get_args(Location)
"""The tiers, and swap for items that are kept but not shown."""

Origin = Literal["operator", "user", "rule", "assistant", "file", "retrieved", "tool"]
ORIGINS: tuple[Origin, ...] = get_args(Origin)
"""From the most to the least trusted; `rule` marks what rules took from the user's words."""


class Mentions(NamedTuple):
    """All mentions of an item within one round: its values before, and the combined evidence."""

    decay: float
    anchor: float
    touches: float
    tier: Location
    evidence: float
    """The strongest evidence."""
    ceiling: Tier
    """The highest tier that the mentions may promote to."""
    spoken: bool = True
    """Whether the user spoke of the item; only that counts as a touch."""


class MemoryItem(NamedTuple):
    """A memory item as of its last touch or move."""

    id: str
    type: str
    content: str
    tags: tuple[str, ...]
    tier: Location
    decay: float
    """From 0, most important, to 1, least important, at `anchor`."""
    anchor: float
    """The round from which decay is counted; a demotion may lie between two rounds."""
    first: int
    """The round of the first touch."""
    last: int
    """The round of the last touch."""
    since: float
    """The round in which it entered its tier, or was last spoken of or changed."""
    importance: float
    """The decay it was first given."""
    touches: float = 1.0
    """How often the user spoke of it, including the first time."""
    pinned: bool = False
    """Whether the operator keeps it: no decay, no removal."""
    faded_from: Tier | Literal[""] = ""
    """The tier it had before it faded, to which it returns when somebody asks for it."""
    successor: str = ""
    """The id of the item that replaced it."""
    origin: Origin = "assistant"
    """The least trusted source it was made from."""
    source: str = ""
    """Where it was said, such as `messages:12-18`."""
    extra: Mapping[str, Any] = MappingProxyType({})
    """Further fields that the model wrote."""
    mentions: Mentions | None = None
    """The mentions in round `last`."""

    def shown(self, decay: float) -> dict[str, Any]:
        """Return the item as the model sees it, with its present `decay`."""
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
        """Return the item as stored, without default values."""
        data: dict[str, Any] = {
            "id": self.id,
            "type": self.type,
            "content": self.content,
            "tags": list(self.tags),
            "tier": self.tier,
            "decay": self.decay,
            "anchor": self.anchor,
            "first": self.first,
            "last": self.last,
        }
        if self.touches != 1.0:
            data["touches"] = self.touches
        if self.since != self.anchor:
            data["since"] = self.since
        if self.importance != self.decay:
            data["importance"] = self.importance
        if self.pinned:
            data["pinned"] = self.pinned
        if self.faded_from:
            data["faded_from"] = self.faded_from
        if self.successor:
            data["successor"] = self.successor
        if self.origin != "assistant":
            data["origin"] = self.origin
        if self.source:
            data["source"] = self.source
        if self.extra:
            data["extra"] = dict(self.extra)
        if self.mentions is not None:
            data["mentions"] = list(self.mentions)
        return data

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "MemoryItem":
        mentions = Mentions(*data["mentions"]) if "mentions" in data else None
        unsaid = {"since": data["anchor"], "importance": data["decay"]}
        return cls(**{**unsaid, **data, "tags": tuple(data["tags"]), "mentions": mentions})


ItemKind = Literal["fact", "decision", "todo", "ref"]
KINDS: tuple[ItemKind, ...] = get_args(ItemKind)
"""In order of priority."""

_TYPES_BY_KIND: dict[ItemKind, frozenset[str]] = {
    "decision": frozenset({"decision", "decided", "choice", "agreement", "resolution"}),
    "todo": frozenset({"todo", "task", "action", "plan", "goal", "step", "next", "reminder", "question", "deadline"}),
    "ref": frozenset({"ref", "reference", "file", "path", "artifact", "link", "url", "document", "source"}),
}


_SHORT_LIVED = frozenset({"hint", "temporary", "temp", "transient", "ephemeral"})


def is_passing(type: str) -> bool:
    """Whether the model marked the item as short-lived."""
    return type.strip().casefold() in _SHORT_LIVED


def is_work(type: str) -> bool:
    """Whether the item is a task or a decision, which the working tier is for."""
    return kind_of(type) in ("todo", "decision")


def kind_of(type: str) -> ItemKind:
    """Map the model's type to a kind."""
    return _kind_of(type[:_LONGEST_TYPE])


_LONGEST_TYPE = 64


@lru_cache(maxsize=1024)
def _kind_of(type: str) -> ItemKind:
    name = type.strip().casefold()
    return next((kind for kind, names in _TYPES_BY_KIND.items() if name in names), "fact")


_PERSONAL = frozenset(
    {"identity", "name", "person", "health", "allergy", "medical", "instruction", "rule", "preference"}
)
_ABOUT_THE_USER = re.compile(r"(?:the\s+)?user\b|用户", re.IGNORECASE)


def capacity_bonus(type: str, content: str, touches: float) -> float:
    """Return what type, subject and use subtract from the decay when items compete for capacity."""
    personal = 0.2 if type[:_LONGEST_TYPE].strip().casefold() in _PERSONAL else 0.0
    about_user = 0.1 if _ABOUT_THE_USER.match(content) else 0.0
    return personal + about_user + min(0.15, 0.05 * log2(touches))


_FOREIGN: frozenset[Origin] = frozenset({"file", "retrieved", "tool"})
"""Origins of text that no participant wrote, and of everything derived from it."""

_OWN_PARTS = frozenset({"text", "refusal", "input_audio", "thinking", "redacted_thinking"})
"""Message parts that the sender wrote or spoke; all others were fetched or attached."""

_ROLES: dict[str, Origin] = {"system": "operator", "user": "user", "assistant": "assistant"}


def least_trusted(*origins: Origin) -> Origin:
    return max(origins, key=ORIGINS.index)


def is_foreign(origin: str) -> bool:
    return origin in _FOREIGN


def parse_origin(value: object) -> Origin | None:
    """Return the value if it is an origin."""
    return value if value in ORIGINS else None


def least_trusted_foreign(origins: Iterable[str]) -> Origin | None:
    """Return the least trusted foreign origin, if any."""
    found = _FOREIGN.intersection(origins)
    return max(found, key=ORIGINS.index) if found else None


def origin_of(message: Message) -> Origin:
    """Return the origin of a message by its role and parts; what the model had read is not considered."""
    role = _ROLES.get(message.role, "tool")
    if isinstance(message.content, str) or role == "operator":
        return role
    if all(part.get("type") in _OWN_PARTS for part in message.content):
        return role
    return "file" if role == "user" else "tool"


def origin_of_all(messages: Iterable[tuple[int, Message]], foreign: Mapping[int, str]) -> Origin:
    """Return the least trusted origin of numbered messages: foreign text, else the user's, else a model's.

    `foreign` maps message numbers to foreign origins: a model's text is as trusted as what it had read.
    """
    found: set[str] = set()
    for number, message in messages:
        found.add(_ROLES.get(message.role, "tool") if isinstance(message.content, str) else origin_of(message))
        if foreign and message.role == "assistant":
            found.add(foreign.get(number, ""))
    return least_trusted_foreign(found) or ("user" if "user" in found else "assistant")


def origin_of_request(request: Request, opening: TurnInputs, left_out: Set[int] = frozenset()) -> Origin:
    """Return the least trusted origin in a request, without the messages at the `left_out` positions."""
    numbers = opening.numbers or (0,) * len(request.messages)
    shown: Iterable[tuple[int, Message]] = zip(numbers, request.messages, strict=True)
    if left_out:
        placed = zip(shown, request.places or range(len(numbers)), strict=True)
        shown = [numbered for numbered, place in placed if place not in left_out]
    own = origin_of_all(shown, opening.foreign.messages)
    if not request.unseen and not request.fetched:
        return own
    unseen = opening.foreign.messages.get(0, "") if request.unseen else ""
    return least_trusted_foreign((own, unseen, "tool" if request.fetched else "")) or own


def highest_tier(origin: Origin, *, foreign_core: bool) -> Tier:
    """Return the highest tier allowed for an origin."""
    return "working" if is_foreign(origin) and not foreign_core else "core"
