"""Children: what is handed to them and comes back is in the log, made anew at any time, and nothing else is read."""

import json
from pathlib import Path
from typing import Any

import pytest

from ctxwrap.errors import CtxwrapError, InvalidId, NotFound, SettingsError
from ctxwrap.session.abi import blob_name, event_issues, record_issues
from ctxwrap.session.child_sessions import (
    LARGEST_ARTIFACT,
    LONGEST_TEXT,
    Child,
    attach_result,
    cancel_child,
    children_of,
    start_child,
)
from ctxwrap.session.gc import collect_garbage
from ctxwrap.session.purge import forget, purge
from ctxwrap.session.verify import rebuild
from ctxwrap.settings import Settings
from ctxwrap.stores.base import Store
from ctxwrap.stores.files.store import FileStore
from ctxwrap.stores.memory import MemoryStore
from ctxwrap.types import Message
from tests.session.telling import KEY, Teller, directory_of, hashes, item

REF = {"id": "r1", "path": "artifact/fix.patch", "kind": "artifact", "summary": "the fix"}
SECRET = "The safe opens with swordfish-42."
PATCH = b"--- a\n+++ b\n"
HOSTILE = [
    "",
    ".",
    "..",
    "../x",
    "a/b",
    "/etc",
    ".hidden",
    "a\x00b",
    "a\nb",
    "x" * 65,
    "x.sock",
    "x.d",
    "é",
    " ",
    "-rf",
    "😀",
]


@pytest.fixture
def parent(tmp_path: Path) -> Teller:
    teller = Teller(FileStore(tmp_path / "home"))
    teller.says(SECRET)
    return teller


def folder(parent: Teller) -> Path:
    return directory_of(parent.store) / "context/child"


def events(parent: Teller) -> list[dict[str, Any]]:
    return parent.store.open(parent.key).read("events")[0]


def test_child_session_starts_ends_and_is_listed(parent: Teller) -> None:
    child = start_child("s", "rev-1", handoff="Look at it.", child_agent="reviewer", **parent.place)
    assert child == Child("rev-1", "reviewer", "s/rev-1", "active")
    done = attach_result(
        "s", "rev-1", result="All good.\nReally.", refs=[REF], artifacts={"fix.patch": PATCH}, **parent.place
    )
    assert done == Child("rev-1", "reviewer", "s/rev-1", "done", "All good. Really.")
    assert children_of("s", **parent.place) == (done,)
    files = {
        str(path.relative_to(folder(parent))): path.read_bytes() for path in folder(parent).rglob("*") if path.is_file()
    }
    assert files == {
        "rev-1/agent": b"reviewer\n",
        "rev-1/session": b"s/rev-1\n",
        "rev-1/status": b"done\n",
        "rev-1/handoff.md": b"Look at it.\n",
        "rev-1/result.md": b"All good.\nReally.\n",
        "rev-1/refs.jsonl": json.dumps(REF, separators=(",", ":")).encode() + b"\n",
        "rev-1/artifact/fix.patch": PATCH,
    }
    refs = (directory_of(parent.store) / "context/refs.jsonl").read_text()
    assert '"path":"context/child/rev-1/result.md"' in refs
    assert not record_issues("refs", refs)
    assert not event_issues("".join(f"{json.dumps(event)}\n" for event in events(parent)))


def test_an_artifact_is_stored_once_and_counts_as_used(parent: Teller) -> None:
    large = b"x" * 20_000
    for name in ("one", "two"):
        start_child("s", name, handoff="Go.", **parent.place)
        attach_result("s", name, result="Done.", artifacts={"a.bin": large, "b.bin": large}, **parent.place)
    raw = directory_of(parent.store) / "raw"
    (stored,) = raw.iterdir()
    assert stored.name == blob_name(large)[0]
    assert all(
        (folder(parent) / name / "artifact" / each).samefile(stored)
        for name in ("one", "two")
        for each in ("a.bin", "b.bin")
    )
    assert stored.stat().st_nlink == 5
    assert collect_garbage("s", **parent.place).files == ()
    purge("s", message=1, **parent.place)
    assert stored.read_bytes() == large


