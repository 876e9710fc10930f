"""What kind of thing an item tells: a fact, a decision, work to do, or where something lies."""

import re
from math import log2
from typing import Literal, get_args

Kind = Literal["fact", "decision", "todo", "ref"]
KINDS: tuple[Kind, ...] = get_args(Kind)
"""In the order in which they come first."""

_NAMES_OF_KINDS: dict[Kind, frozenset[str]] = {
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


def kind_of(type: str) -> Kind:
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
