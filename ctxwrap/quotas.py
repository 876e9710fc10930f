"""How much a tenant and a session may hold: asked before anything is written."""

import time
from collections.abc import Callable, Sequence
from threading import Lock
from typing import NamedTuple

from ctxwrap.errors import QuotaExceeded


class Quotas(NamedTuple):
    """The limits of memories and of wrapped chats, where a memory is a session and an entry is a message.

    0 is no limit. System messages are not counted.
    """

    memories: int = 10_000
    """Of a tenant, in all vaults: the sessions of all agents."""
    entries: int = 1_000_000
    """Of a memory."""
    characters: int = 1_000_000_000
    """Of all entries of a memory."""
    entry_characters: int = 200_000
    """Of one entry."""

    def check_memory(self, there: int) -> None:
        if self.memories and there >= self.memories:
            raise QuotaExceeded(
                f"there are {there} memories, and there may be {self.memories}: go on in one of them, or raise "
                "Quotas.memories"
            )

    def check_entries(self, entries: int, characters: int, lengths: Sequence[int]) -> None:
        """Whether entries of these lengths fit beside those that are there."""
        longest, added = max(lengths, default=0), sum(lengths)
        if self.entry_characters and longest > self.entry_characters:
            raise QuotaExceeded(
                f"an entry may have {self.entry_characters} characters, and this one has {longest}: shorten it, "
                "or raise Quotas.entry_characters"
            )
        if self.entries and entries + len(lengths) > self.entries:
            raise QuotaExceeded(
                f"there are {entries} entries, and there may be {self.entries}: {len(lengths)} more are too many. "
                "Begin another session or memory, or raise Quotas.entries"
            )
        if self.characters and characters + added > self.characters:
            raise QuotaExceeded(
                f"there are {characters} characters, and there may be {self.characters}: {added} more are too many. "
                "Begin another session or memory, or raise Quotas.characters"
            )


_RECOUNT = 60.0
"""After so many seconds sessions are counted anew: other processes begin sessions, too, and some are deleted."""

_TENANTS = 1024


class SessionCounts:
    """How many sessions tenants have, without a look at the store for each new one.

    What this process begins is counted at once. What others begin and delete is noticed within a minute.
    """

    def __init__(self, count: Callable[[str], int], clock: Callable[[], float] = time.monotonic) -> None:
        self._count, self._clock = count, clock
        self._lock = Lock()
        self._known: dict[str, tuple[int, float]] = {}
        """The number, and until when it is good."""

    def add(self, tenant: str, quotas: Quotas) -> None:
        """Count one more session; a QuotaExceeded if there may be none."""
        with self._lock:
            known = self._known.get(tenant)
        if known is None or known[1] <= self._clock():
            counted = self._count(tenant), self._clock() + _RECOUNT
            with self._lock:
                if len(self._known) >= _TENANTS:
                    self._known.clear()
                self._known[tenant] = counted
        with self._lock:
            number, until = self._known.get(tenant, (0, 0.0))
            quotas.check_memory(number)
            self._known[tenant] = number + 1, until
