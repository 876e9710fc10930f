"""Texts and names as nobody would write them who means well."""

import pytest

from ctxwrap.storage import Store
from ctxwrap.testing.records import KEY, contents, record, said
from ctxwrap.types import SessionKey

TEXTS = [
    *("\x00", "\ud800", "a\u2028b\x85c", "\r\n", '"}', "😀", "\ufeff", "".join(map(chr, range(256)))),
    *("'; DROP TABLE ctxwrap_sessions; --", "%(tenant)s", "%s %% %", "\\x00", "\\", "$1 $$", "{0} {", "\x1a\x04"),
    *('{"ctx":{"seq":1}}', ',"c":"0000000000000000"}}', "\udfff\ud800", "\U000e0041", "x" * 1_000_000),
]

CONTROL = ("ctx", "seq", "w", "c", "b", "v", "sealed", "token", "origin", "lc", "__class__", "$ref", "py/object")


class HostileContract:
    @pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
    def test_any_text_round_trips(self, store: Store, text: str) -> None:
        log = store.open(KEY)
        with log.locked():
            log.append({"messages": [record(text, ctx="not control data", c="00000000")]})
        (line,) = store.open(KEY).read("messages")[0]
        assert line["content"] == text

    def test_every_code_unit_round_trips(self, store: Store) -> None:
        units = [chr(number) for number in range(1 << 16)]
        log = store.open(KEY)
        with log.locked():
            log.append({"messages": [{**record(""), "content": units, "keys": dict.fromkeys(units, 1)}]})
        (line,) = store.open(KEY).read("messages")[0]
        assert line["content"] == units
        assert list(line["keys"]) == units

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
