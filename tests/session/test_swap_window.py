"""Swap follows the prompt window: what a pack leaves behind is listed, and what a later pack sends again is not."""

import json
from pathlib import Path
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

import ctxwrap
from ctxwrap.session.append_only_file import AppendOnlyFile, line
from ctxwrap.session.purge import forget
from ctxwrap.session.session import Session
from ctxwrap.session.swap_search import bring_back
from ctxwrap.session.verify import verify
from ctxwrap.stores.base import Files
from ctxwrap.stores.files.store import FileStore
from ctxwrap.stores.log_format import as_record
from ctxwrap.stores.memory import MemoryStore
from ctxwrap.types import Message, Record
from tests.session.telling import KEY, NOW, Teller, item

INDEX = "context/swap/index.jsonl"
OUTPUTS = ["full test log from failed build\n" * 100, "lint was clean in every file\n" * 100]


class Window:
    """A session whose packs begin where a test says."""

    def __init__(self, store: MemoryStore | FileStore) -> None:
        self.store = store
        self.session = Session(KEY, store.open(KEY))
        self.turns = 0

    def turn(self, first: int, *said: Message) -> None:
        """A call that sends the messages from `first` on, and is answered."""
        self.turns += 1
        id, session = f"t{self.turns}", self.session
        with session.locked():
            number = session.next_message
            runtime = session.state.next_runtime(self.turns, NOW).as_json()
            prefix = {"head": [], "messages": f"{min(first, number)}-{number + len(said) - 1}"}
            start = {"type": "start", "run": id, "runtime": runtime, "prefix": prefix, "ctx": {}}
            results = [
                {"type": "tool_result", "run": id, "id": "c", "name": "t", "message": at, "ctx": {}}
                for at, message in enumerate(said, number)
                if message.role == "tool"
            ]
            session.append(id, [as_record(message) for message in said], [start, *results], NOW, part="o")
        with session.locked():
            done: Record = {"type": "done", "run": id, "status": "ok", "ctx": {}}
            session.append(id, [as_record(Message("assistant", "Noted."))], [done], NOW, part="c")

    def talk(self, count: int, first: int) -> None:
        for number in range(count):
            self.turn(first, Message("user", f"Chapter {number} is about cats and their habits."))

    def index(self) -> list[dict[str, Any]]:
        data = self.store.open(KEY).files.load(INDEX) or b""
        return [json.loads(each) for each in data.splitlines()]

    def ranges(self) -> list[str]:
        return [each["range"] for each in self.index() if each["kind"] == "message_range"]

    def derived(self) -> dict[str, bytes | None]:
        files = self.store.open(KEY).files
        return {entry.name: files.load(entry.name) for entry in files.entries("context")}


def test_sent_messages_are_not_listed_in_swap_whatever_their_age() -> None:
    window = Window(MemoryStore())
    window.talk(100, first=1)
    assert window.index() == []
    window.talk(1, first=100)
    assert window.ranges() == ["1-40", "41-80"]


def test_message_sent_again_leaves_the_swap_list_until_it_leaves_the_window() -> None:
    window = Window(MemoryStore())
    window.talk(60, first=1)
    window.talk(1, first=90)
    assert window.ranges() == ["1-40", "41-80"]
    before = window.index()
    window.talk(1, first=41)
    assert window.ranges() == ["1-40"]
    assert sum("swap/chunk" in name for name in window.derived()) == 1
    window.talk(1, first=1)
    assert INDEX not in window.derived()
    window.talk(1, first=90)
    assert window.index() == before


def test_large_message_is_listed_when_it_leaves_the_window() -> None:
    window = Window(MemoryStore())
    window.turn(1, Message("user", "a long letter about the garden " * 1000))
    window.talk(1, first=3)
    assert window.ranges() == ["1-1"]


def test_tool_output_is_listed_when_no_message_in_the_window_holds_it() -> None:
    window, output = Window(MemoryStore()), Message("tool", OUTPUTS[0], tool_call_id="c")

    def listed() -> list[str]:
        return [each["range"] for each in window.index() if each["kind"] == "tool_output"]

    window.turn(1, Message("user", "Run it."), output)
    window.talk(30, first=1)
    window.talk(1, first=60)
    assert listed() == ["2-2"]
    window.turn(60, Message("user", "Again."), output)
    assert listed() == []
    window.talk(40, first=60)
    window.talk(1, first=140)
    (line,) = [each for each in window.index() if each["kind"] == "tool_output"]
    events = {event["ctx"]["id"]: event for event in window.store.open(KEY).read("events")[0]}
    assert (line["source"], events[line["event"]]["message"]) == ("events.jsonl", int(line["range"].split("-")[0]))


SAID = st.sampled_from(["short", "long", "first output", "second output"])


