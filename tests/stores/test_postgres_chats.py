"""Whole chats with their sessions in PostgreSQL: the same to the model as with files, for every worker."""

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import openai
import psycopg
import pytest
from click.testing import CliRunner

import ctxwrap
from ctxwrap.cli import main
from ctxwrap.inspect import memory_of, session_details
from ctxwrap.session.blobs import blobs_in
from ctxwrap.session.lookup import key_for
from ctxwrap.stores.base import STREAMS
from ctxwrap.testing.practice import Provider
from tests.stores.test_encrypted_chats import ANSWER, KEY, MASTER, SAID, Model, chat, say, settled

QUESTION: Any = [{"role": "user", "content": "Where is the marmalade, and the zebrafish?"}]


@pytest.fixture
def client(provider: Provider) -> openai.OpenAI:
    provider.answer = Model()
    return openai.OpenAI(api_key="x", base_url=provider.openai_url, max_retries=0)


def viewed(wrapped: Any) -> tuple[Any, ...]:
    view = ctxwrap.preview(wrapped, model="practice", messages=QUESTION)
    return settled(json.dumps(view.body)), settled(repr(view.items)), view.budget


def test_postgres_workers_send_the_same_requests_as_a_file_store(
    client: openai.OpenAI, home: Path, database: str
) -> None:
    views = [viewed(chat(client, place)) for place in (home, database)]
    views += [
        viewed(ctxwrap.wrap(client, store=ctxwrap.open_store(place), session="s", budget=4000))
        for place in (home, database)
    ]
    assert views == [views[0]] * 4
    for word in ("periwinkle", "swordfish", "zebrafish", "turquoise"):
        assert word in views[0][0], "the pack holds something of everything"


@pytest.mark.parametrize("key", [None, MASTER], ids=["clear", "encrypted"])
def test_postgres_session_verifies_rebuilds_and_forgets(
    client: openai.OpenAI, database: str, key: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if key is not None:
        monkeypatch.setenv("CTXWRAP_KEY", key)
    wrapped = chat(client, database)
    verification = ctxwrap.verify("s", store=database)
    assert verification.findings == ()
    assert verification.unchecked == 0
    rebuilding = ctxwrap.rebuild("s", store=database)
    assert (rebuilding.written, rebuilding.removed) == ((), ())
    assert session_details(ctxwrap.open_store(database), KEY).damaged == 0
    ctxwrap.forget("s", item="w-1", store=database)
    for number, message in enumerate(ctxwrap.open_store(database).open(KEY).read("messages")[0], 1):
        if "zebrafish" in json.dumps(message) or any(blobs_in(message)):
            ctxwrap.purge("s", message=number, store=database)
    for word in (b"swordfish", SAID.encode(), b"marmalade is in"):
        assert word not in everything_in(database)
    assert (ANSWER.encode() in everything_in(database)) == (key is None)
    say(wrapped, "go on")
    assert "swordfish" not in json.dumps(memory_of(ctxwrap.open_store(database), KEY))
    assert not ctxwrap.verify("s", store=database).is_damaged


def everything_in(database: str) -> bytes:
    """All bytes of all rows."""
    with psycopg.connect(database) as connection:
        tables = ("SELECT body FROM ctxwrap_records", "SELECT body FROM ctxwrap_checkpoints")
        rows = [row for statement in tables for row in connection.execute(statement)]
        rows += connection.execute("SELECT string_agg(body, '' ORDER BY start) FROM ctxwrap_pieces GROUP BY content")
        return b"\n".join(bytes(body) for (body,) in rows)


def test_a_session_moves_from_files_to_the_database_and_back(
    client: openai.OpenAI, home: Path, database: str, tmp_path: Path
) -> None:
    chat(client, home)
    ctxwrap.export_session("s", tmp_path / "out", store=home)
    ctxwrap.import_session(tmp_path / "out", store=database, trusted=True)
    ctxwrap.export_session("s", tmp_path / "back", store=database)
    ctxwrap.import_session(tmp_path / "back", store=home, session="again", trusted=True)
    logs = [ctxwrap.open_store(home).open(KEY), ctxwrap.open_store(database).open(KEY)]
    logs.append(ctxwrap.open_store(home).open(KEY._replace(session="again")))
    for stream in STREAMS:
        said = [[line.get("content") or line.get("type") for line in log.read(stream)[0]] for log in logs]
        assert said[0] == said[1][: len(said[0])] == said[2][: len(said[0])]
    shown = CliRunner().invoke(main, ["sessions", "--store", database, "--json"])
    assert shown.exit_code == 0, shown.output
    assert '"s"' in shown.output


def test_concurrent_streams_and_tasks_take_turns(client: openai.OpenAI, provider: Provider, database: str) -> None:
    bare = openai.AsyncOpenAI(api_key="x", base_url=provider.openai_url, max_retries=0)
    wrapped = ctxwrap.wrap(bare, store=database, session="s", busy_timeout=60)

    async def one(number: int) -> str:
        message: Any = {"role": "user", "content": f"hello {number}"}
        stream = await wrapped.chat.completions.create(model="practice", messages=[message], stream=True)
        return "".join([chunk.choices[0].delta.content or "" async for chunk in stream if chunk.choices])

    async def all_of_them() -> list[str]:
        return await asyncio.gather(*map(one, range(6)))

    assert asyncio.run(all_of_them()) == [ANSWER] * 6
    messages = ctxwrap.open_store(database).open(KEY).read("messages")[0]
    assert [line["role"] for line in messages] == ["user", "assistant"] * 6
    assert sorted(line["content"] for line in messages[::2]) == [f"hello {number}" for number in range(6)]


@pytest.mark.parametrize("key", [None, MASTER], ids=["clear", "encrypted"])
def test_closed_store_leaves_no_connection_lease_or_heartbeat(
    client: openai.OpenAI, database: str, key: str | None
) -> None:
    store = ctxwrap.open_store(database, key=key)
    stream = ctxwrap.wrap(client, store=store, session="s").chat.completions.create(
        model="practice", messages=QUESTION, stream=True
    )
    assert next(iter(stream)) is not None, "a turn is under way, whose lease this process has"
    store.close()
    with psycopg.connect(database, autocommit=True) as connection:
        held = "SELECT 1 FROM pg_stat_activity WHERE application_name = 'ctxwrap' AND datname = current_database()"
        until = time.monotonic() + 10
        while connection.execute(held).fetchall():
            assert time.monotonic() < until, "a server's process ends a moment after its connection"
        assert connection.execute("SELECT * FROM ctxwrap_writers").fetchall() == []
        assert connection.execute("SELECT * FROM ctxwrap_leases WHERE expires > now()").fetchall() == []
    stream.close()


def test_a_session_ends_and_is_resumed(provider: Provider, database: str) -> None:
    client = openai.OpenAI(api_key="x", base_url=provider.openai_url, max_retries=0)
    store = ctxwrap.open_store(database)
    with ctxwrap.wrap(client, store=store, session="s", derive="inline") as wrapped:
        for text in ("My name is Ada.\n<END_SESSION>", "One thing more."):
            wrapped.chat.completions.create(model="m", messages=[{"role": "user", "content": text}])
    ctxwrap.end_session("s", store=store)
    kinds = ("document", "session_end", "session_resume")
    types = [each["type"] for each in store.open(key_for("s")).read("events")[0] if each["type"] in kinds]
    assert types == ["document", "session_end", "session_resume", "document", "session_end"]
    assert session_details(store, key_for("s")).info.state == "ended"
    assert ctxwrap.verify("s", store=store).findings == ()
    store.close()
