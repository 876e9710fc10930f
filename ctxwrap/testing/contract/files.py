"""Contract of files."""

import pytest

from ctxwrap.stores.base import CACHE, Files, Store
from ctxwrap.testing.contract.streams import KEY

NO_NAMES = ("../x", "a/../../x", "/x", "a//b", "./x", "a/.", "a\0b", "x/")


def content(files: Files, name: str) -> bytes:
    return files.load(name) or b""


class FilesContract:
    def test_file_has_the_content_saved_last(self, store: Store) -> None:
        log, every = store.open(KEY), bytes(range(256))
        with log.locked():
            log.files.save("context/a", b"before" * 5000)
            log.files.save("context/a", every, lasting=True)
            assert log.files.load("context/a") == every
            log.files.save("empty", b"")
        assert store.open(KEY).files.load("context/a") == every
        assert store.open(KEY).files.load("empty") == b""
        assert [(entry.name, entry.size) for entry in log.files.entries("context")] == [("context/a", 256)]

    def test_files_are_listed_by_name(self, store: Store) -> None:
        log = store.open(KEY)
        with log.locked():
            for name in ("d/b", "d/a/c", "d-x", "d/a/b", "e", "d0"):
                log.files.save(name, name.encode())
        assert [entry.name for entry in log.files.entries("d")] == ["d/a/b", "d/a/c", "d/b"]
        assert [entry.name for entry in log.files.entries("d/a")] == ["d/a/b", "d/a/c"]
        assert log.files.entries("nothing") == []

    def test_cache_is_listed_only_on_request(self, store: Store) -> None:
        files = store.open(KEY).files
        with store.open(KEY).locked():
            files.save(f"{CACHE}/0", b"a" * 5000)
            files.save("context/.hidden/x", b"b")
            files.save("context/y", b"c")
        assert [entry.name for entry in files.entries()] == [
            name for name in ("context/y", "meta.json") if files.load(name)
        ]
        assert [(entry.name, entry.size) for entry in files.entries(CACHE)] == [(f"{CACHE}/0", 5000)]

    def test_file_is_loaded_up_to_a_size(self, store: Store) -> None:
        files = store.open(KEY).files
        with store.open(KEY).locked():
            files.save("raw/x", b"abc")
        assert [files.load("raw/x", size) for size in (None, 0, 2, 9)] == [b"abc", b"", b"ab", b"abc"]
        assert files.load("raw/y", 2) is None

    def test_any_part_of_an_extended_file_is_loaded(self, store: Store) -> None:
        log, whole = store.open(KEY), b"abcdefghij"
        with log.locked():
            for after, length in ((0, 3), (3, 1), (4, 5), (9, 1)):
                assert log.files.extend("grows", whole[after : after + length], after)
        files = store.open(KEY).files
        for start in range(12):
            for size in (None, 0, 1, 2, 5, 12):
                assert files.load("grows", size, start) == whole[start:][:size]

    def test_extend_adds_only_the_missing_part(self, store: Store) -> None:
        log = store.open(KEY)
        with log.locked():
            assert log.files.extend("grows", b"abc", 0)
            assert log.files.extend("grows", b"abc", 0)
            assert log.files.extend("grows", b"cde", 2)
            assert not log.files.extend("grows", b"x", 9)
            assert not log.files.extend("grows", b"x", 0)
        assert store.open(KEY).files.load("grows") == b"abcde"
        assert [entry.size for entry in log.files.entries() if entry.name == "grows"] == [5]

    def test_linked_file_outlives_its_first_name(self, store: Store) -> None:
        log = store.open(KEY)
        with log.locked():
            log.files.save("raw/x", b"abc")
            log.files.link("raw/x", "context/dedup/blob/x")
            log.files.link("raw/x", "context/dedup/blob/x")
            log.files.link("raw/nothing", "context/dedup/blob/nothing")
            log.files.remove("raw/x")
        assert log.files.load("raw/x") is None
        assert store.open(KEY).files.load("context/dedup/blob/x") == b"abc"
        assert log.files.load("context/dedup/blob/nothing") is None

    def test_link_does_not_replace_a_file(self, store: Store) -> None:
        log = store.open(KEY)
        with log.locked():
            log.files.save("raw/x", b"abc")
            log.files.save("context/dedup/blob/x", b"other")
            log.files.link("raw/x", "context/dedup/blob/x")
            log.files.save("raw/x", b"new")
        assert content(log.files, "context/dedup/blob/x") == b"other"
        assert content(log.files, "raw/x") == b"new"

    def test_removed_file_is_absent(self, store: Store) -> None:
        log = store.open(KEY)
        with log.locked():
            log.files.save("a", b"abc")
            log.files.remove("a")
            assert log.files.load("a") is None
            log.files.remove("a")
            log.files.remove("never/there")
            assert log.files.extend("a", b"x", 0)
        assert store.open(KEY).files.load("a") == b"x"
        assert log.files.leftovers() == []

    @pytest.mark.parametrize("name", NO_NAMES)
    def test_file_name_that_leads_elsewhere_is_refused(self, store: Store, name: str) -> None:
        log = store.open(KEY)
        with log.locked(), pytest.raises(ValueError, match="not a valid file name"):
            log.files.save(name, b"x")
        with pytest.raises(ValueError, match="not a valid file name"):
            log.files.load(name)
        assert [entry.name for entry in log.files.entries() if entry.name != "meta.json"] == []
