"""The store in PostgreSQL keeps the contract, on a real server, for many processes and tenants."""

import ast
import gc
import logging
import multiprocessing
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from multiprocessing.context import ForkContext
from pathlib import Path
from typing import Any

import psycopg
import pytest

import ctxwrap
from ctxwrap.errors import SettingsError, StoreUnavailable
from ctxwrap.stores import postgres
from ctxwrap.stores.base import Store
from ctxwrap.stores.encrypted import EncryptedStore
from ctxwrap.stores.postgres import PostgresStore, connection, statements
from ctxwrap.stores.postgres.connection import Connection
from ctxwrap.testing import KEY, StoreContract, contents, numbered_record, record
from tests.session.telling import Teller, item

FORK: ForkContext = multiprocessing.get_context("fork")
TURNS = int(os.environ.get("CTXWRAP_TEST_PG_TURNS", "30"))
TIMEOUT = 300
STATEMENTS = {name: value for name, value in vars(statements).items() if name.isupper() and isinstance(value, str)}


class TestPostgresStore(StoreContract):
    @pytest.fixture
    def store(self, database: str) -> Iterator[Store]:
        store = PostgresStore(database)
        yield store
        store.close()

    @pytest.fixture
    def reopened(self, database: str) -> Callable[[], Store]:
        return lambda: PostgresStore(database)


class TestEncryptedPostgresStore(StoreContract):
    @pytest.fixture
    def store(self, database: str) -> Iterator[Store]:
        store = PostgresStore(database)
        yield EncryptedStore(store, "11" * 32)
        store.close()


@pytest.fixture
def store(database: str) -> Iterator[PostgresStore]:
    store = PostgresStore(database)
    yield store
    store.close()


def asked(url: str, statement: str, *values: Any) -> list[tuple[Any, ...]]:
    with psycopg.connect(url, autocommit=True) as connection:
        cursor = connection.execute(statement, values)  # what a test asks of the tables
        return cursor.fetchall() if cursor.description else []


