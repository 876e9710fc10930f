"""Numbers of messages in few characters, and back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxwrap.stores.log_format import numbers_in, ranges


@given(st.lists(st.integers(0, 50)))
def test_ranges_round_trip(numbers: list[int]) -> None:
    assert numbers_in(ranges(numbers)) == numbers


def test_consecutive_numbers_are_written_as_a_range() -> None:
    assert ranges([3, 4, 5, 9, 20, 21]) == "3-5,9,20-21"


@pytest.mark.parametrize("spans", ["1-99999999999", "1-999999," * 3, "x", "1-x", "-", "1-" + "9" * 30])
def test_ranges_that_are_invalid_or_too_long_are_refused(spans: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  # whichever of its parts is wrong
        numbers_in(spans)
