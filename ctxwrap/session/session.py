"""One session: its log, the state folded from it, and how turns are appended."""

import logging
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import cached_property
from typing import TypeVar

from ctxwrap.callers_list import CallersList
from ctxwrap.errors import StoreError
from ctxwrap.memory.memory import Memory, rules_as_json
from ctxwrap.pack.receipt import session_stage_events
from ctxwrap.pack.selection import Retrieved, search_text
from ctxwrap.redaction import Redaction
from ctxwrap.retrieval.selection import Passage
from ctxwrap.session import blobs
from ctxwrap.session.branch import size_of
from ctxwrap.session.clock import clock_of, new_turn_id, reproducible_turn_id
from ctxwrap.session.derived import COUNTING, DERIVED, is_derived
from ctxwrap.session.inputs import Inputs
from ctxwrap.session.open_turns import LATE, OWN, PRESUMED, OpenTurn, answer_id
from ctxwrap.session.opening import opening_of, recalled_by, rounds_of
from ctxwrap.session.pack_archive import PackArchive
from ctxwrap.session.queue import TurnQueue, turn_queue
from ctxwrap.session.redaction import EventRedaction as Forgetting
from ctxwrap.session.redaction import unanswered, without_facts
from ctxwrap.session.search import Embedding, Retriever, embedding_for
from ctxwrap.session.state import SessionState
from ctxwrap.session.threads import defer_finalizers
from ctxwrap.settings import Settings
from ctxwrap.stores.base import STREAMS, Checkpoint, Log, Outdated, RecordChange
from ctxwrap.stores.log_format import as_record, number_in, timestamp
from ctxwrap.types import Body, Message, Operation, Record, Request, SessionKey, TurnInputs

logger = logging.getLogger("ctxwrap")

T = TypeVar("T")

_CHECKPOINT_EVERY = 128
"""A checkpoint is written after this many records, of this process or found in the log; to read them takes 5 ms."""

_INDEX_EVERY = 128
"""The index is saved in the background after this many newly indexed messages; to index them again takes 2 ms."""

_RECENT = 64
"""How many of the newest messages are cached for the index."""

_MOST_OWED = 64

TurnEnd = tuple[Sequence[Record], Sequence[Record], datetime]
"""A turn's last messages and events, and their time."""


