"""Contract of isolation: sessions never see each other's data, whatever their names and contents."""

import sys
from collections.abc import Iterator

import pytest

from ctxwrap.stores.base import STREAMS, Checkpoint, Log, Store
from ctxwrap.stores.names import OWNERS
from ctxwrap.testing.contract.streams import KEY, contents, numbered_record, record, said
from ctxwrap.types import SessionKey

KEYS = [
    *(SessionKey(*names) for names in [("a", "b", "c"), ("b", "a", "c"), ("a", "c", "b"), ("c", "b", "a")]),
    *(SessionKey(*names) for names in [("a/b", "c", "d"), ("a", "b/c", "d"), ("a", "b", "c/d"), ("a\0b", "c", "d")]),
    *(SessionKey(name, "agent", "session") for name in ("Acme", "acme", "ACME", "acme ", "acm%", "acme'--", "_cme")),
    *(SessionKey(name, "agent", "session") for name in ("\u00e9", "e\u0301", "\ud800", "\udfff", "x" * 1024)),
    *(SessionKey("tenant", name, "s" * 1024) for name in ("x" * 1024, "x" * 1023 + "y", "..", "index")),
]
"""Pairwise different keys that careless code may confuse."""


def canary(number: int) -> str:
    return f"canary-{number:04}-"


def fill(log: Log, number: int) -> None:
    """Write the session's canary wherever a session can hold data."""
    text = canary(number)
    with log.locked():
        numbered = {**record(text), "ctx": {"v": 1, "seq": 1}}
        positions = log.append({stream: [numbered] for stream in STREAMS})
        log.save_checkpoint(Checkpoint(positions, {"text": text}))
        log.files.save("context/a", text.encode())
        log.files.save(f"raw/{text}", b"x")
        log.files.link("context/a", "context/b")
        log.files.extend("context/c", text.encode(), 0)


def everything(log: Log) -> Iterator[object]:
    """All data of a session, by every method that reads."""
    for stream in STREAMS:
        yield log.read(stream)
        yield log.between(stream, 0, 99)
        yield log.pick(stream, range(99))
        yield list(log.lines(stream))
    yield log.load_checkpoint()
    yield [entry.name for under in ("", "raw", "context") for entry in log.files.entries(under)]
    yield [log.files.load(f"context/{name}") for name in "abc"]
    yield [log.files.load("context/a", 99, 0), log.files.leftovers()]


class IsolationContract:
    def test_sessions_of_tenants_and_agents_are_separate(self, store: Store) -> None:
        keys = [KEY, KEY._replace(tenant="other"), KEY._replace(agent="other"), KEY._replace(session="other")]
        for number, key in enumerate(keys):
            said(store.open(key), str(number))
        assert [contents(store.open(key)) for key in keys] == [["0"], ["1"], ["2"], ["3"]]
        assert sorted(store.sessions("tenant", "agent")) == ["other", "session"]
        assert list(store.sessions("nobody", "agent")) == []
        assert sorted(store.agents("tenant")) == ["agent", "other"]
        assert list(store.agents("nobody")) == []

    def test_no_read_method_returns_data_of_another_session(self, store: Store) -> None:
        for number, key in enumerate(KEYS):
            fill(store.open(key), number)
        for number, key in enumerate(KEYS):
            log = store.open(key)
            outside = repr(list(everything(log)))
            with log.locked():
                inside = repr(list(everything(log)))
            for found in (outside, inside):
                assert canary(number) in found
                assert [other for other in range(len(KEYS)) if other != number and canary(other) in found] == []

    def test_session_is_listed_for_its_tenant_and_agent_only(self, store: Store) -> None:
        for key in KEYS:
            said(store.open(key), "a")
        for tenant, agent in {key[:2] for key in KEYS}:
            assert sorted(store.sessions(tenant, agent)) == sorted(
                key.session for key in KEYS if key[:2] == (tenant, agent)
            )
        assert sorted(store.keys()) == sorted(KEYS)

    def test_users_and_teams_are_no_sessions(self, store: Store) -> None:
        said(store.open(KEY), "a")
        for area in OWNERS.values():
            said(store.open(KEY._replace(agent=area)), str(area))
            assert list(store.sessions(KEY.tenant, area)) == [KEY.session]
            assert contents(store.open(KEY._replace(agent=area))) == [area]
        assert list(store.keys()) == [KEY]
        assert list(store.agents(KEY.tenant)) == [KEY.agent]

    def test_removing_and_rewriting_leave_other_sessions_unchanged(self, store: Store) -> None:
        mine, others = KEYS[0], KEYS[1:]
        for number, key in enumerate(KEYS):
            fill(store.open(key), number)
        log = store.open(mine)
        with log.locked():
            for entry in log.files.entries():
                if entry.name.startswith(("context/", "raw/")):
                    log.files.remove(entry.name)
            for stream in STREAMS:
                log.rewrite(stream, lambda line: {**line, "content": "gone"})
        assert canary(0) not in repr(list(everything(store.open(mine))))
        for number, key in enumerate(others, 1):
            assert repr(list(everything(store.open(key)))).count(canary(number)) >= 10
            assert store.open(key).edition() == 0

    def test_checkpoint_belongs_to_one_session(self, store: Store) -> None:
        log = store.open(KEY)
        with log.locked():
            log.save_checkpoint(Checkpoint(log.append({"messages": [record("a")]}), {"a": 1}))
        assert store.open(KEY._replace(tenant="other")).load_checkpoint() is None

    def test_lease_belongs_to_one_session(self, store: Store) -> None:
        given = [store.open(key).lease() for key in KEYS[:4]]
        assert None not in given
        for give_back in given:
            assert give_back is not None
            give_back()


