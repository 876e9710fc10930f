"""The format of a session's log: messages as records, and their numbers."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import groupby
from typing import Any

from ctxwrap.types import Message, Record


def timestamp(moment: datetime) -> str:
    """ISO 8601 in UTC with microseconds and `Z`."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def message_range(source: str) -> tuple[int, int]:
    """The numbers in `messages:12-18`; the empty range 1 to 0 if there are none."""
    found = _RANGE.fullmatch(source.removeprefix("messages:"))
    return (int(found[1]), int(found[2])) if found else (1, 0)


_RANGE = re.compile(r"([0-9]{1,15})-([0-9]{1,15})")


def ranges(numbers: Sequence[int]) -> str:
    """Numbers written as `3-41,44`, in their order."""
    runs = groupby(enumerate(numbers), key=lambda each: each[1] - each[0])
    spans = [[number for _, number in run] for _, run in runs]
    return ",".join(str(span[0]) if len(span) == 1 else f"{span[0]}-{span[-1]}" for span in spans)


def numbers_in(spans: str) -> list[int]:
    """The inverse of `ranges`; ValueError for anything else, or for more messages than a request can hold."""
    numbers: list[int] = []
    for span in filter(None, spans.split(",")):
        start, _, end = span.partition("-")
        first, last = int(start), int(end or start)
        if last - first + len(numbers) >= _MOST:
            raise ValueError("more messages than a request can hold")
        numbers += range(first, last + 1)
    return numbers


_MOST = 1_000_000
"""A log may come from a stranger: a short text must not become a long list."""


def as_record(message: Message, **control: Any) -> Record:
    """A message as a record, with `control` as its `ctx`."""
    record: Record = {"role": message.role, "content": message.content}
    if message.name:
        record["name"] = message.name
    if message.tool_calls:
        record["tool_calls"] = list(message.tool_calls)
    if message.tool_call_id:
        record["tool_call_id"] = message.tool_call_id
    if message.extra:
        record["extra"] = dict(message.extra)
    record["ctx"] = {name: value for name, value in control.items() if value not in ("", None)}
    return record


def message_in(record: Record) -> Message:
    """The message in a record: the inverse of `as_record`. ValueError if there is none."""
    content, calls = record.get("content") or "", record.get("tool_calls") or ()
    if not isinstance(content, str) and not _all_objects(content):
        raise ValueError("content is neither text nor parts")
    if not _all_objects(calls) or not all(call.keys() >= _CALL for call in calls):
        raise ValueError("tool_calls are no calls")
    return Message(
        role=record.get("role", "user"),
        content=content,
        name=record.get("name") or "",
        tool_calls=tuple(calls),
        tool_call_id=record.get("tool_call_id") or "",
        extra=record.get("extra") or {},
    )


def tokens_in(record: Record) -> Mapping[str, int]:
    """A message's token counts in its record, by tokenizer."""
    control: Any = record.get("ctx")
    tokens = control.get("tokens") if isinstance(control, dict) else None
    if not isinstance(tokens, dict):
        return {}
    return {name: count for name, count in tokens.items() if type(count) is int and count >= 0}


def count_in(record: Any, name: str) -> int | None:
    """A field's value if it is a count."""
    value = record.get(name) if isinstance(record, dict) else None
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def number_in(record: Record) -> int | None:
    """The number in a record's `ctx`."""
    control: Any = record.get("ctx")
    number = control.get("seq") if isinstance(control, dict) else None
    return number if isinstance(number, int) else None


def turn_in(record: Record) -> str:
    """The turn that wrote a record, from `turn` or from the start of `id`; empty if neither is there."""
    control: Any = record.get("ctx")
    told = (control.get("turn"), control.get("id")) if isinstance(control, dict) else ()
    return next((text.partition("-")[0] if at else text for at, text in enumerate(told) if isinstance(text, str)), "")


def next_number(record: Record, before: int) -> int:
    """The number of a record that follows number `before`: its own if that is higher, else the next."""
    number = number_in(record) or 0
    return number if number > before else before + 1


def numbered(records: Iterable[Record]) -> Iterator[tuple[int, Record]]:
    """The records of a stream from its start, each with its number."""
    number = 0
    for record in records:
        number = next_number(record, number)
        yield number, record


_CALL = {"id", "name", "arguments"}


def _all_objects(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and all(isinstance(item, dict) for item in value)


MAX_LOGGED = 64 * 1024
"""How many characters of a snapshot the log keeps as the model wrote it, also when it was requested again."""


def truncate_for_log(text: str) -> str:
    """A text as the log keeps it: whole, or its beginning and how much is left out."""
    left_out = len(text) - MAX_LOGGED
    return text if left_out <= 0 else f"{text[:MAX_LOGGED]}… [{left_out} characters left out]"
