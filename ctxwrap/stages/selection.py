"""Selection: what of all that could be sent is worth its tokens, and why the rest is not."""

from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

from ctxwrap.types import Candidate, Message, PackItem

STEP = 0.75
"""When history has to be cut, so much of its room is filled again: it then grows for a while without another cut."""

_SPARSE = 0.4
"""With less in use of what could be, what was cut away before comes back."""

NOT_VISIBLE = "it is not for the model to see"


class Older(NamedTuple):
    """A message before the newest turn."""

    number: int
    """In the log; 0 if that is not known."""
    message: Message
    tokens: int
    place: int = -1
    """In the caller's list; -1 if it comes from the log."""


def select(candidates: Sequence[Candidate], room: int) -> tuple[list[Candidate], list[PackItem]]:
    """The candidates that fit, in their order; and every one of them with the reason why it is in or out."""
    chosen: list[Candidate] = []
    items: list[PackItem] = []
    for candidate in candidates:
        reason = _why_not(candidate, room)
        if not reason:
            chosen.append(candidate)
            room -= candidate.tokens
        items.append(as_item(candidate, included=not reason, reason=reason or candidate.reason))
    return chosen, items


def _why_not(candidate: Candidate, room: int) -> str:
    if "model" not in candidate.visibility:
        return NOT_VISIBLE
    return "" if candidate.tokens <= room else f"over budget: {candidate.tokens} tokens, {max(0, room)} left"


def as_item(candidate: Candidate, *, included: bool, reason: str) -> PackItem:
    return PackItem(
        candidate.kind,
        candidate.source,
        candidate.tokens,
        included,
        reason,
        candidate.priority,
        candidate.freshness,
        candidate.origin,
        candidate.visibility,
        candidate.refs,
    )


def cut(older: Sequence[Older], room: int, began: int = 0) -> int:
    """Where in `older` the recent messages begin: at a user's message, so that no tool call loses its result.

    `began` is the number of the message where they began the last time: they begin there again as long as that fits,
    and then a good deal later, so that a prefix stays the same for many calls.
    """
    left = _tokens_from(older)
    starts = [at for at in range(len(older)) if left[at] <= room and _may_begin(older, at)]
    numbers = [each.number for each in older]
    last = numbers.index(began) if began in numbers else -1
    if last in starts and left[last] >= _SPARSE * min(room, left[0]):
        return last
    slid = 0 < began < (numbers[0] if numbers else 0)  # what it began with is no longer at hand
    if starts and starts[0] == 0 and not slid:
        return 0
    fewest = len(older) * (1 - STEP) if slid else 0
    sparse = [at for at in starts if left[at] <= STEP * room and at >= fewest]
    return next(iter(sparse or starts[-1:]), len(older))


def newest(older: Sequence[Older], count: int, room: int) -> int:
    """Where in `older` its last `count` messages or a few more begin, at a user's message; later if they do not fit."""
    start = len(older)
    for at in range(len(older) - 1, -1, -1):
        room -= older[at].tokens
        if room < 0 or len(older) - start >= count:
            break
        start = at if _may_begin(older, at) else start
    return start


def _may_begin(older: Sequence[Older], at: int) -> bool:
    """At what a user says, unless the caller's message holds the result of a tool before it."""
    place = older[at].place
    return older[at].message.role == "user" and (at == 0 or place < 0 or place != older[at - 1].place)


def _tokens_from(older: Sequence[Older]) -> list[int]:
    """For each message, how many tokens it and all behind it have."""
    return list(accumulate(each.tokens for each in reversed(older)))[::-1]
