"""One session's streams as rows, and its transactions, leases and checkpoints."""

import logging
import os
import threading
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from ctxwrap.encoding import encode_json
from ctxwrap.errors import StoreError
from ctxwrap.stores.base import CACHE, STREAMS, Checkpoint, RecordChange, StreamLine
from ctxwrap.stores.log_format import change_line, contains_any, decode_line, encode_line, spellings_of
from ctxwrap.stores.names import safe_name
from ctxwrap.stores.postgres import statements as sql
from ctxwrap.stores.postgres.cache import Batch, KnownFiles, LastRecord, SessionCache, empty_batch
from ctxwrap.stores.postgres.connection import Database, Rows, SqlStatement
from ctxwrap.stores.postgres.files import PostgresFiles
from ctxwrap.stores.postgres.heartbeat import Heartbeat, Lease
from ctxwrap.stores.postgres.transaction import SessionTransaction
from ctxwrap.types import Record, SessionKey

logger = logging.getLogger("ctxwrap")

_AT_A_TIME = 500
"""How many lines are fetched at once."""


class OpenTransactions(threading.local):
    """The open transactions of each thread, by session."""

    def __init__(self) -> None:
        self.open: dict[SessionKey, SessionTransaction] = {}


class PostgresLog:
    def __init__(
        self, store: object, server: Database, key: SessionKey, heartbeat: Heartbeat, transactions: OpenTransactions
    ) -> None:
        self._store = store  # keeps the store open while its logs are in use
        self._server, self._key, self._heartbeat, self._transactions = server, key, heartbeat, transactions
        self._meta = encode_json(key._asdict())
        self._scope = dict(zip(("tenant", "agent", "session"), map(safe_name, key), strict=True))
        self._locks: dict[int, threading.Lock] = {}
        """By process id. Only one thread at a time takes a connection to wait for the session's row."""
        self._known = SessionCache()
        self._reported: set[tuple[str, int]] = set()
        self.files = PostgresFiles(self._bind, self._ask_prefetched, self._known_files, self._writing)

    @property
    def place(self) -> tuple[Hashable, ...]:
        return self._server.identity, *self._scope.values()

    def _bind(self, statement: str, **values: object) -> SqlStatement:
        """A statement about this session: the only place where tenant, agent and session are added."""
        return SqlStatement(statement, {**values, **self._scope})

    # transactions

    @contextmanager
    def locked(self, *, redoable: bool = False) -> Iterator[None]:
        with self._locks.setdefault(os.getpid(), threading.Lock()):
            transaction = SessionTransaction(self._server, self._bind, self._meta, self._known, redoable=redoable)
            is_continued = transaction.begin()
            self._transactions.open[self._key] = transaction
            try:
                if not is_continued:
                    self._begin_edition(transaction)
                yield
            finally:
                self._transactions.open.pop(self._key, None)
                transaction.end()

    @property
    def _transaction(self) -> SessionTransaction | None:
        """The transaction of this thread, whichever log opened it."""
        transaction = self._transactions.open.get(self._key)
        return transaction if transaction is not None and transaction.is_of_this_process else None

    def _known_files(self) -> KnownFiles | None:
        return self._transaction.known.files if self._transaction is not None else None

    @contextmanager
    def _writing(self) -> Iterator[SessionTransaction]:
        """The transaction of this thread, or a new one."""
        if self._transaction is not None:
            yield self._transaction
            return
        with self.locked():
            assert self._transaction is not None
            yield self._transaction

    def _ask(self, statement: SqlStatement) -> Rows:
        transaction = self._transaction
        return self._server.ask(statement)[0] if transaction is None else transaction.ask(statement)

    def _ask_prefetched(self, statement: SqlStatement) -> Rows:
        transaction = self._transaction
        return self._server.ask(statement)[0] if transaction is None else transaction.ask_prefetched(statement)

    # streams

    def edition(self) -> int:
        if self._transaction is not None:
            return self._transaction.row.edition
        found = self._ask(self._bind(sql.EDITION))
        return int(found[0][0]) if found else 0

    def read(self, stream: str, after: int = 0) -> tuple[list[Record], int]:
        transaction = self._transaction
        if transaction is not None:
            return self._read_in(transaction, stream, after)
        rows = self._ask(self._bind(sql.READ, stream=stream, after=after))
        return self._records(stream, rows), int(rows[-1][0]) if rows else self._end_of(stream, after)

    def _read_in(self, transaction: SessionTransaction, stream: str, after: int) -> tuple[list[Record], int]:
        """Use the rows that came with the transaction's beginning, if nothing was added since."""
        end = transaction.row.ends[stream]
        if not end:
            transaction.known.seen[stream] = LastRecord(0, b"")
        if after >= end:
            return [], end
        known, rows = transaction.known.fresh.get(stream, (-1, []))
        if known != after or end != transaction.base.ends[stream]:
            rows = self._ask(self._bind(sql.READ_ON, stream=stream, after=after))
        transaction.known.seen[stream] = LastRecord(*rows[-1][:2])
        return self._records(stream, [(position, body) for position, _, body in rows if position > after]), end

    def _end_of(self, stream: str, after: int) -> int:
        """Where a stream ends that had nothing behind `after`; it may have grown since."""
        found = self._ask(self._bind(sql.ENDS)) if after else []
        ends: dict[str, int] = dict(zip(STREAMS, found[0], strict=True)) if found else {}
        return min(after, ends.get(stream, 0))

    def between(self, stream: str, first: int, last: int) -> list[Record]:
        first, last = max(first, 0), min(last, 1 << 62)
        return self._records(stream, self._ask(self._bind(sql.BETWEEN, stream=stream, first=first, last=last)))

    def pick(self, stream: str, numbers: Iterable[int]) -> dict[int, Record]:
        wanted = sorted({number for number in numbers if 0 < number < 1 << 62})
        found = self._ask(self._bind(sql.PICK, stream=stream, numbers=wanted)) if wanted else []
        records = {number: decode_line(body) for number, body in sorted(found)}
        return {number: record for number, record in records.items() if record is not None}

    def lines(self, stream: str) -> Iterator[StreamLine]:
        before = 0
        while rows := self._ask(self._bind(sql.READ_SOME, stream=stream, after=before, most=_AT_A_TIME)):
            for position, body in rows:
                record = decode_line(body)
                fault = "" if record is not None else "its checksum is wrong"
                missing = "the line before it is missing" if position != before + 1 else ""
                yield StreamLine(position, position - 1, position, record, fault or missing)
                before = position

    def append(self, batches: Mapping[str, Sequence[Record]], *, lasting: bool = False) -> dict[str, int]:
        """The database's settings alone decide how durable a commit is."""
        transaction = self._transaction
        assert transaction is not None, "records are written inside `locked`"
        row = transaction.row
        batch, ends = empty_batch(), {}
        for stream, records in batches.items():
            if records:
                lines = [(record, encode_line(record)) for record in records]
                batch.add(stream, lines, row.ends[stream], row.numbers[stream])
                transaction.adds(stream, row.ends[stream] + 1)
                self._set_end(transaction, stream, *batch.last)
                ends[stream] = batch.last[0]
        self._insert(transaction, batch)
        return ends

    def _insert(self, transaction: SessionTransaction, batch: Batch) -> None:
        if batch.pos:
            transaction.write(self._bind(sql.INSERT_RECORDS, token=transaction.token, **batch._asdict()))

    def _set_end(self, transaction: SessionTransaction, stream: str, position: int, number: int) -> None:
        """Note that a stream ends at that position."""
        row = transaction.row
        transaction.row = row._replace(ends={**row.ends, stream: position}, numbers={**row.numbers, stream: number})
        transaction.known.seen[stream] = LastRecord(position, transaction.token)

    def unsynced(self) -> Callable[[], None]:
        """A commit is durable; what can fail is the commit itself."""
        transaction = self._transaction
        return transaction.check if transaction is not None else lambda: None

    def settled(self) -> Callable[[], None]:
        return self.unsynced()

    def rewrite(
        self, stream: str, change: RecordChange, new: Sequence[Record] = (), banned: Sequence[str] = ()
    ) -> None:
        transaction = self._transaction
        assert transaction is not None, "streams are rewritten inside `locked`"
        rows = self._ask(self._bind(sql.READ, stream=stream, after=0))
        known, spellings = [(decode_line(body), bytes(body)) for _, body in rows], spellings_of(banned)
        lines = [
            _changed(record, body, change) for record, body in known if record or not contains_any(body, spellings)
        ]
        batch = empty_batch()
        batch.add(stream, [*lines, *((record, encode_line(record)) for record in new)], 0, 0)
        self._begin_edition(transaction)
        transaction.write(self._bind(sql.DELETE_RECORDS, stream=stream))
        self._insert(transaction, batch)
        self._set_end(transaction, stream, *(batch.last if batch.pos else (0, 0)))

    def _begin_edition(self, transaction: SessionTransaction) -> None:
        """Tell readers that the log changes, and remove its caches and checkpoint."""
        self.files.clear(CACHE)
        transaction.write(self._bind(sql.DELETE_CHECKPOINT))
        transaction.row = transaction.row._replace(edition=transaction.row.edition + 1)
        transaction.known.begin_edition(transaction.row.edition)

    # turns

    def lease(self) -> Callable[[], None] | None:
        if self._transaction is None and not self._lease_is_free():
            return None
        with self._writing() as transaction:
            lease = self._heartbeat.lease(self._bind, transaction)
        if lease is None:
            return None
        self._known.has_turn = True
        return partial(self._give_back, lease)

    def _give_back(self, lease: Lease) -> None:
        self._known.has_turn = False
        self._heartbeat.give_back(lease, self._transaction)

    def _lease_is_free(self) -> bool:
        """A check before the session's row is locked for it."""
        return all(is_over for _, is_over in self._ask(self._bind(sql.LEASE)))

    @property
    def writer(self) -> str:
        return self._heartbeat.name(self._ask)

    def is_alive(self, writer: str) -> bool:
        return writer.isalnum() and bool(self._ask(SqlStatement(sql.IS_ALIVE, {"name": writer})))

    # checkpoints

    def load_checkpoint(self) -> Checkpoint | None:
        try:
            found = self._ask(self._bind(sql.LOAD_CHECKPOINT))
            return self._checkpoint_in(found[0]) if found else None
        except StoreError:
            raise
        except Exception as error:
            logger.debug("session %r: the checkpoint cannot be read: %r", self._key.session, error)
            return None

    def _checkpoint_in(self, row: tuple[Any, ...]) -> Checkpoint | None:
        body, edition, *found = row
        record, transaction = decode_line(body), self._transaction
        ends: Mapping[str, int] = dict(zip(STREAMS, found, strict=True))
        if transaction is not None:
            edition, ends = transaction.row.edition, transaction.row.ends
        if (
            record is None
            or record["edition"] != edition
            or any(at > ends[name] for name, at in record["positions"].items())
        ):
            logger.debug("session %r: the checkpoint does not belong to its log", self._key.session)
            return None
        return Checkpoint(record["positions"], record["known"])

    def save_checkpoint(self, checkpoint: Checkpoint) -> None:
        with self._writing() as transaction:
            known = {"positions": dict(checkpoint.positions), "known": checkpoint.known}
            line = encode_line({**known, "edition": transaction.row.edition, "ctx": {"v": 1}})
            transaction.write(self._bind(sql.SAVE_CHECKPOINT, body=line))

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
