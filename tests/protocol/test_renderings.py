"""Renderings of the state other than the one asked for: most are read, and next to none is misread."""

from collections.abc import Iterable
from typing import Any

import pytest

from ctxwrap.protocol.recovery import recover
from tests.protocol.heldout import HELD_OUT, LAST, LATER
from tests.protocol.renderings import CLASSES, Table, rendered

EACH = 8


def outcomes(names: Iterable[str], table: Table) -> list[tuple[bool, bool]]:
    """For each case, whether it was read exactly, and whether it was read wrongly without a sign of doubt."""
    return [outcome(*rendered(name, seed, table)) for name in names for seed in range(EACH)]


def outcome(state: dict[str, Any], text: str) -> tuple[bool, bool]:
    read = recover(text, state["runtime"], None)
    exact = read.snapshot == state
    return exact, not exact and read.status in ("clean", "repaired")


def test_listed_renderings_are_read() -> None:
    found = outcomes(CLASSES, CLASSES)
    exact, wrong = (sum(column) for column in zip(*found, strict=True))
    assert exact >= 0.99 * len(found)
    assert wrong <= 0.003 * len(found)


@pytest.mark.parametrize("name", CLASSES)
def test_every_listed_rendering_can_be_read(name: str) -> None:
    exact, _ = zip(*outcomes([name], CLASSES), strict=True)
    assert sum(exact) >= EACH - 1


@pytest.mark.parametrize(("table", "least", "most"), [(HELD_OUT, 0.9, 0.003), (LATER, 0.9, 0.003), (LAST, 0.75, 0.01)])
def test_unlisted_renderings_are_read_or_reported(table: Table, least: float, most: float) -> None:
    found = outcomes(table, table)
    exact, wrong = (sum(column) for column in zip(*found, strict=True))
    assert exact >= least * len(found)
    assert wrong <= most * len(found)


@pytest.mark.parametrize("name", [*CLASSES])
def test_repairs_are_named(name: str) -> None:
    state, text = rendered(name, 1)
    read = recover(text, state["runtime"], None)
    assert read.status != "clean"
    assert read.repairs or read.violations
