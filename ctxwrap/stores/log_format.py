"""The format of a session's log: messages as records, their numbers, and lines with checksums."""

import json
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from itertools import groupby
from typing import Any, NamedTuple

from ctxwrap.encoding import encode_json
from ctxwrap.types import Message, Record

MALFORMED = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""The errors of reading a record that is not what ctxwrap writes."""


def timestamp(moment: datetime) -> str:
    """ISO 8601 in UTC with microseconds and `Z`."""
    utc = moment if moment.tzinfo is UTC else moment.astimezone(UTC)
    date, time = (utc.year, utc.month, utc.day), (utc.hour, utc.minute, utc.second, utc.microsecond)
    return (b"%04d-%02d-%02dT%02d:%02d:%02d.%06dZ" % (*date, *time)).decode()  # half the time of `isoformat`


def message_range(source: str) -> tuple[int, int]:
    """The numbers in `messages:12-18`; the empty range 1 to 0 if there are none."""
    return _message_range(source[:_LONGEST_SOURCE])


_LONGEST_SOURCE = 64


@lru_cache(maxsize=16_384)
def _message_range(source: str) -> tuple[int, int]:
    found = _RANGE.fullmatch(source.removeprefix("messages:"))
    return (int(found[1]), int(found[2])) if found else (1, 0)


_RANGE = re.compile(r"([0-9]{1,15})-([0-9]{1,15})")


def ranges(numbers: Sequence[int]) -> str:
    """Numbers written as `3-41,44`, in their order."""
    if len(numbers) > 1 and [*numbers] == [*range(numbers[0], numbers[0] + len(numbers))]:  # most are one run
        return f"{numbers[0]}-{numbers[-1]}"
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
    if isinstance(content, str) and record.keys() <= _PLAIN:  # as most are
        return Message(record.get("role", "user"), content)
    if not isinstance(content, str) and not _all_objects(content):
        raise ValueError("content is neither text nor parts")
    if calls and not (_all_objects(calls) and all(call.keys() >= _CALL for call in calls)):
        raise ValueError("tool_calls are no calls")
    return Message(
        record.get("role", "user"),
        content,
        record.get("name") or "",
        tuple(calls),
        record.get("tool_call_id") or "",
        record.get("extra") or {},
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
    return value if type(value) is int and value >= 0 else None


def number_in(record: Record) -> int | None:
    """The number in a record's `ctx`."""
    control: Any = record.get("ctx")
    number = control.get("seq") if isinstance(control, dict) else None
    return number if isinstance(number, int) else None


def turn_in(record: Record) -> str:
    """The turn that wrote a record, from `turn` or from the start of `id`; empty if neither is there."""
    control: Any = record.get("ctx")
    if not isinstance(control, dict):
        return ""
    turn, id = control.get("turn"), control.get("id")
    if isinstance(turn, str):
        return turn
    return id.partition("-")[0] if isinstance(id, str) else ""


def next_number(record: Record, before: int) -> int:
    """The number of a record that follows number `before`: its own if that is higher, else the next."""
    control: Any = record.get("ctx")
    number = control.get("seq") if isinstance(control, dict) else None
    return number if isinstance(number, int) and number > before else before + 1


def numbered(records: Iterable[Record]) -> Iterator[tuple[int, Record]]:
    """The records of a stream from its start, each with its number."""
    number = 0
    for record in records:
        number = next_number(record, number)
        yield number, record


_CALL = {"id", "name", "arguments"}
_PLAIN = {"role", "content", "ctx"}