class Session:
    """Call everything inside `locked()`, which reads what other processes appended.

    `keeps_all` keeps all of memory, including what was swapped, and reads the log from its start for that. `embedding`
    replaces the model that settings choose. With `derives`, derived files are updated with each append, otherwise by
    `catch_up`.
    """

    def __init__(
        self,
        key: SessionKey,
        log: Log,
        settings: Settings | None = None,
        *,
        keeps_all: bool = False,
        embedding: Embedding | None = None,
        derives: bool = True,
    ) -> None:
        self.key = key
        self._derives = derives
        self.log = log
        self._settings = settings or Settings()
        self.clock = clock_of(self._settings)
        self._rules = rules_as_json(self._settings.memory, evolves=self._settings.evolution == "decay")
        self._keeps_all = keeps_all
        self._embedding = embedding or embedding_for(self._settings)
        self._inputs = Inputs(log.files)
        self.packs = PackArchive(key, log, self.keep, self.whole)
        self._edition = 0
        self._opened = False
        self._unsaved = 0
        self.is_ending = False
        """Whether the end of the session was requested and is not written yet."""
        self._deferred: dict[str, Callable[[], TurnEnd]] = {}
        """Ends of turns that the store could not write yet, by turn."""
        self._begin()

    def _begin(self) -> None:
        """Reset to the state before the first record."""
        self.state = SessionState(self._settings, keeps_all=self._keeps_all)
        self._recent: dict[int, Record] = {}
        """The newest message records, by number."""
        self._unfolded: list[tuple[str, Sequence[Record], RecordChange]] = []
        """What this process appended and `state` does not have yet."""
        self.packs.clear()
        self._callers_list: CallersList | None = None
        """The newest list that a caller sent."""
        self._retriever = self._new_retriever()
        self._positions = dict.fromkeys(STREAMS, 0)
        self._placed = False
        self._is_derived = self._derives
        """Whether derived files have all that was appended to the log and read of it."""

    @cached_property
    def line(self) -> TurnQueue:
        """The session's queue of turns in this process."""
        return turn_queue(self.log.place)

    @property
    def memory(self) -> Memory:
        return self.state.memory

    @property
    def redaction(self) -> Redaction | None:
        return self._settings.redaction

    def with_stages(self, *records: Record) -> list[Record]:
        """Records outside of turns, with their lifecycle events if `evidence="log"`."""
        stages = session_stage_events(records, self.key.session) if self._settings.evidence == "log" else ()
        return [*records, *stages]

    def transaction(self, work: Callable[[], T], undo: Callable[[], None] = lambda: None) -> T:
        """Run `work` inside `locked`, optimistically: if the session changed meanwhile, run it a second time.

        `undo` reverts what the first run left outside of the session.
        """
        try:
            with self.locked(redoable=True):
                return work()
        except Outdated:
            undo()
            with self.locked():
                return work()

    @contextmanager
    def locked(self, *, redoable: bool = False) -> Iterator[None]:
        """Hold the session's lock, read what is new, and sync on exit as `durability` says."""
        sync: Callable[[], None] | None = None
        paid: list[str] = []
        try:
            with self.log.locked(redoable=redoable):
                try:
                    self.refresh()
                    if self.state.turns.begun:
                        self._close_dead_turns()
                    if self._deferred:
                        paid = self._flush_deferred()
                    yield
                finally:
                    sync = self.log.unsynced()
        except Exception:
            raise
        except BaseException:
            self._opened = False  # interrupted between any two steps: read the log again before the next use
            raise
        finally:
            if sync is not None:
                self._wait_for(sync)
                for turn in paid:
                    self._deferred.pop(turn, None)

    def _wait_for(self, sync: Callable[[], None]) -> None:
        try:
            sync()
        except StoreError:
            self._opened = False  # what reached the disk is unknown: read the log again before the next use
            raise

    def sync(self) -> int:
        """Wait until all that was written is on disk; return the last message's number. Call it outside `locked`."""
        with defer_finalizers(), self.locked():
            wait, last = self.log.settled(), self.state.sequence["messages"]
        self._wait_for(wait)
        return last

    def refresh(self) -> None:
        """Read what was appended since the last call, by any process; or everything, if the log was rewritten."""
        edition = self.log.edition()
        if self._opened and edition == self._edition:
            if self._unfolded:
                self._fold_appended()
            if self._read_on():
                self.state.derived.forget_saved()
        else:
            self._opened, self._edition = False, edition
            self._begin()
            self._resume()
            self._unsaved = self._read_on()
            self._opened = True

    def _read_on(self) -> int:
        """Fold new records, and return how many there were."""
        count = 0
        for stream, before in self._positions.items():
            records, position = self.log.read(stream, before)
            if position != before or records:
                self._take(stream, records, self.whole)
                self._positions[stream] = position
                count += len(records)
        return count

    def recognise(self, body: Body, field: str) -> Body:
        """`body` with what is known of its list in `field` from the last call; may be called outside `locked`."""
        known = self._callers_list = CallersList.of(body.get(field), self._callers_list)
        return body if known is None else {**body, field: known}

    def open_turn(self, request: Request, now: datetime) -> TurnInputs:
        """Align the caller's messages with the log and set the runtime fields; write nothing."""
        limit = self._settings.budget_messages
        return opening_of(self.state, self.log, self._inputs, self._new_rules(), request, now, limit)

    def _new_rules(self) -> Record | None:
        """The memory rules of the settings, if the log does not have them yet."""
        if self.state.rules == self._rules:
            return None
        self.memory.govern(self._settings.memory, evolves=self._settings.evolution == "decay")
        return self._rules

    @property
    def edition(self) -> int:
        """The edition of the log as it was last read."""
        return self._edition

    @property
    def is_known(self) -> bool:
        """Whether the log has been read; may be called outside `locked`."""
        return self._opened

    def check_quotas(self, new: Iterable[Message]) -> None:
        """Raise QuotaExceeded if these messages and an answer exceed the session's quota."""
        quotas, known = self._settings.quotas, self.state.derived.collected
        if quotas is not None:
            quotas.check_entries(known.entries, known.characters, _lengths(new))

    @property
    def is_empty(self) -> bool:
        """Whether the log is empty."""
        return not any(self.state.sequence.values())

    @property
    def next_message(self) -> int:
        """The number of the next message."""
        return self.state.sequence["messages"] + 1

    def new_turn_id(self) -> str:
        if self._settings.clock is None:
            return new_turn_id()
        return reproducible_turn_id(self.clock(), self.key, self.state.sequence["events"])

    def append(
        self,
        turn: str,
        messages: Sequence[Record],
        events: Sequence[Record],
        now: datetime,
        *,
        part: str = "",
        is_edge: bool = True,
        folds_later: bool = False,
    ) -> None:
        """Append a part of a turn, numbered and dated: its opening (`o`), its end (`c`) or another one.

        The opening and the end are written once, however often this is called; an end that another process presumed
        does not count. With `is_edge`, `durability="turn"` waits for the disk. With `folds_later`, `state` has the
        records only when the session is locked again.
        """
        if (part == "o" and self.state.turns.has(turn)) or (part == OWN and self.state.turns.is_over(turn)):
            return
        if not messages and not events:
            return
        if part == OWN:
            part = self.state.turns.part_of_end(turn)
            messages = self._unwritten(turn, part, messages)
        self._append(turn, messages, events, now, part=part, is_edge=is_edge, folds_later=folds_later)

    def _unwritten(self, turn: str, part: str, messages: Sequence[Record]) -> Sequence[Record]:
        """The turn's last messages that are not in the log yet; a late answer names the one it supersedes."""
        if self.state.turns.answered(turn, part):
            return ()
        if part != LATE:
            return messages
        return [{**record, "ctx": {**record["ctx"], "supersedes": answer_id(turn)}} for record in messages]

    def _append(
        self,
        turn: str,
        messages: Sequence[Record],
        events: Sequence[Record],
        now: datetime,
        *,
        part: str,
        is_edge: bool,
        folds_later: bool = False,
    ) -> None:
        durability, time = self._settings.durability, timestamp(now)
        lasting = durability == "always" or (is_edge and durability == "turn")
        whole = self.numbered("messages", turn, part, messages, time)
        said = [blobs.externalise(record, self.log.files, lasting=lasting) for record in whole]
        happened = self._allowed(turn, self.numbered("events", turn, part, events, time))
        for event in happened:
            if event.get("type") in COUNTING:  # derived files depend on the number of messages
                event["ctx"]["messages"] = self.state.sequence["messages"] + len(whole)
        self._positions |= self.log.append({"messages": said, "events": happened}, lasting=lasting)
        self._unfolded.append(("messages", said, lambda apart: _one_of(whole, said, apart)))
        self._unfolded.append(("events", happened, self.whole))
        self._unsaved += len(said) + len(happened)
        self._is_derived = self._derives
        if not folds_later or self._derives:
            self._fold_appended()
        if self._derives:
            self._derive()

    def _fold_appended(self) -> None:
        """Fold what this process appended."""
        appended, self._unfolded = self._unfolded, []
        for stream, records, whole in appended:
            self._take(stream, records, whole)

    def catch_up(self) -> None:
        """Bring derived files up to date, unless they are, as after every append of a session that `derives`."""
        if not self._is_derived:
            with defer_finalizers():
                self.transaction(self.derive)
        if self._settings.embedder is not None:
            self._retriever.embed(self.next_message, self.transaction)

    def derive(self) -> None:
        """Bring derived files up to date; call it inside `locked`."""
        if not self._derives:
            self._derive()
            self._retriever.save(_INDEX_EVERY)

    def keep(self, data: bytes) -> Record:
        """Store a content once, and return the reference for a record."""
        return blobs.stored(data, self.log.files, "bytes", lasting=self._settings.durability != "os")

    def records(self, stream: str) -> list[Record]:
        """All records of a stream, with their contents."""
        return [self.whole(record) for record in self.log.read(stream)[0]]

    def messages(self, first: int, last: int) -> list[Record]:
        """The messages from `first` to `last`, inclusive, with their contents."""
        return [self.whole(record) for record in self.log.between("messages", first, last)]

    def retrieve(self, query: str, below: int, budget: int, count: Callable[[str], int]) -> Retrieved:
        """Passages about a query from messages before number `below`; nothing if retrieval fails."""
        try:
            end, left = self.next_message, self.state.branch.left
            found = self._retriever.find(query, min(below, end), budget, count, left, end)
            if self.state.origins.least is None:  # no message is foreign
                return found
            return Retrieved(tuple(map(self._with_origin, found.chosen)), tuple(map(self._with_origin, found.missed)))
        except Outdated:
            raise
        except Exception as error:
            logger.warning("session %r: retrieval failed, nothing is retrieved: %r", self.key.session, error)
            self._retriever = self._new_retriever()
            return Retrieved()

    def recall(self, found: Sequence[Passage], round: int) -> tuple[Operation, ...]:
        """What brings back the swap items that were learned from passages that were found."""
        return recalled_by(self.state, found, round)

    def prepare_search(self, request: Request) -> None:
        """Embed the question of a request with the application's model, before the session is locked."""
        if not self._settings.retrieval or not self._opened:
            return
        asked = next((message.text for message in reversed(request.messages) if message.role == "user"), "")
        try:
            embedder = self._embedding()
            if embedder is not None and asked:
                embedder([search_text(asked, self.memory.active_task)])
        except Exception as error:
            logger.warning("session %r: the question was not embedded: %r", self.key.session, error)

    def _with_origin(self, passage: Passage) -> Passage:
        origin = self.state.origins.of(passage.number)
        return passage._replace(origin=origin) if origin else passage

    def search(self, query: str, limit: int) -> list[Passage]:
        """The messages that match a query best, best first, each with its best passage."""
        try:
            return self._retriever.search(query, self.next_message, limit, self.state.branch.left)
        except BaseException:
            self._retriever = self._new_retriever()
            raise

    def _allowed(self, turn: str, events: list[Record]) -> list[Record]:
        """The events without what was forgotten or purged while their turn was open."""
        is_purged = turn in self.state.purged
        if not is_purged and not self.memory.forgotten:
            return events
        forgotten = frozenset(self.memory.forgotten)
        open_turn = Forgetting(ids=forgotten, trailers=frozenset({turn}), choices=frozenset({turn}))
        if is_purged:
            return [open_turn.event(unanswered(event)) for event in events]
        is_forgotten = self.state.forgotten_since(turn)
        if is_forgotten is None:
            return list(map(Forgetting(ids=forgotten).event, events))
        return [without_facts(open_turn.event(event), is_forgotten) for event in events]

    def numbered(self, stream: str, turn: str, part: str, records: Iterable[Record], time: str) -> list[Record]:
        """The records with their control data; the ids of a named part are the same when it is written again."""
        number, head = self.state.sequence[stream], f"{turn}-{part}{'e' if stream == 'events' else ''}"
        named = {"turn": turn, "time": time} if "-" in turn else {"time": time}
        numbered = []
        for at, record in enumerate(records):
            number += 1
            control = {"v": 1, "seq": number, "id": f"{head}{at if part else number}", **named, **record["ctx"]}
            numbered.append({**record, "ctx": control})
        return numbered

    def defer_write(self, turn: str, end: Callable[[], TurnEnd]) -> None:
        """Write the end of a turn, which the store refused, before the next write."""
        if len(self._deferred) < _MOST_OWED:
            self._deferred[turn] = end

    def _flush_deferred(self) -> list[str]:
        """Write deferred ends; return the turns that are done once the disk has them."""
        paid = []
        for turn, end in list(self._deferred.items()):
            try:
                messages, events, now = end()
                self.append(turn, messages, events, now, part=OWN)
            except StoreError:
                break
            except Exception:
                logger.exception("session %r: lost the end of a turn", self.key.session)
            paid.append(turn)
        return paid

    def _close_dead_turns(self) -> None:
        """Close turns whose process died, with the part of their answer that is known."""
        for turn, begun in list(self.state.turns.begun.items()):
            if begun.writer and begun.writer != self.log.writer and not self.log.is_alive(begun.writer):
                self._close_dead_turn(turn, begun)

    def _close_dead_turn(self, turn: str, begun: OpenTurn) -> None:
        """If the answer is already in the log, only the missing events are written."""
        control = {"round": begun.round, "status": "aborted", "reason": PRESUMED, "origin": begun.origin}
        known, is_newest = self.state.turns.answered(turn), self.state.last_turn == turn
        says = begun.said and is_newest and not known
        messages = [as_record(Message("assistant", begun.said), **control)] if says else []
        status = "ok" if known == "complete" else "cancelled"
        done = {"type": "done", "run": turn, "status": status, "reason": PRESUMED, "ctx": {}}
        self._append(turn, messages, [done], datetime.fromisoformat(begun.at), part=OWN, is_edge=True)

    def rounds(self, new: Sequence[Message]) -> list[int]:
        """The round of each new message."""
        return rounds_of(self.state, new)

    def _take(self, stream: str, records: Sequence[Record], whole: RecordChange) -> None:
        for record in records:
            self.state.take(stream, record, whole)
            if stream == "messages" and (number := number_in(record)):
                self._recent[number] = record
                if len(self._recent) > _RECENT:
                    self._recent.pop(next(iter(self._recent)))
        self._is_derived = self._derives

    def _new_retriever(self) -> Retriever:
        return Retriever(self.log, self._embedding, self.pick, self.clock)

    def pick(self, numbers: Iterable[int]) -> dict[int, Record]:
        """The messages of these numbers; the newest are cached."""
        numbers, recent = list(numbers), self._recent
        known = {number: recent[number] for number in numbers if number in recent}
        if len(known) == len(numbers):
            return known
        others = [number for number in numbers if number not in recent]
        return {**self.log.pick("messages", others), **known} if others else known

    def whole(self, record: Record) -> Record:
        try:
            return blobs.inline(record, self.log.files)
        except LookupError as error:
            logger.error("session %r: %s", self.key.session, error)  # noqa: TRY400  # the traceback adds nothing
            return record

    def _derive(self) -> None:
        """Update derived files; a failure is logged, since they can be rebuilt."""
        try:
            if not self._placed:
                self.log.files.save("cwd", _working_directory())
                self._placed = True
            if not self.state.derived.save(self.log.files, self.memory, self.state.turns.state):
                self.rebuild()
            elif self.state.turns.state != "active":
                self.packs.show(self.state)
            self._is_derived = True
        except Outdated:
            raise
        except Exception as error:
            logger.debug("session %r: derived files are not up to date: %r", self.key.session, error)
        if self._unsaved >= _CHECKPOINT_EVERY:
            self._save()

    def rebuild(self) -> list[str]:
        """Rebuild all derived files, inside `locked`; return paths that were in their way and were not files."""
        fresh = Session(self.key, self.log, self._settings)
        fresh._read_on()
        self.remove_derived()
        strays = [stray for name in DERIVED for stray in self.log.files.remove_strays(name, is_derived)]
        for link in (stray for stray in strays if not stray.endswith("/")):
            logger.warning("session %r: removed %s, which was not a file of the session", self.key.session, link)
        fresh.state.derived.save(self.log.files, fresh.memory, fresh.state.turns.state)
        fresh.packs.show(fresh.state)
        self.state.derived = fresh.state.derived
        return strays

    def remove_derived(self) -> None:
        for entry in self.log.files.entries():
            if is_derived(entry.name):
                self.log.files.remove(entry.name)

    def _save(self) -> None:
        """Write a checkpoint, so that the next open need not read the whole log."""
        self._unsaved = 0
        try:
            self.log.save_checkpoint(Checkpoint(self._positions, self.state.as_json()))
        except Exception as error:
            logger.debug("session %r: could not write a checkpoint: %r", self.key.session, error)

    def _resume(self) -> None:
        """Start from the checkpoint, or before the first record."""
        try:
            checkpoint = None if self._keeps_all else self.log.load_checkpoint()
            if checkpoint is not None:
                self.state.restore(checkpoint.known)
                self._positions = {stream: checkpoint.positions[stream] for stream in STREAMS}
        except Exception as error:
            logger.debug("session %r: ignored its checkpoint: %r", self.key.session, error)
            self._begin()


def _one_of(whole: Sequence[Record], apart: Sequence[Record], wanted: Record) -> Record:
    """The whole record for one of those whose contents may be stored apart."""
    return next(record for record, each in zip(whole, apart, strict=True) if each is wanted)


def _lengths(new: Iterable[Message]) -> list[int]:
    """The lengths of a turn's messages, and 0 for the answer, whose length is unknown."""
    return [*(size_of(message) for message in new if message.role != "system"), 0]


def _working_directory() -> bytes:
    """The working directory of this process, on one line; the root if it is not printable."""
    try:
        path = os.getcwd()
    except OSError:
        path = "/"
    return os.fsencode(path if path.isprintable() else "/") + b"\n"
