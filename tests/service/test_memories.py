"""Memories: named, found by their tenant only, searched by the session's own index, and durable when asked."""

import multiprocessing
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import ctxwrap
from ctxwrap.documents.document import PLACEHOLDER
from ctxwrap.errors import Conflict, InvalidId, InvalidInput, NotFound, StoreUnavailable, WritesLost
from ctxwrap.service.memories import Memories
from ctxwrap.service.prompts import NAMES, block_for
from ctxwrap.stores.files.store import FileLog
from ctxwrap.types import SessionKey


@pytest.fixture(params=["files", "memory"])
def store(request: pytest.FixtureRequest, home: Path) -> Any:
    return ctxwrap.open_store(home if request.param == "files" else "memory:")


@pytest.fixture
def service(store: Any) -> Memories:
    return Memories(store)


class TestNaming:
    def test_memory_keeps_the_values_it_was_created_with(self, service: Memories) -> None:
        made = service.create_memory("Support", "NOTES", "About Ada.")
        assert made == service.get_memory(made.memoryId)
        assert (made.title, made.memoryType, made.description, made.vaultId) == (
            "Support",
            "notes",
            "About Ada.",
            "default",
        )
        assert len(made.memoryId) == 32
        assert made.creationTime == made.updateTime != ""
        assert made.stats.entries == 0
        assert made.memoryId != service.create_memory("Support").memoryId

    def test_memory_stats_and_times_follow_writes(self, service: Memories) -> None:
        memory = service.create_memory("Support").memoryId
        service.add_entry(memory, "Raw.")
        service.put_context(memory, "One.")
        known = service.get_memory(memory)
        assert (known.stats.entries, known.stats.contextVersions) == (1, 1)
        assert known.creationTime < known.stats.lastEntryTime < known.updateTime

    def test_memory_id_can_be_used_once(self, service: Memories) -> None:
        service.create_memory("Support", memory_id="user-42")
        with pytest.raises(Conflict, match="user-42"):
            service.create_memory("Support", memory_id="user-42")

    @pytest.mark.parametrize(
        "wrong",
        [
            {"title": ""},
            {"title": "x" * 51},
            {"title": "a\nb\x00"},
            {"title": 5},
            {"description": "x" * 501},
            {"memory_type": "../x"},
            {"memory_type": ""},
            {"memory_type": None},
        ],
    )
    def test_memory_with_invalid_arguments_is_rejected(self, service: Memories, wrong: dict[str, Any]) -> None:
        with pytest.raises(InvalidInput):
            service.create_memory(**{"title": "Fine", **wrong})
        assert service.list_memories() == ()

    def test_longest_allowed_names_are_accepted(self, service: Memories) -> None:
        assert service.create_memory("x" * 50, description="y" * 500).description == "y" * 500

    def test_vaults_are_created_and_listed(self, service: Memories) -> None:
        assert [(each.vaultId, each.memories) for each in service.list_vaults()] == [("default", 0)]
        made = service.create_vault("Work-1", "About work.")
        assert (made.vaultId, made.title, made.description, made.memories) == ("Work-1", "Work-1", "About work.", 0)
        with pytest.raises(Conflict):
            service.create_vault("Work-1")
        with pytest.raises(InvalidInput, match="letters, digits and hyphens"):
            service.create_vault("no spaces")
        memory = service.create_memory("In it", vault="Work-1").memoryId
        assert [each.memoryId for each in service.list_memories("Work-1")] == [memory]
        assert service.list_memories() == ()
        assert [(each.vaultId, each.memories) for each in service.list_vaults()] == [("default", 0), ("Work-1", 1)]
        assert service.get_user().memories == 1

    def test_memory_is_found_in_any_vault(self, service: Memories) -> None:
        memory = service.create_memory("In it", vault="work").memoryId
        assert service.get_memory(memory).vaultId == "work"
        service.add_entry(memory, "Raw.")
        assert service.list_entries(memory, vault="work").count == 1
        with pytest.raises(NotFound):
            service.get_memory(memory, vault="default")
        for vault in ("a", "b"):
            service.create_memory("Twice", vault=vault, memory_id="same")
        with pytest.raises(InvalidInput, match="several vaults"):
            service.get_memory("same")
        assert service.get_memory("same", "b").vaultId == "b"

    def test_vault_record_is_not_listed_as_a_memory(self, service: Memories) -> None:
        service.create_vault("work")
        with pytest.raises(NotFound):
            service.get_memory(".vault", "work")
        with pytest.raises(Conflict):
            service.create_memory("x", memory_id=".vault", vault="work")


