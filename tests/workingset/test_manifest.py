"""The manifest: read from strangers, kept from harm, written back with as little changed as can be."""

import os
import stat
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxwrap.errors import InvalidManifest, StoreUnavailable
from ctxwrap.workingset.manifest import FileBudget, Manifest, WorkingFile, read_manifest
from ctxwrap.workingset.manifest_file import load_manifest, manifest_text, save_manifest
from ctxwrap.workingset.safe_yaml import MAX_BYTES
from tests.support import examples

COMPLETE = """\
# what the model sees
protocol: CONTEXT-ASSEMBLY/0.1
budget:
  max_tokens: 28000
  reserved_for_response: 4000
  effective: 24000

files:
  # always
  - path: "rules/law.md"   # the law
    priority: 1.0
    role: "system"
    truncate_strategy: "never"
    owner: legal

  - path: task.md
    priority: 0.95
    role: developer

  - path: src/main.ts
    priority: 0.8
    truncate_strategy: middle
    max_lines: 500

# about this file
metadata:
  last_updated: "2026-01-30T12:30:00Z"
  assembled_by: user
colours: [red, 7]
"""


def test_a_complete_manifest_is_read() -> None:
    manifest = read_manifest(COMPLETE)
    assert manifest.faults == ()
    assert manifest.budget == FileBudget(28_000, 4_000)
    assert manifest.budget.effective == 24_000
    assert manifest.files == (
        WorkingFile("rules/law.md", 1.0, "system", "never"),
        WorkingFile("task.md", 0.95, "developer"),
        WorkingFile("src/main.ts", 0.8, truncate_strategy="middle", max_lines=500),
    )
    assert manifest.metadata.assembled_by == "user"
    assert [file.is_vital for file in manifest.files] == [True, False, False]


def test_defaults_are_context_and_end() -> None:
    (file,) = read_manifest("files: [{path: a.md, priority: 0.5}]").files
    assert (file.role, file.truncate_strategy, file.max_lines, file.added_by) == ("context", "end", None, "operator")


def test_numbers_may_be_strings() -> None:
    manifest = read_manifest(
        "budget: {max_tokens: '1000', reserved_for_response: '1e2'}\n"
        "files: [{path: a, priority: '0.5', max_lines: '7'}]"
    )
    assert manifest.budget == FileBudget(1000, 100)
    assert (manifest.files[0].priority, manifest.files[0].max_lines) == (0.5, 7)


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ("{priority: 0.5}", "a path must be a text"),
        ("{path: a}", "it has no priority"),
        ("a.md", "a mapping with path and priority"),
        ("{path: a, priority: .nan}", "priority must be a number"),
        ("{path: a, priority: .inf}", "priority must be a number"),
        ("{path: a, priority: 'inf'}", "priority must be a number"),
        ("{path: a, priority: 1.0e+400}", "priority must be a number"),
        ("{path: a, priority: true}", "priority must be a number"),
        ("{path: a, priority: -0.1}", "priority must be from 0 to 1"),
        ("{path: a, priority: 12:30}", "priority must be a number"),
        ("{path: a, priority: 0.5, role: root}", "role must be one of system, developer, user, context"),
        ("{path: a, priority: 0.5, truncate_strategy: up}", "truncate_strategy must be one of never"),
        ("{path: a, priority: 0.5, max_lines: 0}", "max_lines must be a whole number from 1"),
        ("{path: a, priority: 0.5, max_lines: 1.5}", "max_lines must be a whole number"),
        ("{path: ../a, priority: 0.5}", "without '.', '..' or '//'"),
        ("{path: /etc/passwd, priority: 0.5}", "relative to the root"),
        ('{path: "a\\tb", priority: 0.5}', "control characters"),
    ],
)
def test_a_wrong_entry_is_left_out_with_its_reason_and_the_rest_is_used(entry: str, reason: str) -> None:
    manifest = read_manifest(f"files:\n  - {entry}\n  - {{path: good.md, priority: 0.5}}\n")
    assert [file.path for file in manifest.files] == ["good.md"]
    (fault,) = manifest.faults
    assert reason in fault.reason
    assert not fault.blocking


