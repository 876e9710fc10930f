"""One session's streams as rows, and the files beside them."""

import logging
import os
import threading
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from ctxwrap.errors import StoreError
from ctxwrap.stores.base import CACHE, STREAMS, Checkpoint, RecordChange, StreamLine
from ctxwrap.stores.checksums import change_line, contains_any, decode_line, encode_line, encoded, spellings_of
from ctxwrap.stores.names import safe_name
from ctxwrap.stores.postgres import statements as sql
from ctxwrap.stores.postgres.cache import (
    Batch,
    KnownFiles,
    LastRecord,
    SessionCache,
    empty_batch,
)
from ctxwrap.stores.postgres.connection import Database, Rows, SqlStatement
from ctxwrap.stores.postgres.files import PostgresFiles
from ctxwrap.stores.postgres.heartbeat import Heartbeat, Lease
from ctxwrap.stores.postgres.transaction import SessionTransaction
from ctxwrap.types import Record, SessionKey

logger = logging.getLogger("ctxwrap")

_AT_A_TIME = 500
"""So many lines are looked at in one go."""


class Sections(threading.local):
    """Those that a thread is in, by session."""

    def __init__(self) -> None:
        self.open: dict[SessionKey, SessionTransaction] = {}


class PostgresLog:
    def __init__(self, store: object, server: Database, key: SessionKey, life: Heartbeat, sections: Sections) -> None:
        self._store = store  # which is open as long as a log of it is in use
        self._server, self._key, self._life, self._sections = server, key, life, sections
        self._meta = encoded(key._asdict())
        self._scope = dict(zip(("tenant", "agent", "session"), map(safe_name, key), strict=True))
        self._locks: dict[int, threading.Lock] = {}
        """By process. Of the threads that want the session's row, one at a time gets a connection for that."""
        self._known = SessionCache()
        self._reported: set[tuple[str, int]] = set()
        self.files = PostgresFiles(self._bound, self._ask_as_usual, self._known_files, self._writing)

    @property
    def place(self) -> tuple[Hashable, ...]:
        return self._server.identity, *self._scope.values()

    def _bound(self, statement: str, **values: object) -> SqlStatement:
        """The one place where a statement gets whose data it is about."""
        return SqlStatement(statement, {**values, **self._scope})

    # sections

    @contextmanager
    def locked(self, *, redoable: bool = False) -> Iterator[None]:
        with self._locks.setdefault(os.getpid(), threading.Lock()):
            section = SessionTransaction(self._server, self._bound, self._meta, self._known, redoable=redoable)
            is_continued = section.begin()
            self._sections.open[self._key] = section
            try:
                if not is_continued:
                    self._begin_edition(section)
                yield
            finally:
                self._sections.open.pop(self._key, None)
                section.end()

    @property
    def _section(self) -> SessionTransaction | None:
        """The one that this thread is in, whoever opened it."""
        section = self._sections.open.get(self._key)
        return section if section is not None and section.is_mine else None

    def _known_files(self) -> KnownFiles | None:
        return self._section.known.files if self._section is not None else None

    @contextmanager
    def _writing(self) -> Iterator[SessionTransaction]:
        """The section that this thread is in, or one for this moment."""
        if self._section is not None:
            yield self._section
            return
        with self.locked():
            assert self._section is not None
            yield self._section

    def _ask(self, statement: SqlStatement) -> Rows:
        section = self._section
        return self._server.ask(statement)[0] if section is None else section.ask(statement)

    def _ask_as_usual(self, statement: SqlStatement) -> Rows:
        section = self._section
        return self._server.ask(statement)[0] if section is None else section.ask_as_usual(statement)

    # streams

    def edition(self) -> int:
        if self._section is not None:
            return self._section.row.edition
        found = self._ask(self._bound(sql.EDITION))
        return int(found[0][0]) if found else 0

    def read(self, stream: str, after: int = 0) -> tuple[list[Record], int]:
        section = self._section
        if section is not None:
            return self._read_in(section, stream, after)
        rows = self._ask(self._bound(sql.READ, stream=stream, after=after))
        return self._records(stream, rows), int(rows[-1][0]) if rows else self._end_of(stream, after)

    def _read_in(self, section: SessionTransaction, stream: str, after: int) -> tuple[list[Record], int]:
        """What came with the section's beginning, if that is what is asked for and nothing was added since."""
        end = section.row.ends[stream]
        if not end:
            section.known.seen[stream] = LastRecord(0, b"")
        if after >= end:
            return [], end
        known, rows = section.known.fresh.get(stream, (-1, []))
        if known != after or end != section.base.ends[stream]:
            rows = self._ask(self._bound(sql.READ_ON, stream=stream, after=after))
        section.known.seen[stream] = LastRecord(*rows[-1][:2])
        return self._records(stream, [(position, body) for position, _, body in rows if position > after]), end

    def _end_of(self, stream: str, after: int) -> int:
        """Where a stream ends that had nothing behind a position; what came since is behind it."""
        found = self._ask(self._bound(sql.ENDS)) if after else []
        ends: dict[str, int] = dict(zip(STREAMS, found[0], strict=True)) if found else {}
        return min(after, ends.get(stream, 0))

    def between(self, stream: str, first: int, last: int) -> list[Record]:
        first, last = max(first, 0), min(last, 1 << 62)
        return self._records(stream, self._ask(self._bound(sql.BETWEEN, stream=stream, first=first, last=last)))

    def pick(self, stream: str, numbers: Iterable[int]) -> dict[int, Record]:
        wanted = sorted({number for number in numbers if 0 < number < 1 << 62})
        found = self._ask(self._bound(sql.PICK, stream=stream, numbers=wanted)) if wanted else []
        records = {number: decode_line(body) for number, body in sorted(found)}
        return {number: record for number, record in records.items() if record is not None}

    def lines(self, stream: str) -> Iterator[StreamLine]:
        before = 0
        while rows := self._ask(self._bound(sql.READ_SOME, stream=stream, after=before, most=_AT_A_TIME)):
            for position, body in rows:
                record = decode_line(body)
                fault = "" if record is not None else "its checksum is wrong"
                missing = "the line before it is missing" if position != before + 1 else ""
                yield StreamLine(position, position - 1, position, record, fault or missing)
                before = position

    def append(self, batches: Mapping[str, Sequence[Record]], *, lasting: bool = False) -> dict[str, int]:
        """Every commit lasts as the database's own settings say, whether that is asked for or not."""
        section = self._section
        assert section is not None, "records are written inside `locked`"
        row = section.row
        batch, ends = empty_batch(), {}
        for stream, records in batches.items():
            if records:
                lines = [(record, encode_line(record)) for record in records]
                batch.add(stream, lines, row.ends[stream], row.numbers[stream])
                section.adds(stream, row.ends[stream] + 1)
                self._place(section, stream, *batch.last)
                ends[stream] = batch.last[0]
        self._insert(section, batch)
        return ends

    def _insert(self, section: SessionTransaction, batch: Batch) -> None:
        if batch.pos:
            section.write(self._bound(sql.INSERT_RECORDS, token=section.token, **batch._asdict()))

    def _place(self, section: SessionTransaction, stream: str, position: int, number: int) -> None:
        """That a stream ends there."""
        row = section.row
        section.row = row._replace(ends={**row.ends, stream: position}, numbers={**row.numbers, stream: number})
        section.known.seen[stream] = LastRecord(position, section.token)

    def unsynced(self) -> Callable[[], None]:
        """What was committed is on the medium; whether it was is what there is to wait for."""
        section = self._section
        return section.check if section is not None else lambda: None

    def settled(self) -> Callable[[], None]:
        return self.unsynced()

    def rewrite(
        self, stream: str, change: RecordChange, new: Sequence[Record] = (), banned: Sequence[str] = ()
    ) -> None:
        section = self._section
        assert section is not None, "streams are rewritten inside `locked`"
        rows = self._ask(self._bound(sql.READ, stream=stream, after=0))
        known, spellings = [(decode_line(body), bytes(body)) for _, body in rows], spellings_of(banned)
        lines = [
            _changed(record, body, change) for record, body in known if record or not contains_any(body, spellings)
        ]
        batch = empty_batch()
        batch.add(stream, [*lines, *((record, encode_line(record)) for record in new)], 0, 0)
        self._begin_edition(section)
        section.write(self._bound(sql.DELETE_RECORDS, stream=stream))
        self._insert(section, batch)
        self._place(section, stream, *(batch.last if batch.pos else (0, 0)))

    def _begin_edition(self, section: SessionTransaction) -> None:
        """Tell everybody who has read this log that it is another, and let go of what was made of it."""
        self.files.clear(CACHE)
        section.write(self._bound(sql.DELETE_CHECKPOINT))
        section.row = section.row._replace(edition=section.row.edition + 1)
        section.known.begin_edition(section.row.edition)

    # turns

    def lease(self) -> Callable[[], None] | None:
        if self._section is None and not self._lease_is_free():
            return None
        with self._writing() as section:
            lease = self._life.lease(self._bound, section)
        if lease is None:
            return None
        self._known.has_turn = True
        return partial(self._give_back, lease)

    def _give_back(self, lease: Lease) -> None:
        self._known.has_turn = False
        self._life.give_back(lease, self._section)

    def _lease_is_free(self) -> bool:
        """Before the session's row is taken for it."""
        return all(is_over for _, is_over in self._ask(self._bound(sql.LEASE)))

    @property
    def writer(self) -> str:
        return self._life.name(self._ask)

    def is_alive(self, writer: str) -> bool:
        return writer.isalnum() and bool(self._ask(SqlStatement(sql.IS_ALIVE, {"name": writer})))

    # checkpoints

    def load_checkpoint(self) -> Checkpoint | None:
        try:
            found = self._ask(self._bound(sql.LOAD_CHECKPOINT))
            return self._checkpoint_in(found[0]) if found else None
        except StoreError:
            raise
        except Exception as error:
            logger.debug("session %r: the checkpoint cannot be read: %r", self._key.session, error)
            return None

    def _checkpoint_in(self, row: tuple[Any, ...]) -> Checkpoint | None:
        body, edition, *found = row
        record, section = decode_line(body), self._section
        ends: Mapping[str, int] = dict(zip(STREAMS, found, strict=True))
        if section is not None:
            edition, ends = section.row.edition, section.row.ends
        if (
            record is None
            or record["edition"] != edition
            or any(at > ends[name] for name, at in record["positions"].items())
        ):
            logger.debug("session %r: the checkpoint is not one of its log", self._key.session)
            return None
        return Checkpoint(record["positions"], record["known"])

    def save_checkpoint(self, checkpoint: Checkpoint) -> None:
        with self._writing() as section:
            known = {"positions": dict(checkpoint.positions), "known": checkpoint.known}
            line = encode_line({**known, "edition": section.row.edition, "ctx": {"v": 1}})
            section.write(self._bound(sql.SAVE_CHECKPOINT, body=line))

    def _records(self, stream: str, rows: Rows) -> list[Record]:
        found = []
        for position, body in rows:
            record = decode_line(body)
            if record is not None:
                found.append(record)
            elif (stream, position) not in self._reported:
                self._reported.add((stream, position))
                logger.error("session %r: record %d of %s is damaged", self._key.session, position, stream)
        return found


def _changed(record: Record | None, body: bytes, change: RecordChange) -> tuple[Record | None, bytes]:
    if record is None:
        return None, body
    after = change(record)
    return after, change_line(body, record, after)
