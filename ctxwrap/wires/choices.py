"""Replies that come as numbered choices: what their chunks have in common."""

from ctxwrap.types import Body
from ctxwrap.wires.edit import put


class Choices:
    """The newest chunk of a reply and what was said about the whole."""

    def __init__(self, body: Body) -> None:
        self.ended = False
        self._awaited = int(body.get("n") or 1)
        """How many choices were asked for."""
        self._newest: Body = {}
        self._usage: Body = {}

    def _note(self, payload: Body) -> None:
        if payload.get("choices"):
            self._newest = payload
        if isinstance(payload.get("usage"), dict):
            self._usage = payload["usage"]

    def _chunk(self, choice: Body) -> Body:
        """A chunk of the same reply that holds only `choice`."""
        return {**{name: value for name, value in self._newest.items() if name != "usage"}, "choices": [choice]}

    def _parted(self, event: Body, at: int, silence: Body) -> tuple[Body, Body]:
        """A chunk that both says something and ends a choice as two, for what was held back to go between them."""
        choice = event["choices"][at]
        said = self._chunk({**choice, "finish_reason": None})
        return said, put(event, ("choices", at), {**choice, "logprobs": None, **silence})

    @property
    def _response_id(self) -> str:
        return str(self._newest.get("id") or "")

    @property
    def _model(self) -> str:
        return str(self._newest.get("model") or "")
