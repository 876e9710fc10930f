"""The measure of a call: how many tokens its model takes for a text, a message or a whole request, at most."""

from collections.abc import Callable, Sequence
from math import ceil

from ctxwrap.protocol.instructions import neutral
from ctxwrap.tokens.counting import Counter, counter_for
from ctxwrap.tokens.messages import message_tokens
from ctxwrap.types import Body, LoggedMessage, Message


class Measure:
    """Where counts are estimates, all that it says is the estimate and its margin."""

    def __init__(self, model: str) -> None:
        self.model = model
        self._counter: Counter = counter_for(model)

    @property
    def name(self) -> str:
        """What counts."""
        return self._counter.name

    @property
    def exact(self) -> bool:
        return self._counter.exact

    def text(self, text: str) -> int:
        return self._counter.at_most(self._counter.count(text)) if text else 0

    def counted(self, message: Message) -> int:
        """What is stored with a message: no margin in it. A text counts as it is sent: neutral, which is longer."""
        if isinstance(message.content, str):
            message = message._replace(content=neutral(message.content))
        return message_tokens(message, self._counter, self.model)

    def message(self, kept: LoggedMessage) -> int:
        counter = self._counter
        known = kept.tokens.get(counter.name)
        if known is None:
            known = self.counted(kept.message)
        return counter.at_most(known) if counter.margin else known

    def messages(self, history: Sequence[LoggedMessage]) -> list[int]:
        """The same for many."""
        counter = self._counter
        counts = [kept.tokens.get(counter.name) for kept in history]
        if None in counts:
            return [self.message(kept) for kept in history]
        return [ceil(count * (1 + counter.margin)) for count in counts] if counter.margin else counts  # type: ignore[operator, return-value]  # none of them is None

    def body(self, count: Callable[[Body, Counter], int], body: Body) -> int:
        """A request, counted by its provider's rule."""
        return self._counter.at_most(count(body, self._counter))
