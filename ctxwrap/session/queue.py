"""Two turns at once: which of them has the session, and who comes next."""

import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Hashable
from typing import Any, NamedTuple
from weakref import WeakValueDictionary, ref


class Caller(NamedTuple):
    """Who calls: a thread and, in async code, a task.

    Neither is kept alive. A task holds the error it ended with, and that the frames that hold the answer: a call that
    held its task would never go.
    """

    thread: "ref[threading.Thread]"
    task: "ref[Any] | None"

    def would_wait_for_itself(self, owner: "Caller") -> bool:
        """Whether `owner` cannot come to its end while this caller waits.

        It is the same task, or it needs the thread: sync code waits in its own, async code leaves it to other tasks.
        """
        blocks = threading.current_thread() is self.thread()
        return self.thread == owner.thread and (blocks or owner.task is None or self.task == owner.task)


class TurnQueue:
    """Those who wait for a session in this process, through whichever client: first come, first served.

    Between processes the lease decides, which goes to whoever asks at the right moment.
    """

    def __init__(self) -> None:
        self.waiting: deque[TurnTicket] = deque()
        self.owner: Caller | None = None
        """Who has the session."""


class TurnTicket:
    """One call's place in a line."""

    def __init__(self, line: TurnQueue, caller: Caller, lease: Callable[[], Callable[[], None] | None]) -> None:
        self._line, self._caller, self._lease = line, caller, lease
        self._give_back: Callable[[], None] | None = None

    def take(self) -> bool:
        """Whether the session is this call's, now and until it leaves; or else its place in the line is kept.

        A caller that has the session itself goes on beside its other call: whoever waits for itself waits for ever.
        """
        line = self._line
        if self._give_back is not None:
            return True
        if line.owner is not None and self._caller.would_wait_for_itself(line.owner):
            self._stop_waiting()
            return True
        if self not in line.waiting:
            line.waiting.append(self)
        if line.waiting[0] is self:
            self._give_back = self._lease()
        if self._give_back is None:
            return False
        line.owner = self._caller
        self._stop_waiting()
        return True

    def undo(self) -> None:
        """That it was not taken after all: it comes next again."""
        if self._give_back is not None:
            self.leave()
            self._line.waiting.appendleft(self)

    def give_back(self) -> None:
        """Let others have the session as soon as they see what is written; it is to be left all the same."""
        if self._give_back is not None:
            self._give_back()

    def leave(self) -> None:
        """Let others have the session, or give up waiting for it."""
        self._stop_waiting()
        give_back, self._give_back = self._give_back, None
        if give_back is not None:
            self._line.owner = None
            give_back()

    def _stop_waiting(self) -> None:
        if self in self._line.waiting:
            self._line.waiting.remove(self)


_lines: WeakValueDictionary[Hashable, TurnQueue] = WeakValueDictionary()
_finding = threading.Lock()


def turn_queue(place: Hashable) -> TurnQueue:
    """The line of the session that lies there; there is one while somebody stands in it."""
    with _finding:
        return _lines.setdefault(place, TurnQueue())


def _begin_in_child() -> None:
    """Of those who stand in a line, none is in a forked process."""
    global _lines, _finding
    _lines, _finding = WeakValueDictionary(), threading.Lock()


os.register_at_fork(after_in_child=_begin_in_child)


def this_caller() -> Caller:
    """The thread and, in async code, the task that runs."""
    asyncio = sys.modules.get("asyncio")
    try:
        task = asyncio.current_task() if asyncio else None
    except RuntimeError:
        task = None
    return Caller(ref(threading.current_thread()), None if task is None else ref(task))
