"""One answer as server-sent events: `accepted`, several `text`, then `done` or `error`."""

import logging
from collections.abc import AsyncIterator
from typing import Any, Literal

import openai
from fastapi.sse import ServerSentEvent
from openai import AsyncOpenAI, AsyncStream
from openai.types.chat import ChatCompletionChunk
from pydantic import BaseModel, ConfigDict, Field

import ctxwrap
from ctxwrap.types import TurnRecord

logger = logging.getLogger("backend")


class Said(BaseModel):
    """A user's message."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    text: str = Field(min_length=1, max_length=8000)
    contextMode: Literal["enabled", "readonly", "shadow", "disabled"] = "enabled"


class Answer:
    """The answer to one message. Always close it, so that the log gets what was said so far."""

    def __init__(self, client: AsyncOpenAI, model: str, session: str, said: Said) -> None:
        self._client, self._model, self._session, self._said = client, model, session, said
        self._stream: AsyncStream[ChatCompletionChunk] | None = None

    async def events(self) -> AsyncIterator[ServerSentEvent]:
        try:
            stream = self._stream = await self._begun()
            yield event("accepted", round=_turn(stream).round, contextMode=_turn(stream).mode)
            async for chunk in stream:
                if chunk.choices and (text := chunk.choices[0].delta.content):
                    yield event("text", text=text)
            yield _end(stream)
        except Exception as error:
            yield _error(error)

    async def close(self) -> None:
        if self._stream is not None:
            await self._stream.close()

    async def _begun(self) -> AsyncStream[ChatCompletionChunk]:
        """Start the stream; once it exists, the message is in the log."""
        with ctxwrap.using(session=self._session, context_mode=self._said.contextMode):
            return await self._client.chat.completions.create(
                model=self._model, messages=[{"role": "user", "content": self._said.text}], stream=True
            )


def event(name: str, **data: Any) -> ServerSentEvent:
    return ServerSentEvent(event=name, data=data)


def _turn(stream: AsyncStream[ChatCompletionChunk]) -> TurnRecord:
    turn = ctxwrap.turn_of(stream)
    assert turn is not None, "the client is wrapped, and its calls name a session"
    return turn


def _end(stream: AsyncStream[ChatCompletionChunk]) -> ServerSentEvent:
    report = _turn(stream).report
    if report.not_saved:
        logger.error("an answer was not saved: %s", report.error)
        return event(
            "error", code="not_saved", message="The answer could not be saved and may be missing from the history."
        )
    if report.status != "complete":
        return event("error", code="cut", message="The answer was cut off.")
    return event("done")


_TOLD: tuple[tuple[type[Exception], str, str], ...] = (
    (ctxwrap.SessionBusy, "busy", "Another message of yours is being answered. Try again in a moment."),
    (ctxwrap.StoreError, "store", "Your message could not be saved. Try again in a moment."),
    (openai.RateLimitError, "model_busy", "The model is overloaded. Try again in a moment."),
    (openai.APIError, "model", "The model does not answer. Try again in a moment."),
    (Exception, "internal", "Something went wrong. Try again in a moment."),
)


def _error(error: Exception) -> ServerSentEvent:
    """The message for the user; details go to the log only."""
    code, message = next((code, message) for kind, code, message in _TOLD if isinstance(error, kind))
    logger.warning("an answer failed (%s): %s", code, error, exc_info=error if code == "internal" else None)
    return event("error", code=code, message=message)
