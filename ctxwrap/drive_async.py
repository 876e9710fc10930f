"""Drives a turn over async I/O; `drive` is the same text without awaits, which a test keeps so."""

from collections.abc import Callable

from ctxwrap.calls import BareCall, OpenCall, bare, utc_now
from ctxwrap.context import Context, Target
from ctxwrap.threads import in_thread
from ctxwrap.types import Body, TurnRecord, Wire


async def begin(context: Context, wire: Wire, body: Callable[[], Body], target: Target) -> "AsyncCall | BareCall":
    """Open a turn over the request that `body` gives; what comes back says what to send and takes what returns."""
    passed = bare(context, target)
    if passed is not None:
        return passed
    opened = OpenCall(context, wire, body, target, utc_now)
    try:
        await in_thread(opened.open)
    except Exception as error:
        return opened.refused(error)
    except BaseException:
        await in_thread(opened.save, "cancelled")
        raise
    return AsyncCall(opened)


class AsyncCall:
    """One call in flight. The first of its endings is saved; the others are no-ops."""

    def __init__(self, opened: OpenCall) -> None:
        self.opened = opened
        self._turn = opened.turn

    @property
    def body(self) -> Body:
        return self._turn.body

    @property
    def observes(self) -> bool:
        return self._turn.observes

    @property
    def record(self) -> TurnRecord:
        return self.opened.record

    async def reply(self, payload: Body) -> Body:
        """A whole reply in, the caller's view of it out."""
        payload = self._turn.reply(payload)
        await in_thread(self.opened.save)
        return payload

    async def event(self, event: Body) -> list[Body]:
        """One event of a stream in, what the caller gets of it out; saved before the last one leaves."""
        events = self._turn.event(event)
        if self._turn.ended:
            await in_thread(self.opened.save)
        return events

    async def end(self) -> list[Body]:
        """The stream is over: what was held back."""
        events = self._turn.close()
        await in_thread(self.opened.save)
        return events

    async def stop(self, reason: str) -> None:
        """The call ended before its answer did."""
        await in_thread(self.opened.save, reason)

    def abandon(self) -> None:
        """Nobody will ever read on."""
        self.opened.abandon()
