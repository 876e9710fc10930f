"""Which messages of a log are, or were made of, text that nobody in the conversation wrote."""

from bisect import bisect_right
from collections.abc import Iterable
from typing import Any

from ctxwrap.memory.items import Origin
from ctxwrap.memory.trust import foreign_in, is_foreign, least_trusted

_RUNS = 4096
"""So many runs of messages are told apart; of more, the oldest are taken for one, with all between them."""

Run = tuple[int, int, Origin]
"""The first and the last message, and their origin."""


class Origins:
    def __init__(self, runs: Iterable[Run] = ()) -> None:
        self._runs = list(runs)
        self.least = foreign_in(origin for _, _, origin in self._runs)
        """The least trusted of all that is foreign."""

    def of(self, number: int) -> Origin | None:
        """The origin of a message that is foreign."""
        at = bisect_right(self._runs, number, key=lambda run: run[0]) - 1
        return self._runs[at][2] if at >= 0 and number <= self._runs[at][1] else None

    def add(self, number: int, origin: Origin) -> None:
        """Take in a message behind all others."""
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
