"""Turns of sessions in PostgreSQL: few words to the database, and right when others wrote meanwhile."""

import logging
import threading
from collections.abc import Iterator
from typing import Any

import openai
import pytest

import ctxwrap
from ctxwrap.errors import StoreUnavailable
from ctxwrap.stores.base import STREAMS, Outdated
from ctxwrap.stores.encrypted import EncryptedStore
from ctxwrap.stores.postgres import PostgresStore
from ctxwrap.stores.postgres.log import PostgresLog
from ctxwrap.testing import KEY, contents, record
from ctxwrap.testing.practice import Provider
from tests.stores.postgres_proxy import Proxy
from tests.stores.test_encrypted_chats import ANSWER, Model, say
from tests.stores.test_encrypted_chats import KEY as CHAT

COMMIT = "COMMIT\0"
AT_ONCE = "UPDATE ctxwrap_sessions"
"""The first statement of an optimistic transaction."""


@pytest.fixture
def client(provider: Provider) -> openai.OpenAI:
    provider.answer = Model()
    return openai.OpenAI(api_key="x", base_url=provider.openai_url, max_retries=0)


@pytest.fixture
def store(proxy: Proxy, database: str) -> Iterator[PostgresStore]:
    """A store over the proxy, with no heartbeat during the test."""
    store = PostgresStore(url_of(proxy, database), lifetime=3600)
    yield store
    store.close()


def url_of(proxy: Proxy, database: str) -> str:
    return proxy.url(database.partition("@/")[2].partition("?")[0])


def trips_of(proxy: Proxy, wrapped: Any, text: str) -> int:
    before = proxy.trips
    say(wrapped, text)
    return proxy.trips - before


def is_whole(store: PostgresStore, *said: str) -> bool:
    """Whether these texts, and nothing else, were said and answered, one after the other."""
    messages = store.open(CHAT).read("messages")[0]
    return [line["content"] for line in messages] == [text for each in said for text in (each, ANSWER)]


# few words


@pytest.mark.parametrize("on_busy", ["wait", "interleave"])
def test_sole_worker_of_a_session_needs_two_round_trips_a_turn(
    client: openai.OpenAI, proxy: Proxy, store: PostgresStore, on_busy: str
) -> None:
    wrapped = ctxwrap.wrap(client, store=store, session="s", on_busy=on_busy, context_document=False)
    counts = [trips_of(proxy, wrapped, f"hello {number}") for number in range(8)]
    assert counts[4:] == [2] * 4
    assert is_whole(store, *(f"hello {number}" for number in range(8)))


def test_alternating_workers_need_three_round_trips_a_turn(
    client: openai.OpenAI, proxy: Proxy, store: PostgresStore, database: str
) -> None:
    stores = [store, PostgresStore(url_of(proxy, database), lifetime=3600)]
    workers = [ctxwrap.wrap(client, store=each, session="s", context_document=False) for each in stores]
    counts = [trips_of(proxy, workers[number % 2], f"hello {number}") for number in range(10)]
    assert counts[6:] == [3] * 4
    assert is_whole(store, *(f"hello {number}" for number in range(10)))
    stores[1].close()


# others


def worker(client: openai.OpenAI, store: PostgresStore, **settings: Any) -> Any:
    """One that is sure of the session, since nobody else wrote to it for a while."""
    wrapped = ctxwrap.wrap(client, store=store, session="s", context_document=False, **settings)
    for number in range(4):
        say(wrapped, f"hello {number}")
    return wrapped


HELLOS = [f"hello {number}" for number in range(4)]


@pytest.mark.parametrize("on_busy", ["wait", "interleave"])
def test_optimistic_worker_sees_messages_of_another_worker(
    client: openai.OpenAI, store: PostgresStore, database: str, on_busy: str, caplog: pytest.LogCaptureFixture
) -> None:
    mine = worker(client, store, on_busy=on_busy)
    other = ctxwrap.wrap(client, store=PostgresStore(database), session="s", on_busy=on_busy)
    with caplog.at_level(logging.WARNING):
        say(other, "My name is Ada.")
        say(mine, "and mine is Bob")
        say(other, "I see.")
        say(mine, "So do I.")
    assert caplog.messages == []
    assert is_whole(store, *HELLOS, "My name is Ada.", "and mine is Bob", "I see.", "So do I.")
    assert not ctxwrap.verify("s", store=store).findings


def test_optimistic_worker_waits_for_a_turn_of_another_worker(
    client: openai.OpenAI, provider: Provider, store: PostgresStore, database: str
) -> None:
    mine = worker(client, store, busy_timeout=60)
    other = ctxwrap.wrap(client, store=PostgresStore(database), session="s", context_document=False)
    message: Any = {"role": "user", "content": "first"}
    stream = other.chat.completions.create(model="practice", messages=[message], stream=True)
    thread = threading.Thread(target=say, args=(mine, "second"))
    thread.start()
    leases = PostgresStore(database).open(CHAT)
    assert leases.lease() is None
    said = "".join(chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices)
    thread.join(60)
    assert said == ANSWER
    assert is_whole(store, *HELLOS, "first", "second")
    free = leases.lease()
    assert free is not None
    free()


