"""Running sums of messages: a range counts as its messages do, whatever is added later."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ctxwrap.pack.older_messages import OlderMessages
from ctxwrap.tokens.measure import Measure
from ctxwrap.tokens.message_columns import LoggedMessages, MessageColumns
from ctxwrap.types import HistoryMessage, LoggedMessage, Message

CALL = {"id": "c", "name": "run", "arguments": "{}"}
SAID = st.sampled_from(
    [
        Message("user", "Where is the bakery?"),
        Message("assistant", "In Lisbon, behind the station."),
        Message("assistant", "", tool_calls=(CALL,)),
        Message("tool", "a result", tool_call_id="c"),
        Message("user", [{"type": "text", "text": "See here."}, {"type": "file", "file": {}}]),
    ]
)
COUNTS = st.sampled_from([{}, {"o200k_base": 7}, {"o200k_base": 20, "estimate": 30}])
KEPT = st.lists(st.tuples(SAID, COUNTS), max_size=12).map(
    lambda each: [LoggedMessage(number, message, counts) for number, (message, counts) in enumerate(each, 1)]
)
MODELS = ("gpt-4o", "claude-opus-4-5", "gpt-4", "mistral-large", "unheard-of")


@given(KEPT, KEPT, st.lists(st.sampled_from(MODELS), min_size=1, max_size=12), st.data())
def test_range_counts_as_its_messages_do(
    first: list[LoggedMessage], then: list[LoggedMessage], models: list[str], data: Any
) -> None:
    start = data.draw(st.integers(0, len(first)))
    end = data.draw(st.integers(start, len(first)))
    columns, added = MessageColumns(first), iter(then)
    held, some = LoggedMessages(columns, start, end), first[start:end]
    for model in models:
        measure = Measure(model)
        older = OlderMessages(columns, start, end, columns.tokens(measure, end))
        sizes = [measure.message(each) for each in some]
        assert (older.tokens, older.sizes) == (sum(sizes), sizes)
        assert list(older) == [HistoryMessage(*each[:2], size) for each, size in zip(some, sizes, strict=True)]
        assert held == some
        assert list(reversed(held)) == some[::-1]
        assert held.are_plain == older.are_plain == all(_is_plain(each.message) for each in some)
        assert [older.may_begin(at) for at in range(len(older))] == [each.message.role == "user" for each in some]
        for each in added:
            columns.add(each)
            break


RANGES = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)).map(sorted), min_size=1, max_size=8)


@given(st.lists(st.sampled_from([None, True, True, True, False]), max_size=12), RANGES)
def test_range_agrees_where_the_log_has_what_the_measure_counts(noted: list[bool | None], ranges: list[Any]) -> None:
    measure, said = Measure("unheard-of"), Message("user", "Where is the bakery?")
    right = measure.counted(said)
    counts = {None: {}, True: {measure.name: right}, False: {measure.name: right + 1}}
    columns = MessageColumns([LoggedMessage(number, said, counts[each]) for number, each in enumerate(noted, 1)])
    for start, end in ranges:
        start, end = min(start, len(noted)), min(end, len(noted))
        assert columns.agrees(measure, start, end) == all(noted[start:end])


def _is_plain(message: Message) -> bool:
    return isinstance(message.content, str) and message.role != "tool" and not message.tool_calls
