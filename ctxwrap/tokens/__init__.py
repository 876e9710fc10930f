"""How many tokens a text, a message or a request takes, how many a model allows, and the error that says too many."""

from ctxwrap.tokens.counting import Counter, counter_for
from ctxwrap.tokens.messages import body_tokens, message_tokens, messages_tokens
from ctxwrap.tokens.too_long import TooLong, too_long, too_long_in
from ctxwrap.tokens.windows import Window, reply_reserve, window_of

__all__ = [
    "Counter",
    "TooLong",
    "Window",
    "body_tokens",
    "counter_for",
    "message_tokens",
    "messages_tokens",
    "reply_reserve",
    "too_long",
    "too_long_in",
    "window_of",
]
