"""Many processes on one session: none loses or tears what another wrote, and none outlives its own locks."""

import fcntl
import json
import multiprocessing
import os
import random
import signal
import stat
import threading
from collections.abc import Callable, Iterator
from multiprocessing.context import ForkContext
from pathlib import Path

import pytest

from ctxwrap.stores.base import Checkpoint
from ctxwrap.stores.files.locks import try_lock
from ctxwrap.stores.files.store import FileLog, FileStore
from tests.stores.work import KEY, STREAMS, Worker, complaints, entry, ids, lost, merged, recovered, telling

FORK: ForkContext = multiprocessing.get_context("fork")

TIMEOUT = 120


def opened(root: Path) -> FileLog:
    return FileStore(root).open(KEY)


class Family:
    """Processes that live until the test ends, unless they are killed."""

    def __init__(self) -> None:
        self._life, self._mine = os.pipe()
        self._children: list[int] = []

    def bear(self, work: Callable[[], object]) -> tuple[int, bytes]:
        """Fork a process that does some work and lives on; its number, and what the work gave."""
        reading, writing = os.pipe()
        process = os.fork()
        if process == 0:
            try:
                os.close(self._mine)
                os.write(writing, f"{work()}\n".encode())
                self.live()
            finally:
                os._exit(1)
        os.close(writing)
        self._children.append(process)
        with os.fdopen(reading, "rb") as told:
            return process, told.readline().strip()

    def live(self) -> None:
        os.read(self._life, 1)

    def kill(self, process: int) -> None:
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
        self._children.remove(process)

    def end(self) -> None:
        os.close(self._mine)
        os.close(self._life)
        for process in self._children:
            os.waitpid(process, 0)


@pytest.fixture
def family() -> Iterator[Family]:
    family = Family()
    yield family
    family.end()


def started(work: Callable[[], object]) -> int:
    process = os.fork()
    if process == 0:
        try:
            work()
        finally:
            os._exit(1)
    return process


def run_all(works: list[Callable[[], None]]) -> None:
    processes = [FORK.Process(target=work) for work in works]
    for process in processes:
        process.start()
    for process in processes:
        process.join(TIMEOUT)
    assert [process.exitcode for process in processes] == [0] * len(processes)


def take_turns(root: Path, name: int, count: int, lasting: bool) -> Callable[[], None]:
    def work() -> None:
        log, chance = opened(root), random.Random(name)
        for number in range(count):
            size = 1 << 20 if number % 250 == 7 else chance.choice((0, 10, 300, 5000))
            with log.locked():
                log.append({"messages": [entry(f"{name}-{number}", size)]}, lasting=lasting)
                wait = log.unsynced()
            wait()

    return work


@pytest.mark.parametrize(("count", "lasting"), [(500, False), (25, True)])
def test_eight_processes_lose_and_tear_no_record(tmp_path: Path, count: int, lasting: bool) -> None:
    run_all([take_turns(tmp_path, name, count, lasting) for name in range(8)])
    log = opened(tmp_path)
    with complaints() as told:
        found = ids(log.read("messages")[0])
    assert told == []
    assert len(set(found)) == len(found) == 8 * count
    for name in range(8):
        assert [id for id in found if id.startswith(f"{name}-")] == [f"{name}-{number}" for number in range(count)]
    assert [line.fault for line in log.lines("messages") if line.fault] == []
    assert list(log.directory.glob("*.torn-*")) == []


def test_workers_killed_at_random_lose_nothing_acknowledged(quick_path: Path) -> None:
    chance = random.Random(1)
    reading, writing = os.pipe()

    def hammer(name: int) -> int:
        worker = Worker(opened(quick_path), f"w{name}", telling(writing), lasting=name % 3 == 0)
        return started(lambda: [worker.turn(number, 5000 if number % 7 == 3 else 100) for number in range(1 << 20)])

    alive, acks = [hammer(name) for name in range(3)], []
    with os.fdopen(reading, "rb") as told:
        for name in range(3, 43):
            acks += [json.loads(told.readline()) for _ in range(chance.randrange(1, 12))]
            killed = alive.pop(chance.randrange(len(alive)))
            os.kill(killed, signal.SIGKILL)
            os.waitpid(killed, 0)
            alive.append(hammer(name))
        for process in alive:
            os.kill(process, signal.SIGKILL)
            os.waitpid(process, 0)
        os.close(writing)
        acks += [json.loads(line) for line in told]
    found, acked = recovered(quick_path), merged(acks)
    assert len(acked["messages"]) > 150
    for name in range(43):
        mine = {stream: [id for id in acked[stream] if id.startswith(f"w{name}-")] for stream in STREAMS}
        assert lost({**mine, "files": []}, found) == []


def test_parent_and_children_write_through_a_log_opened_before_the_fork(tmp_path: Path) -> None:
    log = opened(tmp_path)

    def append(name: int) -> None:
        for number in range(50):
            with log.locked():
                log.append({"messages": [entry(f"{name}-{number}")]}, lasting=number % 10 == 0)
                wait = log.unsynced()
            wait()

    append(9)
    children = [FORK.Process(target=append, args=(name,)) for name in range(4)]
    for process in children:
        process.start()
    append(4)
    for process in children:
        process.join(TIMEOUT)
    assert [process.exitcode for process in children] == [0] * 4
    found = ids(opened(tmp_path).read("messages")[0])
    for name in (9, 0, 1, 2, 3, 4):
        assert [id for id in found if id.startswith(f"{name}-")] == [f"{name}-{number}" for number in range(50)]
    assert len(found) == 300


