"""What one reply may add: a snapshot that adds more is not taken, and the log keeps the beginning of it only."""

import json
from typing import Any

import openai
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ctxwrap
from ctxwrap.protocol.instructions import SEPARATOR
from ctxwrap.protocol.recovery import _MOST_PER_CHARACTER, recover
from ctxwrap.protocol.vocabulary import MAX_ADDED, MAX_FAULTS
from ctxwrap.stores.base import STREAMS
from ctxwrap.stores.log_format import MAX_LOGGED, truncate_for_log
from ctxwrap.stores.memory import MemoryStore
from ctxwrap.testing.practice import Answer, Ask, Provider
from ctxwrap.types import SessionKey
from tests.support import item, state_shown

RUNTIME = {"round": 3, "datetime": "2026-02-20T18:30:00.000001Z", "startup_at": "2026-02-20T18:00:00.000000Z"}
KEY = SessionKey("default", "default", "s")


def state(*items: dict[str, Any], **more: Any) -> dict[str, Any]:
    memory = {"core": [], "working": list(items), "ephemeral": []}
    return {"version": "2.2", "runtime": RUNTIME, "memory": memory, "capabilities": [], "active_task": "", **more}


def of_size(size: int, name: str = "w") -> list[dict[str, Any]]:
    """Items that have so many characters together, more or less."""
    return [item(f"{name}-{at}", f"{at} " + "x" * 1000) for at in range(size // 1100)]


def test_text_added_by_one_reply_is_limited() -> None:
    most, too_much = state(*of_size(MAX_ADDED - 4000)), state(*of_size(MAX_ADDED + 8000))
    assert recover(json.dumps(most), RUNTIME, {}).status == "clean"
    read = recover(json.dumps(too_much), RUNTIME, {})
    assert (read.status, read.snapshot) == ("rejected", None)
    assert f"and one reply may add {MAX_ADDED}" in read.violations[0]


NUMBERS = st.from_regex(r"\A-?(0|[1-9][0-9]{0,3})(\.[0-9]{1,3})?([eE][+-]?[0-9]{1,3})?\Z")
VALUES = st.recursive(
    NUMBERS | st.booleans().map(json.dumps) | st.text(max_size=5).map(json.dumps),
    lambda inner: (
        st.lists(inner, max_size=4).map(lambda parts: f"[{','.join(parts)}]")
        | st.dictionaries(st.text(max_size=3).map(json.dumps), inner, max_size=4).map(
            lambda fields: f"{{{','.join(f'{name}:{value}' for name, value in fields.items())}}}"
        )
    ),
    max_leaves=12,
)


@given(VALUES)
def test_short_trailers_cannot_add_too_much(text: str) -> None:
    assert len(json.dumps(json.loads(text), ensure_ascii=False)) <= _MOST_PER_CHARACTER * len(text)


def test_short_trailer_that_repairs_complete_can_add_too_much() -> None:
    shown = of_size(2 * MAX_ADDED)
    changed = [{"id": each["id"], "type": "task"} for each in shown]
    text = json.dumps(state(*changed))
    assert len(text) < MAX_ADDED // _MOST_PER_CHARACTER
    assert recover(text, RUNTIME, state(*shown)).status == "rejected"


def test_repeated_shown_items_do_not_count_as_added() -> None:
    shown = of_size(2 * MAX_ADDED)
    older = [{**each, "decay": 0.9, "round": 3} for each in shown]
    assert recover(json.dumps(state(*older)), RUNTIME, state(*shown)).status == "clean"
    added = state(*older, *of_size(MAX_ADDED // 2, "new"))
    assert recover(json.dumps(added), RUNTIME, state(*shown)).status == "clean"
    changed = [{**each, "content": each["content"] + "!"} for each in older]
    assert recover(json.dumps(state(*changed)), RUNTIME, state(*shown)).status == "rejected"


def test_many_small_items_count_against_the_limit() -> None:
    assert recover(json.dumps(state(*(item(f"w-{at}", "x") for at in range(900)))), RUNTIME, {}).status == "rejected"


def test_number_of_violations_is_limited() -> None:
    wrong = recover(json.dumps(state(**{f"unknown-{at}": 1 for at in range(5000)})), RUNTIME, {})
    assert len(wrong.violations) == MAX_FAULTS + 1
    assert wrong.violations[-1] == f"and {5000 - MAX_FAULTS} more"


@given(st.integers(0, 3 * MAX_LOGGED))
def test_log_keeps_the_start_of_a_long_text(size: int) -> None:
    kept = truncate_for_log("x" * size)
    assert len(kept) <= MAX_LOGGED + 40
    assert (kept == "x" * size) == (size <= MAX_LOGGED)


HOSTILE = {
    "new items": lambda at: json.dumps(state(*of_size(200_000, f"t{at}"))),
    "small items": lambda at: json.dumps(state(*(item(f"t{at}-{each}", f"{each}") for each in range(600)))),
    "longer than any": lambda at: json.dumps(state(*of_size(2_000_000, f"t{at}"))),
    "no end": lambda at: '{"memory":{"core":[' + "[1," * 500_000,
    "again and again": lambda at: f"{json.dumps(state(item('a', str(at))))}\n\n{SEPARATOR}\n" * 4000,
    "unknown fields": lambda at: json.dumps(state(**{f"unknown-{each}": 1 for each in range(15_000)})),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_no_reply_makes_a_session_grow_by_megabytes(provider: Provider, kind: str) -> None:
    turns = iter(range(100))

    def answer(ask: Ask) -> Answer:
        runtime = json.dumps(state_shown(ask)["runtime"])
        return Answer(f"Yes.\n\n{SEPARATOR}\n" + HOSTILE[kind](next(turns)).replace(json.dumps(RUNTIME), runtime))

    provider.answer = answer
    store = MemoryStore()
    client = openai.OpenAI(api_key="x", base_url=provider.openai_url, max_retries=0)
    wrapped = ctxwrap.wrap(client, store=store, session="s", max_reasks=0)
    for at in range(3):
        reply = wrapped.chat.completions.create(model="practice", messages=[{"role": "user", "content": f"Say {at}."}])
        assert reply.choices[0].message.content == "Yes."
    size = len(json.dumps([store.open(KEY).read(stream)[0] for stream in STREAMS]))
    assert size < 3 * 500_000
