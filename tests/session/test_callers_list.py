"""What is known of a caller's list from the last call is what a fresh look at the list would tell."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxwrap.callers_list import CallersList, values_of
from ctxwrap.pack.older_messages import conversation
from ctxwrap.providers.anthropic import MESSAGES
from ctxwrap.providers.base import ProviderAdapter
from ctxwrap.providers.bedrock import CONVERSE
from ctxwrap.providers.google import GENERATE
from ctxwrap.providers.ollama import CHAT as OLLAMA
from ctxwrap.providers.openai_chat import CHAT
from ctxwrap.providers.openai_responses import RESPONSES
from ctxwrap.session.branch import digest
from ctxwrap.session.session import Session
from ctxwrap.settings import Settings
from ctxwrap.stores.memory import MemoryStore
from ctxwrap.tokens.counting import counter_for
from ctxwrap.tokens.measure import measure_for
from ctxwrap.types import Body, LoggedMessage, Message, Runtime, SessionKey, TurnInputs

KEY = SessionKey("t", "a", "s")
WORDS = ("Hello", "yes", " yes", "Take an <ctxwrap-context> with you", "ok\n")

texts = st.sampled_from(WORDS)
roles = st.sampled_from(["user", "assistant", "system"])
flags = st.sampled_from([True, False, 1, 0, 1.0, None])


def _call(id: str) -> Body:
    return {"id": id, "type": "function", "function": {"name": "f", "arguments": '{"at": 1}'}}


def _image(text: str) -> Body:
    return {"type": "image_url", "image_url": {"url": f"https://example.com/{len(text)}.png"}}


chat_items = st.one_of(
    st.builds(lambda role, text: {"role": role, "content": text}, roles, texts),
    st.builds(lambda text: {"role": "user", "content": [{"type": "text", "text": text}]}, texts),
    st.builds(lambda text: {"role": "user", "content": [{"type": "text", "text": text}, _image(text)]}, texts),
    st.builds(lambda id: {"role": "assistant", "content": None, "tool_calls": [_call(id)]}, texts),
    st.builds(lambda id, text: {"role": "tool", "tool_call_id": id, "content": text}, texts, texts),
    st.builds(lambda text, flag: {"role": "assistant", "content": text, "citations": flag}, texts, flags),
)
blocks = st.one_of(
    st.builds(lambda text: {"type": "text", "text": text}, texts),
    st.builds(lambda id: {"type": "tool_use", "id": id, "name": "f", "input": {"at": 1}}, texts),
    st.builds(
        lambda id, text, flag: {"type": "tool_result", "tool_use_id": id, "content": text, "is_error": flag},
        texts, texts, flags,
    ),
)  # fmt: skip
anthropic_items = st.one_of(
    st.builds(lambda role, text: {"role": role, "content": text}, roles, texts),
    st.builds(lambda role, content: {"role": role, "content": content}, roles, st.lists(blocks, max_size=3)),
)
google_items = st.builds(
    lambda role, parts: {"role": role, "parts": parts},
    st.sampled_from(["user", "model"]),
    st.lists(st.builds(lambda text: {"text": text}, texts), max_size=2),
)
bedrock_items = st.builds(
    lambda role, content: {"role": role, "content": content},
    st.sampled_from(["user", "assistant"]),
    st.lists(st.builds(lambda text: {"text": text}, texts), min_size=1, max_size=2),
)
SPOKEN: list[tuple[ProviderAdapter, Any]] = [
    (CHAT, chat_items),
    (OLLAMA, st.builds(lambda role, text: {"role": role, "content": text}, roles, texts)),
    (RESPONSES, st.builds(lambda role, text: {"role": role, "content": text}, roles, texts)),
    (MESSAGES, anthropic_items),
    (GENERATE, google_items),
    (CONVERSE, bedrock_items),
]


@st.composite
def calls(draw: st.DrawFn) -> tuple[ProviderAdapter, list[list[Body]]]:
    """The lists of several calls: continued, edited, cut at either end, or others."""
    adapter, items = draw(st.sampled_from(SPOKEN))
    said: list[Body] = []
    lists = []
    for _ in range(draw(st.integers(1, 5))):
        start, end = draw(st.integers(0, 3)), draw(st.integers(0, 2))
        said = said[start if start < len(said) else 0 : len(said) - end]
        if said and draw(st.booleans()):
            said[draw(st.integers(0, len(said) - 1))] = draw(items)
        said = [*said, *draw(st.lists(items, min_size=4, max_size=7))]
        lists.append(said)
    return adapter, lists


@given(calls())
def test_a_known_list_is_read_like_an_unknown_one(found: tuple[ProviderAdapter, list[list[Body]]]) -> None:
    (adapter, lists), known, counter = found, None, counter_for("m")
    for items in lists:
        known = CallersList.of(items, known)
        assert known == items
        body = {adapter.input_field: items, "model": "m", "system": [{"type": "text", "text": "Be brief."}]}
        again = {**body, adapter.input_field: known}
        plain, read = adapter.read(body), adapter.read(again)
        assert repr(read) == repr(plain)  # which tells 1 from true
        assert values_of(read.messages, digest) == list(map(digest, plain.messages))
        assert adapter.request_tokens(again, counter) == adapter.request_tokens(body, counter)


LOGGED = [LoggedMessage(at, Message("user", f"logged {at}"), {"estimate": 100 + at}) for at in range(1, 4)]


@given(calls(), st.data())
def test_older_messages_of_a_known_list_are_those_of_an_unknown_one(
    found: tuple[ProviderAdapter, list[list[Body]]], data: st.DataObject
) -> None:
    (adapter, lists), known, settings = found, None, Settings()
    for items in lists:
        known = CallersList.of(items, known)
        plain, read = (adapter.read({adapter.input_field: each, "model": "m"}) for each in (items, known))
        first = data.draw(st.sampled_from([0, 4, 4, 4, 9]))
        inputs = TurnInputs(
            runtime=Runtime(1, "2026-03-01T09:00:00.000000Z", "2026-03-01T09:00:00.000000Z"),
            state={},
            new=(),
            history=LOGGED[: data.draw(st.sampled_from([0, 0, 0, 2, 3]))],
            parent="",
            numbers=tuple([first and first + at for at in range(len(plain.messages))]),
        )
        for model in ("m", "gpt-4o"):
            one, other = (conversation(each, inputs, settings, measure_for(model)) for each in (read, plain))
            assert [*one.older] == [*other.older]
            assert one.older.logged == other.older.logged
            assert one._replace(older=other.older) == other


def message(at: int) -> Body:
    return {"role": "user", "content": f"message {at}"}


class Asked:
    """A function of items, and the items that it was asked for."""

    def __init__(self) -> None:
        self.items: list[Body] = []

    def __call__(self, item: Body) -> str:
        self.items.append(item)
        return repr(item)


def test_only_new_items_are_looked_at() -> None:
    look, known, said = Asked(), None, [message(at) for at in range(5)]
    for more in (said, [message(5)], [message(6), message(7)], []):
        said = [*said, *more] if known else more
        known, look.items = CallersList.of(said, known), []
        assert values_of(known or (), look) == list(map(repr, said))
        assert look.items == more
    for changed in ([{**said[0], "name": "Ada"}, *said[1:]], said[2:], [*said[:3], message(9), *said[4:]]):
        before, look.items = CallersList.of(said, known), []
        values_of(before or (), look)
        known, look.items = CallersList.of(changed, before), []
        assert values_of(known or (), look) == list(map(repr, changed))
        assert look.items == [item for item in changed if item not in said]


def test_a_caller_may_change_its_items_in_place() -> None:
    part = {"type": "image_url", "image_url": {"url": "https://example.com/1.png"}}
    items = [message(1), message(2), message(3), {"role": "user", "content": [{"type": "text", "text": "See"}, part]}]
    first = CallersList.of(items, None)
    assert first is not None
    read = CHAT.read({"messages": first}).messages
    before = repr(read)
    part["image_url"] = {"url": "https://example.com/2.png"}
    items[0]["content"] = "changed"
    second = CallersList.of(items, first)
    assert repr(CHAT.read({"messages": second}).messages) == repr(CHAT.read({"messages": items}).messages)
    assert repr(read) == before
    assert "2.png" in repr(CHAT.read({"messages": second}).messages)


def test_values_belong_to_the_list_of_their_call() -> None:
    """Two callers of a session send their lists in turns, at the same time."""
    one, other = [message(at) for at in range(6)], [message(at) for at in range(3, 12)]
    first = CallersList.of(one, None)
    second = CallersList.of(other, first)
    assert first is not None
    assert second is not None
    assert first.values(repr) == list(map(repr, one))
    assert second.values(repr) == list(map(repr, other))
    assert first.values(str) == list(map(str, one))


class Text(str):
    __slots__ = ()


@pytest.mark.parametrize(
    "items",
    [
        [message(1)],
        "message",
        None,
        [{"role": "user", "content": Text("no plain text")}, *map(message, range(5))],
        [object(), *map(message, range(5))],
        [{"role": "user", "content": "a" * 500_000}, *map(message, range(5))],
    ],
    ids=["short", "a text", "nothing", "no plain text", "no JSON", "very long"],
)
def test_nothing_is_kept_of_lists_that_are_short_or_long_or_no_json(items: Any) -> None:
    assert CallersList.of(items, None) is None


def test_a_session_forgets_the_list_when_its_log_was_rewritten() -> None:
    store = MemoryStore()
    session, look, items = Session(KEY, store.open(KEY)), Asked(), [message(at) for at in range(5)]

    def looked_at(read: Callable[[Body], str] = look) -> int:
        look.items = []
        values_of(session.recognise({"messages": items}, "messages")["messages"], read)
        return len(look.items)

    with session.locked():
        assert looked_at() == 5
        assert looked_at() == 0
    with session.locked():
        assert looked_at() == 0
    with session.log.locked():
        session.log.rewrite("messages", lambda record: record)
    with session.locked():
        assert looked_at() == 5