class InChild(Exception):
    """Leaves whatever a forked process is in."""


def is_locked(log: FileLog) -> bool:
    with open(log.directory / ".lock", "rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def test_forked_process_that_leaves_the_lock_does_not_release_it(tmp_path: Path) -> None:
    log = opened(tmp_path)
    try:
        with log.locked():
            process = os.fork()
            if process == 0:
                raise InChild
            os.waitpid(process, 0)
            assert is_locked(log)
    except InChild:
        os._exit(0)
    assert not is_locked(log)


@pytest.mark.parametrize("held", ["lock", "lease"])
def test_locks_of_a_killed_process_are_free_while_its_child_lives(tmp_path: Path, family: Family, held: str) -> None:
    log = opened(tmp_path)

    def hold() -> str:
        mine = opened(tmp_path)
        lock = mine.locked()
        (mine.lease if held == "lease" else lock.__enter__)()
        if os.fork() == 0:
            family.live()
            os._exit(0)
        kept.append(lock)
        return "held"

    kept: list[object] = []
    holder, told = family.bear(hold)
    assert told == b"held"
    assert is_locked(log) == (held == "lock")
    assert (log.lease() is None) == (held == "lease")
    family.kill(holder)
    with log.locked():
        give_back = log.lease()
    assert give_back is not None or held == "lock"


def test_lease_has_one_holder(tmp_path: Path, family: Family) -> None:
    log, others = opened(tmp_path), []
    give_back = log.lease()
    assert give_back is not None
    assert log.lease() is None
    assert family.bear(lambda: opened(tmp_path).lease() is None)[1] == b"True"
    assert family.bear(lambda: log.lease() is None)[1] == b"True"
    thread = threading.Thread(target=lambda: others.append(opened(tmp_path).lease()))
    thread.start()
    thread.join(TIMEOUT)
    assert others == [None]
    with log.locked():
        log.append({"messages": [entry("the log itself is open to all")]})
    give_back()
    again = log.lease()
    assert again is not None
    give_back()
    assert log.lease() is None, "giving back twice gives nothing of another's back"
    again()
    assert family.bear(lambda: opened(tmp_path).lease() is not None)[1] == b"True"


@pytest.mark.parametrize("name", [".lock", ".turn"])
def test_a_lock_whose_file_was_removed_is_taken_on_the_new_one(tmp_path: Path, family: Family, name: str) -> None:
    log = opened(tmp_path)
    with log.locked():
        give_back = log.lease()
    assert give_back is not None
    give_back()
    (log.directory / name).unlink()

    def hold() -> str:
        mine = opened(tmp_path)
        lock = mine.locked()
        (mine.lease if name == ".turn" else lock.__enter__)()
        kept.append(lock)
        return "held"

    kept: list[object] = []
    holder, _ = family.bear(hold)
    path = str(log.directory / name)
    assert try_lock(path) is None
    family.kill(holder)
    assert try_lock(path) is not None


def test_lease_released_in_a_forked_process_stays_with_its_parent(tmp_path: Path, family: Family) -> None:
    log = opened(tmp_path)
    give_back = log.lease()
    assert give_back is not None
    family.bear(give_back)
    assert log.lease() is None
    give_back()


def test_a_writer_is_alive_as_long_as_its_process_runs(tmp_path: Path, family: Family) -> None:
    log = opened(tmp_path)
    assert log.is_alive(log.writer)
    process, told = family.bear(lambda: opened(tmp_path).writer)
    heir, inherited = family.bear(lambda: log.writer)
    writer, child = told.decode(), inherited.decode()
    assert len({log.writer, writer, child}) == 3
    assert log.is_alive(writer)
    assert opened(tmp_path).is_alive(child)
    assert family.bear(lambda: log.is_alive(writer))[1] == b"True"
    family.kill(process)
    family.kill(heir)
    assert not log.is_alive(writer)
    assert not opened(tmp_path).is_alive(child)
    assert log.is_alive(log.writer)


@pytest.mark.parametrize("name", ["", ".", "..", "../.lock", "0" * 16, "g" * 16, "\0"])
def test_unknown_writer_is_not_alive(tmp_path: Path, name: str) -> None:
    log = opened(tmp_path)
    assert log.writer != name
    assert not log.is_alive(name)


@pytest.mark.parametrize("umask", [0, 0o077, 0o177, 0o377, 0o777])
def test_only_the_owner_has_access_whatever_the_umask(tmp_path: Path, umask: int) -> None:
    root, before = tmp_path / "root", os.umask(umask)
    try:
        log = opened(root)
        worker = Worker(log, "w", lambda acks: None)
        for number in range(2):
            worker.turn(number)
            worker.tidy(number)
        assert log.lease() is not None
        assert log.is_alive(log.writer)
        with log.locked():
            log.files.extend("deep/er/file", b"x", 0)
            log.rewrite("messages", lambda line: line)
            worker.log.save_checkpoint(Checkpoint({}, {}))
    finally:
        os.umask(before)
    everything = [root, *root.rglob("*")]
    assert {stat.S_IMODE(path.stat().st_mode) for path in everything if path.is_dir()} == {0o700}
    assert {stat.S_IMODE(path.stat().st_mode) for path in everything if not path.is_dir()} == {0o600}
    assert len(everything) > 25
