"""Drives a turn over blocking I/O. `async_` is the same code with awaits; a test compares the two."""

from collections.abc import Callable

from ctxwrap.providers.base import ProviderAdapter
from ctxwrap.turn.binding import CallScope, ClientBinding
from ctxwrap.turn.lifecycle import ManagedCall, PassthroughCall, passthrough
from ctxwrap.turn.reply_reader import reask_retry_options
from ctxwrap.types import Body, Send, TurnRecord


def begin(
    binding: ClientBinding,
    adapter: ProviderAdapter,
    body: Callable[[], Body],
    scope: CallScope,
    send: Send,
) -> "Call | PassthroughCall":
    """Open a turn for the request that `body` returns. `send` sends the requests that ctxwrap adds."""
    passed = passthrough(binding, adapter, scope, body)
    if passed is not None:
        return passed
    managed = ManagedCall(binding, adapter, body, scope, binding.clock)
    try:
        if not managed.open():
            from tenacity import Retrying

            Retrying(**managed.busy_retry_options())(_open, managed)
    except Exception as error:
        return managed.refused(error)
    except BaseException:
        managed.save("cancelled")
        raise
    return Call(managed, send)


def _open(managed: ManagedCall) -> bool:
    return managed.open()


class Call:
    """One call in flight. Only its first ending is saved."""

    def __init__(self, managed: ManagedCall, send: Send) -> None:
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

    def shrink(self, error: BaseException) -> bool:
        """Whether `error` says the request is too long and `body` is now a smaller one; at most once."""
        return isinstance(error, Exception) and self.managed.shrink(error)

    def reply(self, payload: Body) -> Body:
        """Take a whole reply; return the caller's view of it."""
        payload = self._reader.whole(payload)
        self._reask()
        self.managed.save()
        return payload

    def event(self, event: Body) -> list[Body]:
        """Take an event of a stream; return the events the caller gets. The turn is saved before its last event."""
        events = self._reader.event(event)
        if self._reader.ended and not self._reader.needs_reask:
            self.managed.save()
        elif self.managed.checkpoint_due():
            self.managed.write_partial_reply()
        return events

    def write_partial_reply(self) -> None:
        self.managed.write_partial_reply()

    def finish_reask(self) -> None:
        """Ask for the snapshot that the reply did not bring, before the stream's last event goes out."""
        self._reask()
        if self._reader.ended:
            self.managed.save()

    def end(self) -> list[Body]:
        """The stream is complete: return the events that were held back."""
        events = self._reader.close()
        self._reask()
        self.managed.save()
        return events

    def cut(self, reason: str) -> list[Body]:
        """The stream broke off: return the events that were held back."""
        events = self._reader.close()
        self.managed.save(reason)
        return events

    def stop(self, reason: str) -> None:
        """The call ended before its reply did."""
        self.managed.save(reason)

    def _reask(self) -> None:
        if self._reader.needs_reask:
            from tenacity import Retrying

            Retrying(**reask_retry_options(self._reader.max_reasks))(self._ask)

    def _ask(self) -> bool | None:
        """Ask once; return whether the snapshot can be used, or None if there was no answer."""
        try:
            payload = self._send(self._reader.question())
            return self._reader.answered(payload)
        except BaseException as error:
            self._reader.unanswered(error)
            if isinstance(error, Exception):
                return None
            self.managed.save("cancelled")
            raise
