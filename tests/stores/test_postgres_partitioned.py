"""The store with tables that an operator made: partitioned by the documentation's own statements, or otherwise."""

import re
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from ctxwrap.stores.base import STREAMS, Store
from ctxwrap.stores.postgres import PostgresStore, statements
from ctxwrap.stores.postgres.connection import MIGRATIONS
from ctxwrap.testing import KEY, StoreContract
from tests.session.telling import Teller, item

DOCUMENT = Path(__file__).parents[2] / "docs" / "scale.md"
PARTITION = re.findall(r"```sql\n(.*?PARTITION BY HASH.*?)```", DOCUMENT.read_text(), re.DOTALL)
NAMES = [f"name-{number}" for number in range(20)]


def asked(url: str, statement: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(url, autocommit=True) as connection:
        cursor = connection.execute(statement)
        return cursor.fetchall() if cursor.description else []


def partitioned(url: str) -> str:
    """The database with its tables made, and then partitioned."""
    store = PostgresStore(url)
    assert list(store.keys()) == []
    store.close()
    asked(url, *PARTITION)
    return url


class TestPartitionedStore(StoreContract):
    @pytest.fixture
    def store(self, database: str) -> Iterator[Store]:
        store = PostgresStore(partitioned(database))
        yield store
        store.close()

    @pytest.fixture
    def reopened(self, database: str) -> Callable[[], Store]:
        return lambda: PostgresStore(database)


def partitions(url: str) -> dict[str, int]:
    """How many parts each partitioned table has."""
    parts = "SELECT c.relname, count(*) FROM pg_inherits JOIN pg_class c ON c.oid = inhparent AND c.relkind = 'p'"
    return dict(asked(url, f"{parts} GROUP BY c.relname"))


def tables(url: str) -> set[str]:
    """Those that hold something of a tenant."""
    of_tenants = "SELECT table_name FROM information_schema.columns WHERE column_name = 'tenant'"
    kinds = f"SELECT relname FROM pg_class WHERE NOT relispartition AND relname IN ({of_tenants})"
    return {name for (name,) in asked(url, kinds)}


def test_every_table_with_tenants_is_partitioned_and_keeps_its_keys(database: str) -> None:
    keys = "SELECT conrelid::regclass::text, pg_get_constraintdef(oid) FROM pg_constraint WHERE contype = 'p'"
    store = PostgresStore(database)
    list(store.keys())
    store.close()
    before = dict(asked(database, keys))
    partitioned(database)
    asked(database, *PARTITION)  # which has nothing left to do
    after = dict(asked(database, keys))
    assert {table: after[table] for table in before} == before
    assert partitions(database).keys() == tables(database) >= {"ctxwrap_sessions", "ctxwrap_records"}
    assert set(partitions(database).values()) == {16}


@pytest.mark.parametrize("column", ["tenant", "session"])
def test_existing_records_are_kept_and_spread_over_partitions(database: str, column: str) -> None:
    store = PostgresStore(database)
    tellers = [Teller(store, KEY._replace(**{column: name})) for name in NAMES]
    for teller in tellers:
        teller.says(f"I am {teller.key}", keeps=[item("m-1", "Ada drinks tea.", tier="core")])
    before = [[store.open(teller.key).read(stream) for stream in STREAMS] for teller in tellers]
    asked(database, PARTITION[0].replace("HASH (tenant)", f"HASH ({column})"))
    assert [[store.open(teller.key).read(stream) for stream in STREAMS] for teller in tellers] == before
    for teller in tellers:
        teller.says("And still here.")
    assert sorted(store.keys()) == sorted(teller.key for teller in tellers)
    parts = asked(database, f"SELECT {column}, count(DISTINCT tableoid) FROM ctxwrap_records GROUP BY {column}")
    assert {count for _, count in parts} == {1}
    assert len(asked(database, "SELECT DISTINCT tableoid FROM ctxwrap_records")) > 8
    store.close()


def test_turn_reads_and_writes_one_partition_of_each_table(database: str) -> None:
    store = PostgresStore(partitioned(database))
    Teller(store).says("hello")
    store.close()
    for table in tables(database):
        plan = asked(database, f"EXPLAIN SELECT 1 FROM {table} WHERE tenant = 'tenant' AND agent = 'agent'")
        assert len({name for (line,) in plan for name in re.findall(rf"{table}_\d+", line)}) == 1


def test_tables_created_and_recorded_by_hand_are_used_unchanged(database: str) -> None:
    """So that databases will do that do not take the statements that workers would send."""
    worker = f"w{secrets.token_hex(8)}"
    with psycopg.connect(database) as connection:
        connection.execute(statements.FIRST_TABLES.replace(' COLLATE "C"', "").replace("WITH (fillfactor = 50)", ""))
        connection.execute(statements.CREATE_MIGRATIONS)
        for step in MIGRATIONS:
            connection.execute(statements.NOTE_MIGRATION, {"name": step.__name__})
        connection.execute(f"CREATE ROLE {worker} LOGIN")
        connection.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO {worker}")
    store = PostgresStore(database.replace("postgres@", f"{worker}@"))
    Teller(store).says("hello", keeps=[item("m-1", "Ada drinks tea.", tier="core")])
    assert [line["content"] for line in store.open(Teller(store).key).read("messages")[0]] == ["hello", "I see."]
    store.close()
