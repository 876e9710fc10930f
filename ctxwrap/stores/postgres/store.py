"""The store in PostgreSQL."""

import json
import weakref
from collections.abc import Iterator

from ctxwrap.stores.names import owner_kind, safe_name
from ctxwrap.stores.postgres import statements as sql
from ctxwrap.stores.postgres.connection import Database, Rows, SqlStatement
from ctxwrap.stores.postgres.heartbeat import Heartbeat
from ctxwrap.stores.postgres.log import OpenTransactions, PostgresLog
from ctxwrap.types import SessionKey


class PostgresStore:
    """Connects when the first session is used.

    A process opens up to `connections`, retries for `patience` seconds while the server is unreachable, and is
    considered dead when it has not renewed its heartbeat for `lifetime` seconds.
    """

    def __init__(self, url: str, *, connections: int = 8, patience: float = 15.0, lifetime: float = 20.0) -> None:
        self._server = Database(url, connections=connections, patience=patience)
        self._heartbeat = Heartbeat(self._server, lifetime)
        self._transactions = OpenTransactions()
        weakref.finalize(self, _close_all, self._heartbeat, self._server)

    def close(self) -> None:
        """Using a session afterwards opens the store again."""
        _close_all(self._heartbeat, self._server)

    def open(self, key: SessionKey) -> PostgresLog:
        return PostgresLog(self, self._server, key, self._heartbeat, self._transactions)

    def sessions(self, tenant: str, agent: str) -> Iterator[str]:
        values = {"tenant": safe_name(tenant), "agent": safe_name(agent)}
        for key in _keys_in(self._server.ask(SqlStatement(sql.SESSIONS_OF, values))[0]):
            if (key.tenant, key.agent) == (tenant, agent):
                yield key.session

    def agents(self, tenant: str) -> Iterator[str]:
        for key in _keys_in(self._server.ask(SqlStatement(sql.AGENTS_OF, {"tenant": safe_name(tenant)}))[0]):
            if key.tenant == tenant and not owner_kind(key.agent):
                yield key.agent

    def keys(self) -> Iterator[SessionKey]:
        keys = _keys_in(self._server.ask(SqlStatement(sql.ALL_KEYS))[0])
        yield from (key for key in keys if not owner_kind(key.agent))


def _close_all(heartbeat: Heartbeat, server: Database) -> None:
    """Runs on `close`, when the store is freed, or when the process ends."""
    heartbeat.close()
    server.close()


def _keys_in(rows: Rows) -> Iterator[SessionKey]:
    for (known,) in rows:
        yield SessionKey(**json.loads(bytes(known)))
