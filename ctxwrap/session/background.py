"""Background work: one thread per process, coalesced per subject."""

import logging
import os
import threading
from collections.abc import Callable, Hashable
from time import monotonic
from typing import Any, NamedTuple

from ctxwrap.session.threads import wait_for_detached

logger = logging.getLogger("ctxwrap")

_QUIET, _LATEST = 120.0, 600.0
"""Work runs when its subject has been quiet for so many seconds; it is not put off any more after the second number.

Writing the derived files costs as much CPU as two calls, for one turn as for five, so they wait for the turns of a
person who reads and types in between.
"""

_MOST = 256
"""How many subjects wait. Beyond that the one that has been quiet for longest is due: work keeps its subject in memory,
and the end of the process waits for all of it."""

_POLL = 5.0
"""Seconds between looks at what is due. Waking the thread instead would cost the caller time."""

_IDLE = 10.0
"""Seconds without work after which the thread ends."""

Work = Callable[[], None]


class _Pending(NamedTuple):
    since: float
    due: float
    work: Work


class Background:
    def __init__(self, quiet: float = _QUIET, latest: float = _LATEST, most: int = _MOST) -> None:
        self._quiet, self._latest, self._most = quiet, latest, most
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._pending: dict[Hashable, _Pending] = {}
        """By subject, in the order of due times."""
        self._doing: Hashable | None = None
        """The subject whose work is running."""
        self._is_running = False
        self._thread = 0

    def schedule(
        self, subject: Hashable, work: Work, *, replaces: bool = True, starts: bool = True, is_urgent: bool = False
    ) -> None:
        """Run `work` once its subject is quiet, or at the next look if it is urgent; replaces its pending work.

        With `replaces=False`, pending work stays and is only put off: it does what `work` does, and may do more. Pass
        `starts=False` where the garbage collector may be running: no thread can be started there.
        """
        with self._lock:
            now = monotonic()
            known = self._pending.get(subject)
            if known and not replaces:
                work = known.work
            if is_urgent:
                self._pending.pop(subject, None)
                self._pending = {subject: _Pending(now, now, work), **self._pending}
            elif known and now - known.since >= self._latest:
                self._pending[subject] = known._replace(work=work)
            else:
                self._pending.pop(subject, None)
                self._pending[subject] = _Pending(known.since if known else now, now + self._quiet, work)
            if starts and not self._is_running:
                self._is_running = _start(self._run)

    def finish(self, is_wanted: Callable[[Any], bool] = lambda _: True) -> None:
        """Run pending work whose subject `is_wanted` in this thread, and wait for what is running or being saved."""
        wait_for_detached()
        with self._changed:
            subjects = [each for each in list(self._pending) if is_wanted(each)]  # a finalizer may add another
            works = [self._pending.pop(subject).work for subject in subjects]
        for work in works:
            _do(work)
        with self._changed:
            while self._doing is not None and is_wanted(self._doing) and self._thread != threading.get_ident():
                self._changed.wait()

    def _run(self) -> None:
        self._thread = threading.get_ident()
        while (work := self._next()) is not None:
            _do(work)
            with self._changed:
                self._doing = None
                self._changed.notify_all()

    def _next(self) -> Work | None:
        """The next work when it is due; None after `_IDLE` seconds without any."""
        with self._changed:
            ends = monotonic() + _IDLE
            while True:
                now = monotonic()
                subject, pending = next(iter(self._pending.items()), (None, None))
                if pending is not None and (pending.due <= now or len(self._pending) > self._most):
                    del self._pending[subject]
                    self._doing = subject
                    return pending.work
                if pending is None and ends <= now:
                    self._is_running = False
                    return None
                self._changed.wait(min((pending.due if pending else ends) - now, _POLL))


def _do(work: Work) -> None:
    try:
        work()
    except Exception as error:
        logger.info("ctxwrap: background work failed: %r", error)


def _start(run: Work) -> bool:
    try:
        threading.Thread(target=run, name="ctxwrap-background", daemon=True).start()
    except RuntimeError:  # the interpreter is shutting down and starts no threads: `finish` does the work
        return False
    return True


background = Background()


def _begin_anew() -> None:
    """Pending work belongs to the parent of a forked process."""
    background.__init__()  # type: ignore[misc]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_anew)
