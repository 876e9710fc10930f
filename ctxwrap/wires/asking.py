"""Asking a model again: what all APIs have in common."""

from ctxwrap.types import Body, Reply
from ctxwrap.wires.messages import joined

_FOR_THE_CALLER = frozenset(
    {
        *("stream", "stream_options", "n", "best_of", "stop", "stop_sequences"),
        *("logprobs", "top_logprobs", "prediction", "web_search_options"),
    }
)
"""What shapes an answer for whoever reads it, or would cut a snapshot short."""


def one_short_answer(body: Body) -> Body:
    """`body` for a single whole answer in words; tools stay, since the history may hold calls of theirs."""
    kept = {name: value for name, value in body.items() if name not in _FOR_THE_CALLER}
    return {**kept, "tool_choice": "none"} if body.get("tools") else kept


def as_it_came(reply: Reply) -> str:
    """The text of a reply with its trailer."""
    return joined(reply.messages[0].text, reply.reading.trailer if reply.reading else "")
