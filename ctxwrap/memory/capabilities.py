"""What the model says it can do here, and which of that it may not change again."""

from collections.abc import Sequence
from typing import Any

from ctxwrap.types import Operation

WRITE_ONCE = "write_once"

_REWRITTEN = "memory is write_once:"


def merged(before: Sequence[Any], returned: Sequence[Any]) -> tuple[list[Any], str]:
    """What the model returned, with every `write_once` entry as it was first written; and which it tried to change."""
    fixed = {str(each.get("name")): each for each in before if is_fixed(each)}
    kept = [fixed.get(name_of(each), each) for each in returned]
    missing = [each for name, each in fixed.items() if name not in map(name_of, returned)]
    changed = [name_of(each) for each in returned if fixed.get(name_of(each), each) != each]
    violation = f"capability {changed[0][:40]!r} is write_once and was changed: it stays" if changed else ""
    return [*missing, *kept], violation


def writes_once(capabilities: Sequence[Any]) -> bool:
    """Whether the content of a memory item may be written once only: `{"name": "memory", "scope": "write_once"}`."""
    return any(is_fixed(each) and name_of(each) == "memory" for each in capabilities)


def reason_for_new(id: str, new: str) -> str:
    return f"{_REWRITTEN} {id!r} keeps its content, {new!r} has the new one"


def rewritten_in(operations: Sequence[Operation]) -> tuple[str, ...]:
    """What violates that memory is write_once."""
    return tuple(each.reason for each in operations if each.reason.startswith(_REWRITTEN))


def is_fixed(entry: Any) -> bool:
    return isinstance(entry, dict) and entry.get("scope") == WRITE_ONCE


def name_of(entry: Any) -> str:
    return str(entry.get("name")) if isinstance(entry, dict) else str(entry)
