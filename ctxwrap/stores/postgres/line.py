"""A line to the database on which nobody waits for ever."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from math import inf
from time import monotonic
from typing import Any, NoReturn, TypeVar

import psycopg
from psycopg.abc import PQGen
from psycopg.waiting import Ready

T = TypeVar("T")


class Silence(psycopg.OperationalError):
    """Nothing came over the line for longer than any answer may take."""


class Line(psycopg.Connection[Any]):
    """A connection that breaks after `silence` seconds in which it waited and nothing came.

    Where packets vanish, TCP alone takes minutes to notice, and a socket of this machine never does.
    """

    silence = inf

    def __init__(self, *parts: Any, **more: Any) -> None:
        super().__init__(*parts, **more)
        self.since = monotonic()

    @contextmanager
    def waiting(self, silence: float) -> Iterator[None]:
        """For something that takes so long."""
        before, self.silence = self.silence, silence
        try:
            yield
        finally:
            self.silence = before

    def wait(self, gen: PQGen[T], *how: Any, **more: Any) -> T:
        return super().wait(self._heard(gen), *how, **more)

    def _heard(self, gen: PQGen[T]) -> PQGen[T]:
        """What psycopg waits for, which it looks at every tenth of a second, whether something came or not."""
        last = monotonic()
        try:
            wanted = next(gen)
            while True:
                ready = yield wanted
                if ready != Ready.NONE:
                    last = monotonic()
                elif monotonic() - last > self.silence:
                    self._end(gen)
                wanted = gen.send(ready)
        except StopIteration as end:
            value: T = end.value
            return value

    def _end(self, gen: PQGen[Any]) -> NoReturn:
        self.pgconn.finish()
        silence = Silence(f"nothing was heard from the server for {self.silence:.1f} seconds")
        with suppress(psycopg.Error, StopIteration):  # what it does last it cannot do any more
            gen.throw(silence)
        raise silence