TEXTS = [
    *("\x00", "\ud800", "a\u2028b\x85c", "\r\n", '"}', "😀", "\ufeff", "".join(map(chr, range(256)))),
    *("'; DROP TABLE ctxwrap_sessions; --", "%(tenant)s", "%s %% %", "\\x00", "\\", "$1 $$", "{0} {", "\x1a\x04"),
    *('{"ctx":{"seq":1}}', ',"c":"0000000000000000"}}', "\udfff\ud800", "\U000e0041", "x" * 1_000_000),
]

CONTROL = ("ctx", "seq", "w", "c", "b", "v", "sealed", "token", "origin", "lc", "__class__", "$ref", "py/object")


UNITS = [chr(number) for number in range(1 << 16)]
"""Every code unit of UTF-16, including lone surrogates."""


def in_parts(size: int) -> list[str]:
    return ["".join(UNITS[start : start + size]) for start in range(0, len(UNITS), size)]


def name_of(text: str) -> str:
    """A file name with all allowed characters of a text, in parts of limited length."""
    allowed = text.replace("\0", "").replace("/", "")
    return "/".join(["raw", *(f"x{allowed[start : start + 32]}" for start in range(0, len(allowed), 32))])


class HostileContract:
    @pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
    def test_text_round_trips(self, store: Store, text: str) -> None:
        log = store.open(KEY)
        with log.locked():
            log.append({"messages": [record(text, ctx="not control data", c="00000000")]})
        (line,) = store.open(KEY).read("messages")[0]
        assert line["content"] == text

    def test_code_units_round_trip(self, store: Store) -> None:
        log = store.open(KEY)
        with log.locked():
            log.append({"messages": [{**record(""), "content": UNITS, "keys": dict.fromkeys(UNITS, 1)}]})
        (line,) = store.open(KEY).read("messages")[0]
        assert line["content"] == UNITS
        assert list(line["keys"]) == UNITS

    def test_adjacent_surrogates_keep_their_code_units(self, store: Store) -> None:
        """They may come back as one character: JSON does not distinguish them."""
        text = "\ud83d\ude00 \udbff\udfff"
        said(store.open(KEY), text)
        (found,) = contents(store.open(KEY))
        assert str(found).encode("utf-16-le", "surrogatepass") == text.encode("utf-16-le", "surrogatepass")

    def test_code_units_round_trip_in_a_batch(self, store: Store) -> None:
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
    def test_code_units_round_trip_in_file_names_and_contents(self, store: Store, surrogates: bool) -> None:
        if surrogates and sys.platform == "darwin":
            pytest.skip("file systems of macOS refuse such names")
        texts = [text for text in in_parts(256) if ("\ud800" <= text[0] <= "\udfff") == surrogates]
        files = {name_of(text): text.encode("utf-16-le", "surrogatepass") for text in texts}
        log = store.open(KEY)
        with log.locked():
            for name, data in files.items():
                log.files.save(name, data)
        there = store.open(KEY).files
        assert [entry.name for entry in there.entries("raw")] == sorted(files)
        assert {name: there.load(name) for name in files} == files

    def test_file_names_with_similar_bytes_are_distinct(self, store: Store) -> None:
        names = ["raw/\u00e9", "raw/\udcc3\udca9", "raw/\udce9", "raw/\ud800", "raw/\udced\udca0\udc80", "raw/e\u0301"]
        log = store.open(KEY)
        with log.locked():
            for name in names:
                log.files.save(name, repr(name).encode())
        assert [store.open(KEY).files.load(name) for name in names] == [repr(name).encode() for name in names]
        assert sorted(entry.name for entry in log.files.entries("raw")) == sorted(names)

    def test_control_words_in_user_data_are_data(self, store: Store) -> None:
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
    def test_invalid_record_number_hides_no_record(self, store: Store, number: object) -> None:
        log = store.open(KEY)
        with log.locked():
            log.append({"messages": [{**record("a"), "ctx": {"v": 1, "seq": number}}, record("b")]})
        assert contents(store.open(KEY)) == ["a", "b"]

    @pytest.mark.parametrize("text", [text for text in TEXTS if len(text) <= 256], ids=range(len(TEXTS) - 1))
    def test_any_text_is_a_session_id(self, store: Store, text: str) -> None:
        key = SessionKey(text, text, text)
        said(store.open(key), text)
        assert contents(store.open(key)) == [text]
        assert list(store.sessions(text, text)) == [text]
        assert list(store.keys()) == [key]
