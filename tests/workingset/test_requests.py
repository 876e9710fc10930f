"""Who may change the working set: a model within its limits, the orchestrator by its rules, hints as advice."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from ctxwrap.errors import InvalidManifest
from ctxwrap.workingset.manifest import Manifest, WorkingFile, read_manifest
from ctxwrap.workingset.manifest_file import manifest_text
from ctxwrap.workingset.priorities import FileUse, PriorityRules, ToolOutput, adjusted_priorities, with_outputs
from ctxwrap.workingset.reader import Hints, load_hints, read_hints
from ctxwrap.workingset.requests import ADD, ADJUST, REMOVE, Decision, RequestLimits, decide_requests, requests_in_text

THREE = """\
# Add a file
action: add_to_working_set
path: "found.md"
priority: 0.7
why: "It explains the returns"

# Remove one
action: remove_from_working_set
path: "done.md"
why: "The task is complete"

# Adjust one
action: adjust_priority
path: "own.md"
priority: "0.75"
why: "It matters more than it seemed"
"""
VALUES: list[dict[str, Any]] = [
    {"action": ADD, "path": "found.md", "priority": 0.7, "why": "It explains the returns"},
    {"action": REMOVE, "path": "done.md", "why": "The task is complete"},
    {"action": ADJUST, "path": "own.md", "priority": "0.75", "why": "It matters more than it seemed"},
]
MANIFEST = Manifest(
    (
        WorkingFile("law.md", 1.0, "system", "never"),
        WorkingFile("given.md", 0.4),
        WorkingFile("own.md", 0.5, added_by="model"),
        WorkingFile("done.md", 0.5, added_by="model"),
        WorkingFile("output.txt", 0.3, added_by="orchestrator", turn=1),
        WorkingFile("pinned.md", 0.3, added_by="model", pin=True),
    )
)


@pytest.mark.parametrize(
    "text",
    [
        THREE,
        f"Let me look at that.\n\n```yaml\n{THREE}```\nAnd now the answer.",
        THREE.replace("\n\n", "\n---\n"),
        "```\n" + "\n```\nand\n```json\n".join(map(json.dumps, VALUES)) + "\n```",
        json.dumps(VALUES),
        json.dumps({"updates": VALUES}, indent="\t"),
        "\n".join(map(json.dumps, VALUES)),
        "working_set:\n" + "".join(f"- {json.dumps(value)}\n" for value in VALUES),
        "".join(f"- {json.dumps({value['action']: {**value, 'action': None}})}\n" for value in VALUES).replace(
            '"action": null, ', ""
        ),
    ],
    ids=["one block", "fenced", "documents", "fences", "JSON list", "wrapped", "JSON lines", "nested", "as keys"],
)
def test_requests_are_read_in_every_list_form(text: str) -> None:
    outcome = decide_requests(MANIFEST, requests_in_text(text), turn=7)
    assert outcome.decisions == (
        Decision(ADD, "found.md", True, "within its limits", VALUES[0]["why"], 0.7),
        Decision(REMOVE, "done.md", True, "within its limits", VALUES[1]["why"]),
        Decision(ADJUST, "own.md", True, "within its limits", VALUES[2]["why"], 0.75),
    )
    assert outcome.manifest.file("done.md") is None
    assert outcome.manifest.file("own.md") == WorkingFile("own.md", 0.75, added_by="model")
    found = outcome.manifest.file("found.md")
    assert found == WorkingFile("found.md", 0.7, why=VALUES[0]["why"], added_by="model", turn=7)


@pytest.mark.parametrize("text", ["", "Hello.", "```yaml\naction: dance\n```", "I could use adjust_priority here."])
def test_other_texts_hold_no_requests(text: str) -> None:
    assert requests_in_text(text) == ()


@pytest.mark.parametrize(
    "text",
    [
        f"action: {ADD}\npath: [",
        f"a: &a [x]\naction: {ADD}\npath: *a",
        f"action: !!str {ADD}",
        f"action: {ADD}\npath: a\nwhy: " + "x" * 70_000,
        f'["{ADD}", ' + "[" * 100_000,
        f'{{"action": "{ADD}", "path": {{"a": 1, "a": 2}}}}',
    ],
)
def test_unreadable_requests_are_rejected_with_a_reason(text: str) -> None:
    (decision,) = decide_requests(MANIFEST, requests_in_text(text)).decisions
    assert not decision.granted
    assert "cannot be read" in decision.reason


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "no why": ({"action": ADD, "path": "a"}, "no `why`"),
    "blank why": ({"action": ADD, "path": "a", "why": " "}, "no `why`"),
    "controls in why": ({"action": ADD, "path": "a", "why": "\x1b]52"}, "control characters"),
    "other action": ({"action": f"{ADD}_now", "path": "a", "why": "w"}, "no such action"),
    "system": ({"action": ADD, "path": "a", "why": "w", "role": "system"}, "role must be one of context"),
    "user": ({"action": ADD, "path": "a", "why": "w", "role": "user"}, "role must be one of context"),
    "never": ({"action": ADD, "path": "a", "why": "w", "truncate_strategy": "never"}, "must be one of start"),
    "too high": ({"action": ADD, "path": "a", "why": "w", "priority": 0.81}, "at most 0.8"),
    "NaN": ({"action": ADD, "path": "a", "why": "w", "priority": float("nan")}, "must be a number"),
    "below": ({"action": ADD, "path": "a", "why": "w", "priority": -1}, "from 0 to 1"),
    "outside": ({"action": ADD, "path": "../a", "why": "w"}, "without '.', '..'"),
    "absolute": ({"action": ADD, "path": "/etc/passwd", "why": "w"}, "relative to the root"),
    "hidden": ({"action": ADD, "path": "src/.env", "why": "w"}, "or hidden"),
    "a session's": (
        {"action": ADD, "path": "data/home/t/agent/a/session/s/messages.jsonl", "why": "w"},
        "a session's own",
    ),
    "a session's, from within": ({"action": ADD, "path": "t/Agent/a/Session/s/latest.md", "why": "w"}, "session's own"),
    "no path": ({"action": ADD, "why": "w"}, "a path must be"),
    "path no text": ({"action": ADD, "path": {"a": 1}, "why": "w", "priority": 2}, "from 0 to 1"),
    "there already": ({"action": ADD, "path": "own.md", "why": "w"}, "already; use adjust_priority"),
    "operator's, again": ({"action": ADD, "path": "law.md", "why": "w"}, "already"),
    "operator's, away": ({"action": REMOVE, "path": "law.md", "why": "w"}, "only the operator"),
    "operator's, up": ({"action": ADJUST, "path": "given.md", "priority": 0.8, "why": "w"}, "only the operator"),
    "pinned": ({"action": REMOVE, "path": "pinned.md", "why": "w"}, "only the operator"),
    "not there": ({"action": REMOVE, "path": "x.md", "why": "w"}, "not in the working set"),
    "own, too high": ({"action": ADJUST, "path": "own.md", "priority": 1.0, "why": "w"}, "at most 0.8"),
    "no priority": ({"action": ADJUST, "path": "own.md", "why": "w"}, "must be a number"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_requests_over_a_limit_are_rejected(name: str) -> None:
    value, reason = REFUSED[name]
    outcome = decide_requests(MANIFEST, requests_in_text(json.dumps(value)))
    (decision,) = outcome.decisions
    assert not decision.granted
    assert reason in decision.reason
    assert outcome.manifest == MANIFEST


@pytest.mark.parametrize(
    ("roots", "granted"),
    [
        (("",), {"a.md", "notes/a.md", "notes-evil/a.md"}),
        (("notes",), {"notes/a.md"}),
        ((), set()),
        ((".agent/",), {".agent/a.md"}),
    ],
)
def test_requests_outside_allowed_roots_are_rejected(roots: tuple[str, ...], granted: set[str]) -> None:
    paths = ["a.md", "notes/a.md", "notes-evil/a.md", ".agent/a.md", ".agent/.env", ".env"]
    requests = requests_in_text(json.dumps([{"action": ADD, "path": path, "why": "w"} for path in paths]))
    decisions = decide_requests(Manifest(), requests, RequestLimits(roots)).decisions
    assert {each.path for each in decisions if each.granted} == granted


def test_number_of_files_and_requests_is_limited() -> None:
    values = [{"action": ADD, "path": f"{number}.md", "why": "w"} for number in range(9)]
    decisions = decide_requests(
        Manifest(), requests_in_text(json.dumps(values)), RequestLimits(max_files=3, max_requests=5)
    ).decisions
    assert [each.granted for each in decisions] == [True] * 3 + [False] * 6
    assert "full" in decisions[3].reason
    assert "more than 5 requests" in decisions[5].reason


def test_added_by_of_a_file_is_saved_and_loaded() -> None:
    outcome = decide_requests(Manifest(), requests_in_text(THREE), turn=3)
    again = read_manifest(manifest_text(outcome.manifest))
    assert again.files == outcome.manifest.files
    assert again.files[0].added_by == "model"


def test_recent_outputs_are_added_and_old_ones_removed() -> None:
    outputs = [ToolOutput(f"tool://sh/{number}.txt", 6) for number in range(2)]
    old, possible = ToolOutput("tool://sh/old.txt", 1), ToolOutput("given.md", 6)
    before = ["tool://sh/0.txt", old.path, "tool://sh/sent.txt"]
    outcome = with_outputs(MANIFEST, [*outputs, old, possible], 7, before)
    new = outcome.manifest.file("tool://sh/0.txt")
    assert new is not None
    assert (new.role, new.priority, new.truncate_strategy, new.added_by) == ("context", 0.3, "start", "orchestrator")
    assert outcome.manifest.files[: len(MANIFEST.files)] == MANIFEST.files, "no file gives way to an output"
    assert outcome.manifest.file(old.path) is None
    assert [(each.action, each.path, each.reason) for each in outcome.decisions] == [
        (ADD, "tool://sh/1.txt", "it is large, and no longer sent with the conversation"),
        (REMOVE, old.path, "the output is 6 turns old"),
        (REMOVE, "tool://sh/sent.txt", "it is sent with the conversation, or not at hand any more"),
    ]


def test_only_the_newest_outputs_stay() -> None:
    outputs = [ToolOutput(f"tool://sh/{turn}.txt", turn) for turn in (3, 1, 4, 2)]
    outcome = with_outputs(Manifest(), outputs, 4, ["tool://sh/1.txt"], PriorityRules(most_outputs=2))
    assert [file.path for file in outcome.manifest.files] == ["tool://sh/4.txt", "tool://sh/3.txt"]
    assert outcome.decisions[-1].reason == "there are newer outputs"


def test_outputs_rank_below_files_that_may_not_be_cut() -> None:
    manifest = Manifest((WorkingFile("whole.md", 0.2, truncate_strategy="never"),))
    assert with_outputs(manifest, [ToolOutput("tool://sh/1.txt", 1)], 1).manifest.files[-1].priority == 0.2


FILES = Manifest(
    (
        WorkingFile("law.md", 1.0, "system"),
        WorkingFile("whole.md", 0.5, truncate_strategy="never"),
        WorkingFile("task.md", 0.9, "developer"),
        WorkingFile("pinned.md", 0.5, pin=True),
        WorkingFile("used.md", 0.5),
        WorkingFile("high.md", 0.93),
        WorkingFile("idle.md", 0.5),
        WorkingFile("low.md", 0.05),
    )
)


def test_file_priorities_follow_use() -> None:
    uses = {"used.md": FileUse(3, 19), "high.md": FileUse(9, 20), "idle.md": FileUse(2, 9), "law.md": FileUse(9, 20)}
    outcome = adjusted_priorities(FILES, uses, turn=20)
    assert {file.path: file.priority for file in outcome.manifest.files} == {
        "law.md": 1.0,
        "whole.md": 0.5,
        "task.md": 0.9,
        "pinned.md": 0.5,
        "used.md": 0.6,
        "high.md": 0.95,
        "idle.md": 0.3,
        "low.md": 0.05,
    }
    assert [(each.path, each.reason) for each in outcome.decisions] == [
        ("used.md", "referenced 3 times"),
        ("high.md", "referenced 9 times"),
        ("idle.md", "not referenced for 11 turns"),
    ]


def test_priorities_do_not_change_in_the_first_turns_or_accumulate() -> None:
    assert adjusted_priorities(FILES, {}, turn=4) == (FILES, ())
    assert adjusted_priorities(FILES, {}, turn=9) == adjusted_priorities(FILES, {}, turn=9)


def test_hints_change_priorities_of_model_files_only() -> None:
    manifest = Manifest(tuple(WorkingFile(name, 0.75, added_by="model") for name in ("hot", "cold", "both"))).with_file(
        WorkingFile("law.md", 0.5)
    )
    outcome = adjusted_priorities(manifest, {}, 1, Hints(hot=("hot", "both", "law.md"), cold=("c*", "both")))
    assert {file.path: file.priority for file in outcome.manifest.files} == {
        "hot": 0.8,
        "cold": 0.65,
        "both": 0.75,
        "law.md": 0.5,
    }
    assert [(each.path, each.granted) for each in outcome.decisions] == [
        ("hot", True),
        ("cold", True),
        ("law.md", False),
    ]


def test_hints_are_read_in_both_formats(tmp_path: Path) -> None:
    (tmp_path / "hot.yml").write_text(
        "keep:\n- {path: a.md, why: w, touches: 4}\npriority: {high: [b/*.md], low: [c]}\n"
    )
    (tmp_path / "cold.yml").write_text("evict:\n- path: d.md\ndeprioritized: ['old/', '**/*-scan.yml']\nnotes: [x]\n")
    hints = load_hints(str(tmp_path))
    assert hints == Hints(("a.md", "b/*.md"), ("d.md", "old/", "**/*-scan.yml"), files=("hot.yml", "cold.yml"))
    heats = {
        "a.md": 1,
        "b/x.md": 1,
        "c": 0,
        "d.md": -1,
        "old/x/y": -1,
        "older": 0,
        "x/y/z-scan.yml": -1,
        "z-scan.yml": -1,
    }
    assert {path: hints.heat(path) for path in heats} == heats


def test_invalid_hint_files_are_reported(tmp_path: Path) -> None:
    assert load_hints(str(tmp_path)) == Hints()
    (tmp_path / "hot.yml").write_text("keep: &a [*a]")
    os.mkfifo(tmp_path / "cold.yml")
    hints = load_hints(str(tmp_path))
    assert (hints.hot, hints.cold, len(hints.problems)) == ((), (), 2)
    with pytest.raises(InvalidManifest):
        read_hints("keep: [" + "x" * 70_000)
    assert len(read_hints("keep: [" + "x, " * 300 + "]").hot) == 200
    assert read_hints("keep: 7\nevict: {a: b}\npriority: high\n") == Hints()
    assert read_hints("keep: ['" + "*a" * 120 + "b']").heat("a" * 1000) == 0