class TestTenants:
    def calls(self, service: Memories, memory: str) -> Iterator[Any]:
        yield lambda: service.get_memory(memory)
        yield lambda: service.add_entry(memory, "Raw.")
        yield lambda: service.list_entries(memory)
        yield lambda: service.get_entry(memory, "1")
        yield lambda: service.get_context(memory)
        yield lambda: service.put_context(memory, "One.")
        yield lambda: service.await_consistency(memory)
        yield lambda: service.search_memories(memory, "raw")

    def test_memory_of_another_tenant_is_not_found(self, store: Any) -> None:
        own = Memories(store, tenant="acme")
        memory = own.create_memory("Secret").memoryId
        own.add_entry(memory, "The plan.")
        foreign, never = Memories(store, tenant="evil"), "0" * 32
        before = list(store.keys())
        for asked, unknown in zip(self.calls(foreign, memory), self.calls(foreign, never), strict=True):
            with pytest.raises(NotFound) as first:
                asked()
            with pytest.raises(NotFound) as second:
                unknown()
            assert str(first.value).replace(memory, "x") == str(second.value).replace(never, "x")
        assert list(store.keys()) == before, "asking makes nothing"
        assert foreign.list_memories() == ()
        assert [each.vaultId for each in foreign.list_vaults()] == ["default"]
        assert foreign.get_user().memories == 0
        assert own.get_user().memories == 1

    def test_two_tenants_may_use_one_id(self, store: Any) -> None:
        for tenant in ("a", "b"):
            Memories(store, tenant=tenant).create_memory("Mine", memory_id="s")
            Memories(store, tenant=tenant).add_entry("s", f"Of {tenant}.")
        assert [each.rawEntry for each in Memories(store, tenant="a").list_entries("s").entries] == ["Of a."]

    def test_invalid_memory_ids_are_rejected(self, service: Memories) -> None:
        for id in ("", None, 5, "x" * 2000):
            with pytest.raises(InvalidId):
                service.get_memory(id)  # type: ignore[arg-type]
        with pytest.raises(NotFound):
            service.get_memory("../../etc")

    def test_unknown_entries_are_not_found(self, service: Memories) -> None:
        memory = service.create_memory("Talk").memoryId
        service.add_entry(memory, "Raw.")
        for id in ("2", "0", "-1", "x", "", "1e3", "9" * 30, None):
            with pytest.raises(NotFound):
                service.get_entry(memory, id)  # type: ignore[arg-type]

    def test_get_user_returns_only_the_public_profile_fields(self, store: Any) -> None:
        profile = {"id": "u-1", "name": "Ada", "email": "ada@example.org", "password": "hunter2", "phone": "123"}
        told = Memories(store, user=profile).get_user()
        assert (told.userId, told.name, told.email) == ("u-1", "Ada", "ada@example.org")
        assert "hunter2" not in told.model_dump_json()
        assert Memories(store, tenant="acme").get_user().userId == "acme"


class TestSearching:
    @pytest.fixture
    def memory(self, service: Memories) -> str:
        memory = service.create_memory("Talk").memoryId
        for number in range(60):
            service.add_entry(memory, f"The cat number {number} likes to sleep in the garden.")
            service.add_entry(memory, f"The solar panel on roof {number} gives {number} watts.", role="assistant")
        service.add_entry(memory, "The telescope launch moved to August.")
        return memory

    def test_search_returns_the_best_entries_first(self, service: Memories, memory: str) -> None:
        found = service.search_memories(memory, "When does the telescope launch?")
        assert found.entries[0].entry.rawEntry == "The telescope launch moved to August."
        assert found.entries[0].passage == "The telescope launch moved to August."
        assert found.entries[0].reasons
        scores = [each.score for each in found.entries]
        assert scores == sorted(scores, reverse=True)
        assert found.count == len(found.entries) <= 10

    def test_search_finds_entries_just_stored(self, service: Memories, memory: str) -> None:
        service.add_entry(memory, "Zanzibar was the last port.")
        assert "Zanzibar" in service.search_memories(memory, "zanzibar port").entries[0].entry.rawEntry

    def test_search_returns_the_requested_number_of_entries(self, service: Memories, memory: str) -> None:
        assert service.search_memories(memory, "cat garden", 3).count == 3
        assert service.search_memories(memory, "cat garden", "40").count == 40
        assert len({each.entry.entryId for each in service.search_memories(memory, "cat", 40).entries}) == 40
        topics = [each.entry.rawEntry for each in service.search_memories(memory, "solar panel watts", 20).entries]
        assert all("solar" in each for each in topics)

    @pytest.mark.parametrize("top_k", [0, 101, "x", None])
    def test_search_rejects_invalid_limits(self, service: Memories, memory: str, top_k: Any) -> None:
        with pytest.raises(InvalidInput, match="top_k"):
            service.search_memories(memory, "cat", top_k)

    def test_search_rejects_an_empty_query(self, service: Memories, memory: str) -> None:
        with pytest.raises(InvalidInput, match="query"):
            service.search_memories(memory, " ")

    def test_search_returns_the_best_and_the_latest_context(self, service: Memories, memory: str) -> None:
        service.put_context(memory, "# Facts\n- The telescope launch is in August.\n")
        service.put_context(memory, "# Facts\n- Cats sleep.\n")
        found = service.search_memories(memory, "telescope launch")
        assert found.bestContext is not None
        assert (found.bestContext.version, found.latestContext.version) == (1, 2)
        assert found.bestContextScore == 1.0
        assert service.search_memories(memory, "xylophone").bestContext is None

    def test_search_returns_the_placeholder_without_a_context(self, service: Memories) -> None:
        memory = service.create_memory("Empty").memoryId
        found = service.search_memories(memory, "anything")
        assert (found.entries, found.bestContext, found.latestContext.content) == ((), None, PLACEHOLDER)

    def test_search_finds_no_purged_entries(self, home: Path) -> None:
        service = Memories(home)
        memory = service.create_memory("Talk").memoryId
        service.add_entry(memory, "The code is swordfish.")
        service.add_entry(memory, "Something else.")
        assert service.search_memories(memory, "swordfish").entries[0].entry.entryId == "1"
        ctxwrap.purge(memory, message=1, store=home)
        assert service.search_memories(memory, "swordfish").count == 0


