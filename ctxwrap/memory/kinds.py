"""What kind of thing an item tells: a fact, a decision, work to do, or where something lies."""

from typing import Literal, get_args

Kind = Literal["fact", "decision", "todo", "ref"]
KINDS: tuple[Kind, ...] = get_args(Kind)
"""In the order in which they come first."""

_NAMES: dict[Kind, frozenset[str]] = {
    "decision": frozenset({"decision", "decided", "choice", "agreement", "resolution"}),
    "todo": frozenset({"todo", "task", "action", "plan", "goal", "step", "next", "reminder", "question"}),
    "ref": frozenset({"ref", "reference", "file", "path", "artifact", "link", "url", "document", "source"}),
}


def kind_of(type: str) -> Kind:
    """What the model called an item, in our words."""
    name = type.strip().casefold()
    return next((kind for kind, names in _NAMES.items() if name in names), "fact")
