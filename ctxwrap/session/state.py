"""Everything a session knows of its past: a fold of its records, the same for the same log."""

import logging
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta

from ctxwrap.memory.decay import TierMove
from ctxwrap.memory.epoch import Tiers, epoch_in
from ctxwrap.memory.items import Origin, foreign_in, least_trusted, origin_in, origin_of, origin_of_all
from ctxwrap.memory.memory import Memory, rules_from_json
from ctxwrap.pack import injection
from ctxwrap.session.alignment import Digest, digest
from ctxwrap.session.branch import Branch, Origins
from ctxwrap.session.derived import Derived
from ctxwrap.session.documents import Documents
from ctxwrap.session.missing import from_json as missing_from_json
from ctxwrap.session.missing import taken
from ctxwrap.session.open_turns import Compliance, Turns
from ctxwrap.session.redaction import placeholder
from ctxwrap.settings import Settings
from ctxwrap.stores.base import STREAMS
from ctxwrap.stores.log_format import message_in, next_number, timestamp, tokens_in, turn_in
from ctxwrap.types import LoggedMessage, Message, MissingContext, Operation, Prefix, Record, Runtime

logger = logging.getLogger("ctxwrap")

OPERATING = ("snapshot", "observation", "recall", "pin", "forget")
"""The events whose operations change memory."""

_STEP = timedelta(microseconds=1)
_FAR = timedelta(days=366)
"""How far a clock must have gone ahead to have been wrong, and not only set back a little since."""

_FILE, _FILES = ("why", "priority", "truncate_strategy", "max_lines"), 256
"""What is kept of a grant, and of how many files."""

_FORMAT = 16
"""Of what a checkpoint holds; another one whenever that, or how records are read, changes."""


