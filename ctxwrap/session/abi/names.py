"""Names of a session's files, and strict parsing of untrusted JSON."""

import hashlib
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Literal, NamedTuple

from ctxwrap.stores.names import safe_name
from ctxwrap.types import Record

SESSION_FILES = frozenset(
    {"messages.jsonl", "events.jsonl", "latest.md", "state", "cwd", "created_at", "updated_at", "meta.json"}
)
CONTEXT_FILES = frozenset(
    {"budget", "pack.json", "pack.md", "plan.json", "summary.md", "todo.md", "document.md"}
    | {"facts.jsonl", "decisions.jsonl", "refs.jsonl"}
)

SourceFault = Literal[
    "empty",
    "absolute",
    "empty component",
    "dot component",
    "parent component",
    "unsupported child path",
    "unsupported session path",
]

_LEGAL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}")
_BLOB_DIGITS = 56
"""Hex digits of a digest in a blob's name: a legal name allows 57 after `sha256-`, rounded down to whole bytes."""

_FAULTY_PARTS: dict[str, SourceFault] = {"": "empty component", ".": "dot component", "..": "parent component"}


def is_legal_name(text: str) -> bool:
    return _LEGAL.fullmatch(text) is not None and not text.endswith((".sock", ".d"))


def legal_name(text: str) -> str:
    """A legal name for an id: the id itself if it is legal, otherwise a readable stem, `+` and a digest.

    Two ids share a name only if one is spelled like the other's name.
    """
    return text if is_legal_name(text) else safe_name(text)


def blob_name(data: bytes) -> tuple[str, str]:
    """The name of the blob for `data`, which has a part of the digest, and the whole digest."""
    digits = hashlib.sha256(data).hexdigest()
    return named_by(digits), f"sha256:{digits}"


def named_by(digits: str) -> str:
    """The name of the blob with this digest."""
    return f"sha256-{digits[:_BLOB_DIGITS]}"


def is_blob_name(text: str) -> bool:
    return is_legal_name(text) and text.startswith(("sha256-", "sha256_", "sha256."))


def source_issue(source: str) -> SourceFault | None:
    """Why a pack may not use this source; None if it may."""
    if not source:
        return "empty"
    if source.startswith("/"):
        return "absolute"
    parts = source.split("/")
    fault = next((_FAULTY_PARTS[part] for part in parts if part in _FAULTY_PARTS), None)
    if fault or _is_file(parts):
        return fault
    return "unsupported child path" if parts[:2] == ["context", "child"] else "unsupported session path"


def _is_file(parts: list[str]) -> bool:
    match parts:
        case [name]:
            return name in SESSION_FILES
        case ["context", name]:
            return name in CONTEXT_FILES
        case ["context", "child", child, "handoff.md" | "result.md" | "refs.jsonl"]:
            return is_legal_name(child)
        case ["context", "child", child, "artifact", name]:
            return is_legal_name(child) and is_legal_name(name)
        case (
            ["context", "pinned" | "swap" | "dedup", name]
            | ["context", "swap", "chunk", name]
            | ["context", "dedup", "blob", name]
        ):
            return is_legal_name(name)
    return False


IssueKind = Literal[
    "empty value",
    "event not object",
    "invalid agent lifecycle",
    "invalid approval",
    "invalid content",
    "invalid done status",
    "invalid error code",
    "invalid field",
    "invalid json",
    "invalid role",
    "invalid session name",
    "invalid source",
    "invalid tool call",
    "invalid usage",
    "invalid value",
    "item not object",
    "items not array",
    "message not object",
    "missing content",
    "missing final newline",
    "missing number field",
    "missing role",
    "missing run",
    "missing source",
    "missing string array field",
    "missing string field",
    "missing type",
    "multiple values",
    "not object",
    "provider native field",
    "record not object",
    "source not string",
    "unknown type",
]


class Issue(NamedTuple):
    """One violation of the ABI."""

    kind: IssueKind
    at: int | None = None
    """The line, counted from 1, or the item of a pack, counted from 0; None for the whole text."""
    field: str = ""
    value: str = ""
    """What was found instead, or why a source is refused."""


class Repeating(dict[str, Any]):
    """An object with a repeated key: parsers disagree on which one counts."""

    def __init__(self, pairs: Sequence[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        self.repeated = frozenset(name for name, count in Counter(name for name, _ in pairs).items() if count > 1)


def _object(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    return found if len(found) == len(pairs) else Repeating(pairs)


def _finite(spelled: str) -> float:
    """A finite number; `parse_constant` sends NaN and the infinities here, too."""
    number = float(spelled)
    if not math.isfinite(number):
        raise ValueError(f"{spelled[:40]} is not a JSON number")
    return number


_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_float=_finite, parse_constant=_finite)


def parsed(text: str) -> Any:
    """The value of a JSON text; raise ValueError if it is not valid."""
    text.encode()  # invalid UTF-8 was decoded as lone surrogates, which JSON allows only as escapes
    try:
        return _DECODER.decode(text)
    except RecursionError:
        raise ValueError("nested too deeply to be read") from None


def objects(value: Any, without: frozenset[str] = frozenset()) -> Iterator[dict[str, Any]]:
    """Every object in a value, outer ones first, except below the keys `without`."""
    pending = [value]  # no recursion: parsed JSON may be nested more deeply than the call stack allows
    while pending:
        value = pending.pop()
        if isinstance(value, dict):
            yield value
            pending.extend(each for name, each in reversed(value.items()) if name not in without)
        elif isinstance(value, list):
            pending.extend(reversed(value))


def repeats(value: Any) -> bool:
    return any(isinstance(each, Repeating) for each in objects(value))


def line_issues(text: str, not_object: IssueKind, check: Callable[[Record], Iterable[Issue]]) -> tuple[Issue, ...]:
    """The issues of a JSON lines text; blank lines are ignored.

    Only a line feed ends a line: JSON strings may hold the other characters at which Python splits.
    """
    return tuple(
        issue._replace(at=number)
        for number, line in enumerate(text.split("\n"), 1)
        if line.strip(" \t\r")
        for issue in _issues_of(line, not_object, check)
    )


def _issues_of(line: str, not_object: IssueKind, check: Callable[[Record], Iterable[Issue]]) -> Iterable[Issue]:
    try:
        value = parsed(line)
    except ValueError:
        return (Issue("invalid json"),)
    return check(value) if isinstance(value, dict) else (Issue(not_object),)


def is_count(value: object) -> bool:
    """Whether a value is an unsigned 64-bit integer."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 64


def is_single_line(text: str) -> bool:
    return bool(text) and not any(character < " " or character == "\x7f" for character in text)
