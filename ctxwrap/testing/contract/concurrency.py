"""Contract of concurrency: locks, leases and names of writers."""

import threading
from collections.abc import Callable

import pytest

from ctxwrap.session.session import Session
from ctxwrap.stores.base import Outdated, Store
from ctxwrap.testing.contract.streams import KEY, contents, numbered_record, record

TIMEOUT = 120


def in_threads(count: int, work: Callable[[int], None]) -> None:
    """Run `work` in `count` threads; an error in a thread fails here."""
    failures: list[BaseException] = []

    def done(name: int) -> None:
        try:
            work(name)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=done, args=(name,)) for name in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(TIMEOUT)
    assert failures == []


class ConcurrencyContract:
    def test_concurrent_threads_write_whole_records(self, store: Store) -> None:
        def write(name: int) -> None:
            log = store.open(KEY)
            for number in range(20):
                with log.locked():
                    log.append({"messages": [record(f"{name}-{number}-" + "x" * 5000)]})

        in_threads(6, write)
        written = [str(text).split("-")[:2] for text in contents(store.open(KEY))]
        assert len(written) == 120
        for name in range(6):
            assert [number for owner, number in written if owner == str(name)] == [str(n) for n in range(20)]

    @pytest.mark.parametrize("shares", [True, False], ids=["one log", "a log each"])
    def test_lock_makes_read_and_append_atomic(self, store: Store, shares: bool) -> None:
        log = store.open(KEY)

        def count(name: int) -> None:
            mine, position, highest = log if shares else store.open(KEY), 0, 0
            for _ in range(15):
                with mine.locked():
                    records, position = mine.read("messages", position)
                    highest = max([highest, *(line["ctx"]["seq"] for line in records)])
                    batch = {"messages": [numbered_record(highest + 1)], "events": [numbered_record(highest + 1)]}
                    position = mine.append(batch)["messages"]
                    highest += 1

        in_threads(5, count)
        for stream in ("messages", "events"):
            assert [line["ctx"]["seq"] for line in log.read(stream)[0]] == list(range(1, 76))

    def test_unlocked_reader_sees_whole_batches(self, store: Store) -> None:
        over, torn = threading.Event(), []

        def work(name: int) -> None:
            log = store.open(KEY)
            if name:
                while not over.is_set():
                    torn.extend([count for count in [len(log.read("messages")[0])] if count % 3])
                return
            try:
                for number in range(30):
                    with log.locked():
                        log.append({"messages": [record(f"{number}-{at}", filler="x" * 3000) for at in range(3)]})
            finally:
                over.set()

        in_threads(3, work)
        assert torn == []
        assert len(contents(store.open(KEY))) == 90

    def test_lock_keeps_out_other_threads(self, store: Store) -> None:
        entered, seen = threading.Event(), []

        def other() -> None:
            with store.open(KEY).locked():
                entered.set()
                seen.extend(contents(store.open(KEY)))

        log = store.open(KEY)
        with log.locked():
            thread = threading.Thread(target=other)
            thread.start()
            assert not entered.wait(0.05)
            log.append({"messages": [record("mine")]})
        thread.join()
        assert seen == ["mine"]

    def test_redoable_transaction_is_stored_once_and_on_current_data(self, store: Store) -> None:
        def count(name: int) -> None:
            log = store.open(KEY)

            def add() -> None:
                highest = max([0, *(line["ctx"]["seq"] for line in log.read("messages")[0])])
                log.append({"messages": [{**numbered_record(highest + 1), "by": name}]})
                log.files.save("highest", str(highest + 1).encode())

            for _ in range(15):
                try:
                    with log.locked(redoable=True):
                        add()
                except Outdated:
                    with log.locked():
                        add()

        count(0)
        in_threads(3, count)
        count(0)
        records = store.open(KEY).read("messages")[0]
        assert [line["ctx"]["seq"] for line in records] == list(range(1, 76))
        assert [line["by"] for line in records].count(0) == 45
        assert store.open(KEY).files.load("highest") == b"75"

    def test_lease_is_taken_and_released_inside_lock(self, store: Store) -> None:
        log, other = store.open(KEY), store.open(KEY)
        for number in range(5):
            with log.locked(redoable=True):
                log.append({"messages": [numbered_record(2 * number + 1)]})
                mine = log.lease()
                assert mine is not None
            assert other.lease() is None
            with other.locked():
                assert other.lease() is None
            with log.locked(redoable=True):
                log.append({"messages": [numbered_record(2 * number + 2)]})
                mine()
            theirs = other.lease()
            assert theirs is not None
            mine()  # a second time, which must not release theirs
            assert log.lease() is None
            theirs()
        assert [line["ctx"]["seq"] for line in log.read("messages")[0]] == list(range(1, 11))

    def test_lease_excludes_other_threads(self, store: Store) -> None:
        log, others = store.open(KEY), []
        give_back = log.lease()
        assert give_back is not None
        in_threads(1, lambda _: others.extend([log.lease(), store.open(KEY).lease()]))
        assert others == [None, None]
        with log.locked():
            log.append({"messages": [record("a lease does not lock the log")]})
        give_back()
        again = store.open(KEY).lease()
        assert again is not None
        again()

    def test_place_is_equal_for_logs_of_one_session_only(self, store: Store) -> None:
        others = [KEY._replace(session="other"), KEY._replace(tenant="other"), KEY._replace(agent="other")]
        assert store.open(KEY).place == store.open(KEY).place
        assert len({store.open(key).place for key in (KEY, *others)}) == 4

    def test_lease_goes_to_one_of_many_concurrent_callers(self, store: Store) -> None:
        store.open(KEY).read("messages")
        given: list[object] = []
        in_threads(6, lambda _: given.append(store.open(KEY).lease()))
        assert len([each for each in given if each is not None]) == 1

    def test_only_the_own_writer_is_alive(self, store: Store) -> None:
        log = store.open(KEY)
        assert log.writer
        assert log.writer == store.open(KEY._replace(tenant="other")).writer
        assert log.is_alive(log.writer)
        assert not any(map(log.is_alive, ["", ".", "..", "../.lock", "0" * 16, "g" * 16, "\0", "\ud800", "x" * 5000]))

    def test_part_of_a_turn_that_is_written_twice_is_stored_once(self, store: Store) -> None:
        from datetime import UTC, datetime

        now = datetime.now(UTC)
        start = {"type": "start", "run": "t1", "runtime": {"round": 1, "datetime": "x", "startup_at": "x"}, "ctx": {}}
        for session in (Session(KEY, store.open(KEY)), Session(KEY, store.open(KEY))):
            for _ in range(2):
                with session.locked():
                    session.append("t1", [{"role": "user", "content": "hi", "ctx": {}}], [start], now, part="o")
        assert contents(store.open(KEY)) == ["hi"]
        assert len(store.open(KEY).read("events")[0]) == 1
