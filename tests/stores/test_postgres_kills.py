"""Servers that are killed and workers that are stopped under chats: no acknowledged answer is lost or doubled."""

import os
import random
import re
import signal
import time
from collections import Counter
from collections.abc import Iterator

import psycopg
import pytest

import ctxwrap
from ctxwrap.session.lookup import open_existing
from ctxwrap.stores.postgres import PostgresStore
from ctxwrap.testing import Gate
from ctxwrap.testing.practice import Answer, Ask, Provider
from ctxwrap.types import SessionKey
from tests.stores.postgres_server import PostgresServer
from tests.stores.talkers import DEADLINE, Outcome, Talkers
from tests.support import Told

KILLS = int(os.environ.get("CTXWRAP_TEST_PG_KILLS", "20"))
WORKERS = 8
SAID = re.compile(r"said-\d+-\d+\.")


def replied(said: str) -> str:
    return f"An answer to {said} {' '.join(['word'] * 12)}"


def reply(ask: Ask) -> Answer:
    (said,) = SAID.findall(ask.messages[-1][1])[:1]
    return Told(replied(said))(ask)


@pytest.fixture
def server(postgres: PostgresServer) -> Iterator[PostgresServer]:
    """One of the test's own."""
    with PostgresServer(postgres.binaries) as server:
        yield server


def wait_until_one_is_taken_for_dead(url: str) -> None:
    until = time.monotonic() + DEADLINE
    with psycopg.connect(url, autocommit=True) as connection:
        asks = "SELECT 1 FROM ctxwrap_writers WHERE expires < statement_timestamp()"
        while not connection.execute(asks).fetchall():
            assert time.monotonic() < until
            time.sleep(0.02)  # the server has no event for it


def check(url: str, outcomes: list[Outcome]) -> None:
    """Whether what callers were told is what the log holds."""
    store = PostgresStore(url)
    sessions = {outcome.session for outcome in outcomes}
    for name in sorted(sessions):
        key = SessionKey("default", "default", name)
        session = open_existing(key, store)
        with session.locked():
            held = Counter(kept.message.text for kept in session.state.branch.history(0))
        mine = [outcome for outcome in outcomes if outcome.session == name]
        lost = [each for each in mine if each.is_saved and not (held[each.said] and held[each.answer])]
        assert lost == []
        assert [text for text, times in held.items() if times > 1] == []
        ids = Counter(record["ctx"]["id"] for record in store.open(key).read("messages")[0])
        assert [id for id, times in ids.items() if times > 1] == []
        findings = ctxwrap.verify(name, store=store).findings  # files may be behind the log of those who were killed
        assert [found for found in findings if found.severity not in ("note", "behind")] == []
    store.close()


def test_records_acknowledged_during_server_kills_are_in_the_log_once(
    server: PostgresServer, provider: Provider
) -> None:
    provider.answer = reply
    chance = random.Random(1)
    with Talkers(provider.openai_url, server.url(), WORKERS) as talkers:
        while len({each.said.split("-")[1] for each in talkers.outcomes if each.is_saved}) < WORKERS:
            talkers.hear()  # the server knows a worker since its first turn
        for number in range(KILLS):
            stopped = talkers.pids[number % WORKERS] if number % 5 == 1 else 0
            if stopped:
                talkers.send(signal.SIGSTOP, stopped)
            server.crash(signal.SIGKILL if number % 2 else signal.SIGQUIT)
            while number % 5 == 4 and talkers.hear()[0].is_saved:
                pass  # it stays away for longer than anybody waits
            server.start()
            talkers.hear(chance.randrange(1, 2 * WORKERS))
            if stopped:
                wait_until_one_is_taken_for_dead(server.url())
                talkers.hear(2)
                talkers.send(signal.SIGCONT, stopped)
        talkers.hear(2 * WORKERS)
        talkers.end()
    saved = [outcome for outcome in talkers.outcomes if outcome.is_saved]
    assert len(saved) > 2 * KILLS
    assert all(outcome.answer == replied(outcome.said) for outcome in saved)
    check(server.url(), talkers.outcomes)


def test_reply_of_a_worker_stopped_during_its_stream_is_saved_once(server: PostgresServer, provider: Provider) -> None:
    gate = Gate(before=3)
    provider.answer = lambda ask: Told(replied("said-0-0."), pause=gate)(ask)
    with Talkers(provider.openai_url, server.url(), 1) as talkers:
        gate.wait()
        talkers.send(signal.SIGSTOP)
        wait_until_one_is_taken_for_dead(server.url())
        with Talkers(provider.openai_url, server.url(), 1) as others:
            provider.answer = Told("Yes.")
            others.hear()
            others.end()
        talkers.send(signal.SIGTERM)
        talkers.send(signal.SIGCONT)
        gate.open()
        talkers.end()
    (outcome,) = talkers.outcomes
    assert outcome == ("shared-0", "said-0-0.", replied("said-0-0."), True, "")
    check(server.url(), [outcome])
