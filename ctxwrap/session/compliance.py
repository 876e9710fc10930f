"""How often replies that should end with a snapshot did: counts that follow from the log.

A reply is due to have one if the model was asked for it, came to its own end and said something to the user. What
counts is the turn's outcome, after the model was asked again if it was.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from ctxwrap.types import USABLE, Record

NO_SNAPSHOT = "the reply has no snapshot"
"""The rule that such a reply broke."""

MANY = 3
"""After so many replies in a row without a snapshot somebody should be told."""

_MODELS = 50
"""So many models are told apart; all others are one."""


class Count(NamedTuple):
    asked: int = 0
    missing: int = 0
    unusable: int = 0

    def with_one(self, status: str) -> "Count":
        unusable = status not in (*USABLE, "missing")
        return Count(self.asked + 1, self.missing + (status == "missing"), self.unusable + unusable)


class Compliance:
    def __init__(self, in_a_row: int = 0, alarms: int = 0, models: Mapping[str, Iterable[int]] | None = None) -> None:
        self.in_a_row = in_a_row
        """How many of the last replies had none; only one that can be used ends the row."""
        self.alarms = alarms
        """How often there were so many in a row that somebody should be told."""
        self.models = {model: Count(*count) for model, count in (models or {}).items()}

    @property
    def total(self) -> Count:
        return Count(*map(sum, zip(*self.models.values(), strict=True))) if self.models else Count()

    def take(self, event: Record) -> None:
        if event.get("type") != "snapshot" or event.get("due") is not True:
            return
        status, model = str(event.get("status")), str(event.get("model") or "")
        if model not in self.models and len(self.models) >= _MODELS:
            model = "others"
        self.models[model] = self.models.get(model, Count()).with_one(status)
        self.in_a_row = row_after(self.in_a_row, status)
        self.alarms += status == "missing" and self.in_a_row == MANY

    def as_json(self) -> dict[str, Any]:
        """What a checkpoint keeps."""
        return {"in_a_row": self.in_a_row, "alarms": self.alarms, "models": dict(self.models)}

    def told(self) -> dict[str, Any]:
        """The counts as data for whoever asks."""
        models = {model: count._asdict() for model, count in self.models.items()}
        return {**self.total._asdict(), "in_a_row": self.in_a_row, "models": models}


def row_after(row: int, status: str) -> int:
    """How many replies in a row had no snapshot, with one more of that status that was due to have one."""
    return row + 1 if status == "missing" else 0 if status in USABLE else row
