"""The newest branch of a conversation, and the alignment of the caller's messages with it."""

import json
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b
from itertools import accumulate, islice
from typing import Any, NamedTuple

from ctxwrap.memory.items import Origin, is_foreign, least_trusted, least_trusted_foreign
from ctxwrap.stores.log_format import numbers_in, ranges
from ctxwrap.tokens.message_columns import LoggedMessages, MessageColumns
from ctxwrap.types import Body, Content, LoggedMessage, Message, Record

Digest = str
"""The same for equal messages, however an SDK serialises them, in every process."""

_spelled = json.JSONEncoder(separators=(",", ":"), default=str).encode


class Alignment(NamedTuple):
    keep: int
    """How many known messages the new ones continue; fewer than all means a new branch."""
    new: int
    """The index of the first new message in the caller's list."""
    covered: int = 0
    """How many of the caller's messages before it are known."""
    before: int = 0
    """How many known messages are older than the caller's first one."""


def digest(message: Message) -> Digest:
    """A digest of a message in canonical form. Plain text skips the JSON encoding."""
    content = message.content
    content = content.strip() if isinstance(content, str) else _plain(content)
    if isinstance(content, str) and not message.tool_calls:
        digest_of = _kept_text_digest if len(content) <= _LONGEST_KEPT else _text_digest
        return digest_of(message.role, message.tool_call_id, content)
    calls = [(call["id"], call["name"], _canonical(call["arguments"])) for call in message.tool_calls]
    return _hashed(_spelled((message.role, content, message.tool_call_id, *calls)))


def _text_digest(role: str, tool_call_id: str, content: str) -> Digest:
    return _hashed(f"{role}\n{tool_call_id!r}\n{content}")


_LONGEST_KEPT = 1024
"""Characters up to which the digest of a text is kept: all texts together have at most one million."""

_kept_text_digest = lru_cache(maxsize=1024)(_text_digest)
"""A message is compared with the log before it is written to it, and again whenever the caller sends it along."""


def _hashed(said: str) -> Digest:
    return blake2b(said.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def _plain(content: list[Body]) -> Content:
    """A single text part in the form of a text; SDKs strip surrounding white space."""
    match content:
        case [{"type": "text", "text": str(text), **others}] if not others:
            return text.strip()
    return content


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
    answered: int = -1,
    began: int = -1,
    cut: bool = False,
) -> Alignment:
    """How the caller's list `given` continues the log's branch `known`.

    `answered` is the position of the last model answer in the list, if it has one, which the log should have. `began`
    is the position in the branch where the previous call's list began, if known: texts repeat, and a caller's list
    usually begins at the same message. `cut` means that messages before the known ones were dropped, so the list may
    begin with unknown ones.
    """
    resent = _end_of(known, given) if cut else 0
    if resent:
        return Alignment(len(known), resent, covered=len(known))
    has_answer = answered >= 0
    same = _common(known[began : began + len(given)], given) if has_answer and began >= 0 else 0
    if has_answer and same > answered:
        return _placed(began, same)
    overlap = _overlap(known, given)
    if overlap or not (known and has_answer):
        return _placed(len(known) - overlap, overlap)
    return _resumed(known, given, began if same else 0) or _branch(known, given, began if same else -1, cut)


def _placed(at: int, length: int) -> Alignment:
    """The list begins at a position in the branch and matches it for this many messages."""
    return Alignment(at + length, length, covered=length, before=at)


def _common(one: Sequence[Digest], other: Sequence[Digest]) -> int:
    """The length of the common prefix."""
    shorter = min(len(one), len(other))
    if one[:shorter] == other[:shorter]:
        return shorter
    return next(at for at, (this, that) in enumerate(zip(one, other, strict=False)) if this != that)


def _end_of(known: Sequence[Digest], given: Sequence[Digest]) -> int:
    """The end of the last occurrence of all of `known` in `given`."""
    if not known or len(given) < len(known):
        return 0
    length, end = _last_longest(_runs(known, given))
    return end if length == len(known) else 0


def _overlap(known: Sequence[Digest], given: Sequence[Digest]) -> int:
    """The length of the longest suffix of `known` that is a prefix of `given`."""
    shorter = min(len(known), len(given))
    if not shorter or given[0] not in known[-shorter:]:
        return 0
    return _runs(given[:shorter], known[-shorter:])[-1]


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


_WINDOW = 2000
"""How many messages are kept as digests and ids."""

_RECENT = 200
"""How many of them are kept in full."""

_RECENT_SIZE = 500_000
"""Their maximum total length, in characters."""

ROOT = "root"
"""The parent of a first message."""


_RANGES = 4096
"""The maximum number of ranges of abandoned messages; more are merged."""

_DROPPED = 64
"""The maximum number of remembered superseded messages."""


