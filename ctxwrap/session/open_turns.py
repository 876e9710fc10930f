"""Turns that began and have not ended, and how often replies ended with a snapshot."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from ctxwrap.types import USABLE, Record

_AT_ONCE = 256
"""So many turns are remembered as under way, and as many as over."""


PRESUMED = "process_died"
"""Why a turn ended of which another process wrote the end."""

OWN, LATE = "c", "l"
"""The parts of a turn that are its end: the usual one, and its own behind one that was presumed."""


def answer_id(turn: str, part: str = OWN) -> str:
    """The id of the message that is the answer of a turn."""
    return f"{turn}-{part}0"


def is_presumed(done: Record) -> bool:
    """Whether the event is the end of a turn that another process wrote."""
    return done.get("status") == "cancelled" and done.get("reason") == PRESUMED


class OpenTurn(NamedTuple):
    """A turn under way."""

    writer: str
    """The process that drives it."""
    round: int
    at: str
    """When it began."""
    said: str = ""
    """What its answer said so far, as of the last time somebody wrote it down."""
    origin: str = ""
    """What the answer was made of, as of then."""


class Turns:
    """Which turns are under way and which are over, as far back as anybody may ask."""

    def __init__(
        self,
        begun: Mapping[str, OpenTurn] | None = None,
        over: Mapping[str, str] | None = None,
        presumed: Iterable[str] = (),
        answers: Mapping[str, str] | None = None,
    ) -> None:
        self.begun: dict[str, OpenTurn] = dict(begun or {})
        self._over: dict[str, str] = dict(over or {})
        self._presumed = dict.fromkeys(presumed, "")
        """Those that are over only by what another process says."""
        self._answers: dict[str, str] = dict(answers or {})
        """The answers, by their ids, whose events are still to come, with what is known of each."""

    @property
    def state(self) -> str:
        """The session's state in one word."""
        return "active" if self.begun else next(reversed(self._over.values()), "idle")

    def has(self, turn: str) -> bool:
        return turn in self.begun or turn in self._over

    def is_over(self, turn: str) -> bool:
        """Whether its own end is in the log."""
        return turn in self._over and turn not in self._presumed

    def part_of_end(self, turn: str) -> str:
        """As which part its own end is to be written; one that is not under way was closed by others."""
        is_open = turn in self.begun and self._answers.get(answer_id(turn)) != PRESUMED
        return OWN if is_open else LATE

    def answered(self, turn: str, part: str = OWN) -> str:
        """What is known of the answer that the log has without the events that belong to it; nothing without one."""
        return self._answers.get(answer_id(turn, part), "")

    def take_answer(self, turn: str, control: Record) -> None:
        """Take in what is said about a message, which is read before the events that were written with it."""
        id = str(control.get("id"))
        if id in (answer_id(turn), answer_id(turn, LATE)):
            self._answers[id] = PRESUMED if control.get("reason") == PRESUMED else str(control.get("status"))
            _bound(self._answers)

    def take(self, event: Record) -> None:
        run = str(event.get("run"))
        if event["type"] == "start":
            runtime, writer = event["runtime"], str((event.get("ctx") or {}).get("writer") or "")
            known = int(runtime["round"]), str(runtime["datetime"])
            self.begun[run] = OpenTurn(writer, *known, origin=str(event.get("origin") or ""))
            _bound(self.begun)
        elif event["type"] == "delta" and run in self.begun:
            turn = self.begun[run]
            said, origin = turn.said + str(event.get("text") or ""), str(event.get("origin") or turn.origin)
            self.begun[run] = turn._replace(said=said, origin=origin)
        elif event["type"] == "done":
            self._take_end(run, event)

    def _take_end(self, run: str, done: Record) -> None:
        self.begun.pop(run, None)
        self._answers.pop(answer_id(run), None)
        self._over.pop(run, None)  # the newest stands last
        self._presumed.pop(run, None)
        status = str(done.get("status"))
        self._over[run] = "done" if status == "ok" else status
        _bound(self._over)
        if is_presumed(done):
            self._presumed[run] = ""
            _bound(self._presumed)
        else:
            self._answers.pop(answer_id(run, LATE), None)

    def as_json(self) -> Record:
        presumed = list(self._presumed)
        return {"begun": self.begun, "over": self._over, "presumed": presumed, "answers": self._answers}

    @classmethod
    def from_json(cls, value: Record) -> "Turns":
        begun = {turn: OpenTurn(*known) for turn, known in value["begun"].items()}
        return cls(begun, value["over"], value["presumed"], value["answers"])


def _bound(turns: dict[str, OpenTurn] | dict[str, str]) -> None:
    while len(turns) > _AT_ONCE:
        turns.pop(next(iter(turns)))


NO_SNAPSHOT = "the reply has no snapshot"
"""The rule that such a reply broke."""

MANY = 3
"""After so many replies in a row without a snapshot somebody should be told."""

_MODELS = 50
"""So many models are told apart; all others are one."""


class SnapshotCount(NamedTuple):
    asked: int = 0
    missing: int = 0
    unusable: int = 0

    def with_one(self, status: str) -> "SnapshotCount":
        unusable = status not in (*USABLE, "missing")
        return SnapshotCount(self.asked + 1, self.missing + (status == "missing"), self.unusable + unusable)


class Compliance:
    def __init__(self, in_a_row: int = 0, alarms: int = 0, models: Mapping[str, Iterable[int]] | None = None) -> None:
        self.in_a_row = in_a_row
        """How many of the last replies had none; only one that can be used ends the row."""
        self.alarms = alarms
        """How often there were so many in a row that somebody should be told."""
        self.models = {model: SnapshotCount(*count) for model, count in (models or {}).items()}

    @property
    def total(self) -> SnapshotCount:
        return SnapshotCount(*map(sum, zip(*self.models.values(), strict=True))) if self.models else SnapshotCount()

    def take(self, event: Record) -> None:
        if event.get("type") != "snapshot" or event.get("due") is not True:
            return
        status, model = str(event.get("status")), str(event.get("model") or "")
        if model not in self.models and len(self.models) >= _MODELS:
            model = "others"
        self.models[model] = self.models.get(model, SnapshotCount()).with_one(status)
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
