"""The commands for garbage and swap: shown first, done on request, and nothing steers the terminal."""

import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from ctxwrap.cli import main
from ctxwrap.inspect import memory_of
from ctxwrap.stores.files.store import FileStore
from tests.session.telling import KEY, Teller, directory_of, hashes, item


@pytest.fixture
def told(tmp_path: Path) -> Teller:
    teller = Teller(FileStore(tmp_path / "home"))
    teller.says(
        "A lighthouse [bold]and[/bold] \x1b[31ma red\u202e sea.",
        keeps=[item("e-1", "Ada keeps \x1b[2Jbees", origin="tool")],
    )
    teller.chats(60)
    return teller


def ctxwrap(told: Teller, *arguments: str) -> Result:
    return CliRunner().invoke(main, [*arguments, "--store", str(told.store.root)])  # type: ignore[attr-defined]


def old_pack(told: Teller) -> Path:
    path = directory_of(told.store) / "context/pack.md"
    path.write_text("# Pack")
    os.utime(path, (0, 0))
    return path


def test_gc_command_lists_garbage_without_removing_it(told: Teller) -> None:
    pack = old_pack(told)
    before = hashes(directory_of(told.store), "**/*")
    result = ctxwrap(told, "gc", "s")
    assert result.exit_code == 0
    assert "context/pack.md" in result.output
    assert "every call writes a new one" in " ".join(result.output.split())
    assert "1 file, 6 bytes can be removed; use --yes to remove them" in result.output
    assert pack.exists()
    assert hashes(directory_of(told.store), "**/*") == before


def test_gc_command_removes_garbage_on_request(told: Teller) -> None:
    pack = old_pack(told)
    assert "removed 1 file, 6 bytes" in ctxwrap(told, "gc", "s", "--yes").output
    assert not pack.exists()
    assert ctxwrap(told, "gc", "s").output == "nothing to collect\n"


def test_gc_command_prints_json(told: Teller) -> None:
    old_pack(told)
    shown = json.loads(ctxwrap(told, "gc", "s", "--json").output)
    assert (shown["dry_run"], shown["size"], shown["policy"]["pack_ttl"]) == (True, 6, 86400)
    assert [file["name"] for file in shown["files"]] == ["context/pack.md"]
    assert json.loads(ctxwrap(told, "gc", "s", "--json", "--yes").output)["files"][0]["removed"]


def test_bad_policy_is_a_one_line_error(told: Teller) -> None:
    (directory_of(told.store) / "context/gc.policy").write_text("keep_messages=0\n")
    result = ctxwrap(told, "gc", "s", "--yes")
    assert result.exit_code == 1
    assert result.output.startswith("Error: context/gc.policy, line 1: keep_messages=0 would remove history")


@pytest.mark.parametrize("command", ["gc", "swap"])
def test_missing_session_is_a_one_line_error(told: Teller, command: str) -> None:
    result = ctxwrap(told, command, "nobody")
    assert result.exit_code == 1
    assert result.output.startswith("Error: there is no session 'nobody'")


def test_swap_command_lists_and_searches(told: Teller) -> None:
    listed = json.loads(ctxwrap(told, "swap", "s", "--json").output)
    assert {entry["kind"] for entry in listed} == {"messages", "memory"}
    shown = " ".join(ctxwrap(told, "swap", "s", "--query", "red lighthouse").output.split())
    assert "messages:1-40" in shown.replace(" ", "")
    assert "100%" in shown
    assert "nothing in swap contains any of these words" in ctxwrap(told, "swap", "s", "--query", "zebra").output


def test_session_contents_cannot_control_the_terminal(told: Teller) -> None:
    chunk = json.loads(ctxwrap(told, "swap", "s", "--query", "lighthouse", "--json").output)[0]["id"]
    outputs = [
        ctxwrap(told, "swap", "s").output,
        ctxwrap(told, "swap", "s", "--id", chunk).output,
        ctxwrap(told, "swap", "s", "--id", chunk, "--json").output,
        ctxwrap(told, "swap", "s", "--id", "e-1").output,
    ]
    assert not [output for output in outputs if "\x1b" in output or "\u202e" in output]
    assert "[bold]and[/bold]" in outputs[1]


def test_swap_command_brings_an_item_back(told: Teller) -> None:
    assert "is in ephemeral memory" in ctxwrap(told, "swap", "s", "--id", "e-1").output
    assert [each["id"] for each in memory_of(told.store, KEY)["memory"]["ephemeral"]] == ["e-1"]
    assert ctxwrap(told, "swap", "s", "--id", "e-7").output.startswith("Error: nothing in swap")
    assert ctxwrap(told, "swap", "s", "--id", "x", "--query", "y").exit_code == 2
