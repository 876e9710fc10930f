"""How much work mending may be: one allowance for all snapshots of a reply, and for all the ways to read them."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

ALLOWED = 42_000
"""How many steps a reply may take in all. A step is about a microsecond: a token, or a hundred characters passed over.

Steps are counted, not timed, so that a reply is read in the same way wherever it is read.
"""


class Exhausted(Exception):
    """The allowance is spent."""


class Effort:
    """What is left of an allowance."""

    def __init__(self, left: int = ALLOWED) -> None:
        self.left = left


_CURRENT: ContextVar[Effort] = ContextVar("effort")


@contextmanager
def limited(effort: Effort) -> Iterator[None]:
    """Whatever is spent inside is spent of `effort`."""
    token = _CURRENT.set(effort)
    try:
        yield
    finally:
        _CURRENT.reset(token)


def spend(steps: int) -> None:
    """Count what is done next; Exhausted if that is too much."""
    effort = _CURRENT.get()
    effort.left -= steps
    if effort.left < 0:
        raise Exhausted


def left() -> int:
    """How many steps may still be taken."""
    return _CURRENT.get().left
