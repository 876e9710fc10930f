"""Whom a memory comes from, and what that allows it to be."""

from collections.abc import Iterable, Mapping, Set

from ctxwrap.memory.items import ORIGINS, Origin, Tier
from ctxwrap.types import Message, Opening, Request

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


def origin_of_request(request: Request, opening: Opening, left_out: Set[int] = frozenset()) -> Origin:
    """The least trusted of what a caller sends, but for the messages at places that are left out."""
    numbers = opening.numbers or (0,) * len(request.messages)
    places = request.places or range(len(numbers))
    sent = zip(numbers, request.messages, places, strict=True)
    shown = ((number, message) for number, message, place in sent if place not in left_out)
    own = origin_of_all(shown, opening.foreign_messages)
    unseen = opening.foreign_messages.get(0, "") if request.unseen else ""
    return foreign_in((own, unseen, "tool" if request.fetched else "")) or own


def ceiling(origin: Origin, *, foreign_core: bool) -> Tier:
    """The highest tier that a memory of this origin may have."""
    return "working" if is_foreign(origin) and not foreign_core else "core"
