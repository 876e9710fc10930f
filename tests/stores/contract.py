"""What every store promises; each store's tests inherit it."""

import threading

import pytest

from ctxwrap.storage import CACHE, Checkpoint, Log, Store
from ctxwrap.types import Record, SessionKey

KEY = SessionKey("tenant", "agent", "session")
LATIN = "".join(map(chr, range(256)))
KNOWN: Record = {"text": LATIN, "lone": "\ud800", "list": [1, 0.1, None, True], "positions": "not control data"}


def record(text: str, **more: object) -> Record:
    return {"content": text, **more, "ctx": {"v": 1}}


def numbered_record(number: int, filler: str = "") -> Record:
    return {"content": f"number {number}", "filler": filler, "ctx": {"v": 1, "seq": number}}


def contents(log: Log, after: int = 0) -> list[object]:
    return [line["content"] for line in log.read("messages", after)[0]]


class StoreContract:
    @pytest.fixture
    def store(self) -> Store:
        raise NotImplementedError

    def test_a_new_session_is_empty(self, store: Store) -> None:
        assert store.open(KEY).read("messages") == ([], 0)

    def test_records_come_back_in_order(self, store: Store) -> None:
        log = store.open(KEY)
        with log.locked():
            log.append({"messages": [record("a"), record("b")], "events": [record("e")]})
            log.append({"messages": [record("c")], "events": []})
        assert contents(store.open(KEY)) == ["a", "b", "c"]
        assert [line["content"] for line in log.read("events")[0]] == ["e"]

    def test_reading_goes_on_where_it_stopped(self, store: Store) -> None:
        log = store.open(KEY)
        with log.locked():
            log.append({"messages": [record("a")]})
        _, position = log.read("messages")
        with log.locked():
            behind = log.append({"messages": [record("b")]})
        assert contents(log, position) == ["b"]
        assert log.read("messages", behind["messages"]) == ([], behind["messages"])

    @pytest.mark.parametrize(("first", "last"), [(1, 1), (1, 700), (350, 389), (690, 900), (701, 702), (5, 4), (0, 2)])
    def test_records_are_found_by_their_numbers(self, store: Store, first: int, last: int) -> None:
        log = store.open(KEY)
        with log.locked():
            for number in range(1, 700, 7):
                batch = [numbered_record(at, "x" * (at * 7919 % 3000)) for at in range(number, number + 7)]
                log.append({"messages": batch})
        found = log.between("messages", first, last)
        assert [line["content"] for line in found] == [
            f"number {at}" for at in range(max(1, first), min(last, 700) + 1)
        ]
        assert log.between("events", first, last) == []

    def test_records_without_a_number_have_the_next_one(self, store: Store) -> None:
        log = store.open(KEY)
        with log.locked():
            log.append({"messages": [numbered_record(1), record("two"), numbered_record(9), record("ten")]})
        assert [line["content"] for line in log.between("messages", 2, 10)] == ["two", "number 9", "ten"]

    def test_single_records_are_picked_by_their_numbers(self, store: Store) -> None:
        log = store.open(KEY)
        with log.locked():
            for number in range(1, 700, 7):
                batch = [numbered_record(at, "x" * (at * 7919 % 3000)) for at in range(number, number + 7)]
                log.append({"messages": batch})
        wanted = [700, 3, 4, 350, 1, 699, 4]
        assert {at: line["content"] for at, line in log.pick("messages", wanted).items()} == {
            at: f"number {at}" for at in wanted
        }
        with log.locked():
            log.append({"messages": [numbered_record(701)]})
        assert list(store.open(KEY).pick("messages", [0, 701, 702, -5])) == [701]
        assert log.pick("events", [1]) == log.pick("messages", []) == {}

    def test_what_is_picked_is_a_copy(self, store: Store) -> None:
        log = store.open(KEY)
        with log.locked():
            log.append({"messages": [numbered_record(1)]})
        log.pick("messages", [1])[1]["ctx"]["seq"] = 5
        assert log.pick("messages", [1])[1]["ctx"]["seq"] == 1

    def test_records_that_say_no_number_are_not_picked(self, store: Store) -> None:
        log = store.open(KEY)
        with log.locked():
            log.append({"messages": [numbered_record(1), record("two"), numbered_record(9), record("ten")]})
        assert log.pick("messages", range(12)).keys() == {1, 9}

    def test_the_cache_is_hidden_unless_it_is_asked_for(self, store: Store) -> None:
        files = store.open(KEY).files
        with store.open(KEY).locked():
            files.save(f"{CACHE}/0", b"a" * 5000)
            files.save("context/.hidden/x", b"b")
            files.save("context/y", b"c")
        assert [entry.name for entry in files.entries()] == [
            name for name in ("context/y", "meta.json") if files.load(name)
        ]
        assert [(entry.name, entry.size) for entry in files.entries(CACHE)] == [(f"{CACHE}/0", 5000)]

    def test_the_beginning_of_a_file_is_loaded_alone(self, store: Store) -> None:
        files = store.open(KEY).files
        with store.open(KEY).locked():
            files.save("raw/x", b"abc")
        assert [files.load("raw/x", size) for size in (None, 0, 2, 9)] == [b"abc", b"", b"ab", b"abc"]
        assert files.load("raw/y", 2) is None

    def test_sessions_tenants_and_agents_are_apart(self, store: Store) -> None:
        keys = [KEY, KEY._replace(tenant="other"), KEY._replace(agent="other"), KEY._replace(session="other")]
        for number, key in enumerate(keys):
            log = store.open(key)
            with log.locked():
                log.append({"messages": [record(str(number))]})
        assert [contents(store.open(key)) for key in keys] == [["0"], ["1"], ["2"], ["3"]]
        assert sorted(store.sessions("tenant", "agent")) == ["other", "session"]
        assert list(store.sessions("nobody", "agent")) == []

    @pytest.mark.parametrize(
        "text", ["\x00", "\ud800", "a\u2028b\x85c", "\r\n", '"}', "😀", "\ufeff", "".join(map(chr, range(256)))]
    )
    def test_any_text_round_trips(self, store: Store, text: str) -> None:
        log = store.open(KEY)
        with log.locked():
            log.append({"messages": [record(text, ctx="not control data", c="00000000")]})
        (line,) = store.open(KEY).read("messages")[0]
        assert line["content"] == text

    def test_threads_do_not_tear_each_others_records(self, store: Store) -> None:
        def write(name: int) -> None:
            log = store.open(KEY)
            for number in range(20):
                with log.locked():
                    log.append({"messages": [record(f"{name}-{number}-" + "x" * 5000)]})

        threads = [threading.Thread(target=write, args=(name,)) for name in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        written = [str(text).split("-")[:2] for text in contents(store.open(KEY))]
        assert len(written) == 120
        for name in range(6):
            assert [number for owner, number in written if owner == str(name)] == [str(n) for n in range(20)]

    def test_the_lock_keeps_others_out(self, store: Store) -> None:
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

    def test_a_new_session_has_no_checkpoint(self, store: Store) -> None:
        assert store.open(KEY).load_checkpoint() is None

    def test_the_last_checkpoint_comes_back_to_everybody(self, store: Store) -> None:
        log = store.open(KEY)
        for text in ("a", "b"):
            with log.locked():
                checkpoint = Checkpoint(log.append({"messages": [record(text)], "events": [record(text)]}), KNOWN)
                log.save_checkpoint(checkpoint)
        with log.locked():
            log.append({"messages": [record("c")]})
        assert store.open(KEY).load_checkpoint() == checkpoint
        assert contents(log, checkpoint.positions["messages"]) == ["c"]

    def test_a_checkpoint_may_be_of_a_stream_that_is_empty(self, store: Store) -> None:
        log = store.open(KEY)
        with log.locked():
            positions = {"events": 0, **log.append({"messages": [record("a")]})}
            log.save_checkpoint(Checkpoint(positions, KNOWN))
        assert store.open(KEY).load_checkpoint() == (positions, KNOWN)

    def test_a_checkpoint_is_a_copy(self, store: Store) -> None:
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

    def test_checkpoints_of_sessions_are_apart(self, store: Store) -> None:
        log = store.open(KEY)
        with log.locked():
            log.save_checkpoint(Checkpoint(log.append({"messages": [record("a")]}), KNOWN))
        assert store.open(KEY._replace(tenant="other")).load_checkpoint() is None

    def test_a_stream_can_be_rewritten(self, store: Store) -> None:
        log = store.open(KEY)
        with log.locked():
            log.append({"messages": [record("a"), record("b"), record("c")], "events": [record("e")]})
            log.rewrite("messages", lambda line: {**line, "content": "x"} if line["content"] == "b" else line)
            log.append({"messages": [record("d")]})
        assert contents(store.open(KEY)) == ["a", "x", "c", "d"]
        assert [line["content"] for line in log.read("events")[0]] == ["e"]

    def test_a_rewriting_may_add_records(self, store: Store) -> None:
        log = store.open(KEY)
        with log.locked():
            log.rewrite("messages", lambda line: line, [record("a")])
            log.rewrite("messages", lambda line: {**line, "content": "x"}, [record("b")])
        assert contents(store.open(KEY)) == ["x", "b"]

    def test_every_rewriting_is_another_edition_to_everybody(self, store: Store) -> None:
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

    def test_no_checkpoint_outlives_a_rewriting(self, store: Store) -> None:
        log = store.open(KEY)
        with log.locked():
            log.save_checkpoint(Checkpoint(log.append({"messages": [record("a")]}), KNOWN))
            log.rewrite("messages", lambda line: line)
        assert log.load_checkpoint() is None

    def test_no_cache_outlives_a_rewriting(self, store: Store) -> None:
        log = store.open(KEY)
        with log.locked():
            for stream in ("messages", "events"):
                log.files.save(f"{CACHE}/0", b"a" * 5000)
                log.files.save(f"{CACHE}/1", b"a")
                log.rewrite(stream, lambda line: line)
                assert log.files.entries(CACHE) == []

    def test_a_rewriting_that_fails_changes_nothing(self, store: Store) -> None:
        def fail(line: Record) -> Record:
            raise ZeroDivisionError

        log = store.open(KEY)
        with log.locked():
            log.append({"messages": [record("a"), record("b")]})
            with pytest.raises(ZeroDivisionError):
                log.rewrite("messages", fail)
        assert contents(store.open(KEY)) == ["a", "b"]