class SessionState:
    def __init__(self, settings: Settings, *, keeps_all: bool = False) -> None:
        self.memory = Memory(settings.memory, evolves=settings.evolution == "decay", keeps_all=keeps_all)
        self.moves: list[TierMove] = []
        """What moved in memory and is not in the log yet."""
        self.sequence = dict.fromkeys(STREAMS, 0)
        """The number of each stream's last record."""
        self.branch = Branch()
        self.origins = Origins()
        self.state_origin: Origin = "assistant"
        """The least trusted of what the model was shown that wrote what stands beside memory, such as its task."""
        self.began = 0
        """The number of the message that the last caller's list began with, 0 if that is not known."""
        self.last_turn = ""
        """Whose the newest message is."""
        self.turns = Turns()
        self.purged: set[str] = set()
        """The turns of which a message was purged."""
        self.rules: Record | None = None
        """The rules that memory goes by, if the log says so."""
        self.system: list[Digest] = []
        self.system_numbers: list[int] = []
        self._system_turn = ""
        self.round = 0
        self.answered = True
        self.runtime: Runtime | None = None
        self.epoch: Tiers | None = None
        """The memory that stands where a request seldom changes."""
        self.prefix: Prefix | None = None
        """How the last request began."""
        self.pack: Record | None = None
        """What the newest event tells that has a pack."""
        self.outputs: tuple[str, ...] = ()
        """The tool outputs that were files in it."""
        self.files: dict[str, Record] = {}
        """What the model was granted of its working set, by path."""
        self.missing: tuple[MissingContext, ...] = ()
        """What is missing, and what somebody declined to give."""
        self.derived = Derived()

    @property
    def documents(self) -> Documents:
        """The context document and its versions."""
        return self.derived.documents

    @property
    def compliance(self) -> Compliance:
        """How often replies had the snapshot that they should have."""
        return self.derived.compliance

    def take(self, stream: str, record: Record, whole: Callable[[Record], Record]) -> bool:
        """Take in the next record of a stream; `whole` gives one with its content, should that lie elsewhere.

        Whether it made sense; one that does not is passed over.
        """
        self.sequence[stream] = next_number(record, self.sequence[stream])
        try:
            if stream == "messages":
                self._take_message(record, whole)
            else:
                self._take_event(record)
        except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError):
            logger.exception("a record of %s makes no sense; it is passed over", stream)
            return False
        return True

    def next_runtime(self, round: int, now: datetime) -> Runtime:
        """The runtime fields of a turn in `round`; those of an earlier turn in it, if there was one."""
        if self.runtime is None:
            return Runtime(round, timestamp(now), timestamp(now))
        if self.runtime.round == round:
            return self.runtime
        began, last = map(datetime.fromisoformat, (self.runtime.startup_at, self.runtime.datetime))
        return Runtime(round, timestamp(_moment_after(last, now, began)), self.runtime.startup_at)

    def _take_message(self, record: Record, whole: Callable[[Record], Record]) -> None:
        message, control = message_in(whole(record)), dict(record.get("ctx") or {})
        number, turn = int(control.get("round") or 0), turn_in(record)
        said = str(control.get("digest") or "")
        if not said.isalnum():
            said = digest(message)
        self.origins.add(self.sequence["messages"], self._origin(message, control))
        if "purged" in control:
            self.purged.add(turn)
            message = placeholder(message)
        self.derived.take_message(self.sequence["messages"], message, said, record)
        if message.role == "system":
            self._take_system(said, turn)
            return
        at, id, parent = self.sequence["messages"], str(control.get("id") or ""), control.get("parent") or ""
        self.branch.drop(str(control.get("supersedes") or ""))
        self.branch.add(LoggedMessage(at, message, tokens_in(record)), said, id, parent)
        self.turns.take_answer(turn, control)
        self.last_turn = turn
        self.round = max(self.round, number)
        self.answered = message.role == "assistant"

    def _origin(self, message: Message, control: Record) -> Origin:
        """Whom a message descends from. A model's that does not say so may have been made of all before it."""
        own = origin_of(message)
        if message.role != "assistant":
            return own
        return least_trusted(own, origin_in(control.get("origin")) or self.origins.least or own)

    def origin_of(self, messages: Iterable[LoggedMessage]) -> Origin:
        """The least trusted of what these messages are made of."""
        told = [(kept.number, kept.message) for kept in messages]
        return origin_of_all(told, {number: self.origins.of(number) or "" for number, _ in told})

    def _take_system(self, said: Digest, turn: str) -> None:
        """A turn's system messages stand together; another turn's take their place."""
        if turn != self._system_turn:
            self.system, self.system_numbers, self._system_turn = [], [], turn
        self.system.append(said)
        self.system_numbers.append(self.sequence["messages"])

    def _take_event(self, event: Record) -> None:
        kind = event.get("type")
        if kind == "start":
            runtime = Runtime(**event["runtime"])
            self._go_by(event.get("rules"))
            self.round = max(self.round, runtime.round)
            self.runtime = runtime
            self.began = int(event.get("began") or 0)
            self.moves += self.memory.advance(runtime.round)
        elif kind == "evolution":
            told = [TierMove(**move) for move in event["moves"]]
            self.moves = [move for move in self.moves if move not in told]
        elif kind in OPERATING and "operations" in event:
            operations = [Operation(**operation) for operation in event["operations"]]
            self.moves += self.memory.apply(operations, int(event.get("round") or self.round))
            self.memory.capabilities = list(event.get("capabilities", self.memory.capabilities))
            self.memory.active_task = str(event.get("active_task", self.memory.active_task))
            if kind == "snapshot":
                changed = foreign_in(str((each.item or {}).get("origin")) for each in operations)
                self.state_origin = origin_in(event.get("origin")) or changed or "assistant"
        if kind in ("start", "delta", "done"):
            self.turns.take(event)
        if kind in ("start", "repack"):
            self._take_pack(event)
        if kind == "working_set" and event.get("granted") is True and event.get("by") == "model":
            self._take_file(str(event["path"]), event)
        self.missing = taken(self.missing, event)
        self.derived.take_event(event, self.memory, self.sequence["events"])

    def _take_pack(self, event: Record) -> None:
        """How a request began, and the memory that stands there from now on."""
        if "sent" in event:
            same = self.pack if self.pack and self.pack["run"] == event["run"] else {}
            self.pack = {**same, **event}
        if "prefix" in event:
            self.prefix = injection.from_json(event["prefix"])
            self.outputs = tuple(map(str, event.get("outputs") or ()))
        if "epoch" in event:
            self.epoch = epoch_in(event["epoch"])

    def _take_file(self, path: str, event: Record) -> None:
        """A file without a priority was removed; the operator may have it still."""
        before = self.files.pop(path, {})
        told = {name: event[name] for name in _FILE if name in event}
        if "priority" in told:
            before = {} if "removed" in before else before
            self.files[path] = {"turn": int(event["round"]), **before, **told}
        else:
            self.files[path] = {"removed": True, **told}
        while len(self.files) > _FILES:
            self.files.pop(next(iter(self.files)))

    def _go_by(self, rules: Record | None) -> None:
        """Let memory go by other rules, if a turn says so."""
        if rules is not None:
            numbers, evolves = rules_from_json(rules)
            self.memory.govern(numbers, evolves=evolves)
            self.rules = rules

    def as_json(self) -> Record:
        return {
            "format": _FORMAT,
            "sequence": self.sequence,
            "branch": self.branch.as_json(),
            "origins": self.origins.as_json(),
            "state_origin": self.state_origin,
            "began": self.began,
            "last_turn": self.last_turn,
            "turns": self.turns.as_json(),
            "purged": sorted(self.purged),
            "rules": self.rules,
            "system": self.system,
            "system_numbers": self.system_numbers,
            "system_turn": self._system_turn,
            "round": self.round,
            "answered": self.answered,
            "runtime": self.runtime and self.runtime.as_json(),
            "memory": self.memory.as_json(),
            "moves": self.moves,
            "epoch": self.epoch,
            "prefix": self.prefix and injection.as_json(self.prefix),
            "pack": self.pack,
            "outputs": self.outputs,
            "files": self.files,
            "missing": self.missing,
            "derived": self.derived.as_json(),
        }

    def restore(self, known: Record) -> None:
        """Become what `as_json` gave; a ValueError if another version of it did."""
        if known["format"] != _FORMAT:
            raise ValueError(f"its format is {known['format']!r}")
        self.sequence = {stream: known["sequence"][stream] for stream in STREAMS}
        self.branch = Branch.from_json(known["branch"])
        self.origins, self.state_origin = Origins.from_json(known["origins"]), known["state_origin"]
        self.began = known["began"]
        self.last_turn = known["last_turn"]
        self.turns = Turns.from_json(known["turns"])
        self.purged = set(known["purged"])
        self.rules = known["rules"]
        self.system, self._system_turn = known["system"], known["system_turn"]
        self.system_numbers = known["system_numbers"]
        self.round, self.answered = known["round"], known["answered"]
        self.runtime = Runtime(**known["runtime"]) if known["runtime"] else None
        self.memory.restore(known["memory"])
        self.moves = [TierMove(*move) for move in known["moves"]]
        self.epoch = known["epoch"]
        self.prefix = injection.from_json(known["prefix"]) if known["prefix"] else None
        self.pack = known["pack"]
        self.outputs = tuple(known["outputs"])
        self.files = known["files"]
        self.missing = missing_from_json(known["missing"])
        self.derived = Derived.from_json(known["derived"])


def _moment_after(last: datetime, now: datetime, began: datetime) -> datetime:
    """When a turn is that comes after `last`: never before it, unless that was in a far future that did not come.

    A clock that stands before the session's beginning is the one that is wrong.
    """
    if now > last or (last - now > _FAR and now >= began):
        return now
    return last + min(_STEP, datetime.max.replace(tzinfo=UTC) - last)
