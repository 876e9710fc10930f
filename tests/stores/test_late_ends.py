"""A worker that is taken for dead and is not: its answer is in the log, once, and its turn ended as it did."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import openai
import psycopg
import pytest

import ctxwrap
from ctxwrap.inspect import cost_of, session_details, turn_details
from ctxwrap.session.lookup import open_existing
from ctxwrap.stores.base import Store
from ctxwrap.stores.files.store import FileStore
from ctxwrap.stores.postgres import PostgresStore
from ctxwrap.testing.practice import Provider
from ctxwrap.types import SessionKey
from tests.support import Told

KEY = SessionKey("default", "default", "s")
LONG = " ".join(f"word-{number}" for number in range(450))


class Place:
    """A store that several workers open, and that takes all who wrote so far for dead when it is told to."""

    def __init__(self, opened: Callable[[], Store], bury: Callable[[], object]) -> None:
        self.opened, self.bury = opened, bury


@pytest.fixture(params=["files", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    if request.param == "files":
        yield Place(lambda: FileStore(tmp_path), lambda: [path.unlink() for path in tmp_path.glob(".writers/*")])
        return
    url = request.getfixturevalue("database")

    def bury() -> None:
        with psycopg.connect(url) as connection:
            for table in ("ctxwrap_writers", "ctxwrap_leases"):
                connection.execute(f"UPDATE {table} SET expires = statement_timestamp() - interval '1 second'")

    yield Place(lambda: PostgresStore(url, lifetime=3600), bury)


@pytest.fixture
def worker(place: Place, provider: Provider) -> Callable[[], Any]:
    """A client in a store of its own, as another process has it."""

    def wrapped() -> Any:
        bare = openai.OpenAI(api_key="k", base_url=provider.openai_url, max_retries=0)
        return ctxwrap.wrap(bare, store=place.opened(), session="s", on_busy="interleave", context_document=False)

    return wrapped


def begun(client: Any, provider: Provider, *, pieces: int) -> Any:
    """A stream that was read so far."""
    provider.answer = Told(LONG)
    messages = [{"role": "user", "content": "Tell all."}]
    told = {"stream_options": {"include_usage": True}}
    stream = client.chat.completions.create(model="m", stream=True, messages=messages, **told)
    for _ in range(pieces):
        next(stream)
    return stream


def ask(client: Any, provider: Provider, text: str) -> Any:
    provider.answer = Told("Yes.")
    return client.chat.completions.create(model="m", messages=[{"role": "user", "content": text}])


def said(store: Store) -> list[str]:
    """The conversation as the next request has it."""
    session = open_existing(KEY, store)
    with session.locked():
        return [kept.message.text for kept in session.state.branch.history(0)]


def statuses(store: Store) -> list[str]:
    return [turn.status for turn in session_details(store, KEY).turns]


@pytest.mark.parametrize("pieces", [1, 350], ids=["nothing written yet", "a part written"])
def test_reply_of_a_worker_presumed_dead_is_saved_once(
    place: Place, worker: Callable[[], Any], provider: Provider, pieces: int
) -> None:
    first, second, store = worker(), worker(), place.opened()
    stream = begun(first, provider, pieces=pieces)
    place.bury()
    ask(second, provider, "Still there?")
    assert statuses(store) == ["cancelled", "ok"]
    list(stream)
    assert ctxwrap.turn_of(stream).report.not_saved == ()
    assert said(store).count(LONG) == 1
    assert sorted(said(store)) == sorted(["Tell all.", LONG, "Still there?", "Yes."])
    assert statuses(store) == ["ok", "ok"]
    assert [finding for finding in ctxwrap.verify("s", store=store).findings if finding.severity != "note"] == []
    ask(second, provider, "And now?")
    ask(first, provider, "Go on.")
    assert said(store).count(LONG) == 1
    assert "w-1" in open_existing(KEY, store).memory.items


def test_all_readers_agree_on_a_turn_that_ended_twice(
    place: Place, worker: Callable[[], Any], provider: Provider
) -> None:
    stream, store = begun(worker(), provider, pieces=350), place.opened()
    place.bury()
    ask(worker(), provider, "Still there?")
    list(stream)
    id = ctxwrap.turn_of(stream).id
    info = turn_details(store, KEY, id).info
    assert (info.status, info.reason) == ("ok", "stop")
    assert info.answer.startswith("word-0 word-1")
    assert info.tokens_in is not None
    assert cost_of(store, KEY).reported == 2
    _, partial, _, _, whole = (record["ctx"] for record in store.open(KEY).read("messages")[0])
    assert whole["supersedes"] == partial["id"]


def test_purge_removes_the_full_reply_that_replaced_a_partial_one(
    place: Place, worker: Callable[[], Any], provider: Provider
) -> None:
    stream, store = begun(worker(), provider, pieces=350), place.opened()
    place.bury()
    ask(worker(), provider, "Still there?")
    list(stream)
    ctxwrap.purge("s", message=f"{ctxwrap.turn_of(stream).id}-l0", store=store)
    assert "word-7" not in repr(store.open(KEY).read("messages")[0])


def test_session_from_a_checkpoint_has_the_late_reply_once(
    place: Place, worker: Callable[[], Any], provider: Provider
) -> None:
    first = worker()
    stream, store = begun(first, provider, pieces=350), place.opened()
    place.bury()
    ask(worker(), provider, "Still there?")
    opened = open_existing(KEY, store)
    with opened.locked():
        opened._save()
    list(stream)
    again = open_existing(KEY, store)
    with again.locked():
        again._save()
    assert said(store).count(LONG) == 1
    with opened.locked():
        assert opened.state.as_json() == again.state.as_json()