def _all_objects(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and all(isinstance(item, dict) for item in value)


MAX_LOGGED = 64 * 1024
"""How many characters of a snapshot the log keeps as the model wrote it, also when it was requested again."""


def truncate_for_log(text: str) -> str:
    """A text as the log keeps it: whole, or its beginning and how much is left out."""
    left_out = len(text) - MAX_LOGGED
    return text if left_out <= 0 else f"{text[:MAX_LOGGED]}… [{left_out} characters left out]"


CHECKSUM_LENGTH = len(b',"c":"0000000000000000"}}\n')
"""The length of the end of a line that holds its checksums."""

OWN_CHECKSUM = slice(-len(b'00000000"}}\n'), -len(b'"}}\n'))
"""Where lines that end with a newline hold the checksum of the last one."""

CHECKSUMS = re.compile(rb',"c":"([0-9a-f]{8})([0-9a-f]{8})"\}\}')

UNCOVERED = len(b'00000000"}}')
"""The length of the end of a line that its own checksum does not cover."""


def encode_batch(records: Sequence[Record], check: int, synced: int | None = None) -> bytes:
    """The records as the lines of one batch behind a line with the checksum `check`."""
    lines = []
    mark = "" if synced is None else f',"w":{synced}'
    for place, record in enumerate(records):
        batch = f',"b":[{place},{len(records)}]' if len(records) > 1 else ""
        covered = encode_json(_with_control_last(record))[:-2] + f'{mark}{batch},"c":"{check:08x}'.encode()
        check = zlib.crc32(covered)
        lines.append(covered + b'%08x"}}\n' % check)
    return b"".join(lines)


def _with_control_last(record: Record) -> Record:
    """The record so that its line ends with control data, which is never empty."""
    control = record["ctx"]
    if control and next(reversed(record)) == "ctx" and "b" not in control and "w" not in control:
        return record
    known = {name: value for name, value in control.items() if name not in ("b", "w")}
    return {**{name: value for name, value in record.items() if name != "ctx"}, "ctx": known or {"v": 1}}


def encode_line(record: Record) -> bytes:
    """A record as a line that follows no other, without a newline."""
    return encode_batch([record], 0).removesuffix(b"\n")


def decode_line(line: bytes) -> Record | None:
    """The record in a line; None if its own checksum is wrong."""
    return parse(line) if is_intact(line) else None


def change_line(line: bytes, before: Record, after: Record) -> bytes:
    """The line of a record that was read as `before`; the same bytes if it did not change."""
    return line if after == before else encode_line(without_checksums(after))


def with_checksums(head: bytes, check: int) -> bytes:
    """A whole line from all of it but its checksums, behind a line with the checksum `check`."""
    covered = head + b',"c":"%08x' % check
    return covered + b'%08x"}}\n' % zlib.crc32(covered)


def rechained(line: bytes, check: int) -> bytes:
    """The same line behind a line with another checksum; a line without checksums stays as it is."""
    return line + b"\n" if checksums_in(line) is None else with_checksums(line[: 1 - CHECKSUM_LENGTH], check)


def without_checksums(record: Record) -> Record:
    """A record that was read, as one to be written."""
    control = record.get("ctx") or {}
    return {
        **record,
        "ctx": {"v": 1, **{name: value for name, value in control.items() if name not in ("c", "b", "w")}},
    }


class Checksums(NamedTuple):
    before: int
    """The checksum of the line before."""
    check: int


def checksums_in(line: bytes) -> Checksums | None:
    found = CHECKSUMS.fullmatch(line, max(0, len(line) - CHECKSUM_LENGTH + 1))
    return Checksums(int(found[1], 16), int(found[2], 16)) if found else None


def last_checksum(lines: bytes) -> int | None:
    """The checksum of the last of these lines, if it has one."""
    found = checksums_in(lines.removesuffix(b"\n"))
    return found.check if found else None


def is_intact(line: bytes) -> bool:
    found = checksums_in(line)
    return found is not None and zlib.crc32(line[:-UNCOVERED]) == found.check


def parse(line: bytes) -> Record | None:
    """The JSON object in a line, whatever its checksum."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None


def contains_any(line: bytes, spellings: Sequence[bytes]) -> bool:
    return any(spelling in line for spelling in spellings)


def spellings_of(texts: Sequence[str]) -> list[bytes]:
    """The bytes that texts may have in a line: plain, or escaped as JSON."""
    spelled = {
        each for text in texts for each in (text, json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1])
    }
    return [each.encode("utf-8", "surrogatepass") for each in spelled]
