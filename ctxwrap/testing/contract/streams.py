"""Contract of streams: records in order, numbers, atomic batches, checkpoints."""

import pytest

from ctxwrap.stores.base import Checkpoint, Log, Store
from ctxwrap.types import Record, SessionKey

KEY = SessionKey("tenant", "agent", "session")

KNOWN: Record = {
    "text": "".join(map(chr, range(256))),
    "lone": "\ud800",
    "list": [1, 0.1, None, True],
    "positions": "not control data",
}
"""The content of a checkpoint."""


def record(text: str, **more: object) -> Record:
    return {"content": text, **more, "ctx": {"v": 1}}


def numbered_record(number: int, filler: str = "") -> Record:
    return {"content": f"number {number}", "filler": filler, "ctx": {"v": 1, "seq": number}}


def contents(log: Log, after: int = 0, stream: str = "messages") -> list[object]:
    return [line["content"] for line in log.read(stream, after)[0]]


def said(log: Log, *texts: str) -> Log:
    """Append a message for each text and return the log."""
    with log.locked():
        log.append({"messages": [record(text) for text in texts]})
    return log


def numbered_stream(store: Store) -> Log:
    """700 records in batches of seven, of different sizes."""
    log = store.open(KEY)
    with log.locked():
        for number in range(1, 700, 7):
            batch = [numbered_record(at, "x" * (at * 7919 % 3000)) for at in range(number, number + 7)]
            log.append({"messages": batch})
    return log


class _Unwritable:
    """Can be neither copied nor encoded."""

    def __str__(self) -> str:
        raise ZeroDivisionError

    def __deepcopy__(self, _: object) -> "_Unwritable":
        raise ZeroDivisionError


