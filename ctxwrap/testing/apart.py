"""Tenants, agents and sessions: nobody finds what is another's, on any way that there is."""

from collections.abc import Iterator

from ctxwrap.storage import STREAMS, Checkpoint, Log, Store
from ctxwrap.testing.records import KEY, contents, record, said
from ctxwrap.types import SessionKey

KEYS = [
    *(SessionKey(*names) for names in [("a", "b", "c"), ("b", "a", "c"), ("a", "c", "b"), ("c", "b", "a")]),
    *(SessionKey(*names) for names in [("a/b", "c", "d"), ("a", "b/c", "d"), ("a", "b", "c/d"), ("a\0b", "c", "d")]),
    *(SessionKey(name, "agent", "session") for name in ("Acme", "acme", "ACME", "acme ", "acm%", "acme'--", "_cme")),
    *(SessionKey(name, "agent", "session") for name in ("\u00e9", "e\u0301", "\ud800", "\udfff", "x" * 1024)),
    *(SessionKey("tenant", name, "s" * 1024) for name in ("x" * 1024, "x" * 1023 + "y", "..", "index")),
]
"""Pairwise different, and alike to somebody who is careless."""


def canary(number: int) -> str:
    return f"canary-{number:04}-"


def fill(log: Log, number: int) -> None:
    """Leave the session's canary wherever something can be left."""
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
    """All that can be read of a session, by every way to read."""
    for stream in STREAMS:
        yield log.read(stream)
        yield log.between(stream, 0, 99)
        yield log.pick(stream, range(99))
        yield list(log.lines(stream))
    yield log.load_checkpoint()
    yield [entry.name for under in ("", "raw", "context") for entry in log.files.entries(under)]
    yield [log.files.load(f"context/{name}") for name in "abc"]
    yield [log.files.load("context/a", 99, 0), log.files.leftovers()]


class ApartContract:
    def test_sessions_tenants_and_agents_are_apart(self, store: Store) -> None:
        keys = [KEY, KEY._replace(tenant="other"), KEY._replace(agent="other"), KEY._replace(session="other")]
        for number, key in enumerate(keys):
            said(store.open(key), str(number))
        assert [contents(store.open(key)) for key in keys] == [["0"], ["1"], ["2"], ["3"]]
        assert sorted(store.sessions("tenant", "agent")) == ["other", "session"]
        assert list(store.sessions("nobody", "agent")) == []
        assert sorted(store.agents("tenant")) == ["agent", "other"]
        assert list(store.agents("nobody")) == []

    def test_no_way_to_read_leads_to_anothers_data(self, store: Store) -> None:
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

    def test_every_session_is_listed_for_its_own_tenant_and_agent(self, store: Store) -> None:
        for key in KEYS:
            said(store.open(key), "a")
        for tenant, agent in {key[:2] for key in KEYS}:
            assert sorted(store.sessions(tenant, agent)) == sorted(
                key.session for key in KEYS if key[:2] == (tenant, agent)
            )
        assert sorted(store.keys()) == sorted(KEYS)

    def test_what_one_removes_or_rewrites_stays_with_the_others(self, store: Store) -> None:
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

    def test_checkpoints_of_sessions_are_apart(self, store: Store) -> None:
        log = store.open(KEY)
        with log.locked():
            log.save_checkpoint(Checkpoint(log.append({"messages": [record("a")]}), {"a": 1}))
        assert store.open(KEY._replace(tenant="other")).load_checkpoint() is None

    def test_a_lease_is_of_one_session_only(self, store: Store) -> None:
        given = [store.open(key).lease() for key in KEYS[:4]]
        assert None not in given
        for give_back in given:
            assert give_back is not None
            give_back()
