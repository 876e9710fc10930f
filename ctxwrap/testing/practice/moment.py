"""The moment in which a model writes its reply: what it knows by then, and what of the reply is for the user."""

import json
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from ctxwrap.protocol.instructions import SEPARATOR, without_injected
from ctxwrap.testing.practice.answer import JSON, Answer
from ctxwrap.testing.practice.conversation import LITTLE, converse
from ctxwrap.testing.practice.model import asked_for, fraction, given_state, until_asked_again, written
from ctxwrap.testing.practice.notebook import TIERS, Notebook
from ctxwrap.testing.practice.requests import Ask, dict_at, dicts

_SMALL_TALK = ("I see.", "Good to hear.", "Is that so?", "Go on.", "How nice.", "Well, well.", "Understood.")


class Hidden(str):
    """A part of a reply that is not for the user."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class ReplyParts(Answer):
    """A reply of which some is for the user and some is not."""

    visible: str = ""
    """What of the text is for the user."""


def reply(*parts: str, finish: str = "stop") -> ReplyParts:
    """The parts that say something, with an empty line between them."""
    visible = (part for part in parts if part and not isinstance(part, Hidden))
    return ReplyParts("\n\n".join(part for part in parts if part), finish=finish, visible="\n\n".join(visible))


def trailer(state: JSON | str, form: str = "{mark}\n{state}") -> Hidden:
    """A state as JSON, or a text in its place, behind the separator."""
    return Hidden(form.format(mark=SEPARATOR, state=state if isinstance(state, str) else written(state)))


def changed(state: JSON, change: Callable[[JSON], Any]) -> JSON:
    """`state` with every item of its memory as `change` makes it."""
    return state | {"memory": {tier: [change(note) for note in notes] for tier, notes in tiers(state).items()}}


def tiers(state: JSON) -> dict[str, list[JSON]]:
    memory = dict_at(state, "memory")
    return {tier: dicts(memory.get(tier)) for tier in TIERS}


def items(state: JSON) -> list[JSON]:
    """All of its memory, tier by tier."""
    return [note for notes in tiers(state).values() for note in notes]


@dataclass(frozen=True, slots=True)
class ReplyMoment:
    """What a model was asked and shown, what it understood of that, and what it will answer."""

    ask: Ask
    newest: str
    """The newest message of the user's, with what was added to it."""
    said: str
    """The same as the user wrote it."""
    answer: str
    notebook: Notebook

    @property
    def round(self) -> int:
        return self.notebook.round

    @property
    def shown(self) -> JSON:
        """The whole state as it was shown."""
        return given_state(self.ask.system, [("user", self.newest)]) or {}

    @property
    def whole(self) -> JSON:
        """The whole state as it is now."""
        return deepcopy(self.notebook.state())

    @property
    def changes(self) -> JSON:
        """What of the state is new, other or gone."""
        return deepcopy(self.notebook.changes())

    @property
    def wanted(self) -> JSON:
        """What the protocol asks for: the whole state, or what changed in it."""
        return deepcopy(asked_for(self.ask, self.notebook))


def moment(ask: Ask) -> ReplyMoment:
    """The model hears the newest message only: what it knows of earlier ones it has from the state it is shown.

    When only the state is asked for again, there is nothing to answer.
    """
    earlier = until_asked_again(ask.messages)
    lines = ask.messages if earlier is None else earlier
    newest = next((text for role, text in reversed(lines) if role == "user"), "")
    said = without_injected(newest).strip()
    notebook = Notebook(given_state(ask.system, lines))
    answer = converse([said], notebook)
    if answer == LITTLE:
        answer = _SMALL_TALK[int(fraction(said) * len(_SMALL_TALK))]
    return ReplyMoment(ask, newest, said, answer if earlier is None else "", notebook)


def as_json(value: Any, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)
