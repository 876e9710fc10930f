"""Text and snapshots in any order: no word of the answer is lost, no byte of a snapshot is shown."""

import json
from collections.abc import Sequence
from itertools import pairwise, product
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxwrap.protocol import ReplyStream, read_reply
from ctxwrap.protocol.instructions import SEPARATOR
from tests.protocol.heldout import HELD_OUT
from tests.protocol.renderings import CLASSES, Table, rendered
from tests.protocol.test_separator import JSON, OLD, RUNTIME, STATE
from tests.support import examples

TEXTS = (
    "Sure!",
    "The capital is Paris.\n\n1. Visit the Louvre.\n2. See the tower.",
    "> quoted\n\nAnd more.",
    "- one\n- two",
    "| a | b |\n|---|---|\n| 1 | 2 |",
    "# A heading",
    "```py\nx = {}\n```",
    "```\nplain\n```",
    '```json\n{"name": "x", "content": "y"}\n```',
    '"Quoted," she said.',
    "[a link](https://example.org)",
    "Name: Bob",
    "Memory: 16 GB, version 2.2",
    "{name}, hello",
    "<b>bold</b> and 1 < 2",
    "    indented",
    "`x` is a variable",
    "The context matters: {see} [1].",
    "Write <<<CONTEXT>>> at the end.",
    "“Hi” 😀",
)


def task(number: int) -> str:
    return f"secret task {number}"


def snapshot(number: int) -> str:
    return json.dumps({**STATE, "active_task": task(number)})


def indented(number: int) -> str:
    return json.dumps({**STATE, "active_task": task(number)}, indent=2)


def prefixed(prefix: str, text: str) -> str:
    return "\n".join(prefix + line for line in text.split("\n"))


WRITTEN = {
    "plain": lambda at: f"{SEPARATOR}\n{snapshot(at)}",
    "indented": lambda at: f"{SEPARATOR}\n{indented(at)}",
    "fenced": lambda at: f"{SEPARATOR}\n```json\n{snapshot(at)}\n```",
    "in a fence": lambda at: f"```json\n{SEPARATOR}\n{snapshot(at)}\n```",
    "spelled otherwise": lambda at: f"**<<CONTEXT>>**\n{snapshot(at)}",
    "in tags": lambda at: f"<CONTEXT>\n{snapshot(at)}\n</CONTEXT>",
    "with an end": lambda at: f"{SEPARATOR}\n{snapshot(at)}\n<<<END CONTEXT>>>",
}
DAMAGED = {
    "a comma too many": lambda at: f"{SEPARATOR}\n{snapshot(at)[:-1]},}}",
    "single quotes": lambda at: f"{SEPARATOR}\n" + snapshot(at).replace('"', "'"),
    "commented out": lambda at: prefixed("// ", f"{SEPARATOR}\n{indented(at)}"),
    "quoted": lambda at: prefixed("> ", f"{SEPARATOR}\n{indented(at)}"),
    "a bracket too many": lambda at: f"{SEPARATOR}\n{snapshot(at)}}}",
}


class Segment(NamedTuple):
    text: str
    number: int = -1
    """Of a snapshot."""


@st.composite
def replies(draw: st.DrawFn) -> list[Segment]:
    """Texts and snapshots in any order, and maybe a damaged one at the end, with a text behind it."""
    segments = []
    for at in range(draw(st.integers(0, 5))):
        if draw(st.booleans()):
            segments.append(Segment(draw(st.sampled_from(TEXTS))))
        else:
            segments.append(Segment(WRITTEN[draw(st.sampled_from(sorted(WRITTEN)))](at), at))
    if draw(st.booleans()):
        segments.append(Segment(DAMAGED[draw(st.sampled_from(sorted(DAMAGED)))](9), 9))
        if draw(st.booleans()):
            segments.append(Segment(draw(st.sampled_from(TEXTS))))
    return segments


def streamed(text: str, cuts: Sequence[int]) -> tuple[str, ReplyStream]:
    stream = ReplyStream(RUNTIME)
    edges = [0, *sorted(cut % (len(text) + 1) for cut in cuts), len(text)]
    return "".join([stream.feed(text[start:end]) for start, end in pairwise(edges)]) + stream.close(), stream


@examples(300)
@given(replies(), st.lists(st.integers(0, 4000), max_size=20))
def test_all_text_is_shown_and_no_snapshot_is(segments: list[Segment], cuts: list[int]) -> None:
    text = "\n\n".join(segment.text for segment in segments)
    snapshots = [segment for segment in segments if segment.number >= 0]
    visible, stream = streamed(text, cuts)
    reading = stream.reading
    assert visible == "\n\n".join(segment.text for segment in segments if segment.number < 0)
    assert reading == read_reply(text, RUNTIME)
    if snapshots:
        assert reading.snapshot is not None
        assert reading.snapshot["active_task"] == task(snapshots[-1].number)
        assert all(task(segment.number) in reading.trailer for segment in snapshots)
    assert ("more than one snapshot" in reading.violations) == (len(snapshots) > 1)


