"""`ctxwrap conform`: the documents' own examples pass, and every check has an input that breaks it and nothing else."""

import hashlib
import json
import os
import re
from collections.abc import Callable
from contextlib import suppress
from io import BytesIO
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click
import openai
import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

import ctxwrap
from ctxwrap.cli import main
from ctxwrap.cli.check import conform_command
from ctxwrap.conformance import CHECKS, KINDS, InputKind, conform
from ctxwrap.conformance.documents import nodes_in
from ctxwrap.errors import InvalidInput
from ctxwrap.session.child_sessions import attach_result, start_child
from ctxwrap.testing import Answer, ScriptedProvider, ToolCall
from tests.conformance.examples import MANIFEST, MANIFEST_AS_PRINTED
from tests.support import examples


def run(*arguments: str | Path, given: str = "") -> Result:
    return CliRunner().invoke(main, ["conform", *map(str, arguments)], input=given)


def broken(path: str | Path, kind: str | None = None, given: str = "") -> set[str]:
    result = run(path, "--json", *(("--as", kind) if kind else ()), given=given)
    assert result.exit_code in (0, 1), result.output
    return {each["id"] for each in json.loads(result.output)["broken"]}


# The documents' examples.

TEMPLATE = {
    "version": "2.2",
    "runtime": {"round": 1, "datetime": "2026-02-20T18:45:12Z", "startup_at": "2026-02-20T18:30:00Z"},
    "memory": {
        "core": [
            {
                "id": "core-001",
                "type": "identity",
                "decay": 0.05,
                "round": 1,
                "tags": ["agent", "identity"],
                "content": "长期核心记忆",
            }
        ],
        "working": [
            {
                "id": "work-001",
                "type": "task",
                "decay": 0.4,
                "round": 1,
                "tags": ["task", "active"],
                "content": "当前任务相关记忆",
            }
        ],
        "ephemeral": [
            {
                "id": "temp-001",
                "type": "hint",
                "decay": 0.8,
                "round": 1,
                "tags": ["temporary"],
                "content": "临时上下文信息",
            }
        ],
    },
    "capabilities": [{"name": "memory", "scope": "write_once"}],
    "active_task": "当前执行任务摘要",
}
TEMPLATE_JSON = json.dumps(TEMPLATE, ensure_ascii=False)
REPLY = f"User Response Content...\n\n<<<CONTEXT>>>\n{TEMPLATE_JSON}"

REPORT = """\
assembly_report:
  budget:
    max: 28000
    used: 23456
    remaining: 4544

  included:
    - path: ".agent/constitution.md"
      tokens: 2100
      truncated: false

    - path: "current_task.md"
      tokens: 500
      truncated: false

    - path: "src/main.ts"
      tokens: 8000
      truncated: true
      original_tokens: 15000

  excluded:
    - path: "large_log.txt"
      reason: "Over budget, priority too low"

  warnings:
    - "3 files excluded due to budget"
    - "1 file truncated significantly"
"""

CONTEXT = (
    "I am a helpful customer-support agent. Ready to greet customer.\n• 17 Aug 2025 – **confirmed** Q3 launch date\n"
)
SUMMARY = "User stated the Q3 launch date is rescheduled to 17 Aug 2025 and asked Sam to update the project tracker."

LIFECYCLE = """\
flowchart TD
    Boot[get_context()]
    Boot -->|plain-text placeholder| Base[put_context({})]
    Boot -->|JSON context| Load[list_entries(10) → merge]
    Base --> Load
    Load --> Loop[Message loop]

    %% per-message handling
    Loop --> Store?[store this entry?]
    Store? -- Yes --> Add[add_entry & track ≈6] --> Check
    Store? -- No  --> Check
    Check{≈6 stored?}
    Check -- Yes / put_context; reset --> Loop
    Check -- No  --> Loop

    %% graceful exit
    Loop --> Bye{<END_SESSION>?}
    Bye -- Yes --> Finish[add_entry (any remaining)] --> Barrier[await_consistency()] --> Final[put_context] --> Exit
"""

