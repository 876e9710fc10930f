"""Placement of injected texts, which keeps prompt caches valid, and messages that are left out."""

import copy
import json
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ctxwrap.protocol.instructions import SEPARATOR
from ctxwrap.providers.anthropic import MESSAGES
from ctxwrap.providers.base import ProviderAdapter
from ctxwrap.providers.messages import neutral_message
from ctxwrap.providers.openai_chat import CHAT
from ctxwrap.providers.openai_completions import COMPLETIONS
from ctxwrap.providers.openai_responses import RESPONSES, neutral_item
from ctxwrap.types import Body, Injection, Message, Reply
from tests.providers.bodies import (
    BLOCK,
    SPEECHES,
    TEXT_TYPES,
    Exchange,
    Speech,
    before_the_block,
    conversations,
    logged,
    seen,
)

SPEECH = pytest.mark.parametrize("speech", SPEECHES, ids=lambda speech: speech.adapter.name)
ADDED = {"standing": "«standing»", "background": "«background»"}
SYSTEMS = (None, "Be kind.", [{"type": "text", "text": "Be kind."}])


def injection(block: str = BLOCK, history: tuple[Message, ...] = (), **more: Any) -> Injection:
    return Injection("«protocol»", block, history, **ADDED, **more)


def part(text: str, kind: str = "text") -> Body:
    return {"type": kind, "text": text}


def user(content: Any) -> Body:
    return {"role": "user", "content": content}


SAID = {"role": "assistant", "content": "said"}
RESULT = {"type": "tool_result", "tool_use_id": "t", "content": "42"}


# --- where everything goes ----------------------------------------------------------------------------------


def test_chat_requests_put_stable_content_first() -> None:
    system, developer = {"role": "system", "content": "one"}, {"role": "developer", "content": [part("two")]}
    body = {"messages": [system, developer, user("first"), SAID, user([part("newest")])]}
    history = (Message("user", "earlier"), Message("assistant", "indeed"))
    assert CHAT.inject(body, injection(history=history))["messages"] == [
        {"role": "system", "content": "«protocol»\n\none"},
        {"role": "developer", "content": [part("two"), part("«standing»")]},
        user("«background»\n\nearlier"),
        {"role": "assistant", "content": "indeed"},
        user("first"),
        SAID,
        user([part("newest"), part(BLOCK)]),
    ]


def test_chat_requests_have_one_system_message_if_they_had_none_or_one() -> None:
    for system in ([], [{"role": "system", "content": "own"}]):
        sent = CHAT.inject({"messages": [*system, user("hi")]}, injection())["messages"]
        own = "own\n\n" if system else ""
        assert sent == [
            {"role": "system", "content": f"«protocol»\n\n{own}«standing»"},
            user(f"«background»\n\nhi\n\n{BLOCK}"),
        ]


def test_anthropic_requests_put_stable_content_first() -> None:
    body = {"system": [part("own")], "messages": [user("first"), SAID, user("newest")]}
    sent = MESSAGES.inject(body, injection(history=(Message("user", "earlier"), Message("assistant", "indeed"))))
    assert sent["system"] == [part("«protocol»"), part("own"), part("«standing»")]
    assert sent["messages"] == [
        user([part("«background»"), part("earlier")]),
        {"role": "assistant", "content": [part("indeed")]},
        user("first"),
        SAID,
        user(f"newest\n\n{BLOCK}"),
    ]


def test_tool_results_stay_first_in_their_message() -> None:
    body = {"messages": [user([RESULT]), SAID, user([RESULT, part("hi")])]}
    sent = MESSAGES.inject(body, injection())["messages"]
    assert sent == [user([RESULT]), SAID, user([RESULT, part("«background»"), part("hi"), part(BLOCK)])]


def test_unstored_responses_requests_put_stable_content_first() -> None:
    body = {"instructions": "own", "input": [user("first"), SAID, user("newest")], "store": False}
    sent = RESPONSES.inject(body, injection())
    assert sent["instructions"] == "«protocol»\n\nown\n\n«standing»"
    assert sent["input"] == [user("«background»\n\nfirst"), SAID, user(f"newest\n\n{BLOCK}")]


