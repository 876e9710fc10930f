"""Connections to the database, pooled, with timeouts and retries; and the migrations of its tables."""

import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from math import inf
from time import monotonic
from typing import Any, NamedTuple, NoReturn, TypeVar

import psycopg
from psycopg.abc import PQGen
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.waiting import Ready
from psycopg_pool import ConnectionPool, PoolTimeout
from tenacity import Retrying, retry_if_exception, stop_after_delay, wait_random_exponential

from ctxwrap.errors import SettingsError, StoreUnavailable
from ctxwrap.stores.postgres import statements as sql

T = TypeVar("T")


class ServerSilent(psycopg.OperationalError):
    """The server sent nothing for longer than any answer may take."""


class Connection(psycopg.Connection[Any]):
    """A connection that breaks after waiting `silence` seconds for data.

    When packets are lost, TCP alone takes minutes to notice, and a Unix socket never does.
    """

    silence = inf

    def __init__(self, *parts: Any, **more: Any) -> None:
        super().__init__(*parts, **more)
        self.since = monotonic()

    @contextmanager
    def waiting(self, silence: float) -> Iterator[None]:
        """Allow a longer silence for a slow operation."""
        before, self.silence = self.silence, silence
        try:
            yield
        finally:
            self.silence = before

    def wait(self, gen: PQGen[T], *how: Any, **more: Any) -> T:
        return super().wait(self._watched(gen), *how, **more)

    def _watched(self, gen: PQGen[T]) -> PQGen[T]:
        """Watch a wait of psycopg, which resumes every tenth of a second whether data came or not."""
        last = monotonic()
        try:
            wanted = next(gen)
            while True:
                ready = yield wanted
                if ready != Ready.NONE:
                    last = monotonic()
                elif monotonic() - last > self.silence:
                    self._break_off(gen)
                wanted = gen.send(ready)
        except StopIteration as end:
            value: T = end.value
            return value

    def _break_off(self, gen: PQGen[Any]) -> NoReturn:
        self.pgconn.finish()
        silence = ServerSilent(f"the server sent nothing for {self.silence:.1f} seconds")
        with suppress(psycopg.Error, StopIteration):  # its cleanup cannot use the connection either
            gen.throw(silence)
        raise silence


def first_tables(connection: Connection) -> None:
    connection.execute(sql.FIRST_TABLES)


MIGRATIONS: list[Callable[[Connection], None]] = [first_tables]
"""In order. A released migration is never changed; a new one follows it."""


def migrate(connection: Connection) -> None:
    """Bring the tables up to date in one transaction; refuse a database of a newer ctxwrap."""
    if not _missing_migrations(connection):
        return
    with (
        connection.waiting(inf),
        connection.transaction(),
    ):  # large tables take long, also for those who wait for the lock
        connection.execute(sql.LOCK_MIGRATIONS)
        connection.execute(sql.CREATE_MIGRATIONS)
        for step in _missing_migrations(connection):
            step(connection)
            connection.execute(sql.NOTE_MIGRATION, {"name": step.__name__})


def _missing_migrations(connection: Connection) -> list[Callable[[Connection], None]]:
    there = connection.execute(sql.HAS_MIGRATIONS).fetchone()
    applied = {name for (name,) in connection.execute(sql.APPLIED)} if there and there[0] else set()
    unknown = applied - {step.__name__ for step in MIGRATIONS}
    if unknown:
        raise StoreUnavailable(
            f"the database has tables of a newer ctxwrap ({', '.join(sorted(unknown))}): upgrade ctxwrap here as well"
        )
    return [step for step in MIGRATIONS if step.__name__ not in applied]


Rows = list[tuple[Any, ...]]

_TIMEOUTS = {"connect_timeout": "5", "keepalives_idle": "30", "keepalives_interval": "10", "keepalives_count": "3"}
"""How soon an unreachable server is noticed, unless the URL says otherwise."""

