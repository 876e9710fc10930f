"""Every tool, through every official client and transport: the same calls have the same answers."""

from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.from_thread import start_blocking_portal

from ctxwrap.service.memories import Memories
from ctxwrap.stores import open_store
from tests.service.mcp.doors import TOKENS, Connection, Door, InMemory, InNode, OnStdio, OverHttp, command, environment
from tests.service.mcp.doors import node_modules as installed

SPECIFIED = "create_memory get_memory add_entry list_entries get_context put_context await_consistency get_user"
ALIASES = "create_vault list_vaults list_memories create_memory_in_vault get_entry get_default_prompts"
NAMES = {*SPECIFIED.split(), "search_memories", *ALIASES.split()}
CREATING = {"create_memory", "create_memory_in_vault", "create_vault"}
PLACEHOLDER = (
    "This is default context that's created with the memory. Instructions for AI Agent: Provide relevant context as "
    "soon as it's available."
)
ACME = next(iter(TOKENS))
THOUSAND = [f"Message {number} of a thousand." for number in range(1000)]


@pytest.fixture(scope="module")
def thousand(shared_home: Path) -> str:
    """A memory of a thousand entries, all of the same time."""
    memories = Memories(open_store(shared_home), tenant="acme", clock=lambda: datetime(2025, 8, 17, tzinfo=UTC))
    id = memories.create_memory("thousand").memoryId
    for text in THOUSAND:
        memories.add_entry(id, text, summary=text)
    return id


Scenario = Callable[[Connection, Door, str], Awaitable[None]]
"""What is to be said over a connection, through which door, and which memory has a thousand entries."""

Talk = Callable[[Scenario], None]

DOORS = ["memory", "stdio", "http", "http-legacy"]
NODE_DOORS = ["node-sdk-stdio", "node-sdk-http", "node-client-stdio", "node-client-http"]


@pytest.fixture(scope="module")
def door(request: pytest.FixtureRequest, shared_home: Path) -> Door:
    if request.param in DOORS:
        return _python_door(request, shared_home)
    _, client, transport = request.param.split("-")
    if transport == "http":
        return InNode(installed(), client, url=request.getfixturevalue("url"), token=ACME)
    program, *arguments = command(shared_home, "--tenant", "acme")
    return InNode(installed(), client, command=program, args=arguments, env=environment())


def _python_door(request: pytest.FixtureRequest, home: Path) -> Door:
    transport, _, mode = request.param.partition("-")
    if transport == "memory":
        return InMemory(home)
    if transport == "stdio":
        return OnStdio(home, mode or "auto")
    return OverHttp(request.getfixturevalue("url"), ACME, mode or "auto")


@pytest.fixture(scope="module")
def talk(door: Door, thousand: str) -> Iterator[Talk]:
    """Runs what is to be said over one connection, which all tests of a door share."""
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(door.open()) as connection:

        async def within_a_minute(scenario: Scenario) -> None:
            with anyio.fail_after(60):
                await scenario(connection, door, thousand)

        yield lambda scenario: portal.call(within_a_minute, scenario)


async def a_memory(to: Connection) -> str:
    id: str = (await to.call("create_memory", title="A memory")).data["memoryId"]
    return id


async def every_tool_answers(to: Connection, *_: Any) -> None:
    id = await a_memory(to)
    await _keeps_a_conversation(to, id)
    await _finds_it_again(to, id)
    await _has_vaults(to)
    assert (await to.call("get_user")).data["userId"] == "acme"
    prompts = (await to.call("get_default_prompts", memory_type="chat")).data
    assert set(prompts["templates"]) == {"context_prompt", "entry_capture_prompt", "summary_prompt"}


