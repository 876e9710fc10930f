"""The measure of a call: how many tokens its model takes for a text, a message or a whole request, at most."""

from ctxwrap.tokens.counting import Counter, counter_for
from ctxwrap.tokens.messages import body_tokens, message_tokens
from ctxwrap.types import Body, Kept, Message


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
        """What is stored with a message: no margin in it."""
        return message_tokens(message, self._counter, self.model)

    def message(self, kept: Kept) -> int:
        counter = self._counter
        known = kept.tokens.get(counter.name)
        if known is None:
            known = self.counted(kept.message)
        return counter.at_most(known) if counter.margin else known

    def body(self, wire: str, body: Body) -> int:
        return self._counter.at_most(body_tokens(wire, body, self._counter))
