"""Changing one place deep inside a JSON value without touching the original."""

from collections.abc import Sequence
from typing import Any

from ctxwrap.types import Body


def put(value: Body, path: Sequence[str | int], new: Any) -> Body:
    """A copy of `value` with `new` at `path`, which must lead somewhere; everything off the path is shared."""
    changed: Body = _put(value, path, new)
    return changed


def _put(value: Any, path: Sequence[str | int], new: Any) -> Any:
    if not path:
        return new
    changed = value.copy()
    changed[path[0]] = _put(value[path[0]], path[1:], new) if len(path) > 1 else new
    return changed