async def _keeps_a_conversation(to: Connection, id: str) -> None:
    """The specification's flow, from bootstrap to flush."""
    begun = await to.call("get_context", memory_id=id)
    assert (begun.text, begun.data["version"]) == (PLACEHOLDER, 0)
    assert (await to.call("list_entries", memory_id=id, limit=10)).data["entries"] == []
    raw = "Hi Sam, our Q3 launch date moved to 17 Aug 2025. Please update the tracker."
    summary = "User moved the Q3 launch to 2025-08-17."
    stored = await to.call("add_entry", memory_id=id, raw_entry=raw, summary=summary, tags={"kind": "plan", "n": 1})
    assert stored.data["status"] == "stored"
    again = {"memory_id": id, "raw_entry": "Done.", "role": "assistant", "request_id": "r-1"}
    assert (await to.call("add_entry", **again)).data == (await to.call("add_entry", **again)).data
    reached = await to.call("await_consistency", memory_id=id)
    assert (reached.text, reached.data["entries"]) == ("consistent", 2)
    document = "# Description\nSam keeps the tracker.\n# Decisions\n- 2025-08-17: Q3 launch"
    put = await to.call("put_context", memory_id=id, content=document, expected_version=0)
    assert put.data["version"] == 1
    assert (await to.call("get_context", memory_id=id)).text == document
    first = (await to.call("list_entries", memory_id=id, limit="10")).data["entries"][1]
    assert (first["rawEntry"], first["summary"], first["tags"]) == (raw, summary, {"kind": "plan", "n": "1"})
    assert (await to.call("get_entry", memory_id=id, entry_id=first["entryId"])).data == first


async def _finds_it_again(to: Connection, id: str) -> None:
    found = (await to.call("search_memories", memory_id=id, query="When is the launch?", top_k=5)).data
    assert "17 Aug 2025" in found["entries"][0]["entry"]["rawEntry"]
    assert found["latestContext"]["version"] == 1
    assert (await to.call("get_memory", memory_id=id)).data["stats"]["entries"] == 2


async def _has_vaults(to: Connection) -> None:
    vaults = {vault["vaultId"] for vault in (await to.call("list_vaults")).data["result"]}
    name = f"Vault-{len(vaults)}"
    assert (await to.call("create_vault", title=name)).data["vaultId"] == name
    made = await to.call("create_memory_in_vault", vault_id=name, title="Notes", memory_type="NOTES")
    assert made.data["vaultId"] == name
    listed = (await to.call("list_memories", vault_id=name)).data["result"]
    assert [memory["memoryId"] for memory in listed] == [made.data["memoryId"]]


async def the_default_memory_is_meant_where_none_is_named(to: Connection, *_: Any) -> None:
    before = (await to.call("get_memory")).data
    assert before["memoryId"] == "notes"
    await to.call("add_entry", raw_entry="One more.", summary=None, memory_id=None)
    assert (await to.call("get_memory")).data["stats"]["entries"] == before["stats"]["entries"] + 1
    assert (await to.call("list_entries", limit=1)).data["entries"][0]["rawEntry"] == "One more."


WRONG: list[tuple[str, dict[str, Any], str]] = [
    ("get_memory", {"memory_id": "unknown"}, "there is no memory 'unknown'"),
    ("list_entries", {"limit": 51}, "limit must be a whole number from 1 to 50"),
    ("list_entries", {"limit": "many"}, "limit must be a whole number from 1 to 50"),
    ("list_entries", {"before": "x", "after": "y"}, "before or after"),
    ("add_entry", {"raw_entry": ""}, "raw_entry must be a non-empty text"),
    ("add_entry", {"raw_entry": "x", "role": "king"}, "role must be one of"),
    ("add_entry", {}, "raw_entry"),
    ("get_entry", {"entry_id": "999999"}, "there is no entry"),
    ("put_context", {"content": "x", "expected_version": 99}, "read it, merge, and write again"),
    ("put_context", {"content": ""}, "content must be a non-empty text"),
    ("get_context", {"version": 99}, "99"),
    ("search_memories", {"query": "x", "top_k": 0}, "top_k must be a whole number"),
    ("await_consistency", {"timeout_seconds": 11}, "less than or equal to 10"),
    ("await_consistency", {"memory_id": "unknown"}, "there is no memory 'unknown'"),
    ("create_memory", {"title": "x" * 51}, "at most 50"),
    ("create_vault", {"title": "a b"}, "letters, digits and hyphens"),
    ("get_default_prompts", {"memory_type": "opera"}, "chat"),
    ("get_memory", {"memoryId": "notes"}, "memoryId"),
]


