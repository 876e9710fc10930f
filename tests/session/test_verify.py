"""Verifying: whatever is not as it was written is found and named, and nothing else is."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from ctxwrap.cli import main
from ctxwrap.cli.output import progress_bar
from ctxwrap.errors import NotFound
from ctxwrap.session.clock import utc_now
from ctxwrap.session.lookup import open_existing
from ctxwrap.session.purge import forget, purge
from ctxwrap.session.session import Session
from ctxwrap.session.verify import FindingSeverity, VerifyFinding, rebuild, verify
from ctxwrap.stores.base import StreamLine
from ctxwrap.stores.files.store import FileStore
from ctxwrap.stores.log_format import as_record
from ctxwrap.stores.memory import MemoryStore
from ctxwrap.testing.practice import Provider
from ctxwrap.types import Message, SessionKey
from tests.conversations import converse, directory_of
from tests.support import PassingLog, Told

KEY = SessionKey("default", "default", "s")
STREAMS = ("messages.jsonl", "events.jsonl")


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A conversation of fifty turns that no test may change."""
    home = tmp_path_factory.mktemp("original")
    with Provider(Told()) as provider:
        converse(provider, home)
    return home


@pytest.fixture
def home(original: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(original, tmp_path / "home-of-sessions"))


@pytest.fixture
def place(home: Path) -> Path:
    return directory_of(home)


