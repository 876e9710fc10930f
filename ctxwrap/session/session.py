"""One session: its log as far as it was read, and how a turn is added to it."""

import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta

from ctxwrap.memory.decay import Move
from ctxwrap.memory.items import Item
from ctxwrap.memory.memory import Memory
from ctxwrap.memory.operations import Circumstances, recall
from ctxwrap.records import message_in, timestamp
from ctxwrap.session.alignment import Alignment, Digest, align, digest
from ctxwrap.session.branch import Branch
from ctxwrap.session.redaction import Redaction, placeholder, unanswered
from ctxwrap.settings import Settings
from ctxwrap.types import Change, Checkpoint, Log, Message, Opening, Operation, Record, Request, Runtime, SessionKey

logger = logging.getLogger("ctxwrap")

_STREAMS = ("messages", "events")

OPERATING = ("snapshot", "recall", "forget")
"""The events whose operations change memory."""

_FORMAT = 3
"""Of what a checkpoint holds; another one whenever that, or how records are read, changes."""

_CHECKPOINT_EVERY = 64
"""After how many records of its own, or left behind by others, a session writes a checkpoint."""


class Session:
    """Call everything inside `locked()`, after `refresh()`; the log may have grown in another process."""

    def __init__(self, key: SessionKey, log: Log, settings: Settings | None = None) -> None:
        self.key = key
        self._settings = settings or Settings()
        self._log = log
        self._edition = 0
        self._opened = False
        self._unsaved = 0
        self._begin()

    def _begin(self) -> None:
        """Before the first record."""
        self.memory = Memory(self._settings.memory, evolves=self._settings.evolution == "decay")
        self._moves: list[Move] = []
        """What moved in memory and is not in the log yet."""
        self._positions = dict.fromkeys(_STREAMS, 0)
        self._sequence = dict.fromkeys(_STREAMS, 0)
        self._branch = Branch()
        self._purged: set[str] = set()
        """The turns of which a message was purged."""
        self._system: list[Digest] = []
        self._system_turn = ""
        self._round = 0
        self._answered = True
        self._runtime: Runtime | None = None

    @contextmanager
    def locked(self) -> Iterator[None]:
        with self._log.locked():
            self.refresh()
            yield

    def refresh(self) -> None:
        """Read what was appended since the last time, here or elsewhere; or everything, if the log was rewritten."""
        edition = self._log.edition()
        if self._opened and edition == self._edition:
            self._read_on()
        else:
            self._opened, self._edition = False, edition
            self._begin()
            self._resume()
            self._unsaved = self._read_on()
            self._opened = True

    def _read_on(self) -> int:
        """Take in what is new; how many records that were."""
        count = 0
        for stream in _STREAMS:
            records, position = self._log.read(stream, self._positions[stream])
            self._take(stream, records, position)
            count += len(records)
        return count

    def open_turn(self, request: Request, now: datetime) -> Opening:
        """Align the caller's messages with the log and fix the runtime fields; writes nothing."""
        system = tuple(message for message in request.messages if message.role == "system")
        spoken = tuple(message for message in request.messages if message.role != "system")
        has_past = _has_past(spoken)
        alignment = self._align(spoken)
        new = spoken[alignment.new :]
        branches = alignment.keep < len(self._branch)
        rounds = self._rounds(new)
        number = rounds[-1] if rounds else max(1, self._round + (branches or self._answered))
        state, moves = self.memory.at(number)
        recalled = self._recalled(new, number)
        for operation in recalled:
            item = Item.from_json(operation.item or {})
            state["memory"][item.tier].append(item.shown(self.memory.faded(item, number)))
        unsaid = len(self._branch) - (alignment.keep - alignment.covered)
        return Opening(
            runtime=self._next_runtime(number, now),
            state=state,
            new=(*((message, number) for message in self._changed_system(system)), *zip(new, rounds, strict=True)),
            history=() if has_past else self._branch.history(unsaid),
            parent=self._branch.id_of(alignment.keep) if branches else "",
            first_message=self.next_message,
            moves=tuple(move._asdict() for move in (*self._moves, *moves)),
            recalled=recalled,
        )

    def _recalled(self, new: Sequence[Message], number: int) -> tuple[Operation, ...]:
        said = "\n".join(message.text for message in new if message.role == "user")
        return recall(self.memory, Circumstances(number, said=said))

    @property
    def is_empty(self) -> bool:
        """Whether the log holds nothing at all."""
        return not any(self._sequence.values())

    @property
    def next_message(self) -> int:
        """The number that the next message gets."""
        return self._sequence["messages"] + 1

    def append(self, turn: str, messages: Sequence[Record], events: Sequence[Record], now: datetime) -> None:
        """Write a turn's messages and events, numbered and dated."""
        given = zip(_STREAMS, (messages, events), strict=True)
        batches = {stream: self._numbered(stream, turn, records, timestamp(now)) for stream, records in given}
        batches["events"] = [*map(self._allowed(turn), batches["events"])]
        for stream, position in self._log.append(batches).items():
            self._take(stream, batches[stream], position)
            self._unsaved += len(batches[stream])
        if self._unsaved >= _CHECKPOINT_EVERY:
            self._save()

    def records(self, stream: str) -> list[Record]:
        """All that a stream holds."""
        return self._log.read(stream)[0]

    def rewrite_events(
        self, change: Change, turn: str, new: Sequence[Record], now: datetime, banned: Sequence[str] = ()
    ) -> None:
        """Change the log's events for good, and add `new` ones that say so, in one step."""
        self._log.rewrite("events", change, self._numbered("events", turn, new, timestamp(now)), banned)
        self.refresh()

    def rewrite_messages(self, change: Change, banned: Sequence[str] = ()) -> None:
        """Change the log's messages for good."""
        self._log.rewrite("messages", change, banned=banned)
        self.refresh()

    def _allowed(self, turn: str) -> Change:
        """What may be written of an event: nothing that was forgotten or purged while its turn was under way."""
        forgotten = frozenset(self.memory.forgotten)
        if turn not in self._purged:
            return Redaction(ids=forgotten).event
        redaction = Redaction(ids=forgotten, trailers=frozenset({turn}), choices=frozenset({turn}))
        return lambda event: redaction.event(unanswered(event))

    def _numbered(self, stream: str, turn: str, records: Iterable[Record], time: str) -> list[Record]:
        first = self._sequence[stream] + 1
        return [
            {**record, "ctx": {"v": 1, "seq": seq, "id": f"{turn}-{seq}", "turn": turn, "time": time, **record["ctx"]}}
            for seq, record in enumerate(records, first)
        ]

    def _align(self, spoken: Sequence[Message]) -> Alignment:
        has_answers = any(message.role == "assistant" for message in spoken)
        given = [digest(message) for message in spoken]
        return align(self._branch.digests, given, has_answers=has_answers, cut=self._branch.is_cut)

    def _rounds(self, new: Sequence[Message]) -> list[int]:
        """The round of each new message: one begins with what a user says, and a tool's result stays in it."""
        current, rounds, before = self._round, [], ""
        for message in new:
            current += (message.role == "user" and before != "user") or not current
            rounds.append(current)
            before = message.role
        return rounds

    def _next_runtime(self, number: int, now: datetime) -> Runtime:
        if self._runtime is None:
            return Runtime(number, timestamp(now), timestamp(now))
        if self._runtime.round == number:
            return self._runtime
        moment = max(now, datetime.fromisoformat(self._runtime.datetime) + timedelta(microseconds=1))
        return Runtime(number, timestamp(moment), self._runtime.startup_at)

    def _changed_system(self, system: Sequence[Message]) -> tuple[Message, ...]:
        """The system messages, if they are not the ones the log saw last."""
        return tuple(system) if [digest(message) for message in system] != self._system else ()

    def _take(self, stream: str, records: Sequence[Record], position: int) -> None:
        for record in records:
            self._sequence[stream] += 1
            try:
                self._take_message(record) if stream == "messages" else self._take_event(record)
            except (AttributeError, KeyError, TypeError, ValueError):
                logger.exception("session %r holds a record that makes no sense; it is passed over", self.key.session)
        self._positions[stream] = position

    def _take_message(self, record: Record) -> None:
        message, control = message_in(record), dict(record.get("ctx") or {})
        number, turn = int(control.get("round") or 0), str(control.get("turn"))
        said = str(control.get("digest") or digest(message))
        if "purged" in control:
            self._purged.add(turn)
            message = placeholder(message)
        if message.role == "system":
            self._take_system(said, turn)
            return
        self._branch.add(message, said, str(control.get("id") or ""), control.get("parent") or "")
        self._round = max(self._round, number)
        self._answered = message.role == "assistant"

    def _take_system(self, said: Digest, turn: str) -> None:
        """A turn's system messages stand together; another turn's take their place."""
        self._system = [*(self._system if turn == self._system_turn else ()), said]
        self._system_turn = turn

    def _take_event(self, event: Record) -> None:
        kind = event.get("type")
        if kind == "start":
            runtime = Runtime(**event["runtime"])
            self._round = max(self._round, runtime.round)
            self._runtime = runtime
            self._moves += self.memory.advance(runtime.round)
        elif kind == "evolution":
            told = [Move(**move) for move in event["moves"]]
            self._moves = [move for move in self._moves if move not in told]
        elif kind in OPERATING and "operations" in event:
            operations = [Operation(**operation) for operation in event["operations"]]
            self._moves += self.memory.apply(operations, int(event.get("round") or self._round))
            self.memory.capabilities = list(event.get("capabilities", self.memory.capabilities))
            self.memory.active_task = str(event.get("active_task", self.memory.active_task))

    def _save(self) -> None:
        """Keep what the log says so far for whoever opens the session next; it can be read from the log as well."""
        self._unsaved = 0
        try:
            self._log.save_checkpoint(Checkpoint(self._positions, self._known()))
        except Exception as error:
            logger.debug("session %r: no checkpoint was written: %r", self.key.session, error)

    def _resume(self) -> None:
        """Begin where a checkpoint stands, or before the first record."""
        try:
            checkpoint = self._log.load_checkpoint()
            if checkpoint is not None:
                self._recall(checkpoint)
        except Exception as error:
            logger.debug("session %r: its checkpoint is passed over: %r", self.key.session, error)
            self._begin()

    def _known(self) -> Record:
        return {
            "format": _FORMAT,
            "sequence": self._sequence,
            "branch": self._branch.as_json(),
            "purged": sorted(self._purged),
            "system": self._system,
            "system_turn": self._system_turn,
            "round": self._round,
            "answered": self._answered,
            "runtime": self._runtime and self._runtime.as_json(),
            "memory": self.memory.as_json(),
            "moves": self._moves,
        }

    def _recall(self, checkpoint: Checkpoint) -> None:
        known = checkpoint.known
        if known["format"] != _FORMAT:
            raise ValueError(f"its format is {known['format']!r}")
        self._positions = {stream: checkpoint.positions[stream] for stream in _STREAMS}
        self._sequence = {stream: known["sequence"][stream] for stream in _STREAMS}
        self._branch = Branch.from_json(known["branch"])
        self._purged = set(known["purged"])
        self._system, self._system_turn = known["system"], known["system_turn"]
        self._round, self._answered = known["round"], known["answered"]
        self._runtime = Runtime(**known["runtime"]) if known["runtime"] else None
        self.memory.restore(known["memory"])
        self._moves = [Move(*move) for move in known["moves"]]


def _has_past(spoken: Sequence[Message]) -> bool:
    """Whether an answer stands before the last thing the user said."""
    last = max((at for at, message in enumerate(spoken) if message.role == "user"), default=len(spoken))
    return any(message.role == "assistant" for message in spoken[:last])
