"""The scope of a call: the same whether its names were seen before or not."""

from contextlib import ExitStack
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import ctxwrap
from ctxwrap.errors import InvalidId
from ctxwrap.settings import Settings
from ctxwrap.stores.memory import MemoryStore
from ctxwrap.turn.binding import _SCOPES, CallScope, ClientBinding, SessionNames
from tests.session.telling import KEY

NAME = st.none() | st.sampled_from(["a", "b", "é"])
MODE = st.none() | st.sampled_from(["enabled", "readonly", "disabled"])
NAMES = st.builds(SessionNames, NAME, MODE, NAME, NAME, st.none() | st.just("aux"))
USING = st.fixed_dictionaries(
    {},
    optional={
        "session": st.sampled_from(["a", "c"]),
        "tenant": st.sampled_from(["t", "u"]),
        "agent": st.just("g"),
        "user": st.just("ada"),
        "context_mode": st.just("readonly"),
    },
)


def binding(**names: Any) -> ClientBinding:
    return ClientBinding(store=MemoryStore(), settings=Settings(), **names)


@pytest.mark.filterwarnings("ignore::ctxwrap.NoSessionWarning")
@given(st.lists(st.tuples(NAMES, USING, NAMES, st.booleans(), NAME), max_size=8))
def test_scope_of_a_call_does_not_depend_on_earlier_calls(calls: list[Any]) -> None:
    kept, session = binding(), None
    for call, using, client, offers, bound in calls:
        if bound is not None:
            kept, session = kept.changed(session=bound), bound
        with ExitStack() as block:
            block.enter_context(ctxwrap.using(**using))
            if offers:
                ctxwrap.offer("external_resource", "A text.", session="a")
            for _ in range(2):
                assert kept.call_scope(call, client) == binding(session=session).call_scope(call, client)


def test_names_of_calls_are_kept_in_bounds_and_without_offers() -> None:
    kept = binding()
    for number in range(3 * _SCOPES):
        assert kept.call_scope(SessionNames(f"s{number}")) == CallScope(KEY._replace(session=f"s{number}"), "enabled")
    assert 0 < len(kept._scopes) <= _SCOPES
    before = len(kept._scopes)
    with ctxwrap.using(session="s"):
        ctxwrap.offer("external_resource", "A long text.")
        kept.call_scope()
    assert len(kept._scopes) == before


@pytest.mark.parametrize("session", [["a"], {"a": 1}, 7, "", "x" * 2000])
def test_what_is_no_name_is_refused_each_time(session: Any) -> None:
    kept = binding()
    for _ in range(2):
        with pytest.raises(InvalidId, match="session id must"):
            kept.call_scope(SessionNames(session))
