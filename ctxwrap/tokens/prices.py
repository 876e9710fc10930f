"""What a model's tokens cost, from the table that litellm ships."""

from functools import cache
from typing import Any, NamedTuple

from ctxwrap.tokens.litellm_files import model_rows
from ctxwrap.tokens.windows import spellings


class Price(NamedTuple):
    """US dollars for one token."""

    input: float
    output: float
    cached: float
    """Of a prompt's beginning that the provider's cache gave."""
    written: float
    """Of what its cache took."""


def price_of(model: str) -> Price | None:
    """The price of a model by any of its names, or None if the table has none for it."""
    return next((_price_table()[name] for name in spellings(model) if name in _price_table()), None)


@cache
def _price_table() -> dict[str, Price]:
    return {name.lower(): price for name, row in model_rows().items() if (price := _price(row))}


def _price(row: Any) -> Price | None:
    if not isinstance(row, dict):
        return None
    given, taken = (_number(row.get(name)) for name in ("input_cost_per_token", "output_cost_per_token"))
    if given is None or taken is None:
        return None
    cached, written = (_number(row.get(f"cache_{name}_input_token_cost")) for name in ("read", "creation"))
    return Price(given, taken, given if cached is None else cached, given if written is None else written)


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) and value >= 0 else None
