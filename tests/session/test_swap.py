"""Swap: everything that left the prompt window is found by its words and comes back as it was said."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from ctxwrap.errors import NotFound, SettingsError
from ctxwrap.inspect import details_of
from ctxwrap.session.abi import event_issues
from ctxwrap.session.purge import forget, purge
from ctxwrap.session.swap_search import bring_back, search_swap
from ctxwrap.session.verify import verify
from ctxwrap.stores.base import Store
from ctxwrap.stores.files.store import FileStore
from ctxwrap.stores.memory import MemoryStore
from ctxwrap.types import Message
from tests.session.telling import KEY, NOW, Teller, directory_of, item

REPORT = "Ledger of the lighthouse\n" + "oil, wick and glass\n" * 200
OUTPUT = Message("tool", REPORT, tool_call_id="c1")
CALL = Message("assistant", "", tool_calls=({"id": "c1", "name": "read", "arguments": "{}"},))


@pytest.fixture(params=["files", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return FileStore(tmp_path) if request.param == "files" else MemoryStore()


@pytest.fixture
def told(store: Store) -> Teller:
    """A session whose first forty messages have left."""
    teller = Teller(store)
    teller.says("The lighthouse of Ushant was painted green.", CALL, OUTPUT)
    teller.says(f"{'We spoke of it. ' * 50}And of yx3 as well.")
    teller.chats(50)
    return teller


@pytest.fixture
def faded(store: Store) -> Teller:
    """A session one memory of which has faded to swap."""
    teller = Teller(store)
    teller.says(
        "Ada keeps bees.", keeps=[item("e-1", "Ada keeps bees on the roof", origin="tool", source="messages:1-2")]
    )
    teller.chats(60)
    return teller


def test_chunk_is_found_by_its_words_and_comes_back_verbatim(told: Teller) -> None:
    hits = search_swap("s", "green lighthouse", **told.place)
    best = hits[0]
    assert (best.entry.kind, best.entry.source, best.share) == ("messages", "messages:1-40", 1.0)
    returned = bring_back("s", best.entry.id, **told.place)
    assert len(returned) == 40
    assert returned[0].message == Message("user", "The lighthouse of Ushant was painted green.")
    assert [(each.source, each.origin) for each in returned[:4]] == [
        ("messages:1-1", "user"),
        ("messages:2-2", "assistant"),
        ("messages:3-3", "tool"),
        ("messages:4-4", "assistant"),
    ]
    assert returned[2].message == OUTPUT


def test_a_tool_output_is_found_and_comes_back_whole(told: Teller) -> None:
    (hit,) = [hit for hit in search_swap("s", "ledger lighthouse", **told.place) if hit.entry.kind == "tool_output"]
    (returned,) = bring_back("s", hit.entry.id, **told.place)
    assert (returned.message, returned.origin, returned.source) == (OUTPUT, "tool", "messages:3-3")


def test_words_outside_the_index_are_searched_in_the_messages(told: Teller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ctxwrap.session.swap._TERMS", 2)
    told.session.rebuild()
    assert "yx3" not in (told.store.open(KEY).files.load("context/swap/index.jsonl") or b"").decode()
    (best, *_) = search_swap("s", "yx3", **told.place)
    assert (best.entry.source, best.share) == ("messages:1-40", 1.0)


def test_results_are_ordered_by_matching_share_then_newest(store: Store) -> None:
    teller = Teller(store)
    teller.chats(80, "apples and pears")
    first, second, third = search_swap("s", "apples bananas pears", **teller.place)
    assert [hit.entry.source for hit in (first, second, third)] == [
        "messages:81-120",
        "messages:41-80",
        "messages:1-40",
    ]
    assert search_swap("s", "apples bananas pears", limit=1, **teller.place) == (first,)
    assert [hit.entry for hit in search_swap("s", **teller.place)] == [hit.entry for hit in (first, second, third)]
    assert search_swap("s", "zebra", **teller.place) == ()
    with pytest.raises(SettingsError, match="no word to search for"):
        search_swap("s", "the ...", **teller.place)


def test_decayed_item_comes_back_into_memory_with_its_origin(faded: Teller) -> None:
    assert [each["id"] for each in details_of(faded.store, KEY)["swap"]] == ["e-1"]
    (hit, *_) = search_swap("s", "bees roof", **faded.place)
    assert (hit.entry.kind, hit.entry.item, hit.entry.origin) == ("memory", "e-1", "tool")
    (returned,) = bring_back("s", hit.entry.id, **faded.place)
    assert (returned.origin, returned.source) == ("tool", "messages:1-2")
    known = details_of(faded.store, KEY)
    (back,) = known["memory"]["ephemeral"]
    assert (back["id"], back["content"], back["origin"], back["decay"]) == (
        "e-1",
        "Ada keeps bees on the roof",
        "tool",
        0.5,
    )
    assert known["swap"] == []
    events = faded.store.open(KEY).read("events")[0]
    assert (events[-1]["type"], events[-1]["operations"][0]["reason"]) == ("recall", "brought back on request")
    assert not event_issues("".join(f"{json.dumps(event)}\n" for event in events))
    assert not [each for each in verify("s", **faded.place).findings if "run" in each.what], "it is no part of a run"


def test_item_already_brought_back_is_not_in_swap_and_logs_nothing(faded: Teller) -> None:
    bring_back("s", "e-1", **faded.place)
    count = len(faded.store.open(KEY).read("events")[0])
    (again,) = bring_back("s", "e-1", **faded.place)
    assert again.item is not None
    assert again.item.tier == "ephemeral"
    assert len(faded.store.open(KEY).read("events")[0]) == count
    assert "e-1" not in [hit.entry.item for hit in search_swap("s", "bees roof", **faded.place)]
    faded.chats(1)


def test_item_deep_in_swap_comes_back(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ctxwrap.memory.memory.MAX_SWAP", 1)
    teller = Teller(store)
    teller.says("Many things.", keeps=[item(f"e-{number}", f"fact about planet{number} here") for number in range(5)])
    teller.chats(60)
    for number in range(5):
        (hit, *_) = search_swap("s", f"planet{number}", **teller.place)
        assert hit.entry.item == f"e-{number}"
    (returned,) = bring_back("s", "e-0", **teller.place)
    assert returned.item is not None
    assert returned.item.content == "fact about planet0 here"
    assert "e-0" in [each["id"] for each in details_of(store, KEY)["memory"]["ephemeral"]]


def test_item_changed_in_swap_is_found_by_its_current_text(faded: Teller) -> None:
    changed = item("e-1", "Ada keeps wasps in the cellar", tier="swap", anchor=60, last=60)
    with faded.session.locked():
        operation = {"kind": "update", "id": "e-1", "tier": "swap", "item": changed.as_json()}
        event = {"type": "snapshot", "run": "x", "round": 61, "operations": [operation], "ctx": {}}
        faded.session.append("x", [], [event], NOW)
    (hit, *_) = search_swap("s", "wasps cellar", **faded.place)
    assert (hit.entry.item, hit.share) == ("e-1", 1.0)


@pytest.mark.parametrize("id", ["sha256-abc", "e-9", "", "../../etc/passwd", "\x00"])
def test_unknown_swap_entry_is_not_found(told: Teller, id: str) -> None:
    with pytest.raises(NotFound, match="nothing in swap"):
        bring_back("s", id, **told.place)


def test_forgotten_item_does_not_come_back_from_swap(faded: Teller) -> None:
    forget("s", item="e-1", **faded.place)
    assert all(hit.entry.item != "e-1" for hit in search_swap("s", "bees roof forgotten", **faded.place))
    with pytest.raises(NotFound):
        bring_back("s", "e-1", **faded.place)


def test_purged_message_is_marked_as_purged_in_its_chunk(told: Teller) -> None:
    purge("s", message=1, **told.place)
    (hit,) = [hit for hit in search_swap("s", **told.place) if hit.entry.source == "messages:1-40"]
    returned = bring_back("s", hit.entry.id, **told.place)
    assert returned[0].message == Message("user", "[purged]")
    assert returned[1].message == CALL


def _truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def _garble(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(b"\xff\x00" * (len(data) // 2) + data[len(data) // 2 * 2 :])


def _lie(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b'"range":"1-40"', b'"range":"2-41"'))


@pytest.mark.parametrize("damage", [Path.unlink, _truncate, _garble, _lie, lambda path: path.write_bytes(b"")])
def test_damaged_or_missing_swap_index_is_rebuilt(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    teller = Teller(FileStore(tmp_path))
    teller.says("The lighthouse was painted green.")
    teller.chats(50)
    index = directory_of(teller.store) / "context" / "swap" / "index.jsonl"
    whole = index.read_bytes()
    damage(index)
    (best, *_) = search_swap("s", "green lighthouse", **teller.place)
    returned = bring_back("s", best.entry.id, **teller.place)
    assert returned[0].message == Message("user", "The lighthouse was painted green.")
    assert index.read_bytes() == whole


def test_link_in_place_of_swap_is_reported_removed_and_never_followed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    teller = Teller(FileStore(tmp_path / "home"))
    teller.chats(50)
    swap = directory_of(teller.store) / "context" / "swap"
    swap.rename(tmp_path / "elsewhere")
    swap.symlink_to(tmp_path / "elsewhere")
    before = sorted(path.name for path in (tmp_path / "elsewhere").rglob("*"))
    assert search_swap("s", "weather", **teller.place)
    assert "removed context/swap, which was not a file of the session" in caplog.text
    assert not swap.is_symlink()
    assert sorted(path.name for path in (tmp_path / "elsewhere").rglob("*")) == before