class Ranges:
    """Abandoned message numbers as sorted ranges; a new range absorbs those that start after it."""

    def __init__(self, starts: Iterable[int] = (), ends: Iterable[int] = ()) -> None:
        self._starts, self._ends = list(starts), list(ends)

    def __bool__(self) -> bool:
        return bool(self._starts)

    def __contains__(self, number: int) -> bool:
        at = bisect_right(self._starts, number) - 1
        return at >= 0 and number <= self._ends[at]

    def range_of(self, number: int) -> tuple[int, int] | None:
        """The range that contains a number."""
        at = bisect_right(self._starts, number) - 1
        return (self._starts[at], self._ends[at]) if number in self else None

    def add(self, first: int, last: int) -> None:
        if first > last:
            return
        while self._starts and self._starts[-1] >= first:
            del self._starts[-1], self._ends[-1]
        self._starts.append(first)
        self._ends.append(last)
        if len(self._starts) > _RANGES:
            self._join()

    def add_one(self, number: int) -> None:
        """Remove a number that precedes other abandoned ones."""
        if number not in self:
            at = bisect_left(self._starts, number)
            self._starts.insert(at, number)
            self._ends.insert(at, number)
            if len(self._starts) > _RANGES:
                self._join()

    def _join(self) -> None:
        """Merge the two nearest ranges: hiding too much is safer than showing an abandoned message."""
        at = min(range(1, len(self._starts)), key=lambda at: self._starts[at] - self._ends[at - 1])
        del self._starts[at], self._ends[at - 1]

    def as_json(self) -> list[list[int]]:
        return [self._starts, self._ends]


class Branch:
    """The messages from the root to the newest one, as far as they are kept; the same for the same log."""

    def __init__(
        self,
        digests: Iterable[Digest] = (),
        ids: Iterable[str] = (),
        recent: Iterable[LoggedMessage] = (),
        before: int = 0,
        numbers: Iterable[int] = (),
        left: Ranges | None = None,
        dropped: Mapping[str, str] | None = None,
    ) -> None:
        self.digests = list(digests)
        self._ids = list(ids)
        self._numbers = list(numbers)
        self.left = left or Ranges()
        """The messages that the branch abandoned."""
        self._keep(recent)
        self._before = before
        self._dropped = dict(dropped or {})
        """Superseded messages with their parents: a caller may continue from one."""

    def __len__(self) -> int:
        return len(self.digests)

    @property
    def is_cut(self) -> bool:
        """Whether older messages were dropped."""
        return self._before > 0

    def id_of(self, count: int) -> str:
        """The id of the last of the first `count` kept messages."""
        return self._ids[count - 1] if count else ROOT

    def numbers(self, first: int, last: int) -> list[int]:
        """The log numbers of the kept messages from `start` to before `end`."""
        return self._numbers[first:last]

    def place_of(self, number: int) -> int:
        """The position of a message number among the kept ones; -1 if it is not kept."""
        at = bisect_left(self._numbers, number)
        return at if self._numbers[at : at + 1] == [number] else -1

    def _keep(self, recent: Iterable[LoggedMessage]) -> None:
        self._columns = MessageColumns(recent)
        self._first = 0
        """The position of the first recent message; those before it are forgotten."""
        self._sizes = [0, *accumulate([size_of(kept.message) for kept in self._columns.kept])]
        """Up to each position, the length of the messages."""

    @property
    def _recent(self) -> LoggedMessages:
        return LoggedMessages(self._columns, self._first, len(self._columns.kept))

    def history(self, without: int, most: int | None = None) -> LoggedMessages:
        """The recent messages without the newest ones, limited in number."""
        end = max(self._first, len(self._columns.kept) - without)
        return LoggedMessages(self._columns, self._first if most is None else max(self._first, end - most), end)

    def newest(self) -> Iterator[LoggedMessage]:
        """The recent messages, the newest first."""
        kept = self._columns.kept
        return islice(reversed(kept), len(kept) - self._first)

    def message(self, number: int) -> LoggedMessage | None:
        """The recent message with that number, if there is one."""
        numbers = self._columns.numbers
        at = bisect_left(numbers, number, lo=self._first)
        return self._columns.kept[at] if numbers[at : at + 1] == [number] else None

    def since(self, number: int) -> list[LoggedMessage]:
        """The recent messages after a message number."""
        return self._columns.kept[bisect_right(self._columns.numbers, number, lo=self._first) :]

    def add(self, kept: LoggedMessage, said: Digest, id: str = "", parent: str = "") -> None:
        """Append a message with its digest, after `parent` if that is not the newest one."""
        if parent:
            self._go_back(parent, kept.number)
        self._ids.append(" ".join(id.split()) or str(self._before + len(self)))
        self._numbers.append(kept.number)
        self.digests.append(said)
        self._columns.add(kept)
        self._sizes.append(self._sizes[-1] + size_of(kept.message))
        self._forget()

    def drop(self, id: str) -> None:
        """Remove one message from the conversation; its neighbours stay."""
        if not id or id not in self._ids:
            return
        at = self._ids.index(id)
        before, number = self.id_of(at), self._numbers[at]
        dropped = {each: before if to == id else to for each, to in self._dropped.items()} | {id: before}
        self._dropped = dict(list(dropped.items())[-_DROPPED:])
        del self.digests[at], self._ids[at], self._numbers[at]
        self.left.add_one(number)
        if any(each.number == number for each in self._recent):
            self._keep([each for each in self._recent if each.number != number])

    def _go_back(self, parent: str, number: int) -> None:
        """The parent is no longer kept: the branch restarts after an unknown beginning."""
        parent = self._dropped.get(parent, parent)
        if parent == ROOT:
            self._before = 0
        keep = self._ids.index(parent) + 1 if parent in self._ids else 0
        if self._numbers and parent != ROOT:
            self.left.add(self._numbers[keep - 1] + 1 if keep else self._numbers[0], number - 1)
        surplus = min(len(self) - keep, len(self._recent))
        if surplus:
            self._keep(self._recent[:-surplus])
        del self.digests[keep:], self._ids[keep:], self._numbers[keep:]

    def _forget(self) -> None:
        surplus = len(self.digests) - _WINDOW
        if surplus > 0:
            del self.digests[:surplus], self._ids[:surplus], self._numbers[:surplus]
            self._before += surplus
        sizes, first, end = self._sizes, self._first, len(self._columns.kept)
        while end - first > (_RECENT if sizes[end] - sizes[first] <= _RECENT_SIZE else 1):
            first += 1
        self._first = first
        if first > _RECENT or sizes[first] > _RECENT_SIZE:
            self._keep(self._recent)

    def as_json(self) -> Record:
        columns, first = self._columns, self._first
        fields: list[Iterable[Any]] = list(zip(*columns.messages[first:], strict=True))
        if fields:
            *fields, extras = fields
            fields.append([dict(extra) if extra else None for extra in extras])
        tokens = [dict(kept.tokens) for kept in columns.kept[first:]]
        recent = list(zip(columns.numbers[first:], *fields, tokens, strict=True))
        # json parses one long string much faster than a long list
        known = {"digests": " ".join(self.digests), "ids": "\n".join(self._ids), "numbers": ranges(self._numbers)}
        left = {"left": self.left.as_json(), "dropped": self._dropped}
        return {**known, "recent": recent, "before": self._before, **left}

    @classmethod
    def from_json(cls, value: Record) -> "Branch":
        digests = value["digests"].split(" ") if value["digests"] else []
        ids = value["ids"].split("\n") if digests else []
        recent = [
            LoggedMessage(number, Message(role, content, name, tuple(calls), call, extra or {}), tokens)
            for number, role, content, name, calls, call, extra, tokens in value["recent"]
        ]
        numbers = numbers_in(value["numbers"])
        return cls(digests, ids, recent, value["before"], numbers, Ranges(*value["left"]), value["dropped"])


