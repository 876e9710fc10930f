"""Context & Summary Rules: the nine MCP tools, summaries, the context document, the flow and the state machines."""

import asyncio
import json
import os
import re
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import httpx2
import openai
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

import ctxwrap
from ctxwrap.errors import InvalidInput, NotFound, StoreUnavailable, WritesLost
from ctxwrap.service.mcp.server import INSTRUCTIONS, build_server_for
from ctxwrap.service.memories import Memories
from ctxwrap.service.prompts import block_for
from ctxwrap.stores.files.store import FileLog
from ctxwrap.testing.practice import Provider
from tests.service.mcp.doors import command, environment, http_server
from tests.support import documents, lines

TOOLS = {
    *("create_memory", "get_memory", "add_entry", "list_entries", "get_context"),
    *("put_context", "await_consistency", "get_user", "search_memories"),
}
PLACEHOLDER = (
    "This is default context that's created with the memory. Instructions for AI Agent: Provide relevant context as "
    "soon as it's available."
)
A1_CONTEXT = "I am a helpful customer-support agent. Ready to greet customer."
A2_RAW = "Hi Sam, our Q3 launch date moved to 17 Aug 2025. Please update the tracker."
A2_SUMMARY = "User stated the Q3 launch date is rescheduled to 17 Aug 2025 and asked Sam to update the project tracker."
A2_BEFORE = "• 17 Aug 2025 – tentative Q3 launch"
TOLD = ("My name is Ada.", "We decided to use PostgreSQL 16.", "Please call Lena on 2026-03-04.")


@pytest.fixture
def service(home: Path) -> Memories:
    return Memories(home, user={"name": "Ada Lovelace", "email": "ada@example.com"})


@pytest.fixture
def memory(service: Memories) -> str:
    return service.create_memory("Support").memoryId


def chat(provider: Provider, home: Path, **settings: Any) -> Callable[[str], Any]:
    bare = openai.OpenAI(api_key="k", base_url=provider.openai_url, max_retries=0)
    client = ctxwrap.wrap(bare, store=home, session="s", **{"derive": "inline", **settings})

    def say(text: str) -> Any:
        return client.chat.completions.create(model="m", messages=[{"role": "user", "content": text}])

    return say


def asked(connection: AbstractAsyncContextManager[Any], work: Callable[[Client], Awaitable[Any]]) -> Any:
    async def run() -> Any:
        async with connection as client:
            return await work(client)

    return asyncio.run(asyncio.wait_for(run(), 60))


def on_stdio(home: Path, *more: str, **env: str) -> Client:
    program, *arguments = command(home, *more)
    return Client(StdioServerParameters(command=program, args=arguments, env={**environment(), **env}))


def over_http(url: str, token: str) -> Client:
    http = httpx2.AsyncClient(headers={"authorization": f"Bearer {token}"}, timeout=60)
    return Client(streamable_http_client(url, http_client=http))


async def call(client: Client, tool: str, **arguments: Any) -> Any:
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    return result.structured_content


async def names_and_user(client: Client) -> tuple[set[str], Any]:
    return {tool.name for tool in (await client.list_tools()).tools}, await call(client, "get_user")


# MCP tools available


def test_tools_have_exactly_these_names_on_stdio_and_get_user_tells_name_email_and_quotas(home: Path) -> None:
    names, user = asked(on_stdio(home, "--user", "Ada Lovelace <ada@example.com>"), names_and_user)
    assert names >= TOOLS
    assert (user["name"], user["email"]) == ("Ada Lovelace", "ada@example.com")
    assert user["quotas"]


def test_get_user_of_the_environment_has_a_name(home: Path) -> None:
    _, user = asked(on_stdio(home, CTXWRAP_MCP_USER="Ada"), names_and_user)
    assert (user["name"], user["email"]) == ("Ada", "")


