"""Lines that break and servers that die under the store in PostgreSQL: nothing is lost, and nothing is there twice."""

import json
import os
import signal
import threading
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import count
from time import monotonic

import psycopg
import pytest

from ctxwrap.errors import StoreUnavailable
from ctxwrap.session.session import Session
from ctxwrap.stores.base import STREAMS, Outdated
from ctxwrap.stores.postgres import PostgresStore
from ctxwrap.stores.postgres.log import PostgresLog
from ctxwrap.testing import KEY, contents, record
from ctxwrap.testing.contract.concurrency import in_threads
from ctxwrap.types import SessionKey
from tests.stores.postgres_proxy import Proxy
from tests.stores.postgres_server import PostgresServer
from tests.stores.work import entry, ids

CRASHES = int(os.environ.get("CTXWRAP_TEST_PG_CRASHES", "25"))
CLIENTS = 8

COMMIT = "COMMIT\0"
"""As it is sent, and READ COMMITTED is not."""


@pytest.fixture
def log(proxy: Proxy, database: str) -> Iterator[PostgresLog]:
    """Over the line that can be cut."""
    store = PostgresStore(proxy.url(name_of(database)), patience=20)
    yield store.open(KEY)
    store.close()


def name_of(database: str) -> str:
    return database.partition("@/")[2].partition("?")[0]


def append(log: PostgresLog, text: str) -> None:
    with log.locked():
        log.append({stream: [record(text)] for stream in STREAMS})
        log.files.save("file", text.encode())
        wait = log.unsynced()
    wait()


@pytest.mark.parametrize("delivers", [True, False], ids=["done", "not done"])
def test_unanswered_commit_is_stored_once(log: PostgresLog, proxy: Proxy, database: str, delivers: bool) -> None:
    append(log, "a")
    proxy.cut(COMMIT, delivers=delivers)
    append(log, "b")
    append(log, "c")
    assert proxy.cuts == 1
    there = PostgresStore(database).open(KEY)
    for stream in STREAMS:
        assert contents(there, stream=stream) == ["a", "b", "c"]
    assert there.files.load("file") == b"c"


def test_unanswered_commit_is_recognised_after_writes_of_others(log: PostgresLog, proxy: Proxy, database: str) -> None:
    append(log, "a")
    proxy.cut(COMMIT, delivers=True, meanwhile=lambda: append(PostgresStore(database).open(KEY), "other"))
    append(log, "b")
    assert contents(log) == ["a", "b", "other"]
    append(log, "c")
    assert contents(PostgresStore(database).open(KEY)) == ["a", "b", "other", "c"]


def test_uncommitted_write_is_refused_after_writes_of_others(log: PostgresLog, proxy: Proxy, database: str) -> None:
    append(log, "a")
    proxy.cut(COMMIT, delivers=False, meanwhile=lambda: append(PostgresStore(database).open(KEY), "other"))
    with pytest.raises(StoreUnavailable, match="others wrote to the session"):
        append(log, "b")
    assert contents(log) == ["a", "other"]
    append(log, "c")
    assert contents(PostgresStore(database).open(KEY)) == ["a", "other", "c"]


@pytest.mark.parametrize("word", ["FOR UPDATE", "pos >=", "ctxwrap_files", "INSERT INTO ctxwrap_records"])
def test_transaction_continues_after_a_broken_connection(
    log: PostgresLog, proxy: Proxy, database: str, word: str
) -> None:
    append(log, "a")
    proxy.cut(word, delivers=False)
    with log.locked():
        log.append({"messages": [record("b")]})
        assert log.files.load("nothing") is None
        log.append({"messages": [record("c")]})
        assert contents(log) == ["a", "b", "c"]
        log.files.extend("grows", b"x", 0)
    assert contents(PostgresStore(database).open(KEY)) == ["a", "b", "c"]


# lines that go silent

HASTE = 3.0
"""Seconds of patience where a test waits until it is over."""


@pytest.fixture
def hasty(proxy: Proxy, database: str) -> Iterator[PostgresLog]:
    store = PostgresStore(proxy.url(name_of(database)), patience=HASTE, lifetime=3600)
    yield store.open(KEY)
    store.close()


@pytest.mark.parametrize(
    ("word", "delivers"),
    [("FOR UPDATE", False), (COMMIT, True), ("SELECT pos, body", False), ("SELECT pos, body", True)],
)
def test_statement_on_a_silent_connection_is_sent_over_another(
    hasty: PostgresLog, proxy: Proxy, database: str, word: str, delivers: bool
) -> None:
    append(hasty, "a")
    proxy.silence(word, delivers=delivers)
    began = monotonic()
    append(hasty, "b")
    assert contents(hasty) == ["a", "b"]
    assert proxy.cuts == 1
    assert HASTE / 2 < monotonic() - began < 4 * HASTE
    append(hasty, "c")
    for stream in STREAMS:
        assert contents(PostgresStore(database).open(KEY), stream=stream) == ["a", "b", "c"]


