"""Messages in the order of the log with running sums, so that a range of them is counted without a look at each."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import overload

from ctxwrap.tokens.measure import Measure
from ctxwrap.types import LoggedMessage, Message

_MEASURES = 4
"""The models whose tokens are kept: a conversation seldom has more."""


class MessageColumns:
    """Messages, oldest first. Newer ones are added and none is removed, so a range of positions stays what it is.

    Adding, and the first count of a range, need the session's lock.
    """

    def __init__(self, messages: Iterable[LoggedMessage] = ()) -> None:
        self.kept = list(messages)
        self.numbers = [kept.number for kept in self.kept]
        self.messages = [kept.message for kept in self.kept]
        self.users = [0, *accumulate([message.role == "user" for message in self.messages])]
        """Up to each position, how many messages are a user's."""
        self.others = [0, *accumulate([not _is_text(message) for message in self.messages])]
        """Up to each position, how many are more than text of a user or a model, such as calls and results of tools."""
        self._tokens: dict[object, list[int]] = {}
        """Up to each position, the tokens by a measure."""
        self._agreed: dict[object, tuple[int, int]] = {}
        """The positions in which a measure counts what the log says."""

    def add(self, kept: LoggedMessage) -> None:
        number, message, _ = kept
        self.users.append(self.users[-1] + (message.role == "user"))
        self.others.append(self.others[-1] + (not _is_text(message)))
        self.numbers.append(number)
        self.messages.append(message)
        self.kept.append(kept)

    def tokens(self, measure: Measure, end: int) -> list[int]:
        """The tokens up to each position, at least to `end`."""
        sums = self._tokens.get(measure.key)
        if sums is None:
            sums = [0]
            self._tokens = {**dict([*self._tokens.items()][1 - _MEASURES :]), measure.key: sums}
        if len(sums) <= end:
            for size in measure.messages(self.kept[len(sums) - 1 :]):
                sums.append(sums[-1] + size)
        return sums

    def agrees(self, measure: Measure, start: int, end: int) -> bool:
        """Whether a measure counts what the log says, which may be another model's estimate."""
        first, last = self._agreed.get(measure.key, (start, start))
        if not first <= start <= last:
            first = last = start
        for kept in self.kept[last:end]:
            if kept.tokens.get(measure.name) != measure.counted(kept.message):
                return False
            last += 1
        self._agreed = {**dict([*self._agreed.items()][1 - _MEASURES :]), measure.key: (first, last)}
        return True


def _is_text(message: Message) -> bool:
    role, content, _, calls, *_ = message
    return isinstance(content, str) and not calls and role in ("user", "assistant")


class LoggedMessages(Sequence[LoggedMessage]):
    """A range of messages."""

    __slots__ = ("columns", "end", "start")

    def __init__(self, columns: MessageColumns, start: int, end: int) -> None:
        self.columns, self.start, self.end = columns, start, max(start, end)

    @classmethod
    def of(cls, messages: Sequence[LoggedMessage]) -> "LoggedMessages":
        if isinstance(messages, LoggedMessages):
            return messages
        return cls(MessageColumns(messages), 0, len(messages))

    def __len__(self) -> int:
        return self.end - self.start

    def __iter__(self) -> Iterator[LoggedMessage]:
        return iter(self.columns.kept[self.start : self.end])

    def __reversed__(self) -> Iterator[LoggedMessage]:
        return iter(self.columns.kept[self.start : self.end][::-1])

    @overload
    def __getitem__(self, at: int) -> LoggedMessage: ...
    @overload
    def __getitem__(self, at: slice) -> "LoggedMessages": ...
    def __getitem__(self, at: int | slice) -> "LoggedMessage | LoggedMessages":
        if isinstance(at, slice):
            start, end, _ = at.indices(self.end - self.start)
            return LoggedMessages(self.columns, self.start + start, self.start + end)
        return self.columns.kept[range(self.start, self.end)[at]]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and [*self] == [*other]

    def __repr__(self) -> str:
        return repr(tuple(self))

    @property
    def are_plain(self) -> bool:
        """Whether they are only text of users and models."""
        others = self.columns.others
        return others[self.start] == others[self.end]
