"""How many tokens a text, a message or a request takes, how many a model allows, and the error that says too many."""

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
    """Have at hand what counting for a model needs: its encoding, and its window. The first of a process takes long."""
    counter_for(model)
    window_of(model, windows)
