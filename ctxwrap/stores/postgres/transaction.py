"""One transaction that holds a session's row, so that no other process reads and appends before it ends.

Writes are sent when a query needs them or at the end. A `redoable` transaction whose cached row is very likely current
is optimistic: it takes one round trip, in which the database compares the row. If the connection breaks, the statements
are replayed on another one, unless others wrote meanwhile. Every transaction leaves a random token in the session's row
and in its records, which shows whether a commit without an answer succeeded.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import psycopg

from ctxwrap.errors import StoreCorrupt, StoreError
from ctxwrap.stores.base import STREAMS, Outdated
from ctxwrap.stores.postgres import statements as sql
from ctxwrap.stores.postgres.cache import SessionCache, SessionRow
from ctxwrap.stores.postgres.connection import Connection, Database, Rows, SqlStatement, run_pipeline

Bind = Callable[..., SqlStatement]
"""Makes a statement about one session, with its values."""

_IDLE = 30.0
"""After so many idle seconds the server ends a transaction: its process may be dead."""


class SessionTransaction:
    """Use it in one thread, from `begin` to `end`."""

    def __init__(
        self, server: Database, bind: Bind, key: bytes, known: SessionCache, *, redoable: bool = False
    ) -> None:
        self._server, self._bind, self._key = server, bind, key
        self.known = known
        self._redoable, self._is_optimistic = redoable, False
        """Whether it may fail as Outdated, and whether it has not reached the database yet."""
        self.token = os.urandom(16)
        self._process = os.getpid()
        self._connection: Connection | None = None
        self._sent: list[SqlStatement] = []
        self._unsent: list[SqlStatement] = []
        self._saves: dict[bytes, bytes] = {}
        self._first: tuple[str, int] | None = None
        """The stream and position of the first record that it adds."""
        self._failure: StoreError | None = None
        self.base = self.row = SessionRow(0, b"", 0, {}, {})
        """The session's row as it was found, and as it is to be."""
        self.lease: Rows | None = None
        """The session's lease, if it was read: its fence, and whether it has expired."""
        self._last: list[SqlStatement] = []
        self._after_commit: list[Callable[[], None]] = []

    def begin(self) -> bool:
        """Lock the session's row and fetch what is new in its streams. Whether the log continues what the cache has.

        It does not if the server was replaced by one that lacks the last writes.
        """
        row = self.known.likely_row() if self._redoable else None
        self._redoable = self._is_optimistic = row is not None
        return self._begin_locked() if row is None else self._begin_optimistically(row)

    def _begin_optimistically(self, row: SessionRow) -> bool:
        known, self.base, self.row = self.known, row, row
        known.row, known.fresh = None, {}  # until the transaction succeeds
        known.keep_prefetched([], [])
        return True

    def _begin_locked(self) -> bool:
        known, seen = self.known, dict(self.known.seen)
        asked = [self._bind(sql.READ_ON, stream=stream, after=each.position) for stream, each in seen.items()]
        usual = known.frequent_statements()
        self.base, (*answers,) = self._server.with_retries(lambda: self._locked([*asked, *usual]))
        self.row = self.base
        known.take_row(self.base)
        known.keep_prefetched(usual, answers[len(asked) :])
        known.row = None  # until the transaction succeeds
        if self.base.edition != known.edition:
            known.begin_edition(self.base.edition)
            return True
        found = dict(zip(seen, answers, strict=False))
        known.fresh = {stream: (seen[stream].position, rows) for stream, rows in found.items()}
        return not any(known.is_other(stream, rows) for stream, rows in found.items())

    def ask_prefetched(self, statement: SqlStatement) -> Rows:
        """`ask`, for statements that transactions often begin with."""
        if self._sent or self._unsent or self._saves:
            return self.ask(statement)
        rows = self.known.prefetched(statement)
        if rows is None:
            rows = self.ask(statement)
        self.known.note_answer(statement, rows)
        return rows

    def ask(self, statement: SqlStatement) -> Rows:
        """The rows of a statement, after all earlier writes."""
        self.write()
        with self._failing_once():
            self.check()
            if self._is_optimistic and not self._unsent:
                return self._lock_with(statement)
            answers = self._server.with_retries(lambda: self._run([*self._unsent, statement]))
        self._sent, self._unsent = self._sent + self._unsent, []
        return answers[-1]

    def _lock_with(self, statement: SqlStatement) -> Rows:
        """Lock the session and run the statement in one round trip."""
        now, (answer,) = self._server.with_retries(lambda: self._locked([statement]))
        self._replay(now)
        return answer

    def write(self, *statements: SqlStatement) -> None:
        """Queue statements behind all earlier writes."""
        saves, self._saves = self._saves, {}
        self._unsent += [*(self._save_statements(saves) if saves else ()), *statements]

    def save(self, name: bytes, data: bytes) -> None:
        """Queue a file; files queued in a row are written together."""
        self._saves[name] = data

    def adds(self, stream: str, position: int) -> None:
        """Note that a record is written there."""
        self._first = self._first or (stream, position)

    def write_last(self, statement: SqlStatement) -> None:
        """Queue a statement that no query of this transaction depends on."""
        self._last.append(statement)

    def after_commit(self, work: Callable[[], None]) -> None:
        """Call `work` after the commit."""
        self._after_commit.append(work)

    @property
    def is_of_this_process(self) -> bool:
        """Whether it does not belong to the parent of a forked process."""
        return os.getpid() == self._process

    @property
    def has_written(self) -> bool:
        return bool(self._sent or self._unsent or self._saves or self._last)

    def check(self) -> None:
        """Raise the error that made the transaction fail, if any."""
        if self._failure is not None:
            raise self._failure

    def end(self) -> None:
        """Commit and release the session's row."""
        if not self.is_of_this_process:
            return  # it belongs to the parent process
        try:
            with self._failing_once():
                self.check()
                self._finish()
            self.known.row = self._final_row()
        finally:
            self._release_connection()
        for work in self._after_commit:
            work()

    def _final_row(self) -> SessionRow:
        """The session's row after the commit."""
        if not self.has_written:
            return self.base
        return self.row._replace(version=self.base.version + 1, token=self.token)

    def _finish(self) -> None:
        self.write()
        if self.has_written:
            self._server.with_retries(self._commit)
        elif self._connection is not None:
            with suppress(psycopg.Error):  # nothing to lose
                run_pipeline(self._connection, [SqlStatement(sql.COMMIT)])

    def _commit(self) -> None:
        last = [self._bind(sql.UPDATE_SESSION, **self._new_row()), *self._unsent, *self._last]
        if self._is_optimistic:
            self._is_optimistic = False
            self._run_at_once(last)
        elif not (self._is_disconnected and self._resume_committed()):
            self._run([*last, SqlStatement(sql.COMMIT)])

    def _run_at_once(self, statements: Sequence[SqlStatement]) -> None:
        """Statements of one pipeline without BEGIN are one transaction."""
        with self._server.lend() as connection:
            try:
                run_pipeline(connection, [self._limits(), *statements])
            except psycopg.errors.DivisionByZero:
                raise self._conflict() from None

    def _conflict(self) -> StoreError:
        if self._redoable:
            return Outdated("others wrote to the session since it was read")
        return self._server.unavailable("the connection broke, and others wrote to the session before it was back")

    def _save_statements(self, saves: Mapping[bytes, bytes]) -> list[SqlStatement]:
        names, bodies = list(saves), list(saves.values())
        contents = [os.urandom(16) for _ in names]
        return [
            self._bind(sql.DROP_CONTENTS, names=names),
            self._bind(sql.SAVE_FILES, names=names, contents=contents, bodies=bodies),
        ]

    def _new_row(self) -> dict[str, Any]:
        numbers = {f"{stream}_number": number for stream, number in self.row.numbers.items()}
        base = {"base_version": self.base.version, "base_token": self.base.token}
        return {"token": self.token, "edition": self.row.edition, **self.row.ends, **numbers, **base}

    def _run(self, statements: Sequence[SqlStatement]) -> list[Rows]:
        if self._is_disconnected:
            self._resume()
        assert self._connection is not None
        try:
            return run_pipeline(self._connection, statements)
        except psycopg.errors.DivisionByZero:
            self._connection.close()
            raise self._conflict() from None
        except BaseException:
            self._connection.close()
            raise

    @property
    def _is_disconnected(self) -> bool:
        return self._connection is None or self._connection.closed

    def _resume_committed(self) -> bool:
        """Continue on another connection. Whether the commit had succeeded."""
        now = self._relock()
        if now.token == self.token or self._has_added(now):
            return True
        self._replay(now)
        return False

    def _resume(self) -> None:
        self._replay(self._relock())

    def _relock(self) -> SessionRow:
        self._release_connection()
        return self._locked()[0]

    def _replay(self, now: SessionRow) -> None:
        if now[:2] != self.base[:2]:
            raise self._conflict()
        if self._sent:
            self._run(self._sent)

    def _has_added(self, now: SessionRow) -> bool:
        if self._first is None or now.version <= self.base.version:
            return False
        stream, position = self._first
        return self._run([self._bind(sql.TOKEN_AT, stream=stream, pos=position)]) == [[(self.token,)]]

    def _locked(self, also: Sequence[SqlStatement] = ()) -> tuple[SessionRow, list[Rows]]:
        self._is_optimistic = False
        connection = self._server.borrow()
        try:
            lock = self._bind(sql.LOCK_SESSION)
            asked = [lock, self._bind(sql.LEASE), *also]
            _, _, rows, self.lease, *answers = run_pipeline(
                connection, [SqlStatement(sql.BEGIN), self._limits(), *asked]
            )
            if not rows:
                create = self._bind(sql.CREATE_SESSION, key=self._key)
                _, rows, self.lease, *answers = run_pipeline(connection, [create, *asked])
            row = self._row_in(rows)
        except BaseException:
            self._server.give_back(connection)
            raise
        self._connection = connection
        return row, answers

    def _limits(self) -> SqlStatement:
        wait, idle = (f"{int(1000 * seconds)}ms" for seconds in (self._server.lock_wait, _IDLE))
        return SqlStatement(sql.LIMITS, {"wait": wait, "idle": idle})

    def _row_in(self, rows: Rows) -> SessionRow:
        ((key, version, token, edition, *rest),) = rows
        if key != self._key:
            raise StoreCorrupt("a row of ctxwrap_sessions has the key of another session: find out what wrote it")
        ends, numbers = (dict(zip(STREAMS, values, strict=True)) for values in (rest[:2], rest[2:]))
        return SessionRow(version, token, edition, ends, numbers)

    def _release_connection(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            self._server.give_back(connection)

    @contextmanager
    def _failing_once(self) -> Iterator[None]:
        """Keep the error that made the transaction fail: nothing of it is stored, and nothing can be added to it."""
        try:
            yield
        except BaseException as error:
            broken = self._server.unavailable("the transaction was interrupted")
            self._failure = error if isinstance(error, StoreError) else broken
            self.known.invalidate()
            raise