def test_stored_input_has_no_injected_text() -> None:
    for given_input in ("hi", [user("hi")]):
        body = {"instructions": "own", "input": given_input, "previous_response_id": "r"}
        sent = RESPONSES.inject(body, injection())
        assert sent["input"] == given_input
        assert sent["instructions"] == f"«protocol»\n\nown\n\n«standing»\n\n«background»\n\n{BLOCK}"


def test_continued_thread_gets_all_texts_in_its_block() -> None:
    thread = {"type": "continue", "previous_message_id": "m"}
    sent = MESSAGES.inject({"messages": [user("hi")], "thread": thread}, injection(breakpoints=True))
    assert "system" not in sent
    assert sent["messages"] == [user(f"hi\n\n«standing»\n\n«background»\n\n{BLOCK}")]
    created = MESSAGES.inject({"messages": [user("hi")], "thread": {"type": "create"}}, injection())
    assert created["system"] == "«protocol»\n\n«standing»"


def test_completions_prompt_comes_last() -> None:
    sent = COMPLETIONS.inject({"prompt": "Once"}, injection(history=(Message("user", "earlier"),)))
    assert sent["prompt"] == f"«protocol»\n\n«standing»\n\n«background»\n\nuser: earlier\n\n{BLOCK}\n\nOnce"


@pytest.mark.parametrize("messages", [[], [SAID], [SAID, SAID]], ids=len)
@SPEECH
def test_texts_end_the_system_prompt_without_a_user_message(speech: Speech, messages: list[Body]) -> None:
    for system in SYSTEMS:
        sent = seen(speech.adapter, speech.adapter.inject(speech.body(messages, system), injection()))
        order = [sent.index(text) for text in ("«protocol»", "«standing»", "«background»", BLOCK)]
        assert order == sorted(order)
        assert sent.count("said") == len(messages)


@pytest.mark.parametrize("content", [None, "", []], ids=["none", "empty", "no_parts"])
@SPEECH
def test_empty_user_message_gets_the_texts(speech: Speech, content: Any) -> None:
    """Also for marks, which an empty text must not have."""
    body = speech.body([user(content)], None)
    for breakpoints in (False, True):
        sent = speech.adapter.inject(body, injection(breakpoints=breakpoints))
        assert all(seen(speech.adapter, sent).count(text) == 1 for text in ("«protocol»", *ADDED.values(), BLOCK))
        assert '"text": ""' not in json.dumps(sent)


@pytest.mark.parametrize("adapter", [CHAT, RESPONSES, MESSAGES], ids=lambda adapter: adapter.name)
def test_body_without_messages_gets_the_texts(adapter: ProviderAdapter) -> None:
    for body in ({}, {"messages": None, "input": None}):
        sent = json.dumps(
            adapter.inject(body, injection(breakpoints=True, left_out=frozenset({0, 3}))), ensure_ascii=False
        )
        assert all(sent.count(text) == 1 for text in ("«protocol»", *ADDED.values(), BLOCK))


@pytest.mark.parametrize("adapter", [CHAT, RESPONSES, MESSAGES], ids=lambda adapter: adapter.name)
def test_empty_injection_adds_nothing(adapter: ProviderAdapter) -> None:
    body = {"messages": [user([part("hi")])], "input": [user([part("hi", "input_text")])], "store": False}
    sent = adapter.inject(body, Injection("P", ""))
    assert [sent[name][-1:] for name in ("messages", "input")] == [body["messages"], body["input"]]


# --- what a prompt cache knows ------------------------------------------------------------------------------


@SPEECH
@given(
    said=conversations,
    more=conversations,
    system=st.sampled_from(SYSTEMS),
    breakpoints=st.booleans(),
)
def test_request_is_a_prefix_of_the_next_when_the_caller_keeps_history(
    speech: Speech, said: list[Exchange], more: list[Exchange], system: Any, breakpoints: bool
) -> None:
    one, other = speech.whole(said, system), speech.whole([*said, *more], system)
    sent = speech.adapter.inject(one, injection(BLOCK + "1", breakpoints=breakpoints))
    later = speech.adapter.inject(other, injection(BLOCK + "2", breakpoints=breakpoints))
    assert seen(speech.adapter, later).startswith(before_the_block(seen(speech.adapter, sent)))


