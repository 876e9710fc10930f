"""The commands on a working set."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from ctxwrap.cli import main


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "law.md").write_text("Be kind.\n")
    (tmp_path / "log.txt").write_text("passed\n" * 40_000)
    return tmp_path


def workingset(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["workingset", *arguments])


def test_commands_manage_a_working_set_from_first_to_last_file(here: Path) -> None:
    given = ["--priority", "1", "--role", "system", "--strategy", "never", "--why", "the law"]
    assert workingset("add", "law.md", *given).output == "law.md is in the working set\n"
    assert workingset("add", "./log.txt", "--strategy", "start").exit_code == 0
    assert workingset("add", str(here / "log.txt"), "--priority", "0.3", "--max-lines", "5000").exit_code == 0
    assert (here / "working-set.yml").read_text() == (
        "protocol: CONTEXT-ASSEMBLY/0.1\nfiles:\n"
        "- path: law.md\n  priority: 1.0\n  role: system\n  truncate_strategy: never\n  why: the law\n"
        "- path: log.txt\n  priority: 0.3\n  truncate_strategy: start\n  max_lines: 5000\n"
    )
    rows = workingset("ls").output.splitlines()
    assert [row.split()[:3] for row in rows[1:]] == [["1.00", "system", "never"], ["0.30", "context", "start"]]
    assert rows[1].endswith("operator      law.md: the law")
    assert rows[2].endswith("operator      log.txt (truncated)")
    checked = workingset("check")
    assert checked.exit_code == 0
    assert "warning: 1 file truncated significantly" in checked.output
    assert workingset("rm", "./law.md").exit_code == 0
    assert workingset("rm", "law.md").output == "Error: law.md is not in the working set\n"


def test_ls_prints_who_added_a_file_and_why(here: Path) -> None:
    entry = "{path: law.md, priority: 0.5, added_by: model, why: 'It is about\n\n  the law'}"
    (here / "working-set.yml").write_text(f"files: [{entry}]\n")
    _, row = workingset("ls").output.splitlines()
    assert row.endswith("  model         law.md: It is about the law")
    (told,) = json.loads(workingset("ls", "--json").output)["files"]
    assert (told["added_by"], told["why"]) == ("model", "It is about\nthe law")


def test_missing_vital_file_sets_exit_code_1(here: Path) -> None:
    result = workingset("add", "gone.md", "--priority", "1")
    assert "note: gone.md: it is not there" in result.output
    checked = workingset("check")
    assert checked.exit_code == 1
    assert checked.output.splitlines() == [
        "blocking: gone.md: it is not there; create it, or remove it from the working set",
        "0 of 1 files, about 40 of 24000 tokens",
    ]
    told = json.loads(workingset("check", "--json").output)
    assert len(told["blocking"]) == 1
    assert told["assembly_report"]["missing_context"][0]["severity"] == "blocking"


def test_broken_manifest_is_reported_and_not_changed(here: Path) -> None:
    (here / "working-set.yml").write_text("files: &a [*a]")
    checked = workingset("check")
    assert checked.exit_code == 1
    assert "blocking: 'working-set.yml' cannot be used: it uses anchors or aliases" in checked.output
    for command in (["add", "law.md"], ["rm", "law.md"], ["ls"]):
        result = workingset(*command)
        assert result.exit_code == 1
        assert "nothing was changed" in result.output
    assert (here / "working-set.yml").read_text() == "files: &a [*a]"


def test_every_command_can_print_json(here: Path) -> None:
    assert json.loads(workingset("add", "law.md", "--json").output)["added"]["priority"] == 0.5
    (entry,) = json.loads(workingset("ls", "--json").output)["files"]
    assert (entry["path"], entry["included"], entry["truncated"]) == ("law.md", True, False)
    assert json.loads(workingset("check", "--json").output)["warnings"] == []
    assert json.loads(workingset("rm", "law.md", "--json").output) == {"removed": "law.md"}


def test_another_manifest_has_its_own_directory(here: Path) -> None:
    (here / "sub").mkdir()
    (here / "sub" / "note.md").write_text("note")
    assert workingset("add", "note.md", "--file", "sub/set.yml").output == "note.md is in the working set\n"
    assert workingset("check", "--file", "sub/set.yml").exit_code == 0
    missing = workingset("check", "--file", "nowhere/set.yml")
    assert missing.exit_code == 1
    assert "blocking: there is no nowhere/set.yml" in missing.output
    assert "was not written" in workingset("add", "x", "--file", "nowhere/set.yml").output


@pytest.mark.parametrize(
    "arguments", [["../x"], ["/etc/passwd"], [""], ["a\x1b]52"], ["a", "--priority", "2"], ["a", "--priority", "nan"]]
)
def test_invalid_arguments_print_a_short_error(here: Path, arguments: list[str]) -> None:
    result = workingset("add", *arguments)
    assert result.exit_code in (1, 2)
    assert "Error: " in result.output
    assert "\x1b" not in result.output
    assert not (here / "working-set.yml").exists()


def test_unusable_entry_can_be_removed(here: Path) -> None:
    (here / "working-set.yml").write_text("files:\n- {path: law.md, priority: 2}\n- {path: log.txt, priority: 0.5}\n")
    assert workingset("check").exit_code == 1
    assert workingset("rm", "law.md").exit_code == 0
    assert workingset("check").exit_code == 0
