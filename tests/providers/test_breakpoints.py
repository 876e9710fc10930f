"""Breakpoints of Anthropic's prompt cache: where ours go, and that the caller's stay valid."""

import copy
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxwrap.providers.anthropic import MESSAGES
from ctxwrap.providers.openai_chat import CHAT
from ctxwrap.providers.openai_responses import RESPONSES
from ctxwrap.types import Body, Injection, Message
from tests.providers.bodies import BLOCK, SPEECHES, Exchange, seen, words

MARK = {"type": "ephemeral"}
MINUTES = {"type": "ephemeral", "ttl": "5m"}
HOUR = {"type": "ephemeral", "ttl": "1h"}
SAID = {"role": "assistant", "content": "said"}
THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "s"}


def text(words: str, mark: Body | None = None) -> Body:
    return {"type": "text", "text": words, **({"cache_control": mark} if mark else {})}


def user(content: Any) -> Body:
    return {"role": "user", "content": content}


def sent(body: Body, **more: Any) -> Body:
    before = copy.deepcopy(body)
    changed = MESSAGES.inject(body, Injection("P", BLOCK, breakpoints=True, **more))
    assert body == before
    return changed


def test_breakpoints_are_at_system_prompt_history_and_newest_text() -> None:
    body = {"system": "own", "messages": [user("one"), SAID, user("two")]}
    marked = sent(body, standing="standing")
    assert marked["system"] == [text("P\n\nown\n\nstanding", MARK)]
    said = {"role": "assistant", "content": [text("said", MARK)]}
    assert marked["messages"] == [user("one"), said, user([text("two", MARK), text(BLOCK)])]


def test_first_user_message_has_its_breakpoint_after_the_background() -> None:
    marked = sent({"messages": [user("hi")]}, background="background")
    assert marked["messages"] == [user([text("background"), text("hi", MARK), text(BLOCK)])]


def test_changing_block_has_no_breakpoint() -> None:
    marked = sent({"messages": [SAID]}, background="background")
    assert marked["system"] == [text("P\n\nbackground", MARK), text(BLOCK)]
    assert marked["messages"] == [SAID]


@pytest.mark.parametrize(
    "unmarkable", [THOUGHT, {"type": "redacted_thinking", "data": "x"}, text(""), text(" \n"), {"type": "new_kind"}]
)
def test_blocks_that_cannot_have_a_breakpoint_get_none(unmarkable: Body) -> None:
    image = {"type": "image", "source": {"type": "url", "url": "u"}}
    said = {"role": "assistant", "content": [text("said"), unmarkable]}
    marked = sent({"messages": [user("one"), said, user([image, unmarkable])]})["messages"]
    assert marked[1]["content"] == [text("said", MARK), unmarkable]
    assert marked[2]["content"] == [{**image, "cache_control": MARK}, unmarkable, text(BLOCK)]
    only = {"role": "assistant", "content": [unmarkable]}
    assert sent({"messages": [user("one"), only, user("two")]})["messages"][:2] == [user([text("one", MARK)]), only]


@pytest.mark.parametrize(
    "block",
    [
        {"type": "tool_result", "tool_use_id": "t", "content": "42"},
        {"type": "web_search_tool_result", "tool_use_id": "t", "content": []},
        {"type": "document", "source": {"type": "text", "data": "d"}},
    ],
    ids=lambda block: str(block["type"]),
)
def test_blocks_other_than_text_have_breakpoints(block: Body) -> None:
    marked = sent({"messages": [user([block]), user("two")]})["messages"]
    assert marked[0]["content"] == [{**block, "cache_control": MARK}]


