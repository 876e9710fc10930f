"""Reading replies: what the user sees and what is remembered, whole and in every cut."""

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxwrap.protocol import ReplyStream, read_reply
from ctxwrap.protocol.text import SEPARATOR

RUNTIME = {"round": 3, "datetime": "2026-02-20T18:45:12.000001Z", "startup_at": "2026-02-20T18:30:00.000000Z"}
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
def test_a_mention_is_text(text: str) -> None:
    reading = read_reply(text, RUNTIME)
    assert (reading.visible, reading.snapshot) == (text, None)


def test_the_last_trailer_wins() -> None:
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
    assert reading.violations == ("runtime.round was changed from 3 to 99",)


@pytest.mark.parametrize(
    ("damage", "repair"),
    [
        (lambda text: text.replace("}]", "},]"), "trailing-comma"),
        (lambda text: text.replace(f"{SEPARATOR}\n", f"{SEPARATOR}\n```json\n") + "\n```", "code-fence"),
        (lambda text: text + "\nHope that helps!", "trailing-text"),
    ],
)
def test_simple_damage_is_mended(damage: Any, repair: str) -> None:
    reading = read_reply(damage(reply()), RUNTIME)
    assert (reading.status, reading.repairs) == ("repaired", (repair,))
    assert (reading.visible, reading.snapshot) == ("Hello.", state())


@pytest.mark.parametrize(
    "tail",
    [
        "{",
        '{"memory": {"core": [',
        '{"memory": []}',
        '{"memory": {}, "memory": {}}',
        '{"memory": {"core": [NaN]}}',
        "{" * 5000,
        "[" * 100_000,
        '{"a":' * 40 + "1" + "}" * 40,
    ],
)
def test_a_trailer_that_cannot_be_read_is_rejected_and_never_shown(tail: str) -> None:
    reading = read_reply(f"Hello.\n{SEPARATOR}\n{{{tail}", RUNTIME)
    assert (reading.visible, reading.snapshot, reading.status) == ("Hello.", None, "rejected")
    assert reading.violations


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"decay": 1.5}, "outside 0 to 1"),
        ({"decay": True}, "no number"),
        ({"decay": "0.5"}, "no number"),
        ({"round": 1.5}, "no whole number"),
        ({"tags": "a"}, "no list of words"),
        ({"content": ""}, "no text"),
        ({"id": 7}, "no text"),
        ({"id": "core-1"}, "stands twice"),
        ({"content": "x" * 20_000}, "longer than"),
    ],
)
def test_a_bad_item_is_dropped_and_the_good_ones_stay(change: dict[str, Any], reason: str) -> None:
    bad = {**ITEM, "id": "core-2", **change}
    memory = {"core": [ITEM, bad, "no object"], "working": [], "ephemeral": [], "attic": []}
    reading = read_reply(reply(memory=memory), RUNTIME)
    assert reading.snapshot is not None
    assert reading.snapshot["memory"]["core"] == [ITEM]
    assert reading.status == "partial"
    assert reason in reading.violations[0]
    assert reading.violations[1:] == ("core item dropped: it is no object", "unknown tier 'attic' dropped")


def test_a_mistake_forgets_nothing() -> None:
    known = {**ITEM, "id": "known", "content": "The grass is green."}
    previous = state(memory={"core": [ITEM, known], "working": [{**ITEM, "id": "w"}], "ephemeral": []}, active_task="x")
    memory = {"core": [{**known, "decay": "often"}], "working": "nothing", "ephemeral": []}
    given = state(memory=memory)
    del given["active_task"]
    reading = read_reply(f"Hello.\n{SEPARATOR}\n{json.dumps(given)}", RUNTIME, previous)
    assert reading.snapshot is not None
    assert reading.snapshot["memory"] == {**previous["memory"], "core": [known]}
    assert reading.snapshot["active_task"] == "x"
    assert reading.status == "partial"


def test_what_goes_on_behind_its_end_is_not_taken_for_whole() -> None:
    broken = json.dumps(state()).replace('"working"', '}, "working"', 1)
    assert read_reply(f"Hello.\n{SEPARATOR}\n{broken}", RUNTIME).status == "rejected"


def test_a_copy_of_the_request_is_not_applied() -> None:
    reading = read_reply(reply(), RUNTIME, request_texts=["hi", f"please repeat: {reply()}"])
    assert (reading.visible, reading.snapshot, reading.status) == ("Hello.", None, "rejected")
    assert reading.violations == ("the trailer is a copy of text in the request",)


@pytest.mark.parametrize("fence", ["```", "~~~"])
def test_an_example_in_a_code_block_is_text(fence: str) -> None:
    text = f"Like this:\n\n{fence}\n{SEPARATOR}\n{json.dumps(state())}\n{fence}\n\nThat is all."
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
def test_for_every_cut_the_stream_shows_what_the_whole_shows(text: str, cuts: list[int]) -> None:
    stream = ReplyStream(RUNTIME)
    edges = [0, *sorted(cut % (len(text) + 1) for cut in cuts), len(text)]
    pieces = [text[start:end] for start, end in pairwise(edges)]
    shown = "".join(stream.feed(piece) for piece in pieces) + stream.close()
    whole = read_reply(text, RUNTIME)
    assert shown == whole.visible
    assert stream.reading == whole


@given(st.text() | TEXTS)
def test_reading_never_raises_and_never_loses_text(text: str) -> None:
    reading = read_reply(text)
    assert text.startswith(reading.visible)


def test_text_goes_out_as_soon_as_it_cannot_be_a_trailer() -> None:
    stream = ReplyStream(RUNTIME)
    assert stream.feed("Hello") == "Hello"
    assert stream.feed(", world.\n") == ", world."
    assert stream.feed("<<<CON") == ""
    assert stream.feed("TROL") == "\n<<<CONTROL"
    assert stream.feed(f"\n{SEPARATOR}") == ""
    assert stream.feed(" is a mark") == f"\n{SEPARATOR} is a mark"
    assert stream.feed(f"\n{SEPARATOR}\n{{") == ""
    assert stream.close() == ""
