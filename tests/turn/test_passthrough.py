"""The record of a call without context."""

from ctxwrap.turn.binding import CallScope
from ctxwrap.turn.lifecycle import PassthroughCall


def test_reports_of_two_calls_share_nothing_that_can_be_changed() -> None:
    one, other = (PassthroughCall(CallScope(None, "disabled"), "off").record.report for _ in range(2))
    for first, second in zip(one, other, strict=True):
        assert not isinstance(first, dict) or first is not second
