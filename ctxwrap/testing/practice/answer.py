"""Answers and failures of the practice provider, independent of an API."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ctxwrap.errors import unknown_name

JSON = dict[str, Any]

FINISHES = ("stop", "length", "content_filter", "tool_calls", "refusal")

_WORD = re.compile(r"\s*\S+|\s+\Z")


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One tool call; `arguments` is the JSON text that the model wrote."""

    id: str
    name: str
    arguments: str = "{}"


@dataclass(frozen=True, slots=True)
class Answer:
    """One reply of the model, and how it is sent."""

    text: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    finish: str = "stop"
    """stop, length, content_filter, tool_calls or refusal; `stop` becomes tool_calls or refusal if there are any."""

    reasoning: str = ""
    refusal: str = ""

    logprobs: bool = False
    """Send log probabilities even when the request did not ask; the tokens are the pieces."""

    pieces: tuple[str, ...] | None = None
    """How a stream splits the text; by default into words, each with the white space before it."""

    others: tuple["Answer", ...] = ()
    """The further choices of a request with n > 1; after these, the answer itself repeats."""

    pause: Callable[[int], None] | None = None
    """Called in a stream before piece i is sent; pieces are those of text, then refusal, then tool arguments."""

    cut_after: int | None = None
    """Close the connection after that many pieces, without the end of the stream."""

    error_after: int | None = None
    """Send the API's own error event after that many pieces, and nothing more."""

    azure: bool = False
    """Send Azure's additions to chat: prompt filter results, in a stream as a first chunk without choices."""

    gzip: bool = False
    """Compress the body if the client accepts it."""

    def __post_init__(self) -> None:
        if self.finish not in FINISHES:
            raise unknown_name("finish", self.finish, FINISHES)
        if self.pieces is not None and "".join(self.pieces) != self.text:
            raise ValueError("the pieces of an answer must join to its text")
        if self.finish == "stop" and (self.tool_calls or self.refusal):
            object.__setattr__(self, "finish", "tool_calls" if self.tool_calls else "refusal")

    def cut(self) -> tuple[str, ...]:
        """Return the text as the pieces of a stream."""
        return tuple(_WORD.findall(self.text)) if self.pieces is None else self.pieces

    def undisturbed(self) -> "Answer":
        """Return the same answer without pauses and errors."""
        return replace(self, pause=None, cut_after=None, error_after=None)

    def choices(self, n: int) -> tuple["Answer", ...]:
        """Return the `n` choices of a request."""
        given = (self, *self.others)
        return (given + (self.undisturbed(),) * n)[: max(n, 1)]


@dataclass(frozen=True, slots=True)
class Failure:
    """An HTTP error in the API's own format, instead of an answer."""

    status: int
    message: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)

    hang: Callable[[], None] | None = None
    """Called before the error is sent: block in it to make a client wait."""

    param: str | None = None
    code: str | None = None