def test_tools_over_http_have_these_names_and_tenants_with_their_users_are_apart(home: Path, tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    file.touch(0o600)
    file.write_text(
        "token-of-acme-0123456789=acme\nuser acme=Ada Lovelace <ada@example.com>\ntoken-of-other-0123456789=other\n"
    )
    with http_server(home, "--token-file", str(file)) as (url, _):

        async def create(client: Client) -> Any:
            return *await names_and_user(client), (await call(client, "create_memory", title="Plans"))["memoryId"]

        names, user, id = asked(over_http(url, "token-of-acme-0123456789"), create)
        assert names >= TOOLS
        assert (user["userId"], user["name"], user["email"]) == ("acme", "Ada Lovelace", "ada@example.com")

        async def peek(client: Client) -> Any:
            found = await client.call_tool("get_memory", {"memory_id": id})
            return found.is_error, (await call(client, "get_user"))

        is_refused, other = asked(over_http(url, "token-of-other-0123456789"), peek)
        assert is_refused
        assert (other["userId"], other["name"], other["email"]) == ("other", "", "")


def test_create_and_get_memory_tell_title_type_and_stats(service: Memories, memory: str) -> None:
    service.add_entry(memory, "Raw.")
    known = service.get_memory(memory)
    assert (known.title, known.memoryType, known.stats.entries) == ("Support", "chat", 1)


def test_list_entries_has_limit_before_and_after(service: Memories, memory: str) -> None:
    for number in range(25):
        service.add_entry(memory, f"Message {number}.")
    newest = service.list_entries(memory, limit=10)
    assert [each.rawEntry for each in newest.entries] == [f"Message {number}." for number in range(24, 14, -1)]
    older = service.list_entries(memory, limit=10, before=newest.next_before)
    assert older.entries[0].rawEntry == "Message 14."
    newer = service.list_entries(memory, limit=50, after=older.next_after)
    assert [each.rawEntry for each in newer.entries] == [each.rawEntry for each in newest.entries]


def test_search_memories_returns_ranked_entries_and_the_best_and_the_latest_context(
    service: Memories, memory: str
) -> None:
    for text in ("The weather is fine.", A2_RAW, "Lunch is at noon."):
        service.add_entry(memory, text)
    service.put_context(memory, "# Facts\n- The Q3 launch is on 17 Aug 2025.")
    service.put_context(memory, "# Facts\n- Lunch is at noon.")
    found = service.search_memories(memory, "When is the Q3 launch?")
    assert found.entries[0].entry.rawEntry == A2_RAW
    scores = [hit.score for hit in found.entries]
    assert scores == sorted(scores, reverse=True)
    assert found.bestContext is not None
    assert (found.bestContext.version, found.latestContext.version) == (1, 2)


def test_tool_scoping_gives_the_block_of_the_tool_and_no_other() -> None:
    prompt = "# Rules\n### TOOL: add_entry\nStore it.\n### TOOL: put_context\nWrite it.\n## Other\nText."
    assert block_for(prompt, "add_entry") == "Store it."
    assert block_for(prompt, "put_context") == "Write it."
    assert block_for(prompt, "get_user") == ""


# 1 to 4: sources and purposes


def test_1_and_4_context_grows_from_raw_entries_and_never_from_summaries(service: Memories, memory: str) -> None:
    secret = "The quarterly walrus count of the northern station was eleven."
    service.add_entry(memory, A2_RAW, summary=secret)
    service.grow_context(memory)
    assert "walrus" not in service.get_context(memory).content
    assert "17 Aug 2025" in service.get_context(memory).content or "tracker" in service.get_context(memory).content
    with pytest.raises(InvalidInput, match="entry 1"):
        service.put_context(memory, f"# Facts\n- {secret}")


def test_2_context_stores_lasting_knowledge(provider: Provider, home: Path) -> None:
    say = chat(provider, home)
    for text in TOLD:
        say(text)
    content = Memories(home).get_context("s").content
    for told in ("Ada", "PostgreSQL 16", "Lena", "2026-03-04"):
        assert told in content
    assert re.search(r"- \[ \] .*Lena", content), "an open task is told as one"
    assert len(provider.seen) == len(TOLD), "no model is asked for it"


def diagram(nodes: int) -> str:
    arrows = "\n".join(f"n{each} --> n{each + 1}" for each in range(nodes - 1))
    return f"# Diagram\n```mermaid\nflowchart TD\n{arrows}\n```\n"


def test_2_context_may_have_a_diagram_of_ten_nodes_at_most(service: Memories, memory: str) -> None:
    service.put_context(memory, diagram(10))
    with pytest.raises(InvalidInput, match="11 nodes"):
        service.put_context(memory, diagram(11))
    assert service.get_context(memory).content.strip() == diagram(10).strip()


@pytest.mark.parametrize("size", [10, 600, 5000, 15_000])
def test_3_an_entry_has_one_summary_of_512_characters_at_most(service: Memories, memory: str, size: int) -> None:
    text = " ".join(f"Ada sold house {number} on 2025-03-04." for number in range(size // 30 + 1))
    service.add_entry(memory, text)
    service.add_entry(memory, "Raw.", summary=text)
    for entry in service.list_entries(memory).entries:
        assert 0 < len(entry.summary) <= 512


def test_3_a_summary_keeps_names_dates_and_ids_and_drops_filler(service: Memories, memory: str) -> None:
    service.add_entry(memory, "Hello there! Thanks a lot. Lena paid invoice 4711 on 2026-03-04. Have a nice day!")
    summary = service.list_entries(memory).entries[0].summary
    for told in ("Lena", "4711", "2026-03-04"):
        assert told in summary
    for filler in ("Hello", "Thanks", "nice day"):
        assert filler not in summary


def test_3_a_summary_names_the_subject_and_resolves_pronouns_by_the_context(service: Memories, memory: str) -> None:
    service.put_context(memory, "# Participants\n- Ada – user\n")
    service.add_entry(memory, "Hi! I moved to Lisbon.")
    assert service.list_entries(memory).entries[0].summary == "Ada moved to Lisbon."


def test_3_a_summary_by_rules_resolves_no_pronoun_that_it_would_have_to_guess(service: Memories, memory: str) -> None:
    service.put_context(memory, "# Participants\n- Ada – user\n")
    service.add_entry(memory, "They told me that you sold it.")
    assert service.list_entries(memory).entries[0].summary == "They told me that you sold it."


# 5: flow per incoming message


def syncs_before_versions(monkeypatch: pytest.MonkeyPatch, home: Path, session: str) -> list[int]:
    """For each sync of the messages, how many versions of the document the log had by then."""
    counts: list[int] = []
    sync = os.fdatasync

    def noted(handle: int) -> None:
        if os.readlink(f"/proc/self/fd/{handle}").endswith("/messages.jsonl"):
            counts.append(len(documents(home, session)))
        sync(handle)

    monkeypatch.setattr(os, "fdatasync", noted)
    return counts


def test_5_a_chat_stores_each_message_and_flushes_after_six_behind_a_barrier(
    provider: Provider, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    syncs = syncs_before_versions(monkeypatch, home, "s")
    say = chat(provider, home)
    for number in range(12):
        say(f"My flat has {number + 2} rooms.")
    told = documents(home, "s")
    assert [each["covers"] for each in told] == [6, 12, 18, 24]
    assert syncs == [0, 1, 2, 3], "one barrier before each version"


def test_5_put_context_is_behind_a_barrier_whether_the_agent_asked_for_one_or_not(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = Memories(home)
    memory = service.create_memory("Support").memoryId
    service.add_entry(memory, A2_RAW)
    syncs = syncs_before_versions(monkeypatch, home, memory)
    service.put_context(memory, A1_CONTEXT)
    assert syncs == [0]
    service.grow_context(memory)
    assert syncs == [0, 1]


def test_5_a_failed_barrier_writes_no_context_and_is_told(
    service: Memories, memory: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    service.add_entry(memory, A2_RAW)
    with monkeypatch.context() as broken:

        def fail(_: int) -> None:
            raise OSError(5, "the disk is gone")

        broken.setattr(os, "fdatasync", fail)
        with pytest.raises(StoreUnavailable):
            service.put_context(memory, A1_CONTEXT)
    assert service.get_context(memory).version == 0
    with pytest.raises(WritesLost, match="put_context"):
        service.await_consistency(memory)
    assert service.await_consistency(memory).entries == 1


def test_5_await_consistency_fails_when_a_write_failed_even_if_put_context_came_between(
    service: Memories, memory: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as full:

        def refuse(*_: Any, **__: Any) -> Any:
            raise StoreUnavailable("no space left")

        full.setattr(FileLog, "append", refuse)
        with pytest.raises(StoreUnavailable):
            service.add_entry(memory, "Raw.")
    service.put_context(memory, A1_CONTEXT)
    with pytest.raises(WritesLost, match="add_entry"):
        service.await_consistency(memory)
    assert service.await_consistency(memory).status == "consistent"


def test_5_the_context_is_written_once_more_before_exit(provider: Provider, home: Path) -> None:
    say = chat(provider, home, derive="behind")
    say("My name is Ada.")
    ctxwrap.flush()
    assert [each["covers"] for each in documents(home, "s")] == [2]


# 6: overflow handling


def test_6_1_a_context_over_5000_characters_is_trimmed_to_about_4800_and_keeps_core_facts(
    service: Memories, memory: str
) -> None:
    filler = "\n".join(f"- On day {number} the weather was much like on the day before." for number in range(150))
    core = "# Entities\n- Ada – user\n\n# Decisions\n- We use PostgreSQL 16\n\n# Tasks\n- [ ] Call Lena on 2026-03-04\n"
    stored = service.put_context(memory, f"{core}\n# Facts\n{filler}\n")
    content = service.get_context(memory).content
    assert 4500 < len(content) <= 4800
    assert "trimmed" in stored.note
    for told in ("Ada", "PostgreSQL 16", "Call Lena", "On day 149"):
        assert told in content
    assert "On day 0 " not in content, "the oldest lines go first"


def test_6_2_a_summary_over_512_characters_loses_its_filler_first_and_ends_with_an_ellipsis(
    service: Memories, memory: str
) -> None:
    facts = [f"Lena paid invoice {number} over {number} EUR on 2026-03-{number % 28 + 1:02}." for number in range(8)]
    filler = ["Well, that is how it goes, as one says, and it went rather well, did it not."] * 4
    service.add_entry(memory, "Raw.", summary=" ".join([*filler, *facts]))
    summary = service.list_entries(memory).entries[0].summary
    assert len(summary) <= 512
    assert summary.endswith("…")
    assert summary.count("invoice") >= 7
    assert summary.count("as one says") <= 1


# 7: session bootstrap


def test_7_1_a_new_memory_has_exactly_the_placeholder(service: Memories, memory: str) -> None:
    known = service.get_context(memory)
    assert (known.content, known.version) == (PLACEHOLDER, 0)


def test_7_an_agent_is_told_to_bootstrap() -> None:
    told = " ".join(INSTRUCTIONS.split())
    assert "call get_context, then list_entries with limit 10" in told
    assert "await_consistency and then put_context" in told


def test_7_2_a_chat_on_an_agents_memory_begins_with_its_context_and_entries(provider: Provider, home: Path) -> None:
    service = Memories(home)
    service.create_memory("Support", memory_id="s")
    service.add_entry("s", "The shop closes at nine.")
    service.put_context("s", "# Facts\n- The user is called Grace.")
    chat(provider, home)("When do you close?")
    sent = json.dumps(provider.seen[-1].json, ensure_ascii=False)
    assert "The user is called Grace." in sent
    assert "The shop closes at nine." in sent


# State machines


def test_session_lifecycle_end_session_stores_the_rest_then_barrier_then_final_context_then_exit(
    provider: Provider, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    syncs = syncs_before_versions(monkeypatch, home, "s")
    say = chat(provider, home)
    say("My name is Ada.")
    assert (syncs, documents(home, "s")) == ([], [])
    assert say("We are done.\n<END_SESSION>").choices[0].message.content == "Hello, world."
    (final,) = documents(home, "s")
    assert (final["version"], final["covers"]) == (1, 4)
    assert "Ada" in final["content"]
    assert syncs[0] == 0, "the barrier stands before the final version"
    assert [event["type"] for event in lines(home, "s", "events")][-2:] == ["document", "session_end"]


def test_session_lifecycle_a_caller_ends_a_session_and_a_later_call_resumes_it(provider: Provider, home: Path) -> None:
    say = chat(provider, home)
    say("My name is Ada.")
    ctxwrap.end_session("s", store=home)
    say("One thing more.")
    types = [event["type"] for event in lines(home, "s", "events")]
    assert types.count("session_end") == types.count("session_resume") == 1
    assert types.index("session_end") < types.index("session_resume")
    with pytest.raises(NotFound):
        ctxwrap.end_session("another", store=home)


# Prompt loading


@pytest.mark.parametrize("kind", ["chat", "notes"])
def test_prompts_of_a_memory_type_are_loaded_from_its_directory(service: Memories, kind: str) -> None:
    found = service.prompts(kind)
    assert set(found.templates) == {"context_prompt", "entry_capture_prompt", "summary_prompt"}
    assert all(text.strip() for text in found.templates.values())


def test_prompts_can_be_overridden_and_add_types(home: Path, tmp_path: Path) -> None:
    for kind in ("chat", "opera"):
        place = tmp_path / "prompts/default" / kind
        place.mkdir(parents=True)
        for name in ("context_prompt", "entry_capture_prompt", "summary_prompt"):
            (place / f"{name}.md").write_text(f"{name} for {kind}")
    service = Memories(home, settings=ctxwrap.Settings(prompts_dir=str(tmp_path / "prompts")))
    assert service.prompts("chat").templates["summary_prompt"] == "summary_prompt for chat"
    assert service.create_memory("Aida", "opera").memoryType == "opera"


def test_prompts_are_needed_for_the_type_of_a_memory(service: Memories) -> None:
    with pytest.raises(InvalidInput, match="known are chat, notes"):
        service.create_memory("Aida", "opera")
    assert service.list_memories() == ()

    async def create(client: Client) -> Any:
        return await client.call_tool("create_memory", {"title": "Aida", "memory_type": "opera"})

    refused = asked(Client(build_server_for(service)), create)
    assert refused.is_error
    assert "chat, notes" in refused.content[0].text


# Appendix A


def test_example_a_1_new_memory_bootstrap(service: Memories, memory: str) -> None:
    assert service.get_context(memory).version == 0
    assert service.put_context(memory, A1_CONTEXT).version == 1
    assert service.get_context(memory).content == A1_CONTEXT


def test_example_a_2_raw_entry_to_summary_to_context_update(service: Memories, memory: str) -> None:
    service.put_context(memory, f"{A2_BEFORE}\n")
    service.add_entry(memory, A2_RAW, summary=A2_SUMMARY)
    assert service.list_entries(memory).entries[0].summary == A2_SUMMARY
    service.add_entry(memory, A2_RAW)
    by_rules = service.list_entries(memory).entries[0].summary
    assert len(by_rules) <= 512
    for told in ("Q3 launch date", "17 Aug 2025", "asked Sam to update the tracker"):
        assert told in by_rules
    service.grow_context(memory)
    content = service.get_context(memory).content
    assert "17 Aug 2025 – **confirmed** Q3 launch" in content
    assert "tentative" not in content