def test_long_turn_has_a_breakpoint_at_the_last_calls_end() -> None:
    """The provider looks back no further than twenty blocks from a mark."""

    def after(results: int) -> list[Body]:
        steps = [{"type": "tool_result", "tool_use_id": str(number), "content": "42"} for number in range(results)]
        messages = [user("first"), SAID, user("one"), {"role": "user", "content": steps}, SAID, user("two")]
        return [block for place, block in marks(sent({"messages": messages})) if place[0] == "messages"]

    assert text("one", MARK) not in after(18)
    assert text("one", MARK) in after(19)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"tools": [{"name": "f", "cache_control": MARK}] * 4, "system": "own"}, []),
        ({"tools": [{"name": "f", "cache_control": MARK}] * 5, "system": "own"}, []),
        ({"tools": [{"name": "f", "cache_control": MARK}] * 3, "system": "own"}, ["P\n\nown"]),
        ({"tools": [{"name": "f", "cache_control": None}], "system": "own"}, ["P\n\nown", "said", "two"]),
        ({"cache_control": MARK, "tools": [{"name": "f", "cache_control": MARK}]}, ["P", "said"]),
        ({"cache_control": HOUR}, []),
        ({"tools": [{"name": "f", "cache_control": HOUR}]}, ["P", "said", "two"]),
        ({"system": [text("own", HOUR)], "standing": "standing"}, ["own", "standing", "said", "two"]),
        ({"system": [text("own", MARK)]}, ["own", "said", "two"]),
        ({"tools": [{"name": "f", "cache_control": MARK}], "system": [text("own", MINUTES)]}, ["own", "said", "two"]),
    ],
)
def test_callers_breakpoints_come_first(body: Body, expected: list[str]) -> None:
    body = {"messages": [user("one"), SAID, user("two")], **body}
    standing = body.pop("standing", "")
    marked = sent(body, standing=standing)
    assert [block["text"] for _, block in marks(marked) if "text" in block] == expected
    if not expected:
        assert marked == MESSAGES.inject(body, Injection("P", BLOCK, standing=standing))


def test_breakpoints_inside_documents_count() -> None:
    source = {"type": "content", "content": [text("page", MARK)] * 3}
    body = {"messages": [user([{"type": "document", "source": source}]), SAID, user("two")]}
    assert [block["text"] for _, block in marks(sent(body))] == ["P"]


def test_no_short_breakpoint_comes_before_a_long_one_of_the_caller() -> None:
    result = {"type": "tool_result", "tool_use_id": "t", "content": [text("42", HOUR)]}
    messages = [user("one"), SAID, user([result]), SAID, user("two")]
    assert [block.get("text") for _, block in marks(sent({"messages": messages}))] == ["42", "said", "two"]
    messages = [user("one"), SAID, user([text("two", HOUR)])]
    assert [block["text"] for _, block in marks(sent({"messages": messages}))] == ["two"]


def test_breakpoints_of_logged_messages_are_not_sent() -> None:
    image = {"type": "image", "source": {"type": "url", "url": "u"}, "cache_control": MARK}
    history = tuple(Message("user", [image]) for _ in range(6))
    marked = MESSAGES.inject({"messages": [user("hi")]}, Injection("P", BLOCK, history))
    assert not list(marks(marked))


def test_provider_threads_get_no_breakpoints() -> None:
    for kind in ("create", "continue"):
        assert not list(marks(sent({"messages": [user("hi")], "thread": {"type": kind}})))


def test_other_apis_get_no_breakpoints() -> None:
    body = {"messages": [user("hi"), SAID, user("ho")], "input": [user("hi"), SAID, user("ho")], "store": False}
    for adapter in (CHAT, RESPONSES):
        added = Injection("P", BLOCK, standing="standing", background="background")
        marking = Injection("P", BLOCK, standing="standing", background="background", breakpoints=True)
        assert adapter.inject(body, marking) == adapter.inject(body, added)


def marks(body: Body) -> Iterator[tuple[tuple[Any, ...], Body]]:
    """Every marked block in the order that the provider goes by, blocks before those inside of them."""
    for name in ("tools", "system", "messages"):
        value = body.get(name)
        yield from _marks(value if isinstance(value, list) else [], (name,))
    if body.get("cache_control"):
        yield ("whole",), {"cache_control": body["cache_control"]}


def _marks(values: list[Any], place: tuple[Any, ...]) -> Iterator[tuple[tuple[Any, ...], Body]]:
    for at, value in enumerate(values):
        if value.get("cache_control"):
            yield (*place, at), value
        inner = value.get("content")
        yield from _marks(inner if isinstance(inner, list) else [], (*place, at))


