"""Open turns, which began and have not ended; and how often replies ended with a snapshot."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from ctxwrap.types import USABLE, Record

_AT_ONCE = 256
"""The maximum number of remembered open turns, and of ended ones."""


PRESUMED = "process_died"
"""The reason in an end that another process wrote."""

OWN, LATE = "c", "l"
"""The parts that end a turn: the usual one, and the turn's own after a presumed one."""


_ANSWERS = (f"-{OWN}0", f"-{LATE}0")
"""How the ids of answers end."""


def answer_id(turn: str, part: str = OWN) -> str:
    """The id of a turn's answer."""
    return f"{turn}-{part}0"


def is_presumed(done: Record) -> bool:
    """Whether another process wrote this end of a turn."""
    return done.get("status") == "cancelled" and done.get("reason") == PRESUMED


class OpenTurn(NamedTuple):
    """A turn that has not ended."""

    writer: str
    """The process that runs it."""
    round: int
    at: str
    """The time it began."""
    said: str = ""
    """The answer so far, as of the last `delta` event."""
    origin: str = ""
    """The origin of that answer."""


class Turns:
    """Open turns and recently ended ones."""

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
        """Turns that another process presumed to have ended."""
        self._answers: dict[str, str] = dict(answers or {})
        """Answers whose events have not been read yet, by id, with their status."""

    @property
    def state(self) -> str:
        """The session's state: one word of the ABI."""
        return "active" if self.begun else next(reversed(self._over.values()), "idle")

    def has(self, turn: str) -> bool:
        return turn in self.begun or turn in self._over

    def is_over(self, turn: str) -> bool:
        """Whether the turn's own end is in the log."""
        return turn in self._over and turn not in self._presumed

    def part_of_end(self, turn: str) -> str:
        """The part under which the turn writes its end; a turn that is not open was closed by another process."""
        is_open = turn in self.begun and self._answers.get(answer_id(turn)) != PRESUMED
        return OWN if is_open else LATE

    def answered(self, turn: str, part: str = OWN) -> str:
        """The status of an answer that is in the log without its events; empty if there is none."""
        return self._answers.get(answer_id(turn, part), "")

    def take_answer(self, turn: str, control: Record) -> None:
        """Fold a message's control data; it is read before the events of the same append."""
        id = str(control.get("id"))
        if id.endswith(_ANSWERS) and id.rpartition("-")[0] == turn:
            self._answers[id] = PRESUMED if control.get("reason") == PRESUMED else str(control.get("status"))
            _bound(self._answers)

    def take_start(self, event: Record) -> None:
        runtime, writer = event["runtime"], str((event.get("ctx") or {}).get("writer") or "")
        origin = str(event.get("origin") or "")
        self.begun[str(event.get("run"))] = OpenTurn(
            writer, int(runtime["round"]), str(runtime["datetime"]), origin=origin
        )
        _bound(self.begun)

    def take_delta(self, event: Record) -> None:
        run = str(event.get("run"))
        if run in self.begun:
            turn = self.begun[run]
            said, origin = turn.said + str(event.get("text") or ""), str(event.get("origin") or turn.origin)
            self.begun[run] = turn._replace(said=said, origin=origin)

    def take_end(self, done: Record) -> None:
        run, status = str(done.get("run")), str(done.get("status"))
        self.begun.pop(run, None)
        self._over.pop(run, None)  # the newest is last
        self._over[run] = "done" if status == "ok" else status
        _bound(self._over)
        if self._presumed:
            self._presumed.pop(run, None)
        if self._answers:
            self._answers.pop(answer_id(run), None)
        if status == "cancelled" and is_presumed(done):
            self._presumed[run] = ""
            _bound(self._presumed)
        elif self._answers:
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
"""The rule that a reply without a snapshot breaks."""

MANY = 3
"""This many replies in a row without a snapshot cause a warning."""

_MODELS = 50
"""The maximum number of models counted separately."""


class SnapshotCount(NamedTuple):
    asked: int = 0
    missing: int = 0
    unusable: int = 0


_NONE_ASKED = SnapshotCount()


class Compliance:
    def __init__(self, in_a_row: int = 0, alarms: int = 0, models: Mapping[str, Iterable[int]] | None = None) -> None:
        self.in_a_row = in_a_row
        """Consecutive replies without a usable snapshot."""
        self.alarms = alarms
        """How often the warning was due."""
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
        asked, missing, unusable = self.models.get(model, _NONE_ASKED)
        if status == "missing":
            missing += 1
        elif status not in USABLE:
            unusable += 1
        self.models[model] = SnapshotCount(asked + 1, missing, unusable)
        self.in_a_row = row_after(self.in_a_row, status)
        self.alarms += status == "missing" and self.in_a_row == MANY

    def as_json(self) -> dict[str, Any]:
        """The row for a checkpoint."""
        return {"in_a_row": self.in_a_row, "alarms": self.alarms, "models": dict(self.models)}

    def as_counts(self) -> dict[str, Any]:
        """The counts as JSON."""
        models = {model: count._asdict() for model, count in self.models.items()}
        return {**self.total._asdict(), "in_a_row": self.in_a_row, "models": models}


def row_after(row: int, status: str) -> int:
    """The consecutive misses after one more reply of that status."""
    return row + 1 if status == "missing" else 0 if status in USABLE else row
