"""The context document of wrapped chats: it grows by itself, every six messages and at the end, and can forget."""

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import openai
import pytest

import ctxwrap
from ctxwrap.documents.document import EMPTY, PLACEHOLDER
from ctxwrap.errors import StoreUnavailable
from ctxwrap.service.memories import Memories
from ctxwrap.session.lookup import key_for, open_existing
from ctxwrap.session.verify import verify
from ctxwrap.stores.files.store import FileStore
from ctxwrap.testing.practice import Answer, Ask, Provider
from ctxwrap.types import SessionKey
from tests import support
from tests.support import PassingLog, Told, trailer

TOLD = ("My name is Ada.", "We decided to use PostgreSQL 16.", "Please call Lena on 2026-03-04.", "I prefer tea.")


def client(provider: Provider, home: Path, **options: Any) -> openai.OpenAI:
    made = openai.OpenAI(api_key="x", base_url=provider.openai_url, max_retries=0)
    return ctxwrap.wrap(made, session="s", store=home, **{"derive": "inline", **options})


def say(client: openai.OpenAI, text: str, **options: Any) -> Any:
    return client.chat.completions.create(model="gpt-4o", messages=[{"role": "user", "content": text}], **options)


def documents(home: Path) -> list[dict[str, Any]]:
    return support.documents(home, "s")


def test_document_is_updated_every_six_messages(provider: Provider, home: Path) -> None:
    chat = client(provider, home)
    for text in TOLD[:2]:
        say(chat, text)
    assert documents(home) == []
    say(chat, TOLD[2])
    (first,) = documents(home)
    assert (first["version"], first["by"], first["covers"]) == (1, "extract", 6)
    assert "Ada" in first["content"]
    assert "PostgreSQL 16" in first["content"]
    for text in (TOLD[3], "The deadline is 2026-05-01.", "Berlin is our office."):
        say(chat, text)
    assert [each["version"] for each in documents(home)] == [1, 2]
    known = Memories(home).get_context("s")
    assert known.version == 2
    assert "2026-05-01" in known.content
    assert "Ada" in known.content, "what was known stays"
    assert len(provider.seen) == 6, "no model is asked for it"


def test_calls_do_not_wait_for_the_document_update(provider: Provider, home: Path) -> None:
    chat = client(provider, home, derive="behind")
    for text in (*TOLD, *TOLD):
        say(chat, text)
    assert [each["covers"] for each in documents(home)] in ([], [6], [8]), "none, or what the background did meanwhile"
    ctxwrap.flush()
    assert documents(home)[-1]["covers"] == 16
    assert "Ada" in documents(home)[-1]["content"]


def test_closing_the_client_finishes_the_document(provider: Provider, home: Path) -> None:
    with client(provider, home) as chat:
        say(chat, TOLD[0])
    (only,) = documents(home)
    assert only["covers"] == 2
    assert "Ada" in only["content"]


def test_flush_finishes_the_documents_of_all_chats(provider: Provider, home: Path) -> None:
    chat = client(provider, home)
    say(chat, TOLD[0])
    ctxwrap.flush()
    ctxwrap.flush()
    assert [each["covers"] for each in documents(home)] == [2]
    say(chat, "Thanks!")
    ctxwrap.flush()
    assert "content" not in documents(home)[-1] or documents(home)[-1]["version"] == 2


@pytest.mark.parametrize("following", ["open", "interrupted", "readonly"])
def test_a_turn_without_a_version_of_its_own_leaves_the_one_that_is_due(
    provider: Provider, home: Path, following: str
) -> None:
    chat = client(provider, home, derive="behind")
    for text in TOLD:
        say(chat, text)
    if following == "readonly":
        say(chat, "Go on.", context_mode="readonly")
    else:
        stream = say(chat, "Go on.", stream=True)
        next(stream)
        if following == "interrupted":
            stream.close()
    ctxwrap.flush()
    assert "Ada" in documents(home)[-1]["content"]


