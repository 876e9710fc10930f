"""Replies that a provider stored and that are fetched again: what was injected into the call is still in them."""

import re
from typing import Any

from ctxwrap.protocol import ReplyStream, read_reply
from ctxwrap.protocol.text import SEPARATOR, without_injected
from ctxwrap.types import Body
from ctxwrap.wires.cache_key import FIELD, is_cache_key
from ctxwrap.wires.openai_responses import ResponsesRewriter

_PATHS = re.compile(r".*/(?:responses/[^/]+(?:/input_items)?|chat/completions(?:/[^/]+(?:/messages)?)?)")


def is_stored(request: Any) -> bool:
    """Whether a request fetches a stored reply, its input, or a list of them."""
    return request.method == "GET" and _PATHS.fullmatch(request.url.path) is not None


def _cleaned(value: Any) -> Any:
    if isinstance(value, str):
        value = without_injected(value)
        return read_reply(value).visible if SEPARATOR in value else value
    if isinstance(value, list):
        return [_cleaned(item) for item in value]
    if isinstance(value, dict):
        return {name: _own(name, item) for name, item in value.items()}
    return value


def _own(name: str, value: Any) -> Any:
    """The caller's own value; instructions of ours alone, or a key of ours, were none of the caller's."""
    if name == FIELD and is_cache_key(value):
        return None
    cleaned = _cleaned(value)
    return None if name == "instructions" and value and not cleaned else cleaned


class StoredCall:
    """Stands where a call in flight would: there is no turn to keep, only text to take out."""

    observes = False
    unsettled = False
    record = None

    def __init__(self) -> None:
        self._rewriter = ResponsesRewriter(ReplyStream, _own)

    def reply(self, payload: Body) -> Body:
        cleaned: Body = _cleaned(payload)
        return cleaned

    def event(self, event: Body) -> list[Body]:
        return self._rewriter.event(event)

    def text_delta(self, event: Body) -> None:
        """Stored replies are seldom streamed: every event is parsed."""

    def lags(self) -> bool:
        return False

    def keep_up(self) -> None:
        """Nothing is kept of it."""

    def settle(self) -> None:
        """There is no memory to settle."""

    def end(self) -> list[Body]:
        return self._rewriter.close()

    def cut(self, reason: str) -> list[Body]:
        return self._rewriter.close()

    def stop(self, reason: str) -> None:
        """Nothing is kept of it."""

    def abandon(self) -> None:
        """Nothing is kept of it."""


class AsyncStoredCall:
    """The same for async clients."""

    observes = False
    unsettled = False
    record = None

    def __init__(self) -> None:
        self._stored = StoredCall()

    async def reply(self, payload: Body) -> Body:
        return self._stored.reply(payload)

    async def event(self, event: Body) -> list[Body]:
        return self._stored.event(event)

    def text_delta(self, event: Body) -> None:
        """Stored replies are seldom streamed: every event is parsed."""

    def lags(self) -> bool:
        return False

    async def keep_up(self) -> None:
        """Nothing is kept of it."""

    async def settle(self) -> None:
        """There is no memory to settle."""

    async def end(self) -> list[Body]:
        return self._stored.end()

    async def cut(self, reason: str) -> list[Body]:
        return self._stored.cut(reason)

    async def stop(self, reason: str) -> None:
        """Nothing is kept of it."""

    def abandon(self) -> None:
        """Nothing is kept of it."""
