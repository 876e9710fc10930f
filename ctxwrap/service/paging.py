"""Pages of entries: cursors, and the messages that a page shows, found without reading any others.

A cursor stands for a message's number in the log. Entries stand in the order in which they were stored, so that
however many have one time none is passed over. A time, as a cursor, includes the entries of that very time; go on from
there with the cursors that the answer names. Instructions (system messages), purged messages and those that the
conversation left are no entries.
"""

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from itertools import islice
from typing import NamedTuple

from ctxwrap.errors import InvalidInput
from ctxwrap.session import Session
from ctxwrap.types import Record

_TOKEN = re.compile(r"entry:([0-9]{1,15})")
_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ].*")

_AT_A_TIME = 16
"""So many messages at least are read at once."""


class Page(NamedTuple):
    records: list[tuple[int, Record]]
    """Messages with their numbers, the newest first."""
    has_older: bool
    next_after: int


def token(number: int) -> str:
    return urlsafe_b64encode(f"entry:{number}".encode()).decode().rstrip("=")


def page_before(session: Session, cursor: str | None, limit: int) -> Page:
    """The newest entries, or the newest before a cursor."""
    end = session.next_message
    below = end if cursor is None else _place(session, cursor, _first_later)
    found = list(_some(session, _numbers_below(session, min(below, end)), limit + 1))
    shown = found[:limit]
    return Page(shown, len(found) > limit, shown[0][0] if shown else below - 1)


def page_after(session: Session, cursor: str, limit: int) -> Page:
    """The oldest entries behind a cursor, so that going on from there leaves none out."""
    first = _place(session, cursor, _first_of, behind=1)
    found = list(_some(session, _numbers_from(session, max(1, first)), limit))
    older = any(True for _ in _some(session, _numbers_below(session, min(first, session.next_message)), 1))
    return Page(found[::-1], older, found[-1][0] if found else first - 1)


def is_entry(record: Record) -> bool:
    return record.get("role") != "system" and "purged" not in (record.get("ctx") or {})


def _place(session: Session, cursor: str, at_time: Callable[[Session, datetime], int], behind: int = 0) -> int:
    number = _number_in(cursor)
    return number + behind if number is not None else at_time(session, _time_in(cursor))


def _number_in(cursor: str) -> int | None:
    try:
        told = _TOKEN.fullmatch(urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode())
    except (ValueError, TypeError, AttributeError):
        return None
    return int(told[1]) if told else None


def _time_in(cursor: str) -> datetime:
    try:
        if not _TIME.fullmatch(cursor):
            raise ValueError(cursor)
        moment = datetime.fromisoformat(cursor)
    except (ValueError, TypeError):
        raise InvalidInput(
            f"{str(cursor)[:60]!r} is no cursor: give what next_before or next_after of an answer says, or a time such "
            "as 2025-08-17T12:00:00Z (a + in a URL is written %2B)"
        ) from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _first_of(session: Session, moment: datetime) -> int:
    """The first message that is not from before a moment."""
    return _bisected(session, lambda time: time >= moment)


def _first_later(session: Session, moment: datetime) -> int:
    """The first message from behind a moment."""
    return _bisected(session, lambda time: time > moment)


def _bisected(session: Session, is_behind: Callable[[datetime], bool]) -> int:
    """The first message whose time is behind, if times never go back in the log."""
    low, high = 1, session.next_message
    while low < high:
        middle = (low + high) // 2
        at, time = _time_near(session, middle, high)
        if time is None or is_behind(time):
            high = middle
        else:
            low = at + 1
    return low


def _time_near(session: Session, number: int, end: int) -> tuple[int, datetime | None]:
    """The first message from a number on that says its time, should one be damaged."""
    for at in range(number, end):
        record = session.log.pick("messages", [at]).get(at)
        try:
            moment = datetime.fromisoformat(str((record or {})["ctx"]["time"]))
        except (LookupError, TypeError, ValueError):
            continue
        return at, moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return end, None


def _numbers_below(session: Session, below: int) -> Iterator[int]:
    number = below - 1
    while number > 0:
        left = session.past.branch.left.range_of(number)
        if left is None:
            yield number
        number = (left[0] if left else number) - 1


def _numbers_from(session: Session, first: int) -> Iterator[int]:
    number = first
    while number < session.next_message:
        left = session.past.branch.left.range_of(number)
        if left is None:
            yield number
        number = (left[1] if left else number) + 1


def _some(session: Session, numbers: Iterator[int], limit: int) -> Iterator[tuple[int, Record]]:
    """The first entries of these numbers, with their contents."""
    missing = limit
    while missing and (batch := list(islice(numbers, max(missing, _AT_A_TIME)))):
        records = session.log.pick("messages", batch)
        found = [(number, records[number]) for number in batch if number in records and is_entry(records[number])]
        for number, record in found[:missing]:
            yield number, session.whole(record)
        missing -= len(found[:missing])
