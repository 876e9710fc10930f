"""Connections to the database: pooled, with timeouts and retries; and the tables, created step by step."""

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


class Silence(psycopg.OperationalError):
    """Nothing came over the line for longer than any answer may take."""


class Connection(psycopg.Connection[Any]):
    """A connection that breaks after `silence` seconds in which it waited and nothing came.

    Where packets vanish, TCP alone takes minutes to notice, and a socket of this machine never does.
    """

    silence = inf

    def __init__(self, *parts: Any, **more: Any) -> None:
        super().__init__(*parts, **more)
        self.since = monotonic()

    @contextmanager
    def waiting(self, silence: float) -> Iterator[None]:
        """For something that takes so long."""
        before, self.silence = self.silence, silence
        try:
            yield
        finally:
            self.silence = before

    def wait(self, gen: PQGen[T], *how: Any, **more: Any) -> T:
        return super().wait(self._heard(gen), *how, **more)

    def _heard(self, gen: PQGen[T]) -> PQGen[T]:
        """What psycopg waits for, which it looks at every tenth of a second, whether something came or not."""
        last = monotonic()
        try:
            wanted = next(gen)
            while True:
                ready = yield wanted
                if ready != Ready.NONE:
                    last = monotonic()
                elif monotonic() - last > self.silence:
                    self._end(gen)
                wanted = gen.send(ready)
        except StopIteration as end:
            value: T = end.value
            return value

    def _end(self, gen: PQGen[Any]) -> NoReturn:
        self.pgconn.finish()
        silence = Silence(f"nothing was heard from the server for {self.silence:.1f} seconds")
        with suppress(psycopg.Error, StopIteration):  # what it does last it cannot do any more
            gen.throw(silence)
        raise silence


def first_tables(connection: Connection) -> None:
    connection.execute(sql.FIRST_TABLES)


MIGRATIONS: list[Callable[[Connection], None]] = [first_tables]
"""In order. Those that a release had are never changed, only followed."""


def migrate(connection: Connection) -> None:
    """Bring the tables up to date, in one transaction; a database that newer code made is left alone."""
    if not _missing(connection):
        return
    with connection.waiting(inf), connection.transaction():  # large tables take their time, for whoever waits as well
        connection.execute(sql.LOCK_MIGRATIONS)
        connection.execute(sql.CREATE_MIGRATIONS)
        for step in _missing(connection):
            step(connection)
            connection.execute(sql.NOTE_MIGRATION, {"name": step.__name__})


def _missing(connection: Connection) -> list[Callable[[Connection], None]]:
    there = connection.execute(sql.HAS_MIGRATIONS).fetchone()
    applied = {name for (name,) in connection.execute(sql.APPLIED)} if there and there[0] else set()
    unknown = applied - {step.__name__ for step in MIGRATIONS}
    if unknown:
        raise StoreUnavailable(
            f"the database has tables of a newer ctxwrap ({', '.join(sorted(unknown))}): upgrade ctxwrap here as well"
        )
    return [step for step in MIGRATIONS if step.__name__ not in applied]


Rows = list[tuple[Any, ...]]

_ABSENCE = {"connect_timeout": "5", "keepalives_idle": "30", "keepalives_interval": "10", "keepalives_count": "3"}
"""How soon it is noticed that nobody is there, unless the URL says otherwise."""

_PASSING = ("08", "40", "53300", "57P", "25006")
"""How states begin that may be others soon: no connection, a conflict, no free slot, a restart, a replica."""

_FOR_OTHERS = 0.6
"""The part of a call's patience that a statement may wait for a lock: what is left is for another line."""

_MARGIN = 1.0
"""Seconds that an answer may take beyond that."""

_PER_ROW = 0.001
"""Seconds more for each row that a statement writes or names: all records of a session may be written anew."""


class SqlStatement(NamedTuple):
    sql: str
    values: Mapping[str, Any] = {}


