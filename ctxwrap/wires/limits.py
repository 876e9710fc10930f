"""Output limits that callers set, which know nothing of a trailer."""

from ctxwrap.types import Body

_ROOMY = 4096
"""An output limit from which on there is room for a trailer; some models allow no higher one."""


def raised_limits(body: Body, names: tuple[str, ...], reserve: int) -> Body:
    """The output limits the caller set, with room for the trailer, but never beyond what any model allows."""
    limits = {name: body[name] for name in names if isinstance(body.get(name), int) and body[name] < _ROOMY}
    return {name: min(limit + reserve, _ROOMY) for name, limit in limits.items()}
