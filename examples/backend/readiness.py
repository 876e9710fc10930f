"""Whether this worker should be sent requests: not while its store is away, and not while it is about to end."""

import asyncio
import logging
import signal
import threading
from types import FrameType

import ctxwrap
from ctxwrap.stores.base import Store
from ctxwrap.types import SessionKey

logger = logging.getLogger("backend")

_PATIENCE = 2.0
_NOBODY = SessionKey("default", "default", "readiness")


class Readiness:
    """One look at the store at a time, however many ask: a store that is away keeps each waiting for long."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._looking: asyncio.Future[str] | None = None
        self._is_leaving = False

    async def obstacle(self) -> str:
        """Why not, or nothing."""
        if self._is_leaving:
            return "shutting down"
        if self._looking is None or self._looking.done():
            self._looking = asyncio.ensure_future(asyncio.to_thread(self._look))
        done, _ = await asyncio.wait({self._looking}, timeout=_PATIENCE)
        return self._looking.result() if done else "the store does not answer"

    def leave_slowly(self, seconds: float) -> None:
        """Let SIGTERM be known here first, so that a balancer looks elsewhere, and so many seconds later to uvicorn."""
        if threading.current_thread() is not threading.main_thread():
            return
        loop, known = asyncio.get_running_loop(), signal.getsignal(signal.SIGTERM)

        def leave(number: int, frame: FrameType | None) -> None:
            self._is_leaving = True
            if callable(known):
                loop.call_soon_threadsafe(loop.call_later, seconds, known, number, frame)

        signal.signal(signal.SIGTERM, leave)

    def _look(self) -> str:
        """Ask for a file that is not there, of a session that is not there: nothing is cheaper."""
        try:
            self._store.open(_NOBODY).files.load("state")
        except (ctxwrap.StoreError, OSError) as error:
            logger.warning("not ready: %s", error)
            return "the store is away"
        return ""