class StreamsContract:
    def test_new_session_is_empty(self, store: Store) -> None:
        assert store.open(KEY).read("messages") == ([], 0)

    def test_records_are_read_in_order(self, store: Store) -> None:
        log = store.open(KEY)
        with log.locked():
            log.append({"messages": [record("a"), record("b")], "events": [record("e")]})
            log.append({"messages": [record("c")], "events": []})
        assert contents(store.open(KEY)) == ["a", "b", "c"]
        assert contents(log, stream="events") == ["e"]

    def test_appended_records_are_readable_inside_the_lock(self, store: Store) -> None:
        log = store.open(KEY)
        with log.locked():
            _, start = log.read("messages")
            first = log.append({"messages": [numbered_record(1)]})["messages"]
            log.append({"messages": [numbered_record(2)], "events": [record("e")]})
            assert contents(log, start) == ["number 1", "number 2"]
            assert contents(log, first) == ["number 2"]
            assert contents(log, stream="events") == ["e"]
            assert log.pick("messages", [2])[2]["content"] == "number 2"
            assert [line["content"] for line in log.between("messages", 1, 2)] == ["number 1", "number 2"]
            assert [line.fault for line in log.lines("messages")] == ["", ""]

    def test_read_continues_at_a_position(self, store: Store) -> None:
        log = store.open(KEY)
        with log.locked():
            log.append({"messages": [record("a")]})
        _, position = log.read("messages")
        with log.locked():
            behind = log.append({"messages": [record("b")]})
        assert contents(log, position) == ["b"]
        assert log.read("messages", behind["messages"]) == ([], behind["messages"])

    def test_readers_continue_behind_records_of_others(self, store: Store) -> None:
        logs, positions = [store.open(KEY) for _ in range(3)], [0, 0, 0]
        found: list[list[object]] = [[], [], []]
        for number in range(12):
            for at, log in enumerate(logs):
                with log.locked():
                    records, positions[at] = log.read("messages", positions[at])
                    found[at] += [line["content"] for line in records]
                    if number % 3 == at:
                        mine = record(f"{number}")
                        found[at].append(mine["content"])
                        positions[at] = log.append({"messages": [mine]})["messages"]
        assert contents(store.open(KEY)) == [str(number) for number in range(12)]
        assert {tuple(each) for each in found} <= {tuple(map(str, range(count))) for count in (11, 12)}

    def test_lines_lists_every_line(self, store: Store) -> None:
        log = store.open(KEY)
        with log.locked():
            log.append({"messages": [record("a"), record("b")]})
            log.append({"messages": [record("c")]})
        lines = list(log.lines("messages"))
        assert [(line.number, line.fault) for line in lines] == [(1, ""), (2, ""), (3, "")]
        assert [line.record["content"] for line in lines if line.record] == ["a", "b", "c"]
        assert [line.start for line in lines] == [0, *(line.end for line in lines[:-1])]
        assert lines[-1].end == log.read("messages")[1]

    @pytest.mark.parametrize(("first", "last"), [(1, 1), (1, 700), (350, 389), (690, 900), (701, 702), (5, 4), (0, 2)])
    def test_between_finds_records_by_number(self, store: Store, first: int, last: int) -> None:
        log = numbered_stream(store)
        found = log.between("messages", first, last)
        assert [line["content"] for line in found] == [
            f"number {at}" for at in range(max(1, first), min(last, 700) + 1)
        ]
        assert log.between("events", first, last) == []

    def test_record_without_a_number_has_the_next_one(self, store: Store) -> None:
        log = store.open(KEY)
        with log.locked():
            log.append({"messages": [numbered_record(1), record("two"), numbered_record(9), record("ten")]})
        assert [line["content"] for line in log.between("messages", 2, 10)] == ["two", "number 9", "ten"]

    def test_pick_finds_single_records_by_number(self, store: Store) -> None:
        log = numbered_stream(store)
        wanted = [700, 3, 4, 350, 1, 699, 4]
        assert {at: line["content"] for at, line in log.pick("messages", wanted).items()} == {
            at: f"number {at}" for at in wanted
        }
        with log.locked():
            log.append({"messages": [numbered_record(701)]})
        assert list(store.open(KEY).pick("messages", [0, 701, 702, -5])) == [701]
        assert log.pick("events", [1]) == log.pick("messages", []) == {}

    def test_picked_record_is_a_copy(self, store: Store) -> None:
        log = store.open(KEY)
        with log.locked():
            log.append({"messages": [numbered_record(1)]})
        log.pick("messages", [1])[1]["ctx"]["seq"] = 5
        assert log.pick("messages", [1])[1]["ctx"]["seq"] == 1

    def test_record_without_a_number_is_not_picked(self, store: Store) -> None:
        log = store.open(KEY)
        with log.locked():
            log.append({"messages": [numbered_record(1), record("two"), numbered_record(9), record("ten")]})
        assert log.pick("messages", range(12)).keys() == {1, 9}

    def test_failed_batch_is_not_stored_at_all(self, store: Store) -> None:
        log, broken = store.open(KEY), record("c", unwritable=_Unwritable())
        with log.locked():
            log.append({"messages": [record("a")]})
            with pytest.raises(ZeroDivisionError):
                log.append({"events": [record("e")], "messages": [record("b"), broken]})
        assert contents(store.open(KEY)) == ["a"]
        assert contents(store.open(KEY), stream="events") == []

    def test_appended_records_stay_when_the_writer_raises(self, store: Store) -> None:
        def fail() -> None:
            with log.locked():
                log.append({"messages": [record("a")], "events": [record("e")]}, lasting=True)
                raise ZeroDivisionError

        log = store.open(KEY)
        with pytest.raises(ZeroDivisionError):
            fail()
        assert contents(store.open(KEY)) == ["a"]
        assert contents(store.open(KEY), stream="events") == ["e"]

    def test_unsynced_wait_may_be_called_twice(self, store: Store) -> None:
        log = store.open(KEY)
        with log.locked():
            log.append({"messages": [record("a")]}, lasting=True)
            wait = log.unsynced()
        wait()
        wait()
        assert contents(store.open(KEY)) == ["a"]

    def test_new_session_has_no_checkpoint(self, store: Store) -> None:
        assert store.open(KEY).load_checkpoint() is None

    def test_last_checkpoint_is_loaded_by_every_log(self, store: Store) -> None:
        log = store.open(KEY)
        for text in ("a", "b"):
            with log.locked():
                checkpoint = Checkpoint(log.append({"messages": [record(text)], "events": [record(text)]}), KNOWN)
                log.save_checkpoint(checkpoint)
        with log.locked():
            log.append({"messages": [record("c")]})
        assert store.open(KEY).load_checkpoint() == checkpoint
        assert contents(log, checkpoint.positions["messages"]) == ["c"]

    def test_checkpoint_may_cover_an_empty_stream(self, store: Store) -> None:
        log = store.open(KEY)
        with log.locked():
            positions = {"events": 0, **log.append({"messages": [record("a")]})}
            log.save_checkpoint(Checkpoint(positions, KNOWN))
        assert store.open(KEY).load_checkpoint() == (positions, KNOWN)

    def test_loaded_checkpoint_is_a_copy(self, store: Store) -> None:
        log, known = store.open(KEY), {"list": [1]}
        with log.locked():
            log.save_checkpoint(Checkpoint(log.append({"messages": [record("a")]}), known))
        known["list"].append(2)
        loaded = log.load_checkpoint()
        assert loaded is not None
        loaded.known["list"].append(3)
        again = log.load_checkpoint()
        assert again is not None
        assert again.known == {"list": [1]}
