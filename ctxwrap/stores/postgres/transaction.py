"""One transaction that has a session's row: nobody else reads and appends before it ends.

What is written waits until it is needed or the section ends; so one that may be redone, and is sure of what the session
holds, is one round trip, in which the database checks that. If the connection breaks, another one begins where this one
was, as long as nobody else wrote meanwhile; whether a commit that nobody answered was done is told by the token that
every section leaves in the session's row and in its records.
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
from ctxwrap.stores.postgres.connection import Connection, Database, Rows, SqlStatement, trip

Bound = Callable[..., SqlStatement]
"""A statement about one session, with its values."""

_IDLE = 30.0
"""A section that asks nothing for so many seconds may have lost its process: the server lets others in."""


class SessionTransaction:
    """Use it in one thread, from `begin` to `end`."""

    def __init__(
        self, server: Database, bound: Bound, key: bytes, known: SessionCache, *, redoable: bool = False
    ) -> None:
        self._server, self._bound, self._key = server, bound, key
        self.known = known
        self._redoable, self._is_unsaid = redoable, False
        """Whether it may be outdated, and whether the database does not know of it yet."""
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
        """The row of the last lease, if it asked: its number, and whether it is over."""
        self._last: list[SqlStatement] = []
        self._then: list[Callable[[], None]] = []

    def begin(self) -> bool:
        """Take the session's row, with what is new in its streams. Whether it goes on from what is known of it.

        It does not if the server was replaced by one that lacks what was written last.
        """
        row = self.known.sure_row() if self._redoable else None
        self._redoable = self._is_unsaid = row is not None
        return self._begun_asking() if row is None else self._begun_unsaid(row)

    def _begun_unsaid(self, row: SessionRow) -> bool:
        known, self.base, self.row = self.known, row, row
        known.row, known.fresh = None, {}  # unless all goes well
        known.foresee([], [])
        return True

    def _begun_asking(self) -> bool:
        known, seen = self.known, dict(self.known.seen)
        asked = [self._bound(sql.READ_ON, stream=stream, after=each.position) for stream, each in seen.items()]
        usual = known.usual_questions()
        self.base, (*answers,) = self._server.patiently(lambda: self._locked([*asked, *usual]))
        self.row = self.base
        known.take_row(self.base)
        known.foresee(usual, answers[len(asked) :])
        known.row = None  # unless all goes well
        if self.base.edition != known.edition:
            known.begin_edition(self.base.edition)
            return True
        found = dict(zip(seen, answers, strict=False))
        known.fresh = {stream: (seen[stream].position, rows) for stream, rows in found.items()}
        return not any(known.is_other(stream, rows) for stream, rows in found.items())

    def ask_as_usual(self, statement: SqlStatement) -> Rows:
        """The same as `ask`, for what sections may ask first again and again."""
        if self._sent or self._unsent or self._saves:
            return self.ask(statement)
        rows = self.known.foreseen(statement)
        if rows is None:
            rows = self.ask(statement)
        self.known.take_answer(statement, rows)
        return rows

    def ask(self, statement: SqlStatement) -> Rows:
        """What the database says, everything that was written included."""
        self.write()
        with self._guarded():
            self.check()
            if self._is_unsaid and not self._unsent:
                return self._begun_with(statement)
            answers = self._server.patiently(lambda: self._asked([*self._unsent, statement]))
        self._sent, self._unsent = self._sent + self._unsent, []
        return answers[-1]

    def _begun_with(self, statement: SqlStatement) -> Rows:
        """The answer, which is what makes the section begin."""
        now, (answer,) = self._server.patiently(lambda: self._locked([statement]))
        self._replay(now)
        return answer

    def write(self, *statements: SqlStatement) -> None:
        """Write this, behind all that was written before."""
        saves, self._saves = self._saves, {}
        self._unsent += [*(self._all_saved(saves) if saves else ()), *statements]

    def save(self, name: bytes, data: bytes) -> None:
        """Write a file, together with others that are saved before anything else is written."""
        self._saves[name] = data

    def adds(self, stream: str, position: int) -> None:
        """That a record is written there."""
        self._first = self._first or (stream, position)

    def write_last(self, statement: SqlStatement) -> None:
        """Write what nothing that is asked here depends on."""
        self._last.append(statement)

    def then(self, work: Callable[[], None]) -> None:
        """Do it when all of it is in the database."""
        self._then.append(work)

    @property
    def is_mine(self) -> bool:
        """Whether it is not the one that a forked process was in."""
        return os.getpid() == self._process

    @property
    def has_written(self) -> bool:
        return bool(self._sent or self._unsent or self._saves or self._last)

    def check(self) -> None:
        """That all of it can be in the database, or, behind its end, is; a StoreUnavailable if not."""
        if self._failure is not None:
            raise self._failure

    def end(self) -> None:
        """Write what is left, and let others in."""
        if not self.is_mine:
            return  # a forked child leaves the section to its parent
        try:
            with self._guarded():
                self.check()
                self._finish()
            self.known.row = self._left()
        finally:
            self._let_go()
        for work in self._then:
            work()

    def _left(self) -> SessionRow:
        """The session's row as it is behind the section."""
        if not self.has_written:
            return self.base
        return self.row._replace(version=self.base.version + 1, token=self.token)

    def _finish(self) -> None:
        self.write()
        if self.has_written:
            self._server.patiently(self._committed)
        elif self._connection is not None:
            with suppress(psycopg.Error):  # nothing to lose
                trip(self._connection, [SqlStatement(sql.COMMIT)])

    def _committed(self) -> None:
        last = [self._bound(sql.UPDATE_SESSION, **self._new_row()), *self._unsent, *self._last]
        if self._is_unsaid:
            self._is_unsaid = False
            self._do_at_once(last)
        elif not (self._is_cut_off and self._resumed_as_done()):
            self._asked([*last, SqlStatement(sql.COMMIT)])

    def _do_at_once(self, statements: Sequence[SqlStatement]) -> None:
        """What is sent in one go, with nothing around it, is a transaction."""
        with self._server.lent() as connection:
            try:
                trip(connection, [self._limits(), *statements])
            except psycopg.errors.DivisionByZero:
                raise self._overtaken() from None

    def _overtaken(self) -> StoreError:
        if self._redoable:
            return Outdated("others wrote to the session since it was read")
        return self._server.unavailable("the connection broke, and others wrote to the session before it was back")

    def _all_saved(self, saves: Mapping[bytes, bytes]) -> list[SqlStatement]:
        names, bodies = list(saves), list(saves.values())
        contents = [os.urandom(16) for _ in names]
        return [
            self._bound(sql.DROP_CONTENTS, names=names),
            self._bound(sql.SAVE_FILES, names=names, contents=contents, bodies=bodies),
        ]

    def _new_row(self) -> dict[str, Any]:
        numbers = {f"{stream}_number": number for stream, number in self.row.numbers.items()}
        base = {"base_version": self.base.version, "base_token": self.base.token}
        return {"token": self.token, "edition": self.row.edition, **self.row.ends, **numbers, **base}

    def _asked(self, statements: Sequence[SqlStatement]) -> list[Rows]:
        if self._is_cut_off:
            self._resume()
        assert self._connection is not None
        try:
            return trip(self._connection, statements)
        except psycopg.errors.DivisionByZero:
            self._connection.close()
            raise self._overtaken() from None
        except BaseException:
            self._connection.close()
            raise

    @property
    def _is_cut_off(self) -> bool:
        return self._connection is None or self._connection.closed

    def _resumed_as_done(self) -> bool:
        """Go on with another connection. Whether there is nothing left to do, since the commit was done."""
        now = self._again()
        if now.token == self.token or self._has_added(now):
            return True
        self._replay(now)
        return False

    def _resume(self) -> None:
        self._replay(self._again())

    def _again(self) -> SessionRow:
        self._let_go()
        return self._locked()[0]

    def _replay(self, now: SessionRow) -> None:
        if now[:2] != self.base[:2]:
            raise self._overtaken()
        if self._sent:
            self._asked(self._sent)

    def _has_added(self, now: SessionRow) -> bool:
        if self._first is None or now.version <= self.base.version:
            return False
        stream, position = self._first
        return self._asked([self._bound(sql.TOKEN_AT, stream=stream, pos=position)]) == [[(self.token,)]]

    def _locked(self, also: Sequence[SqlStatement] = ()) -> tuple[SessionRow, list[Rows]]:
        self._is_unsaid = False
        connection = self._server.borrowed()
        try:
            lock = self._bound(sql.LOCK_SESSION)
            asked = [lock, self._bound(sql.LEASE), *also]
            _, _, rows, self.lease, *answers = trip(connection, [SqlStatement(sql.BEGIN), self._limits(), *asked])
            if not rows:
                create = self._bound(sql.CREATE_SESSION, key=self._key)
                _, rows, self.lease, *answers = trip(connection, [create, *asked])
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
            raise StoreCorrupt("a row of ctxwrap_sessions is not that of its session: look who wrote it")
        ends, numbers = (dict(zip(STREAMS, values, strict=True)) for values in (rest[:2], rest[2:]))
        return SessionRow(version, token, edition, ends, numbers)

    def _let_go(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            self._server.give_back(connection)

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        """Remember what made the section fail: nothing of it is there, and nothing can be added to it."""
        try:
            yield
        except BaseException as error:
            broken = self._server.unavailable("the section was interrupted")
            self._failure = error if isinstance(error, StoreError) else broken
            self.known.lose()
            raise
