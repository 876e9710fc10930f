"""Whom a memory comes from, and what that allows it to be."""

from collections.abc import Iterable

from ctxwrap.memory.items import ORIGINS, Origin, Tier
from ctxwrap.types import Message

_FOREIGN: frozenset[Origin] = frozenset({"tool", "file", "retrieved"})
"""Origins of texts that nobody in the conversation wrote."""


def least_trusted(*origins: Origin) -> Origin:
    return max(origins, key=ORIGINS.index)


def origin_of(messages: Iterable[Message]) -> Origin:
    """The origin of what a model writes that was shown these messages: the least trusted of them."""
    roles = {message.role for message in messages}
    return "tool" if "tool" in roles else "user" if "user" in roles else "assistant"


def ceiling(origin: Origin, *, foreign_core: bool) -> Tier:
    """The highest tier that a memory of this origin may have."""
    return "working" if origin in _FOREIGN and not foreign_core else "core"