async def errors_say_what_to_do(to: Connection, *_: Any) -> None:
    for tool, arguments, said in WRONG:
        answer = await to.call(tool, **arguments)
        assert answer.failed, tool
        assert said in answer.text, tool
        assert "home" not in answer.text, "no path is told"
        assert "Traceback" not in answer.text


async def a_thousand_entries_of_one_moment_are_listed_once_each(to: Connection, door: Door, thousand: str) -> None:
    backward, newer = await _pages(to, thousand, "before", "")
    assert backward == THOUSAND[::-1]
    forward, _ = await _pages(to, thousand, "after", newer)
    assert forward == THOUSAND[50:], "what came after the oldest page"


async def _pages(to: Connection, id: str, way: str, cursor: str) -> tuple[list[str], str]:
    """All raw entries that way, in its order, and what leads on from the last page to newer ones."""
    found: list[str] = []
    while True:
        page = (await to.call("list_entries", memory_id=id, limit=50, **{way: cursor})).data
        raw = [entry["rawEntry"] for entry in page["entries"]]
        found += raw if way == "before" else raw[::-1]
        cursor = page[f"next_{way}"]
        if not raw or not cursor:
            return found, page["next_after"]


async def two_writers_at_once_lose_nothing(one: Connection, door: Door, thousand: str) -> None:
    """Each with a connection of its own, and on stdio with a process of its own."""
    async with door.open() as two:
        id = await a_memory(one)
        async with anyio.create_task_group() as group:
            for name, connection in (("one", one), ("two", two)):
                group.start_soon(_write, connection, id, name)
        listed = (await one.call("list_entries", memory_id=id, limit=50)).data["entries"]
        for name in ("one", "two"):
            own = [entry["rawEntry"] for entry in reversed(listed) if entry["rawEntry"].startswith(name)]
            assert own == [f"{name} says {number}" for number in range(15)]
        await _conflict(one, two, id)


async def _write(to: Connection, id: str, name: str) -> None:
    for number in range(15):
        assert not (await to.call("add_entry", memory_id=id, raw_entry=f"{name} says {number}")).failed


async def _conflict(one: Connection, two: Connection, id: str) -> None:
    """Of two who know the same version, one writes."""
    assert not (await one.call("put_context", memory_id=id, content="Of one.", expected_version=0)).failed
    assert (await two.call("put_context", memory_id=id, content="Of two.", expected_version=0)).failed
    assert (await two.call("get_context", memory_id=id)).text == "Of one."


async def clients_are_told_what_tools_do(to: Connection, *_: Any) -> None:
    tools = {tool["name"]: tool for tool in await to.tools()}
    assert set(tools) == NAMES
    assert all(tool["description"] and tool["outputSchema"]["type"] == "object" for tool in tools.values())
    reading = {name for name, tool in tools.items() if tool["annotations"]["readOnlyHint"]}
    assert reading == NAMES - CREATING - {"add_entry", "put_context"}
    assert tools["put_context"]["annotations"]["destructiveHint"] is True
    assert tools["add_entry"]["inputSchema"]["required"] == ["raw_entry"]
    assert all(not tool["inputSchema"]["additionalProperties"] for tool in tools.values())


SCENARIOS: list[Scenario] = [
    every_tool_answers,
    the_default_memory_is_meant_where_none_is_named,
    errors_say_what_to_do,
    a_thousand_entries_of_one_moment_are_listed_once_each,
    two_writers_at_once_lose_nothing,
    clients_are_told_what_tools_do,
]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
@pytest.mark.parametrize("door", DOORS, indirect=True)
def test_tools_work_with_the_python_client(talk: Talk, scenario: Scenario) -> None:
    talk(scenario)


@pytest.mark.parametrize("door", NODE_DOORS, indirect=True)
def test_tools_work_with_the_node_clients(talk: Talk) -> None:
    """All in one test, since connecting takes seconds."""
    for scenario in SCENARIOS:
        talk(scenario)