def size_of(message: Message) -> int:
    """The length of a message with its parts and tool calls, in characters."""
    _, content, _, calls, *_ = message
    size = len(content if isinstance(content, str) else repr(content))
    for call in calls:
        size += len(str(call["arguments"]))
    return size


_RUNS = 4096
"""The maximum number of runs; the oldest are merged, with everything between them."""

Run = tuple[int, int, Origin]
"""First message, last message, origin."""


class Origins:
    def __init__(self, runs: Iterable[Run] = ()) -> None:
        self._runs = list(runs)
        self.least = least_trusted_foreign(origin for _, _, origin in self._runs)
        """The least trusted foreign origin."""

    def of(self, number: int) -> Origin | None:
        """The origin of a foreign message, or None."""
        at = bisect_right(self._runs, number, key=lambda run: run[0]) - 1
        return self._runs[at][2] if at >= 0 and number <= self._runs[at][1] else None

    def add(self, number: int, origin: Origin) -> None:
        """Add the newest message."""
        if not is_foreign(origin):
            return
        self.least = least_trusted(self.least or origin, origin)
        first, last, before = self._runs[-1] if self._runs else (0, -1, origin)
        if (last, before) == (number - 1, origin):
            self._runs[-1] = first, number, origin
        else:
            self._runs.append((number, number, origin))
        if len(self._runs) > _RUNS:
            (first, _, one), (_, last, other) = self._runs[:2]
            self._runs[:2] = [(first, last, least_trusted(one, other))]

    def as_json(self) -> list[Run]:
        return self._runs

    @classmethod
    def from_json(cls, value: Iterable[Iterable[Any]]) -> "Origins":
        return cls((first, last, origin) for first, last, origin in value)
