"""Rewriting a stream: all at once or not at all, and nothing that was made of the old one outlives it."""

import pytest

from ctxwrap.storage import CACHE, Checkpoint, Store
from ctxwrap.testing.records import KEY, KNOWN, contents, numbered_record, record
from ctxwrap.types import Record


class RewritingContract:
    def test_a_stream_can_be_rewritten(self, store: Store) -> None:
        log = store.open(KEY)
        with log.locked():
            log.append({"messages": [record("a"), record("b"), record("c")], "events": [record("e")]})
            log.rewrite("messages", lambda line: {**line, "content": "x"} if line["content"] == "b" else line)
            log.append({"messages": [record("d")]})
        assert contents(store.open(KEY)) == ["a", "x", "c", "d"]
        assert contents(log, stream="events") == ["e"]

    def test_a_rewriting_may_add_records(self, store: Store) -> None:
        log = store.open(KEY)
        with log.locked():
            log.rewrite("messages", lambda line: line, [record("a")])
            log.rewrite("messages", lambda line: {**line, "content": "x"}, [record("b")])
        assert contents(store.open(KEY)) == ["x", "b"]

    def test_records_keep_their_numbers_when_others_are_rewritten(self, store: Store) -> None:
        log = store.open(KEY)
        with log.locked():
            log.append({"messages": [numbered_record(number) for number in (1, 2, 5)]})
            log.rewrite("messages", lambda line: {**line, "content": "x"} if line["ctx"]["seq"] == 2 else line)
        found = store.open(KEY).pick("messages", range(9))
        assert {number: line["content"] for number, line in found.items()} == {1: "number 1", 2: "x", 5: "number 5"}
        assert [line.fault for line in log.lines("messages")] == ["", "", ""]

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