def run_all(count: int, work: Callable[[int], None]) -> None:
    """In so many processes at once."""
    processes = [FORK.Process(target=work, args=(name,)) for name in range(count)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(TIMEOUT)
    assert [process.exitcode for process in processes] == [0] * count


# tables


def test_eight_workers_starting_together_create_the_tables_once(database: str) -> None:
    everybody = FORK.Barrier(8)

    def start(name: int) -> None:
        everybody.wait(60)
        log = PostgresStore(database).open(KEY._replace(session=str(name)))
        with log.locked():
            log.append({"messages": [record(str(name))]})

    run_all(8, start)
    assert asked(database, "SELECT name FROM ctxwrap_migrations") == [("first_tables",)]
    assert sorted(PostgresStore(database).sessions("tenant", "agent")) == [str(name) for name in range(8)]


def test_database_of_a_newer_ctxwrap_is_left_unchanged(database: str) -> None:
    PostgresStore(database).open(KEY).read("messages")
    asked(database, "INSERT INTO ctxwrap_migrations (name) VALUES ('of_next_year')")
    with pytest.raises(StoreUnavailable, match=r"newer ctxwrap \(of_next_year\): upgrade"):
        PostgresStore(database).open(KEY).read("messages")


def test_failed_migration_step_is_rolled_back(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(connection: Connection) -> None:
        connection.execute("CREATE TABLE half_done (x integer)")
        raise ZeroDivisionError

    steps = list(connection.MIGRATIONS)
    monkeypatch.setattr(connection, "MIGRATIONS", [*steps, broken])
    with pytest.raises(ZeroDivisionError):
        PostgresStore(database).open(KEY).read("messages")
    tables = asked(database, "SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
    assert tables == []
    monkeypatch.setattr(connection, "MIGRATIONS", steps)
    assert PostgresStore(database).open(KEY).read("messages") == ([], 0)


def test_tenant_is_the_first_column_of_every_key(database: str) -> None:
    PostgresStore(database).open(KEY).read("messages")
    keys = asked(
        database,
        "SELECT c.relname, a.attname FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid "
        "JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = i.indkey[0] WHERE c.relname LIKE 'ctxwrap%%'",
    )
    without = {"ctxwrap_writers", "ctxwrap_migrations"}  # which hold nothing of anybody
    assert {table for table, first in keys if first != "tenant"} == without
    assert len({table for table, _ in keys}) == 8
    types = asked(
        database, "SELECT DISTINCT data_type FROM information_schema.columns WHERE table_name LIKE 'ctxwrap%%'"
    )
    assert {"json", "jsonb"} & {name for (name,) in types} == set()


@pytest.mark.parametrize("name", STATEMENTS)
def test_every_statement_about_a_session_names_its_tenant(name: str) -> None:
    statement = STATEMENTS[name]
    tables = re.findall(r"(?:FROM|JOIN|UPDATE|USING|INTO) ctxwrap_(\w+)", statement)
    about = [table for table in tables if table not in ("writers", "migrations")]
    if name == "ALL_KEYS" or not about:
        return
    assert "%(tenant)s" in statement
    assert statement.count("%(tenant)s") >= len(re.findall(r"(?:FROM|UPDATE|USING) ctxwrap_", statement)) - (
        "INSERT INTO" in statement and "DO UPDATE" in statement
    )


def test_sql_statements_are_never_concatenated() -> None:
    """What is executed is a constant of one module, and none of its text comes from anywhere else."""
    words = re.compile(r"\b(SELECT|INSERT INTO|UPDATE|DELETE FROM|CREATE|DROP|ALTER)\b")
    for path in Path(postgres.__file__).parent.glob("*.py"):
        tree = ast.parse(path.read_text())
        for node in ast.walk(tree):
            if isinstance(node, ast.JoinedStr):
                assert not words.search(ast.unparse(node)), path
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(".execute"):
                assert ast.unparse(node.args[0]).startswith(("sql.", "each.sql")), ast.unparse(node)
            if path.name != "statements.py" and isinstance(node, ast.Constant) and isinstance(node.value, str):
                assert not re.match(r"\s*(SELECT|INSERT|UPDATE|DELETE|CREATE) ", node.value), path


# many processes


def test_eight_processes_take_turns_in_one_session(database: str) -> None:
    def chat(name: int) -> None:
        teller = Teller(PostgresStore(database, patience=60))
        teller.turns = 1000 * name
        for number in range(TURNS):
            teller.says(f"{name}-{number}", keeps=[item(f"m-{name}-{number}", f"Fact {name} {number}", tier="core")])

    run_all(8, chat)
    store = PostgresStore(database)
    log = store.open(Teller(store).key)
    messages, events = (log.read(stream)[0] for stream in ("messages", "events"))
    assert [line["ctx"]["seq"] for line in messages] == list(range(1, 16 * TURNS + 1))
    assert [line["ctx"]["seq"] for line in events] == list(range(1, len(events) + 1))
    assert len({line["ctx"]["id"] for line in messages}) == len(messages)
    said = [line["content"] for line in messages if line["role"] == "user"]
    for name in range(8):
        assert [text for text in said if text.startswith(f"{name}-")] == [f"{name}-{number}" for number in range(TURNS)]
    operations = [operation for event in events for operation in event.get("operations", ())]
    added = [operation["id"] for operation in operations if operation["kind"] == "add"]
    assert sorted(added) == sorted(f"m-{name}-{number}" for name in range(8) for number in range(TURNS))
    store.close()


def test_lease_expires_with_its_process_and_not_before(database: str) -> None:
    reading, writing = os.pipe()
    process = os.fork()
    if process == 0:
        store = PostgresStore(database, lifetime=0.8)
        assert store.open(KEY).lease() is not None
        os.write(writing, store.open(KEY).writer.encode())
        threading.Event().wait()
    log = PostgresStore(database, lifetime=0.8).open(KEY)
    writer = os.read(reading, 100).decode()
    renewed = {asked(database, "SELECT expires FROM ctxwrap_leases")[0] for _ in _seconds(2)}
    assert len(renewed) > 2
    assert log.lease() is None
    assert log.is_alive(writer)
    os.kill(process, 9)
    os.waitpid(process, 0)
    assert any(log.lease() is not None for _ in _seconds(30))
    assert not log.is_alive(writer)
    assert asked(database, "SELECT fence FROM ctxwrap_leases") == [(2,)]


def _seconds(count: float) -> Iterator[None]:
    """Moments, for so long; each is as long as whatever is asked in it."""
    from time import monotonic

    until = monotonic() + count
    while monotonic() < until:
        yield


def test_late_release_of_an_expired_lease_keeps_the_new_holder(database: str) -> None:
    log = PostgresStore(database).open(KEY)
    late = log.lease()
    asked(database, "UPDATE ctxwrap_leases SET expires = '-infinity'")
    mine = PostgresStore(database).open(KEY).lease()
    assert late is not None
    assert mine is not None
    late()
    assert log.lease() is None
    mine()
    assert log.lease() is not None


def test_freed_store_ends_its_heartbeat(database: str) -> None:
    log = PostgresStore(database).open(KEY)
    give_back = log.lease()
    assert give_back is not None
    give_back()
    assert log.is_alive(log.writer)
    assert asked(database, "SELECT 1 FROM ctxwrap_writers") == [(1,)]
    del log, give_back
    gc.collect()
    assert asked(database, "SELECT 1 FROM ctxwrap_writers") == []
    assert PostgresStore(database).open(KEY).lease() is not None


def test_no_connection_is_held_between_transactions(store: PostgresStore, database: str) -> None:
    logs = [store.open(KEY._replace(session=str(number))) for number in range(20)]
    given = [log.lease() for log in logs]
    for log in logs:
        with log.locked():
            log.append({"messages": [record("a")]})
    assert None not in given
    assert [contents(log) for log in logs] == [["a"]] * 20
    states = asked(database, "SELECT state FROM pg_stat_activity WHERE application_name = 'ctxwrap'")
    assert len(states) <= 8
    locks = asked(database, "SELECT 1 FROM pg_locks WHERE locktype = 'advisory'")
    assert locks == []


# damage


def test_changed_row_is_reported_and_hides_no_other_row(
    store: PostgresStore, database: str, caplog: pytest.LogCaptureFixture
) -> None:
    log = store.open(KEY)
    with log.locked():
        log.append({"messages": [numbered_record(number) for number in range(1, 5)]})
    asked(database, "UPDATE ctxwrap_records SET body = overlay(body placing 'X' from 15) WHERE pos = 2")
    asked(database, "DELETE FROM ctxwrap_records WHERE pos = 3")
    with caplog.at_level(logging.ERROR, "ctxwrap"):
        assert contents(log) == ["number 1", "number 4"]
    assert "record 2 of messages is damaged" in caplog.text
    assert [line.fault for line in log.lines("messages")] == [
        "",
        "its checksum is wrong",
        "the line before it is missing",
    ]
    assert log.pick("messages", range(9)).keys() == {1, 4}


def test_removed_files_leave_no_rows(store: PostgresStore, database: str) -> None:
    log = store.open(KEY)
    for number in range(3):
        with log.locked():
            log.files.save("a", b"x" * number)
            log.files.link("a", f"b{number}")
            log.files.extend("c", b"x", number)
    with log.locked():
        for entry in log.files.entries():
            log.files.remove(entry.name)
    assert asked(database, "SELECT 1 FROM ctxwrap_pieces UNION SELECT 1 FROM ctxwrap_files") == []


# errors


def test_password_is_in_no_error_message(caplog: pytest.LogCaptureFixture) -> None:
    url = "postgresql://ada:sw0rdfish@127.0.0.1:1/home?connect_timeout=1"
    with pytest.raises(
        StoreUnavailable, match=r"postgresql://ada@127\.0\.0\.1:1/home .* Check that the server runs"
    ) as told:
        PostgresStore(url, patience=0.3).open(KEY).read("messages")
    for bad in ("postgresql://ada:sw0rdfish%zz@host/x", "mysql://ada:sw0rdfish@host/x"):
        with pytest.raises(SettingsError) as refused:
            ctxwrap.open_store(bad)
        assert "sw0rdfish" not in f"{refused.value!r} {refused.value.__cause__!r} {refused.value.__context__!r}"
    assert "sw0rdfish" not in f"{told.value!r} {told.value.__cause__!r} {caplog.text}"


def test_error_without_the_extra_names_the_extra() -> None:
    code = (
        "import sys; sys.modules['psycopg'] = None; import ctxwrap;"
        "ctxwrap.open_store('postgresql://ada:sw0rdfish@host/x')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "pip install 'ctxwrap[postgres]'" in done.stderr
    assert "sw0rdfish" not in done.stderr.replace(code, "")


def test_error_says_that_all_connections_are_in_use(database: str) -> None:
    store = PostgresStore(database, connections=1, patience=0.3)
    with store.open(KEY).locked(), pytest.raises(StoreUnavailable, match="all 1 connections of this process"):
        store.open(KEY._replace(session="other")).read("messages")
    assert store.open(KEY._replace(session="other")).read("messages") == ([], 0)


def test_error_says_that_the_server_is_a_read_only_replica(database: str) -> None:
    PostgresStore(database).open(KEY).read("messages")
    name = database.partition("@/")[2].partition("?")[0]
    asked(database, f'ALTER DATABASE "{name}" SET default_transaction_read_only = on')
    log = PostgresStore(database, patience=0.3).open(KEY)
    assert log.read("messages") == ([], 0)
    with pytest.raises(StoreUnavailable, match="target_session_attrs=read-write"):
        log.locked().__enter__()


def test_error_says_that_the_session_is_locked(database: str) -> None:
    other = PostgresStore(database, patience=0.3).open(KEY)
    with PostgresStore(database).open(KEY).locked(), pytest.raises(StoreUnavailable, match="pg_stat_activity"):
        other.locked().__enter__()
