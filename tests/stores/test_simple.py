"""`SimpleStore`: the contract over the example of docs/stores.md, and what the base class adds to eight methods."""

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from ctxwrap.stores.base import Checkpoint, Store
from ctxwrap.stores.files.locks import FileLocks
from ctxwrap.stores.memory import MemoryStore
from ctxwrap.stores.simple import SimpleStore, ThreadLocks
from ctxwrap.testing import KEY, StoreContract, contents, numbered_record, record
from ctxwrap.testing.contract.crashes import in_process

NAME = "tenant/agent/session"
PAGE = Path(__file__).parents[2] / "docs" / "stores.md"


class TestStoreOfTheDocs(StoreContract):
    @pytest.fixture
    def reopened(self, quick_path: Path) -> Callable[[], Store]:
        example = re.search(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
        assert example is not None
        names: dict[str, type[SimpleStore]] = {}
        exec(example[1], names)
        return lambda: names["SqliteStore"](quick_path / "sessions.db")

    @pytest.fixture
    def store(self, reopened: Callable[[], Store]) -> Store:
        return reopened()


def damaged_store() -> MemoryStore:
    """Three messages, of which the second was changed behind the store's back."""
    store = MemoryStore()
    log = store.open(KEY)
    with log.locked():
        log.append({"messages": [numbered_record(number) for number in (1, 2, 3)]})
    first, second, third = store.read_lines(NAME, "messages", 0)
    store.replace_lines(NAME, "messages", [first, second.replace(b"number 2", b"number X"), third])
    return store


def test_simple_store_has_eight_methods_to_implement() -> None:
    assert len(SimpleStore.__abstractmethods__) == 8


def test_simple_log_skips_and_reports_a_damaged_line(caplog: pytest.LogCaptureFixture) -> None:
    log = damaged_store().open(KEY)
    for _ in range(2):
        assert contents(log) == ["number 1", "number 3"]
    assert [each.getMessage() for each in caplog.records] == [f"session {NAME}: line 2 of messages is damaged"]
    assert [line.fault for line in log.lines("messages")] == ["", "its checksum is wrong", ""]
    assert log.pick("messages", [1, 2, 3]).keys() == {1, 3}
    assert [line["content"] for line in log.between("messages", 2, 3)] == ["number 3"]


@pytest.mark.parametrize(("banned", "left"), [(["elsewhere"], 3), (["number X"], 2)])
def test_simple_log_rewrites_damaged_lines_only_if_they_hold_a_banned_text(banned: list[str], left: int) -> None:
    log = damaged_store().open(KEY)
    with log.locked():
        log.rewrite("messages", lambda line: line, banned=banned)
    assert len(list(log.lines("messages"))) == left
    assert contents(log) == ["number 1", "number 3"]


def test_simple_log_reads_a_stream_that_became_shorter_to_its_end() -> None:
    store = damaged_store()
    store.replace_lines(NAME, "messages", store.read_lines(NAME, "messages", 0, 1))
    assert store.open(KEY).read("messages", after=3) == ([], 1)


def test_simple_log_drops_a_checkpoint_of_another_log() -> None:
    store = damaged_store()
    log = store.open(KEY)
    with log.locked():
        log.save_checkpoint(Checkpoint(log.append({"messages": [record("a")]}), {"known": 1}))
    assert log.load_checkpoint() is not None
    store.replace_lines(NAME, "messages", store.read_lines(NAME, "messages", 0, 3))
    assert log.load_checkpoint() is None


class SharedStore(MemoryStore):
    """A store with locks that other processes see; its data stays in this process."""

    def __init__(self, locks: Path) -> None:
        super().__init__()
        self.locks = FileLocks(locks)


def test_file_locks_are_released_when_their_process_is_killed(tmp_path: Path) -> None:
    mine = SharedStore(tmp_path).open(KEY)
    reader, writer = os.pipe()

    def work() -> None:
        log = SharedStore(tmp_path).open(KEY)
        log.locked().__enter__()
        assert log.lease() is not None
        os.write(writer, log.writer.encode())

    in_process(work)
    name = os.read(reader, 99).decode()
    assert not mine.is_alive(name)
    with mine.locked():
        assert mine.lease() is not None


def test_file_locks_keep_out_another_process(tmp_path: Path) -> None:
    mine = SharedStore(tmp_path).open(KEY)
    name, release = mine.writer, mine.lease()
    assert release is not None

    def work() -> None:
        log = SharedStore(tmp_path).open(KEY)
        assert log.lease() is None
        assert log.is_alive(name)
        assert log.writer != name

    in_process(work)
    release()
    in_process(lambda: _take(tmp_path))


def _take(locks: Path) -> None:
    assert SharedStore(locks).open(KEY).lease() is not None


def test_forked_process_has_a_writer_of_its_own_and_leaves_its_parents_locks(tmp_path: Path) -> None:
    store = SharedStore(tmp_path)
    name, release = store.writer, store.open(KEY).lease()
    assert release is not None

    def work() -> None:
        release()
        assert store.writer != name
        assert store.is_alive(name)
        assert store.open(KEY).lease() is None

    in_process(work)
    assert store.writer == name


def test_file_locks_leave_no_files(tmp_path: Path) -> None:
    log = SharedStore(tmp_path).open(KEY)
    with log.locked():
        release = log.lease()
        assert len(list(tmp_path.iterdir())) == 2
    assert release is not None
    release()
    assert list(tmp_path.iterdir()) == []


def test_lock_that_is_released_twice_stays_with_its_next_holder(tmp_path: Path) -> None:
    for locks in (ThreadLocks(), FileLocks(tmp_path)):
        first = locks.acquire("x", wait=False)
        assert first is not None
        first()
        assert locks.acquire("x", wait=False) is not None
        first()
        assert locks.acquire("x", wait=False) is None