@examples(60)
@given(replies())
def test_shown_text_keeps_its_positions(segments: list[Segment]) -> None:
    text = "\n\n".join(segment.text for segment in segments)
    visible, stream = streamed(text, range(0, len(text), 7))
    assert "".join(text[start:end] for start, end in stream.spans) == visible


def test_text_after_a_snapshot_is_streamed_immediately() -> None:
    stream = ReplyStream(RUNTIME)
    assert stream.feed(f"Sure!\n\n{SEPARATOR}\n{JSON}") == "Sure!"
    assert stream.feed("\n\nThe ans") == "\n\nThe ans"
    assert stream.feed("wer is 42.") == "wer is 42."
    assert stream.feed(f"\n{SEPARATOR}\n{JSON}\nBye") == "\nBye"
    assert stream.close() == ""
    assert stream.reading.violations == ("text follows the snapshot", "more than one snapshot")
    assert stream.reading.trailer == f"{SEPARATOR}\n{JSON}\n\n{SEPARATOR}\n{JSON}"


def test_snapshot_continued_after_its_end_is_not_shown() -> None:
    for at in range(1, len(JSON)):
        stream = ReplyStream(RUNTIME)
        assert stream.feed(f"Sure!\n\n{SEPARATOR}\n{JSON[:at]}") + stream.close() == "Sure!"
        assert stream.feed(JSON[at:]) + stream.close() == ""


@pytest.mark.parametrize(
    ("before", "behind", "visible"),
    [
        ("Sure!\n\n", "\n\nMore", "Sure!\n\nMore"),
        ("Sure!\n", "\n\nMore", "Sure!\n\nMore"),
        ("Sure!\n\n", "\nMore", "Sure!\n\nMore"),
        ("Sure! ", "\nMore", "Sure!\nMore"),
        ("", "\n\nMore", "More"),
        ("\n\n", "\n\nMore\n", "More\n"),
        ("Sure!\n\n", "\n\n    indented", "Sure!\n\n    indented"),
        ("Sure!\n\n", "\n\n", "Sure!"),
        ("Sure!\n", "\n<|im_end|>", "Sure!"),
        ("Sure!\n", "\n```\nls\n```", "Sure!\n```\nls\n```"),
        ("Sure!\n", "\n```\n\nMore", "Sure!\n\nMore"),
        ("<div>\n", "\n</div>", "<div>\n</div>"),
    ],
)
def test_white_space_around_a_snapshot_is_reduced(before: str, behind: str, visible: str) -> None:
    assert read_reply(f"{before}{SEPARATOR}\n{JSON}{behind}", RUNTIME).visible == visible


@pytest.mark.parametrize("behind", ["\n\nMore.", "\n\nMore.\n\nAnd more."])
@pytest.mark.parametrize(
    "damaged",
    [
        JSON[:-1],
        JSON.replace("}]", "}", 1),
        JSON.replace('"version"', "version"),
        JSON.replace('"The sky', "The sky"),
        JSON.replace(", ", " "),
        JSON.replace('"', "&quot;"),
        JSON.replace("}", "", 1),
        '"version": "2.2", "memory": [[[}, "active_task": "x"}',
    ],
)
def test_text_after_a_damaged_snapshot_is_shown(damaged: str, behind: str) -> None:
    reading = read_reply(f"Hello.\n\n{SEPARATOR}\n{damaged}{behind}", RUNTIME)
    assert reading.visible == f"Hello.{behind}"
    assert reading.trailer == f"{SEPARATOR}\n{damaged}"


@pytest.mark.parametrize("spelling", [SEPARATOR, "<<CONTEXT>>", "[CONTEXT]"])
@pytest.mark.parametrize("tail", ['{"version": "2.2", "memory": [[[', '{"memory": 3, "active_task": {}, "memory": 4}'])
def test_unreadable_snapshot_is_not_shown(spelling: str, tail: str) -> None:
    reading = read_reply(f"Hello.\n\n{spelling}\n{tail}", RUNTIME)
    assert (reading.visible, reading.trailer) == ("Hello.", f"{spelling}\n{tail}")
    assert reading.status == ("partial" if "[[[" in tail else "rejected")