def test_a_wrong_entry_that_may_be_vital_is_blocking() -> None:
    for entry in ("{path: a, priority: 2}", "{path: a, priority: x, truncate_strategy: never}"):
        (fault,) = read_manifest(f"files: [{entry}]").faults
        assert fault.blocking


def test_duplicate_path_counts_once() -> None:
    manifest = read_manifest("files: [{path: a, priority: 0.5}, {path: a, priority: 0.9}]")
    assert [file.priority for file in manifest.files] == [0.5]
    assert "listed twice" in manifest.faults[0].reason


def test_effective_budget_is_computed_and_a_wrong_value_is_reported() -> None:
    manifest = read_manifest("budget: {max_tokens: 1000, reserved_for_response: 400, effective: 999}\nfiles: []")
    assert manifest.budget.effective == 600
    assert "effective is 999, but max - reserved is 600" in manifest.faults[0].reason


@pytest.mark.parametrize(
    ("budget", "expected"),
    [
        ("{}", FileBudget(28_000, 4_000)),
        ("{max_tokens: 6000}", FileBudget(6000, 3000)),
        ("{max_tokens: .inf}", FileBudget(28_000, 4_000)),
        ("{max_tokens: 10, reserved_for_response: 99}", FileBudget(10, 99)),
        ("lots", FileBudget(28_000, 4_000)),
    ],
)
def test_budgets_have_defaults_and_are_never_negative(budget: str, expected: FileBudget) -> None:
    manifest = read_manifest(f"budget: {budget}")
    assert manifest.budget == expected
    assert manifest.budget.effective >= 0
    assert bool(manifest.faults) == (budget not in ("{}", "{max_tokens: 6000}"))


def test_list_of_paths_under_focus_is_read() -> None:
    manifest = read_manifest("focus:\n  - a.md\n  - /home/x\n  - b.md\nnotes: [busy]\nworkflow: {next_up: [rest]}\n")
    assert manifest.files == (WorkingFile("a.md", 0.8), WorkingFile("b.md", 0.8))
    assert [fault.path for fault in manifest.faults] == ["/home/x"]


