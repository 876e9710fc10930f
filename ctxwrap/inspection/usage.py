"""What a provider says that a call took, in the spelling of any API."""

from typing import Any, NamedTuple

from ctxwrap.records import count_in

_ANTHROPIC = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
"""Anthropic counts what its cache took or gave apart."""


class Usage(NamedTuple):
    """Each is None if nothing is said of it."""

    tokens_in: int | None
    """Cached ones included."""
    tokens_out: int | None
    cached: int | None
    """What a prompt cache gave of it."""
    written: int | None
    """What a prompt cache took of it, if that has a price of its own."""
    reasoning: int | None = None
    """Of the tokens out, those of thoughts."""


def usage_in(usage: Any) -> Usage:
    details = _object(usage, "prompt_tokens_details") or _object(usage, "input_tokens_details")
    thoughts = _object(usage, "completion_tokens_details") or _object(usage, "output_tokens_details")
    cached = count_in(details, "cached_tokens")
    return Usage(
        _total(usage, ("prompt_tokens",), _ANTHROPIC),
        _total(usage, ("completion_tokens",), ("output_tokens",)),
        count_in(usage, "cache_read_input_tokens") if cached is None else cached,
        count_in(usage, "cache_creation_input_tokens"),
        count_in(thoughts, "reasoning_tokens"),
    )


def _object(record: Any, name: str) -> Any:
    return record.get(name) if isinstance(record, dict) else None


def _total(usage: Any, *names: tuple[str, ...]) -> int | None:
    """The sum of the fields of the first spelling that is there."""
    for spelling in names:
        counts = [count for name in spelling if (count := count_in(usage, name)) is not None]
        if counts:
            return sum(counts)
    return None
