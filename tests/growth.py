"""Growth: how much longer work takes on twice the text."""

import time
from collections.abc import Callable

FLOOR = 0.012
"""Seconds below which a measurement says nothing."""
MOST = 2.5
"""What twice the text may take, as a multiple."""


def seconds(work: Callable[[], object], enough: float = FLOOR) -> float:
    """The CPU time of some work, the best of several runs, or the first that is good enough."""
    best = float("inf")
    for _ in range(3):
        start = time.process_time()
        work()
        best = min(best, time.process_time() - start)
        if best < enough:
            break
    return best


def grows_too_fast(work: Callable[[str], object], text: Callable[[int], str], size: int) -> bool:
    """Whether twice the text takes more than about twice the time; a doubtful measurement is repeated."""
    half, whole = text(size), text(2 * size)
    for _ in range(3):
        two = seconds(lambda: work(whole))
        if two <= MOST * FLOOR or two <= MOST * max(seconds(lambda: work(half)), FLOOR):
            return False
    return True