def test_in_a_code_block_only_a_snapshot_of_this_turn_is_taken() -> None:
    for json_text, is_shown in ((OLD, True), (JSON, False)):
        for head in (f"{SEPARATOR}\n", ""):
            block = f"```json\n{head}{json_text}\n```"
            reading = read_reply(f"Look:\n\n{block}\n\nMore.", RUNTIME)
            assert reading.visible == (f"Look:\n\n{block}\n\nMore." if is_shown else "Look:\n\nMore.")
            assert (reading.status == "missing") is is_shown
            assert ("text follows the snapshot" in reading.violations) is not is_shown


DECORATED = [
    *("### <<<CONTEXT>>> ###", "--- CONTEXT ---", "[CONTEXT]", "🧠 <<<CONTEXT>>> 🧠", "**<<<CONTEXT>>>**", "CONTEXT"),
    *("\x1b[36m<<<CONTEXT>>>\x1b[0m", r"\u003c\u003c\u003cCONTEXT\u003e\u003e\u003e", "═══ <<<CONTEXT>>> ═══"),
    *("- <<<CONTEXT>>>", "| <<<CONTEXT>>>", "// <<<CONTEXT>>>", "# <<<CONTEXT>>>", "-- <<<CONTEXT>>>", "**CONTEXT**"),
]


@pytest.mark.parametrize("separator", DECORATED)
@pytest.mark.parametrize("behind", ["", "\n\nMore."])
def test_decorated_separator_is_recognised(separator: str, behind: str) -> None:
    reading = read_reply(f"Hello.\n\n{separator}\n{JSON}{behind}", RUNTIME)
    assert (reading.visible, reading.snapshot) == (f"Hello.{behind}", STATE)


@pytest.mark.parametrize("prefix", ["> ", "| ", "// ", "# ", "- "])
def test_prefix_on_every_line_is_removed(prefix: str) -> None:
    trailer = prefixed(prefix, f"{SEPARATOR}\n{json.dumps(STATE, indent=2)}")
    reading = read_reply(f"Hello.\n\n{trailer}\n\nMore.", RUNTIME)
    assert (reading.visible, reading.snapshot, reading.status) == ("Hello.\n\nMore.", STATE, "repaired")


@pytest.mark.parametrize(
    "text",
    [
        'Context matters.\n\n[context]\n{"name": "x"}\n\nThat is it.',
        '## Context\n\n```json\n{"version": "2.2", "memory": {"core": []}}\n```\n\nThat is the format.',
        '<context>\n  <item version="2.2"/>\n</context>\nXML is fine.',
        'CONTEXT\n\nThe settings:\n{"memory": "16GB"}\n\nThat is all.',
        '{"version": "2.0", "memory": "16GB"}',
        '--- Context ---\n{"a": 1}\n--- End ---',
        f"Models end with {SEPARATOR} and then {{...}}.",
        f"{SEPARATOR}\n{{…}}\n\nThat is how it looks.",
        "[CONTEXT] is a label.\n{x} is another.",
        'const CONTEXT = {\n  "version": "2.2",\n  "memory": {}\n}\n\nsets it.',
        f"```\n{SEPARATOR}\n{OLD}\n```\nis an example.",
    ],
)
def test_text_about_context_is_shown(text: str) -> None:
    for cuts in ((), range(len(text))):
        assert streamed(text, cuts)[0] == text
    assert read_reply(text, RUNTIME).status == "missing"
    assert read_reply(f"{text}\n\n{SEPARATOR}\n{JSON}", RUNTIME).visible == text


@pytest.mark.parametrize(("table", "least"), [(CLASSES, 0.97), (HELD_OUT, 0.99)], ids=["renderings", "held out"])
def test_a_state_in_another_form_behind_the_separator_is_not_shown(table: Table, least: float) -> None:
    right = []
    for name, seed in product(table, range(4)):
        state, text = rendered(name, seed, table)
        reply = f"Here it is.\n\n{SEPARATOR}\n{text}"
        reading = read_reply(reply, state["runtime"])
        stream = ReplyStream(state["runtime"])
        streamed = "".join(stream.feed(reply[at : at + 7]) for at in range(0, len(reply), 7)) + stream.close()
        assert streamed == reading.visible
        right.append(reading.visible == "Here it is.")
    assert sum(right) >= least * len(right)


@pytest.mark.parametrize(
    "prose", ["and forget the rest.", "Remember to water the plants.\n\nThen rest.", "- milk\n- eggs\n- a long walk"]
)
def test_prose_behind_a_separator_that_stands_alone_is_text(prose: str) -> None:
    text = f"Others write\n\n{SEPARATOR}\n\n{prose}"
    assert read_reply(text).visible == text
