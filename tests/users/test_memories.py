"""The memory service for one user: its memories belong to the user, and those of others do not exist."""

from pathlib import Path

import pytest

import ctxwrap
from ctxwrap.testing.practice import Provider
from ctxwrap.types import SessionKey
from tests.users.chats import Script, client, say


def test_memories_of_a_user_are_found_by_that_user_only(home: Path) -> None:
    ada, bob = (ctxwrap.Memories(str(home), for_user=name) for name in ("ada", "bob"))
    shared = ctxwrap.Memories(str(home)).create_memory("Everybody's")
    mine = ada.create_memory("Mine")
    ada.add_entry(mine.memoryId, "I moved to Lisbon in May.")
    assert {each.memoryId for each in ada.list_memories()} == {mine.memoryId, shared.memoryId}
    assert [each.memoryId for each in bob.list_memories()] == [shared.memoryId]
    for read in (bob.get_memory, lambda id: bob.search_memories(id, "Lisbon"), lambda id: bob.add_entry(id, "x")):
        with pytest.raises(ctxwrap.NotFound):
            read(mine.memoryId)
    assert len(ctxwrap.Memories(str(home)).list_memories()) == 2


def test_memory_of_a_user_is_refused_to_a_chat_of_another_and_purged_with_its_user(
    provider: Provider, home: Path
) -> None:
    provider.answer = Script()
    mine = ctxwrap.Memories(str(home), for_user="ada").create_memory("Mine", memory_id="mine")
    ctxwrap.Memories(str(home), for_user="ada").add_entry("mine", "I moved to Lisbon in May.")
    with pytest.raises(ctxwrap.Conflict, match="belongs to another user"):
        say(client(provider, home, user="bob", session=mine.memoryId), "Where did she move?")
    handle = ctxwrap.open_session(user="ada", store=str(home))
    assert handle.sessions() == (SessionKey("default", "default", "mine"),)
    ctxwrap.purge(user="ada", store=str(home))
    assert "Lisbon" not in "".join(path.read_text("utf-8", "replace") for path in home.rglob("*") if path.is_file())
