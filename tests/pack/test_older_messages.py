"""The messages before the newest turn: the same, whether the log has what the caller repeats or not."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ctxwrap.pack.older_messages import Conversation, OlderMessages, conversation, cut
from ctxwrap.settings import Settings
from ctxwrap.tokens.measure import Measure
from ctxwrap.tokens.message_columns import LoggedMessages, MessageColumns
from ctxwrap.types import HistoryMessage, LoggedMessage, Message, Request, Runtime, TurnInputs
from tests.support import examples

CALL = {"id": "c", "name": "run", "arguments": "{}"}
SAID = st.sampled_from(
    [
        Message("user", "Where is the bakery?"),
        Message("user", "And is it open on 24.12., or must I go on the 23rd?"),
        Message("assistant", "In Lisbon, behind the station."),
        Message("assistant", "", tool_calls=(CALL,)),
        Message("tool", "a result", tool_call_id="c"),
        Message("user", [{"type": "text", "text": "See here."}, {"type": "file", "file": {}}]),
    ]
)
MODELS = ("gpt-4o", "claude-opus-4-5", "gemini-2.5-pro", "unheard-of")
"""The last three count by estimates, which have one name in the log."""

LOG = st.lists(st.tuples(SAID, st.sampled_from(["", "by nobody", *MODELS])), min_size=2, max_size=10).map(
    lambda each: [LoggedMessage(at, message, counts(message, model)) for at, (message, model) in enumerate(each, 1)]
)


def counts(message: Message, model: str) -> dict[str, int]:
    """The counts that a turn with a model left in the log."""
    if model not in MODELS:
        return {"estimate": 3, "o200k_base": 3} if model else {}
    measure = Measure(model)
    return {measure.name: measure.counted(message)}


def read(found: Conversation) -> tuple[Any, ...]:
    older, elsewhere, *rest = found
    sent = older.callers_tokens, older.callers_places, older.from_log, older.numbers, older.sizes, older.are_plain
    starts = [older.starts_within(limit) for limit in (0, 30, 1000)]
    return list(older), sent, starts, list(elsewhere), elsewhere.sizes, rest


@examples(300)
@given(LOG, LOG, st.data())
def test_messages_that_the_caller_repeats_are_read_and_counted_as_if_the_log_had_them_not(
    log: list[LoggedMessage], later: list[LoggedMessage], data: st.DataObject
) -> None:
    columns, more = MessageColumns(log), iter(later)
    for model in data.draw(st.lists(st.sampled_from(MODELS), min_size=1, max_size=5)):
        start, end, last = sorted(data.draw(st.integers(0, len(columns.kept))) for _ in range(3))
        repeated = columns.kept[end:last]
        known = [each.number for each in repeated]
        said = [each.message for each in repeated]
        change = data.draw(st.sampled_from(["", "", "edited", "unknown"])) if repeated else ""
        if change:
            at = data.draw(st.integers(0, len(repeated) - 1))
            said[at], known[at] = (data.draw(SAID), known[at]) if change == "edited" else (said[at], 0)
        messages = (Message("system", "Be kind."), *said, Message("user", "So?"))
        places = data.draw(st.sampled_from([(), tuple(range(len(messages))), (-1, *range(len(messages) - 1))]))
        request = Request(
            messages, model, server_history=data.draw(st.sampled_from([False] * 5 + [True])), places=places
        )
        numbers = (0, *known, len(columns.kept) + 1)

        def found(
            history: Any, request: Request = request, numbers: tuple[int, ...] = numbers, model: str = model
        ) -> Any:
            inputs = TurnInputs(Runtime(1, "", ""), {}, (), history, "", numbers=numbers)
            return read(conversation(request, inputs, Settings(), Measure(model)))

        assert found(LoggedMessages(columns, start, end)) == found(columns.kept[start:end])
        for each in more:
            columns.add(each._replace(number=len(columns.kept) + 1))
            break


def test_messages_that_the_log_has_are_not_kept_twice() -> None:
    log = [
        LoggedMessage(at, Message("assistant" if at % 2 else "user", "Hi."), counts(Message("user", "Hi."), "gpt-4o"))
        for at in range(1, 9)
    ]
    columns = MessageColumns(log)
    request = Request((*(each.message for each in log[2:]), Message("user", "So?")), "gpt-4o")
    inputs = TurnInputs(
        Runtime(1, "", ""), {}, (), LoggedMessages(columns, 0, 2), "", numbers=(*range(3, 9), 9), first_message=9
    )
    older = conversation(request, inputs, Settings(), Measure("gpt-4o")).older
    assert older.logged[0] is log[0]
    assert older.logged[-1] is log[-1]


OLDER = st.lists(
    st.tuples(st.sampled_from(["user", "assistant", "tool"]), st.integers(0, 50), st.integers(-1, 3)), max_size=20
).map(
    lambda each: OlderMessages.of(
        [HistoryMessage(at, Message(role), tokens, place) for at, (role, tokens, place) in enumerate(each, 1)]
    )
)


@given(OLDER, st.integers(0, 20))
def test_split_messages_are_the_two_parts(older: OlderMessages, at: int) -> None:
    at = min(at, len(older))
    before, after = older.split(at)
    assert [*before] == [*older[:at]] == [*older][:at]
    assert [*after] == [*older[at:]] == [*older][at:]
    assert older.tokens_before(at) == before.tokens
    assert older.tokens_before(at + 100) == older.tokens == older.tokens_before(at) + after.tokens
    assert older.callers_tokens == sum(each.tokens for each in older if each.place >= 0)


@given(OLDER, st.integers(0, 600), st.integers(0, 600), st.integers(0, 25), st.integers(1, 6))
def test_newest_messages_never_begin_before_a_cut_that_leaves_as_many(
    older: OlderMessages, limit: int, room: int, began: int, count: int
) -> None:
    start, least = cut(older, limit, began), older.newest(count, room)
    assert least == len(older) or older.may_begin(least)
    assert older.tokens_from(least) <= room
    if start <= len(older) - count:
        assert start <= least
    begins = [at for at in range(len(older)) if older.may_begin(at) and older.tokens_from(at) <= room]
    assert least == max([at for at in begins if len(older) - at >= count], default=min(begins, default=len(older)))