PACK = {
    "session": "default",
    "agent": "coder",
    "budget_tokens": 32000,
    "items": [
        {"kind": "system", "source": "context/pinned/system.md", "tokens": 1200},
        {"kind": "summary", "source": "context/summary.md", "tokens": 1800},
        {"kind": "facts", "source": "context/facts.jsonl", "tokens": 900},
        {"kind": "recent_messages", "source": "messages.jsonl", "range": "tail:40", "tokens": 6000},
        {"kind": "child_result", "source": "context/child/rev-123/result.md", "tokens": 1000},
    ],
}
FACTS = """\
{"id":"f1","text":"CortexFS root contains status, bin, model, agent, tool, home, shared.","source":"messages:12-18"}
{"id":"f2","text":"Model ABI must not expose provider API formats.","source":"messages:80-96"}
"""
DECISIONS = """\
{"id":"d1","decision":"DESIGN.md is an index; normative details live under spec/.","source":"messages:200-230"}
{"id":"d2","decision":"Child agents are owned and die with the parent by default.","source":"user:latest"}
"""
REFS = """\
{"id":"r1","path":"/work/DESIGN.md","kind":"file","summary":"current design draft"}
{"id":"r2","path":"context/swap/chunk/sha256-abc","kind":"swap","summary":"old discussion about model ABI"}
"""
SWAP = """\
{"id":"sha256-abc","kind":"message_range","source":"messages.jsonl","range":"1-120",\
"summary":"initial design discussion","tokens":18000}
{"id":"sha256-def","kind":"tool_output","source":"events.jsonl","event":"ev-991",\
"summary":"full test log from failed build","tokens":45000}
"""
CHUNK = {"source": "messages.jsonl", "start_event": "msg-001", "end_event": "msg-120", "hash": "sha256:..."}
DEDUP = """\
{"hash":"sha256-abc","refs":["messages:1-40","swap:old-design"],"bytes":12000,"tokens":3000}
{"hash":"sha256-def","refs":["tool:test-output-1","tool:test-output-2"],"bytes":80000,"tokens":20000}
"""
POLICY = "pack_ttl=1d\nswap_ttl=30d\ndedup_min_refs=1\nkeep_messages=1\nkeep_events=1\n"


def content_with_digest(start: str) -> str:
    return next(text for n in count() if hashlib.sha256((text := f"blob {n}").encode()).hexdigest().startswith(start))


def write_session(folder: Path) -> Path:
    """A session as one writes it who knows the document alone: all of its examples, and what they refer to."""
    roles = ["user", "assistant"] * 115
    messages = [{"id": f"msg-{n:03}", "role": role, "content": f"text {n}"} for n, role in enumerate(roles, 1)]
    messages[-1] = {"id": "msg-230", "role": "tool", "content": "ok"}
    events = [{"id": "ev-991", "type": "tool_call"}, {"id": "ev-992", "type": "agent.child.start", "child": "rev-123"}]
    files = {
        "messages.jsonl": "".join(f"{json.dumps(message)}\n" for message in messages),
        "events.jsonl": "".join(f"{json.dumps(event)}\n" for event in events),
        "latest.md": "ok\n",
        "state": "idle\n",
        "cwd": "/work\n",
        "created_at": "2026-02-20T18:30:00Z\n",
        "updated_at": "2026-02-20T18:45:12Z\n",
        "meta.json": "{}\n",
        "context/budget": "32000\n",
        "context/pack.json": json.dumps(PACK),
        "context/pack.md": "what was sent\n",
        "context/summary.md": "current task summary\n",
        "context/facts.jsonl": FACTS,
        "context/decisions.jsonl": DECISIONS,
        "context/todo.md": "open work\n",
        "context/refs.jsonl": REFS,
        "context/gc.policy": POLICY,
        "context/pinned/system.md": "Be brief.\n",
        "context/swap/index.jsonl": SWAP,
        "context/swap/chunk/sha256-abc": json.dumps(CHUNK),
        "context/dedup/index.jsonl": DEDUP,
        "context/dedup/blob/sha256-abc": content_with_digest("abc"),
        "context/child/rev-123/result.md": "reviewed\n",
    }
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


# Records of Agent Context, of which the document has no example.


