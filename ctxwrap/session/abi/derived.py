"""What is made from the log: the records of facts, decisions, references, swap and dedup, and the pack."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Literal

from ctxwrap.session.abi.names import is_blob_name, is_legal_name, source_issue
from ctxwrap.session.abi.reading import Issue, Repeating, is_count, is_single_line, line_issues, parsed, repeats
from ctxwrap.types import Record

RecordKind = Literal["facts", "decisions", "refs", "swap_index", "dedup_index"]
Check = Callable[[str, Any], Iterator[Issue]]
"""What is wrong with the value of a field, given the field's name and the value, None if it is not there."""


def _text(is_valid: Callable[[str], bool]) -> Check:
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

RECORDS: Mapping[RecordKind, Mapping[str, Check]] = {
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
"""The fields that every record of a kind has; it may have others."""


def record_issues(kind: RecordKind, text: str) -> tuple[Issue, ...]:
    return line_issues(text, "record not object", partial(_fields_issues, RECORDS[kind]))


def _fields_issues(fields: Mapping[str, Check], record: Record) -> Iterator[Issue]:
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
