"""The caller's list: what follows from an item alone is computed once, however often the caller sends the item."""

import marshal
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, TypeVar

from ctxwrap.types import Message

S = TypeVar("S")
T = TypeVar("T")

Read = Callable[[Any], Sequence[Message]]
"""Makes messages of one item."""

_FEWEST = 4
"""Items from which on a list is likely to come again with more of them."""

_LARGEST = 200_000
"""Bytes up to which a list is kept until the next call."""

_FORM = 2
"""The version of marshal's format that writes equal values alike, and a list as its head and its items."""

_HEAD = len(marshal.dumps([], _FORM))


class CallersList(list[Any]):
    """The items of one call, with values of functions of an item.

    Items are the same if their bytes are: a caller may change one in place, and 1 is not true. Values are made of
    copies, which nobody else can change.
    """

    def __init__(self, items: Iterable[Any], written: list[bytes], before: "CallersList | None", same: int) -> None:
        """`written` has the items as bytes; the first `same` of them are all that the call before had."""
        super().__init__(items)
        self._written, self._same = written, same
        self._known = before._columns if before else {}
        """The values of the call before."""
        places: dict[bytes, int] = {}
        if before is not None and not same:
            places = dict(zip(before._written, range(len(before._written)), strict=True))
        self._places_before = list(map(places.get, written[same:]))
        """Where each other item was in the call before; None for a new one."""
        self._known_joined = before._joined if before and same else {}
        self._columns: dict[Hashable, list[Any]] = {}
        self._joined: dict[Hashable, list[Any]] = {}
        self.continued: dict[Hashable, Any] = before.continued if before and same else {}
        """What was made of the beginning of this list, which the next one may continue."""

    @classmethod
    def of(cls, items: Any, before: "CallersList | None") -> "CallersList | None":
        """A list that the next one may begin with; None if it is short or very long, or no list of plain JSON."""
        if type(items) is not list or len(items) < _FEWEST:
            return None
        known = before._written if before and len(items) >= len(before._written) else []
        try:
            begins = b"".join(known)
            if known and marshal.dumps(items[: len(known)], _FORM)[_HEAD:] != begins:
                known, begins = [], b""
            written, size = [*known], len(begins)
            for item in items[len(known) :]:
                written.append(data := marshal.dumps(item, _FORM))
                size += len(data)
                if size > _LARGEST:
                    return None
        except ValueError:
            return None
        return cls(items, written, before, len(known))

    def values(self, of: Callable[[Any], T]) -> list[T]:
        """`of` each item; `of` must depend on nothing else."""
        values = self._columns.get(of)
        if values is None:
            known, same = self._known.get(of), self._same
            if known is None:
                values = [of(marshal.loads(item)) for item in self._written]
            else:
                placed = zip(self._written[same:], self._places_before, strict=True)
                more = [of(marshal.loads(item)) if place is None else known[place] for item, place in placed]
                values = [*known, *more] if same else more
            self._columns[of] = values
        return values

    def joined(self, of: Callable[[Any], Sequence[T]]) -> list[T]:
        """`of` each item, which gives several values, one after the other."""
        joined = self._joined.get(of)
        if joined is None:
            values, known = self.values(of), self._known_joined.get(of)
            more = chain.from_iterable(values if known is None else values[self._same :])
            self._joined[of] = joined = [*(known or ()), *more]
        return joined


class CallersMessages(tuple[Message, ...]):
    """The messages that `read` makes of a caller's list, after those from elsewhere in the request."""

    _opening: Sequence[Message]
    _items: CallersList
    _read: Read

    @classmethod
    def of(cls, opening: Sequence[Message], items: CallersList, read: Read) -> "CallersMessages":
        messages = cls((*opening, *items.joined(read)))
        messages._opening, messages._items, messages._read = opening, items, read
        return messages

    def values(self, of: Callable[[Message], T]) -> list[T]:
        """`of` each message; `of` must depend on nothing else."""
        return [*map(of, self._opening), *self._items.joined(_ValuesOf(self._read, of))]


@dataclass(frozen=True, slots=True)
class _ValuesOf:
    """Values of the messages in an item."""

    read: Read
    of: Callable[[Message], Any]

    def __call__(self, item: Any) -> list[Any]:
        return list(map(self.of, self.read(item)))


def continued_with(given: Iterable[Any]) -> dict[Hashable, Any]:
    """What was made of the beginning of a request's messages, for calls to go on with whose list begins alike."""
    return given._items.continued if isinstance(given, CallersMessages) else {}


def values_of(given: Iterable[S], of: Callable[[S], T]) -> list[T]:
    """`of` each item or message of a request; `of` must depend on nothing else."""
    return given.values(of) if isinstance(given, (CallersList, CallersMessages)) else list(map(of, given))


def read_each(
    opening: Sequence[Message], items: Iterable[Any], read: Read
) -> tuple[tuple[Message, ...], tuple[int, ...]]:
    """The messages of a request, and for each the index of its item: -1 for those of `opening`, which come first."""
    found = values_of(items, read)
    places: Iterable[int] = range(len(found))
    if set(map(len, found)) != {1}:
        places = [at for at, messages in enumerate(found) for _ in messages]
    places = (*[-1] * len(opening), *places)
    if isinstance(items, CallersList):
        return CallersMessages.of(opening, items, read), places
    return (*opening, *chain.from_iterable(found)), places