def test_rebuild_restores_child_files_byte_for_byte(parent: Teller) -> None:
    for name in ("a", "b", "c", "d"):
        start_child("s", name, handoff=f"For {name} \ud800", **parent.place)
    attach_result("s", "a", result="Done.", refs=[REF], artifacts={"x": b"", "y": PATCH}, **parent.place)
    attach_result("s", "b", result="", status="error", **parent.place)
    cancel_child("s", "c", **parent.place)
    cancel_child("s", "d", reason="the user went home", **parent.place)
    before = hashes(directory_of(parent.store), "context/**/*")
    known = children_of("s", **parent.place)
    assert [child.status for child in known] == ["done", "error", "cancelled", "cancelled"]
    assert known[3].summary == "the user went home"
    rebuild("s", **parent.place)
    assert hashes(directory_of(parent.store), "context/**/*") == before
    parent.chats(40)
    Teller(parent.store).chats(1)
    assert children_of("s", **parent.place) == known
    assert not event_issues("".join(f"{json.dumps(event)}\n" for event in events(parent)))


def test_log_records_why_a_child_was_cancelled(parent: Teller) -> None:
    start_child("s", "a", handoff="Go.", **parent.place)
    cancel_child("s", "a", **parent.place)
    last = events(parent)[-1]
    assert {name: last[name] for name in last if name != "ctx"} == {
        "type": "agent.child.cancel", "parent": "s", "child": "a", "reason": "parent_dead",
    }  # fmt: skip


def test_parent_does_not_read_the_child_session(parent: Teller) -> None:
    child = start_child("s", "rev-1", handoff="Go.", **parent.place)
    own = KEY._replace(agent=child.agent, session=child.session)
    Teller(parent.store, own).says("canary of the child")
    attach_result("s", "rev-1", result="Done.", **parent.place)
    rebuild("s", **parent.place)
    whole = b"".join(path.read_bytes() for path in directory_of(parent.store).rglob("*") if path.is_file())
    assert b"canary of the child" not in whole
    with pytest.raises(SettingsError, match="would be its own parent"):
        start_child("s", "self", handoff="Go.", child_session="s", **parent.place)


