"""What a request may take after one that was too long for its provider."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxwrap.pack.budget import limit_after_rejection
from ctxwrap.tokens import TooLong

numbers = st.none() | st.integers(0, 10**6)


@pytest.mark.parametrize(
    ("told", "taken", "reply", "expected"),
    [
        (TooLong(), 1000, 0, 450),
        (TooLong(8000, 10_000), 1000, 0, 720),
        (TooLong(8000, 10_000), 20_000, 0, 14_400),
        (TooLong(8000, 10_000), 1000, 3000, 450),
        (TooLong(8000, 10_000, 5000), 1000, 5000, 540),
        (TooLong(8000, 10_000, 5000), 1000, 0, 540),
        (TooLong(8000, 10_000, 5000), 1000, 4000, 720),
        (TooLong(8000, 10_000, 9000), 1000, 9000, 0),
        (TooLong(8000, 10_000), 1000, 9000, 720),
        (TooLong(300), 1000, 0, 270),
        (TooLong(8000), 1000, 0, 450),
        (TooLong(8000, 5000), 6000, 4000, 2700),
    ],
    ids=[
        "nothing is told: half",
        "what the provider's numbers say",
        "in our own count",
        "a reply that may be counted next",
        "a reply that was counted",
        "a reply that only the provider speaks of",
        "a reply that needs less than was asked for",
        "a reply for which there is no room at all",
        "a reply that has a window of its own",
        "only a limit, below half",
        "only a limit, above it",
        "a size that fits",
    ],
)
def test_limit_after_a_rejection_is_computed_from_the_error(
    told: TooLong, taken: int, reply: int, expected: int
) -> None:
    assert limit_after_rejection(told, taken, reply).tokens == expected


@given(st.builds(TooLong, numbers, numbers, st.integers(0, 10**6)), st.integers(0, 10**6), st.integers(0, 10**6))
def test_limit_after_a_rejection_is_below_the_rejected_size(told: TooLong, taken: int, reply: int) -> None:
    limit = limit_after_rejection(told, taken, reply)
    assert 0 <= limit.tokens <= 0.9 * taken
    assert limit.set_by == "the provider"