@example([("long", 0.0, False)] * 6 + [("short", 1.0, False)])  # two chunks say the same
@given(st.lists(st.tuples(SAID, st.floats(0, 1), st.booleans()), min_size=1, max_size=60))
def test_rebuild_gives_the_same_bytes_however_the_window_moves(turns: list[tuple[str, float, bool]]) -> None:
    window = Window(MemoryStore())
    texts = {"short": "A few words on cats.", "long": "many words about gardens and rivers " * 300}
    for said, start, reopens in turns:
        message = Message("user", texts.get(said, "Run it."))
        results = [Message("tool", OUTPUTS[said == "second output"], tool_call_id="c")] if "output" in said else []
        window.turn(1 + int(start * window.session.next_message), message, *results)
        if reopens:
            window.session = Session(KEY, window.store.open(KEY))
    kept = window.derived()
    names = [each["id"] for each in window.index()]
    assert len(set(names)) == len(names)
    window.session = Session(KEY, window.store.open(KEY))
    with window.session.locked():
        window.session.rebuild()
    assert window.derived() == kept


def test_files_of_an_earlier_version_are_replaced(tmp_path: Path) -> None:
    window = Window(FileStore(tmp_path))
    window.talk(3, first=1)
    index = window.store.open(KEY).directory / INDEX  # type: ignore[union-attr]
    index.parent.mkdir(parents=True)
    index.write_bytes(line({"id": "sha256-0", "kind": "message_range", "summary": "Chapter 0", "range": "1-2"}))
    window.session = Session(KEY, window.store.open(KEY))
    window.talk(1, first=1)
    assert not index.exists()
    assert verify("s", store=window.store).findings == ()


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["add", "remove", "save"])), max_size=30))
def test_growing_swap_file_holds_added_entries_that_were_not_removed(steps: list[tuple[str, str]]) -> None:
    files: Files = MemoryStore().open(KEY).files
    growing, expected = AppendOnlyFile("context/x.jsonl"), list[str]()
    for id, step in steps:
        if step == "add" and id not in expected:
            growing.add(id, lambda id=id: {"id": id, "text": id * 9})  # type: ignore[misc]
            expected.append(id)
        elif step == "remove":
            growing.remove(id)
            expected = [each for each in expected if each != id]
        elif step == "save":
            assert growing.save(files)
    assert growing.save(files)
    data = files.load("context/x.jsonl") or b""
    assert [json.loads(each)["id"] for each in data.splitlines()] == expected
    assert growing.size == len(data)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["add", "remove", 0, 1, 2])), max_size=40))
def test_several_writers_of_one_log_continue_the_same_swap_file(steps: list[tuple[str, str | int]]) -> None:
    files: Files = MemoryStore().open(KEY).files
    writers, expected = [AppendOnlyFile("context/x.jsonl") for _ in range(3)], list[str]()
    for id, step in steps:
        if step == "add" and id not in expected:
            expected.append(id)
            for writer in writers:
                writer.add(id, lambda id=id: {"id": id, "text": id * 9})  # type: ignore[misc]
        elif step == "remove" and len(expected) > 1:  # a file that became empty may have been deleted
            expected = [each for each in expected if each != id]
            for writer in writers:
                writer.remove(id)
        elif isinstance(step, int):
            assert writers[step].save(files)
            data = files.load("context/x.jsonl") or b""
            assert [json.loads(each)["id"] for each in data.splitlines()] == expected
            assert writers[step].size == len(data)


def test_decayed_item_is_listed_with_its_content_until_it_comes_back() -> None:
    teller = Teller(MemoryStore())
    teller.says("Ada keeps bees.", keeps=[item("e-1", "Ada keeps bees on the roof")])
    teller.chats(60)
    files = teller.store.open(KEY).files

    def listed() -> list[dict[str, Any]]:
        lines = map(json.loads, (files.load(INDEX) or b"").splitlines())
        return [line for line in lines if line["kind"] == "memory"]

    (line,) = listed()
    chunk = f"context/swap/chunk/{line['id']}"
    assert json.loads(files.load(chunk) or b"")["content"] == "Ada keeps bees on the roof"
    bring_back("s", "e-1", **teller.place)
    assert listed() == []
    assert files.load(chunk) is None


def test_summary_quotes_no_message_from_before_a_forget() -> None:
    teller = Teller(MemoryStore())
    teller.says("The safe opens with the number of the lighthouse.", keeps=[item("e-1", "The safe has a number")])

    def summary() -> str:
        ctxwrap.flush()
        return (teller.store.open(KEY).files.load("context/summary.md") or b"").decode().partition("## Last said")[0]

    assert "lighthouse" in summary()
    forget("s", item="e-1", **teller.place)
    assert "lighthouse" not in summary()
