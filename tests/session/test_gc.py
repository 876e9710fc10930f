"""Garbage collection: what is of no use goes, and neither truth nor input nor anything of a child ever does."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import fields
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxwrap.errors import NotFound, SettingsError
from ctxwrap.session import gc
from ctxwrap.session.abi import blob_name
from ctxwrap.session.child_sessions import attach_result, start_child
from ctxwrap.session.clock import utc_now
from ctxwrap.session.gc import GarbageReport, Policy, collect_garbage, policy_in
from ctxwrap.session.swap_search import bring_back, search_swap
from ctxwrap.session.verify import rebuild
from ctxwrap.stores.files.store import FileStore
from ctxwrap.stores.memory import MemoryStore
from ctxwrap.types import Message
from tests.session.telling import KEY, NOW, TRUTH, Teller, directory_of, hashes

LATER = utc_now() + timedelta(days=400)
OUTPUT = Message("tool", "a long output " * 200, tool_call_id="c1")
CALL = Message("assistant", "", tool_calls=({"id": "c1", "name": "read", "arguments": "{}"},))
INPUTS = (
    "context/pinned/*",
    "context/budget",
    "context/gc.policy",
    "state",
    "meta.json",
    "cwd",
    "*_at",
    ".turn",
    ".lock",
)
ORPHAN = b"what a crash left"


@pytest.fixture
def told(tmp_path: Path) -> Teller:
    """A session with everything in it that may go, and everything that may not."""
    teller = Teller(FileStore(tmp_path / "home"))
    teller.says("Read it.", CALL, OUTPUT)
    teller.chats(50)
    place = directory_of(teller.store)
    start_child("s", "rev-1", handoff="Look.", **teller.place)
    ref = {"id": "r1", "path": "artifact/fix.patch", "kind": "artifact", "summary": "the fix"}
    attach_result("s", "rev-1", result="Found it.", refs=[ref], artifacts={"fix.patch": b"+1"}, **teller.place)
    put(place, "context/pack.json", b'{"items": [{"source": "context/child/rev-1/result.md"}]}')
    put(place, "context/pack.md", b"# Pack")
    put(place, "context/pinned/system.md", b"Be brief.")
    put(place, "context/budget", b"32000\n")
    put(place, "cwd", b"/\n")
    put(place, "messages.jsonl.torn-12-abcdef01", b'{"cut')
    put(place, f"raw/{blob_name(ORPHAN)[0]}", ORPHAN)
    put(place, f"context/dedup/blob/{blob_name(ORPHAN)[0]}", ORPHAN)
    put(place, "raw/.sha256-0.new", b"half")
    put(place, "raw/notes.txt", b"by hand")
    put(place, "context/swap/chunk/mine.txt", b"by hand")
    put(place, "context/stranger.txt", b"by hand")
    return teller


def put(directory: Path, name: str, data: bytes) -> Path:
    path = directory / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def collected(teller: Teller, now: datetime = LATER, **how: Any) -> GarbageReport:
    return collect_garbage("s", dry_run=False, now=now, **teller.place, **how)


def names(report: GarbageReport) -> list[str]:
    return [file.name for file in report.files]


def everything(directory: Path) -> dict[str, str]:
    return hashes(directory, "**/*", "**/.*")


def chunks_of(directory: Path) -> list[str]:
    chunks = (path for path in (directory / "context/swap/chunk").iterdir() if path.name != "mine.txt")
    return [str(chunk.relative_to(directory)) for chunk in chunks]


def chunk_of(directory: Path) -> str:
    """The one of messages; the other is of a tool output."""
    known = {name: json.loads((directory / name).read_text()) for name in chunks_of(directory)}
    (chunk,) = (name for name, each in known.items() if each["start_event"] != each["end_event"])
    return chunk


def test_a_dry_run_is_the_default_and_changes_nothing(told: Teller) -> None:
    place = directory_of(told.store)
    before = everything(place)
    report = collect_garbage("s", now=LATER, **told.place)
    assert report.dry_run
    assert not any(file.removed for file in report.files)
    assert all(file.reason for file in report.files)
    orphan = blob_name(ORPHAN)[0]
    assert names(report) == sorted([
        "context/pack.json", "context/pack.md", *chunks_of(place), f"context/dedup/blob/{orphan}", f"raw/{orphan}",
        "raw/.sha256-0.new",
    ])  # fmt: skip
    assert report.size == sum(file.size for file in report.files) > 0
    assert everything(place) == before


def test_collection_removes_exactly_what_the_dry_run_lists(told: Teller) -> None:
    place = directory_of(told.store)
    before, expected = everything(place), set(names(collect_garbage("s", now=LATER, **told.place)))
    report = collected(told)
    assert set(names(report)) == expected
    assert all(file.removed and not file.problem for file in report.files)
    assert everything(place) == {name: digest for name, digest in before.items() if name not in expected}
    assert names(collected(told)) == []


def test_session_continues_and_rebuild_restores_derived_files_after_collection(told: Teller) -> None:
    place = directory_of(told.store)
    chunk = chunk_of(place)
    derived = hashes(place, chunk, "context/*.jsonl", "context/*/index.jsonl", "context/child/**/*", "latest.md")
    collected(told)
    assert not (place / chunk).exists()
    told.says("Read it again.", CALL, OUTPUT)
    (hit, *_) = search_swap("s", "weather", **told.place)
    assert len(bring_back("s", hit.entry.id, **told.place)) == 40
    Teller(FileStore(told.store.root)).chats(1)  # type: ignore[attr-defined]
    told.session.refresh()
    rebuild("s", **told.place)
    again = hashes(place, "context/**/*")
    assert again[chunk] == derived[chunk]
    rebuild("s", **told.place)
    assert hashes(place, "context/**/*") == again
    assert (place / "context/pinned/system.md").read_bytes() == b"Be brief."


@pytest.mark.parametrize("age", [timedelta(0), timedelta(hours=23)])
def test_young_files_are_not_collected(told: Teller, age: timedelta) -> None:
    report = collected(told, utc_now() + age)
    left = [name for name in names(report) if age or not name.startswith("raw/")]
    assert left == names(report)
    assert not [name for name in left if "pack" in name or "chunk" in name]


def test_content_returns_to_dedup_when_it_is_used_again(told: Teller) -> None:
    place = directory_of(told.store)
    other = Message("tool", "another output " * 200, tool_call_id="c1")
    told.says("And this?", CALL, other)
    link = place / "context/dedup/blob" / blob_name(other.text.encode())[0]
    put(place, "context/gc.policy", b"dedup_min_refs=2\n")
    put(place, "context/refs.jsonl", b"")
    assert link.exists()
    report = collected(told)
    assert [file.reason for file in report.files if file.name.endswith(link.name)] == [
        "used only once; the same content stays in raw/"
    ]
    assert not link.exists()
    assert (place / "raw" / link.name).exists()
    told.says("Once more.", CALL, other)
    assert link.samefile(place / "raw" / link.name)


def test_contents_named_by_a_pack_or_ref_are_kept(told: Teller) -> None:
    place = directory_of(told.store)
    chunk, link = chunk_of(place), f"context/dedup/blob/{blob_name(OUTPUT.text.encode())[0]}"
    put(place, "context/gc.policy", b"dedup_min_refs=9\nswap_ttl=1s\npack_ttl=0\n")
    put(place, "context/pack.json", json.dumps({"items": [{"source": chunk}]}).encode())
    assert link in (place / "context/refs.jsonl").read_text()
    assert not {chunk, link, "context/pack.json"} & set(names(collected(told)))


def test_only_copy_of_a_content_is_kept(told: Teller) -> None:
    place = directory_of(told.store)
    name = blob_name(OUTPUT.text.encode())[0]
    (place / "raw" / name).unlink()
    put(place, "context/gc.policy", b"dedup_min_refs=9\n")
    for file in ("context/refs.jsonl", "context/swap/index.jsonl"):
        put(place, file, b"")
    collected(told)
    assert (place / "context/dedup/blob" / name).exists()


def test_damaged_log_keeps_all_contents(told: Teller) -> None:
    place = directory_of(told.store)
    lines = (place / "messages.jsonl").read_bytes().splitlines(keepends=True)
    (place / "messages.jsonl").write_bytes(b"".join([*lines[:2], lines[2].replace(b"sha256-", b"shA256-"), *lines[3:]]))
    (place / "raw/.sha256-0.new").unlink()
    before = hashes(place, *TRUTH)
    assert not [name for name in names(collected(told)) if name.startswith("raw/")]
    assert hashes(place, *TRUTH) == before


def test_torn_record_keeps_the_contents_it_may_refer_to(told: Teller) -> None:
    place = directory_of(told.store)
    put(place, "events.jsonl.torn-1-00000000", f'{{"ctx": {{"blob": {{"id": "{blob_name(ORPHAN)[0]}"'.encode())
    assert f"raw/{blob_name(ORPHAN)[0]}" not in names(collected(told))


def test_only_leftovers_of_ctxwrap_files_are_collected(told: Teller) -> None:
    place = directory_of(told.store)
    ours = ["context/.facts.jsonl.new", "context/.pack.md.new", "context/swap/.index.jsonl.new", "raw/.sha256-0.new"]
    theirs = ["context/pinned/.note.new", "context/.gc.policy.new", "context/.budget.new", ".checkpoint.new"]
    theirs += ["context/child/rev-1/.result.md.new", "raw/.notes", "context/swap/.new", "messages.jsonl.new"]
    for name in (*ours, *theirs):
        put(place, name, b"half")
    assert [name for name in names(collected(told)) if name.endswith(".new")] == ours
    assert all((place / name).exists() for name in theirs)


HOSTILE = {
    "keep_messages=0": "keep_messages=0 would remove history.*write keep_messages=1",
    "keep_events=0": "keep_events=0 would remove history",
    "keep_messages=no": "neither 1 nor 0",
    "pack_ttl=1d\nkeep_message=1": "line 2: unknown key 'keep_message': did you mean 'keep_messages'",
    "messages.jsonl=0": "unknown key",
    "../../etc=1d": "unknown key",
    "pack_ttl=1d\n\n# twice\npack_ttl=2d": "line 4: pack_ttl is set twice",
    "pack_ttl": "write key=value",
    "pack_ttl=": "is not a duration: write 45s",
    "pack_ttl=-1d": "is not a duration",
    "pack_ttl=1": "is not a duration",
    "pack_ttl=١d": "is not a duration",
    "pack_ttl=1d 2d": "is not a duration",
    "pack_ttl=9999999999999999999999d": "is not a duration",
    "swap_ttl=inf": "is not a duration",
    "dedup_min_refs=1.5": "is not a number",
    "dedup_min_refs=-1": "is not a number",
    "\x00": "write key=value",
    "{}": "write key=value",
    "x" * 5000: "5000 bytes, the limit is 4096",
}


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("dry_run", [True, False])
def test_a_hostile_policy_removes_nothing_and_says_what_to_write(told: Teller, text: str, dry_run: bool) -> None:
    place = directory_of(told.store)
    put(place, "context/gc.policy", text.encode())
    before = everything(place)
    with pytest.raises(SettingsError, match=HOSTILE[text]) as caught:
        collect_garbage("s", dry_run=dry_run, now=LATER, **told.place)
    assert str(caught.value).startswith("context/gc.policy")
    assert "Nothing was removed" in str(caught.value)
    assert everything(place) == before


def test_undecodable_policy_is_refused(told: Teller) -> None:
    put(directory_of(told.store), "context/gc.policy", b"\xff\xfe")
    with pytest.raises(SettingsError, match="not UTF-8 text"):
        collected(told)


def test_default_policy_equals_the_documented_example() -> None:
    example = "pack_ttl=1d\nswap_ttl=30d\ndedup_min_refs=1\nkeep_messages=1\nkeep_events=1\n"
    assert policy_in(example) == policy_in("") == Policy()
    assert set(gc._READERS) == {field.name for field in fields(Policy)}
    assert policy_in("pack_ttl = 2w\r\nswap_ttl=0\r\n") == Policy(pack_ttl=14 * 86400, swap_ttl=0)
    seconds = [policy_in(f"pack_ttl={value}").pack_ttl for value in ("45s", "90m", "12h", "1d")]
    assert seconds == [45, 5400, 43200, 86400]


@given(st.text() | st.lists(st.sampled_from([*HOSTILE, "pack_ttl=1d", "swap_ttl=0", "=", "#"])).map("\n".join))
def test_arbitrary_text_is_a_policy_or_a_clear_error(text: str) -> None:
    with suppress(SettingsError):
        policy = policy_in(text)
        assert policy.keep_messages
        assert policy.keep_events


@pytest.mark.parametrize("linked", ["context", "context/swap", "context/swap/chunk", "context/dedup", "raw"])
def test_files_behind_a_link_are_not_touched(told: Teller, tmp_path: Path, linked: str) -> None:
    place, outside = directory_of(told.store), tmp_path / "outside"
    (place / linked).rename(outside)
    (place / linked).symlink_to(outside)
    before, truth = everything(outside), hashes(place, "*.jsonl")
    collected(told)
    assert everything(outside) == before
    assert hashes(place, "*.jsonl") == truth


@pytest.mark.parametrize("target", ["..", "../..", "../../raw", "/etc"])
def test_link_to_the_log_is_not_followed(told: Teller, target: str) -> None:
    place = directory_of(told.store)
    put(place, "context/gc.policy", b"swap_ttl=1s\n")
    for chunk in chunks_of(place):
        (place / chunk).unlink()
    (place / "context/swap/chunk/mine.txt").unlink()
    (place / "context/swap/chunk").rmdir()
    (place / "context/swap/chunk").symlink_to(target)
    (place / "context/dedup/blob" / f"sha256-{'0' * 56}").symlink_to("../../../messages.jsonl")
    truth = hashes(place, "messages.jsonl", "events.jsonl", "raw/sha256-*", *INPUTS)
    report = collected(told)
    orphan = f"raw/{blob_name(ORPHAN)[0]}"
    assert hashes(place, "messages.jsonl", "events.jsonl", "raw/sha256-*", *INPUTS) == {
        name: digest for name, digest in truth.items() if name != orphan
    }
    assert not [name for name in names(report) if "chunk" in name or "0000" in name]


def test_swap_chunks_that_are_no_plain_reference_are_kept(told: Teller) -> None:
    place = directory_of(told.store)
    digits = "ab" * 32
    name = f"context/swap/chunk/sha256-{digits[:56]}"
    good = {"source": "messages.jsonl", "start_event": "a", "end_event": "b", "hash": f"sha256:{digits}"}
    bad = ({**good, "content": "all of it"}, {**good, "source": "elsewhere"}, {**good, "hash": "sha256:00"}, [], "x")
    for reference in bad:
        put(place, name, json.dumps(reference).encode())
        assert name not in names(collect_garbage("s", now=LATER, **told.place))
    put(place, name, json.dumps(good).encode())
    assert name in names(collect_garbage("s", now=LATER, **told.place))


def test_children_are_never_collected(told: Teller) -> None:
    place = directory_of(told.store)
    put(place, "context/child/rev-1/.result.md.old", b"hidden")
    put(place, "context/child/other/result.md", b"nobody knows it")
    put(place, "context/gc.policy", b"pack_ttl=1s\nswap_ttl=1s\ndedup_min_refs=999\n")
    before = hashes(place, "context/child/**/*", "context/child/**/.*")
    assert len(before) == 9
    collected(told)
    assert hashes(place, "context/child/**/*", "context/child/**/.*") == before


def test_collection_during_appends_loses_no_record(told: Teller) -> None:
    place, store = directory_of(told.store), told.store
    put(place, "context/gc.policy", b"pack_ttl=1s\nswap_ttl=1s\ndedup_min_refs=999\n")
    wrong: list[BaseException] = []

    def guarded(work: Callable[[], None]) -> Callable[[], None]:
        def run() -> None:
            try:
                work()
            except BaseException as error:
                wrong.append(error)

        return run

    def append(name: str) -> None:
        teller = Teller(store)
        for number in range(15):
            teller.turns = 1000 * ord(name) + number
            output = Message("tool", f"{name}{number} output " * 200, tool_call_id="c1")
            teller.says(f"{name} {number}", CALL, output)

    def collect_often() -> None:
        for _ in range(15):
            collected(told)

    work = [lambda: append("a"), lambda: append("b"), collect_often]
    threads = [threading.Thread(target=guarded(each)) for each in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    fresh = Teller(store).session
    fresh.refresh()
    said = [record["content"] for record in fresh.records("messages")]
    expected = {f"{name}{number} output " * 200 for name in "ab" for number in range(15)}
    assert expected <= {str(text) for text in said}
    assert not [line for stream in ("messages", "events") for line in fresh.log.lines(stream) if line.fault]


def test_killed_collector_leaves_a_usable_session(told: Teller) -> None:
    code = (
        "import os, sys\n"
        "from ctxwrap.session.gc import collect_garbage\n"
        "from ctxwrap.stores.files.tree import FileTree\n"
        "from datetime import datetime, UTC\n"
        "real, count = FileTree.remove, [0]\n"
        "def remove(self, name):\n"
        "    count[0] += 1\n"
        "    os._exit(9) if count[0] > 2 else real(self, name)\n"
        "FileTree.remove = remove\n"
        "collect_garbage('s', dry_run=False, store=sys.argv[1], now=datetime(2100, 1, 1, tzinfo=UTC))\n"
    )
    place = directory_of(told.store)
    truth = hashes(place, "messages.jsonl", "events.jsonl")
    done = subprocess.run([sys.executable, "-c", code, str(told.store.root)], check=False)  # type: ignore[attr-defined]
    assert done.returncode == 9
    assert hashes(place, "messages.jsonl", "events.jsonl") == truth
    told.chats(1)
    assert collected(told).files


def test_files_that_cannot_be_removed_are_reported(told: Teller, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.unlink

    def refuse(name: str, **how: Any) -> None:
        if name == "pack.md":
            raise PermissionError(13, "Permission denied")
        real(name, **how)

    monkeypatch.setattr("os.unlink", refuse)
    files = {file.name: file for file in collected(told).files}
    assert not files["context/pack.md"].removed
    assert "Permission denied" in files["context/pack.md"].problem
    assert files["context/pack.json"].removed


def test_session_in_a_memory_store_is_collected() -> None:
    teller = Teller(MemoryStore())
    teller.chats(50)
    files = teller.store.open(KEY).files
    files.save("context/pack.md", b"# Pack")
    assert [name.partition("/sha256")[0] for name in names(collected(teller))] == [
        "context/pack.md",
        "context/swap/chunk",
    ]
    rebuild("s", **teller.place)
    assert len(files.entries("context/swap/chunk")) == 1


def test_collection_does_not_create_a_missing_session(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        collect_garbage("nobody", store=tmp_path)
    with pytest.raises(NotFound):
        rebuild("nobody", store=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_collection_sees_no_file_of_another_tenant(told: Teller) -> None:
    with pytest.raises(NotFound):
        collect_garbage("s", store=told.store, tenant="other", now=NOW)
