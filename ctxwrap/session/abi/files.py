"""The files beside the log: control files, derived records, and the pack."""

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from functools import partial
from typing import Any, Literal

from ctxwrap.session.abi.names import (
    Issue,
    Repeating,
    is_blob_name,
    is_count,
    is_legal_name,
    is_single_line,
    line_issues,
    parsed,
    repeats,
    source_issue,
)
from ctxwrap.types import Record

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
    """The budget in a file `budget`; None if it is empty. Raise ValueError if it is not one unsigned integer."""
    value = text.removesuffix("\n")
    if not value:
        return None
    if not _UNSIGNED.fullmatch(value) or not is_count(int(value)):
        raise ValueError(f"a budget must be one unsigned integer, not {value[:40]!r}")
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
    """Whether a text is a time: ISO 8601 with offset, or seconds since 1970."""
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


RecordKind = Literal["facts", "decisions", "refs", "swap_index", "dedup_index"]
FieldCheck = Callable[[str, Any], Iterator[Issue]]
"""Finds issues of a field, given its name and value; the value is None if the field is absent."""


def _text(is_valid: Callable[[str], bool]) -> FieldCheck:
    def issues(field: str, value: Any) -> Iterator[Issue]:
        if not isinstance(value, str):
            yield Issue("missing string field", field=field)
        elif not is_valid(value):
            yield Issue("invalid field", field=field, value=value)

    return issues


def _count(field: str, value: Any) -> Iterator[Issue]:
    if not is_count(value):
        yield Issue("missing number field", field=field)


def _lines(field: str, value: Any) -> Iterator[Issue]:
    if not isinstance(value, list) or not value or not all(isinstance(each, str) for each in value):
        yield Issue("missing string array field", field=field)
        return
    yield from (Issue("invalid field", field=field, value=each) for each in value if not is_single_line(each))


def _is_path(text: str) -> bool:
    return is_single_line(text) and not {".", ".."} & set(text.split("/"))


def _is_swap_source(text: str) -> bool:
    if text.startswith("context/"):
        return source_issue(text) is None
    return text in ("messages.jsonl", "events.jsonl")


_REF_KINDS = frozenset({"file", "artifact", "tool_output", "swap", "child_result"})
_SWAP_KINDS = frozenset({"message_range", "tool_output", "file", "memory"})
_line = _text(is_single_line)

RECORDS: Mapping[RecordKind, Mapping[str, FieldCheck]] = {
    "facts": {"id": _text(is_legal_name), "text": _line, "source": _line},
    "decisions": {"id": _text(is_legal_name), "decision": _line, "source": _line},
    "refs": {
        "id": _text(is_legal_name),
        "path": _text(_is_path),
        "kind": _text(_REF_KINDS.__contains__),
        "summary": _line,
    },
    "swap_index": {
        "id": _text(is_blob_name),
        "kind": _text(_SWAP_KINDS.__contains__),
        "source": _text(_is_swap_source),
        "summary": _line,
        "tokens": _count,
    },
    "dedup_index": {"hash": _text(is_blob_name), "refs": _lines, "bytes": _count, "tokens": _count},
}
"""The required fields of each kind of record; others are allowed."""


def record_issues(kind: RecordKind, text: str) -> tuple[Issue, ...]:
    return line_issues(text, "record not object", partial(_fields_issues, RECORDS[kind]))


def _fields_issues(fields: Mapping[str, FieldCheck], record: Record) -> Iterator[Issue]:
    if repeats(record):
        yield Issue("invalid json")
        return
    for field, check in fields.items():
        yield from check(field, record.get(field))


def pack_issues(text: str) -> tuple[Issue, ...]:
    try:
        pack = parsed(text)
    except ValueError:
        return (Issue("invalid json"),)
    items = pack.get("items") if isinstance(pack, dict) else None
    if not isinstance(items, list) or (isinstance(pack, Repeating) and "items" in pack.repeated):
        return (Issue("items not array"),)
    if repeats(pack):
        return (Issue("invalid json"),)
    return tuple(issue._replace(at=at) for at, item in enumerate(items) for issue in _item_issues(item))


def _item_issues(item: Any) -> Iterator[Issue]:
    if not isinstance(item, dict):
        yield Issue("item not object")
        return
    source = item.get("source")
    if source is None:
        yield Issue("missing source")
    elif not isinstance(source, str):
        yield Issue("source not string")
    elif fault := source_issue(source):
        yield Issue("invalid source", value=fault)
