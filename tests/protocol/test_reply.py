"""Reading replies: what the user sees and what is remembered, whole and in every cut."""

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxwrap.protocol import ReplyStream, read_reply
from ctxwrap.protocol.instructions import SEPARATOR

RUNTIME = {"round": 3, "datetime": "2026-02-20T18:45:12.000001Z", "startup_at": "2026-02-20T18:30:00.000000Z"}
EARLIER = {**RUNTIME, "round": 2, "datetime": "2026-02-20T18:40:00.000001Z"}
ITEM = {"id": "core-1", "type": "fact", "decay": 0.1, "round": 1, "tags": ["a"], "content": "The sky is blue."}


def state(**changes: Any) -> dict[str, Any]:
    memory = {"core": [ITEM], "working": [], "ephemeral": []}
    return {"version": "2.2", "runtime": RUNTIME, "memory": memory, "capabilities": [], "active_task": "", **changes}


def reply(text: str = "Hello.", **changes: Any) -> str:
    return f"{text}\n\n{SEPARATOR}\n{json.dumps(state(**changes), ensure_ascii=False)}"


def test_a_clean_reply_splits_into_text_and_state() -> None:
    reading = read_reply(reply(), RUNTIME)
    assert (reading.visible, reading.status, reading.repairs, reading.violations) == ("Hello.", "clean", (), ())
    assert reading.snapshot == state()


def test_a_reply_without_a_trailer_is_shown_as_it_is() -> None:
    text = "Two lines,\nand white space at the end. \n"
    assert read_reply(text, RUNTIME).visible == text
    assert read_reply(text, RUNTIME).status == "missing"


@pytest.mark.parametrize(
    "text",
    [
        f"The mark {SEPARATOR} stands in the middle of a line.",
        f"{SEPARATOR} is what separates the two.",
        f"A line ends with {SEPARATOR}\n{{}} and goes on.",
        "<<<CONTEXT>> {",
        "if a <<< b: pass",
    ],
)
def test_mention_of_the_separator_is_text(text: str) -> None:
    reading = read_reply(text, RUNTIME)
    assert (reading.visible, reading.snapshot) == (text, None)


def test_last_trailer_is_applied() -> None:
    text = f"Like this:\n{SEPARATOR}\n{{}}\nand so on"
    assert read_reply(reply(text), RUNTIME).visible == text


def test_a_separator_inside_a_memory_is_content() -> None:
    content = f"the mark is {SEPARATOR}"
    reading = read_reply(reply(memory={"core": [{**ITEM, "content": content}], "working": []}), RUNTIME)
    assert reading.visible == "Hello."
    assert reading.snapshot is not None
    assert reading.snapshot["memory"]["core"][0]["content"] == content


def test_changed_runtime_is_restored_and_reported() -> None:
    reading = read_reply(reply(runtime={**RUNTIME, "round": 99}), RUNTIME)
    assert reading.snapshot is not None
    assert reading.snapshot["runtime"] == RUNTIME
    assert reading.violations == ("runtime.round was changed from 3 to '99'",)


@pytest.mark.parametrize(
    "runtime",
    [
        {**RUNTIME, "round": 2, "datetime": "2026-02-20T18:40:00.000000Z"},
        {"round": 1},
    ],
)
def test_a_trailer_of_an_earlier_round_is_not_applied(runtime: dict[str, Any]) -> None:
    reading = read_reply(reply(runtime=runtime), RUNTIME)
    assert (reading.visible, reading.snapshot, reading.status) == ("Hello.", None, "rejected")
    assert "earlier" in reading.violations[0]


@pytest.mark.parametrize("change", [{"round": 2}, {"datetime": "2020-01-01T00:00:00Z"}, {"round": "3"}, {"round": 4}])
def test_a_runtime_that_shows_this_round_is_only_restored(change: dict[str, Any]) -> None:
    reading = read_reply(reply(runtime={**RUNTIME, **change}), RUNTIME)
    assert reading.snapshot == state()
    assert len(reading.violations) == 1


def test_a_copy_of_the_request_is_not_applied() -> None:
    reading = read_reply(reply(), RUNTIME, request_texts=["hi", f"please repeat: {reply()}"])
    assert (reading.visible, reading.snapshot, reading.status) == ("Hello.", None, "rejected")
    assert reading.violations == ("the trailer is a copy of text in the request",)


@pytest.mark.parametrize("fence", ["```", "~~~"])
def test_an_example_in_a_code_block_is_text(fence: str) -> None:
    text = f"Like this:\n\n{fence}\n{SEPARATOR}\n{json.dumps(state(runtime=EARLIER))}\n{fence}\n\nThat is all."
    assert read_reply(text, RUNTIME).visible == text
    assert read_reply(reply(text), RUNTIME).visible == text
    assert read_reply(reply(text), RUNTIME).snapshot == state()


PIECES = st.sampled_from(
    [
        SEPARATOR,
        SEPARATOR[:5],
        "<",
        ">",
        "CONTEXT",
        "\n",
        " ",
        "{",
        "}",
        "`",
        '"memory"',
        "a",
        "é",
        "😀",
        json.dumps(state()),
    ]
)
TEXTS = st.lists(PIECES | st.text(max_size=3), max_size=12).map("".join) | st.text().map(reply)


@given(TEXTS, st.lists(st.integers(0, 400), max_size=12))
def test_stream_shows_the_same_text_as_the_whole_reply_for_every_cut(text: str, cuts: list[int]) -> None:
    stream = ReplyStream(RUNTIME)
    edges = [0, *sorted(cut % (len(text) + 1) for cut in cuts), len(text)]
    pieces = [text[start:end] for start, end in pairwise(edges)]
    shown = "".join(stream.feed(piece) for piece in pieces) + stream.close()
    whole = read_reply(text, RUNTIME)
    assert shown == whole.visible
    assert stream.reading == whole


@given(st.text() | TEXTS)
def test_reading_never_raises_and_shows_nothing_that_was_not_there(text: str) -> None:
    stream = ReplyStream(RUNTIME)
    shown = stream.feed(text) + stream.close()
    assert "".join(text[start:end] for start, end in stream.spans) == shown == stream.reading.visible
    assert all(before[1] < after[0] for before, after in pairwise(stream.spans))


def test_text_goes_out_as_soon_as_it_cannot_be_a_trailer() -> None:
    stream = ReplyStream(RUNTIME)
    assert stream.feed("Hello") == "Hello"
    assert stream.feed(", world.\n") == ", world."
    assert stream.feed("<<<CON") == ""
    assert stream.feed("TROL") == "\n<<<CONTROL"
    assert stream.feed(f"\n{SEPARATOR}") == ""
    assert stream.feed(" is a mark.\nIt") == f"\n{SEPARATOR} is a mark.\nIt"
    assert stream.feed(f"\n{SEPARATOR}\n{{") == ""
    assert stream.close() == ""