BOMB = "a: &a [x,x]\nb: &b [*a,*a]\nc: &c [*b,*b]\nfiles: *c\n"
HOSTILE = {
    "alias bomb": (BOMB, "anchors or aliases"),
    "anchor": ("files: &x []", "anchors or aliases"),
    "tag": ("files: !!python/object/apply:os.system ['true']", "tags"),
    "own tag": ("files: !x []", "tags"),
    "tag directive": ("%TAG ! tag:evil,2000:\n---\nfiles: []", "tags"),
    "merge key": ("files: []\n<<: {a: 1}", "merge key"),
    "double key": ("files: []\nfiles: [{path: a, priority: 1}]", "stands twice"),
    "double key inside": ("files: [{path: a, path: b, priority: 1}]", "stands twice"),
    "deep list": ("files: " + "[" * 5000, "nested deeper"),
    "deep mapping": ("a: {" * 9, "nested deeper"),
    "large": ("#" * (MAX_BYTES + 1), "more than 65536 bytes"),
    "many files": ("files:\n" + "- {path: a, priority: 1}\n" * 201, "more than 200 files"),
    "many parts": ("a: [" + "0," * 20_000 + "]", "more than 6000 parts"),
    "control character": ("files: []\nx: \x07", "no YAML"),
    "escaped control character": ('files: [{path: "a\\0b", priority: 1}]', "control character"),
    "direction of writing": ('files: []\nx: "\\u202e"', "control character"),
    "two documents": ("files: []\n---\nfiles: []", "more than one document"),
    "no mapping": ("- a\n- b", "no mapping"),
    "files no list": ("files: {a: b}", "no list"),
    "key no text": ("? [a]\n: b", "key is no text"),
    "no YAML": ("files: [", "no YAML"),
    "the document's own alternatives": ('metadata:\n  assembled_by: "model" | "user"', "no YAML"),
    "half a pair": ("files: []\nx: \ud800", "no YAML"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_manifests_are_refused_with_the_reason(name: str) -> None:
    text, reason = HOSTILE[name]
    with pytest.raises(InvalidManifest, match=reason):
        read_manifest(text)


def test_other_encodings_are_refused() -> None:
    with pytest.raises(InvalidManifest, match="not UTF-8"):
        read_manifest("files: []".encode("utf-16"))
    with pytest.raises(InvalidManifest, match="not UTF-8"):
        read_manifest(b"files: []\n# \xff")


def test_plain_scalars_stay_strings() -> None:
    source = read_manifest(
        "a: no\nb: 010\nc: 12:30:45\nd: 2026-01-01\ne: 0x10\nf: 1_000\ng: 9999999999999999999999"
    ).source
    expected = ["no", "010", "12:30:45", "2026-01-01", "0x10", "1_000", "9" * 22]
    assert list(source.values()) == expected


def test_loading_a_broken_manifest_does_not_change_the_file(tmp_path: Path) -> None:
    path = tmp_path / "working-set.yml"
    for broken, problem in ((b"#" * (MAX_BYTES + 1), "more than 65536"), (BOMB.encode(), "anchors or aliases")):
        path.write_bytes(broken)
        assert problem in load_manifest(path).problem
        assert load_manifest(path).manifest == Manifest()
        assert (os.listdir(tmp_path), path.read_bytes()) == (["working-set.yml"], broken)


def test_absent_manifest_is_an_empty_manifest(tmp_path: Path) -> None:
    kept = load_manifest(tmp_path / "working-set.yml")
    assert (kept.manifest, kept.problem, kept.missing, os.listdir(tmp_path)) == (Manifest(), "", True, [])


@pytest.mark.parametrize("kind", ["link", "pipe", "directory"])
def test_manifest_that_is_not_a_regular_file_is_reported_and_kept(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "working-set.yml"
    (tmp_path / "other.yml").write_text("files: []")
    {"link": lambda: path.symlink_to("other.yml"), "pipe": lambda: os.mkfifo(path), "directory": path.mkdir}[kind]()
    kept = load_manifest(path)
    assert "cannot be used" in kept.problem
    assert os.path.lexists(path)
    with pytest.raises(StoreUnavailable, match="was not written"):
        save_manifest(path, Manifest((WorkingFile("a", 1.0),)), kept)


def test_a_change_leaves_comments_and_unknown_keys_as_they_were() -> None:
    manifest = read_manifest(COMPLETE)
    task = manifest.file("task.md")
    assert task is not None
    manifest = manifest.with_file(replace(task, priority=0.5, max_lines=3)).without_file("src/main.ts")
    manifest = manifest.with_file(WorkingFile('odd "name": #1.md', 0.25, why="because: yes", added_by="model", turn=4))
    manifest = replace(manifest, metadata=replace(manifest.metadata, assembled_by="model"))
    expected = COMPLETE.replace(
        "priority: 0.95\n    role: developer\n", "priority: 0.5\n    role: developer\n    max_lines: 3\n"
    )
    start = expected.index("  - path: src/main.ts")
    end = expected.index("\n# about")
    added = "  - path: 'odd \"name\": #1.md'\n    priority: 0.25\n    why: 'because: yes'\n"
    added += "    added_by: model\n    turn: 4\n"
    expected = expected[:start] + added + expected[end:]
    assert manifest_text(manifest, COMPLETE) == expected.replace("assembled_by: user", "assembled_by: model")


@pytest.mark.parametrize(
    "text",
    [
        "files: []\n",
        "files:\n",
        "a: 1\n",
        "",
        "files: [{path: a, priority: 1, x: y}]",
        "focus: [a, b]\nnext: c\n",
        "focus:\n- a\n- /abs\n",
        "files:\n- {path: a, priority: 1}\n- {path: bad}\n- text\n",
        "\ufefffiles:\r\n  - path: a\r\n    priority: 1\r\n",
        "files:\n- path: a\n  priority: 1\n  why: |\n    x\n\n    y\n\n# end\n",
    ],
)
def test_manifest_in_any_yaml_style_can_be_changed(text: str) -> None:
    manifest = read_manifest(text)
    changed = manifest.with_file(WorkingFile("new.md", 0.5, why="ünï 🖖\nwith: lines\n"))
    again = read_manifest(manifest_text(changed, text))
    assert set(again.files) == set(changed.files)
    assert {key: value for key, value in again.source.items() if key not in ("files", "protocol")} == {
        key: value for key, value in manifest.source.items() if key != "files"
    }
    fewer = again.without_file("new.md")
    assert read_manifest(manifest_text(fewer, manifest_text(changed, text))).files == fewer.files


NAMES = st.text(st.sampled_from("ab#:'\"[]{}-!&*%@`,| éñ0"), min_size=1, max_size=8).filter(
    lambda name: name.strip() and name not in (".", "..")
)
FILES = st.builds(
    WorkingFile,
    NAMES,
    st.floats(0, 1),
    st.sampled_from(["system", "developer", "user", "context"]),
    st.sampled_from(["never", "start", "middle", "end"]),
    st.none() | st.integers(1, 99),
    st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cf", "Zl", "Zp")), max_size=20),
    st.sampled_from(["operator", "model", "orchestrator"]),
    st.booleans(),
    st.none() | st.integers(0, 99),
)


@examples(50)
@given(st.lists(FILES, max_size=5, unique_by=lambda file: file.path), st.lists(FILES, max_size=3), st.data())
def test_written_manifest_reads_back_equal(
    files: list[WorkingFile], more: list[WorkingFile], data: st.DataObject
) -> None:
    text = manifest_text(Manifest(tuple(files)))
    manifest = read_manifest(text)
    assert manifest.files == tuple(files)
    for file in more:
        manifest = manifest.with_file(replace(file, source=getattr(manifest.file(file.path), "source", file.source)))
    for path in data.draw(st.sets(st.sampled_from([file.path for file in files] or ["none"]), max_size=3)):
        manifest = manifest.without_file(path)
    assert set(read_manifest(manifest_text(manifest, text)).files) == set(manifest.files)


def test_unreadable_manifest_text_is_not_written() -> None:
    files = tuple(WorkingFile(f"{number}.md", 0.5, why="x" * 500) for number in range(200))
    with pytest.raises(InvalidManifest, match="remove some files"):
        manifest_text(Manifest(files))


def test_save_is_atomic_keeps_permissions_and_detects_other_writers(tmp_path: Path) -> None:
    path = tmp_path / "working-set.yml"
    path.write_text(COMPLETE)
    path.chmod(0o640)
    kept = load_manifest(path)
    changed = kept.manifest.without_file("task.md")
    assert save_manifest(path, changed, kept) == path.read_text()
    assert "task.md" not in path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert os.listdir(tmp_path) == ["working-set.yml"]
    with pytest.raises(StoreUnavailable, match="changed meanwhile"):
        save_manifest(path, changed, kept)


def test_new_manifest_is_private_to_its_owner(tmp_path: Path) -> None:
    path = tmp_path / "working-set.yml"
    save_manifest(path, Manifest((WorkingFile("a.md", 0.5),)), load_manifest(path))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.read_text() == "protocol: CONTEXT-ASSEMBLY/0.1\nfiles:\n- path: a.md\n  priority: 0.5\n"
