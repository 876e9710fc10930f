"""Texts and names as nobody would write them who means well."""

import sys

import pytest

from ctxwrap.storage import STREAMS, Checkpoint, Store
from ctxwrap.testing.records import KEY, contents, numbered_record, record, said
from ctxwrap.types import SessionKey

TEXTS = [
    *("\x00", "\ud800", "a\u2028b\x85c", "\r\n", '"}', "😀", "\ufeff", "".join(map(chr, range(256)))),
    *("'; DROP TABLE ctxwrap_sessions; --", "%(tenant)s", "%s %% %", "\\x00", "\\", "$1 $$", "{0} {", "\x1a\x04"),
    *('{"ctx":{"seq":1}}', ',"c":"0000000000000000"}}', "\udfff\ud800", "\U000e0041", "x" * 1_000_000),
]

CONTROL = ("ctx", "seq", "w", "c", "b", "v", "sealed", "token", "origin", "lc", "__class__", "$ref", "py/object")


UNITS = [chr(number) for number in range(1 << 16)]
"""Every code unit of UTF-16, and so every half of a pair of surrogates."""


def in_parts(size: int) -> list[str]:
    return ["".join(UNITS[start : start + size]) for start in range(0, len(UNITS), size)]


def name_of(text: str) -> str:
    """A file's name in which all of it stands that may; names of files and directories are short."""
    allowed = text.replace("\0", "").replace("/", "")
    return "/".join(["raw", *(f"x{allowed[start : start + 32]}" for start in range(0, len(allowed), 32))])


class HostileContract:
    @pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
    def test_any_text_round_trips(self, store: Store, text: str) -> None:
        log = store.open(KEY)
        with log.locked():
            log.append({"messages": [record(text, ctx="not control data", c="00000000")]})
        (line,) = store.open(KEY).read("messages")[0]
        assert line["content"] == text

    def test_every_code_unit_round_trips(self, store: Store) -> None:
        log = store.open(KEY)
        with log.locked():
            log.append({"messages": [{**record(""), "content": UNITS, "keys": dict.fromkeys(UNITS, 1)}]})
        (line,) = store.open(KEY).read("messages")[0]
        assert line["content"] == UNITS
        assert list(line["keys"]) == UNITS

    def test_halves_of_a_pair_side_by_side_are_the_same_code_units_again(self, store: Store) -> None:
        """They may come back as the character that they are together: JSON knows no difference."""
        text = "\ud83d\ude00 \udbff\udfff"
        said(store.open(KEY), text)
        (found,) = contents(store.open(KEY))
        assert str(found).encode("utf-16-le", "surrogatepass") == text.encode("utf-16-le", "surrogatepass")

    def test_every_code_unit_round_trips_in_a_batch(self, store: Store) -> None:
        log, known = store.open(KEY), {unit: UNITS[-at] for at, unit in enumerate(UNITS)}
        batch = [{**numbered_record(at), "text": text, text: at} for at, text in enumerate(in_parts(1024), 1)]
        with log.locked():
            positions = log.append(dict.fromkeys(STREAMS, batch))
            log.save_checkpoint(Checkpoint(positions, known))
        for stream in STREAMS:
            for found in (store.open(KEY).read(stream)[0], log.between(stream, 1, len(batch))):
                assert [{**line, "ctx": None} for line in found] == [{**line, "ctx": None} for line in batch]
        checkpoint = store.open(KEY).load_checkpoint()
        assert checkpoint is not None
        assert checkpoint.known == known

    @pytest.mark.parametrize("surrogates", [False, True], ids=["others", "surrogates"])
    def test_every_code_unit_stands_in_names_and_contents_of_files(self, store: Store, surrogates: bool) -> None:
        if surrogates and sys.platform == "darwin":
            pytest.skip("file systems of macOS take no such names")
        texts = [text for text in in_parts(256) if ("\ud800" <= text[0] <= "\udfff") == surrogates]
        files = {name_of(text): text.encode("utf-16-le", "surrogatepass") for text in texts}
        log = store.open(KEY)
        with log.locked():
            for name, data in files.items():
                log.files.save(name, data)
        there = store.open(KEY).files
        assert [entry.name for entry in there.entries("raw")] == sorted(files)
        assert {name: there.load(name) for name in files} == files

    def test_names_that_are_the_same_bytes_to_somebody_are_two(self, store: Store) -> None:
        names = ["raw/\u00e9", "raw/\udcc3\udca9", "raw/\udce9", "raw/\ud800", "raw/\udced\udca0\udc80", "raw/e\u0301"]
        log = store.open(KEY)
        with log.locked():
            for name in names:
                log.files.save(name, repr(name).encode())
        assert [store.open(KEY).files.load(name) for name in names] == [repr(name).encode() for name in names]
        assert sorted(entry.name for entry in log.files.entries("raw")) == sorted(names)

    def test_words_of_our_own_are_data_when_others_say_them(self, store: Store) -> None:
        said_by_others = {name: {"seq": 7, "c": "x"} for name in CONTROL if name != "ctx"}
        log = store.open(KEY)
        with log.locked():
            log.append({"messages": [{**record("a"), **said_by_others, "extra": {"ctx": {"seq": 9}}}, record("b")]})
        first, _ = store.open(KEY).read("messages")[0]
        assert {name: first[name] for name in said_by_others} == said_by_others
        assert first["extra"] == {"ctx": {"seq": 9}}
        assert log.pick("messages", [7, 9]) == {}
        assert contents(log) == ["a", "b"]

    def test_deep_and_large_values_round_trip(self, store: Store) -> None:
        deep: object = "x"
        for _ in range(300):
            deep = [deep]
        values = {"deep": deep, "whole": 10**300, "float": 1e-300, "list": list(range(5000)), "none": None}
        log = store.open(KEY)
        with log.locked():
            log.append({"messages": [{**record("a"), **values}]})
        (line,) = store.open(KEY).read("messages")[0]
        assert {name: line[name] for name in values} == values

    @pytest.mark.parametrize("number", [0, -1, True, 1.5, "1", None, 10**30, [1]], ids=repr)
    def test_a_number_that_is_none_hides_nothing(self, store: Store, number: object) -> None:
        log = store.open(KEY)
        with log.locked():
            log.append({"messages": [{**record("a"), "ctx": {"v": 1, "seq": number}}, record("b")]})
        assert contents(store.open(KEY)) == ["a", "b"]

    @pytest.mark.parametrize("text", [text for text in TEXTS if len(text) <= 256], ids=range(len(TEXTS) - 1))
    def test_any_id_names_a_session(self, store: Store, text: str) -> None:
        key = SessionKey(text, text, text)
        said(store.open(key), text)
        assert contents(store.open(key)) == [text]
        assert list(store.sessions(text, text)) == [text]
        assert list(store.keys()) == [key]
