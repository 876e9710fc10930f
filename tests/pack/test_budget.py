"""The ledger: nobody takes more than is left, more than a share, or what is kept for another."""

from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxwrap.pack.budget import Ledger, Limit, TokenBudget, smallest_limit
from ctxwrap.settings import Shares
from ctxwrap.tokens import ContextWindow

KINDS = ("pinned", "summary", "memory", "working_set", "recent_messages", "retrieved", "children")
SHARES = st.builds(
    Shares,
    **{each.name: st.floats(0, 1) | (st.none() if each.default is None else st.nothing()) for each in fields(Shares)},
)


@given(st.integers(0, 50_000), st.integers(0, 60_000), SHARES, st.permutations(KINDS), st.data())
def test_claims_together_never_exceed_the_budget(
    limit: int, fixed: int, shares: Shares, order: list[str], data: st.DataObject
) -> None:
    budget = TokenBudget(limit, "settings", 0, fixed)
    ledger = Ledger(budget, shares)
    ledger.hold("recent_messages", data.draw(st.integers(0, 60_000)))
    for kind in order:
        room = ledger.unreserved(kind) if kind == "recent_messages" else ledger.claimable(kind)
        assert room >= 0
        if kind != "recent_messages":
            part = getattr(shares, kind)
            assert room <= (limit * 0.4 if part is None else part * limit)
        ledger.spend(kind, data.draw(st.integers(0, room)))
        assert ledger.left >= 0
    told = ledger.as_json()
    assert told["used"] == sum(told["spent"].values()) <= told["effective"] == max(0, limit - fixed)


@given(st.integers(1000, 50_000), st.floats(0, 1))
def test_reserved_tokens_are_available_to_their_kind(limit: int, share: float) -> None:
    ledger = Ledger(TokenBudget(limit, "settings", 0, 100), Shares(recent=share, working_set=1.0))
    ledger.hold("recent_messages", 500)
    ledger.spend("working_set", ledger.claimable("working_set"))
    assert ledger.unreserved("recent_messages") >= min(500, int(share * limit), limit - 100)


def test_small_change_of_fixed_tokens_keeps_the_claimable_budget() -> None:
    rooms = set()
    for fixed in range(1000, 1200):
        rooms.add(Ledger(TokenBudget(10_000, "settings", 0, fixed), Shares(working_set=1.0)).claimable("working_set"))
    assert len(rooms) <= 2


@pytest.mark.parametrize(
    ("limit", "tokens"), [(1000, 400), (4000, 1600), (8000, 1700), (32_000, 1700), (128_000, 5120)]
)
def test_part_for_passages_is_greater_in_a_small_budget(limit: int, tokens: int) -> None:
    assert Ledger(TokenBudget(limit, "settings", 0, 100), Shares()).claimable("retrieved") == tokens
    assert Ledger(TokenBudget(limit, "settings", 0, 100), Shares(retrieved=0.1)).claimable("retrieved") == limit // 10


@given(st.integers(0, 40_000), st.none() | st.integers(740, 20_000), st.floats(0, 1), st.floats(0, 1))
def test_passages_exceed_the_conversations_limit_only_as_far_as_needed(
    limit: int, conversation: int | None, one: float, other: float
) -> None:
    ledger = Ledger(TokenBudget(limit, "settings", 0, 100), Shares(), conversation)
    most = ledger.claimable("retrieved")
    least, less, more, all_of_it = (ledger.needed("retrieved", need, most) for need in (0, *sorted((one, other)), 1))
    assert 0 <= least <= less <= more <= all_of_it == most
    if conversation is not None:
        assert least <= conversation / 4
        before = ledger.unreserved("recent_messages")
        ledger.hold("retrieved", limit)
        assert before - ledger.unreserved("recent_messages") <= max(conversation / 4, limit * 0.4)


def test_smallest_limit_sets_the_budget() -> None:
    known, unknown = ContextWindow(4000, 500, known=True), ContextWindow(4000, 500, known=False)
    assert smallest_limit("m", known, 1000, 5000, None, 10) == Limit(3000, "the window of m")
    assert smallest_limit("m", known, 1000, 3000, None, 10) == Limit(3000, "the window of m"), "the first of equal ones"
    assert smallest_limit("m", known, 1000, 5000, 2000, 10) == Limit(2000, "context/budget")
    assert smallest_limit("m", known, 1000, 2000, 0, 10) == Limit(3000, "the window of m"), "0 is no limit"
    assert smallest_limit("m", unknown, 1000, 2000, None, 10) == Limit(2000, "settings")
    assert smallest_limit("m", unknown, 1000, 2000, None, 1500) == Limit(2500, "settings"), "half of it stays free"
    assert smallest_limit("m", unknown, 1000, 0, None, 10).set_by == "nothing"
