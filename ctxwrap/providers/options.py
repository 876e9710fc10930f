"""Helpers for adapters: reply limits, prompt cache keys, and the options of a second request."""

import json
import re
from hashlib import sha256

from ctxwrap.providers.messages import join_texts
from ctxwrap.types import Body, Reply, SessionKey

_ANSWER_OPTIONS = frozenset(
    {
        *("stream", "stream_options", "n", "best_of", "stop", "stop_sequences"),
        *("logprobs", "top_logprobs", "prediction", "web_search_options"),
    }
)
"""Options that shape the answer for its reader or could cut a snapshot short."""


def short_answer_options(body: Body) -> Body:
    """`body` for one whole text answer; tools stay, since the history may hold calls to them."""
    kept = {name: value for name, value in body.items() if name not in _ANSWER_OPTIONS}
    return {**kept, "tool_choice": "none"} if body.get("tools") else kept


def reply_text(reply: Reply) -> str:
    """The text of a reply, including its trailer."""
    return join_texts(reply.messages[0].text, reply.reading.trailer if reply.reading else "")


_AMPLE = 4096
"""A reply limit that is not raised: it leaves enough tokens for a trailer, and some models allow no higher one."""

_LEAST_THINKING = 1024
"""Providers reject a smaller thinking budget."""


def raise_limits(body: Body, names: tuple[str, ...], reserve: int) -> Body:
    """The caller's reply limits plus `reserve` tokens for the trailer, up to what every model allows."""
    limits = {name: body[name] for name in names if isinstance(body.get(name), int) and body[name] < _AMPLE}
    return {name: min(limit + reserve, _AMPLE) for name, limit in limits.items()}


def ample_limits(body: Body, names: tuple[str, ...], reserve: int) -> Body:
    """The caller's reply limits, with at least `reserve` tokens left after thinking, whose budget may be lowered."""
    limits = {name: max(body[name], reserve) for name in names if isinstance(body.get(name), int)}
    thinking = body.get("thinking")
    budget = thinking.get("budget_tokens") if isinstance(thinking, dict) else None
    if not limits or not isinstance(thinking, dict) or not isinstance(budget, int):
        return limits
    budget = min(budget, max(_LEAST_THINKING, min(limits.values()) - reserve))
    limits = {name: max(limit, budget + reserve) for name, limit in limits.items()}
    return {**limits, "thinking": {**thinking, "budget_tokens": budget}}


CACHE_KEY_FIELD = "prompt_cache_key"

_OWN = re.compile(r"ctxwrap-[0-9a-f]{40}")


def cache_key(key: SessionKey) -> str:
    """A session's key, the same in every process. It is a hash, so it does not show the session's names."""
    return f"ctxwrap-{sha256(json.dumps(key).encode()).hexdigest()[:40]}"


def is_cache_key(value: object) -> bool:
    """Whether ctxwrap made a key, not the caller."""
    return isinstance(value, str) and _OWN.fullmatch(value) is not None
