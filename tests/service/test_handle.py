"""Session handles: every method works on its one session, and no other tenant's."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import openai
import pytest

import ctxwrap
from ctxwrap import SessionHandle, open_session
from ctxwrap.errors import InvalidId, NotFound, SettingsError
from ctxwrap.pack.receipt import EventIds, context_event
from ctxwrap.stores.base import Store
from ctxwrap.stores.memory import MemoryStore
from ctxwrap.testing.practice import Provider
from ctxwrap.types import SessionKey
from tests.session.telling import NOW, Teller, item
from tests.support import PassingLog

BEES = item("e-1", "Ada keeps bees", source="messages:1-1")
CALLS: dict[str, Callable[[SessionHandle], Any]] = {
    "details": lambda handle: handle.details(),
    "messages": lambda handle: handle.messages(),
    "events": lambda handle: handle.events(),
    "follow": lambda handle: handle.follow("events").new(),
    "turns": lambda handle: handle.turns(),
    "turn": lambda handle: handle.turn(1),
    "pack": lambda handle: handle.pack(),
    "diff": lambda handle: handle.diff(1, 1),
    "cost": lambda handle: handle.cost(),
    "sessions": lambda handle: handle.sessions(),
    "memory": lambda handle: handle.memory(),
    "memory_curves": lambda handle: handle.memory_curves(),
    "pin": lambda handle: handle.pin("e-1"),
    "unpin": lambda handle: handle.unpin("e-1"),
    "swap": lambda handle: handle.swap("bees"),
    "bring_back": lambda handle: handle.bring_back("e-1"),
    "missing": lambda handle: handle.missing(everything=True),
    "resolve_missing": lambda handle: handle.resolve_missing("m-1"),
    "forget": lambda handle: handle.forget(query="bees"),
    "would_forget": lambda handle: handle.would_forget(query="bees"),
    "purge": lambda handle: handle.purge(message=1),
    "children": lambda handle: handle.children(),
    "start_child": lambda handle: handle.start_child("kid", handoff="Look."),
    "attach_result": lambda handle: handle.attach_result("kid", result="Done."),
    "cancel_child": lambda handle: handle.cancel_child("kid"),
    "end": lambda handle: handle.end(),
    "verify": lambda handle: handle.verify(),
    "rebuild": lambda handle: handle.rebuild(),
    "gc": lambda handle: handle.gc(dry_run=False),
    "put": lambda handle: handle.put("budget", b"1000\n"),
    "export": lambda handle: handle.export("session.zip"),
    "envelope": lambda handle: handle.envelope(),
}
"""A call of every method that reads or writes the session."""


class Untouched(PassingLog):
    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"{name} is used")


class UntouchedStore(MemoryStore):
    def open(self, key: SessionKey) -> Any:
        return Untouched(super().open(key))


@pytest.fixture(autouse=True)
def _own_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def store() -> Store:
    return MemoryStore()


@pytest.fixture
def told(store: Store) -> Teller:
    teller = Teller(store)
    teller.says("I am Ada and I keep bees.", keeps=[BEES])
    return teller


@pytest.fixture
def handle(told: Teller) -> SessionHandle:
    return open_session("s", store=told.store)


@pytest.fixture
def chatted(provider: Provider, store: Store) -> SessionHandle:
    """Two turns of a wrapped client, whose model remembers item w-1."""
    client: Any = ctxwrap.wrap(openai.OpenAI(api_key="x", base_url=provider.openai_url), store=store, session="s")
    for text in ("Hello.", "How are you?"):
        client.chat.completions.create(model="practice", messages=[{"role": "user", "content": text}])
    return open_session("s", store=store)


def test_open_session_reads_nothing() -> None:
    handle = open_session("s", tenant="acme", agent="bot", store=UntouchedStore())
    assert handle.key == SessionKey("acme", "bot", "s")
    assert repr(handle) == "SessionHandle('s', tenant='acme', agent='bot')"
    with pytest.raises(AssertionError, match="is used"):
        handle.messages()


def test_open_session_uses_the_default_store(tmp_path: Path) -> None:
    assert getattr(open_session("s").store, "root", None) == tmp_path / "default-home"


def test_open_session_rejects_invalid_names() -> None:
    with pytest.raises(InvalidId):
        open_session("")


def test_calls_cover_every_method() -> None:
    methods = {name for name, value in vars(SessionHandle).items() if callable(value) and not name.startswith("_")}
    assert methods == CALLS.keys() | {"note_export"}


@pytest.mark.parametrize("name", CALLS)
def test_methods_raise_not_found_without_the_session(name: str, store: Store) -> None:
    with pytest.raises(NotFound, match="no session 'nobody'"):
        CALLS[name](open_session("nobody", store=store))
    assert list(store.keys()) == []


@pytest.mark.parametrize("name", CALLS)
def test_methods_never_reach_the_same_session_of_another_tenant(name: str, store: Store) -> None:
    Teller(store, SessionKey("acme", "default", "s")).says("I keep bees.", keeps=[BEES])
    ours = open_session("s", tenant="acme", store=store)
    before = ours.messages(), ours.events()
    with pytest.raises(NotFound):
        CALLS[name](open_session("s", tenant="umbrella", store=store))
    assert (ours.messages(), ours.events()) == before
    Teller(store, SessionKey("umbrella", "default", "s")).says("I sell umbrellas.")
    try:
        result = repr(CALLS[name](open_session("s", tenant="umbrella", store=store)))
    except (NotFound, SettingsError) as error:
        result = str(error)
    assert "keep bees" not in result
    assert (ours.messages(), ours.events()) == before


def test_details_describe_the_session(handle: SessionHandle) -> None:
    details = handle.details()
    assert (details.info.key, details.info.rounds, details.info.messages) == (handle.key, 1, 2)


def test_messages_and_events_are_those_of_the_log(handle: SessionHandle) -> None:
    assert [(number, record["content"]) for number, record in handle.messages()] == [
        (1, "I am Ada and I keep bees."),
        (2, "I see."),
    ]
    assert [record["type"] for _, record in handle.events()] == ["start", "snapshot", "done"]


def test_follow_returns_what_is_new(handle: SessionHandle, told: Teller) -> None:
    follower = handle.follow("messages")
    assert [number for number, _ in follower.new()] == [1, 2]
    told.says("More.")
    assert [record["content"] for _, record in follower.new()] == ["More.", "I see."]


def test_turns_are_listed_and_shown(handle: SessionHandle, told: Teller) -> None:
    told.says("More.")
    assert [(turn.number, turn.id, turn.said) for turn in handle.turns()] == [
        (1, "t1", "I am Ada and I keep bees."),
        (2, "t2", "More."),
    ]
    assert handle.turn(2) == handle.turn("t2")
    assert handle.turn("t2").info == handle.turns()[1]
    with pytest.raises(NotFound, match="no turn 3"):
        handle.turn(3)


def test_pack_is_that_of_the_turn(chatted: SessionHandle) -> None:
    turns = chatted.turns()
    assert chatted.pack().turn == turns[1].id
    assert chatted.pack(1).turn == turns[0].id


def test_diff_compares_two_turns(chatted: SessionHandle) -> None:
    diff = chatted.diff(1, 2)
    assert (diff.before, diff.after, bool(diff.entered)) == (1, 2, True)


def test_cost_counts_the_turns(chatted: SessionHandle) -> None:
    cost = chatted.cost()
    assert (cost.key, cost.turns, cost.sent.total.tokens_in > 0) == (chatted.key, 2, True)


def test_memory_is_that_of_the_round(handle: SessionHandle, told: Teller) -> None:
    told.says("Another.", keeps=[item("e-2", "Ada likes tea", anchor=2, first=2, last=2)])
    assert [each["id"] for each in handle.memory(1)["memory"]["ephemeral"]] == ["e-1"]
    assert {each["id"] for each in handle.memory()["memory"]["ephemeral"]} == {"e-1", "e-2"}


def test_memory_curves_have_a_point_per_round(handle: SessionHandle, told: Teller) -> None:
    told.says("More.")
    assert [(curve.id, [point.round for point in curve.points]) for curve in handle.memory_curves()] == [
        ("e-1", [1, 2])
    ]


def test_pin_and_unpin_change_the_item(handle: SessionHandle) -> None:
    for change, pinned in ((handle.pin, True), (handle.unpin, False)):
        change("e-1")
        assert [each["pinned"] for each in handle.memory()["memory"]["ephemeral"]] == [pinned]


def test_swap_is_searched_and_brought_back(handle: SessionHandle, told: Teller) -> None:
    told.chats(30)
    assert [hit.entry.item for hit in handle.swap("bees") if hit.entry.item] == ["e-1"]
    assert len(handle.swap(limit=1)) == 1
    (returned,) = handle.bring_back("e-1")
    assert returned.item is not None
    assert (returned.item.content, returned.item.tier) == ("Ada keeps bees", "ephemeral")


def test_missing_context_is_resolved(handle: SessionHandle, told: Teller) -> None:
    event = context_event("context.missing.detected", EventIds("s", "t1"), "m-1", question="Where are the hives?")
    with told.session.locked():
        told.session.append("t1", [], [event], NOW, part="m")
    (missing,) = handle.missing()
    handle.resolve_missing(missing.id, note="behind the house")
    assert handle.missing() == ()
    assert [each.resolution for each in handle.missing(everything=True)] == ["behind the house"]


def test_forget_deletes_what_would_forget_names(handle: SessionHandle) -> None:
    assert handle.would_forget(query="bees") == ("e-1",)
    assert handle.memory()["memory"]["ephemeral"]
    assert handle.forget(query="bees") == ("e-1",)
    assert handle.memory()["memory"]["ephemeral"] == []


def test_purge_deletes_a_message_and_its_memory(handle: SessionHandle) -> None:
    assert handle.purge(message=1) == ("e-1",)
    assert "bees" not in repr((handle.messages(), handle.events(), handle.memory()))


def test_children_start_and_end(handle: SessionHandle) -> None:
    child = handle.start_child("review", handoff="Check it.", child_agent="reviewer")
    assert (child.session, child.agent) == ("s/review", "reviewer")
    assert handle.attach_result("review", result="Two bugs.", artifacts={"fix.patch": b"-"}).status == "done"
    handle.start_child("other", handoff="Wait.")
    assert handle.cancel_child("other").status == "cancelled"
    assert [(each.name, each.status) for each in handle.children()] == [("other", "cancelled"), ("review", "done")]


def test_end_is_in_the_log(handle: SessionHandle) -> None:
    handle.end()
    assert handle.events()[-1].record["type"] == "session_end"


def test_rebuild_restores_what_verify_misses(handle: SessionHandle) -> None:
    handle.rebuild()
    assert handle.verify().findings == ()
    handle.store.open(handle.key).files.remove("context/summary.md")
    assert [finding.where for finding in handle.verify().findings] == ["context/summary.md"]
    assert handle.rebuild().written == ("context/summary.md",)
    assert handle.verify().findings == ()


def test_put_saves_and_removes_an_input(handle: SessionHandle) -> None:
    files = handle.store.open(handle.key).files
    handle.put("pinned/rules.md", b"Be brief.")
    assert files.load("context/pinned/rules.md") == b"Be brief."
    handle.put("pinned/rules.md", None)
    assert files.load("context/pinned/rules.md") is None
    with pytest.raises(SettingsError, match="is not an input file"):
        handle.put("facts.md", b"")


def test_gc_follows_the_policy_of_the_session(handle: SessionHandle) -> None:
    handle.put("gc.policy", b"pack_ttl=2d\n")
    assert handle.gc().policy.pack_ttl == 2 * 86400
    assert (handle.gc().dry_run, handle.gc(dry_run=False).dry_run) == (True, False)


def test_export_can_be_imported(handle: SessionHandle, tmp_path: Path) -> None:
    exported = handle.export(tmp_path / "s.zip")
    assert exported.messages == 2
    ctxwrap.import_session(exported.file, session="copy", store=handle.store)
    copied = open_session("copy", store=handle.store).messages()
    assert [record["content"] for _, record in copied] == [record["content"] for _, record in handle.messages()]


def test_envelope_is_of_one_turn_or_all(chatted: SessionHandle) -> None:
    assert len(chatted.envelope(1).envelopes) < len(chatted.envelope().envelopes)
    chatted.note_export(chatted.envelope())
    assert chatted.events()[-1].record["type"] == "context.exported"


def test_handle_works_in_threads_of_async_code(handle: SessionHandle) -> None:
    async def read() -> Any:
        return await asyncio.gather(*(asyncio.to_thread(handle.memory) for _ in range(4)))

    assert asyncio.run(read()) == [handle.memory()] * 4


def test_public_functions_do_the_same(handle: SessionHandle) -> None:
    ctxwrap.pin("s", "e-1", store=handle.store)
    assert handle.memory()["memory"]["ephemeral"][0]["pinned"]
    assert ctxwrap.verify("s", store=handle.store) == handle.verify()
    assert ctxwrap.collect_garbage("s", store=handle.store) == handle.gc()
    assert ctxwrap.forget("s", item="e-1", store=handle.store) == ("e-1",)
    assert handle.memory()["memory"]["ephemeral"] == []
