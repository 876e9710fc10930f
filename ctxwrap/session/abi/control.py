"""The small files beside the log, most of which hold one value: state, place, times, whose session, which, budget."""

import re
from collections.abc import Callable, Iterator
from datetime import datetime
from functools import partial
from typing import Any, Literal

from ctxwrap.session.abi.names import is_legal_name
from ctxwrap.session.abi.reading import Issue, is_count, is_single_line, parsed, repeats

ControlName = Literal[
    "state",
    "cwd",
    "created_at",
    "updated_at",
    "meta.json",
    "index/list",
    "index/current",
    "index/by-cwd",
    "index/by-hash",
    "index/by-uuid",
]

STATES = frozenset({"active", "idle", "done", "error", "cancelled"})
_SCOPES = frozenset({"private", "shared", "temp"})
_UNSIGNED = re.compile(r"[0-9]{1,20}")


def control_issues(name: ControlName, text: str) -> tuple[Issue, ...]:
    return tuple(_CHECKS[name](text))


def budget_in(text: str) -> int | None:
    """The budget that a file `budget` sets, None if it is empty; a ValueError if it is no single unsigned integer."""
    value = text.removesuffix("\n")
    if not value:
        return None
    if not _UNSIGNED.fullmatch(value) or not is_count(int(value)):
        raise ValueError(f"a budget is one unsigned integer, not {value[:40]!r}")
    return int(value)


def _one_value(text: str, is_valid: Callable[[str], bool]) -> Iterator[Issue]:
    first, *others = text.removesuffix("\n").split("\n")
    value = first.strip()
    if not value:
        yield Issue("empty value", 1)
    elif first != value or not is_valid(value):
        yield Issue("invalid value", 1, value=value)
    if others:
        yield Issue("multiple values", 2)


def _one_name(text: str) -> Iterator[Issue]:
    first, *others = text.removesuffix("\n").split("\n")
    yield from _name_issues(1, first)
    if others:
        yield Issue("multiple values", 2)


def _names(text: str) -> Iterator[Issue]:
    for number, line in enumerate(text.removesuffix("\n").split("\n") if text else (), 1):
        yield from _name_issues(number, line)


def _name_issues(number: int, line: str) -> Iterator[Issue]:
    if not line.strip():
        yield Issue("empty value", number)
    elif not is_legal_name(line):
        yield Issue("invalid session name", number, value=line.strip())


def _is_place(text: str) -> bool:
    return text.startswith("/") and is_single_line(text) and not {".", ".."} & set(text.split("/"))


def _is_time(text: str) -> bool:
    """Whether a text is a moment: in ISO 8601 with its offset, or in seconds since 1970."""
    if _UNSIGNED.fullmatch(text):
        return True
    try:
        return datetime.fromisoformat(text).tzinfo is not None
    except ValueError:
        return False


def _is_model(text: str) -> bool:
    provider, _, name = text.partition("/")
    return is_legal_name(provider) and is_single_line(name)


_META: dict[str, Callable[[str], bool]] = {
    "client": lambda text: True,
    "model": _is_model,
    "scope": _SCOPES.__contains__,
}


def _meta(text: str) -> Iterator[Issue]:
    try:
        meta = parsed(text)
    except ValueError:
        yield Issue("invalid json")
        return
    if not isinstance(meta, dict):
        yield Issue("not object")
    elif repeats(meta):
        yield Issue("invalid json")
    else:
        yield from _meta_issues(meta)


def _meta_issues(meta: dict[str, Any]) -> Iterator[Issue]:
    for field, is_valid in _META.items():
        value = meta.get(field)
        if value is not None and not isinstance(value, str):
            yield Issue("invalid value", 1, field)
        elif value is not None and not is_valid(value):
            yield Issue("invalid value", 1, field, value)


_CHECKS: dict[ControlName, Callable[[str], Iterator[Issue]]] = {
    "state": partial(_one_value, is_valid=STATES.__contains__),
    "cwd": partial(_one_value, is_valid=_is_place),
    "created_at": partial(_one_value, is_valid=_is_time),
    "updated_at": partial(_one_value, is_valid=_is_time),
    "meta.json": _meta,
    "index/list": _names,
    "index/current": _one_name,
    "index/by-cwd": _one_name,
    "index/by-hash": _one_name,
    "index/by-uuid": _one_name,
}