class Database:
    """What the processes that are forked off share is the URL: each has connections of its own."""

    def __init__(self, url: str, *, connections: int, patience: float) -> None:
        self._conninfo, self._password, self.place = _parsed(url)
        self.identity = hash(self._conninfo)
        """What tells it from other databases, and nothing of the password."""
        self._size = connections
        self._patience = patience
        self.lock_wait = _FOR_OTHERS * patience
        """How many seconds a statement may wait for others."""
        self._silence = self.lock_wait + max(_MARGIN, 0.1 * patience)
        self._distrusted = 0.0
        """When a line was silent: those that were there before may be as dead."""
        self._call = threading.local()
        self._pools: dict[int, ConnectionPool[Connection]] = {}
        """By process; those of others are kept only because letting go of them would close them."""
        self._ready: set[int] = set()

    def ask(self, *statements: SqlStatement) -> list[Rows]:
        """The answers, in a transaction of their own, which may be tried several times."""

        def asked() -> list[Rows]:
            with self.lent() as connection:
                return trip(connection, statements)

        return self.patiently(asked)

    def tell(self, *statements: SqlStatement) -> None:
        """Over a line of its own: now or never."""
        with self.explained(), Connection.connect(self._conninfo, autocommit=True, connect_timeout=2) as connection:
            connection.silence = self._silence
            trip(connection, statements)

    def patiently(self, work: Callable[[], T]) -> T:
        """Do it, again while it fails for reasons that pass; a StoreUnavailable if they do not."""
        tried = Retrying(
            retry=retry_if_exception(self._passes),
            stop=stop_after_delay(self._patience),
            wait=wait_random_exponential(multiplier=0.02, max=1),
            reraise=True,
        )
        self._call.until = monotonic() + self._patience
        with self.explained():
            return tried(work)

    def _passes(self, error: BaseException) -> bool:
        if isinstance(error, Silence):
            self._distrusted = monotonic()
        return is_passing(error)

    @contextmanager
    def lent(self) -> Iterator[Connection]:
        """A connection to tables that are up to date; one that was in the middle of something is closed."""
        connection = self.borrowed()
        try:
            yield connection
        finally:
            self.give_back(connection)

    def borrowed(self) -> Connection:
        connection = self._trusted()
        if os.getpid() not in self._ready:
            try:
                migrate(connection)
                self._ready.add(os.getpid())
            except BaseException:
                self.give_back(connection)
                raise
        return connection

    def _trusted(self) -> Connection:
        """A line on which an answer can be expected, in the time that is left."""
        left = max(_MARGIN, getattr(self._call, "until", 0.0) - monotonic())
        connection = self._pool().getconn(min(left, self._patience))
        while connection.since < self._distrusted:
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
        return StoreUnavailable(f"{self.place} does not do its part: {reason}. {_remedy(error)}")

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
            kwargs={"autocommit": True, "prepare_threshold": None},  # what is prepared stays with one connection
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


def trip(connection: Connection, statements: Sequence[SqlStatement]) -> list[Rows]:
    """All statements at once, and all that comes back."""
    first = None
    try:
        with _given_time(connection, statements), connection.pipeline():
            try:
                cursors = [connection.cursor(binary=True).execute(each.sql, each.values) for each in statements]
            except psycopg.Error as error:
                first = error  # the pipeline's own would only say that it does not go on
    except psycopg.Error as error:
        raise first or error from None
    if first is not None:
        raise first
    return [cursor.fetchall() if cursor.description else [] for cursor in cursors]


def _given_time(connection: Connection, statements: Sequence[SqlStatement]) -> AbstractContextManager[None]:
    rows = sum(len(value) for each in statements for value in each.values.values() if isinstance(value, list))
    return connection.waiting(connection.silence + _PER_ROW * rows)


def is_passing(error: BaseException) -> bool:
    if isinstance(error, PoolTimeout) or not isinstance(error, psycopg.Error):
        return False
    if error.sqlstate is None:
        return isinstance(error, (psycopg.OperationalError, psycopg.InterfaceError))
    return error.sqlstate.startswith(_PASSING)


def _remedy(error: psycopg.Error | str) -> str:
    match getattr(error, "sqlstate", None) or "":
        case "25006":
            return "It is a replica, which only reads: name the primary, or add ?target_session_attrs=read-write"
        case "55P03":
            return "Another process holds the session: look for one that hangs in pg_stat_activity"
        case "42501":
            return "Let the role create tables once, or let one that may do so open the store first"
        case "53100" | "53200":
            return "Make room on the database's machine"
    return "Check that the server runs, that the URL in store= is right, and that max_connections is high enough"


def _parsed(url: str) -> tuple[str, str, str]:
    """How to connect, the password, and the place by a name that tells nothing of it."""
    try:
        known = conninfo_to_dict(url)
    except psycopg.Error:
        known = None
    if known is None:  # and not a character of it in the message
        raise SettingsError("the URL of the store is none: postgresql://user:password@host:5432/database")
    user = f"{known['user']}@" if known.get("user") else ""
    port = f":{known['port']}" if known.get("port") else ""
    place = f"postgresql://{user}{known.get('host') or ''}{port}/{known.get('dbname') or ''}"
    given: dict[str, Any] = {"application_name": "ctxwrap", "client_encoding": "UTF8", **_ABSENCE, **known}
    return make_conninfo(**given), str(known.get("password") or ""), place


def _without_secrets(error: psycopg.Error, password: str) -> psycopg.Error | None:
    return None if password and password in str(error) else error
