"""What a server offers, what it tells when things fail, and that nothing but the protocol is on stdout."""

import errno
import json
import logging
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import PIPE
from typing import Any

import anyio
import pytest
from click.testing import CliRunner
from mcp import Client

from ctxwrap.cli import main
from ctxwrap.service.mcp.server import build_server_for
from ctxwrap.service.memories import Memories
from ctxwrap.stores import open_store
from ctxwrap.types import SessionKey
from tests.service.mcp.doors import InPython, command, environment
from tests.stores.faults import Seam, failing, installed


def run(memories: Memories, scenario: Callable[[InPython], Awaitable[None]], **how: bool | str) -> None:
    async def talking() -> None:
        with anyio.fail_after(60):
            async with Client(build_server_for(memories, **how)) as client:  # type: ignore[arg-type]  # its own options
                await scenario(InPython(client))

    anyio.run(talking)


@pytest.fixture
def memories(home: Path) -> Memories:
    memories = Memories(open_store(home), tenant="acme")
    memories.create_memory("notes", memory_id="notes")
    return memories


def test_no_create_server_creates_no_memory(memories: Memories) -> None:
    async def scenario(to: InPython) -> None:
        offered = {tool["name"] for tool in await to.tools()}
        assert len(offered) == 12
        assert not {name for name in offered if name.startswith("create")}
        assert (await to.call("create_memory", title="x")).failed

    run(memories, scenario, allow_create=False)
    assert [memory.memoryId for memory in memories.list_memories()] == ["notes"]


def test_tools_need_a_memory_id_without_a_default_memory(memories: Memories) -> None:
    async def scenario(to: InPython) -> None:
        answer = await to.call("get_context")
        assert answer.failed
        assert "pass a memory_id" in answer.text
        assert not (await to.call("get_context", memory_id="notes")).failed

    run(memories, scenario)


def test_texts_that_look_like_json_stay_texts(memories: Memories) -> None:
    async def scenario(to: InPython) -> None:
        for text in ('{"a": 1}', "[1]", "null", "12", '"quoted"'):
            await to.call("add_entry", raw_entry=text, summary=text)
            entry = (await to.call("list_entries", limit=1)).data["entries"][0]
            assert (entry["rawEntry"], entry["summary"]) == (text, text)

    run(memories, scenario, memory="notes")


def test_failed_write_is_reported_twice_without_its_path(
    memories: Memories, home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """At once, and by the barrier, to whoever asks it."""

    async def scenario(to: InPython) -> None:
        with installed(Seam(failing("write", 1, errno.ENOSPC, for_ever=True))):
            failed = await to.call("add_entry", raw_entry="Lost.")
        waited = await to.call("await_consistency")
        assert failed.failed
        assert "try again" in failed.text
        assert waited.failed
        assert "1 writes failed (add_entry)" in waited.text
        assert str(home) not in failed.text + waited.text
        assert (await to.call("await_consistency")).data["entries"] == 0

    with caplog.at_level(logging.WARNING):
        run(memories, scenario, memory="notes")
    assert "a tool failed" in caplog.text, "the operator learns of it"


@contextmanager
def held(home: Path) -> Iterator[None]:
    """Somebody else writes to the memory and does not come to an end."""
    is_held, is_over = threading.Event(), threading.Event()

    def hold() -> None:
        with open_store(home).open(SessionKey("acme", "default", "notes")).locked():
            is_held.set()
            is_over.wait(60)

    thread = threading.Thread(target=hold)
    thread.start()
    is_held.wait(60)
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def test_await_consistency_times_out_and_reports_progress(memories: Memories, home: Path) -> None:
    reports: list[float] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        reports.append(progress)

    async def scenario(to: InPython) -> None:
        waiting = {"memory_id": "notes", "timeout_seconds": 1.2}
        answer = await to.client.call_tool("await_consistency", waiting, progress_callback=note)
        assert answer.is_error

    with held(home):
        run(memories, scenario)
    assert reports == [0.5, 1.0]


def test_cancelled_await_consistency_ends_and_others_are_served(memories: Memories, home: Path) -> None:
    async def scenario(to: InPython) -> None:
        began = anyio.current_time()
        with anyio.move_on_after(0.3):
            await to.call("await_consistency", memory_id="notes")
        assert anyio.current_time() - began < 5
        assert (await to.call("get_user")).data["userId"] == "acme", "others are served"

    with held(home):
        run(memories, scenario)


def test_stdout_carries_protocol_messages_only(home: Path) -> None:
    """Every line of it; and it ends when the client does."""
    asked = [
        {"id": 1, "method": "initialize", "params": HELLO},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/call", "params": {"name": "add_entry", "arguments": {"raw_entry": "Kept."}}},
        {"id": 3, "method": "tools/call", "params": {"name": "no_such_tool", "arguments": {}}},
        {"id": 4, "method": "nonsense"},
    ]
    answers: list[dict[str, Any]] = []
    with subprocess.Popen(command(home), stdin=PIPE, stdout=PIPE, text=True, env=environment()) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        for line in ["this is no JSON", *(json.dumps({"jsonrpc": "2.0", **call}) for call in asked)]:
            server.stdin.write(line + "\n")
        server.stdin.flush()
        while {1, 2, 3, 4} - {answer.get("id") for answer in answers}:
            answers.append(json.loads(server.stdout.readline()))
        server.stdin.close()
        assert server.stdout.read() == ""
        assert server.wait(60) == 0
    assert all(answer["jsonrpc"] == "2.0" for answer in answers)
    assert Memories(open_store(home)).list_entries("notes").entries[0].rawEntry == "Kept."


HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}


def test_no_create_server_does_not_create_the_default_memory(home: Path) -> None:
    done = CliRunner().invoke(main, ["mcp", "--store", str(home), "--memory", "notes", "--no-create"])
    assert done.exit_code == 1
    assert "there is no memory 'notes'" in done.stderr


def test_missing_mcp_extra_is_named_in_the_error(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    done = CliRunner().invoke(main, ["mcp", "--store", str(home)])
    assert done.exit_code == 1
    assert "pip install 'ctxwrap[mcp]'" in done.stderr


def test_command_line_imports_no_server_packages() -> None:
    code = "import sys, ctxwrap.cli; print(sorted({'mcp', 'uvicorn', 'starlette'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