def hold(home: Path, memory: str, is_held: Any, may_go: Any) -> None:
    with FileLog(
        home / "home/default/agent/default/session" / memory, SessionKey("default", "default", memory), None
    ).locked():  # type: ignore[arg-type]
        is_held.set()
        may_go.wait(30)


class TestConsistency:
    def test_await_consistency_returns_after_writes_are_on_disk(
        self, home: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        service = Memories(home)
        memory = service.create_memory("Talk").memoryId
        synced: set[int] = set()
        for name in ("fsync", "fdatasync"):
            real = getattr(os, name)
            monkeypatch.setattr(os, name, lambda handle, real=real: (synced.add(os.fstat(handle).st_ino), real(handle)))
        service.add_entry(memory, "Raw.")
        service.add_entry(memory, "A long report. " * 2000)
        assert synced == set(), "the default waits for nothing"
        service.put_context(memory, "One.")
        assert synced, "but a context is written only when the entries before it are durable"
        told = service.await_consistency(memory)
        assert (told.status, told.entries, told.contextVersion) == ("consistent", 2, 1)
        place = home / "home/default/agent/default/session" / memory
        needed = [place / "messages.jsonl", place / "events.jsonl", *(place / "raw").iterdir(), place, place / "raw"]
        assert {path.stat().st_ino for path in needed} <= synced

    def test_await_consistency_reports_a_failed_write_once(self, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        service = Memories(home)
        memory = service.create_memory("Talk").memoryId
        with monkeypatch.context() as full:

            def refuse(*_: object) -> int:
                raise OSError(28, "No space left on device")

            full.setattr(os, "write", refuse)
            with pytest.raises(StoreUnavailable):
                service.add_entry(memory, "Lost.")
            with pytest.raises(StoreUnavailable):
                service.put_context(memory, "Lost.")
        service.add_entry(memory, "Kept.")
        with pytest.raises(WritesLost, match="2 writes") as lost:
            service.await_consistency(memory)
        assert [each.partition(":")[0] for each in lost.value.lost] == ["add_entry", "put_context"]
        assert service.await_consistency(memory).entries == 1
        assert [each.rawEntry for each in service.list_entries(memory).entries] == ["Kept."]

    def test_await_consistency_fails_when_the_disk_fails(self, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        service = Memories(home)
        memory = service.create_memory("Talk").memoryId
        with monkeypatch.context() as broken:

            def refuse(_: int) -> None:
                raise OSError(5, "Input/output error")

            for name in ("fsync", "fdatasync"):
                broken.setattr(os, name, refuse)
            with pytest.raises(StoreUnavailable):
                service.await_consistency(memory)
        assert service.await_consistency(memory).status == "consistent"

    def test_await_consistency_times_out(self, home: Path) -> None:
        service = Memories(home)
        memory = service.create_memory("Talk").memoryId
        fork = multiprocessing.get_context("fork")
        is_held, may_go = fork.Event(), fork.Event()
        other = fork.Process(target=hold, args=(home, memory, is_held, may_go))
        other.start()
        assert is_held.wait(30)
        with pytest.raises(StoreUnavailable, match=r"longer than 0\.2 s"):
            service.await_consistency(memory, 0.2)
        may_go.set()
        other.join(30)
        assert service.await_consistency(memory).status == "consistent"

    @pytest.mark.parametrize("timeout", [0, -1, float("nan"), "soon", True, 1e9])
    def test_await_consistency_rejects_an_invalid_timeout(self, service: Memories, timeout: Any) -> None:
        with pytest.raises(InvalidInput, match="timeout"):
            service.await_consistency(service.create_memory("Talk").memoryId, timeout)

    def test_await_consistency_works_from_many_threads(self, service: Memories) -> None:
        memory = service.create_memory("Talk").memoryId
        seen: list[int] = []

        def work() -> None:
            for number in range(10):
                service.add_entry(memory, f"Entry {number}.")
                seen.append(service.await_consistency(memory).entries)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert max(seen) == 40
        assert len(seen) == 40


class TestPrompts:
    @pytest.mark.parametrize("kind", ["chat", "notes", "CHAT"])
    def test_package_has_prompts_for_every_memory_type(self, service: Memories, kind: str) -> None:
        prompts = service.prompts(kind)
        assert (prompts.version, prompts.memoryType) == ("v1", kind.lower())
        assert set(prompts.templates) == set(NAMES)
        assert all(len(text) > 100 for text in prompts.templates.values())
        assert "5000" in prompts.context_summary_rules
        assert "512" in prompts.context_summary_rules

    def test_prompt_rules_have_a_block_for_every_tool(self, service: Memories) -> None:
        rules = service.prompts().context_summary_rules
        tools = ("create_memory", "get_memory", "add_entry", "list_entries", "get_context", "put_context")
        for tool in (*tools, "await_consistency", "get_user", "search_memories"):
            assert block_for(rules, tool), tool
        assert "request_id" in block_for(rules, "add_entry")
        assert "request_id" not in block_for(rules, "get_user")

    def test_prompts_directory_overrides_the_package(
        self, store: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        own = tmp_path / "prompts"
        (own / "default/chat").mkdir(parents=True)
        (own / "default/chat/summary_prompt.md").write_text("Mine.")
        service = Memories(store, settings=ctxwrap.Settings(prompts_dir=str(own)))
        assert service.prompts().templates["summary_prompt"] == "Mine."
        assert service.prompts().templates["context_prompt"] == Memories(store).prompts().templates["context_prompt"]
        monkeypatch.setenv("CTXWRAP_PROMPTS", str(own))
        assert Memories(store).prompts().templates["summary_prompt"] == "Mine."

    def test_prompts_directory_can_add_a_memory_type(self, store: Any, tmp_path: Path) -> None:
        for name in NAMES:
            (tmp_path / "default/project").mkdir(parents=True, exist_ok=True)
            (tmp_path / f"default/project/{name}.md").write_text(name)
        service = Memories(store, settings=ctxwrap.Settings(prompts_dir=str(tmp_path)))
        assert service.prompts("project").templates == {name: name for name in NAMES}
        with pytest.raises(InvalidInput, match="known are chat, notes, project"):
            service.prompts("other")

    @pytest.mark.parametrize("kind", ["../chat", "chat/..", "", "a b", "chat\0", None, "/etc"])
    def test_memory_type_cannot_be_a_path(self, service: Memories, kind: Any) -> None:
        with pytest.raises(InvalidInput, match="a memory type has"):
            service.prompts(kind)

    def test_prompt_links_cannot_leave_the_directory(self, store: Any, tmp_path: Path) -> None:
        (tmp_path / "secret.md").write_text("secret")
        own = tmp_path / "own"
        (own / "default/chat").mkdir(parents=True)
        (own / "default/chat/summary_prompt.md").symlink_to(tmp_path / "secret.md")
        service = Memories(store, settings=ctxwrap.Settings(prompts_dir=str(own)))
        assert service.prompts().templates["summary_prompt"] != "secret"

    def test_prompt_rules_return_only_the_block_of_the_tool(self) -> None:
        text = (
            "# Rules\nAll.\n### TOOL: add_entry\nStore it.\n```\n### TOOL: put_context\n```\n#### Detail\nMore.\n"
            "### TOOL: `put_context`\nWrite it.\n## Other\nNot this.\n### TOOL: add_entry\nAgain.\n"
        )
        assert block_for(text, "put_context") == "Write it."
        assert block_for(text, "add_entry") == "Store it.\n```\n### TOOL: put_context\n```\n#### Detail\nMore.\nAgain."
        assert block_for(text, "get_user") == ""
