"""A state in several objects, one behind the other: its own fields in some, its tiers or items in others."""

from typing import Any

from ctxwrap.patterns import lazy_pattern
from ctxwrap.protocol.repair.effort import spend
from ctxwrap.protocol.repair.strict import Unreadable, value_at
from ctxwrap.protocol.shape import flat_items
from ctxwrap.protocol.words import canonical_key

_NEXT = lazy_pattern(r"[\s,]*")
_OBJECTS = lazy_pattern(r"\s*+\{[^\n]*\}(\s*+,?+\s*+)\{")


def looks_like_parts(text: str) -> bool:
    found = _OBJECTS.match(text)
    return found is not None and "\n" in found[1]


def read_parts(text: str) -> dict[str, Any]:
    """The state in `text`; Unreadable if two objects say the same, or one says nothing known."""
    root: dict[str, Any] = {}
    items: list[Any] = []
    at = _NEXT.match(text).end()  # type: ignore[union-attr]
    while at < len(text):
        spend(4)
        try:
            value, at = value_at(text, at)
        except ValueError:
            raise Unreadable("an object cannot be read") from None
        at = _NEXT.match(text, at).end()  # type: ignore[union-attr]
        if isinstance(value, dict) and flat_items([value]):
            items.append(value)
        else:
            _join(root, value)
    if items:
        _join(root, {"memory": items})
    return root


def _join(root: dict[str, Any], value: Any) -> None:
    if not isinstance(value, dict):
        raise Unreadable("a part is no object")
    for key, part in value.items():
        if canonical_key(key) in root:
            raise Unreadable(f"{key[:40]} stands in two parts")
        root[canonical_key(key)] = part
