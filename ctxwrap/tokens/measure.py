"""Upper bounds for the tokens of texts, messages and requests, for one model."""

from collections.abc import Callable, Sequence
from math import ceil

from ctxwrap.protocol.instructions import sanitise
from ctxwrap.tokens.counting import Counter, counter_for
from ctxwrap.tokens.messages import message_tokens
from ctxwrap.types import Body, LoggedMessage, Message


class Measure:
    """Counts for one model; an estimate includes its margin."""

    def __init__(self, model: str) -> None:
        self.model = model
        self._counter: Counter = counter_for(model)

    @property
    def name(self) -> str:
        """The encoding, or `estimate`."""
        return self._counter.name

    @property
    def exact(self) -> bool:
        return self._counter.exact

    def text(self, text: str) -> int:
        return self._counter.at_most(self._counter.count(text)) if text else 0

    def counted(self, message: Message) -> int:
        """The count that is stored with a message, without margin. Text counts in its neutral form, as it is sent."""
        if isinstance(message.content, str):
            message = message._replace(content=sanitise(message.content))
        return message_tokens(message, self._counter, self.model)

    def message(self, kept: LoggedMessage) -> int:
        counter = self._counter
        known = kept.tokens.get(counter.name)
        if known is None:
            known = self.counted(kept.message)
        return counter.at_most(known) if counter.margin else known

    def messages(self, history: Sequence[LoggedMessage]) -> list[int]:
        """The counts of many messages."""
        counter = self._counter
        counts = [kept.tokens.get(counter.name) for kept in history]
        if None in counts:
            return [self.message(kept) for kept in history]
        return [ceil(count * (1 + counter.margin)) for count in counts] if counter.margin else counts  # type: ignore[operator, return-value]  # none of them is None

    def body(self, count: Callable[[Body, Counter], int], body: Body) -> int:
        """A request, counted by its provider's rule."""
        return self._counter.at_most(count(body, self._counter))
