"""JSON checked against the published schemas: on the command line, at import and at verification."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from ctxwrap.cli import main
from ctxwrap.errors import InvalidArchive
from ctxwrap.export.evidence import check_envelope, envelope_of, import_envelope
from ctxwrap.export.validation import SchemaFault, schema_faults
from ctxwrap.session.session import Session
from ctxwrap.stores.files.store import FileStore
from ctxwrap.stores.memory import MemoryStore
from ctxwrap.types import SessionKey
from tests.export.logs import FIXED, begin, done, say

ITEM = {"id": "a", "type": "fact", "decay": 0.5, "round": 1, "tags": [], "content": "The user lives in Oslo."}
SNAPSHOT: dict[str, Any] = {
    "version": "2.2",
    "runtime": {"round": 1, "datetime": "2025-01-01T00:00:00Z", "startup_at": "2025-01-01T00:00:00Z"},
    "memory": {"core": [ITEM], "working": [], "ephemeral": []},
    "capabilities": [],
    "active_task": "",
}
BAD_ITEM = {**SNAPSHOT, "memory": {"core": [{**ITEM, "decay": 2}], "working": [], "ephemeral": []}}


def check(name: str, file: Path, text: str) -> Result:
    file.write_text(text)
    return CliRunner().invoke(main, ["schema", name, "--check", str(file)])


def test_a_valid_file_passes(tmp_path: Path) -> None:
    result = check("snapshot", tmp_path / "s.json", json.dumps(SNAPSHOT, indent=2))
    assert (result.exit_code, "valid" in result.output) == (0, True)


def test_faults_name_the_path_and_what_was_expected(tmp_path: Path) -> None:
    wrong = {**BAD_ITEM, "capabilities": [5], "active_task": "x" * 1000 + "y" * 100_000}
    result = check("snapshot", tmp_path / "s.json", json.dumps(wrong))
    assert result.exit_code == 1
    assert "memory.core[0].decay: 2 is greater than the maximum of 1\n" in result.output
    assert "capabilities[0]: 5 is not of type 'object' or 5 is not of type 'string'\n" in result.output
    assert "active_task: 'xxx" in result.output
    assert "is too long" in result.output
    assert len(result.output) < 1000


def test_faults_in_json_lines_name_the_line(tmp_path: Path) -> None:
    lines = [json.dumps(SNAPSHOT), "", json.dumps(BAD_ITEM), "{", ""]
    result = check("snapshot", tmp_path / "s.jsonl", "\n".join(lines))
    assert result.exit_code == 1
    assert result.output.splitlines() == [
        "line 3 memory.core[0].decay: 2 is greater than the maximum of 1",
        "line 4: not valid JSON",
    ]


@pytest.mark.parametrize("text", ["", "{\n 'a': 1", "[" * 100_000])
def test_a_file_that_is_not_json_fails(tmp_path: Path, text: str) -> None:
    result = check("snapshot", tmp_path / "s.json", text)
    assert result.exit_code == 1
    assert "not valid JSON" in result.output


def test_a_check_needs_a_schema_and_a_file(tmp_path: Path) -> None:
    assert CliRunner().invoke(main, ["schema", "--check", "x"]).exit_code == 2
    missing = CliRunner().invoke(main, ["schema", "snapshot", "--check", str(tmp_path / "nowhere")])
    assert (missing.exit_code, "cannot read" in missing.output) == (1, True)
    unknown = CliRunner().invoke(main, ["schema", "snapshots", "--check", "x"])
    assert (unknown.exit_code, "did you mean 'snapshot'" in unknown.output) == (1, True)


def test_a_fault_of_the_whole_value_has_no_path() -> None:
    (fault,) = schema_faults([], {"type": "object"})
    assert fault == SchemaFault("", "[] is not of type 'object'")
    assert str(fault) == "[] is not of type 'object'"


def evidence_file(path: Path) -> Path:
    store = MemoryStore()
    say(store, ("user", "one"))
    begin(store, *FIXED, conversation="1")
    done(store)
    path.write_bytes(envelope_of("s", store=store).as_bytes())
    return path


def test_an_import_names_paths_of_the_file(tmp_path: Path) -> None:
    file = evidence_file(tmp_path / "e.json")
    document = json.loads(file.read_bytes())
    document["items"][0]["context_kind"] = "nope"
    document["envelopes"][0]["budget_ref"] = 5
    file.write_text(json.dumps(document))
    with pytest.raises(InvalidArchive, match=r"items\[0\]\.context_kind: 'nope' is not one of \['user_message'"):
        check_envelope(file)
    with pytest.raises(InvalidArchive, match=r"envelopes\[0\]\.budget_ref: 5 is not of type 'string'"):
        check_envelope(file)


def test_verify_checks_imported_evidence(tmp_path: Path) -> None:
    file, home = evidence_file(tmp_path / "e.json"), FileStore(tmp_path / "home")
    import_envelope(file, store=home)
    command = ["verify", "s", "--store", str(home.root)]
    assert CliRunner().invoke(main, command).exit_code == 0
    wrong = Session(SessionKey("default", "default", "wrong"), home.open(SessionKey("default", "default", "wrong")))
    with wrong.locked():
        blob = wrong.keep(file.read_bytes().replace(b"user_message", b"user_massage"))
        wrong.log.append({"events": [{"type": "evidence", "target": "model", "ctx": {"blobs": [blob]}}]}, lasting=True)
    result = CliRunner().invoke(main, ["verify", "wrong", "--store", str(home.root)])
    assert result.exit_code == 1
    assert "context_kind: 'user_massage' is not one of" in result.output