def test_invalid_child_operation_is_a_clear_error_and_writes_nothing(parent: Teller) -> None:
    start_child("s", "a", handoff="Go.", **parent.place)
    before = hashes(directory_of(parent.store), "**/*")
    with pytest.raises(SettingsError, match="already has a child 'a'"):
        start_child("s", "a", handoff="Go.", **parent.place)
    with pytest.raises(SettingsError, match="already has a child 'a'"):
        start_child("s", "A", handoff="Go.", **parent.place)
    with pytest.raises(NotFound, match="no child 'b': start it"):
        attach_result("s", "b", result="Done.", **parent.place)
    with pytest.raises(NotFound, match="no child 'b'"):
        cancel_child("s", "b", **parent.place)
    with pytest.raises(SettingsError, match="unknown status 'active': known are cancelled, done, error"):
        attach_result("s", "a", result="Done.", status="active", **parent.place)  # type: ignore[arg-type]
    with pytest.raises(NotFound):
        start_child("nobody", "a", handoff="Go.", **parent.place)
    with pytest.raises(NotFound):
        children_of("s", store=parent.store, tenant="other")
    assert hashes(directory_of(parent.store), "**/*") == before
    attach_result("s", "a", result="Done.", **parent.place)
    for again in (attach_result, cancel_child):
        with pytest.raises(SettingsError, match="has already ended: it is done"):
            again("s", "a", **({"result": "x"} if again is attach_result else {}), **parent.place)  # type: ignore[operator]


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_are_refused(parent: Teller, name: str) -> None:
    with pytest.raises(InvalidId, match="cannot name a child"):
        start_child("s", name, handoff="Go.", **parent.place)
    start_child("s", "a", handoff="Go.", **parent.place)
    before = hashes(directory_of(parent.store), "**/*")
    with pytest.raises(InvalidId, match="cannot name an artifact"):
        attach_result("s", "a", result="x", artifacts={name: b"x"}, **parent.place)
    assert hashes(directory_of(parent.store), "**/*") == before


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"result": "x" * (LONGEST_TEXT + 1)}, "1048577 bytes, the limit is 1048576"),
        ({"result": "é" * (LONGEST_TEXT // 2 + 1)}, "1048578 bytes"),
        ({"result": b"x"}, "must be a str, not bytes"),
        ({"artifacts": {"a": bytes(LARGEST_ARTIFACT + 1)}}, "67108865 bytes, the limit is 67108864"),
        ({"artifacts": {"a": "text"}}, "must be bytes, not str"),
        ({"artifacts": {"a": b"", "A": b""}}, "differ only in case"),
        ({"artifacts": {f"a{number}": b"" for number in range(257)}}, "up to 256 artifacts"),
        ({"refs": [{**REF, "path": "../../etc/passwd"}]}, "ref 1 of 'a': invalid field, path"),
        ({"refs": [REF, {**REF, "kind": "patch"}]}, "ref 2 of 'a'"),
        ({"refs": [{"id": "x"}]}, "missing string field, path"),
        ({"refs": [{**REF, "summary": "two\nlines"}]}, "invalid field, summary"),
        ({"refs": [{**REF, "more": "x" * LONGEST_TEXT}]}, "list of refs of 'a' has"),
    ],
)  # fmt: skip
def test_oversized_or_malformed_child_data_is_refused(parent: Teller, given: dict[str, Any], why: str) -> None:
    start_child("s", "a", handoff="Go.", **parent.place)
    before = hashes(directory_of(parent.store), "**/*")
    with pytest.raises(CtxwrapError, match=why):
        attach_result("s", "a", **{"result": "x", **given}, **parent.place)
    assert hashes(directory_of(parent.store), "**/*") == before
    with pytest.raises(SettingsError, match="the handoff of 'b' has"):
        start_child("s", "b", handoff="x" * (LONGEST_TEXT + 1), **parent.place)


@pytest.mark.parametrize("store", ["files", "memory"])
def test_purged_text_is_removed_from_child_inputs_and_results(tmp_path: Path, store: str) -> None:
    place: Store = FileStore(tmp_path) if store == "files" else MemoryStore()
    parent = Teller(place)
    parent.says(SECRET)
    start_child("s", "rev-1", handoff=f"Mind this: {SECRET} Now go.", child_agent="reviewer", **parent.place)
    ref = {**REF, "summary": f"see: {SECRET}"}
    artifacts = {"said.txt": f"He said: {SECRET}".encode(), "fix.patch": PATCH}
    attach_result("s", "rev-1", result=f"Yes: {SECRET}", refs=[ref], artifacts=artifacts, **parent.place)
    purge("s", message=1, **parent.place)
    log = place.open(KEY)
    files = {entry.name: log.files.load(entry.name) or b"" for entry in log.files.entries()}
    assert not [name for name, data in files.items() if b"swordfish" in data]
    assert files["context/child/rev-1/handoff.md"] == b"Mind this: [forgotten] Now go.\n"
    assert files["context/child/rev-1/result.md"] == b"Yes: [forgotten]\n"
    assert files["context/child/rev-1/artifact/fix.patch"] == PATCH
    assert "context/child/rev-1/artifact/said.txt" not in files
    assert [name for name in files if name.startswith("raw/")] == [f"raw/{blob_name(PATCH)[0]}"]
    (refs,) = map(json.loads, files["context/child/rev-1/refs.jsonl"].splitlines())
    assert refs == {**REF, "summary": "see: [forgotten]"}
    assert children_of("s", **parent.place) == (Child("rev-1", "reviewer", "s/rev-1", "done", "Yes: [forgotten]"),)
    parent.chats(1)


def test_purged_word_that_equals_a_name_leaves_the_child_intact(tmp_path: Path) -> None:
    parent = Teller(FileStore(tmp_path))
    for word in ("reviewer", "rev-1", "done", "artifact", "fix.patch", "r1"):
        parent.says(word)
    start_child("s", "rev-1", handoff="the reviewer is rev-1", child_agent="reviewer", **parent.place)
    attach_result("s", "rev-1", result="fix.patch", refs=[REF], artifacts={"fix.patch": PATCH}, **parent.place)
    for number in (1, 3, 5, 7, 9, 11):
        purge("s", message=number, **parent.place)
    (child,) = children_of("s", **parent.place)
    assert child[:4] == ("rev-1", "reviewer", "s/rev-1", "done")
    assert (folder(parent) / "rev-1/artifact" / f"forgotten-{blob_name(PATCH)[0][-16:]}").read_bytes() == PATCH
    assert (folder(parent) / "rev-1/handoff.md").read_text() == "the [forgotten] is [forgotten]\n"
    assert not record_issues("refs", (folder(parent) / "rev-1/refs.jsonl").read_text())
    rebuild("s", **parent.place)
    assert children_of("s", **parent.place) == (child,)


def test_forgotten_memory_item_is_removed_from_child_inputs(tmp_path: Path) -> None:
    parent = Teller(FileStore(tmp_path))
    parent.says("Hello.", keeps=[item("e-1", SECRET)])
    start_child("s", "a", handoff=f"Know: {SECRET}", **parent.place)
    attach_result("s", "a", result="ok", artifacts={"notes": SECRET.encode()}, **parent.place)
    forget("s", item="e-1", **parent.place)
    place = directory_of(parent.store)
    assert not [path for path in place.rglob("*") if path.is_file() and b"swordfish" in path.read_bytes()]
    assert (folder(parent) / "a/handoff.md").read_text() == "Know: [forgotten]\n"


def test_artifact_lifetime_follows_the_settings(parent: Teller, monkeypatch: pytest.MonkeyPatch) -> None:
    lasting = []
    real = type(parent.store.open(KEY).files).save

    def save(self: Any, name: str, data: bytes, **how: Any) -> None:
        lasting.extend([how.get("lasting", False)] if name.startswith("raw/") else [])
        real(self, name, data, **how)

    monkeypatch.setattr("ctxwrap.stores.files.tree.FileTree.save", save)
    for name, settings in (("a", None), ("b", Settings(durability="turn")), ("c", Settings(durability="always"))):
        start_child("s", name, handoff="Go.", settings=settings, **parent.place)
        attach_result("s", name, result="x", artifacts={"f": name.encode()}, settings=settings, **parent.place)
    assert lasting == [False, True, True]


def test_children_and_messages_share_stored_contents(parent: Teller) -> None:
    output = "a long output " * 200
    call = Message("assistant", "", tool_calls=({"id": "c1", "name": "read", "arguments": "{}"},))
    parent.says("Read it.", call, Message("tool", output, tool_call_id="c1"))
    start_child("s", "a", handoff="Go.", **parent.place)
    attach_result("s", "a", result="x", artifacts={"copy.txt": output.encode()}, **parent.place)
    (stored,) = (directory_of(parent.store) / "raw").iterdir()
    assert (folder(parent) / "a/artifact/copy.txt").samefile(stored)
    (number,) = (
        record["ctx"]["seq"] for record in parent.store.open(KEY).read("messages")[0] if record["role"] == "tool"
    )
    purge("s", message=number, **parent.place)
    assert not stored.exists()