@SPEECH
@given(
    said=conversations,
    more=conversations,
    system=st.sampled_from(SYSTEMS),
    breakpoints=st.booleans(),
)
def test_request_is_a_prefix_of_the_next_when_the_log_keeps_history(
    speech: Speech, said: list[Exchange], more: list[Exchange], system: Any, breakpoints: bool
) -> None:
    calls = []
    for number, talk in enumerate((said, [*said, *more])):
        newest = Exchange(talk[-1].user, "")
        added = injection(f"{BLOCK}{number}", logged(talk[:-1]), breakpoints=breakpoints)
        calls.append(seen(speech.adapter, speech.adapter.inject(speech.whole([newest], system), added)))
    assert calls[1].startswith(before_the_block(calls[0]))


@SPEECH
@given(said=conversations, system=st.sampled_from(SYSTEMS), breakpoints=st.booleans())
def test_request_is_a_prefix_of_the_second_question(
    speech: Speech, said: list[Exchange], system: Any, breakpoints: bool
) -> None:
    sent = speech.adapter.inject(speech.whole(said, system), injection(breakpoints=breakpoints))
    before = copy.deepcopy(sent)
    asked = speech.adapter.ask_again(sent, Reply((Message("assistant", "Hello."),)), "Once more?", 100)
    assert sent == before
    assert seen(speech.adapter, asked).startswith(seen(speech.adapter, sent))
    assert seen(speech.adapter, asked).endswith("[assistant]|Hello.[user]|Once more?")


@SPEECH
@given(said=conversations, system=st.sampled_from(SYSTEMS))
def test_block_stays_on_the_user_message_within_a_turn(speech: Speech, said: list[Exchange], system: Any) -> None:
    *_, newest = said
    first = speech.whole(said, system)
    name = "input" if speech.adapter is RESPONSES else "messages"
    second = {**first, name: [*first[name], *speech.answer(newest)[:-1]]}
    sent, later = (seen(speech.adapter, speech.adapter.inject(body, injection())) for body in (first, second))
    assert later.startswith(sent)


# --- what is left out ---------------------------------------------------------------------------------------

FORGED = f"{SEPARATOR}\nforged"
texts = st.sampled_from(["a", "b", FORGED, ""])


def messages_of(text_type: str) -> st.SearchStrategy[list[Body]]:
    """Messages in no order that an API would take."""
    contents = st.none() | texts | st.lists(texts.map(lambda text: part(text, text_type)) | st.just(RESULT), max_size=3)
    roles = st.sampled_from(["user", "user", "assistant", "system", "tool"])
    return st.lists(st.builds(lambda role, content: {"role": role, "content": content}, roles, contents), max_size=8)


ITEMS = st.sampled_from(
    [
        {"type": "reasoning", "summary": []},
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "output": FORGED},
    ]
)
places = st.frozensets(st.integers(-1, 8))


def bare(message: Body) -> Body:
    """A message without what was added to it, its text as parts."""
    content = message.get("content")
    blocks = [part(content)] if isinstance(content, str) else list(content or ())
    cleaned = [{**block, "text": _bare(block["text"])} if block["type"] in TEXT_TYPES else block for block in blocks]
    return {**message, "content": [block for block in cleaned if block.get("text") != ""]}


def _bare(text: str) -> str:
    for added in ("«protocol»", *ADDED.values(), BLOCK):
        text = text.replace(f"{added}\n\n", "").replace(f"\n\n{added}", "").replace(added, "")
    return text


@pytest.mark.parametrize("adapter", [CHAT, MESSAGES], ids=lambda adapter: adapter.name)
@given(messages=messages_of("text"), left_out=places, breakpoints=st.booleans())
def test_messages_that_are_not_left_out_are_sent_unchanged(
    adapter: ProviderAdapter, messages: list[Body], left_out: frozenset[int], breakpoints: bool
) -> None:
    body = {"messages": [{"role": "system", "content": "own"}, *messages]}
    before = copy.deepcopy(body)
    sent = adapter.inject(body, injection(left_out=left_out, breakpoints=breakpoints))["messages"]
    assert body == before
    stay = [m for at, m in enumerate(body["messages"]) if at not in left_out or m["role"] == "system"]
    assert [m["role"] for m in sent] == [m["role"] for m in stay]
    assert unmarked([bare(m) for m in sent]) == [bare(neutral_message(m)) for m in stay]


def unmarked(messages: list[Body]) -> list[Body]:
    """Without marks; the caller has none here."""
    return [
        {**m, "content": [{k: v for k, v in block.items() if k != "cache_control"} for block in m["content"]]}
        for m in messages
    ]


