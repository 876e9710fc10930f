"""Background work: one thread per process, coalesced per subject."""

import logging
import os
import threading
from collections.abc import Callable, Hashable
from time import monotonic
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    pass


logger = logging.getLogger("ctxwrap")

_DELAY = 5.0
"""Seconds between scheduling work and doing it; work scheduled meanwhile is coalesced."""

_IDLE = 10.0
"""Seconds without work after which the thread ends."""

Work = Callable[[], None]


class Background:
    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._due: dict[Hashable, tuple[float, Work]] = {}
        """Due time and work per subject, in the order of due times."""
        self._doing: Hashable | None = None
        """The subject whose work is running."""
        self._is_running = False
        self._thread = 0

    def schedule(self, subject: Hashable, work: Work, *, starts: bool = True) -> None:
        """Run `work` soon; it replaces pending work of the same `subject` and keeps its due time.

        Pass `starts=False` where the garbage collector may be running: no thread can be started there.
        """
        with self._changed:
            due, _ = self._due.get(subject, (monotonic() + _DELAY, work))
            self._due[subject] = due, work
            if starts and not self._is_running:
                self._is_running = _start(self._run)

    def finish(self, is_wanted: Callable[[Any], bool] = lambda _: True) -> None:
        """Run pending work whose subject `is_wanted` in this thread, and wait for what is running."""
        with self._changed:
            subjects = [each for each in list(self._due) if is_wanted(each)]  # a finalizer may add another
            works = [self._due.pop(subject)[1] for subject in subjects]
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
            waits_since = monotonic()
            while True:
                now = monotonic()
                subject, (due, work) = next(iter(self._due.items()), (None, (waits_since + _IDLE, None)))
                if due <= now:
                    self._due.pop(subject, None)
                    self._doing, self._is_running = subject, work is not None
                    return work
                self._changed.wait(min(due - now, _DELAY))  # waking the thread would cost the caller time


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
