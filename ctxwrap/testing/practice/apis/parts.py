"""What the formats of all APIs share: turns, events, pieces of streams, log probabilities and failures."""

import json
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import ceil
from typing import Any

from ctxwrap.testing.practice.answer import JSON, Answer, Failure
from ctxwrap.testing.practice.requests import Ask

BROKEN_MESSAGE = "The practice provider was told to break this stream."


class Cut(Exception):
    """Raised to close the connection in the middle of a stream."""


class StreamError(Exception):
    """Raised to send the API's error event."""


@dataclass(frozen=True, slots=True)
class PracticeTurn:
    """One request with its answer; `number` is unique in its provider."""

    ask: Ask
    answer: Answer
    number: int
    created: int

    shared: tuple[str, ...] = ()
    """The cached prefix of the prompt, as texts."""

    def id(self, prefix: str, part: int | None = None) -> str:
        return f"{prefix}practice-{self.number:06d}" + ("" if part is None else f"-{part}")


@dataclass(frozen=True, slots=True)
class StreamEvent:
    """One server-sent event; OpenAI's chat events have no name."""

    data: JSON | str
    name: str | None = None

    def encode(self) -> bytes:
        data = self.data if isinstance(self.data, str) else to_json(self.data)
        name = f"event: {self.name}\n" if self.name else ""
        return utf8(f"{name}data: {data}\n\n")


DONE = StreamEvent("[DONE]")


def to_json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def utf8(text: str) -> bytes:
    """Encode `text`; lone surrogates, which JSON can hold and UTF-8 cannot, become question marks."""
    return text.encode("utf-8", "replace")


class Pace:
    """Yields the pieces of a stream, and pauses or breaks it where the answer says so."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._sent = 0

    def through(self, pieces: Iterable[str]) -> Iterator[str]:
        for piece in pieces:
            self.check()
            if self._answer.pause is not None:
                self._answer.pause(self._sent)
            yield piece
            self._sent += 1
        self.check()

    def check(self) -> None:
        """Raise if the stream breaks here; streams without pieces call it before their end."""
        if self._sent == self._answer.cut_after:
            raise Cut
        if self._sent == self._answer.error_after:
            raise StreamError


def fragments(text: str) -> list[str]:
    """Split `text` into up to three parts, as the arguments of a tool call arrive."""
    size = max(1, ceil(len(text) / 3))
    return [text[start : start + size] for start in range(0, len(text), size)]


def logprob(token: str, rank: int = 0) -> float:
    """Return a plausible log probability that depends on the token alone."""
    return -round(zlib.crc32(token.encode("utf-8", "replace")) % 1000 / 2000 + 1.5 * rank, 4)


def token_logprob(token: str, top: int) -> JSON:
    """Return the log probability of a token and of the `top` alternatives, as in chat and Responses."""
    likeliest = [token, *(f"{token}~{rank}" for rank in range(1, top))][:top]
    return {
        **_probability(token, 0),
        "top_logprobs": [_probability(other, rank) for rank, other in enumerate(likeliest)],
    }


def _probability(token: str, rank: int) -> JSON:
    return {"token": token, "logprob": logprob(token, rank), "bytes": list(utf8(token))}


def top_logprobs(ask: Ask) -> int:
    top: Any = ask.body.get("top_logprobs")
    return top if isinstance(top, int) else 0


def interleave(*streams: Iterator[JSON]) -> Iterator[JSON]:
    """Yield from each stream in turn until all have ended, as the choices of one reply arrive."""
    waiting = list(streams)
    while waiting:
        for stream in tuple(waiting):
            try:
                yield next(stream)
            except StopIteration:
                waiting.remove(stream)


_OPENAI = {
    400: ("invalid_request_error", None, "The request is not valid."),
    401: ("invalid_request_error", "invalid_api_key", "Incorrect API key provided."),
    403: ("invalid_request_error", None, "You may not do this."),
    404: ("invalid_request_error", None, "There is nothing here."),
    413: ("invalid_request_error", None, "The request is too large."),
    429: ("requests", "rate_limit_exceeded", "Rate limit reached. Please try again later."),
    500: ("server_error", None, "The server had an error while processing your request."),
    503: ("server_error", None, "The server is overloaded. Please try again later."),
}
_ANTHROPIC = {
    400: ("invalid_request_error", "The request is not valid."),
    401: ("authentication_error", "invalid x-api-key"),
    403: ("permission_error", "You may not do this."),
    404: ("not_found_error", "Not found"),
    413: ("request_too_large", "Request exceeds the maximum size"),
    429: ("rate_limit_error", "This request would exceed your rate limit."),
    500: ("api_error", "Internal server error"),
    529: ("overloaded_error", "Overloaded"),
}


def openai_failure(failure: Failure, request_id: str) -> JSON:
    kind, code, message = _OPENAI.get(failure.status, _OPENAI[400 if failure.status < 500 else 500])
    return {
        "error": {
            "message": failure.message or message,
            "type": kind,
            "param": failure.param,
            "code": failure.code or code,
        }
    }


def anthropic_failure(failure: Failure, request_id: str) -> JSON:
    kind, message = _ANTHROPIC.get(failure.status, _ANTHROPIC[400 if failure.status < 500 else 500])
    error = {"type": kind, "message": failure.message or message}
    return {"type": "error", "error": error, "request_id": request_id}
