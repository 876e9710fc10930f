"""Turns that began and have not ended: what they said so far, and whose they are."""

from collections.abc import Mapping
from typing import NamedTuple

from ctxwrap.types import Record

_AT_ONCE = 256
"""So many turns are remembered as under way, and as many as over."""


class Begun(NamedTuple):
    """A turn under way."""

    writer: str
    """The process that drives it."""
    round: int
    at: str
    """When it began."""
    said: str = ""
    """What its answer said so far, as of the last time somebody wrote it down."""


class Turns:
    """Which turns are under way and which are over, as far back as anybody may ask."""

    def __init__(self, begun: Mapping[str, Begun] | None = None, over: Mapping[str, str] | None = None) -> None:
        self.begun: dict[str, Begun] = dict(begun or {})
        self._over: dict[str, str] = dict(over or {})

    @property
    def state(self) -> str:
        """The session's state in one word."""
        return "active" if self.begun else next(reversed(self._over.values()), "idle")

    def has(self, turn: str) -> bool:
        return turn in self.begun or turn in self._over

    def is_over(self, turn: str) -> bool:
        return turn in self._over

    def take(self, event: Record) -> None:
        run = str(event.get("run"))
        if event["type"] == "start":
            runtime, writer = event["runtime"], str((event.get("ctx") or {}).get("writer") or "")
            self.begun[run] = Begun(writer, int(runtime["round"]), str(runtime["datetime"]))
            _bound(self.begun)
        elif event["type"] == "delta" and run in self.begun:
            turn = self.begun[run]
            self.begun[run] = turn._replace(said=turn.said + str(event.get("text") or ""))
        elif event["type"] == "done":
            self.begun.pop(run, None)
            status = str(event.get("status"))
            self._over[run] = "done" if status == "ok" else status
            _bound(self._over)

    def as_json(self) -> Record:
        return {"begun": self.begun, "over": self._over}

    @classmethod
    def from_json(cls, value: Record) -> "Turns":
        return cls({turn: Begun(*known) for turn, known in value["begun"].items()}, value["over"])


def _bound(turns: dict[str, Begun] | dict[str, str]) -> None:
    while len(turns) > _AT_ONCE:
        turns.pop(next(iter(turns)))
