"""The queue of turns: shared by all who name the same place, empty in a forked process."""

import os
from collections.abc import Callable

import pytest

from ctxwrap.session.queue import TurnQueue, TurnTicket, this_caller, turn_queue


def refused() -> None:
    """The session is another process's."""


def granted() -> Callable[[], None]:
    return lambda: None


def ticket(line: TurnQueue, lease: Callable[[], Callable[[], None] | None]) -> TurnTicket:
    return TurnTicket(line, this_caller(), lease)


def test_place_has_one_queue_while_somebody_holds_it() -> None:
    assert turn_queue("place") is turn_queue("place")
    held = turn_queue("place")
    assert turn_queue("place") is held
    assert turn_queue("other") is not held


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform has no fork")
def test_turns_of_the_parent_do_not_wait_in_a_forked_process() -> None:
    line = turn_queue("place")
    waiting = ticket(line, refused)
    assert not waiting.take()
    child = os.fork()
    if child == 0:
        os._exit(0 if ticket(line, granted).take() and turn_queue("place") is line else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert not ticket(line, granted).take(), "in the parent the first one is still waiting"