_TRANSIENT = ("08", "40", "53300", "57P", "25006")
"""Prefixes of SQLSTATEs worth a retry: no connection, a conflict, no free slot, a restart, a replica."""

_LOCK_SHARE = 0.6
"""The part of `patience` that a statement may wait for a lock; the rest is for another connection."""

_MARGIN = 1.0
"""Seconds that an answer may take beyond that."""

_PER_ROW = 0.001
"""More seconds for each row that a statement writes or names: it may rewrite all records of a session."""


class SqlStatement(NamedTuple):
    sql: str
    values: Mapping[str, Any] = {}


class Database:
    """Forked processes share the URL; each has connections of its own."""

    def __init__(self, url: str, *, connections: int, patience: float) -> None:
        self._conninfo, self._password, self.place = _parsed(url)
        self.identity = hash(self._conninfo)
        """Identifies the database without revealing the password."""
        self._size = connections
        self._patience = patience
        self.lock_wait = _LOCK_SHARE * patience
        """How many seconds a statement may wait for a lock."""
        self._silence = self.lock_wait + max(_MARGIN, 0.1 * patience)
        self._silent_since = 0.0
        """When a connection was found silent: those opened before may be dead as well."""
        self._call = threading.local()
        self._pools: dict[int, ConnectionPool[Connection]] = {}
        """By process id. Pools of the parent process are kept only because freeing them would close its connections."""
        self._ready: set[int] = set()

    def ask(self, *statements: SqlStatement) -> list[Rows]:
        """Run statements in a transaction of their own, with retries, and return their rows."""

        def asked() -> list[Rows]:
            with self.lend() as connection:
                return run_pipeline(connection, statements)

        return self.with_retries(asked)

    def send_now(self, *statements: SqlStatement) -> None:
        """Run statements on a new connection, without retries."""
        with self.explained(), Connection.connect(self._conninfo, autocommit=True, connect_timeout=2) as connection:
            connection.silence = self._silence
            run_pipeline(connection, statements)

    def with_retries(self, work: Callable[[], T]) -> T:
        """Call `work` until it succeeds or fails for a permanent reason; raise StoreUnavailable when time is up."""
        tried = Retrying(
            retry=retry_if_exception(self._is_transient),
            stop=stop_after_delay(self._patience),
            wait=wait_random_exponential(multiplier=0.02, max=1),
            reraise=True,
        )
        self._call.until = monotonic() + self._patience
        with self.explained():
            return tried(work)

    def _is_transient(self, error: BaseException) -> bool:
        if isinstance(error, ServerSilent):
            self._silent_since = monotonic()
        return is_transient(error)

    @contextmanager
    def lend(self) -> Iterator[Connection]:
        """A connection to up-to-date tables. If it is inside a transaction afterwards, it is closed."""
        connection = self.borrow()
        try:
            yield connection
        finally:
            self.give_back(connection)

    def borrow(self) -> Connection:
        connection = self._working_connection()
        if os.getpid() not in self._ready:
            try:
                migrate(connection)
                self._ready.add(os.getpid())
            except BaseException:
                self.give_back(connection)
                raise
        return connection

    def _working_connection(self) -> Connection:
        """A connection that is not older than the last silence, within the time that is left."""
        left = max(_MARGIN, getattr(self._call, "until", 0.0) - monotonic())
        connection = self._pool().getconn(min(left, self._patience))
        while connection.since < self._silent_since:
            connection.close()
            self._pool().putconn(connection)
            connection = self._pool().getconn(min(left, self._patience))
        connection.silence = self._silence
        return connection

    def give_back(self, connection: Connection) -> None:
        if connection.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
            connection.close()
        self._pool().putconn(connection)

    @contextmanager
    def explained(self) -> Iterator[None]:
        try:
            yield
        except psycopg.Error as error:
            raise self.unavailable(error) from _without_secrets(error, self._password)

    def unavailable(self, error: psycopg.Error | str) -> StoreUnavailable:
        reason = self._reason(error).replace(self._password, "***") if self._password else self._reason(error)
        return StoreUnavailable(f"{self.place} is not usable: {reason}. {_remedy(error)}")

    def close(self) -> None:
        pool = self._pools.pop(os.getpid(), None)
        self._ready.discard(os.getpid())
        if pool is not None:
            pool.close(timeout=2)

    def _pool(self) -> ConnectionPool[Connection]:
        pool = self._pools.get(os.getpid()) or self._pools.setdefault(os.getpid(), self._new_pool())
        pool.open()
        return pool

    def _new_pool(self) -> ConnectionPool[Connection]:
        return ConnectionPool(
            self._conninfo,
            connection_class=Connection,
            kwargs={
                "autocommit": True,
                "prepare_threshold": None,
            },  # a pooler may run a prepared statement on another connection
            min_size=0,
            max_size=self._size,
            timeout=self._patience,
            reconnect_timeout=self._patience,
            max_idle=60,
            open=False,
        )

    def _reason(self, error: psycopg.Error | str) -> str:
        text = str(error)
        if isinstance(error, PoolTimeout):
            try:
                with psycopg.connect(self._conninfo, connect_timeout=2):
                    text = f"all {self._size} connections of this process were in use for {self._patience:g} seconds"
            except psycopg.Error as refused:
                text = str(refused)
        return " ".join(text.split()).rstrip(".") or type(error).__name__


