"""What a question asks for is in the request, through a wrapped client, within the budget."""

from pathlib import Path
from statistics import mean

import pytest

import ctxwrap
from benchmarks.end_to_end import KINDS, Outcome, Writer, asked
from ctxwrap.settings import Settings, Shares


def outcomes(home: Path, kind: str, settings: Settings) -> dict[str, list[Outcome]]:
    """The outcomes of the questions about a conversation of 100 turns, by what was sent."""
    by_way: dict[str, list[Outcome]] = {}
    for way, outcome in asked(Writer(kind, 7).conversation(100), "talk", settings, home):
        by_way.setdefault(way, []).append(outcome)
    ctxwrap.flush()
    return by_way


@pytest.mark.parametrize("kind", KINDS)
def test_small_budget_holds_what_is_asked_for(tmp_path: Path, kind: str) -> None:
    found = outcomes(tmp_path, kind, Settings(budget=4000))
    assert mean(each.found for each in found["ctxwrap"]) >= 0.8
    assert max(each.tokens for each in found["ctxwrap"]) <= 4000
    assert mean(each.found for each in found["last 20"]) == 0


def test_request_takes_little_more_than_the_last_messages_by_default(tmp_path: Path) -> None:
    found = outcomes(tmp_path, "small talk", Settings())
    ours, last = (mean(each.tokens for each in found[way]) for way in ("ctxwrap", "last 20"))
    assert mean(each.found for each in found["ctxwrap"]) >= 0.9
    assert ours <= last + 1500


def test_larger_share_finds_more(tmp_path: Path) -> None:
    shares = [
        outcomes(tmp_path / str(share), "tickets", Settings(budget=4000, shares=Shares(retrieved=share)))["ctxwrap"]
        for share in (0.02, 0.1, 0.4)
    ]
    less, more, most = (sum(each.found for each in found) for found in shares)
    assert less < more <= most
