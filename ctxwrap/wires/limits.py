"""Output limits that callers set, which know nothing of a trailer."""

from ctxwrap.types import Body

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
