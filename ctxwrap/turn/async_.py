"""Drives a turn over async I/O; `drive` is the same text without awaits, which a test keeps so."""

from collections.abc import Callable

from ctxwrap.providers.base import ProviderAdapter, TextDelta
from ctxwrap.session.clock import utc_now
from ctxwrap.session.threads import in_thread, in_thread_if
from ctxwrap.turn.binding import CallScope, ClientBinding
from ctxwrap.turn.lifecycle import ManagedCall, PassthroughCall, passthrough
from ctxwrap.turn.reask import reask_retry_options
from ctxwrap.types import Body, SendAsync, TurnRecord


async def begin(
    context: ClientBinding,
    adapter: ProviderAdapter,
    body: Callable[[], Body],
    target: CallScope,
    send: SendAsync,
) -> "AsyncCall | PassthroughCall":
    """Open a turn over the request that `body` gives; what comes back says what to send and takes what returns.

    `send` is for requests of our own.
    """
    passed = passthrough(context, adapter, target, body)
    if passed is not None:
        return passed
    opened = ManagedCall(context, adapter, body, target, utc_now)
    try:
        if not await in_thread(opened.open):
            from tenacity import AsyncRetrying

            await AsyncRetrying(**opened.lease_retry_options())(_open, opened)
    except Exception as error:
        return await in_thread(opened.refused, error)
    except BaseException:
        await in_thread(opened.save, "cancelled")
        raise
    return AsyncCall(opened, send)


async def _open(opened: ManagedCall) -> bool:
    return await in_thread(opened.open)


class AsyncCall:
    """One call in flight. The first of its endings is saved; the others are no-ops."""

    def __init__(self, opened: ManagedCall, send: SendAsync) -> None:
        self.opened = opened
        self._send = send
        self._turn = opened.turn

    @property
    def body(self) -> Body:
        return self._turn.body

    @property
    def observes(self) -> bool:
        return self._turn.observes

    @property
    def rewrites(self) -> bool:
        return self._turn.rewrites

    @property
    def unsettled(self) -> bool:
        """Whether the last of the events that `event` gave must wait for `settle`."""
        return self._turn.asks_again

    @property
    def record(self) -> TurnRecord:
        return self.opened.record

    async def shrink(self, error: BaseException) -> bool:
        """Whether the provider calls the request too long and `body` is a smaller one from now on; at most once."""
        return isinstance(error, Exception) and await in_thread(self.opened.shrink, error)

    async def reply(self, payload: Body) -> Body:
        """A whole reply in, the caller's view of it out."""
        payload = await in_thread(self._turn.reply, payload)
        await self._ask_again()
        await in_thread(self.opened.save)
        return payload

    async def event(self, event: Body) -> list[Body]:
        """One event of a stream in, what the caller gets of it out; saved before the last one leaves."""
        events = await in_thread_if(self._turn.is_long(event), self._turn.event, event)
        if self._turn.ended and not self.unsettled:
            await in_thread(self.opened.save)
        elif self.opened.checkpoint_due():
            await in_thread(self.opened.write_partial_reply)
        return events

    def text_delta(self, event: Body) -> TextDelta | None:
        """What an event that was taken is as a text delta, if it is nothing else."""
        return self._turn.text_delta(event)

    def checkpoint_due(self) -> bool:
        """Whether, with one text delta more that went on as it is, `keep_up` is due."""
        return self.opened.checkpoint_due()

    async def write_partial_reply(self) -> None:
        await in_thread(self.opened.write_partial_reply)

    async def settle(self) -> None:
        """Everything was said and shown, and the end is due: get the snapshot that the reply did not bring."""
        await self._ask_again()
        if self._turn.ended:
            await in_thread(self.opened.save)

    async def end(self) -> list[Body]:
        """The stream is over: what was held back."""
        events = await in_thread(self._turn.close)
        await self._ask_again()
        await in_thread(self.opened.save)
        return events

    async def cut(self, reason: str) -> list[Body]:
        """The stream broke off: what was held back, which is part of the answer."""
        events = await in_thread(self._turn.close)
        await in_thread(self.opened.save, reason)
        return events

    async def stop(self, reason: str) -> None:
        """The call ended before its answer did."""
        await in_thread(self.opened.save, reason)

    def abandon(self) -> None:
        """Nobody will ever read on."""
        self.opened.abandon()

    async def _ask_again(self) -> None:
        if self._turn.asks_again:
            from tenacity import AsyncRetrying

            await AsyncRetrying(**reask_retry_options(self._turn.max_reasks))(self._question)

    async def _question(self) -> bool | None:
        """Ask once: whether the snapshot can be used, or None if there was no answer. The reply stays good."""
        try:
            payload = await self._send(self._turn.question())
            return await in_thread(self._turn.answered, payload)
        except BaseException as error:
            self._turn.unanswered(error)
            if isinstance(error, Exception):
                return None
            await in_thread(self.opened.save, "cancelled")
            raise
