"""Token counts that providers report, in the spelling of each API."""

from typing import Any, NamedTuple

from ctxwrap.stores.log_format import count_in

_ANTHROPIC = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
"""Anthropic counts cached tokens separately."""


class Usage(NamedTuple):
    """Token counts of a provider; None where it reports none."""

    tokens_in: int | None
    """Including cached ones."""
    tokens_out: int | None
    cached: int | None
    """Of the tokens in, those read from a prompt cache."""
    written: int | None
    """Of the tokens in, those written to a prompt cache, if these have their own price."""
    reasoning: int | None = None
    """Of the tokens out, those of reasoning."""


def usage_in(usage: Any) -> Usage:
    fields = usage if isinstance(usage, dict) else {}
    details = fields.get("prompt_tokens_details") or fields.get("input_tokens_details")
    thoughts = fields.get("completion_tokens_details") or fields.get("output_tokens_details")
    cached = count_in(details, "cached_tokens")
    return Usage(
        *totals_in(usage),
        count_in(usage, "cache_read_input_tokens") if cached is None else cached,
        count_in(usage, "cache_creation_input_tokens"),
        count_in(thoughts, "reasoning_tokens"),
    )


def totals_in(usage: Any) -> tuple[int | None, int | None]:
    """The tokens in and out."""
    tokens_in, tokens_out = count_in(usage, "prompt_tokens"), count_in(usage, "completion_tokens")
    if tokens_in is None:
        counts = [count for name in _ANTHROPIC if (count := count_in(usage, name)) is not None]
        tokens_in = sum(counts) if counts else None
    return tokens_in, count_in(usage, "output_tokens") if tokens_out is None else tokens_out
