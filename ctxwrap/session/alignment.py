"""Callers resend their whole history, a part of it, or only what is new: finding what is new."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from ctxwrap.types import Message

Digest = int
"""Equal for messages that say the same, however an SDK spelled them; good within one process."""


@dataclass(frozen=True, slots=True)
class Alignment:
    keep: int
    """How many of the known messages the new ones continue; fewer than there are means a branch."""
    new: int
    """Where in the caller's list the new messages begin."""
    covered: int = 0
    """How many of the newest known messages the caller sent along."""


def digest(message: Message) -> Digest:
    content = message.content.strip() if isinstance(message.content, str) else repr(message.content)
    calls = [(call["id"], call["name"], _canonical(call["arguments"])) for call in message.tool_calls]
    return hash((message.role, content, message.tool_call_id, *calls))


def _canonical(arguments: str) -> str:
    """Arguments without the white space that a model streams and an SDK does not send back."""
    try:
        return json.dumps(json.loads(arguments or "{}"), sort_keys=True)
    except (ValueError, RecursionError):
        return arguments


def align(known: Sequence[Digest], given: Sequence[Digest], *, has_answers: bool) -> Alignment:
    """How the caller's list `given` continues the log's branch `known`.

    `has_answers` says that the list holds something a model said, so that we should know a part of it.
    """
    overlap = _overlap(known, given)
    if overlap:
        return Alignment(len(known), overlap, covered=overlap)
    if known and has_answers:
        return _branch(known, given)
    return Alignment(len(known), 0)


def _overlap(known: Sequence[Digest], given: Sequence[Digest]) -> int:
    """Length of the longest end of `known` that `given` begins with."""
    if not given:
        return 0
    for start in range(max(0, len(known) - len(given)), len(known)):
        if known[start] == given[0] and known[start:] == given[: len(known) - start]:
            return len(known) - start
    return 0


def _branch(known: Sequence[Digest], given: Sequence[Digest]) -> Alignment:
    """The caller's past differs from ours: an edit, an answer made again, or a beginning we never saw."""
    resumed = _resumed(known, given)
    if resumed:
        return Alignment(len(known), resumed, covered=resumed)
    start, length = _longest_run(known, given)
    return Alignment(start + length, length, covered=length)


def _resumed(known: Sequence[Digest], given: Sequence[Digest]) -> int:
    """Where the caller's list goes on after our newest two messages, if something strange stands before them."""
    for at in range(len(given) - 1, 0, -1):
        if len(known) > 1 and given[at] == known[-1] and given[at - 1] == known[-2]:
            return at + 1
    return 0


def _longest_run(known: Sequence[Digest], given: Sequence[Digest]) -> tuple[int, int]:
    """The place in `known` from which most of the head of `given` stands there word for word."""
    best = (0, 0)
    for start in range(len(known)):
        length = 0
        while start + length < len(known) and length < len(given) and known[start + length] == given[length]:
            length += 1
        best = max(best, (start, length), key=lambda run: run[1])
    return best