mark_or_none = st.sampled_from([None, None, None, MARK, MINUTES, HOUR])
texts = st.builds(text, st.sampled_from(["a", "b", "", " "]), mark_or_none)
results = st.builds(
    lambda content, mark: {"type": "tool_result", "tool_use_id": "t", "content": content, "cache_control": mark},
    st.none() | st.just("42") | st.lists(texts, max_size=2),
    mark_or_none,
)
contents = st.none() | st.sampled_from(["", "a"]) | st.lists(texts | results | st.just(THOUGHT), max_size=3)
bodies = st.fixed_dictionaries(
    {
        "messages": st.lists(
            st.builds(
                lambda role, content: {"role": role, "content": content},
                st.sampled_from(["user", "assistant"]),
                contents,
            ),
            max_size=6,
        )
    },
    optional={
        "tools": st.lists(st.builds(lambda mark: {"name": "f", "cache_control": mark}, mark_or_none), max_size=3),
        "system": st.none() | st.just("own") | st.lists(texts, max_size=3),
        "cache_control": mark_or_none,
    },
)


def is_accepted(body: Body) -> bool:
    """What the provider checks of the marks in a request."""
    found = [block for _, block in marks(body)]
    hours = ["1h" if block["cache_control"].get("ttl") == "1h" else "5m" for block in found]
    unmarkable = [block for block in found if block.get("type") == "thinking" or block.get("text", "x").strip() == ""]
    return len(found) <= 4 and hours == sorted(hours) and not unmarkable


@given(body=bodies, standing=st.sampled_from(["", "standing"]), background=st.sampled_from(["", "background"]))
def test_accepted_requests_stay_accepted(body: Body, standing: str, background: str) -> None:
    added = {"standing": standing, "background": background}
    marked, plain = sent(body, **added), MESSAGES.inject(body, Injection("P", BLOCK, **added))
    theirs, ours = [block for _, block in marks(plain)], [block for _, block in marks(marked)]
    assert theirs == [block for _, block in marks(body)]
    assert all(block in ours for block in theirs)
    assert len(ours) <= max(4, len(theirs))
    assert is_accepted(marked) or not is_accepted(plain)
    assert not [block for block in ours if block.get("text") == BLOCK]


@given(st.lists(st.builds(Exchange, words, words, called=st.integers(0, 14)), min_size=2, max_size=4))
def test_calls_read_the_cache_that_the_last_call_wrote(said: list[Exchange]) -> None:
    """What a mark covered is found by looking back from a mark of the next call, however much happened between."""
    speech = next(speech for speech in SPEECHES if speech.adapter is MESSAGES)
    one, other = (sent(speech.whole(talk, "own"), background="background") for talk in (said[:-1], said))
    found = [prefix for mark in prefixes(other) for prefix in looked_at(mark)]
    assert prefixes(one)[-1] in found


def prefixes(body: Body) -> list[tuple[str, ...]]:
    """The blocks up to each mark."""
    blocks: list[tuple[str, Body]] = [("system", block) for block in body["system"]]
    for message in body["messages"]:
        content = message["content"]
        blocks += [(message["role"], block) for block in ([text(content)] if isinstance(content, str) else content)]
    bare = [str((role, {k: v for k, v in block.items() if k != "cache_control"})) for role, block in blocks]
    return [tuple(bare[: at + 1]) for at, (_, block) in enumerate(blocks) if block.get("cache_control")]


def looked_at(mark: tuple[str, ...]) -> list[tuple[str, ...]]:
    return [mark[:end] for end in range(len(mark), max(0, len(mark) - 20), -1)]


def test_breakpoints_change_no_text() -> None:
    body = {"system": "own", "messages": [user("one"), SAID, user("two")]}
    plain = MESSAGES.inject(body, Injection("P", BLOCK))
    assert seen(MESSAGES, sent(body)).replace("|" + BLOCK, "\n\n" + BLOCK) == seen(MESSAGES, plain)