@pytest.fixture(scope="module")
def short(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two turns, so that every byte can be tried."""
    home = tmp_path_factory.mktemp("short")
    with Provider(Told()) as provider:
        converse(provider, home, turns=2)
    return home


def found(home: Path, severity: FindingSeverity | None = None, session: str = "s") -> list[VerifyFinding]:
    findings = verify(session, store=home).findings
    return [finding for finding in findings if severity in (None, finding.severity)]


def command(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


def lines(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines(keepends=True)


def everything(home: Path) -> dict[str, tuple[bytes, int]]:
    return {str(path): (path.read_bytes(), path.stat().st_mtime_ns) for path in home.rglob("*") if path.is_file()}


# --- a healthy session ----------------------------------------------------------------------------------


def test_a_healthy_session_has_no_findings(home: Path) -> None:
    verification = verify("s", store=home)
    assert verification.findings == ()
    assert not verification.is_damaged
    assert verification.messages > 100
    assert verification.events > 100
    assert (verification.contents, verification.unchecked, verification.torn) == (3, 0, 0)


def test_verify_changes_nothing_and_reports_progress(home: Path) -> None:
    before, told = everything(home), list[tuple[int, int]]()
    directories = {path: path.stat().st_mtime_ns for path in home.rglob("*") if path.is_dir()}
    verify("s", store=home, progress=lambda done, total: told.append((done, total)))
    assert everything(home) == before
    assert {path: path.stat().st_mtime_ns for path in directories} == directories
    assert told == sorted(told)
    assert told[-1][0] == told[-1][1]


def test_verify_does_not_create_a_missing_session(tmp_path: Path) -> None:
    for act in (verify, rebuild):
        with pytest.raises(NotFound, match="there is no session 'nobody'"):
            act("nobody", store=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_session_in_a_memory_store_can_be_verified(provider: Provider) -> None:
    store = MemoryStore()
    converse(provider, store, turns=6)
    assert verify("s", store=store).findings == ()


def test_forgotten_and_purged_texts_are_no_damage(home: Path) -> None:
    forget("s", query="rye", store=home)
    purge("s", message=3, store=home)
    purge("s", message=26, store=home)
    assert found(home) == []


def test_session_that_grows_during_verify_is_read_again() -> None:
    store = MemoryStore()
    session = Session(KEY, store.open(KEY))

    def say(number: int) -> None:
        with session.locked():
            runtime = {"round": 1, "datetime": "2026-01-01T00:00:00Z", "startup_at": "2026-01-01T00:00:00Z"}
            turn = f"t{number}"
            events = [{"type": "start", "run": turn, "runtime": runtime, "ctx": {}}]
            events += [{"type": "done", "run": turn, "status": "ok", "ctx": {}}]
            session.append(turn, [as_record(Message("user", "hello"))], events, utc_now())

    class Growing(PassingLog):
        left = 2

        def lines(self, stream: str) -> Iterator[StreamLine]:
            yield from self.inner.lines(stream)
            if stream == "messages" and self.left:
                self.left -= 1
                say(self.left)

    class Store(MemoryStore):
        def open(self, key: SessionKey) -> Any:
            return Growing(store.open(key))

    say(2)
    verification = verify("s", store=Store())
    assert (verification.messages, verification.findings) == (3, ())


# --- damage ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", STREAMS)
def test_every_changed_byte_is_found(short: Path, tmp_path: Path, stream: str) -> None:
    home = Path(shutil.copytree(short, tmp_path / "copy"))
    path = directory_of(home) / stream
    data = path.read_bytes()
    step = 13 if stream == "events.jsonl" else 1
    ends = [end for end in range(len(data)) if data[end : end + 1] == b"\n"]
    for at in sorted({*range(0, len(data), step), *ends, *(end - 1 for end in ends)}):
        path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        (first, *_) = found(home, "damage") or [None]
        assert first is not None, f"byte {at} of {data!r}"
        assert (first.file, first.line) == (stream, data[:at].count(b"\n") + 1), f"byte {at}"


@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.parametrize("at", [0, 1, 40, 80])
def test_missing_line_is_found(home: Path, place: Path, stream: str, at: int) -> None:
    left = lines(place / stream)
    del left[at]
    (place / stream).write_bytes(b"".join(left))
    first = found(home, "damage")[0]
    assert (first.file, first.line) == (stream, at + 1)


def test_missing_lines_are_counted(home: Path, place: Path) -> None:
    left = lines(place / "messages.jsonl")
    del left[10:15]
    (place / "messages.jsonl").write_bytes(b"".join(left))
    first, second = found(home, "damage")[:2]
    assert (first.line, first.what) == (11, "the line before it is missing")
    assert (second.line, second.what) == (11, "records are missing before it: 5")


@pytest.mark.parametrize("stream", STREAMS)
def test_reordered_or_duplicate_lines_are_found(home: Path, place: Path, stream: str) -> None:
    good = lines(place / stream)
    for bad in ([*good[:20], good[21], good[20], *good[22:]], [*good[:21], good[20], *good[21:]]):
        (place / stream).write_bytes(b"".join(bad))
        first = found(home, "damage")[0]
        assert first.file == stream
        assert first.line in (21, 22)


def test_messages_missing_at_the_end_are_found(home: Path, place: Path) -> None:
    kept = lines(place / "messages.jsonl")[:-3]
    (place / "messages.jsonl").write_bytes(b"".join(kept))
    first = found(home, "damage")[0]
    assert (first.file, first.line) == ("messages.jsonl", len(kept) + 1)
    assert "the last 3 of" in first.what


def test_missing_log_is_found(home: Path, place: Path) -> None:
    for stream in STREAMS:
        (place / stream).unlink()
    assert "both streams are empty" in found(home, "damage")[0].what


def test_missing_or_changed_content_is_reported_at_its_message(home: Path, place: Path) -> None:
    told = (place / "messages.jsonl").read_text()
    raw = next(path for path in sorted((place / "raw").iterdir()) if path.name in told)
    data = raw.read_bytes()
    for change in (raw.unlink, lambda: raw.write_bytes(data[:-1] + b"?")):
        change()
        first = found(home, "damage")[0]
        assert first.file == "messages.jsonl"
        assert raw.name in lines(place / "messages.jsonl")[first.line - 1].decode()
        assert raw.name in first.what


def test_meta_file_of_another_session_is_found(home: Path, place: Path) -> None:
    (place / "meta.json").write_text(json.dumps({**KEY._asdict(), "session": "other"}))
    assert [finding.file for finding in found(home, "damage")] == ["meta.json"]
    (place / "meta.json").write_text("[]")
    assert [finding.file for finding in found(home, "damage")] == ["meta.json"]
    (place / "meta.json").unlink()
    assert [(finding.severity, finding.file) for finding in found(home)] == [("behind", "meta.json")]


def written(home: Path, stream: str, *records: dict[str, Any]) -> list[VerifyFinding]:
    """What is found when somebody who knows how to seal lines wrote these behind the others."""
    log = FileStore(home).open(KEY)
    with log.locked():
        log.append({stream: records})
    return found(home)


@pytest.mark.parametrize(
    ("stream", "record", "what"),
    [
        ("messages", {"role": "user", "content": "", "ctx": {"seq": 3}}, "it has the number 3 behind number"),
        ("messages", {"role": "user", "content": "", "ctx": {"seq": 999}}, "records are missing before it"),
        ("messages", {"role": "user", "content": "", "ctx": {"parent": "x-1"}}, "it continues message 'x-1'"),
        ("events", {"type": "done", "run": "x", "status": "ok", "ctx": {}}, "its run 'x' has no start"),
    ],
)
def test_contradictory_records_are_found(home: Path, stream: str, record: dict[str, Any], what: str) -> None:
    next_number = 1 + len(FileStore(home).open(KEY).read(stream)[0])
    record = {**record, "ctx": {"seq": next_number, **record["ctx"]}}
    findings = [each for each in written(home, stream, record) if each.severity == "damage"]
    assert what in findings[0].what


def test_duplicate_id_is_found(home: Path, place: Path) -> None:
    id = json.loads(lines(place / "messages.jsonl")[4])["ctx"]["id"]
    (first, *_) = written(home, "messages", {"role": "user", "content": "", "ctx": {"id": id}})
    assert (first.severity, first.what) == ("damage", f"its id {id!r} is that of an earlier record")


def test_memory_item_with_missing_source_messages_is_found(home: Path) -> None:
    item = {"id": "x", "type": "fact", "content": "?", "tags": [], "tier": "core", "decay": 0.1, "anchor": 1}
    item |= {"first": 1, "last": 1, "source": "messages:900-901"}
    operation = {"kind": "add", "id": "x", "tier": "core", "item": item}
    first = written(home, "events", {"type": "snapshot", "run": "x", "operations": [operation], "ctx": {"v": 1}})[0]
    assert (first.severity, first.file) == ("damage", "events.jsonl")
    assert "is from messages 900 to 901" in first.what


def test_listed_findings_are_limited(home: Path, place: Path) -> None:
    with (place / "messages.jsonl").open("ab") as stream:
        stream.write(b"nonsense\n" * 1500 + lines(place / "messages.jsonl")[0])
    verification = verify("s", store=home)
    assert sum(finding.severity == "damage" for finding in verification.findings) == 1000
    assert verification.found["damage"] >= 1500


# --- behind, and worth knowing --------------------------------------------------------------------------


def test_torn_record_after_a_crash_is_no_damage(home: Path, place: Path) -> None:
    with (place / "events.jsonl").open("ab") as stream:
        stream.write(b'{"type":"start","run":"t')
    (finding,) = found(home)
    assert (finding.severity, finding.file) == ("behind", "events.jsonl")
    session = open_existing(KEY, home)
    with session.locked():
        session.append("t9", [], [{"type": "error", "run": "t9", "code": "EIO", "ctx": {}}], utc_now())
    verification = verify("s", store=home)
    assert verification.torn == 1
    assert ".torn-" in next(each.file for each in verification.findings if each.severity == "note")


def test_lines_written_by_hand_are_counted(home: Path, place: Path) -> None:
    with (place / "messages.jsonl").open("ab") as stream:
        stream.write(b'{"role":"user","content":"by hand"}\n{"role":"admin","content":"by hand"}\n')
    verification = verify("s", store=home)
    assert verification.unchecked == 2
    damage = [finding.what for finding in verification.findings if finding.severity == "damage"]
    assert damage == ["it is not what the ABI says: invalid role 'admin'"]


def test_unusual_caller_messages_are_noted(home: Path, place: Path) -> None:
    odd = {"role": "tool", "content": [{"text": "no type"}], "tool_call_id": "c-77", "ctx": {"seq": 137}}
    notes = [each.what for each in written(home, "messages", odd) if each.line]
    assert notes == [
        "it is not what the ABI says: invalid content",
        "it answers the call 'c-77', which no message before it makes",
    ]


def test_finding_for_an_unfinished_turn_depends_on_its_writer(home: Path) -> None:
    runtime = {"round": 60, "datetime": "2026-01-01T00:00:00Z", "startup_at": "2026-01-01T00:00:00Z"}
    store = FileStore(home)
    writer = store.open(KEY).writer
    for id, name in (("x", writer), ("y", "0123456789abcdef"), ("z", "")):
        start = {"type": "start", "run": id, "runtime": runtime, "ctx": {"writer": name}}
        written(home, "events", start)
    findings = {each.what.split("'")[1]: each.severity for each in found(home) if each.file == "events.jsonl"}
    assert findings == {"x": "note", "y": "behind", "z": "note"}
    rebuild("s", store=home)
    findings = {each.what.split("'")[1]: each.severity for each in found(home) if each.file == "events.jsonl"}
    assert findings == {"x": "note", "z": "note"}


@pytest.mark.parametrize(
    ("name", "change", "what"),
    [
        ("context/summary.md", lambda data: data + b"!", "it is not what the log says"),
        ("context/facts.jsonl", lambda data: data[:-9], "invalid json"),
        ("context/facts.jsonl", lambda data: re.sub(rb":(\d+)-\d+", rb":\1-999", data), "are not in the log"),
        ("context/swap/index.jsonl", lambda data: data.replace(b'"sha256:', b'"sha256:0'), "its digest is not that of"),
        ("context/swap/index.jsonl", lambda data: data[:-300], "invalid json"),
        ("context/dedup/index.jsonl", lambda data: data.replace(b"sha256-", b"sha256-0"), "is not there"),
        ("state", lambda data: b"tired\n", "invalid value"),
        ("latest.md", lambda data: b"", "it is not what the log says"),
    ],
)
def test_differing_derived_files_are_reported_as_behind(
    home: Path, place: Path, name: str, change: Callable[[bytes], bytes], what: str
) -> None:
    right = (place / name).read_bytes()
    (place / name).write_bytes(change(right))
    (finding,) = found(home)
    assert (finding.severity, finding.file, finding.remedy) == ("behind", name, "ctxwrap rebuild s")
    assert what in finding.what
    assert rebuild("s", store=home).changed == (name,)
    assert (place / name).read_bytes() == right
    assert found(home) == []


def test_deleted_context_directory_is_reported_and_restored(home: Path, place: Path) -> None:
    before = {path: path.read_bytes() for path in (place / "context").rglob("*") if path.is_file()}
    shutil.rmtree(place / "context")
    findings = found(home)
    assert {finding.severity for finding in findings} == {"behind"}
    assert "files are missing" in findings[0].what
    assert len(rebuild("s", store=home).written) == len(before)
    assert {path: path.read_bytes() for path in before} == before
    assert found(home) == []


def test_files_added_by_hand_are_accepted_or_noted(home: Path, place: Path) -> None:
    (place / "context" / "pinned").mkdir()
    (place / "context" / "pinned" / "system.md").write_text("Be kind.")
    (place / "context" / "budget").write_text("8000\n")
    assert found(home) == []
    (place / "context" / "budget").write_text("plenty")
    (place / "context" / "mine.txt").write_text("mine")
    (place / "raw" / "sha256-00").write_text("nobody's")
    (place / "cwd").write_text("relative")
    (place / "context" / "pack.json").write_text("{}")
    assert {(each.severity, each.file) for each in found(home)} == {
        ("note", "context/budget"),
        ("note", "context/mine.txt"),
        ("note", "raw/sha256-00"),
        ("note", "cwd"),
        ("behind", "context/pack.json"),
    }
    assert "context/mine.txt" in rebuild("s", store=home).removed


# --- the commands ---------------------------------------------------------------------------------------


def test_verify_command_reports_a_healthy_session(home: Path) -> None:
    result = command("verify", "s", "--store", str(home))
    assert result.exit_code == 0
    assert result.output.splitlines()[-1] == "intact"


def test_verify_command_names_the_first_bad_record_first(home: Path, place: Path) -> None:
    path = place / "events.jsonl"
    data = path.read_bytes()
    at = data.index(b"\n", 3000) + 9
    path.write_bytes(data[:at] + b"#" + data[at + 1 :])
    number = data[:at].count(b"\n") + 1
    result = subprocess.run(
        [sys.executable, "-m", "ctxwrap", "verify", "s", "--store", str(home)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "NO_COLOR": "1"},
    )
    assert result.returncode == 1
    assert result.stdout.startswith(f"damage: events.jsonl, line {number} (byte ")
    assert result.stderr == ""
    told = json.loads(command("verify", "s", "--store", str(home), "--json").output)
    assert told["damaged"] is True
    assert told["findings"][0]["line"] == number


def test_outdated_derived_files_are_reported_without_failure(home: Path, place: Path) -> None:
    (place / "context" / "todo.md").unlink()
    result = command("verify", "s", "--store", str(home))
    assert result.exit_code == 0
    assert "behind: context/todo.md: it is missing [ctxwrap rebuild s]" in result.output
    result = command("rebuild", "s", "--store", str(home))
    assert result.exit_code == 0
    assert "wrote context/todo.md" in result.output
    told = json.loads(command("rebuild", "s", "--store", str(home), "--json").output)
    assert (told["written"], told["changed"], told["removed"]) == ([], [], [])


def test_commands_for_a_missing_session_are_a_one_line_error(home: Path) -> None:
    for name in ("verify", "rebuild"):
        result = command(name, "nobody", "--store", str(home))
        assert result.exit_code == 1
        assert result.output.startswith("Error: there is no session 'nobody'")


@pytest.mark.parametrize("looks_on", [True, False])
def test_progress_bar_is_shown_only_for_long_work_on_a_terminal(
    looks_on: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: looks_on)
    monkeypatch.setattr("ctxwrap.cli.output._LONG", 0.0)
    with progress_bar("working") as progress:
        progress(1, 2)
        progress(2, 2)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert ("working" in captured.err) == looks_on
