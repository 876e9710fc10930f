"""The redo log: a lasting append waits for one file, and what the streams lost of it is restored."""

import errno
from pathlib import Path

import pytest

import ctxwrap
from ctxwrap.stores.files.redo import RedoLog
from ctxwrap.stores.files.store import FileLog, FileStore
from tests.stores.faults import Seam, failing, installed
from tests.stores.work import KEY, STREAMS, complaints, entry, ids


def lasting(log: FileLog, *names: str, streams: tuple[str, ...] = STREAMS) -> None:
    with log.locked():
        log.append({stream: [entry(name) for name in names] for stream in streams}, lasting=True)
        wait = log.unsynced()
    wait()


def unlasting(log: FileLog, name: str) -> None:
    with log.locked():
        log.append({stream: [entry(name)] for stream in STREAMS})


@pytest.fixture
def log(quick_path: Path) -> FileLog:
    """Of a session whose first append was synced."""
    opened = FileStore(quick_path).open(KEY)
    lasting(opened, "first")
    return opened


def fresh(log: FileLog) -> FileLog:
    return FileStore(log.directory.parents[5]).open(KEY)


def served(log: FileLog) -> list[list[str]]:
    opened = fresh(log)
    return [ids(opened.read(stream)[0]) for stream in STREAMS]


def sizes(log: FileLog) -> dict[str, int]:
    return {stream: (log.directory / f"{stream}.jsonl").stat().st_size for stream in STREAMS}


def cut(log: FileLog, at: dict[str, int]) -> None:
    """What a power cut does to streams that were not synced."""
    for stream, size in at.items():
        with (log.directory / f"{stream}.jsonl").open("r+b") as file:
            file.truncate(size)


def test_lasting_append_waits_for_one_file(log: FileLog) -> None:
    lasting(log, "second")  # creates the redo log
    other = fresh(log)
    lasting(other, "of another process")  # syncs the names in the directory
    with installed(Seam()) as seam:
        lasting(log, "third")
        lasting(other, "of another process")
        lasting(log, "fourth", "fifth")
    assert (seam.counts["fdatasync"], seam.counts["fsync"]) == (3, 0)


def test_lost_lines_are_restored_with_those_of_other_writers_between_them(log: FileLog) -> None:
    before = sizes(log)
    lasting(log, "a")
    unlasting(fresh(log), "b")
    lasting(fresh(log), "c")
    unlasting(log, "d")
    cut(log, before)
    with complaints() as told:
        assert served(log) == [["first", "a", "b", "c"]] * 2
    assert told == []
    lasting(log, "e")
    assert served(log) == [["first", "a", "b", "c", "e"]] * 2


def test_half_a_line_and_zeros_are_replaced(log: FileLog) -> None:
    before = sizes(log)
    lasting(log, "a")
    lasting(log, "b")
    whole = {stream: (log.directory / f"{stream}.jsonl").read_bytes() for stream in STREAMS}
    for stream in STREAMS:
        start = before[stream]
        damaged = whole[stream][: start + 20] + bytes(len(whole[stream]) - start - 20)
        (log.directory / f"{stream}.jsonl").write_bytes(damaged)
    assert served(log) == [["first", "a", "b"]] * 2
    assert {stream: (log.directory / f"{stream}.jsonl").read_bytes() for stream in STREAMS} == whole


def test_lines_that_somebody_wrote_in_their_place_are_kept(log: FileLog) -> None:
    before = sizes(log)
    lasting(log, "a")
    redo = (log.directory / ".redo").read_bytes()
    cut(log, before)
    (log.directory / ".redo").unlink()
    unlasting(fresh(log), "instead")
    (log.directory / ".redo").write_bytes(redo)
    assert served(log) == [["first", "instead"]] * 2


def test_entry_that_is_cut_short_counts_for_nothing(log: FileLog) -> None:
    lasting(log, "a")
    before = sizes(log)
    lasting(log, "b")
    whole = (log.directory / ".redo").read_bytes()
    (log.directory / ".redo").write_bytes(whole[:-1])
    cut(log, before)
    assert served(log) == [["first", "a"]] * 2
    lasting(log, "c")
    assert served(log) == [["first", "a", "c"]] * 2
    cut(log, before)
    assert served(log) == [["first", "a", "c"]] * 2


def test_large_append_is_synced_in_the_streams_and_not_entered(log: FileLog) -> None:
    lasting(log, "a")
    redo = (log.directory / ".redo").read_bytes()
    with installed(Seam()) as seam, log.locked():
        log.append({"messages": [entry(f"large-{number}", 40_000) for number in range(10)]}, lasting=True)
        log.unsynced()()
    assert seam.counts["fdatasync"] == 2
    assert (log.directory / ".redo").read_bytes() == redo
    lasting(log, "b")
    assert served(log) == [["first", "a", *[f"large-{number}" for number in range(10)], "b"], ["first", "a", "b"]]


def test_new_stream_is_synced_itself_at_first(quick_path: Path) -> None:
    log = FileStore(quick_path).open(KEY)
    lasting(log, "a", streams=("messages",))
    with installed(Seam()) as seam:
        lasting(log, "b", streams=("events",))
        lasting(log, "c", streams=("events",))
    assert seam.counts["fdatasync"] == 4  # both streams, the new redo log, its entry
    assert served(log) == [["a"], ["b", "c"]]


def test_append_after_a_failed_sync_of_the_redo_log_syncs_the_streams(log: FileLog) -> None:
    lasting(log, "a")
    before = sizes(log)
    with installed(Seam(failing("fdatasync", 1, errno.EIO))), pytest.raises(ctxwrap.StoreUnavailable):
        lasting(log, "b")
    with installed(Seam()) as seam:
        lasting(log, "c")
        assert seam.counts["fdatasync"] == 2
        lasting(log, "d")
    assert served(log) == [["first", "a", "b", "c", "d"]] * 2
    assert sizes(log)["messages"] > before["messages"]


def test_append_that_fails_is_not_in_the_redo_log(log: FileLog, monkeypatch: pytest.MonkeyPatch) -> None:
    lasting(log, "a")
    append = RedoLog.append

    def interrupted(*args: object) -> object:
        append(*args)  # type: ignore[arg-type]
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(RedoLog, "append", interrupted)
        with pytest.raises(KeyboardInterrupt):
            lasting(log, "b")
    assert served(log) == [["first", "a"]] * 2
    lasting(log, "c")
    assert served(log) == [["first", "a", "c"]] * 2