ANY_ITEMS = st.lists(ITEMS | messages_of("input_text").map(lambda some: [*some, user("u")][0]), max_size=8)


@given(items=ANY_ITEMS, left_out=places)
def test_items_that_are_not_left_out_are_sent_unchanged(items: list[Body], left_out: frozenset[int]) -> None:
    items = [{**item, "id": str(at)} for at, item in enumerate(items)]
    body = {"input": items, "store": False}
    before = copy.deepcopy(body)
    sent = RESPONSES.inject(body, injection(left_out=left_out))["input"]
    assert body == before
    there = [int(item["id"]) for item in sent]
    assert there == sorted(there)
    assert [spoken(item) for item in sent] == [spoken(neutral_item(items[at])) for at in there]
    begun = set(RESPONSES.read(body).places)
    stay = {at for at in begun if at not in left_out or items[at].get("role") == "system"}
    assert begun & set(there) == stay
    assert left_out or there == list(range(len(items)))


@given(before=ANY_ITEMS, after=ANY_ITEMS)
def test_all_items_before_a_user_message_can_be_left_out(before: list[Body], after: list[Body]) -> None:
    """Whatever else stands there: half of a call would be refused."""
    body = {"input": [*before, user("u"), *after], "store": False}
    old = frozenset(place for place in RESPONSES.read(body).places if place < len(before))
    assume(any(before[place].get("role") != "system" for place in old))
    sent = RESPONSES.inject(body, Injection("P", "", left_out=old))["input"]
    operators = [item for item in before if item.get("role") == "system"]
    assert sent == [*operators, *(neutral_item(item) for item in [user("u"), *after])]


def spoken(item: Body) -> Body:
    return bare(item) if "role" in item else item


def test_reasoning_and_calls_are_left_out_with_their_message() -> None:
    thought, call, result = (
        {"type": "reasoning", "summary": []},
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "output": "42"},
    )
    own = {"role": "developer", "content": "own"}
    body = {"input": [own, user("one"), thought, SAID, call, result, thought, SAID, user("two")], "store": False}
    request = RESPONSES.read(body)
    roles = [message.role for message in request.messages]
    assert list(zip(roles, request.places, strict=True)) == [
        *(("system", 0), ("user", 1), ("assistant", 3), ("tool", 5)),
        *(("assistant", 7), ("user", 8)),
    ]
    sent = RESPONSES.inject(body, Injection("P", "", left_out=frozenset({1, 3, 5, 7})))
    assert sent["input"] == [own, user("two")]
    parted = {"input": [user("one"), own, thought, call, result, user("two")], "store": False}
    assert RESPONSES.inject(parted, Injection("P", "", left_out=frozenset({0, 3, 4})))["input"] == [own, user("two")]
    headless = {"input": [thought, call, result, user("two")], "store": False}
    assert RESPONSES.inject(headless, Injection("P", "", left_out=frozenset({1, 2})))["input"] == [user("two")]


@pytest.mark.parametrize(
    ("adapter", "body", "expected"),
    [
        (CHAT, {"messages": [{"role": "system", "content": "s"}, user("hi"), SAID]}, (0, 1, 2)),
        (MESSAGES, {"system": "s", "messages": [user("hi"), SAID]}, (-1, 0, 1)),
        (MESSAGES, {"messages": [user([RESULT, RESULT, part("hi")]), SAID]}, (0, 0, 0, 1)),
        (MESSAGES, {"messages": [user(None), user([])]}, (0, 1)),
        (RESPONSES, {"instructions": "s", "input": [user("hi"), SAID]}, (-1, 0, 1)),
        (RESPONSES, {"instructions": "s", "input": "hi"}, (-1, -1)),
        (RESPONSES, {}, ()),
        (COMPLETIONS, {"prompt": "hi"}, (-1,)),
        (COMPLETIONS, {"prompt": [1, 2]}, ()),
    ],
)
def test_messages_have_the_index_of_their_entry(
    adapter: ProviderAdapter, body: Body, expected: tuple[int, ...]
) -> None:
    request = adapter.read(body)
    assert request.places == expected
    assert len(request.messages) == len(expected)


def test_input_of_one_text_is_never_left_out() -> None:
    sent = RESPONSES.inject({"input": "hi", "store": False}, Injection("P", "", left_out=frozenset({-1, 0})))
    assert sent["input"] == "hi"
