"""The newest part of a conversation: what its messages said, their ids, and the last of them in full.

Beside it stands what is no part of it any more: a message with a parent leaves everything behind that parent, so that
a range of numbers is all there is to know. A parent that is too old to be known leaves all that is known. A new first
message leaves nothing: a beginning that was never seen takes back nothing that was said.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable

from ctxwrap.records import as_record, message_in
from ctxwrap.session.alignment import Digest
from ctxwrap.types import Message, Record

_WINDOW = 2000
"""How many messages are known by their digests and ids."""

_RECENT = 200
"""How many of them are kept at hand as history."""

_RECENT_SIZE = 500_000
"""How long these may be altogether, in characters."""

ROOT = "root"
"""The parent of a first message."""


_RANGES = 4096
"""So many ranges of messages that were left are told apart."""


class Ranges:
    """Numbers that were left, as ranges in their order; the newest takes in all that begin behind its own start."""

    def __init__(self, starts: Iterable[int] = (), ends: Iterable[int] = ()) -> None:
        self._starts, self._ends = list(starts), list(ends)

    def __contains__(self, number: int) -> bool:
        at = bisect_right(self._starts, number) - 1
        return at >= 0 and number <= self._ends[at]

    def add(self, first: int, last: int) -> None:
        if first > last:
            return
        while self._starts and self._starts[-1] >= first:
            del self._starts[-1], self._ends[-1]
        self._starts.append(first)
        self._ends.append(last)
        if len(self._starts) > _RANGES:
            self._join()

    def _join(self) -> None:
        """Make one range of the two that are nearest to each other: rather too little is told than what was left."""
        at = min(range(1, len(self._starts)), key=lambda at: self._starts[at] - self._ends[at - 1])
        del self._starts[at], self._ends[at - 1]

    def as_json(self) -> list[list[int]]:
        return [self._starts, self._ends]


class Branch:
    """The messages from the root to the newest one, as far as they are known: the same for the same log."""

    def __init__(
        self,
        digests: Iterable[Digest] = (),
        ids: Iterable[str] = (),
        recent: Iterable[tuple[int, Message]] = (),
        before: int = 0,
        numbers: Iterable[int] = (),
        left: Ranges | None = None,
    ) -> None:
        self.digests = list(digests)
        self._ids = list(ids)
        self._numbers = list(numbers)
        self.left = left or Ranges()
        """The messages before the newest one that it does not continue."""
        self._recent = deque(recent)
        self._recent_size = sum(_size(message) for _, message in self._recent)
        self._before = before

    def __len__(self) -> int:
        return len(self.digests)

    @property
    def is_cut(self) -> bool:
        """Whether messages stood before those that are known."""
        return self._before > 0

    def id_of(self, count: int) -> str:
        """The id of the last of the first `count` known messages."""
        return self._ids[count - 1] if count else ROOT

    def history(self, without: int) -> tuple[Message, ...]:
        """The recent messages without the newest ones."""
        return tuple(message for _, message in self._recent)[: max(0, len(self._recent) - without)]

    def since(self, number: int) -> list[tuple[int, Message]]:
        """The recent messages behind the one of that number in the log, with theirs."""
        return [(each, message) for each, message in self._recent if each > number]

    def add(self, number: int, message: Message, said: Digest, id: str = "", parent: str = "") -> None:
        """Go on with `message` and the digest of what it said, after `parent` if that is not the newest one."""
        if parent:
            self._go_back(parent, number)
        self._ids.append(" ".join(id.split()) or str(self._before + len(self)))
        self.digests.append(said)
        self._numbers.append(number)
        self._recent.append((number, message))
        self._recent_size += _size(message)
        self._forget()

    def _go_back(self, parent: str, number: int) -> None:
        """To a parent that is no longer known there is no way back: nothing is left but that something was before."""
        if parent == ROOT:
            self._before = 0
        keep = self._ids.index(parent) + 1 if parent in self._ids else 0
        if self._numbers and parent != ROOT:
            self.left.add(self._numbers[keep - 1] + 1 if keep else self._numbers[0], number - 1)
        for _ in range(min(len(self) - keep, len(self._recent))):
            self._recent_size -= _size(self._recent.pop()[1])
        del self.digests[keep:], self._ids[keep:], self._numbers[keep:]

    def _forget(self) -> None:
        surplus = max(0, len(self) - _WINDOW)
        del self.digests[:surplus], self._ids[:surplus], self._numbers[:surplus]
        self._before += surplus
        while len(self._recent) > _RECENT or (self._recent_size > _RECENT_SIZE and len(self._recent) > 1):
            self._recent_size -= _size(self._recent.popleft()[1])

    def as_json(self) -> Record:
        recent = [as_record(message, seq=number) for number, message in self._recent]
        # two long texts are read much faster than two long lists
        known = {"digests": " ".join(self.digests), "ids": "\n".join(self._ids)}
        rest = {"before": self._before, "numbers": self._numbers, "left": self.left.as_json()}
        return {**known, "recent": recent, **rest}

    @classmethod
    def from_json(cls, value: Record) -> "Branch":
        digests = value["digests"].split(" ") if value["digests"] else []
        ids = value["ids"].split("\n") if digests else []
        recent = [(record["ctx"]["seq"], message_in(record)) for record in value["recent"]]
        return cls(digests, ids, recent, value["before"], value["numbers"], Ranges(*value["left"]))


def _size(message: Message) -> int:
    content = message.content if isinstance(message.content, str) else repr(message.content)
    return len(content) + sum(len(str(call["arguments"])) for call in message.tool_calls)
