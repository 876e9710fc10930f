"""The time that a model is told: it never goes back, and does not stay in a future that did not come."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxwrap.session.state import SessionState
from ctxwrap.settings import Settings

BEGAN = datetime(2026, 11, 17, tzinfo=UTC)
LAST = datetime.max.replace(tzinfo=UTC)


def told(*clock: datetime) -> list[datetime]:
    """What the model is told in one round after the other."""
    past, found = SessionState(Settings()), []
    for round, now in enumerate(clock, 1):
        past.runtime = past.next_runtime(round, now)
        found.append(datetime.fromisoformat(past.runtime.datetime))
    return found


@given(st.lists(st.timedeltas(timedelta(days=-40000), timedelta(days=300)), min_size=1, max_size=8))
def test_clock_never_goes_back(jumps: list[timedelta]) -> None:
    moments = told(BEGAN, *(BEGAN + jump for jump in jumps))
    assert all(before < after for before, after in pairwise(moments))


@pytest.mark.parametrize("future", [datetime(2031, 1, 1, tzinfo=UTC), LAST])
def test_one_call_in_the_far_future_does_not_keep_the_clock_there(future: datetime) -> None:
    moments = told(BEGAN, future, BEGAN + timedelta(days=1), BEGAN + timedelta(days=2))
    assert moments == [BEGAN, future, BEGAN + timedelta(days=1), BEGAN + timedelta(days=2)]


def test_maximum_datetime_is_no_error() -> None:
    assert told(LAST, LAST, BEGAN) == [LAST] * 3