def run_pipeline(connection: Connection, statements: Sequence[SqlStatement]) -> list[Rows]:
    """Send all statements in one round trip and return the rows of each."""
    first = None
    try:
        with _with_time_for_rows(connection, statements), connection.pipeline():
            try:
                cursors = [connection.cursor(binary=True).execute(each.sql, each.values) for each in statements]
            except psycopg.Error as error:
                first = error  # the pipeline's own error only says that it was aborted
    except psycopg.Error as error:
        raise first or error from None
    if first is not None:
        raise first
    return [cursor.fetchall() if cursor.description else [] for cursor in cursors]


def _with_time_for_rows(connection: Connection, statements: Sequence[SqlStatement]) -> AbstractContextManager[None]:
    rows = sum(len(value) for each in statements for value in each.values.values() if isinstance(value, list))
    return connection.waiting(connection.silence + _PER_ROW * rows)


def is_transient(error: BaseException) -> bool:
    if isinstance(error, PoolTimeout) or not isinstance(error, psycopg.Error):
        return False
    if error.sqlstate is None:
        return isinstance(error, (psycopg.OperationalError, psycopg.InterfaceError))
    return error.sqlstate.startswith(_TRANSIENT)


def _remedy(error: psycopg.Error | str) -> str:
    match getattr(error, "sqlstate", None) or "":
        case "25006":
            return "It is a read-only replica: use the primary, or add ?target_session_attrs=read-write"
        case "55P03":
            return "Another process holds the session: look for a stuck one in pg_stat_activity"
        case "42501":
            return "Allow the role to create tables, or open the store once with a role that may"
        case "53100" | "53200":
            return "Free disk space or memory on the database server"
    return "Check that the server runs, that the URL in store= is right, and that max_connections is high enough"


def _parsed(url: str) -> tuple[str, str, str]:
    """The connection string, the password, and the URL without it."""
    try:
        known = conninfo_to_dict(url)
    except psycopg.Error:
        known = None
    if known is None:  # the message must not contain any of it
        raise SettingsError("the store has an invalid URL; use postgresql://user:password@host:5432/database")
    user = f"{known['user']}@" if known.get("user") else ""
    port = f":{known['port']}" if known.get("port") else ""
    place = f"postgresql://{user}{known.get('host') or ''}{port}/{known.get('dbname') or ''}"
    given: dict[str, Any] = {"application_name": "ctxwrap", "client_encoding": "UTF8", **_TIMEOUTS, **known}
    return make_conninfo(**given), str(known.get("password") or ""), place


def _without_secrets(error: psycopg.Error, password: str) -> psycopg.Error | None:
    return None if password and password in str(error) else error