def test_async_stream_updates_the_document(provider: Provider, home: Path) -> None:
    async def talk() -> None:
        made = openai.AsyncOpenAI(api_key="x", base_url=provider.openai_url, max_retries=0)
        async with ctxwrap.wrap(made, session="s", store=home, derive="inline") as chat:
            for text in TOLD:
                said: Any = [{"role": "user", "content": text}]
                async for _ in await chat.chat.completions.create(model="gpt-4o", messages=said, stream=True):
                    pass

    asyncio.run(talk())
    assert [each["covers"] for each in documents(home)] == [6, 8], "by itself, and once more at the end"
    assert "tea" in documents(home)[-1]["content"]


def test_process_exit_finishes_the_document(provider: Provider, home: Path) -> None:
    code = (
        "import openai, ctxwrap\n"
        f"chat = ctxwrap.wrap(openai.OpenAI(api_key='x', base_url={provider.openai_url!r}), session='s', "
        f"store={str(home)!r})\n"
        "chat.chat.completions.create(model='gpt-4o', messages=[{'role': 'user', 'content': 'My name is Ada.'}])\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
    (only,) = documents(home)
    assert "Ada" in only["content"]


def test_document_updates_can_be_disabled(provider: Provider, home: Path) -> None:
    with client(provider, home, context_document=False) as chat:
        for text in TOLD:
            say(chat, text)
    assert documents(home) == []


@pytest.mark.parametrize("mode", ["disabled", "readonly", "shadow"])
def test_other_context_modes_write_no_document(provider: Provider, home: Path, mode: str) -> None:
    with client(provider, home, context_mode=mode) as chat:
        for text in TOLD:
            say(chat, text)
    assert documents(home) == []


def test_first_document_covers_the_earlier_messages(provider: Provider, home: Path) -> None:
    chat = client(provider, home, context_document=False)
    for number in range(8):
        say(chat, f"Room {number} belongs to Person{number}.")
    with client(provider, home) as chat:
        say(chat, "My name is Ada.")
    (only,) = documents(home)
    assert all(f"Room {number}" in only["content"] for number in range(8))


def test_document_gets_no_new_version_without_new_facts(provider: Provider, home: Path) -> None:
    provider.answer = Told("Hello!")
    with client(provider, home) as chat:
        for _ in range(9):
            say(chat, "Hello!")
    versions = [each["version"] for each in documents(home) if "content" in each]
    assert len(versions) <= 1
    assert documents(home)[-1]["covers"] == 18


def test_agents_document_is_in_the_pack_and_an_extract_is_not(provider: Provider, home: Path) -> None:
    chat = client(provider, home)
    for text in TOLD:
        say(chat, text)
    assert not [each for each in ctxwrap.turn_of(say(chat, "And?")).pack if each.source == "context/document.md"]
    Memories(home).put_context("s", "# Facts\n- The customer number is 4711.\n")
    shown = [each for each in ctxwrap.turn_of(say(chat, "Well?")).pack if each.source == "context/document.md"]
    assert [(each.kind, each.included, each.origin) for each in shown] == [("summary", True, "tool")]
    assert "4711" in str(provider.seen[-1].body)


def test_agents_document_is_updated_and_stays_in_the_pack(provider: Provider, home: Path) -> None:
    chat = client(provider, home)
    say(chat, "Hi.")
    Memories(home).put_context("s", "# Facts\n- The customer number is 4711.\n")
    for text in TOLD:
        say(chat, text)
    known = Memories(home).get_context("s")
    assert (known.version, known.by) == (2, "extract")
    assert "4711" in known.content
    assert "PostgreSQL 16" in known.content
    assert [each for each in ctxwrap.turn_of(say(chat, "Well?")).pack if each.source == "context/document.md"]


def test_document_file_is_derived_from_the_log(provider: Provider, home: Path) -> None:
    with client(provider, home) as chat:
        for text in TOLD:
            say(chat, text)
    files = open_existing(key_for("s"), home).log.files
    assert (files.load("context/document.md") or b"").decode() == Memories(home).get_context("s").content
    assert verify("s", store=home).findings == ()
    before = files.load("context/document.md")
    ctxwrap.rebuild("s", store=home)
    assert files.load("context/document.md") == before


class _NoDocuments(PassingLog):
    """A log that has no room for documents."""

    def append(self, batches: Any, **how: Any) -> Any:
        if any(event["type"] == "document" for event in batches.get("events", ())):
            raise StoreUnavailable("no room")
        return self.inner.append(batches, **how)


class _Store:
    def __init__(self, home: Path) -> None:
        self._inner = FileStore(home)
        self.sessions, self.agents, self.keys = self._inner.sessions, self._inner.agents, self._inner.keys

    def open(self, key: SessionKey) -> Any:
        return _NoDocuments(self._inner.open(key))


def test_failing_document_write_does_not_fail_the_call(provider: Provider, home: Path) -> None:
    made = openai.OpenAI(api_key="x", base_url=provider.openai_url, max_retries=0)
    with ctxwrap.wrap(made, session="s", store=_Store(home)) as chat:
        assert [say(chat, text).choices[0].message.content for text in TOLD] == ["Hello, world."] * 4
    assert documents(home) == []
    assert len(support.messages(home, "s")) == 8
    (summary,) = home.rglob("summary.md")
    assert "messages:1-8," in summary.read_text("utf-8"), "derived files do not wait for the document"


class TestForgetting:
    SECRET = "The door code of the archive is swordfish-4242."

    def told(self, provider: Provider, home: Path) -> None:
        with client(provider, home) as chat:
            for text in (TOLD[0], self.SECRET, TOLD[1], TOLD[2]):
                say(chat, text)
        assert "swordfish-4242" in Memories(home).get_context("s").content

    def assert_gone(self, home: Path) -> None:
        for path in home.rglob("*"):
            assert not path.is_file() or b"swordfish" not in path.read_bytes(), path

    def test_purged_message_is_removed_from_every_document_version(self, provider: Provider, home: Path) -> None:
        self.told(provider, home)
        versions = Memories(home).get_memory("s").stats.contextVersions
        ctxwrap.purge("s", message=3, store=home)
        self.assert_gone(home)
        known = Memories(home).get_context("s")
        assert known.version == versions + 1, "made anew"
        assert "Ada" in known.content
        assert "PostgreSQL 16" in known.content
        with pytest.raises(ctxwrap.NotFound, match="no version"):
            Memories(home).get_context("s", 1)
        assert verify("s", store=home).findings == ()

    def test_purge_removes_only_the_matching_lines_of_an_agents_document(self, provider: Provider, home: Path) -> None:
        self.told(provider, home)
        service = Memories(home)
        service.put_context("s", "# Facts\n- Archive door code: swordfish-4242\n- The customer number is 4711.\n")
        ctxwrap.purge("s", message=3, store=home)
        self.assert_gone(home)
        assert Memories(home).get_context("s").content.split("\n") == ["# Facts", "- The customer number is 4711.", ""]

    def test_forgotten_fact_does_not_return_to_the_document(self, provider: Provider, home: Path) -> None:
        fact = {"id": "w-9", "type": "fact", "decay": 0.4, "round": 1, "tags": [], "content": self.SECRET}

        def remembers(ask: Ask) -> Answer:
            return Answer("Noted." + trailer(ask, [fact]))

        provider.answer = remembers
        chat = client(provider, home)
        for text in (TOLD[0], self.SECRET, TOLD[1]):
            say(chat, text)
        provider.answer = Told("Fine.")
        ctxwrap.forget("s", item="w-9", store=home)
        assert not [each for each in documents(home) if "swordfish" in str(each)]
        chat = client(provider, home)
        for text in (TOLD[2], TOLD[3], "The deadline is 2026-05-01."):
            say(chat, text)
        known = Memories(home).get_context("s").content
        assert "swordfish" not in known
        assert "2026-05-01" in known


def test_new_chat_has_the_placeholder_document(provider: Provider, home: Path) -> None:
    say(client(provider, home), "Hi.")
    known = Memories(home).get_context("s")
    assert (known.content, known.version) == (PLACEHOLDER, 0)
    assert EMPTY.startswith("# Description")
