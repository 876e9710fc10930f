"""How many tokens a text takes, as an estimate."""

from ctxwrap.types import Message


def estimate(text: str) -> int:
    """About one token for four bytes of UTF-8, which errs little for English and upwards for most scripts."""
    size = len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
    return (size + 3) // 4


def estimate_message(message: Message) -> int:
    """A message's text and calls, and the few tokens that frame it."""
    tokens = 4 + estimate(message.text)
    for call in message.tool_calls:
        tokens += estimate(call["name"] + call["arguments"])
    return tokens
