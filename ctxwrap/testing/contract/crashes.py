"""Contract of crashes and rewriting: acknowledged records stay, batches are whole, locks are released."""

import os
import signal
from collections.abc import Callable

import pytest

from ctxwrap.stores.base import CACHE, STREAMS, Checkpoint, Log, Store
from ctxwrap.testing.contract.streams import KEY, KNOWN, contents, numbered_record, record
from ctxwrap.types import Record


def in_process(work: Callable[[], object]) -> None:
    """Run `work` in a forked process that is killed right after it."""
    if not hasattr(os, "fork"):
        pytest.skip("no process can be forked here")
    process = os.fork()
    if process == 0:
        try:
            work()
            os.kill(os.getpid(), signal.SIGKILL)
        finally:
            os._exit(3)
    _, status = os.waitpid(process, 0)
    assert os.WIFSIGNALED(status), "the work failed"


def append(log: Log, name: str) -> None:
    log.append({stream: [record(f"{name}-{at}") for at in range(3)] for stream in STREAMS}, lasting=True)


class CrashContract:
    def test_acknowledged_batch_survives_a_killed_process(self, reopened: Callable[[], Store]) -> None:
        def work() -> None:
            log = reopened().open(KEY)
            with log.locked():
                append(log, "a")
                log.save_checkpoint(Checkpoint({}, {}))
                log.files.save("pinned", b"x" * 9000, lasting=True)
                wait = log.unsynced()
            wait()

        in_process(work)
        log = reopened().open(KEY)
        for stream in STREAMS:
            assert contents(log, stream=stream) == ["a-0", "a-1", "a-2"]
            assert [line.fault for line in log.lines(stream)] == ["", "", ""]
        assert log.files.load("pinned") == b"x" * 9000

    def test_process_killed_inside_lock_leaves_whole_batches_and_no_lock(self, reopened: Callable[[], Store]) -> None:
        def work() -> None:
            log = reopened().open(KEY)
            lock = log.locked()  # never exited
            lock.__enter__()
            append(log, "dead")
            log.files.save("half", b"x")

        in_process(work)
        log = reopened().open(KEY)
        with log.locked():
            append(log, "next")
        found = {stream: contents(log, stream=stream) for stream in STREAMS}
        assert found["messages"] == found["events"]
        assert found["messages"][-3:] == ["next-0", "next-1", "next-2"]
        assert found["messages"][:-3] in ([], ["dead-0", "dead-1", "dead-2"])

    def test_process_killed_during_rewriting_leaves_old_or_new_stream(self, reopened: Callable[[], Store]) -> None:
        log = reopened().open(KEY)
        with log.locked():
            append(log, "a")

        def work() -> None:
            mine = reopened().open(KEY)
            lock = mine.locked()
            lock.__enter__()
            mine.rewrite("messages", lambda line: {**line, "content": "x"})

        in_process(work)
        assert contents(reopened().open(KEY)) in (["a-0", "a-1", "a-2"], ["x", "x", "x"])

    def test_forked_child_and_parent_write_to_one_log(self, reopened: Callable[[], Store]) -> None:
        log = reopened().open(KEY)

        def work() -> None:
            for name in range(5):
                with log.locked():
                    append(log, f"child{name}")

        with log.locked():
            append(log, "before")
        in_process(work)
        with log.locked():
            append(log, "after")
        assert len(contents(reopened().open(KEY))) == 3 * 7
        assert contents(log)[-1] == "after-2"


class RewritingContract:
    def test_rewriting_changes_records_of_one_stream(self, store: Store) -> None:
        log = store.open(KEY)
        with log.locked():
            log.append({"messages": [record("a"), record("b"), record("c")], "events": [record("e")]})
            log.rewrite("messages", lambda line: {**line, "content": "x"} if line["content"] == "b" else line)
            log.append({"messages": [record("d")]})
        assert contents(store.open(KEY)) == ["a", "x", "c", "d"]
        assert contents(log, stream="events") == ["e"]

    def test_rewriting_appends_new_records(self, store: Store) -> None:
        log = store.open(KEY)
        with log.locked():
            log.rewrite("messages", lambda line: line, [record("a")])
            log.rewrite("messages", lambda line: {**line, "content": "x"}, [record("b")])
        assert contents(store.open(KEY)) == ["x", "b"]

    def test_rewriting_keeps_numbers(self, store: Store) -> None:
        log = store.open(KEY)
        with log.locked():
            log.append({"messages": [numbered_record(number) for number in (1, 2, 5)]})
            log.rewrite("messages", lambda line: {**line, "content": "x"} if line["ctx"]["seq"] == 2 else line)
        found = store.open(KEY).pick("messages", range(9))
        assert {number: line["content"] for number, line in found.items()} == {1: "number 1", 2: "x", 5: "number 5"}
        assert [line.fault for line in log.lines("messages")] == ["", "", ""]

    def test_rewriting_changes_the_edition_of_every_log(self, store: Store) -> None:
        log, other = store.open(KEY), store.open(KEY)
        editions = [other.edition()]
        for _ in range(3):
            with log.locked():
                log.append({"messages": [record("a")]})
                assert other.edition() == editions[-1]
                log.rewrite("messages", lambda line: line)
            editions.append(other.edition())
        assert len(set(editions)) == 4
        assert store.open(KEY._replace(tenant="other")).edition() == editions[0]

    def test_rewriting_removes_the_checkpoint(self, store: Store) -> None:
        log = store.open(KEY)
        with log.locked():
            log.save_checkpoint(Checkpoint(log.append({"messages": [record("a")]}), KNOWN))
            log.rewrite("messages", lambda line: line)
        assert log.load_checkpoint() is None

    def test_rewriting_removes_caches(self, store: Store) -> None:
        log = store.open(KEY)
        with log.locked():
            for stream in ("messages", "events"):
                log.files.save(f"{CACHE}/0", b"a" * 5000)
                log.files.save(f"{CACHE}/1", b"a")
                log.rewrite(stream, lambda line: line)
                assert log.files.entries(CACHE) == []

    def test_failed_rewriting_changes_nothing(self, store: Store) -> None:
        def fail(line: Record) -> Record:
            raise ZeroDivisionError

        log = store.open(KEY)
        with log.locked():
            log.append({"messages": [record("a"), record("b")]})
            with pytest.raises(ZeroDivisionError):
                log.rewrite("messages", fail)
        assert contents(store.open(KEY)) == ["a", "b"]
