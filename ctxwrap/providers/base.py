"""The adapter interface: everything that is particular to one provider API."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from copy import copy
from typing import Any, NamedTuple, Protocol, Self

from ctxwrap.providers.messages import cache_key
from ctxwrap.redaction.structure import SHARED_FIELDS, FieldNames
from ctxwrap.tokens.counting import Counter
from ctxwrap.tokens.too_long import TooLong, too_long_in
from ctxwrap.types import Body, Injection, Reply, Request, SessionKey, TextStream


class TextDelta(NamedTuple):
    """A stream event that only adds text to the reply."""

    path: tuple[str | int, ...]
    """Where the text is in the event."""
    passes: Callable[[str], bool]
    """Whether the text of another such event goes to the caller unchanged; if so, it has been fed."""
    hides: Callable[[str], bool] = lambda text: False
    """Whether the caller gets nothing for another such event; if so, its text has been fed."""


class Rewriter(Protocol):
    """Takes one reply, whole or event by event, and gives the caller's view of it: without the trailer."""

    ended: bool
    """Whether the provider has sent its last event."""
    fetched: bool
    """Whether the provider fetched or ran something for the reply, so that it depends on more than the request."""

    @property
    def spoken(self) -> bool:
        """Whether the reply's text is complete, though more events may follow."""

    def whole(self, payload: Body) -> Body: ...
    def event(self, event: Body) -> list[Body]: ...
    def text_delta(self, event: Body) -> TextDelta | None:
        """An event that `event` has taken as a text delta, if it is nothing else."""

    def close(self) -> list[Body]:
        """The events that release text held back when the stream stopped."""

    @property
    def reply(self) -> Reply:
        """What has arrived so far. `usage` uses OpenAI's or Anthropic's field names."""


class ProviderAdapter(ABC):
    """One provider API. The attributes and the methods that are not abstract have defaults that suit most APIs."""

    name: str
    """The API's name in the log."""
    telemetry_name = ""
    """`gen_ai.provider.name` in spans; empty for an API that many providers offer."""
    input_field = "messages"
    """The request field that holds the conversation."""
    reply_limits: tuple[str, ...] = ("max_tokens",)
    """The request fields that limit the reply's tokens."""
    field_names: FieldNames = SHARED_FIELDS
    """The request fields that redaction treats as structure; all other texts are redacted."""
    cache_key_field = ""
    """The request field that names a prompt cache, if the API has one."""
    cache_key_host = ""
    """The provider's own host. Other hosts may refuse the field, so there a key is sent only on request."""
    stored_path = ""
    """A pattern for the end of the URL paths from which stored replies, or their requests, are fetched."""
    _cache_key = ""

    def at(self, path: str, query: str) -> Self:
        """This adapter for a call of one URL, where the URL says what other APIs say in the body."""
        return self

    def whole_path(self, path: str) -> str:
        """The path, with its query, that gives a whole reply where `path` gives a stream."""
        return path

    @abstractmethod
    def read(self, body: Body) -> Request: ...

    @abstractmethod
    def inject(self, body: Body, injection: Injection) -> Body: ...

    @abstractmethod
    def rewriter(self, body: Body, streams: Callable[[], TextStream]) -> Rewriter: ...

    def stored_rewriter(self, streams: Callable[[], TextStream], own: Callable[[str, Any], Any]) -> Rewriter:
        """A rewriter for the stream of a stored reply; `own` turns a field that the reply echoes into the caller's."""
        return self.rewriter({}, streams)

    @abstractmethod
    def ask_again(self, body: Body, reply: Reply, question: str, reserve: int) -> Body:
        """`body` continued by its reply and a question, for one short answer that is no part of the conversation.

        The answer gets at least `reserve` tokens.
        """

    @abstractmethod
    def request_tokens(self, body: Body, counter: Counter) -> int:
        """The tokens of a request; history that the provider stores itself is not included."""

    def reply_limit(self, body: Body) -> int | None:
        """The caller's limit for the reply in tokens, if the request has one."""
        for name in self.reply_limits:
            if limit := body.get(name):
                return limit if isinstance(limit, int) else None
        return None

    def too_long(self, error: BaseException) -> TooLong | None:
        """What an exception of the SDK says about the request's length, or None if it has another cause."""
        return too_long_in(error)

    def with_cache_key(self, key: SessionKey) -> Self:
        """This adapter with a cache key for one session."""
        keyed = copy(self)
        keyed._cache_key = cache_key(key)
        return keyed

    def cache_key_in(self, body: Body) -> Body:
        """The field with the session's cache key, unless the caller has set one."""
        return {self.cache_key_field: self._cache_key} if self._cache_key and self.cache_key_field not in body else {}