def record(**fields: Any) -> dict[str, Any]:
    return {"schema_version": "0.1.1", "created_at": "2026-01-01T00:00:00Z", **fields}


ENVELOPE: dict[str, Any] = {
    "envelope": record(context_id="c1", scope="turn", lifecycle="injected", item_refs=["i1"], surface_refs=["su1"]),
    "surfaces": [record(surface_id="su1", scope="turn", available_item_refs=["i1", "i2"])],
    "items": [
        record(
            item_id="i1", context_kind="user_message", content_mode="inline", content="hi", visibility=["model", "ui"]
        ),
        record(
            item_id="i2", context_kind="file_excerpt", content_mode="ref", content_ref={"uri": "a"}, visibility=["tool"]
        ),
    ],
    "sources": [record(source_id="so1", uri="file:a", source_kind="file")],
    "selection": record(
        selection_id="se1",
        surface_id="su1",
        candidate_item_refs=["i1", "i2"],
        selected_item_refs=["i1"],
        omitted_item_refs=[{"item_ref": "i2", "reason": "budget_limit"}],
    ),
    "budget": record(budget_id="b1", target="model", max_tokens=10),
    "window": record(window_id="w1", target="model", segments=[{"segment_id": "s"}], reserved_tokens=1),
    "assembly": record(assembly_id="a1", target="model", ordered_blocks=[{"block_id": "bl1", "item_refs": ["i1"]}]),
    "injection": record(
        injection_id="in1", assembly_id="a1", target="model", injection_point="system_prompt", item_refs=["i1"]
    ),
    "compaction": record(compaction_id="co1", scope="session", source_item_refs=["i1"], method="rolling_summary"),
    "summary": record(summary_id="sm1", content="short", source_item_refs=["i1"]),
    "missing": record(
        missing_id="m1", scope="turn", question="Which file?", severity="high", status="open", blocked_actions=["edit"]
    ),
    "events": [
        record(event_id="e1", event_type="context.exported", source="x", time="2026-01-01T00:00:00Z", context_id="c1")
    ],
}

BASE: dict[str, str] = {
    "envelope": json.dumps(ENVELOPE),
    "manifest": MANIFEST,
    "report": REPORT,
    "reply": REPLY,
    "disabled-reply": "User Response Content...",
    "context": CONTEXT,
    "summary": SUMMARY,
}


# For every check, the smallest change of an example that breaks it.

Breaking = tuple[InputKind, Callable[[str], str]]


def swap(kind: InputKind, old: str, new: str) -> Breaking:
    def change(text: str) -> str:
        assert old in text
        return text.replace(old, new, 1)

    return kind, change


def snapshot(*path: str | int, value: Any = None) -> Breaking:
    """The template with another value at a place, or without that place."""
    return "reply", lambda text: f"Hi\n\n<<<CONTEXT>>>\n{json.dumps(changed(TEMPLATE, path, value))}"


def envelope(*path: str | int, value: Any = None) -> Breaking:
    return "envelope", lambda text: json.dumps(changed(ENVELOPE, path, value))


def changed(value: Any, path: tuple[str | int, ...], new: Any) -> Any:
    value = json.loads(json.dumps(value))
    place = value
    for key in path[:-1]:
        place = place[key]
    if new is None:
        del place[path[-1]]
    else:
        place[path[-1]] = new
    return value


