"""JSON that anybody may have written, read so that every reader sees the same, and what was wrong with it."""

import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Literal, NamedTuple

from ctxwrap.types import Record

Kind = Literal[
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
    """One way in which a text is not what the ABI says."""

    kind: Kind
    at: int | None = None
    """The line, counted from 1, or the item of a pack, counted from 0; None if it is the text as a whole."""
    field: str = ""
    value: str = ""
    """What stands there instead, or why a source is refused."""


class Repeating(dict[str, Any]):
    """An object in which a key stands twice: readers do not agree on which of them counts."""

    def __init__(self, pairs: Sequence[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        self.repeated = frozenset(name for name, count in Counter(name for name, _ in pairs).items() if count > 1)


def _object(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    return found if len(found) == len(pairs) else Repeating(pairs)


def _finite(spelled: str) -> float:
    """A number that there is; `parse_constant` also sends NaN and the infinities here."""
    number = float(spelled)
    if not math.isfinite(number):
        raise ValueError(f"{spelled[:40]} is no number of JSON's")
    return number


_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_float=_finite, parse_constant=_finite)


def parsed(text: str) -> Any:
    """The value that a JSON text spells; a ValueError if it spells none, whatever it is."""
    text.encode()  # bytes that are no UTF-8 come decoded as lone surrogates, which JSON can only hold as escapes
    try:
        return _DECODER.decode(text)
    except RecursionError:
        raise ValueError("nested too deeply to be read") from None


def objects(value: Any, without: frozenset[str] = frozenset()) -> Iterator[dict[str, Any]]:
    """Every object in a value, outer ones first, but those under the names `without`."""
    pending = [value]  # no recursion: what could be parsed may be nested more deeply than Python calls may be
    while pending:
        value = pending.pop()
        if isinstance(value, dict):
            yield value
            pending.extend(each for name, each in reversed(value.items()) if name not in without)
        elif isinstance(value, list):
            pending.extend(reversed(value))


def repeats(value: Any) -> bool:
    return any(isinstance(each, Repeating) for each in objects(value))


def line_issues(text: str, not_object: Kind, check: Callable[[Record], Iterable[Issue]]) -> tuple[Issue, ...]:
    """What is wrong with a text of one JSON object a line; blank lines say nothing.

    Only a line feed ends a line: a text in JSON may hold every other character that Python would split at.
    """
    return tuple(
        issue._replace(at=number)
        for number, line in enumerate(text.split("\n"), 1)
        if line.strip(" \t\r")
        for issue in _issues_of(line, not_object, check)
    )


def _issues_of(line: str, not_object: Kind, check: Callable[[Record], Iterable[Issue]]) -> Iterable[Issue]:
    try:
        value = parsed(line)
    except ValueError:
        return (Issue("invalid json"),)
    return check(value) if isinstance(value, dict) else (Issue(not_object),)


def is_count(value: object) -> bool:
    """Whether a value is a number that fits 64 bits without a sign."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 64


def is_single_line(text: str) -> bool:
    return bool(text) and not any(character < " " or character == "\x7f" for character in text)