def test_turn_end_is_written_after_writes_of_others(client: openai.OpenAI, store: PostgresStore, database: str) -> None:
    mine = worker(client, store)
    message: Any = {"role": "user", "content": "last"}
    stream = mine.chat.completions.create(model="practice", messages=[message], stream=True)
    other = PostgresStore(database).open(CHAT)
    with other.locked():
        other.files.save("notes", b"something")
    assert "".join(chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices) == ANSWER
    assert is_whole(store, *HELLOS, "last")
    ctxwrap.rebuild("s", store=store)
    assert other.files.load("notes") == b"something"


# lines that break


def sure(store: PostgresStore) -> PostgresLog:
    log = store.open(KEY)
    for text in "abc":
        add(log, text)
    return log


def add(log: PostgresLog, text: str) -> None:
    with log.locked(redoable=True):
        log.append({stream: [record(text)] for stream in STREAMS})
        log.files.save("file", text.encode())


@pytest.mark.parametrize("delivers", [True, False], ids=["done", "not done"])
def test_optimistic_transaction_without_an_answer_is_stored_once(
    store: PostgresStore, proxy: Proxy, database: str, delivers: bool
) -> None:
    log = sure(store)
    proxy.cut(AT_ONCE, delivers=delivers)
    add(log, "d")
    add(log, "e")
    assert proxy.cuts == 1
    there = PostgresStore(database).open(KEY)
    for stream in STREAMS:
        assert contents(there, stream=stream) == list("abcde")
    assert there.files.load("file") == b"e"


@pytest.mark.parametrize("asks", [True, False], ids=["asks", "asks nothing"])
def test_outdated_transaction_leaves_nothing(store: PostgresStore, database: str, asks: bool) -> None:
    log, other = sure(store), PostgresStore(database).open(KEY)
    add(other, "other")
    with pytest.raises(Outdated), log.locked(redoable=True):  # noqa: PT012
        log.append({"messages": [record("d")]})
        if asks:
            log.files.load("something")
    assert contents(other) == ["a", "b", "c", "other"]
    add(log, "d")
    assert contents(other) == ["a", "b", "c", "other", "d"]
    assert log.files.load("file") == b"d"


def test_transaction_that_lost_its_connection_before_others_wrote_may_be_redone(
    store: PostgresStore, proxy: Proxy, database: str
) -> None:
    log, other = sure(store), PostgresStore(database).open(KEY)
    proxy.cut(AT_ONCE, delivers=False, meanwhile=lambda: add(other, "other"))
    with pytest.raises(Outdated):
        add(log, "d")
    add(log, "d")
    assert contents(other) == ["a", "b", "c", "other", "d"]


def test_encryption_key_that_was_not_committed_is_not_used(proxy: Proxy, database: str) -> None:
    below = PostgresStore(url_of(proxy, database), patience=0.5)
    log = EncryptedStore(below, "11" * 32).open(KEY)
    proxy.cut(COMMIT, delivers=False, meanwhile=proxy.__exit__)
    with pytest.raises(StoreUnavailable), log.locked():
        log.append({"messages": [record("lost, and said to be")]})
    below.close()
    proxy.place.joinpath(".s.PGSQL.5432").unlink()
    with Proxy(proxy._server, proxy.place), log.locked():
        log.append({"messages": [record("kept")]})
    assert contents(EncryptedStore(PostgresStore(database), "11" * 32).open(KEY)) == ["kept"]


def test_prefetched_files_are_valid_only_until_the_next_write(store: PostgresStore, database: str) -> None:
    log, other = store.open(KEY), PostgresStore(database).open(KEY)
    with log.locked():
        assert log.files.load("x") is None
    add(other, "other")
    with log.locked():
        assert log.lease() is not None
        assert log.files.load("x") is None
        log.files.extend("x", b"1", 0)
    for number in range(2, 5):
        with log.locked(redoable=True):
            log.files.extend("x", str(number).encode(), number - 1)
        with log.locked(redoable=True):
            assert log.files.load("x") == b"1234"[:number]
            assert [entry.name for entry in log.files.entries()] == ["file", "x"]


def test_optimistic_transaction_has_a_lock_timeout(database: str) -> None:
    store, other = PostgresStore(database, patience=0.5), PostgresStore(database).open(KEY)
    log = sure(store)
    with other.locked(), pytest.raises(StoreUnavailable, match="pg_stat_activity"):
        add(log, "d")
    add(log, "e")
    assert contents(other) == ["a", "b", "c", "e"]
    store.close()


def test_turn_whose_start_was_not_committed_has_no_end(
    client: openai.OpenAI, store: PostgresStore, proxy: Proxy, database: str
) -> None:
    wrapped = ctxwrap.wrap(client, store=store, session="s", context_document=False)
    other = ctxwrap.wrap(client, store=PostgresStore(database), session="s", context_document=False)
    say(wrapped, "one")
    say(other, "two")
    proxy.cut(COMMIT, delivers=False, meanwhile=lambda: say(other, "three"))
    reply = say(wrapped, "lost, and told to be")
    assert ctxwrap.turn_of(reply).report.not_saved == ("request", "reply")
    say(wrapped, "four")
    assert is_whole(store, "one", "two", "three", "four")
    assert [finding for finding in ctxwrap.verify("s", store=store).findings if finding.severity != "note"] == []
