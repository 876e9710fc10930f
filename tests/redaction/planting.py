"""A secret at any place of a JSON value."""

from collections.abc import Iterator
from typing import Any

Place = tuple[Any, ...]
"""The way to a text or, if it ends with `KEY`, to the name of a field."""
KEY = object()


def places_in(value: Any, way: Place = ()) -> Iterator[Place]:
    """Every text and every name of a field in a value."""
    if isinstance(value, str):
        yield way
    elif isinstance(value, dict):
        for name, each in value.items():
            yield (*way, name, KEY)
            yield from places_in(each, (*way, name))
    elif isinstance(value, list):
        for at, each in enumerate(value):
            yield from places_in(each, (*way, at))


def planted(value: Any, place: Place, secret: str) -> Any:
    """The value with a secret at a place."""
    if not place:
        return secret
    first, *rest = place
    if rest == [KEY]:
        return {secret if name == first else name: each for name, each in value.items()}
    if isinstance(value, dict):
        return {**value, first: planted(value[first], tuple(rest), secret)}
    return [planted(each, tuple(rest), secret) if at == first else each for at, each in enumerate(value)]
