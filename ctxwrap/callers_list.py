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
"""The version of marshal's format that writes equal values alike."""


class CallersList(list[Any]):
    """The items of one call, with values of functions of an item.

    Items are the same if their bytes are: a caller may change one in place, and 1 is not true. Values are made of
    copies, which nobody else can change.
    """

    def __init__(self, items: Iterable[Any], written: list[bytes], before: "CallersList | None") -> None:
        super().__init__(items)
        self._written = written
        self._places = dict(zip(written, range(len(written)), strict=True))
        self._known = before._columns if before else {}
        """The values of the call before."""
        self._places_before = list(map(before._places.get, written)) if before else []
        """Where each item was in the call before; None for a new one."""
        self._columns: dict[Hashable, list[Any]] = {}

    @classmethod
    def of(cls, items: Any, before: "CallersList | None") -> "CallersList | None":
        """A list that the next one may begin with; None if it is short or very long, or no list of plain JSON."""
        if type(items) is not list or len(items) < _FEWEST:
            return None
        written, size = list[bytes](), 0
        try:
            for item in items:
                written.append(data := marshal.dumps(item, _FORM))
                size += len(data)
                if size > _LARGEST:
                    return None
        except ValueError:
            return None
        return cls(items, written, before)

    def values(self, of: Callable[[Any], T]) -> list[T]:
        """`of` each item; `of` must depend on nothing else."""
        values = self._columns.get(of)
        if values is None:
            known = self._known.get(of)
            if known is None:
                values = [of(marshal.loads(item)) for item in self._written]
            else:
                placed = zip(self._written, self._places_before, strict=True)
                values = [of(marshal.loads(item)) if place is None else known[place] for item, place in placed]
            self._columns[of] = values
        return values


class CallersMessages(tuple[Message, ...]):
    """The messages that `read` makes of a caller's list, after those from elsewhere in the request."""

    _opening: Sequence[Message]
    _items: CallersList
    _read: Read

    @classmethod
    def of(cls, opening: Sequence[Message], items: CallersList, read: Read) -> "CallersMessages":
        messages = cls((*opening, *chain.from_iterable(items.values(read))))
        messages._opening, messages._items, messages._read = opening, items, read
        return messages

    def values(self, of: Callable[[Message], T]) -> list[T]:
        """`of` each message; `of` must depend on nothing else."""
        values: list[list[T]] = self._items.values(_ValuesOf(self._read, of))
        return [*map(of, self._opening), *chain.from_iterable(values)]


@dataclass(frozen=True, slots=True)
class _ValuesOf:
    """Values of the messages in an item."""

    read: Read
    of: Callable[[Message], Any]

    def __call__(self, item: Any) -> list[Any]:
        return list(map(self.of, self.read(item)))


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
