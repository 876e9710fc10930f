"""Which messages of a log descend from foreign text: each of them is known, however many there are."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxwrap.memory.items import ORIGINS, Origin, is_foreign
from ctxwrap.session.branch import Origins
from ctxwrap.session.lookup import key_for
from ctxwrap.session.open_turns import PRESUMED
from ctxwrap.session.session import Session
from ctxwrap.stores.log_format import as_record
from ctxwrap.stores.memory import MemoryStore
from ctxwrap.types import Message

KEY = key_for("s")
NOW = datetime(2026, 3, 1, tzinfo=UTC)


@given(st.lists(st.sampled_from(ORIGINS)), st.integers(1, 4))
def test_merged_origins_never_gain_trust(given_: list[Origin], most: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ctxwrap.session.branch._RUNS", most)
        origins = Origins()
        for number, origin in enumerate(given_, 1):
            origins.add(number, origin)
    foreign = {number: origin for number, origin in enumerate(given_, 1) if is_foreign(origin)}
    assert origins.least == max(foreign.values(), key=ORIGINS.index, default=None)
    assert len(origins.as_json()) <= most
    assert all(ORIGINS.index(origins.of(number) or "user") >= ORIGINS.index(each) for number, each in foreign.items())
    assert origins.of(0) is origins.of(len(given_) + 1) is None
    if len(foreign) <= most:
        assert {number: origins.of(number) for number in range(1, len(given_) + 1) if origins.of(number)} == foreign
    again = Origins.from_json(json.loads(json.dumps(origins.as_json())))
    assert (again.as_json(), again.least) == (origins.as_json(), origins.least)


def session_with(*messages: tuple[Message, dict[str, Any]]) -> Session:
    store = MemoryStore()
    session = Session(KEY, store.open(KEY))
    with session.locked():
        session.append("t", [as_record(message, **control) for message, control in messages], [], NOW)
    again = Session(KEY, store.open(KEY))
    again.refresh()
    return again


def test_reply_without_an_origin_has_the_least_trusted_earlier_origin() -> None:
    """Earlier versions wrote none, and neither does whoever writes a line by hand."""
    answer = Message("assistant", "So it is.")
    past = session_with(
        (Message("user", "Hm?"), {}),
        (answer, {}),
        (Message("tool", "Out"), {}),
        (answer, {}),
        (answer, {"origin": "assistant"}),
        (answer, {"origin": "nobody"}),
        (Message("user", "And?"), {}),
        (Message("user", "No.", extra={"ctx": {"origin": "tool"}}), {}),
    ).state
    assert [past.origins.of(number) for number in range(1, 9)] == [None, None, "tool", "tool", None, "tool", None, None]


@pytest.mark.parametrize("events", [[], [{"type": "delta", "run": "t", "text": " it is", "origin": "tool"}]])
def test_partial_reply_of_a_dead_process_keeps_its_origin(events: list[dict[str, Any]]) -> None:
    store = MemoryStore()
    session, runtime = Session(KEY, store.open(KEY)), {"round": 1, "datetime": NOW.isoformat(), "startup_at": "x"}
    start = {"type": "start", "run": "t", "runtime": runtime, "origin": "assistant" if events else "tool"}
    first = {"type": "delta", "run": "t", "text": "So", "origin": start["origin"]}
    with session.locked():
        told = [start, first, *events]
        session.append("t", [as_record(Message("user", "Hm?"))], [{**each, "ctx": {}} for each in told], NOW)
        begun = session.state.turns.begun["t"]
        session._close_dead_turn("t", begun)
    assert session.state.origins.of(2) == "tool"
    (answer,) = session.messages(2, 2)
    assert (answer["ctx"]["reason"], answer["ctx"]["origin"]) == (PRESUMED, "tool")