@pytest.mark.parametrize(("word", "delivers"), [("FOR UPDATE", True), (COMMIT, False)])
def test_session_locked_by_a_silent_connection_is_reported(
    hasty: PostgresLog, proxy: Proxy, database: str, word: str, delivers: bool
) -> None:
    append(hasty, "a")
    proxy.silence(word, delivers=delivers)
    with pytest.raises(StoreUnavailable, match="pg_stat_activity"):
        append(hasty, "b")
    assert contents(hasty) == ["a"]
    proxy.end_silent_lines()
    append(hasty, "b")
    for stream in STREAMS:
        assert contents(PostgresStore(database).open(KEY), stream=stream) == ["a", "b"]


def test_only_one_of_many_silent_connections_is_waited_for(hasty: PostgresLog, proxy: Proxy, database: str) -> None:
    everybody = threading.Barrier(6)

    def work(name: int) -> None:
        with hasty._store.open(KEY._replace(session=str(name))).locked():
            everybody.wait(60)

    in_threads(6, work)
    proxy.silence_all()
    began = monotonic()
    append(hasty, "a")
    assert monotonic() - began < 2 * HASTE
    assert contents(PostgresStore(database).open(KEY)) == ["a"]


def test_unresponsive_server_is_reported(proxy: Proxy, database: str) -> None:
    store = PostgresStore(f"{proxy.url(name_of(database))}&connect_timeout=2", patience=2 * HASTE)
    log = store.open(KEY)
    append(log, "a")
    proxy.is_deaf = True
    proxy.silence_all()
    began = monotonic()
    with pytest.raises(StoreUnavailable, match="Check that the server runs"):
        append(log, "b")
    assert monotonic() - began < 5 * HASTE
    proxy.is_deaf = False
    append(log, "c")
    assert contents(log) == ["a", "c"]
    store.close()


DAWDLING = """
CREATE FUNCTION dawdle() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(2.5); RETURN NULL; END';
CREATE TRIGGER dawdling AFTER INSERT ON ctxwrap_records EXECUTE FUNCTION dawdle()
"""


def test_response_timeout_grows_with_the_amount_written(database: str) -> None:
    store = PostgresStore(database, patience=0.3)
    log = store.open(KEY)
    log.read("messages")
    with psycopg.connect(database) as connection:
        connection.execute(DAWDLING)
    with log.locked():
        log.append({"messages": [record("a")] * 2000})
    assert len(contents(log)) == 2000
    with pytest.raises(StoreUnavailable), log.locked():
        log.append({"messages": [record("b")]})
    store.close()


def test_session_rereads_the_log_after_a_commit_of_unknown_outcome(
    log: PostgresLog, proxy: Proxy, database: str
) -> None:
    session, now = Session(KEY, log), datetime.now(UTC)

    def say(turn: str, text: str) -> None:
        start = {"type": "start", "run": turn, "runtime": {"round": 1, "datetime": "", "startup_at": ""}, "ctx": {}}
        with session.locked():
            session.append(turn, [{"role": "user", "content": text, "ctx": {}}], [start], now, part="o")

    say("t1", "a")
    proxy.cut(COMMIT, delivers=False, meanwhile=lambda: append(PostgresStore(database).open(KEY), "other"))
    with pytest.raises(StoreUnavailable):
        say("t2", "b")
    say("t2", "b")
    found = PostgresStore(database).open(KEY).read("messages")[0]
    assert [line["content"] for line in found] == ["a", "other", "b"]
    assert found[-1]["ctx"]["seq"] == 3


def test_turn_end_is_retried_until_the_server_stores_it(log: PostgresLog, proxy: Proxy, database: str) -> None:
    session, now = Session(KEY, log), datetime.now(UTC)
    start = {"type": "start", "run": "t1", "runtime": {"round": 1, "datetime": "", "startup_at": ""}, "ctx": {}}
    answer = {"role": "assistant", "content": "b", "ctx": {}}
    done = {"type": "done", "run": "t1", "status": "ok", "ctx": {}}
    with session.locked():
        session.append("t1", [{"role": "user", "content": "a", "ctx": {}}], [start], now, part="o")
    session.defer_write("t1", lambda: ([answer], [done], now))
    proxy.cut(COMMIT, delivers=False, meanwhile=lambda: append(PostgresStore(database).open(KEY), "other"))
    with pytest.raises(StoreUnavailable), session.locked():
        assert session.state.turns.is_over("t1")
    for _ in range(2):
        with session.locked():
            assert session.state.turns.is_over("t1")
    found = PostgresStore(database).open(KEY).read("messages")[0]
    assert [line["content"] for line in found] == ["a", "other", "b"]