BREAKING: dict[str, Breaking] = {
    "CP-1": ("reply", lambda text: "User Response Content..."),
    "CP-2": ("reply", lambda text: f"{text}\n\nAnything else?"),
    "CP-3": ("reply", lambda text: f"Hi\n<<<CONTEXT>>>\n{TEMPLATE_JSON}\n{text}"),
    "CP-4": ("reply", lambda text: text[: text.index("<<<CONTEXT>>>")] + "<<<CONTEXT>>>\nAll is remembered."),
    "CP-5": swap("reply", '"当前执行任务摘要"}', '"当前执行任务摘要",}'),
    "CP-6": ("reply", lambda text: text.replace("<<<CONTEXT>>>\n", "<<<CONTEXT>>>\n```json\n") + "\n```"),
    "CP-7": snapshot("runtime", "startup_at"),
    "CP-round": snapshot("runtime", "round", value="1"),
    "CP-times": snapshot("runtime", "datetime", value="yesterday"),
    "CP-8": snapshot("memory", "core", 0, "tags"),
    "CP-9": snapshot("memory", "core", 0, "decay", value=1.7),
    "CP-10": snapshot("memory", "core", 0, value="The user likes tea."),
    "CP-tiers": snapshot("memory", "longterm", value=[]),
    "CP-template": snapshot("capabilities"),
    "CP-disabled": ("disabled-reply", lambda text: REPLY),
    "MR-context-size": ("context", lambda text: text.ljust(5001, ".")),
    "MR-context-mermaid": ("context", lambda text: f"{text}```mermaid\n{LIFECYCLE}```\n"),
    "MR-summary-size": ("summary", lambda text: text.ljust(513, ".")),
    "MR-summary-pronouns": ("summary", lambda text: "I moved the launch to 17 Aug 2025."),
    "CA-yaml": ("manifest", lambda text: MANIFEST_AS_PRINTED),
    "CA-protocol": swap("manifest", "ASSEMBLY/0.1", "ASSEMBLY/9"),
    "CA-budget": swap("manifest", "max_tokens: 28000", "max_tokens: many"),
    "CA-effective": swap("manifest", "effective: 24000", "effective: 24001"),
    "CA-files": swap("manifest", "files:\n", 'files:\n  - "a.md"\n'),
    "CA-path": swap("manifest", "src/main.ts", "../main.ts"),
    "CA-priority": swap("manifest", "priority: 0.95", "priority: 1.95"),
    "CA-role": swap("manifest", '"developer"', '"assistant"'),
    "CA-truncate": swap("manifest", '"middle"', '"centre"'),
    "CA-max-lines": swap("manifest", "max_lines: 500", "max_lines: 0.5"),
    "CA-metadata": swap("manifest", 'by: "model"', 'by: "nobody"'),
    "CA-report-yaml": swap("report", "max: 28000", 'max: "28000'),
    "CA-report": swap("report", "excluded:", "left_out:"),
    "CA-report-budget": swap("report", "max: 28000", "max: all"),
    "CA-report-remaining": swap("report", "remaining: 4544", "remaining: 4545"),
    "CA-report-fits": ("report", lambda text: text.replace("23456", "28001").replace("4544", "-1")),
    "CA-report-included": swap("report", "tokens: 2100", "tokens: some"),
    "CA-report-truncated": swap("report", "      original_tokens: 15000\n", ""),
    "CA-report-excluded": swap("report", '      reason: "Over budget, priority too low"\n', ""),
    "CA-report-once": swap("report", "large_log.txt", "src/main.ts"),
    "AC-context-envelope": envelope("envelope", "lifecycle"),
    "AC-context-surface": envelope("surfaces", 0, "scope"),
    "AC-context-item": envelope("items", 0, "context_kind"),
    "AC-context-source-ref": envelope("sources", 0, "uri"),
    "AC-context-selection": envelope("selection", "surface_id"),
    "AC-context-budget": envelope("budget", "max_tokens", value=-1),
    "AC-context-window": envelope("window", "segments"),
    "AC-context-assembly": envelope("assembly", "ordered_blocks"),
    "AC-context-injection": envelope("injection", value=record(injection_id="in1", assembly_id="a1")),
    "AC-context-compaction": envelope("compaction", "method"),
    "AC-context-summary": envelope("summary", value=record(summary_id="sm1")),
    "AC-missing-context": envelope("missing", "question"),
    "AC-context-event": envelope("events", 0, "time"),
    "AC-inline-or-reference": envelope("items", 0, "content"),
    "AC-candidates": envelope("selection", "omitted_item_refs", value=[]),
    "AC-portable": envelope("envelope", "item_refs", value=["i9"]),
    "AC-kinds": envelope("items", 0, "context_kind", value="gossip"),
    "AC-injection-points": envelope("injection", "injection_point", value="somewhere"),
    "AC-targets": envelope("items", 0, "visibility", 1, value="martian"),
    "AC-visible": envelope("items", 1, "visibility", value=[]),
    "AC-not-every-target": envelope("items", 0, "visibility", value=["ui"]),
}


