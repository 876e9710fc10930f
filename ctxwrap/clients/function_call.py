"""One call of a client's function that returns objects, not HTTP responses: sends it, and changes its result."""

from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

from ctxwrap.clients.http import OWN_REQUEST, CallInFlight, in_flight
from ctxwrap.clients.sdk import names_in, pop_keywords
from ctxwrap.clients.sdk_call import remember, with_new_idempotency_key
from ctxwrap.session.queue import Caller, this_caller
from ctxwrap.turn.binding import CallScope, ClientBinding
from ctxwrap.turn.lifecycle import PassthroughCall, why_stopped
from ctxwrap.types import Body, Send, SendAsync


class ResultForm(NamedTuple):
    """How to read and change the results of a client's functions."""

    dump: Callable[[Any], Body]
    """A whole result as JSON."""
    show: Callable[[Any, Body, Body], None]
    """Changes a result that was dumped as one value to what another says."""
    is_stream: Callable[[Any], bool]
    rewritten_stream: Callable[[Any, Any], Any]
    """The result that the caller gets for a stream and its call."""


def scope_of(binding: ClientBinding, kwargs: dict[str, Any]) -> CallScope | None:
    """The scope of the call, whose own keywords are removed; None for a call inside one of ours."""
    headers = pop_keywords(kwargs)
    if in_flight.get() is not None:
        return None
    return binding.call_scope(names_in(headers))


def finished(
    function: Callable[..., Any], turn: Any, form: ResultForm, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Send the call of `turn`, again with a smaller request if it was too long; return the caller's result."""
    if isinstance(turn, PassthroughCall):
        if turn.body is not None:
            args, kwargs = (), turn.body
        return remember(function(*args, **kwargs), turn)
    if turn.rewrites:
        args, kwargs = (), turn.body
    while True:
        try:
            with CallInFlight(turn):
                result = function(*args, **kwargs)
            if form.is_stream(result):
                return form.rewritten_stream(result, turn)
            form.show(result, dumped := form.dump(result), turn.reply(dumped))
        except BaseException as error:
            if not turn.shrink(error):
                turn.stop(why_stopped(error))
                raise
        else:
            return remember(result, turn)
        args, kwargs = (), with_new_idempotency_key(turn.body)


async def finished_async(
    function: Callable[..., Any], turn: Any, form: ResultForm, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    if isinstance(turn, PassthroughCall):
        if turn.body is not None:
            args, kwargs = (), turn.body
        return remember(await function(*args, **kwargs), turn)
    if turn.rewrites:
        args, kwargs = (), turn.body
    while True:
        try:
            with CallInFlight(turn):
                result = await function(*args, **kwargs)
            if form.is_stream(result):
                return form.rewritten_stream(result, turn)
            form.show(result, dumped := form.dump(result), await turn.reply(dumped))
        except BaseException as error:
            if not await turn.shrink(error):
                await turn.stop(why_stopped(error))
                raise
        else:
            return remember(result, turn)
        args, kwargs = (), with_new_idempotency_key(turn.body)


def sender(function: Callable[..., Any], form: ResultForm) -> Send:
    """A function that sends a body of ctxwrap's own through the function that the caller called."""

    def send(body: Body) -> Body:
        with CallInFlight(OWN_REQUEST):
            return form.dump(function(**body))

    return send


def async_sender(function: Callable[..., Any], form: ResultForm) -> SendAsync:
    async def send(body: Body) -> Body:
        with CallInFlight(OWN_REQUEST):
            return form.dump(await function(**body))

    return send


class EventQueue:
    """The events of a stream between a client and its caller. Here events are JSON."""

    def __init__(self, call: Any) -> None:
        self.call = call
        self.reader: Caller | None = None
        """Who waits for the client's next event."""
        self._ready: deque[Any] = deque()
        self._end: Exception | None = None

    def read(self, next_event: Callable[[], Any]) -> Any:
        """The caller's next event; `next_event` returns the client's. The last one waits for the reask to finish."""
        while not self._ready:
            self._raise_end()
            try:
                self.reader = this_caller()
                event = next_event()
                self.reader = None
                is_shown = self.passes(dumped := self.dumped(event))
                if is_shown is None:
                    self._ready.extend(self.shown(event, dumped, self.call.event(dumped)))
                    self.learn(dumped)
                    continue
                if self.call.checkpoint_due():
                    self.call.write_partial_reply()
                if is_shown:
                    return event
            except StopIteration as end:
                self._end_with(self.call.end(), end)
            except Exception as error:
                self._end_with(self.call.cut(why_stopped(error)), error)
            except BaseException as error:
                self.call.stop(why_stopped(error))
                raise
        if self.call.needs_reask and len(self._ready) == 1:
            self.call.finish_reask()
        return self._ready.popleft()

    async def read_async(self, next_event: Callable[[], Any]) -> Any:
        while not self._ready:
            self._raise_end()
            try:
                self.reader = this_caller()
                event = await next_event()
                self.reader = None
                is_shown = self.passes(dumped := self.dumped(event))
                if is_shown is None:
                    self._ready.extend(self.shown(event, dumped, await self.call.event(dumped)))
                    self.learn(dumped)
                    continue
                if self.call.checkpoint_due():
                    await self.call.write_partial_reply()
                if is_shown:
                    return event
            except StopAsyncIteration as end:
                self._end_with(await self.call.end(), end)
            except Exception as error:
                self._end_with(await self.call.cut(why_stopped(error)), error)
            except BaseException as error:
                await self.call.stop(why_stopped(error))
                raise
        if self.call.needs_reask and len(self._ready) == 1:
            await self.call.finish_reask()
        return self._ready.popleft()

    def dumped(self, event: Any) -> Body:
        """An event of the client as JSON."""
        dumped: Body = event
        return dumped

    def passes(self, dumped: Body) -> bool | None:
        """Whether the caller gets an event, if all it does is to add text, which was fed; None if it is to be read."""
        return None

    def learn(self, dumped: Body) -> None:
        """Recognise events like this one, which was read."""

    def shown(self, event: Any, dumped: Body, shown: list[Body]) -> list[Any]:
        """What the caller gets for an event: events of the client that say what `shown` says."""
        return shown

    def made(self, event: Body) -> Any:
        """An event of the client that says what `event` says."""
        return event

    def _end_with(self, held: list[Body], end: Exception) -> None:
        """Queue what was held back; `end` is raised after it."""
        self._ready.extend(map(self.made, held))
        self._end = end

    def _raise_end(self) -> None:
        end, self._end = self._end, None
        if end is not None:
            raise end
