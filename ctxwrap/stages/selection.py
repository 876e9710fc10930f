"""Selection: what of all that could be sent is worth its tokens, and why the rest is not."""

from collections.abc import Sequence

from ctxwrap.types import Candidate, Older, PackItem

STEP = 0.75
"""When history has to be cut, so much of its room is filled again: it then grows for a while without another cut."""

_SPARSE = 0.4
"""With less in use of what could be, what was cut away before comes back."""

NOT_VISIBLE = "it is not for the model to see"


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
    tokens, starts = _starts_within(older, room)
    last = next((at for at in starts if 0 < began == older[at].number), -1)
    if last >= 0 and starts[last] >= _SPARSE * min(room, tokens):
        return last
    slid = bool(older) and 0 < began < older[0].number  # what it began with is no longer at hand
    if 0 in starts and not slid:
        return 0
    fewest = len(older) * (1 - STEP) if slid else 0
    sparse = [at for at, left in starts.items() if left <= STEP * room and at >= fewest]
    return min(sparse) if sparse else max(starts, default=len(older))


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


def _starts_within(older: Sequence[Older], room: int) -> tuple[int, dict[int, int]]:
    """Where messages may begin, each with the tokens from there on, and how many were counted: all, or too many."""
    tokens, starts = 0, dict[int, int]()
    for at in range(len(older) - 1, -1, -1):
        tokens += older[at].tokens
        if tokens > room:
            break
        if _may_begin(older, at):
            starts[at] = tokens
    return tokens, starts
