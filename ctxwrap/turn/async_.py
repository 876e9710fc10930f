"""Drives a turn over async I/O. `sync` is the same code without awaits; a test compares the two."""

from collections.abc import Callable

from ctxwrap.providers.base import ProviderAdapter
from ctxwrap.session.threads import finish_in_thread, in_thread, in_thread_if
from ctxwrap.turn.binding import CallScope, ClientBinding
from ctxwrap.turn.lifecycle import ManagedCall, PassthroughCall, passthrough
from ctxwrap.turn.reply_reader import reask_retry_options
from ctxwrap.types import Body, SendAsync, TurnRecord


async def begin(
    binding: ClientBinding,
    adapter: ProviderAdapter,
    body: Callable[[], Body],
    scope: CallScope,
    send: SendAsync,
) -> "AsyncCall | PassthroughCall":
    """Open a turn for the request that `body` returns. `send` sends the requests that ctxwrap adds."""
    passed = passthrough(binding, adapter, scope, body)
    if passed is not None:
        return passed
    managed = ManagedCall(binding, adapter, body, scope, binding.clock)
    try:
        if not await in_thread(managed.open):
            from tenacity import AsyncRetrying

            await AsyncRetrying(**managed.busy_retry_options())(_open, managed)
    except Exception as error:
        return await in_thread(managed.refused, error)
    except BaseException:
        await in_thread(managed.save, "cancelled")
        raise
    return AsyncCall(managed, send)


async def _open(managed: ManagedCall) -> bool:
    return await in_thread(managed.open)


class AsyncCall:
    """One call in flight. Only its first ending is saved."""

    def __init__(self, managed: ManagedCall, send: SendAsync) -> None:
        self.managed = managed
        self._send = send
        self._turn = managed.turn
        self._reader = self._turn.reader
        self.text_delta = self._reader.text_delta
        self.checkpoint_due = managed.checkpoint_due
        self.abandon = managed.abandon

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
    def needs_reask(self) -> bool:
        """Whether the last event that `event` returned must wait for `finish_reask`."""
        return self._reader.needs_reask

    @property
    def record(self) -> TurnRecord:
        return self.managed.record

    async def shrink(self, error: BaseException) -> bool:
        """Whether `error` says the request is too long and `body` is now a smaller one; at most once."""
        return isinstance(error, Exception) and await in_thread(self.managed.shrink, error)

    async def reply(self, payload: Body) -> Body:
        """Take a whole reply; return the caller's view of it."""
        payload = await in_thread(self._reader.whole, payload)
        await self._reask()
        await in_thread(self.managed.save)
        return payload

    async def event(self, event: Body) -> list[Body]:
        """Take an event of a stream; return the events the caller gets. The turn is saved before its last event."""
        events = await in_thread_if(self._reader.is_long(event), self._reader.event, event)
        if self._reader.ended and not self._reader.needs_reask:
            await in_thread(self.managed.save)
        elif self.managed.checkpoint_due():
            await in_thread(self.managed.write_partial_reply)
        return events

    async def write_partial_reply(self) -> None:
        await in_thread(self.managed.write_partial_reply)

    async def finish_reask(self) -> None:
        """Ask for the snapshot that the reply did not bring, before the stream's last event goes out."""
        await self._reask()
        if self._reader.ended:
            await in_thread(self.managed.save)

    async def end(self) -> list[Body]:
        """The stream is complete: return the events that were held back."""
        events = await in_thread(self._reader.close)
        await self._reask()
        await in_thread(self.managed.save)
        return events

    async def cut(self, reason: str) -> list[Body]:
        """The stream broke off: return the events that were held back."""
        events = await in_thread(self._reader.close)
        await in_thread(self.managed.save, reason)
        return events

    async def stop(self, reason: str) -> None:
        """The call ended before its reply did."""
        await finish_in_thread(self.managed.save, reason)

    async def _reask(self) -> None:
        if self._reader.needs_reask:
            from tenacity import AsyncRetrying

            await AsyncRetrying(**reask_retry_options(self._reader.max_reasks))(self._ask)

    async def _ask(self) -> bool | None:
        """Ask once; return whether the snapshot can be used, or None if there was no answer."""
        try:
            payload = await self._send(self._reader.question())
            return await in_thread(self._reader.answered, payload)
        except BaseException as error:
            self._reader.unanswered(error)
            if isinstance(error, Exception):
                return None
            await in_thread(self.managed.save, "cancelled")
            raise
