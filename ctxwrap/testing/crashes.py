"""What is left for the next process: all that was acknowledged, whole batches only, and no lock."""

import os
import signal
from collections.abc import Callable

import pytest

from ctxwrap.storage import STREAMS, Checkpoint, Log, Store
from ctxwrap.testing.records import KEY, contents, record


def in_process(work: Callable[[], object]) -> None:
    """In a process of its own, which is killed as soon as the work is done."""
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
    def test_what_was_acknowledged_is_there_for_the_next_process(self, reopened: Callable[[], Store]) -> None:
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

    def test_who_dies_inside_the_lock_leaves_whole_batches_and_no_lock(self, reopened: Callable[[], Store]) -> None:
        def work() -> None:
            log = reopened().open(KEY)
            lock = log.locked()  # which is never left
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

    def test_who_dies_while_rewriting_leaves_the_old_stream_or_the_new_one(self, reopened: Callable[[], Store]) -> None:
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

    def test_parent_and_child_write_through_the_same_log(self, reopened: Callable[[], Store]) -> None:
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
