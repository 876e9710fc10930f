"""What a statement about files touches does not grow with the files that a session has."""

import secrets
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from ctxwrap.stores.names import safe_name
from ctxwrap.stores.postgres import PostgresStore
from ctxwrap.stores.postgres import statements as sql
from ctxwrap.testing import KEY

FEW, MANY = 20, 4000
CHANGED = [f"raw/{number}" for number in range(0, FEW, 2)]
SCOPE = dict(zip(("tenant", "agent", "session"), map(safe_name, KEY), strict=True))


@pytest.fixture
def connection(database: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(database, autocommit=True) as connection:
        yield connection


def save(store: PostgresStore, first: int, last: int) -> None:
    """Files under two names each, as contents that are stored once have them."""
    log = store.open(KEY)
    with log.locked():
        for number in range(first, last):
            log.files.save(f"raw/{number}", b"x" * 50)
    with log.locked():
        for number in range(first, last, 50):
            log.files.link(f"raw/{number}", f"context/dedup/blob/{number}")


def touched(connection: psycopg.Connection[Any]) -> dict[str, int]:
    """The blocks that saving some files anew touches, by statement; nothing of it stays."""
    names = [name.encode() for name in CHANGED]
    contents = [secrets.token_bytes(16) for _ in names]
    values = {"names": names, "contents": contents, "bodies": [b"y" * 50] * len(names)}
    with connection.transaction(force_rollback=True):
        return {
            name: blocks(connection, getattr(sql, name), {**SCOPE, **values})
            for name in ("DROP_CONTENTS", "SAVE_FILES", "DELETE_FILES")
        }


def blocks(connection: psycopg.Connection[Any], statement: str, values: dict[str, Any]) -> int:
    cursor = connection.cursor(binary=True)
    cursor.execute(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {statement}", values)  # type: ignore[arg-type]
    ((told,),) = cursor.fetchall()
    plan = told[0]["Plan"]
    return int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])


@pytest.mark.parametrize("is_analysed", [True, False], ids=["analysed", "never analysed"])
def test_cost_of_saving_a_file_does_not_depend_on_the_file_count(
    connection: psycopg.Connection[Any], database: str, is_analysed: bool
) -> None:
    """Also while the planner knows nothing of the tables yet."""
    store = PostgresStore(database)
    store.open(KEY).read("messages")
    connection.execute("ALTER TABLE ctxwrap_files SET (autovacuum_enabled = false)")
    connection.execute("ALTER TABLE ctxwrap_pieces SET (autovacuum_enabled = false)")
    save(store, 0, FEW)
    before = touched(connection)
    save(store, FEW, MANY)
    if is_analysed:
        connection.execute("ANALYZE")
    after = touched(connection)
    for name, count in after.items():
        assert count <= 3 * before[name] + 10 * len(CHANGED), (before, after)