def test_log_has_a_new_edition_after_the_server_lost_records(database: str) -> None:
    log = PostgresStore(database).open(KEY)
    for text in ("a", "b", "c"):
        append(log, text)
    with log.locked():
        log.read("messages")
    edition = log.edition()
    with psycopg.connect(database) as connection:  # as after a failover to a replica that was behind
        connection.execute("DELETE FROM ctxwrap_records WHERE pos = 3")
        connection.execute("UPDATE ctxwrap_sessions SET messages = 2, events = 2, version = 2")
    append(PostgresStore(database).open(KEY), "other")
    with log.locked():
        assert log.edition() != edition
        assert contents(log) == ["a", "b", "other"]
    assert PostgresStore(database).open(KEY).edition() != edition


def test_server_crashes_under_writers_lose_and_duplicate_nothing(postgres: PostgresServer) -> None:
    with PostgresServer(postgres.binaries) as server, Writers(server.url()) as writers:
        writers.hear(10)
        for _ in range(CRASHES):
            server.crash()
            server.start()
            writers.hear(2 * CLIENTS)
        writers.end()
        writers.check(server.url())


def test_failover_under_writers_loses_and_duplicates_nothing(postgres: PostgresServer) -> None:
    with PostgresServer(postgres.binaries) as server, server.standby() as standby:
        both = f"postgresql://postgres@/postgres?host={server.sockets},{standby.sockets}"
        with Writers(f"{both}&target_session_attrs=read-write") as writers:
            writers.hear(4 * CLIENTS)
            server.crash(signal.SIGKILL)
            standby.promote()
            writers.hear(4 * CLIENTS)
            writers.end()
        writers.check(standby.url())


class Writers:
    """Processes that write, each to a session of all and to one of its own, and tell what was acknowledged."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._acked: list[str] = []

    def __enter__(self) -> "Writers":
        reading, self._telling = os.pipe()
        self._told = os.fdopen(reading, "rb")
        self._processes = [self._started(name) for name in range(CLIENTS)]
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            os.kill(process, signal.SIGKILL)
            os.waitpid(process, 0)
        self._processes = []
        self._told.close()

    def hear(self, acknowledgements: int) -> None:
        self._acked += [json.loads(self._told.readline()) for _ in range(acknowledgements)]

    def end(self) -> None:
        for process in self._processes:
            os.kill(process, signal.SIGKILL)
        statuses, self._processes = [os.waitpid(process, 0)[1] for process in self._processes], []
        os.close(self._telling)
        self._acked += [json.loads(line) for line in self._told if line.endswith(b"\n")]
        assert [os.WTERMSIG(status) for status in statuses] == [signal.SIGKILL] * CLIENTS, "no writer gave up"

    def check(self, url: str) -> None:
        store = PostgresStore(url)
        assert len({each.partition("-")[0] for each in self._acked}) > 1, "several wrote"
        self._check(store.open(KEY), self._acked)
        for name in range(CLIENTS):
            mine = [each for each in self._acked if each.startswith(f"{name}-")]
            self._check(store.open(of(name)), mine)
            found = [each for each in ids(store.open(KEY).read("messages")[0]) if each.startswith(f"{name}-")]
            assert found == [f"{name}-{number}" for number in range(len(found))]

    def _check(self, log: PostgresLog, acked: list[str]) -> None:
        for stream in STREAMS:
            found = ids(log.read(stream)[0])
            assert [each for each, times in Counter(found).items() if times > 1] == []
            assert set(acked) - set(found) == set()
            assert [line.fault for line in log.lines(stream) if line.fault] == []

    def _started(self, name: int) -> int:
        process = os.fork()
        if process:
            return process
        try:
            store = PostgresStore(self._url, patience=60)
            shared, own = store.open(KEY), store.open(of(name))
            for number in count():
                write(own, f"{name}-{number}", redoable=True)
                write(shared, f"{name}-{number}")
                os.write(self._telling, json.dumps(f"{name}-{number}").encode() + b"\n")
        finally:
            os._exit(1)


def of(name: int) -> SessionKey:
    return KEY._replace(session=f"of-{name}")


def write(log: PostgresLog, id: str, *, redoable: bool = False) -> None:
    """Once: who is told that it was not written looks before writing again."""
    while True:
        try:
            with log.locked(redoable=redoable):
                if id not in ids(log.read("messages")[0]):
                    log.append({stream: [entry(id, 200)] for stream in STREAMS}, lasting=True)
                wait = log.unsynced()
            return wait()
        except Outdated:
            redoable = False
        except StoreUnavailable as error:
            if "others wrote" not in str(error):
                raise
