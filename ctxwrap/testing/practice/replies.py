"""What an imitated model knows when it writes its reply, and helpers to build replies from visible and hidden parts."""

import json
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from ctxwrap.memory.items import TIERS
from ctxwrap.protocol.instructions import SEPARATOR, strip_injected
from ctxwrap.testing.practice.answer import JSON, Answer
from ctxwrap.testing.practice.conversation import HELP, converse
from ctxwrap.testing.practice.memory import PracticeMemory
from ctxwrap.testing.practice.model import (
    as_trailer_json,
    before_reask,
    received_state,
    requested_state,
    stable_fraction,
)
from ctxwrap.testing.practice.requests import Ask, dict_at, dicts

_SMALL_TALK = ("I see.", "Good to hear.", "Is that so?", "Go on.", "How nice.", "Well, well.", "Understood.")


class Hidden(str):
    """A part of a reply that the user must not see."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class ReplyParts(Answer):
    """A reply with visible and hidden parts."""

    visible: str = ""
    """The part of the text that the user may see."""


def reply(*parts: str, finish: str = "stop") -> ReplyParts:
    """Join the non-empty parts with an empty line between them."""
    visible = (part for part in parts if part and not isinstance(part, Hidden))
    return ReplyParts("\n\n".join(part for part in parts if part), finish=finish, visible="\n\n".join(visible))


def trailer(state: JSON | str, form: str = "{mark}\n{state}") -> Hidden:
    """Return the separator and a state as JSON, or a text in its place."""
    return Hidden(form.format(mark=SEPARATOR, state=state if isinstance(state, str) else as_trailer_json(state)))


def change_items(state: JSON, change: Callable[[JSON], Any]) -> JSON:
    """Return `state` with `change` applied to every memory item."""
    return state | {"memory": {tier: [change(item) for item in group] for tier, group in tiers(state).items()}}


def tiers(state: JSON) -> dict[str, list[JSON]]:
    memory = dict_at(state, "memory")
    return {tier: dicts(memory.get(tier)) for tier in TIERS}


def items(state: JSON) -> list[JSON]:
    """Return all memory items, tier by tier."""
    return [item for group in tiers(state).values() for item in group]


@dataclass(frozen=True, slots=True)
class ReplyContext:
    """A request as an imitated model understands it: message, answer and memory."""

    ask: Ask
    raw_message: str
    """The newest user message, with ctxwrap's additions."""
    message: str
    """The newest user message as the user wrote it."""
    answer: str
    memory: PracticeMemory

    @property
    def round(self) -> int:
        return self.memory.round

    @property
    def received(self) -> JSON:
        """The state in the request."""
        return received_state(self.ask.system, [("user", self.raw_message)]) or {}

    @property
    def full_state(self) -> JSON:
        """The whole state after the message."""
        return deepcopy(self.memory.state())

    @property
    def changed_state(self) -> JSON:
        """The state with new and changed items only, and the ids of dropped ones."""
        return deepcopy(self.memory.changes())

    @property
    def requested(self) -> JSON:
        """The state in the form that the protocol asks for: whole, or changes."""
        return deepcopy(requested_state(self.ask, self.memory))


def read_context(ask: Ask) -> ReplyContext:
    """Read a request: the newest message, and earlier ones only through the state in the request.

    If only the snapshot is requested again, the answer is empty.
    """
    earlier = before_reask(ask.messages)
    lines = ask.messages if earlier is None else earlier
    raw_message = next((text for role, text in reversed(lines) if role == "user"), "")
    message = strip_injected(raw_message).strip()
    memory = PracticeMemory(received_state(ask.system, lines))
    answer = converse([message], memory)
    if answer == HELP:
        answer = _SMALL_TALK[int(stable_fraction(message) * len(_SMALL_TALK))]
    return ReplyContext(ask, raw_message, message, answer if earlier is None else "", memory)


def as_json(value: Any, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)
