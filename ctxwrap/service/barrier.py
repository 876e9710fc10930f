"""Waiting until what was written lasts, and telling what did not: each failure once."""

import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from ctxwrap.errors import StoreError, StoreUnavailable, WritesLost
from ctxwrap.types import SessionKey

T = TypeVar("T")

_MOST = 64
"""So many failures of a memory are told one by one."""


class Losses:
    """The writes that failed, by memory, since somebody last asked."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lost: dict[SessionKey, list[str]] = defaultdict(list)

    @contextmanager
    def noted(self, key: SessionKey, what: str) -> Iterator[None]:
        try:
            yield
        except (StoreError, OSError) as error:
            with self._lock:
                if len(self._lost[key]) < _MOST:
                    self._lost[key].append(f"{what}: {error}")
            raise

    def tell(self, key: SessionKey) -> None:
        """A WritesLost if a write failed that was not told yet."""
        with self._lock:
            lost = tuple(self._lost.pop(key, ()))
        if lost:
            raise WritesLost(f"{len(lost)} writes to memory {key.session!r} failed: {'; '.join(lost)[:2000]}", lost)


def within(timeout: float, work: Callable[[], T], what: str) -> T:
    """What `work` gives, or a StoreUnavailable if it takes longer; it goes on then, with nobody waiting for it."""
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run, name="ctxwrap-barrier", daemon=True)
    thread.start()
    thread.join(timeout)
    if thread.is_alive():
        raise StoreUnavailable(f"{what} takes longer than {timeout:g} s: the medium is slow or another writer has it")
    if errors:
        raise errors[0]
    return results[0]
