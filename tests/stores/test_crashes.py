"""Whatever the system does to a store, what it acknowledged is there afterwards, whole and in order."""

import contextlib
import errno
import itertools
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

import ctxwrap
from ctxwrap.stores.files.store import FileStore
from ctxwrap.types import Record
from tests.stores.faults import Before, Seam, failing, installed, killing, killing_after, short
from tests.stores.medium import Medium, State
from tests.stores.work import (
    KEY,
    STREAMS,
    Acks,
    Worker,
    complaints,
    entry,
    ids,
    lost,
    merged,
    recovered,
    telling,
    three_turns,
    told_by,
)

ROOT = Path(__file__).parent.parent.parent


def silent(acks: Acks) -> None:
    pass


def worker_in(root: Path, tell: Callable[[Acks], object] = silent, name: str = "w") -> Worker:
    return Worker(FileStore(root).open(KEY), name, tell)


def counted(root: Path) -> Seam:
    """A seam that has seen three turns go well."""
    with installed(Seam()) as seam:
        three_turns(worker_in(root))
    return seam


def in_child(work: Callable[[Callable[[Acks], object]], None]) -> tuple[list[Acks], int]:
    """What a forked process told before it ended, and how it ended."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reading)
            work(telling(writing))
        finally:
            os._exit(0)
    os.close(writing)
    acks = told_by(reading)
    return acks, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def assert_kept(root: Path, acks: Sequence[Acks]) -> None:
    """All that was acknowledged is there, and whatever a crash left behind is gone after the next turn."""
    with installed(Seam()):
        assert lost(merged(acks), recovered(root)) == []
        worker = worker_in(root, name="again")
        worker.turn(3)
        worker.tidy(3)
    assert [path for path in root.rglob("*") if path.name.endswith(".new")] == []
    shutil.rmtree(root, ignore_errors=True)


def killed(root: Path, seam: Seam) -> list[Acks]:
    """What was acknowledged in three turns that the seam does not let come to their end."""

    def work(tell: Callable[[Acks], object]) -> None:
        with installed(seam):
            three_turns(worker_in(root, tell))

    acks, code = in_child(work)
    assert code == -9
    return acks


def test_a_kill_at_any_system_call_loses_nothing_acknowledged(quick_path: Path) -> None:
    total = counted(quick_path / "counted").total
    assert total > 150
    told = set()
    for number in range(1, total + 1):
        acks = killed(quick_path / "killed", Seam(killing(number)))
        assert_kept(quick_path / "killed", acks)
        told.add(len(acks))
    assert told >= set(range(8))


def test_a_kill_within_any_write_loses_nothing_acknowledged(quick_path: Path) -> None:
    writes = counted(quick_path / "counted").counts["write"]
    assert writes > 20
    for number, length in itertools.product(range(1, writes + 1), (1, 100, 160)):
        acks = killed(quick_path / "killed", Seam(short(length, number), killing_after("write", number)))
        assert_kept(quick_path / "killed", acks)


SYSTEM_CALLS = (
    "write", "pwrite64", "fsync", "fdatasync", "rename", "renameat", "renameat2", "unlink", "unlinkat", "openat",
    "ftruncate", "flock", "close",
)  # fmt: skip


def traced(root: Path, *options: str) -> subprocess.CompletedProcess[bytes]:
    """Three turns in a process that strace has in its hands."""
    command = ["strace", "-f", "-qq", *options, sys.executable, "-m", "tests.stores.work", str(root)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, check=False, timeout=60)


def test_a_kill_at_real_system_calls_loses_nothing_acknowledged(quick_path: Path) -> None:
    if not shutil.which("strace"):
        pytest.skip("strace is not installed")
    trace = quick_path / "trace"
    whole = traced(quick_path / "whole", "-o", str(trace), "-e", f"trace={','.join(SYSTEM_CALLS)}")
    if whole.returncode:
        pytest.skip(f"strace may not trace here: {whole.stderr.decode(errors='replace')[:200]}")
    calls = [line.split(None, 1)[1].partition("(")[::2] for line in trace.read_text(errors="replace").splitlines()]
    begin = next(at for at, (_, rest) in enumerate(calls) if str(quick_path / "whole") in rest)
    kills = 0
    for name in SYSTEM_CALLS:
        before, total = (sum(called == name for called, _ in part) for part in (calls[:begin], calls))
        for number in range(before + 1, total + 1, max(1, (total - before) // 4)):
            inject = ("-e", f"trace={name}", "-e", f"inject={name}:signal=KILL:when={number}")
            done = traced(quick_path / "killed", "-o", os.devnull, *inject)
            acks = [json.loads(line) for line in done.stdout.splitlines(keepends=True) if line.endswith(b"\n")]
            kills += done.returncode != 0
            assert_kept(quick_path / "killed", acks)
    assert kills > 25


CODES = (errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EFBIG)


@pytest.mark.parametrize("for_ever", [False, True])
@pytest.mark.parametrize(
    "name", ["write", "fsync", "fdatasync", "ftruncate", "replace", "rename", "unlink", "mkdir", "chmod", "open"]
)
def test_refused_system_calls_are_not_acknowledged_and_damage_nothing(
    quick_path: Path, name: str, for_ever: bool
) -> None:
    count = counted(quick_path / "counted").counts[name]
    assert count > 0
    for number, code in zip(range(1, count + 1), itertools.cycle(CODES), strict=False):
        acks: list[Acks] = []
        with installed(Seam(failing(name, number, code, for_ever=for_ever))):
            worker = worker_in(quick_path / "failed", acks.append)
            with pytest.raises(ctxwrap.StoreUnavailable, match="store="):
                three_turns(worker)
        with installed(Seam()):
            worker.turn(7)
        assert merged(acks)["messages"][-1] == "w-7-answered"
        assert_kept(quick_path / "failed", acks)


def test_refused_write_of_any_kind_loses_nothing_acknowledged(quick_path: Path) -> None:
    count = counted(quick_path / "counted").counts["write"]
    lengths = itertools.cycle((None, 1, 100))
    for (number, code), length in zip(itertools.product(range(1, count + 1), CODES), lengths, strict=False):
        acks: list[Acks] = []
        with installed(Seam(refusing_the_rest(number, code, length))):
            worker = worker_in(quick_path / "failed", acks.append)
            with pytest.raises(ctxwrap.StoreUnavailable):
                three_turns(worker)
            worker.turn(7)
        assert_kept(quick_path / "failed", acks)


def refusing_the_rest(number: int, code: int, length: int | None) -> Before:
    """Take some of a write, and not the rest."""
    refused = failing("write", number + (length is not None), code)

    def before(called: str, count: int, total: int) -> int | None:
        refused(called, count, total)
        return length if (called, count) == ("write", number) else None

    return before


def test_refused_write_and_refused_rollback_lose_nothing_acknowledged(quick_path: Path) -> None:
    count = counted(quick_path / "counted").counts["write"]
    for number in range(1, count + 1):
        acks: list[Acks] = []
        full, stuck = refusing_the_rest(number, errno.ENOSPC, 100), failing("ftruncate", 1, errno.EIO, for_ever=True)

        def before(called: str, count: int, total: int, full: Before = full, stuck: Before = stuck) -> int | None:
            stuck(called, count, total)
            return full(called, count, total)

        with installed(Seam(before)):
            worker = worker_in(quick_path / "failed", acks.append)
            with pytest.raises(ctxwrap.StoreUnavailable):
                three_turns(worker)
        with installed(Seam()):
            worker.turn(7)
        assert_kept(quick_path / "failed", acks)


def test_short_writes_are_completed(quick_path: Path) -> None:
    for length in range(1, 250):
        acks: list[Acks] = []
        with installed(Seam(short(length))):
            worker_in(quick_path / "short", acks.append).turn(1)
        assert len(acks) == 2
        assert lost(merged(acks), recovered(quick_path / "short")) == []
        shutil.rmtree(quick_path / "short")


def test_records_of_a_failed_sync_are_rewritten_before_later_records_are_trusted(quick_path: Path) -> None:
    before = FileStore(quick_path).open(KEY)
    with before.locked():
        before.append({"messages": [entry("before")]}, lasting=True)
        wait = before.unsynced()
    wait()
    path = before.directory / "messages.jsonl"
    log, other = FileStore(quick_path).open(KEY), FileStore(quick_path).open(KEY)
    with log.locked():
        log.append({"messages": [entry("doubtful")]}, lasting=True)
        wait = log.unsynced()
    with installed(Seam(failing("fdatasync", 1, errno.EIO))):
        for _ in range(3):
            with pytest.raises(ctxwrap.StoreUnavailable):
                wait()
    doubtful, content = path.stat().st_ino, path.read_bytes()
    with installed(Seam(records=True)) as seam, other.locked():
        other.append({"messages": [entry("behind")]}, lasting=True)
    assert path.stat().st_ino != doubtful
    assert path.read_bytes().startswith(content)
    anew = [operation.kind for operation in seam.operations if operation.path.startswith(str(path))]
    assert anew == ["create", "write", "sync", "rename", "write"]
    other.unsynced()()


def test_later_sync_does_not_confirm_records_of_a_failed_sync(quick_path: Path) -> None:
    logs = [FileStore(quick_path).open(KEY) for _ in range(2)]
    waits = []
    for log in logs:
        with log.locked():
            log.append({"messages": [entry("a")]}, lasting=True)
            waits.append(log.unsynced())
    with installed(Seam(failing("fdatasync", 1, errno.EIO))):
        for wait in waits:
            with pytest.raises(ctxwrap.StoreUnavailable):
                wait()


class Recorded:
    """What was done to the medium by some work below a directory, and what was acknowledged when."""

    def __init__(self, base: Path, before: Before | None = None) -> None:
        self.base = base
        base.mkdir()
        self.seam = Seam(before, records=True)
        self.acks: list[tuple[int, Acks]] = []

    def tell(self, acks: Acks) -> None:
        self.acks.append((len(self.seam.operations), acks))

    def workers(self, count: int) -> list[Worker]:
        return [worker_in(self.base / "data" / "home", self.tell, f"w{number}") for number in range(count)]

    def states(self, *, syncs: bool, only_last: bool) -> dict[State, int]:
        """The states that a power cut may leave, and how many operations there may have been at most."""
        medium, found = Medium(str(self.base), settled="/index/"), {}
        moments = {count for count, _ in self.acks}
        for count, operation in enumerate(self.seam.operations):
            if not only_last and (count in moments or operation.kind == "sync"):  # before that there is most to be lost
                found.update(dict.fromkeys(medium.states(), count))
            if syncs or "sync" not in operation.kind:
                medium.do(operation)
        found.update(dict.fromkeys(medium.states(), len(self.seam.operations)))
        return found

    def losses(self, place: Path, *, syncs: bool = True, only_last: bool = False) -> Iterator[list[str]]:
        """What is lost in each state."""
        for state, count in self.states(syncs=syncs, only_last=only_last).items():
            place.mkdir()
            state.lay_out(str(self.base), place)
            acked = merged([acks for done, acks in self.acks if done <= count])
            try:
                with installed(Seam()):
                    yield lost(acked, recovered(place / "data" / "home"))
            except AssertionError as error:
                yield [f"no recovery: {error}"]
            shutil.rmtree(place)


def recorded_turns(base: Path, workers: int, before: Before | None = None) -> Recorded:
    recorded = Recorded(base, before)
    with installed(recorded.seam):
        all_workers = recorded.workers(workers)
        for number, size in enumerate((40, 900, 0)):
            for worker in all_workers:
                try:
                    worker.turn(number, size)
                except ctxwrap.StoreUnavailable:
                    assert before is not None
        all_workers[0].tidy(1)
        all_workers[-1].turn(5)
    return recorded


@pytest.mark.parametrize("workers", [1, 2])
def test_a_power_cut_at_any_moment_loses_nothing_acknowledged(quick_path: Path, workers: int) -> None:
    recorded = recorded_turns(quick_path / "run", workers)
    losses = list(recorded.losses(quick_path / "after"))
    assert len(losses) > 300
    assert [loss for loss in losses if loss] == []


def test_a_power_cut_while_the_redo_log_is_emptied_loses_nothing_acknowledged(
    quick_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ctxwrap.stores.files.redo.LARGEST", 500)
    recorded = recorded_turns(quick_path / "run", 2)
    emptied = [each for each in recorded.seam.operations if each.kind == "rename" and each.other.endswith("/.redo")]
    assert len(emptied) > 2
    assert [loss for loss in recorded.losses(quick_path / "after") if loss] == []


def test_power_cut_may_lose_records_that_were_not_synced(quick_path: Path) -> None:
    recorded = recorded_turns(quick_path / "run", 1)
    assert sum(map(bool, itertools.islice(recorded.losses(quick_path / "after", syncs=False), 400))) > 50


def test_a_power_cut_after_a_failed_sync_loses_nothing_acknowledged(quick_path: Path) -> None:
    for number in range(1, 15, 3):
        recorded = recorded_turns(quick_path / f"run-{number}", 2, failing("fdatasync", number, errno.EIO))
        assert any(operation.kind == "failed sync" for operation in recorded.seam.operations)
        losses = recorded.losses(quick_path / "after", only_last=True)
        assert [loss for loss in losses if loss] == []


def test_later_streams_and_files_survive_a_power_cut(quick_path: Path) -> None:
    recorded = Recorded(quick_path / "run")
    with installed(recorded.seam):
        (worker,) = recorded.workers(1)
        with worker.log.locked():
            worker.log.files.save("pinned/lasting", b"1", lasting=True)
        recorded.tell({"files": ["1"]})
        for stream in STREAMS:
            with worker.log.locked():
                worker.log.append({stream: [entry(stream)]}, lasting=True)
                wait = worker.log.unsynced()
            wait()
            recorded.tell({stream: [stream]})
    assert [loss for loss in recorded.losses(quick_path / "after") if loss] == []


def test_failures_leave_no_handle_open(quick_path: Path) -> None:
    worker = worker_in(quick_path)
    with installed(Seam()):
        three_turns(worker)
    before = len(os.listdir("/proc/self/fd"))
    for name, number in itertools.product(
        ("open", "write", "fdatasync", "fsync", "ftruncate", "replace"), range(1, 12)
    ):
        with installed(Seam(failing(name, number, errno.EIO))), contextlib.suppress(ctxwrap.StoreUnavailable):
            worker.turn(5)
            worker.tidy(5)
    with worker.log.locked():
        worker.log.unsynced()()
    assert len(os.listdir("/proc/self/fd")) == before


def test_read_failure_is_an_error_and_not_the_end_of_the_log(quick_path: Path) -> None:
    worker = worker_in(quick_path)
    with installed(Seam()) as seam:
        three_turns(worker)
        recovered(quick_path)
    for number in range(1, seam.counts["pread"]):
        with installed(Seam(failing("pread", number, errno.EIO))), contextlib.suppress(ctxwrap.StoreUnavailable):
            fresh = FileStore(quick_path).open(KEY)
            assert len(fresh.read("messages")[0]) == 7
            with fresh.locked():
                fresh.append({"events": [entry("more")]})
    with complaints() as told, installed(Seam()):
        log = FileStore(quick_path).open(KEY)
        assert len(log.read("messages")[0]) == 7
        assert "more" in ids(log.read("events")[0])
    assert told == []
    assert list(log.directory.glob("*.torn-*")) == []


def test_a_power_cut_around_a_rewriting_loses_nothing_and_brings_nothing_back(quick_path: Path) -> None:
    recorded, place = Recorded(quick_path / "run"), quick_path / "after"

    def without_content(record: Record) -> Record:
        return {**record, "content": ""} if record["ctx"]["id"] == "secret" else record

    with installed(recorded.seam):
        first, second = recorded.workers(2)
        for number in range(2):
            first.turn(number)
            second.turn(number)
            with second.log.locked():
                second.log.append({"messages": [{**entry("secret"), "content": "swordfish"}]}, lasting=True)
                wait = second.log.unsynced()
            wait()
        with first.log.locked():
            for stream in STREAMS:
                first.log.rewrite(stream, without_content)
        forgotten = len(recorded.seam.operations)
        second.turn(2)
        first.turn(3)
    assert any(b"swordfish" in each.data for each in recorded.seam.operations if each.path.endswith("/.redo"))
    for state, count in recorded.states(syncs=True, only_last=False).items():
        place.mkdir()
        state.lay_out(str(recorded.base), place)
        acked = merged([acks for done, acks in recorded.acks if done <= count])
        with installed(Seam()):
            assert lost(acked, recovered(place / "data" / "home")) == []
        if count >= forgotten:
            assert [path for path in place.rglob("*") if path.is_file() and b"swordfish" in path.read_bytes()] == []
        shutil.rmtree(place)
