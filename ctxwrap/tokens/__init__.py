"""Token counts, context windows of models, and errors that say a request is too long."""

from collections.abc import Mapping

from ctxwrap.tokens.counting import Counter, counter_for
from ctxwrap.tokens.messages import message_tokens, messages_tokens
from ctxwrap.tokens.models import ContextWindow, reply_reserve, window_of
from ctxwrap.tokens.too_long import TooLong, too_long, too_long_in

__all__ = [
    "ContextWindow",
    "Counter",
    "TooLong",
    "counter_for",
    "load_tables",
    "message_tokens",
    "messages_tokens",
    "reply_reserve",
    "too_long",
    "too_long_in",
    "window_of",
]


def load_tables(model: str, windows: Mapping[str, int] | None = None) -> None:
    """Load the encoding and the window of a model; the first time in a process is slow."""
    counter_for(model)
    window_of(model, windows)
