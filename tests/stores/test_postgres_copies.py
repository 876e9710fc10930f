"""Sessions on their way into PostgreSQL and out of it, and memories that live there."""

from pathlib import Path

import ctxwrap
from ctxwrap.stores import open_store
from ctxwrap.stores.files.store import FileStore
from ctxwrap.testing.practice import Provider
from tests.export.logs import Chat
from tests.export.test_copy import assert_same, told


def test_session_is_copied_to_postgres_and_back(provider: Provider, home: Path, tmp_path: Path, database: str) -> None:
    source, there, back = FileStore(home), open_store(database), FileStore(tmp_path / "back")
    chat = told(provider, source)
    list(ctxwrap.copy_sessions(source, there))
    assert_same(source, there)
    chat.say("One more.")
    (copied,) = ctxwrap.copy_sessions(source, there)
    assert 0 < copied.new < 20
    list(ctxwrap.copy_sessions(there, back))
    assert_same(source, back)


def test_memories_api_works_on_postgres(provider: Provider, database: str) -> None:
    Chat(provider, open_store(database)).say("Our bakery opens on 17 May 2027.")
    memories = ctxwrap.Memories(database)
    assert [each.memories for each in memories.list_vaults()] == [1]
    memories.add_entry("s", "Bob brings the oven.")
    assert memories.await_consistency("s").entries == 3
    assert "17 May 2027" in memories.search_memories("s", "When does the bakery open?").entries[0].passage
    assert memories.put_context("s", "# Facts\n- Bob brings the oven.\n", expected_version=0).version == 1
    assert ctxwrap.Memories(database).get_context("s").version == 1
