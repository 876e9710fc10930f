"""Request options: output limits, prompt cache keys, and the options of a repeated request."""

import json
import re
from hashlib import sha256

from ctxwrap.providers.messages import joined
from ctxwrap.types import Body, Reply, SessionKey

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


_ROOMY = 4096
"""An output limit from which on there is room for a trailer; some models allow no higher one."""


_LEAST_THINKING = 1024
"""A smaller budget for thinking is an error."""


def raised_limits(body: Body, names: tuple[str, ...], reserve: int) -> Body:
    """The output limits the caller set, with room for the trailer, but never beyond what any model allows."""
    limits = {name: body[name] for name in names if isinstance(body.get(name), int) and body[name] < _ROOMY}
    return {name: min(limit + reserve, _ROOMY) for name, limit in limits.items()}


def roomy_limits(body: Body, names: tuple[str, ...], reserve: int) -> Body:
    """The output limits with at least `reserve` behind what is thought: a budget for thinking gives way to it."""
    limits = {name: max(body[name], reserve) for name in names if isinstance(body.get(name), int)}
    thinking = body.get("thinking")
    budget = thinking.get("budget_tokens") if isinstance(thinking, dict) else None
    if not limits or not isinstance(thinking, dict) or not isinstance(budget, int):
        return limits
    budget = min(budget, max(_LEAST_THINKING, min(limits.values()) - reserve))
    limits = {name: max(limit, budget + reserve) for name, limit in limits.items()}
    return {**limits, "thinking": {**thinking, "budget_tokens": budget}}


FIELD = "prompt_cache_key"

_OWN = re.compile(r"ctxwrap-[0-9a-f]{40}")


def cache_key(key: SessionKey) -> str:
    """The same for the same session in every process; it does not tell the session's names."""
    return f"ctxwrap-{sha256(json.dumps(key).encode()).hexdigest()[:40]}"


def is_cache_key(value: object) -> bool:
    """Whether a key is one of ours, not the caller's."""
    return isinstance(value, str) and _OWN.fullmatch(value) is not None