def edit(name: str, old: str, new: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        text = (folder / name).read_text()
        assert old in text
        (folder / name).write_text(text.replace(old, new, 1))

    return change


def add(name: str, text: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        with (folder / name).open("a") as file:
            file.write(text)

    return change


def pack(*path: str | int, value: Any = None) -> Callable[[Path], None]:
    return lambda folder: write(folder / "context/pack.json", json.dumps(changed(PACK, path, value)))


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def lose_history(folder: Path) -> None:
    """All that refers to messages goes with them, but for the summary."""
    for name in ("facts.jsonl", "decisions.jsonl", "swap/index.jsonl", "swap/chunk/sha256-abc", "dedup/index.jsonl"):
        (folder / "context" / name).unlink()
    write(folder / "messages.jsonl", "")


def link_outside(folder: Path) -> None:
    secret = folder.parent / "secret.md"
    secret.write_text("{not JSON")
    (folder / "context/facts.jsonl").unlink()
    (folder / "context/facts.jsonl").symlink_to(secret)


BIG = json.dumps({"role": "tool", "content": "all tests passed\n" * 400})

SESSION_BREAKING: dict[str, Callable[[Path], None]] = {
    "RA-layout": lambda folder: (folder / "context/todo.md").unlink() or (folder / "context/todo.md").mkdir(),
    "RA-inside": link_outside,
    "RA-messages": add("messages.jsonl", "{torn\n"),
    "RA-messages-append-only": edit("context/facts.jsonl", "80-96", "80-960"),
    "RA-events": add("events.jsonl", "[]\n"),
    "RA-events-append-only": edit("events.jsonl", "ev-991", "ev-990"),
    "RA-events-recorded": edit("events.jsonl", "tool_call", "usage"),
    "RA-summary-only-copy": lose_history,
    "RA-gc-messages": lambda folder: lose_history(folder) or (folder / "messages.jsonl").unlink(),
    "RA-gc-events": lambda folder: (folder / "events.jsonl").unlink(),
    "RA-gc-child-result": lambda folder: (folder / "context/child/rev-123/result.md").unlink(),
    "RA-gc-policy": add("context/gc.policy", "pack_ttl=soon\n"),
    "RA-child-merged": lambda folder: write(folder / "context/child/rev-124/result.md", "done"),
    "RA-dedup-outputs": add("messages.jsonl", f"{BIG}\n{BIG}\n"),
    "RA-pack": lambda folder: write(folder / "context/pack.json", "[]"),
    "RA-pack-fields": pack("budget_tokens"),
    "RA-pack-source": pack("items", 0, "source"),
    "RA-pack-kinds": pack("items", 0, "kind", value="pinned"),
    "RA-pack-range": pack("items", 3, "range"),
    "RA-pack-budget": lambda folder: write(folder / "context/budget", "10899\n"),
    "RA-pack-inspectable": lambda folder: (folder / "context/pack.md").unlink(),
    "RA-compression": add("context/decisions.jsonl", "no JSON\n"),
    "RA-facts": edit("context/facts.jsonl", '"text":', '"fact":'),
    "RA-decisions": edit("context/decisions.jsonl", '"decision":', '"text":'),
    "RA-refs": edit("context/refs.jsonl", '"summary":', '"about":'),
    "RA-refs-kinds": edit("context/refs.jsonl", '"file"', '"thread"'),
    "RA-ids": edit("context/refs.jsonl", '"r2"', '"r1"'),
    "RA-swap": edit("context/swap/index.jsonl", '"tokens":18000', '"tokens":"18000"'),
    "RA-swap-place": edit("context/swap/index.jsonl", '"event":"ev-991",', ""),
    "RA-swap-kept": edit("context/swap/chunk/sha256-abc", "msg-120", "msg-999"),
    "RA-swap-window": edit("context/swap/index.jsonl", "1-120", "1-191"),
    "RA-swap-reference": lambda folder: write(folder / "context/swap/chunk/sha256-abc", "user: text 1\n"),
    "RA-dedup": edit("context/dedup/index.jsonl", '"refs":["messages:1-40","swap:old-design"]', '"refs":[]'),
    "RA-dedup-address": add("context/dedup/blob/sha256-abc", " changed"),
}


@pytest.mark.parametrize("kind", BASE)
def test_the_documents_examples_pass_every_check(kind: str) -> None:
    result = run("-", "--as", kind, "--strict", given=BASE[kind])
    assert (result.exit_code, result.output.count("\n")) == (0, 1), result.output
    assert "none broken" in result.output


def test_a_session_written_from_the_document_alone_passes_every_check(tmp_path: Path) -> None:
    result = run(write_session(tmp_path / "s"), "--strict")
    assert (result.exit_code, result.output.count("\n")) == (0, 1), result.output


def test_every_check_has_a_breaking_example() -> None:
    ids = [check.id for check in CHECKS]
    assert len(set(ids)) == len(ids)
    assert set(ids) == {*BREAKING, *SESSION_BREAKING}


@pytest.mark.parametrize("id", BREAKING)
def test_the_breaking_example_breaks_that_check_alone(id: str) -> None:
    kind, change = BREAKING[id]
    assert broken("-", kind, change(BASE[kind])) == {id}


@pytest.mark.parametrize("id", SESSION_BREAKING)
def test_the_breaking_session_breaks_that_check_alone(id: str, tmp_path: Path) -> None:
    folder = write_session(tmp_path / "s")
    SESSION_BREAKING[id](folder)
    assert broken(folder) == {id}


def test_session_with_only_messages_passes(tmp_path: Path) -> None:
    write(tmp_path / "s/messages.jsonl", '{"role":"user","content":"hi"}\n')
    assert broken(tmp_path / "s") == set()


def test_policy_that_allows_message_deletion_passes(tmp_path: Path) -> None:
    folder = write_session(tmp_path / "s")
    lose_history(folder)
    (folder / "messages.jsonl").unlink()
    edit("context/gc.policy", "keep_messages=1", "keep_messages=0")(folder)
    assert broken(folder) == set()


def test_documents_manifest_is_invalid_yaml_in_its_last_line(tmp_path: Path) -> None:
    path = tmp_path / "working-set.yml"
    path.write_text(MANIFEST_AS_PRINTED)
    result = run(path)
    assert result.exit_code == 1
    last = len(MANIFEST_AS_PRINTED.splitlines())
    assert re.search(rf"^CA-yaml MUST, .*\n  line {last}: it is no YAML", result.output), result.output


def test_the_nodes_of_the_documents_diagram_are_counted() -> None:
    assert nodes_in(LIFECYCLE) == {
        *("Boot", "Base", "Load", "Loop", "Store?", "Add", "Check", "Bye", "Finish", "Barrier", "Final", "Exit")
    }


@pytest.mark.parametrize(
    ("name", "text", "kind"),
    [
        ("working-set.yml", "budget: {}", "manifest"),
        ("anything", MANIFEST, "manifest"),
        ("report.txt", REPORT, "report"),
        ("report.json", '{"assembly_report": {}}', "report"),
        ("envelope.json", BASE["envelope"], "envelope"),
        ("item.json", json.dumps(ENVELOPE["items"][0]), "envelope"),
        ("items.json", json.dumps(ENVELOPE["items"]), "envelope"),
        ("reply.txt", REPLY, "reply"),
        ("reply.yml", REPLY, "reply"),
        ("bare.json", TEMPLATE_JSON, "reply"),
        ("empty", "", "reply"),
    ],
)
def test_kind_of_a_file_is_detected_from_its_content(name: str, text: str, kind: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    assert json.loads(run(tmp_path / name, "--json").output)["kind"] == kind


@pytest.mark.parametrize(
    ("trailer", "rule"),
    [
        ("<<CONTEXT>>\n{}", "CP-1"),
        ("<<<CONTEXT>>>\n" + TEMPLATE_JSON.replace('"', "'"), "CP-5"),
        ("<<<CONTEXT>>>\n" + TEMPLATE_JSON.replace("{", "{ // state\n", 1), "CP-5"),
        ("<<<CONTEXT>>>\n<context>" + TEMPLATE_JSON + "</context>", "CP-6"),
        ("<<<CONTEXT>>>\n" + TEMPLATE_JSON + "}", "CP-6"),
        ("<<<CONTEXT>>>\n" + TEMPLATE_JSON.replace("0.05", "NaN"), "CP-5"),
        ("<<<CONTEXT>>>\n" + TEMPLATE_JSON[:-40], "CP-4"),
    ],
)
def test_repairable_snapshot_fails_the_check(trailer: str, rule: str) -> None:
    result = run("-", "--as", "reply", given=f"Hi.\n\n{trailer}")
    assert result.exit_code == 1
    assert result.output.startswith(f"{rule} MUST, Context Protocol: “")


def test_separator_inside_a_memory_item_is_text() -> None:
    said = changed(TEMPLATE, ("memory", "core", 0, "content"), "ends with <<<CONTEXT>>> {}")
    assert broken("-", "reply", f"Hi\n\n<<<CONTEXT>>> {json.dumps(said)}") == set()


def test_exit_code_follows_the_level_of_findings(tmp_path: Path) -> None:
    should = json.dumps(changed(ENVELOPE, ("items", 0, "context_kind"), "gossip"))
    assert [run("-", *more, given=should).exit_code for more in ([], ["--strict"])] == [0, 1]
    assert run("-", given=REPLY.replace("0.05", "5")).exit_code == 1
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    write(tmp_path / "encrypted/key.json", "{}")
    (tmp_path / "latin").write_bytes(b"\xff\xfe")
    for unusable in ("absent", "pipe", "folder", "encrypted", "latin"):
        result = run(tmp_path / unusable)
        assert (result.exit_code, result.output.count("\n")) == (2, 1), result.output
        assert result.output.startswith("Error: ")
    assert run("-", "--as", "envelope", given="{}").exit_code == 2
    assert run("-", "--as", "session", given="{}").exit_code == 2
    assert run().exit_code == 2


def test_the_list_has_every_check_with_its_sentence() -> None:
    listed = json.loads(run("--list", "--json").output)
    assert [(each["id"], each["sentence"]) for each in listed] == [(check.id, check.sentence) for check in CHECKS]
    assert {each["document"] for each in listed} == {
        *("Context Protocol", "Agent Context", "Context Runtime ABI"),
        *("Context & Summary Rules", "Context Assembly Protocol"),
    }
    table = run("--list").output
    assert all(check.id in table for check in CHECKS)


def test_the_command_knows_every_kind() -> None:
    (option,) = (option for option in conform_command.params if option.name == "kind")
    assert isinstance(option.type, click.Choice)
    assert tuple(option.type.choices) == KINDS


def test_findings_are_counted_and_only_the_first_are_shown() -> None:
    items = [dict(TEMPLATE["memory"]["core"][0], id=str(n), decay=2) for n in range(1000)]  # type: ignore[index]
    text = f"Hi\n<<<CONTEXT>>>\n{json.dumps(changed(TEMPLATE, ('memory', 'core'), items))}"
    output = run("-", given=text).output
    assert "memory.core[0].decay: 2" in output
    assert "  and 980 more\n" in output


def test_findings_have_no_terminal_control_characters() -> None:
    said = changed(TEMPLATE, ("memory", "\x1b[2J\u202e"), [])
    assert "\x1b" not in (output := run("-", given=f"<<<CONTEXT>>>\n{json.dumps(said)}").output)
    assert "\u202e" not in output


NAMES = st.sampled_from([*TEMPLATE, *ENVELOPE, "items", "item_id", "event_id", "visibility", "target", "files", "path"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | NAMES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=4),
)


@given(value=VALUES, text=st.text(), kind=st.sampled_from([None, *KINDS]))
def test_any_text_gets_findings_or_is_unusable(value: Any, text: str, kind: InputKind | None) -> None:
    for said in (text, json.dumps(value), f"{text}\n<<<CONTEXT>>>\n{json.dumps(value)}"):
        with suppress(InvalidInput):
            found = conform("-", kind, stdin=BytesIO(said.encode("utf-8", "replace")))
            assert kind in (None, found.kind)


FILES = ("messages.jsonl", "events.jsonl", "context/pack.json", "context/budget", "context/facts.jsonl")
FILES += ("context/refs.jsonl", "context/dedup/index.jsonl", "context/swap/index.jsonl", "context/swap/chunk/a")


@examples(50)
@given(files=st.dictionaries(st.sampled_from(FILES), st.lists(VALUES, max_size=3), max_size=3))
def test_any_folder_gets_findings(files: dict[str, list[Any]]) -> None:
    with TemporaryDirectory() as folder:
        for name, lines in {"messages.jsonl": [], **files}.items():
            write(Path(folder) / name, "\n".join(map(json.dumps, lines)))
        assert conform(folder).kind == "session"


# What ctxwrap itself writes.


@pytest.fixture(scope="module")
def own_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A conversation with memory, tools, a large output twice, a pinned text, a working set and a child."""
    home = tmp_path_factory.mktemp("home")
    work = tmp_path_factory.mktemp("work")
    write(work / "working-set.yml", MANIFEST)
    for name in (".agent/constitution.md", "current_task.md", "src/main.ts", "tool/terminal/log-latest.txt"):
        write(work / name, "Ship it.\n")
    tools = [{"type": "function", "function": {"name": "run_tests", "parameters": {"type": "object"}}}]
    decision = {"content": "We decided to use PostgreSQL.", "type": "decision", "tier": "core"}
    called = [Answer(tool_calls=(ToolCall(f"c{n}", "run_tests", "{}"),)) for n in (1, 2)]
    hello = Answer("Hello Ada.", remembers=["The user is called Ada.", decision])
    with ScriptedProvider([hello, called[0], "Yes.", called[1], "Yes.", *["Fine."] * 37]) as provider:
        bare = openai.OpenAI(api_key="x", base_url=provider.openai_url, max_retries=0)
        client = ctxwrap.wrap(bare, store=home, session="s", working_set=str(work / "working-set.yml"))

        def ask(text: str, role: str = "user", **more: Any) -> None:
            said: Any = [{"role": role, "content": text, **more}]
            client.chat.completions.create(model="gpt-5", messages=said, tools=tools)

        ask("I am Ada.")
        for n in (1, 2):
            ask("Run the tests")
            ask("\n".join(f"line {at} passed" for at in range(900)), role="tool", tool_call_id=f"c{n}")
        ctxwrap.flush()
        write(next(home.rglob("messages.jsonl")).parent / "context/pinned/rules.md", "Be brief.\n")
        start_child("s", "rev-123", handoff="Review it.", store=home)
        attach_result("s", "rev-123", result="Reviewed.", store=home)
        for n in range(37):
            ask(f"Question number {n}, what about topic {n}?")
        ctxwrap.flush()
    return home


@pytest.fixture
def own(own_home: Path) -> Path:
    return next(own_home.rglob("messages.jsonl")).parent


def test_a_session_of_a_wrapped_client_conforms(own: Path) -> None:
    assert run(own, "--strict").exit_code == 0, run(own, "--strict").output


def test_envelopes_of_a_wrapped_client_conform(own_home: Path, tmp_path: Path) -> None:
    exported = CliRunner().invoke(
        main, ["export", "s", "--store", str(own_home), "--envelope", "--turn", "40", "-o", str(tmp_path / "e.json")]
    )
    assert exported.exit_code == 0, exported.output
    result = run(tmp_path / "e.json", "--strict")
    assert (result.exit_code, result.output.count("\n")) == (0, 1), result.output
    assert "(envelope)" in result.output


def test_the_report_of_a_wrapped_client_conforms(own: Path, tmp_path: Path) -> None:
    report = json.loads((own / "context/pack.json").read_text())["assembly_report"]
    (tmp_path / "report.json").write_text(
        json.dumps(report if "assembly_report" in report else {"assembly_report": report})
    )
    assert broken(tmp_path / "report.json") == set()


def test_replies_as_the_protocol_asks_for_them_conform(own: Path) -> None:
    events = [json.loads(line) for line in (own / "events.jsonl").read_text().splitlines()]
    trailers = [
        event["trailer"] for event in events if event["type"] == "snapshot" and isinstance(event["trailer"], str)
    ]
    assert trailers
    for trailer in trailers:
        assert broken("-", "reply", f"Fine.\n\n{trailer}") == set()
