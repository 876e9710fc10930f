"""Actions in a model's answer: taken out of its text however it is cut, and nothing else is."""

import re
from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxwrap.protocol.reply import ReplyStream
from ctxwrap.workingset.actions import ActionStream
from ctxwrap.workingset.requests import ADD, ADJUST, REMOVE, requests_in_text
from tests.conformance.examples import ACTIONS as THREE
from tests.growth import grows_too_fast

ONE = f"action: {ADD}\npath: a.md\nwhy: It matters\n"
TRAILER = '\n<<<CONTEXT>>>\n{"version":"2.2","memory":{"core":[],"working":[],"ephemeral":[]}}'


def read(pieces: Sequence[str], *, shown: str = "") -> tuple[str, tuple[str, ...]]:
    """What is shown of an answer that comes in these pieces, and the actions in it."""
    stream = ActionStream(ReplyStream(), lambda text: text in shown)
    text = "".join(stream.feed(piece) for piece in pieces) + stream.close()
    fed = "".join(pieces)
    assert "".join(fed[start:end] for start, end in stream.spans) == text
    assert stream.reading.visible == text
    return text, stream.reading.actions


def actions(blocks: Sequence[str]) -> list[tuple[str, str]]:
    return [(each.action, each.path) for block in blocks for each in requests_in_text(block)]


@pytest.mark.parametrize("fence", ["", "```yaml", "```yml", "~~~yaml"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_the_three_actions_of_one_block_are_read_and_not_shown(fence: str, end: str) -> None:
    block = f"{fence}\n{THREE}{fence[:3]}\n" if fence else THREE
    text, blocks = read([f"Let me see.\n\n{block}\nDone.{TRAILER}".replace("\n", end)])
    assert text == "Let me see.\n\nDone.".replace("\n", end)
    assert actions(blocks) == [
        (ADD, "newly_discovered.md"),
        (REMOVE, "no_longer_needed.md"),
        (ADJUST, "important_file.md"),
    ]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (ONE, ""),
        (f"Yes.\n{ONE}No.", "Yes.\nNo."),
        (f"{ONE}\n# Summary\nAll is well.", "# Summary\nAll is well."),
        (f"{ONE}```python\nx = 1\n```", "```python\nx = 1\n```"),
        (f"# Why\n\n{ONE}", "# Why"),
        (f"```py\na\n```\n{ONE}b", "```py\na\n```\nb"),
        (f"{ONE}path: b.md\nEnd.", "path: b.md\nEnd."),
        (f"action: {ADD}\n{ONE}", f"action: {ADD}"),
    ],
)
def test_text_around_an_action_block_is_shown(text: str, shown: str) -> None:
    visible, blocks = read([text])
    assert visible == shown
    assert actions(blocks) == [(ADD, "a.md")]


@pytest.mark.parametrize(
    "text",
    [
        "```yaml\nservices:\n  web: {}\n```\n",
        f"```yaml\n{ONE}other: 1\n```\n",
        f"```yaml\npath: a.md\naction: {ADD}\n```\n",
        f"```yaml\n{ONE}",
        f"```yaml\naction: {ADD}\nwhy: no path\n```\n",
        f"```yaml\n{ONE.replace('It matters', 'it: matters')}```\n",
        f"```yaml\n{ONE.replace('a.md', '|')}  a.md\n```\n",
        f"```python\n{ONE}```\n",
        f"````\n```yaml\n{ONE}```\n````\n",
        f"```\n{ONE}```\n",
        "action: dance\npath: a.md\nwhy: so\n",
        f"The action: {ADD}\n",
        f"  action: {ADD}\n  path: a.md\n  why: w\n",
        f"- action: {ADD}\n  path: a.md\n  why: w\n",
        f"action: {ADD}\npath: a.md\npath: b.md\nwhy: " + "x" * 20_000,
        "`code` begins a line\n# A title\n## Another\n---\npath: a.md\n",
    ],
)
def test_text_that_is_not_an_action_is_shown(text: str) -> None:
    visible, blocks = read([text])
    if "path: b.md" in text:  # the first two lines are an action, the rest is not
        assert visible == text.partition("a.md\n")[2]
    else:
        assert (visible, blocks) == (text, ())


def test_action_block_quoted_from_the_request_is_text() -> None:
    text = f"You wrote:\n```yaml\n{ONE}```\n"
    assert read([text], shown=f"Explain this:\n{ONE}") == (text, ())


def test_action_blocks_beyond_the_limit_are_text() -> None:
    visible, blocks = read([f"{ONE}x\n" * 30])
    assert len(blocks) == 20
    assert visible.count("action:") == 10


PARTS = st.sampled_from(
    [
        *THREE.splitlines(keepends=True),
        *("\n", " ", "  \n", "---\n", "```", "````", "~~~", "```yaml\n", "```\n", "yaml", "\r\n", "#", "x", "\u2028"),
        *("action", ":", " add_to_working_set\n", "path: b.md\n", "why: ", "<<<CONTEXT>>>\n", "- ", "ä`", "z" * 101),
        *(" " * 1300, "# " + "c" * 1300, ONE, TRAILER),
    ]
)


@given(st.lists(PARTS, max_size=14), st.lists(st.integers(0, 400), max_size=8))
def test_stream_shows_the_same_text_for_every_cut(parts: list[str], cuts: list[int]) -> None:
    text = "".join(parts)
    places = sorted({0, len(text), *(cut % (len(text) + 1) for cut in cuts)})
    pieces = [text[start:end] for start, end in pairwise(places)]
    whole = read([text])
    assert read(pieces) == whole
    assert read(list(text)) == whole
    kept = re.sub(r"\s", "", read([text])[0])
    everything = iter(re.sub(r"\s", "", text))
    assert all(char in everything for char in kept), "what is shown was written, in its order"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("No", "No"),
        ("action: d", "action: d"),
        ("# A title\nN", "# A title\nN"),
        (f"{ONE}N", "N"),
        ("`x", "`x"),
        ("```yaml\nservices:", "```yaml\nservices:"),
    ],
)
def test_text_is_shown_as_soon_as_it_can_be_no_action(text: str, shown: str) -> None:
    stream = ActionStream(ReplyStream(), lambda _: False)
    assert "".join(map(stream.feed, text)) == shown


@pytest.mark.parametrize(
    "unit", [ONE, "# c\n", "\n", "```yaml\n", "action: ", f"{ONE}\n\n# c\n", "```yaml\n```\n", "x"]
)
def test_reading_actions_takes_linear_time(unit: str) -> None:
    assert not grows_too_fast(lambda text: read([text]), lambda size: unit * (size // len(unit)), 40_000)
