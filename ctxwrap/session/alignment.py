"""Callers resend their whole history, a part of it, or only what is new: finding what is new."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b

from ctxwrap.types import Content, Message

Digest = str
"""Equal for messages that say the same, however an SDK spelled them, in every process."""

_spelled = json.JSONEncoder(separators=(",", ":"), default=str).encode


@dataclass(frozen=True, slots=True)
class Alignment:
    keep: int
    """How many of the known messages the new ones continue; fewer than there are means a branch."""
    new: int
    """Where in the caller's list the new messages begin."""
    covered: int = 0
    """How many of the newest known messages the caller sent along."""


def digest(message: Message) -> Digest:
    return blake2b(_said(message).encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def _said(message: Message) -> str:
    """What a message says, in one spelling. Most are plain text, which needs no JSON to be told from the rest."""
    content = _plain(message.content)
    if isinstance(content, str) and not message.tool_calls:
        return f"{message.role}\n{message.tool_call_id!r}\n{content}"
    calls = [(call["id"], call["name"], _canonical(call["arguments"])) for call in message.tool_calls]
    return _spelled((message.role, content, message.tool_call_id, *calls))


def _plain(content: Content) -> Content:
    """The same for a text and for the one part that holds it; white space around it is an SDK's."""
    match content:
        case [{"type": "text", "text": str(text), **others}] if not others:
            return text.strip()
    return content.strip() if isinstance(content, str) else content


def _canonical(arguments: str) -> str:
    """Arguments without the white space that a model streams and an SDK does not send back."""
    try:
        return json.dumps(json.loads(arguments or "{}"), sort_keys=True)
    except (ValueError, RecursionError):
        return arguments


def align(known: Sequence[Digest], given: Sequence[Digest], *, has_answers: bool, cut: bool = False) -> Alignment:
    """How the caller's list `given` continues the log's branch `known`.

    `has_answers` says that the list holds something a model said, so that we should know a part of it; `cut` that
    messages stood before the known ones, so that the list may begin with what we no longer know.
    """
    resent = _end_of(known, given) if cut else 0
    if resent:
        return Alignment(len(known), resent, covered=len(known))
    overlap = _overlap(known, given)
    if overlap:
        return Alignment(len(known), overlap, covered=overlap)
    if known and has_answers:
        return _branch(known, given, cut)
    return Alignment(len(known), 0)


def _end_of(known: Sequence[Digest], given: Sequence[Digest]) -> int:
    """Where in `given` all of `known` ends, the last time it stands there."""
    if not known or len(given) < len(known):
        return 0
    length, end = _last_longest(_runs(known, given))
    return end if length == len(known) else 0


def _overlap(known: Sequence[Digest], given: Sequence[Digest]) -> int:
    """Length of the longest end of `known` that `given` begins with."""
    shorter = min(len(known), len(given))
    return _runs(given[:shorter], known[-shorter:])[-1] if shorter else 0


def _branch(known: Sequence[Digest], given: Sequence[Digest], cut: bool) -> Alignment:
    """The caller's past differs from ours: an edit, an answer made again, or a beginning we never saw."""
    resumed = _resumed(known, given)
    if resumed:
        return Alignment(len(known), resumed, covered=min(resumed, len(known)))
    runs = _runs(given[: len(known)], known)
    length = max(runs)
    kept, end = _last_longest(_runs(known, given)) if cut else (0, 0)
    if kept > max(length, 1):
        return Alignment(kept, end, covered=kept)
    return Alignment(runs.index(length) + 1 if length else 0, length, covered=length)


def _resumed(known: Sequence[Digest], given: Sequence[Digest]) -> int:
    """Where the caller's list goes on after our newest two messages, if something strange stands before them."""
    for at in range(len(given) - 1, 0, -1):
        if len(known) > 1 and given[at] == known[-1] and given[at - 1] == known[-2]:
            return at + 1
    return 0


def _last_longest(runs: Sequence[int]) -> tuple[int, int]:
    """The longest run and where it ends, the last one of those that are equally long."""
    return max(((length, end) for end, length in enumerate(runs, 1)), default=(0, 0))


def _runs(head: Sequence[Digest], messages: Sequence[Digest]) -> list[int]:
    """For each of the messages: how many of the first of `head` stand there word for word, up to and with it.

    One pass, however often things repeat: where a run breaks, what it has in common with its own beginning goes on
    (the prefix function of Knuth, Morris and Pratt).
    """
    joined = [*head, None, *messages]
    runs = [0] * len(joined)
    for at in range(1, len(joined)):
        length = runs[at - 1]
        while length and joined[at] != joined[length]:
            length = runs[length - 1]
        runs[at] = length + (joined[at] == joined[length])
    return runs[len(head) + 1 :]
