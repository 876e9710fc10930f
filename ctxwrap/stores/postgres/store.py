"""Where logs live in PostgreSQL: every row begins with its tenant."""

import json
import weakref
from collections.abc import Iterator

from ctxwrap.stores.names import safe_name
from ctxwrap.stores.postgres import statements as sql
from ctxwrap.stores.postgres.connection import Database, Rows, SqlStatement
from ctxwrap.stores.postgres.heartbeat import Heartbeat
from ctxwrap.stores.postgres.log import PostgresLog, Sections
from ctxwrap.types import SessionKey


class PostgresStore:
    """Nothing is asked of the database before the first session is.

    A process has up to `connections`, is patient for so many seconds while the server is away, and is taken for dead
    when it gives no sign of life for `lifetime` seconds.
    """

    def __init__(self, url: str, *, connections: int = 8, patience: float = 15.0, lifetime: float = 20.0) -> None:
        self._server = Database(url, connections=connections, patience=patience)
        self._life = Heartbeat(self._server, lifetime)
        self._sections = Sections()
        weakref.finalize(self, _closed, self._life, self._server)

    def close(self) -> None:
        """A session that is used after that opens the store again."""
        _closed(self._life, self._server)

    def open(self, key: SessionKey) -> PostgresLog:
        return PostgresLog(self, self._server, key, self._life, self._sections)

    def sessions(self, tenant: str, agent: str) -> Iterator[str]:
        values = {"tenant": safe_name(tenant), "agent": safe_name(agent)}
        for key in _keys_in(self._server.ask(SqlStatement(sql.SESSIONS_OF, values))[0]):
            if (key.tenant, key.agent) == (tenant, agent):
                yield key.session

    def agents(self, tenant: str) -> Iterator[str]:
        for key in _keys_in(self._server.ask(SqlStatement(sql.AGENTS_OF, {"tenant": safe_name(tenant)}))[0]):
            if key.tenant == tenant:
                yield key.agent

    def keys(self) -> Iterator[SessionKey]:
        yield from _keys_in(self._server.ask(SqlStatement(sql.ALL_KEYS))[0])


def _closed(life: Heartbeat, server: Database) -> None:
    """When nobody has the store or a log of it any more, when the process ends, or when somebody says so."""
    life.close()
    server.close()


def _keys_in(rows: Rows) -> Iterator[SessionKey]:
    for (known,) in rows:
        yield SessionKey(**json.loads(bytes(known)))
