"""Memory items: their location, kind, origin and trust."""

import re
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field, fields
from math import log2
from typing import Any, Literal, NamedTuple, get_args

from ctxwrap.types import Message, Request, TurnInputs

Tier = Literal["core", "working", "ephemeral"]
TIERS: tuple[Tier, ...] = get_args(Tier)
"""From the longest to the shortest memory."""

Location = Literal["core", "working", "ephemeral", "swap"]
PLACES: tuple[Location, ...] = get_args(Location)
"""The tiers, and below them the place of what is kept but no longer shown."""

Origin = Literal["operator", "user", "rule", "assistant", "file", "retrieved", "tool"]
ORIGINS: tuple[Origin, ...] = get_args(Origin)
"""From the most to the least trusted; `rule` is what rules took from the user's own words."""


class Mentions(NamedTuple):
    """All mentions of an item within one round: what it was before them, and what they amount to."""

    decay: float
    anchor: float
    touches: float
    tier: Location
    evidence: float
    """The strongest evidence among them."""
    ceiling: Tier
    """The highest tier that one of them may lift the item to."""
    spoken: bool = True
    """Whether the user spoke of the item; all else is no touch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryItem:
    """One thing remembered, as it was at its last touch or move."""

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
    def from_json(cls, data: Mapping[str, Any]) -> "MemoryItem":
        """The item that `as_json` gave `data` for."""
        mentions = Mentions(*data["mentions"]) if "mentions" in data else None
        return cls(**{**data, "tags": tuple(data["tags"]), "mentions": mentions})


_NAMES = tuple(each.name for each in fields(MemoryItem))
_DEFAULTS = {
    "touches": 1.0,
    "pinned": False,
    "successor": "",
    "origin": "assistant",
    "source": "",
    "extra": {},
    "mentions": None,
}


ItemKind = Literal["fact", "decision", "todo", "ref"]
KINDS: tuple[ItemKind, ...] = get_args(ItemKind)
"""In the order in which they come first."""

_NAMES_OF_KINDS: dict[ItemKind, frozenset[str]] = {
    "decision": frozenset({"decision", "decided", "choice", "agreement", "resolution"}),
    "todo": frozenset({"todo", "task", "action", "plan", "goal", "step", "next", "reminder", "question", "deadline"}),
    "ref": frozenset({"ref", "reference", "file", "path", "artifact", "link", "url", "document", "source"}),
}


_PASSING = frozenset({"hint", "temporary", "temp", "transient", "ephemeral"})


def is_passing(type: str) -> bool:
    """Whether the model itself calls an item one that soon passes."""
    return type.strip().casefold() in _PASSING


def is_work(type: str) -> bool:
    """Whether an item says what is to be done, or how: what the working tier is for."""
    return kind_of(type) in ("todo", "decision")


def kind_of(type: str) -> ItemKind:
    """What the model called an item, in our words."""
    name = type.strip().casefold()
    return next((kind for kind, names in _NAMES_OF_KINDS.items() if name in names), "fact")


_PERSONAL = frozenset(
    {"identity", "name", "person", "health", "allergy", "medical", "instruction", "rule", "preference"}
)
_ABOUT_THE_USER = re.compile(r"(?:the\s+)?user\b|用户", re.IGNORECASE)


def standing(type: str, content: str, touches: float) -> float:
    """What an item's type, subject and use take off its decay when it competes with others for room."""
    worth = 0.2 if type.strip().casefold() in _PERSONAL else 0.0
    about_user = 0.1 if _ABOUT_THE_USER.match(content) else 0.0
    return worth + about_user + min(0.15, 0.05 * log2(touches))


_FOREIGN: frozenset[Origin] = frozenset({"file", "retrieved", "tool"})
"""Origins of texts that nobody in the conversation wrote, and of all that was made of them."""

_OWN_PARTS = frozenset({"text", "refusal", "input_audio", "thinking", "redacted_thinking"})
"""Parts of a message that whoever sends it wrote or spoke; every other one was fetched or attached."""

_ROLES: dict[str, Origin] = {"system": "operator", "user": "user", "assistant": "assistant"}


def least_trusted(*origins: Origin) -> Origin:
    return max(origins, key=ORIGINS.index)


def is_foreign(origin: str) -> bool:
    return origin in _FOREIGN


def origin_in(value: object) -> Origin | None:
    """The origin that a record names, if it is one."""
    return next((origin for origin in ORIGINS if origin == value), None)


def foreign_in(origins: Iterable[str]) -> Origin | None:
    """The least trusted of these that is foreign, if one is."""
    return max(_FOREIGN.intersection(origins), key=ORIGINS.index, default=None)


def origin_of(message: Message) -> Origin:
    """Whom a message comes from, by what can be seen of it: not what the model read that wrote it."""
    role = _ROLES.get(message.role, "tool")
    if isinstance(message.content, str) or role == "operator":
        return role
    if all(part.get("type") in _OWN_PARTS for part in message.content):
        return role
    return "file" if role == "user" else "tool"


def origin_of_all(messages: Iterable[tuple[int, Message]], foreign: Mapping[int, str]) -> Origin:
    """The least trusted of what numbered messages are made of: foreign text, else the user's words, else a model's.

    `foreign` is as in an Opening: what a model wrote is no better than what it had read.
    """
    messages = list(messages)
    found: set[str] = {origin_of(message) for _, message in messages if not isinstance(message.content, str)}
    found |= {_ROLES.get(role, "tool") for role in {message.role for _, message in messages}}
    if foreign:
        found |= {foreign.get(number, "") for number, message in messages if message.role == "assistant"}
    return foreign_in(found) or ("user" if "user" in found else "assistant")


def origin_of_request(request: Request, opening: TurnInputs, left_out: Set[int] = frozenset()) -> Origin:
    """The least trusted of what a caller sends, but for the messages at places that are left out."""
    numbers = opening.numbers or (0,) * len(request.messages)
    places = request.places or range(len(numbers))
    sent = zip(numbers, request.messages, places, strict=True)
    shown = ((number, message) for number, message, place in sent if place not in left_out)
    own = origin_of_all(shown, opening.foreign.messages)
    unseen = opening.foreign.messages.get(0, "") if request.unseen else ""
    return foreign_in((own, unseen, "tool" if request.fetched else "")) or own


def ceiling(origin: Origin, *, foreign_core: bool) -> Tier:
    """The highest tier that a memory of this origin may have."""
    return "working" if is_foreign(origin) and not foreign_core else "core"
