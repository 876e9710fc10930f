"""The state of a session: a fold of its records, the same for the same log."""

import logging
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from ctxwrap.memory.decay import TierMove
from ctxwrap.memory.epoch import Tiers, parse_epoch
from ctxwrap.memory.items import Origin, least_trusted, least_trusted_foreign, origin_of, origin_of_all, parse_origin
from ctxwrap.memory.memory import Memory, rules_from_json
from ctxwrap.memory.similarity import fact_digests
from ctxwrap.pack import injection
from ctxwrap.session.branch import Branch, Digest, Origins, digest
from ctxwrap.session.children import Children
from ctxwrap.session.derived import Derived
from ctxwrap.session.documents import Documents, Summaries
from ctxwrap.session.missing import CLASSES as MISSING_CLASSES
from ctxwrap.session.missing import missing_after
from ctxwrap.session.missing import missing_from_json as missing_from_json
from ctxwrap.session.open_turns import Compliance, Turns
from ctxwrap.session.redaction import placeholder
from ctxwrap.settings import Settings
from ctxwrap.stores.base import STREAMS
from ctxwrap.stores.log_format import MALFORMED, message_in, next_number, timestamp, tokens_in, turn_in
from ctxwrap.stores.names import owner_kind
from ctxwrap.tokens.reported_usage import totals_in
from ctxwrap.types import LoggedMessage, Message, MissingContext, Operation, Prefix, Record, Runtime

logger = logging.getLogger("ctxwrap")

OPERATING = ("snapshot", "observation", "recall", "pin", "forget", "merge")
"""Events whose operations change memory."""

EVERYTHING = "everything"
"""The reason in what remains of an event after everything was deleted."""

_CONNECTING = frozenset({"memory", "join", "contribution", "merge", "forget"})
"""Events that may, as the start of a turn, connect a session with a user or a team."""

_STEP = timedelta(microseconds=1)
_FAR = timedelta(days=366)
"""A last turn this far in the future was dated by a wrong clock; a smaller lead is ordinary clock adjustment."""

_FILE, _FILES = ("why", "priority", "truncate_strategy", "max_lines"), 256
"""The fields kept of a grant, and the number of files."""

_FORMAT = 22
"""The checkpoint's format; increment it when the content, or how records are folded, changes."""


