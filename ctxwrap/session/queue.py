"""The queue of turns of a session: one turn has it, the others wait in order."""

import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Hashable
from typing import Any, NamedTuple
from weakref import WeakValueDictionary, ref


class Caller(NamedTuple):
    """The caller: a thread and, in async code, a task.

    Both are weak references: a task holds its exception, whose frames hold the answer, so a call that held its task
    would never be collected.
    """

    thread: "ref[threading.Thread]"
    task: "ref[Any] | None"

    def would_wait_for_itself(self, owner: "Caller") -> bool:
        """Whether `owner` cannot finish while this caller waits.

        It is the same task, or it needs this thread: sync code blocks its thread, async code yields to other tasks.
        """
        blocks = threading.current_thread() is self.thread()
        return self.thread == owner.thread and (blocks or owner.task is None or self.task == owner.task)


class TurnQueue:
    """The turns that wait for a session in this process, through any client, first come, first served.

    Between processes the store's lease decides, without an order.
    """

    def __init__(self) -> None:
        self.waiting: deque[TurnTicket] = deque()
        self.owner: Caller | None = None
        """The turn that has the session."""


class TurnTicket:
    """One call's place in the queue."""

    def __init__(self, line: TurnQueue, caller: Caller, lease: Callable[[], Callable[[], None] | None]) -> None:
        self._line, self._caller, self._lease = line, caller, lease
        self._give_back: Callable[[], None] | None = None

    def take(self) -> bool:
        """Whether this call has the session from now until it leaves; otherwise it keeps its place.

        A caller whose other call has the session runs beside it: waiting for itself would be a deadlock.
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
        """Return to the front of the queue: the session could not be taken after all."""
        if self._give_back is not None:
            self.leave()
            self._line.waiting.appendleft(self)

    def give_back(self) -> None:
        """Let others run once they see what is written; `leave` must still be called."""
        if self._give_back is not None:
            self._give_back()

    def leave(self) -> None:
        """Release the session, or stop waiting for it."""
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
    """The queue of the session at that place; it exists while somebody holds it."""
    with _finding:
        return _lines.setdefault(place, TurnQueue())


def _begin_in_child() -> None:
    """A forked process starts with empty queues: the calls in them are its parent's."""
    global _finding
    _finding = threading.Lock()
    for line in list(_lines.values()):
        line.waiting.clear()
        line.owner = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_in_child)


def this_caller() -> Caller:
    """The current thread and, in async code, the current task."""
    asyncio = sys.modules.get("asyncio")
    loop = asyncio._get_running_loop() if asyncio else None
    task = asyncio.current_task(loop) if asyncio and loop else None
    return Caller(ref(threading.current_thread()), None if task is None else ref(task))
