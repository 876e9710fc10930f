"""Selection: which of the earlier messages a call gets to see."""

from collections.abc import Sequence

from ctxwrap.stages.tokens import estimate_message
from ctxwrap.types import Message


def select_history(messages: Sequence[Message], budget: int) -> tuple[Message, ...]:
    """The newest messages that fit the budget, from a user's message on, so that no tool call loses its result."""
    start = first = len(messages)
    for at in range(len(messages) - 1, -1, -1):
        budget -= estimate_message(messages[at])
        if budget < 0:
            break
        first = at
        if messages[first].role == "user":
            start = first
    return tuple(messages[start:])