class SessionState:
    def __init__(self, settings: Settings, *, keeps_all: bool = False) -> None:
        self.memory = Memory(settings.memory, evolves=settings.evolution == "decay", keeps_all=keeps_all)
        self.moves: list[TierMove] = []
        """Tier moves that are not in the log yet."""
        self.sequence = dict.fromkeys(STREAMS, 0)
        """The number of the last record of each stream."""
        self.branch = Branch()
        self.origins = Origins()
        self.state_origin: Origin = "assistant"
        """The least trusted origin among the texts shown to the model that wrote the snapshot's other fields."""
        self.began = 0
        """The number of the first message in the last caller's list; 0 if unknown."""
        self.last_turn = ""
        """The turn of the newest message."""
        self.turns = Turns()
        self.purged: set[str] = set()
        """Turns with a purged message."""
        self.rules: Record | None = None
        """The memory rules in the log, if any."""
        self.system: list[Digest] = []
        self.system_numbers: list[int] = []
        self._system_turn = ""
        self.round = 0
        self.answered = True
        self.runtime: Runtime | None = None
        self.epoch: Tiers | None = None
        """The memory block of the current epoch."""
        self.prefix: Prefix | None = None
        """The prefix of the last request."""
        self.pack: Record | None = None
        """The newest event with a receipt."""
        self.outputs: tuple[str, ...] = ()
        """Tool outputs that were files in that pack."""
        self.files: dict[str, Record] = {}
        """Working-set requests of the model that were granted, by path."""
        self.missing: tuple[MissingContext, ...] = ()
        """Missing context, open or declined."""
        self.owners: dict[str, str] = {}
        """The user, and the team, of the last turn that named one."""
        self.tokens_in = self.tokens_out = 0
        """What providers reported for all turns."""
        self.is_erased = False
        """Whether everything before some record was deleted."""
        self.contributions: dict[str, list[tuple[int, Record]]] = {}
        """By kind of owner, what turns gave to it and the log does not say that it has, with the events' numbers."""
        self.members: dict[tuple[str, ...], int] = {}
        """In an owner's log: its sessions, each with the number of the last event that was merged."""
        self.forgotten_facts: set[str] = set()
        """Digests of what an owner had forgotten, which no model brings back."""
        self._forgotten_at = ""
        self._derived = Derived()

    def is_forgotten(self, content: str) -> bool:
        """Whether the owner had this fact forgotten."""
        return bool(self.forgotten_facts) and not self.forgotten_facts.isdisjoint(fact_digests(content))

    def was_erased_during(self, turn: str) -> bool:
        """Whether everything was deleted after this turn began, its beginning included."""
        return self.is_erased and not self.turns.has(turn)

    def forgotten_since(self, turn: str) -> Callable[[str], bool] | None:
        """What decides whether a fact was forgotten while this turn was open, if something was."""
        begun = self.turns.begun.get(turn)
        return self.is_forgotten if begun is not None and begun.at <= self._forgotten_at else None

    @property
    def derived(self) -> Derived:
        """What the derived files show, all records folded."""
        self._derived.fold_waiting()
        return self._derived

    @derived.setter
    def derived(self, rebuilt: Derived) -> None:
        self._derived = rebuilt

    @property
    def documents(self) -> Documents:
        """Versions of the context document."""
        return self._derived.documents

    @property
    def summaries(self) -> Summaries:
        """Summaries that a model wrote."""
        return self._derived.summaries

    @property
    def children(self) -> Children:
        return self._derived.children

    @property
    def compliance(self) -> Compliance:
        """How often replies ended with the snapshot that was due."""
        return self._derived.compliance

    @property
    def ended_at(self) -> str:
        """The time the session ended; empty if it was resumed since."""
        return self._derived.ended_at

    def take(self, stream: str, record: Record, whole: Callable[[Record], Record]) -> bool:
        """Fold the next record of a stream; `whole` resolves a content that is stored as a blob.

        Return False for a malformed record, which is skipped.
        """
        self.sequence[stream] = next_number(record, self.sequence[stream])
        try:
            if stream == "messages":
                self._take_message(record, whole)
            else:
                self._take_event(record)
        except MALFORMED:
            logger.exception("skipped a malformed record of %s", stream)
            return False
        return True

    def next_runtime(self, round: int, now: datetime) -> Runtime:
        """The runtime fields of a turn in `round`: those of an earlier turn in the same round, if there was one."""
        if self.runtime is None:
            return Runtime(round, timestamp(now), timestamp(now))
        if self.runtime.round == round:
            return self.runtime
        last = datetime.fromisoformat(self.runtime.datetime)
        then = now if now > last else _moment_after(last, now, datetime.fromisoformat(self.runtime.startup_at))
        return Runtime(round, timestamp(then), self.runtime.startup_at)

    def _take_message(self, record: Record, whole: Callable[[Record], Record]) -> None:
        control: Record = record.get("ctx") or {}
        if not isinstance(control, dict):
            raise TypeError("the control data is no object")
        message = message_in(record if control.get("blob") is None else whole(record))
        at, turn = self.sequence["messages"], turn_in(record)
        said = str(control.get("digest") or "")
        if not said.isalnum():
            said = digest(message)
        self.origins.add(at, self._origin(message, control))
        if "purged" in control:
            self.purged.add(turn)
            message = placeholder(message)
        self._derived.take_message(at, message, said, record)
        if message.role == "system":
            self._take_system(said, turn)
            return
        if control.get("supersedes"):
            self.branch.drop(str(control["supersedes"]))
        id, parent = str(control.get("id") or ""), control.get("parent") or ""
        self.branch.add(LoggedMessage(at, message, tokens_in(record)), said, id, parent)
        self.turns.take_answer(turn, control)
        self.last_turn = turn
        self.round = max(self.round, int(control.get("round") or 0))
        self.answered = message.role == "assistant"

    def _origin(self, message: Message, control: Record) -> Origin:
        """The origin of a message. A model's message without one may derive from everything before it."""
        own = origin_of(message)
        if message.role != "assistant" or control.get("origin") == own:
            return own
        return least_trusted(own, parse_origin(control.get("origin")) or self.origins.least or own)

    def origin_of(self, messages: Iterable[LoggedMessage]) -> Origin:
        """The least trusted origin of these messages."""
        if self.origins.least is None:  # no message is foreign
            return "user" if any(kept.message.role == "user" for kept in messages) else "assistant"
        numbered = [(kept.number, kept.message) for kept in messages]
        return origin_of_all(numbered, {number: self.origins.of(number) or "" for number, _ in numbered})

    def _take_system(self, said: Digest, turn: str) -> None:
        """Replace the system messages by those of the newest turn."""
        if turn != self._system_turn:
            self.system, self.system_numbers, self._system_turn = [], [], turn
        self.system.append(said)
        self.system_numbers.append(self.sequence["messages"])

    def _take_event(self, event: Record) -> None:
        kind = event.get("type")
        if kind == "start":
            self._take_start(event)
        elif kind == "done":
            self.turns.take(event)
            tokens_in, tokens_out = totals_in(event.get("usage"))
            self.tokens_in += tokens_in or 0
            self.tokens_out += tokens_out or 0
        elif kind in OPERATING and "operations" in event:
            self._take_operations(kind, event)
        elif kind in MISSING_CLASSES:
            self.missing = missing_after(self.missing, event)
        else:
            self._take_other(kind, event)
        if kind in _CONNECTING:
            self._take_connection(kind, event, event.get("ctx") or {})
        self._derived.take_event(event, self.memory, self.sequence["events"])

    def _take_start(self, event: Record) -> None:
        runtime, control = Runtime(**event["runtime"]), event.get("ctx") or {}
        self._go_by(event.get("rules"))
        self.round = max(self.round, runtime.round)
        self.runtime = runtime
        self.began = int(event.get("began") or 0)
        self.moves += self.memory.advance(runtime.round)
        if "owners" in control:
            self._take_connection("start", event, control)
        self.turns.take(event)
        self._take_pack(event)

    def _take_operations(self, kind: str, event: Record) -> None:
        operations = [Operation(**operation) for operation in event["operations"]]
        self.moves += self.memory.apply(operations, int(event.get("round") or self.round))
        self.memory.capabilities = list(event.get("capabilities", self.memory.capabilities))
        self.memory.active_task = str(event.get("active_task", self.memory.active_task))
        if kind == "snapshot":
            self.state_origin = parse_origin(event.get("origin")) or _foreign_in(operations) or "assistant"

    def _take_other(self, kind: Any, event: Record) -> None:
        """Fold an event that few turns have."""
        if kind == "evolution":
            logged = [TierMove(**move) for move in event["moves"]]
            self.moves = [move for move in self.moves if move not in logged]
        elif kind == "delta":
            self.turns.take(event)
        elif kind == "repack":
            self._take_pack(event)
        elif kind == "purge" and event.get("reason") == EVERYTHING:
            self.is_erased = True
        elif kind == "working_set" and event.get("granted") is True and event.get("by") == "model":
            self._take_file(str(event["path"]), event)

    def _take_connection(self, kind: str, event: Record, control: Record) -> None:
        """Fold what connects a session with its owners."""
        if "owners" in control:
            self.owners |= control["owners"]
            for owner, merged in control["merged"].items():
                waiting = self.contributions.pop(owner, [])
                self.contributions[owner] = [each for each in waiting if each[0] > merged]
        elif kind == "contribution":
            owner = owner_kind(control["owner"][0])
            self.contributions.setdefault(owner, []).append((self.sequence["events"], event))
        elif "from" in control:
            *session, number = control["from"]
            self.members[tuple(session)] = max(number, self.members.get(tuple(session), 0))
            self._go_by(event.get("rules"))
        elif kind == "forget" and control.get("facts"):
            self.forgotten_facts |= set(control["facts"])
            self._forgotten_at = str(control.get("time") or "")

    def _take_pack(self, event: Record) -> None:
        """Record the prefix of a request, and the epoch if a new one began."""
        if "sent" in event:
            same = self.pack if self.pack and self.pack["run"] == event["run"] else {}
            self.pack = {**same, **event}
        if "prefix" in event:
            self.prefix = injection.from_json(event["prefix"])
            self._derived.take_window(self.prefix.messages)
            self.outputs = tuple(map(str, event.get("outputs") or ()))
        if "epoch" in event:
            self.epoch = parse_epoch(event["epoch"])

    def _take_file(self, path: str, event: Record) -> None:
        """A grant without a priority removes the file, though the operator's manifest may still list it."""
        before = self.files.pop(path, {})
        fields = {name: event[name] for name in _FILE if name in event}
        if "priority" in fields:
            before = {} if "removed" in before else before
            self.files[path] = {"turn": int(event["round"]), **before, **fields}
        else:
            self.files[path] = {"removed": True, **fields}
        while len(self.files) > _FILES:
            self.files.pop(next(iter(self.files)))

    def _go_by(self, rules: Record | None) -> None:
        """Switch to the memory rules that a turn recorded."""
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
            "owners": self.owners,
            "is_erased": self.is_erased,
            "tokens": [self.tokens_in, self.tokens_out],
            "contributions": self.contributions,
            "members": [[*session, number] for session, number in self.members.items()],
            "forgotten_facts": sorted(self.forgotten_facts),
            "forgotten_at": self._forgotten_at,
            "derived": self.derived.as_json(),
        }

    def restore(self, known: Record) -> None:
        """Restore what `as_json` returned; raise ValueError for another format."""
        if known["format"] != _FORMAT:
            raise ValueError(f"checkpoint format {known['format']!r}")
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
        self.owners, self.forgotten_facts = known["owners"], set(known["forgotten_facts"])
        self._forgotten_at = known["forgotten_at"]
        self.is_erased = known["is_erased"]
        self.tokens_in, self.tokens_out = known["tokens"]
        self.contributions = {
            owner: [(number, event) for number, event in waiting] for owner, waiting in known["contributions"].items()
        }
        self.members = {tuple(session): number for *session, number in known["members"]}
        self._derived = Derived.from_json(known["derived"])


def _foreign_in(operations: Iterable[Operation]) -> Origin | None:
    return least_trusted_foreign(str((each.item or {}).get("origin")) for each in operations)


def _moment_after(last: datetime, now: datetime, began: datetime) -> datetime:
    """The time of a turn after `last` where the clock says no later one: a little later, unless `last` is far ahead.

    A clock before the session's start is wrong and is ignored.
    """
    if last - now > _FAR and now >= began:
        return now
    return last + min(_STEP, datetime.max.replace(tzinfo=UTC) - last)
