"""What is chosen: within its room, never half a tool call, and the same beginning for many calls."""

import json

from hypothesis import given
from hypothesis import strategies as st

from ctxwrap.pack.older_messages import OlderMessages, cut
from ctxwrap.pack.selection import NOT_VISIBLE, fit_passages, missed_passages, newest_first, select, speaker_lines
from ctxwrap.retrieval.selection import Passage
from ctxwrap.types import Candidate, HistoryMessage, Message

ROLES = st.sampled_from(["user", "assistant", "tool"])
OLDER = st.lists(st.tuples(ROLES, st.integers(0, 50)), max_size=30).map(
    lambda each: OlderMessages.of(
        [HistoryMessage(at, Message(role), tokens) for at, (role, tokens) in enumerate(each, 1)]
    )
)


@given(OLDER, st.slices(30))
def test_older_messages_are_read_like_a_list(older: OlderMessages, part: slice) -> None:
    part = slice(part.start, part.stop)
    messages, some = list(older), older[part]
    assert list(some) == messages[part]
    assert some.tokens == sum(each.tokens for each in messages[part])
    assert [some[-at] for at in range(1, len(some) + 1)] == messages[part][::-1]


@given(OLDER, st.integers(0, 600), st.integers(0, 40))
def test_recent_messages_start_with_a_user_message_and_fit(older: OlderMessages, room: int, began: int) -> None:
    start = cut(older, room, began)
    assert sum(each.tokens for each in older[start:]) <= room
    assert start == len(older) or older[start].message.role == "user"


@given(OLDER, st.integers(0, 600))
def test_history_that_fits_is_not_cut(older: OlderMessages, room: int) -> None:
    first = next((at for at, each in enumerate(older) if each.message.role == "user"), len(older))
    if first == 0 and sum(each.tokens for each in older) <= room:
        assert cut(older, room) == 0
    if cut(older, room) == len(older) > 0:
        users = [at for at, each in enumerate(older) if each.message.role == "user"]
        assert all(sum(each.tokens for each in older[at:]) > room for at in users)


@given(st.lists(st.integers(1, 60), min_size=30, max_size=200), st.integers(600, 2000))
def test_growing_conversation_is_cut_rarely(sizes: list[int], room: int) -> None:
    older, began, cuts, dropped = list[HistoryMessage](), 0, 0, 0
    for at, tokens in enumerate(sizes):
        older += [
            HistoryMessage(2 * at + 1, Message("user"), tokens),
            HistoryMessage(2 * at + 2, Message("assistant"), 5),
        ]
        start = cut(OlderMessages.of(older), room, began)
        if start < len(older):
            moved = older[start].number - began
            cuts += moved > 0 and began > 0
            dropped += sum(each.tokens for each in older if began <= each.number < older[start].number)
            began = older[start].number
    assert cuts <= dropped / (0.25 * room - 65) + 1, "each cut makes room for a good while"


def test_sliding_window_is_cut_in_steps() -> None:
    """The log holds only the newest messages at hand: the first of them leaves with every new one."""
    starts = set()
    began = 0
    for newest in range(200, 320, 2):
        older = OlderMessages.of(
            [
                HistoryMessage(n, Message("user" if n % 2 else "assistant"), 1)
                for n in range(max(1, newest - 199), newest + 1)
            ]
        )
        began = older[cut(older, 10_000, began)].number
        starts.add(began)
    assert len(starts) <= 4


def test_cut_messages_return_when_the_budget_grows() -> None:
    older = OlderMessages.of([HistoryMessage(n, Message("user"), 10) for n in range(1, 101)])
    assert cut(older, 10_000, began=95) == 0
    assert cut(older, 120, began=95) == 94, "but not for a little more room"


def test_tool_result_stays_with_its_call() -> None:
    """One message of Anthropic's may hold the results of tools and what the user says."""
    older = [
        HistoryMessage(1, Message("user"), 10, 0),
        HistoryMessage(2, Message("assistant", tool_calls=({"id": "c", "name": "n", "arguments": "{}"},)), 10, 1),
        HistoryMessage(3, Message("tool", tool_call_id="c"), 10, 2),
        HistoryMessage(4, Message("user"), 10, 2),
        HistoryMessage(5, Message("assistant"), 10, 3),
        HistoryMessage(6, Message("user"), 10, 4),
    ]
    assert cut(OlderMessages.of(older), 35) == 5


CANDIDATES = st.lists(
    st.builds(
        Candidate,
        st.sampled_from(["pinned", "children"]),
        st.text(max_size=5),
        st.integers(0, 100),
        visibility=st.sampled_from([("model",), ("user",), (), ("model", "tool")]),
    )
)


@given(CANDIDATES, st.integers(0, 500))
def test_every_candidate_is_selected_or_left_out_with_a_reason(candidates: list[Candidate], room: int) -> None:
    chosen, items = select(candidates, room)
    assert [(item.source, item.tokens) for item in items] == [(each.source, each.tokens) for each in candidates]
    assert [item.source for item in items if item.included] == [each.source for each in chosen]
    assert all(item.reason for item in items if not item.included)
    assert sum(each.tokens for each in chosen) <= room
    assert all("model" in each.visibility for each in chosen)


FOUND = (
    Passage(3, 0, "Lisbon now.", "2026-05-02", "Ann"),
    Passage(1, 0, "I live in Porto.", "2026-05-01", "Ann"),
    Passage(2, 0, "Really?", "2026-05-01", "Ben"),
)


def test_a_day_stands_in_its_first_line() -> None:
    chosen, _ = fit_passages(FOUND, len, 999, ("model",))
    assert speaker_lines(newest_first(chosen)) == [
        '{"2026-05-02 Ann":"Lisbon now."}',
        '{"2026-05-01 Ben":"Really?"}',
        '{"Ann":"I live in Porto."}',
    ]


@given(st.integers(0, 200))
def test_lines_take_what_their_items_count(limit: int) -> None:
    chosen, items = fit_passages(FOUND, len, limit, ("model",))
    lines = speaker_lines(newest_first(chosen))
    assert sum(len(line) + 1 for line in lines) == sum(item.tokens for item in items if item.included) <= limit
    assert [item.refs for item in items] == [("3.0",), ("1.0",), ("2.0",)]
    assert [item.freshness for item in items if item.included] == [each.number for each in chosen]


@given(st.lists(st.builds(Passage, st.integers(1, 9), st.integers(0, 2), st.text(), st.text(), st.text())))
def test_a_line_is_json_that_nothing_inside_can_end(passages: list[Passage]) -> None:
    for line, each in zip(speaker_lines(passages, 2), passages, strict=True):
        assert json.loads(line) == {f"{each.heading} {each.speaker}": each.text}
        assert "\n" not in line
        assert "<" not in line


def test_passages_that_the_model_may_not_see_are_left_out() -> None:
    chosen, items = fit_passages(FOUND, len, 999, ("user",))
    assert chosen == []
    assert {(item.included, item.reason, item.visibility) for item in items} == {(False, NOT_VISIBLE, ("user",))}


def test_what_was_missed_is_noted_with_its_reason() -> None:
    missed = missed_passages([FOUND[0]._replace(reasons=("it did not fit",)), FOUND[1]], ("model",))
    assert [item.reason for item in missed] == ["it did not fit", "others are more to the point"]
    assert not any(item.included for item in missed)


def test_lines_of_older_logs_keep_their_form() -> None:
    assert speaker_lines(FOUND[1:], 1)[1] == '{"when":"2026-05-01","by":"Ben","said":"Really?"}'
    assert speaker_lines(FOUND[1:], 2)[1] == '{"2026-05-01 Ben":"Really?"}'
