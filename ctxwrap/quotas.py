"""The number of sessions of each tenant."""

import time
from collections.abc import Callable
from threading import Lock

from ctxwrap.settings import Quotas

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
