"""Alignment of the caller's messages with the log: callers send all of their history, a part, or new messages only."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b

from ctxwrap.types import Content, Message

Digest = str
"""The same for equal messages, however an SDK serialises them, in every process."""

_spelled = json.JSONEncoder(separators=(",", ":"), default=str).encode


@dataclass(frozen=True, slots=True)
class Alignment:
    keep: int
    """How many known messages the new ones continue; fewer than all means a new branch."""
    new: int
    """The index of the first new message in the caller's list."""
    covered: int = 0
    """How many of the caller's messages before it are known."""
    before: int = 0
    """How many known messages are older than the caller's first one."""


def digest(message: Message) -> Digest:
    return blake2b(_said(message).encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def _said(message: Message) -> str:
    """A digest of a message in canonical form. Plain text skips the JSON encoding."""
    content = _plain(message.content)
    if isinstance(content, str) and not message.tool_calls:
        return f"{message.role}\n{message.tool_call_id!r}\n{content}"
    calls = [(call["id"], call["name"], _canonical(call["arguments"])) for call in message.tool_calls]
    return _spelled((message.role, content, message.tool_call_id, *calls))


def _plain(content: Content) -> Content:
    """One form for a text and for a single text part; SDKs strip surrounding white space."""
    match content:
        case [{"type": "text", "text": str(text), **others}] if not others:
            return text.strip()
    return content.strip() if isinstance(content, str) else content


def _canonical(arguments: str) -> str:
    """Arguments without white space: models stream it, SDKs do not send it back."""
    try:
        return json.dumps(json.loads(arguments or "{}"), sort_keys=True)
    except (ValueError, RecursionError):
        return arguments


def align(
    known: Sequence[Digest],
    given: Sequence[Digest],
    *,
    answers: Sequence[int] = (),
    began: int = -1,
    cut: bool = False,
) -> Alignment:
    """How the caller's list `given` continues the log's branch `known`.

    `answers` are the positions of model answers in the list, which the log should have. `began` is the position in
    the branch where the previous call's list began, if known: texts repeat, and a caller's list usually begins at the
    same message. `cut` means that messages before the known ones were dropped, so the list may begin with unknown ones.
    """
    resent = _end_of(known, given) if cut else 0
    if resent:
        return Alignment(len(known), resent, covered=len(known))
    same = _common(known[began:], given) if began >= 0 else 0
    if answers and same > answers[-1]:
        return _placed(began, same)
    overlap = _overlap(known, given)
    if overlap or not (known and answers):
        return _placed(len(known) - overlap, overlap)
    return _resumed(known, given, began if same else 0) or _branch(known, given, began if same else -1, cut)


def _placed(at: int, length: int) -> Alignment:
    """The list begins at a position in the branch and matches it for this many messages."""
    return Alignment(at + length, length, covered=length, before=at)


def _common(one: Sequence[Digest], other: Sequence[Digest]) -> int:
    """The length of the common prefix."""
    pairs = zip(one, other, strict=False)
    return next((at for at, (this, that) in enumerate(pairs) if this != that), min(len(one), len(other)))


def _end_of(known: Sequence[Digest], given: Sequence[Digest]) -> int:
    """The end of the last occurrence of all of `known` in `given`."""
    if not known or len(given) < len(known):
        return 0
    length, end = _last_longest(_runs(known, given))
    return end if length == len(known) else 0


def _overlap(known: Sequence[Digest], given: Sequence[Digest]) -> int:
    """The length of the longest suffix of `known` that is a prefix of `given`."""
    shorter = min(len(known), len(given))
    return _runs(given[:shorter], known[-shorter:])[-1] if shorter else 0


def _resumed(known: Sequence[Digest], given: Sequence[Digest], before: int) -> Alignment | None:
    """The list continues our newest two messages, after unknown messages of the caller's own."""
    for at in range(len(given) - 1, 0, -1):
        if len(known) > 1 and given[at] == known[-1] and given[at - 1] == known[-2]:
            covered = _common(known[::-1], given[at::-1])
            return Alignment(len(known), at + 1, covered, min(before, len(known) - covered))
    return None


def _branch(known: Sequence[Digest], given: Sequence[Digest], began: int, cut: bool) -> Alignment:
    """The caller's history differs from ours: an edit, a regenerated answer, or an unknown beginning."""
    runs = _runs(given[: len(known)], known)
    length, end = _last_longest(runs)
    kept, kept_end = _last_longest(_runs(known, given)) if cut else (0, 0)
    if kept > max(length, 1):
        return Alignment(kept, kept_end, covered=kept)
    if not length:
        return Alignment(0, 0)
    again = began >= 0 and runs[began + length - 1 : began + length] == [length]
    return _placed(began if again else end - length, length)


def _last_longest(runs: Sequence[int]) -> tuple[int, int]:
    """The longest run and its end; the last of equally long ones."""
    return max(((length, end) for end, length in enumerate(runs, 1)), default=(0, 0))


def _runs(head: Sequence[Digest], messages: Sequence[Digest]) -> list[int]:
    """For each message, the length of the longest prefix of `head` that ends there.

    One pass, however often messages repeat (the prefix function of Knuth, Morris and Pratt).
    """
    joined = [*head, None, *messages]
    runs = [0] * len(joined)
    for at in range(1, len(joined)):
        length = runs[at - 1]
        while length and joined[at] != joined[length]:
            length = runs[length - 1]
        runs[at] = length + (joined[at] == joined[length])
    return runs[len(head) + 1 :]
