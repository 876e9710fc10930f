"""Two turns at once: which of them has the session, and who comes next."""

import sys
import threading
from collections import deque
from collections.abc import Callable
from typing import Any


class Line:
    """Those who wait for a session in this process: first come, first served.

    Between processes the lease decides, which goes to whoever asks at the right moment.
    """

    def __init__(self, lease: Callable[[], Callable[[], None] | None]) -> None:
        self.lease = lease
        self.waiting: deque[Place] = deque()
        self.owner: object = None
        """The thread and task that has the session."""


class Place:
    """One call's place in a line."""

    def __init__(self, line: Line, caller: object) -> None:
        self._line = line
        self._caller = caller
        self._give_back: Callable[[], None] | None = None

    def take(self) -> bool:
        """Whether the session is this call's, now and until it leaves; or else its place in the line is kept.

        A caller that has the session itself goes on beside its other call: whoever waits for itself waits for ever.
        """
        line = self._line
        if self._give_back is not None or line.owner == self._caller:
            return True
        if self not in line.waiting:
            line.waiting.append(self)
        if line.waiting[0] is self:
            self._give_back = line.lease()
        if self._give_back is None:
            return False
        line.owner = self._caller
        line.waiting.popleft()
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
        if self in self._line.waiting:
            self._line.waiting.remove(self)
        give_back, self._give_back = self._give_back, None
        if give_back is not None:
            self._line.owner = None
            give_back()


def this_caller() -> tuple[int, Any]:
    """The thread and, in async code, the task that runs."""
    asyncio = sys.modules.get("asyncio")
    try:
        task = asyncio.current_task() if asyncio else None
    except RuntimeError:
        task = None
    return threading.get_ident(), task
