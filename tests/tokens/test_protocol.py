"""Tokens of the protocol in every request."""

import pytest

from ctxwrap.pack.injection import INSTRUCTIONS, Instructions
from ctxwrap.tokens.measure import Measure

MOST = 450
"""Tokens of o200k: what ctxwrap itself says is paid for in every call."""


@pytest.mark.parametrize("words", INSTRUCTIONS.values(), ids=INSTRUCTIONS.keys())
def test_protocol_and_reminder_are_short(words: Instructions) -> None:
    measure = Measure("gpt-4o")
    assert measure.exact
    assert 0 < measure.text(words.protocol) + measure.text(words.reminder) <= MOST


@pytest.mark.parametrize("kind", ["delta", "full"])
def test_reminder_is_sent_when_a_snapshot_is_wanted(kind: str) -> None:
    assert INSTRUCTIONS[kind].reminder
    assert INSTRUCTIONS[kind] == Instructions.from_text(INSTRUCTIONS[kind].as_text())
