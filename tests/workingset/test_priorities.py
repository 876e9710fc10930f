"""How the working set follows a conversation: whom it speaks of, which tool results are files, what is a request."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxwrap.types import HistoryMessage, Message
from ctxwrap.workingset.assembly import Boot
from ctxwrap.workingset.manifest import Manifest, WorkingFile
from ctxwrap.workingset.manifest_file import LoadedManifest, load_manifest, save_manifest
from ctxwrap.workingset.priorities import FileUse, backwards, file_uses, with_tool_results
from ctxwrap.workingset.requests import ADD, decide_requests, requests_in_json
from ctxwrap.workingset.safe_yaml import path_fault
from ctxwrap.workingset.working_set import OUTPUT, WorkingSetView

FILE = WorkingFile("src/main.py", 0.5)


def talk(*said: str) -> list[Message]:
    """Rounds of a question and an answer."""
    return [message for text in said for message in (Message("user", text), Message("assistant", "Yes."))]


@pytest.mark.parametrize(
    ("text", "is_named"),
    [
        ("see src/main.py", True),
        ("main.py, please", True),
        ("Open main.py.", True),
        ("in `main.py:12`", True),
        ("/home/ada/src/main.py", True),
        ('{"path": "main.py"}', True),
        ("main.pyc", False),
        ("my-main.py", False),
        ("domain.py", False),
        ("main.py.bak", False),
        ("Main.py", False),
        ("main", False),
    ],
)
def test_a_file_is_named_by_its_path_or_the_end_of_it(text: str, is_named: bool) -> None:
    assert file_uses([FILE], talk(text), 1)["src/main.py"].references == is_named


def test_names_with_spaces_and_in_tool_calls_count_as_references() -> None:
    file = WorkingFile("my notes.md", 0.5)
    call = Message("assistant", tool_calls=({"id": "1", "name": "read", "arguments": '{"path":"my notes.md"}'},))
    assert file_uses([file], [Message("user", "Read it"), call], 1) == {"my notes.md": FileUse(1, 1)}


def test_rounds_are_counted_from_the_last_one_backwards() -> None:
    messages = [*talk("a"), Message("user", "b"), Message("user", "c"), Message("tool", "d"), Message("assistant", "e")]
    assert [told.round for told in backwards(messages, 7)] == [7, 7, 7, 7, 6, 6]
    assert file_uses([FILE], [*talk("main.py"), *talk("no")], 9)["src/main.py"] == FileUse(1, 8)


def test_use_is_counted_over_ten_rounds_only() -> None:
    long = [*talk("main.py"), *talk(*["no"] * 30)]
    assert file_uses([FILE], long, 31)["src/main.py"] == FileUse(0, 21)
    wordy = [*talk("main.py"), *talk(*["no " * 5000] * 3)]
    assert file_uses([FILE], wordy, 4)["src/main.py"] == FileUse(0, 2), "two rounds and a bit were looked at"
    assert file_uses([FILE], talk("main.py " + "no " * 50_000), 1)["src/main.py"] == FileUse(1, 1)
    assert file_uses([FILE], [], 3)["src/main.py"] == FileUse(0, 3)
    assert file_uses([WorkingFile("a", 0.5, turn=30)], long, 31)["a"] == FileUse(0, 30)


def offered() -> WorkingSetView:
    return WorkingSetView("working-set.yml", Manifest((FILE,)), {}, Boot())


CALLS = st.lists(st.tuples(st.text(max_size=80), st.text(max_size=80)), min_size=1, max_size=8)


@given(CALLS)
def test_tool_output_paths_never_equal_file_paths(calls: list[tuple[str, str]]) -> None:
    messages = [Message("user", "Look")]
    for name, id in calls:
        messages.append(Message("assistant", tool_calls=({"id": id, "name": name, "arguments": "{}"},)))
        messages.append(Message("tool", "x" * 2000, tool_call_id=id))
    unsent = [HistoryMessage(number, message, 500) for number, message in enumerate(messages, 1)]
    found = with_tool_results(offered(), [*messages, Message("user", "And?")], unsent, 2, ())
    paths = found.output_paths
    assert len(set(paths)) == len(paths) == min(5, len(calls))
    assert all(path_fault(path) and path.startswith(OUTPUT) and len(path) < 200 for path in paths)
    assert set(found.contents) == set(paths)
    assert found.manifest.files[0] == FILE


def test_tool_result_still_in_the_messages_is_not_added_as_a_file() -> None:
    messages = [Message("user", "Look"), Message("tool", "x" * 2000, tool_call_id="1"), Message("user", "And?")]
    assert with_tool_results(offered(), messages, (), 2, ()).output_paths == ()
    unsent = [HistoryMessage(number, message, 500) for number, message in enumerate(messages[:2], 1)]
    (path,) = with_tool_results(offered(), messages, unsent, 2, ()).output_paths
    (gone,) = with_tool_results(offered(), messages, (), 2, (path,)).outputs
    assert (gone.action, gone.path) == ("remove_from_working_set", path)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.floats()
    | st.integers()
    | st.text()
    | st.sampled_from([ADD, "action", "path", "why"]),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from([ADD, "action", "path", "why"]) | st.text(), inner),
    max_leaves=30,
)


@given(JSON)
def test_any_model_request_is_decided_and_loggable(value: Any) -> None:
    outcome = decide_requests(Manifest(), requests_in_json(value))
    for decision in outcome.decisions:
        json.dumps(decision.as_json(), ensure_ascii=False).encode()
    assert bool(outcome.decisions) == (value not in (None, []))


@given(st.text() | st.text(alphabet='{}[]":,\n- ' + ADD).map(lambda text: f"- action: {ADD}\n  path: {text}"))
def test_requests_in_any_text_are_decided_and_loggable(text: str) -> None:
    decisions = decide_requests(Manifest(), requests_in_json(text)).decisions
    assert decisions
    for decision in decisions:
        json.dumps(decision.as_json(), ensure_ascii=False).encode()


def test_a_working_set_in_a_directory_behind_a_link_is_saved(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    save_manifest(tmp_path / "link" / "working-set.yml", Manifest((FILE,)), LoadedManifest(Manifest()))
    assert load_manifest(tmp_path / "real" / "working-set.yml").manifest.files == (FILE,)
