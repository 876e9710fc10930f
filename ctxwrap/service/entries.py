"""Entries of a memory: pages, new entries, search, and the check that contexts do not repeat summaries."""

import json
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import blake2b
from itertools import islice
from typing import Any, NamedTuple

from ctxwrap.documents.sentences import RawMessage, sentences_in
from ctxwrap.documents.summary import fit_summary, summarise_message
from ctxwrap.errors import Conflict, InvalidInput
from ctxwrap.language.words import terms_of
from ctxwrap.service import arguments
from ctxwrap.service.models import (
    ContextDocument,
    Entry,
    Findings,
    Hit,
    entries_of,
    newest_version,
    read_versions,
    replace_surrogates,
)
from ctxwrap.session.session import Session
from ctxwrap.stores.log_format import timestamp
from ctxwrap.turn.records import TurnRedactor
from ctxwrap.types import Message, Record, Role

_CURSOR = re.compile(r"entry:([0-9]{1,15})")
_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ].*")

_BATCH = 16
"""Fewest messages to read at once."""


class Page(NamedTuple):
    records: list[tuple[int, Record]]
    """Messages with their numbers, newest first."""
    has_older: bool
    next_after: int


def cursor_for(number: int) -> str:
    return urlsafe_b64encode(f"entry:{number}".encode()).decode().rstrip("=")


def page_before(session: Session, cursor: str | None, limit: int) -> Page:
    """Return the newest entries, or the newest before a cursor."""
    end = session.next_message
    below = end if cursor is None else _position(session, cursor, _first_after)
    found = list(_read_entries(session, _numbers_below(session, min(below, end)), limit + 1))
    shown = found[:limit]
    return Page(shown, len(found) > limit, shown[0][0] if shown else below - 1)


def page_after(session: Session, cursor: str, limit: int) -> Page:
    """Return the oldest entries after a cursor, so that paging forward skips none."""
    first = _position(session, cursor, _first_at, behind=1)
    found = list(_read_entries(session, _numbers_from(session, max(1, first)), limit))
    older = any(True for _ in _read_entries(session, _numbers_below(session, min(first, session.next_message)), 1))
    return Page(found[::-1], older, found[-1][0] if found else first - 1)


def is_entry(record: Record) -> bool:
    return record.get("role") != "system" and "purged" not in (record.get("ctx") or {})


def _position(session: Session, cursor: str, at_time: Callable[[Session, datetime], int], behind: int = 0) -> int:
    number = _number_in(cursor)
    return number + behind if number is not None else at_time(session, _time_in(cursor))


def _number_in(cursor: str) -> int | None:
    try:
        found = _CURSOR.fullmatch(urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode())
    except (ValueError, TypeError, AttributeError):
        return None
    return int(found[1]) if found else None


def _time_in(cursor: str) -> datetime:
    try:
        if not _TIME.fullmatch(cursor):
            raise ValueError(cursor)
        time = datetime.fromisoformat(cursor)
    except (ValueError, TypeError):
        raise InvalidInput(
            f"{str(cursor)[:60]!r} is not a cursor: pass next_before or next_after of a page, or a time such "
            "as 2025-08-17T12:00:00Z (write + as %2B in a URL)"
        ) from None
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def _first_at(session: Session, time: datetime) -> int:
    """Return the first message at or after a time."""
    return _bisect(session, lambda each: each >= time)


def _first_after(session: Session, time: datetime) -> int:
    """Return the first message after a time."""
    return _bisect(session, lambda each: each > time)


def _bisect(session: Session, is_behind: Callable[[datetime], bool]) -> int:
    """Find the first message whose time matches; the log is in order of time."""
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
    """Return the first message from a number on that has a time; damaged ones are skipped."""
    for at in range(number, end):
        record = session.log.pick("messages", [at]).get(at)
        try:
            time = datetime.fromisoformat(str((record or {})["ctx"]["time"]))
        except (LookupError, TypeError, ValueError):
            continue
        return at, time if time.tzinfo else time.replace(tzinfo=UTC)
    return end, None


def _numbers_below(session: Session, below: int) -> Iterator[int]:
    number = below - 1
    while number > 0:
        left = session.state.branch.left.range_of(number)
        if left is None:
            yield number
        number = (left[0] if left else number) - 1


def _numbers_from(session: Session, first: int) -> Iterator[int]:
    number = first
    while number < session.next_message:
        left = session.state.branch.left.range_of(number)
        if left is None:
            yield number
        number = (left[1] if left else number) + 1


def _read_entries(session: Session, numbers: Iterator[int], limit: int) -> Iterator[tuple[int, Record]]:
    """Yield the first `limit` entries with these numbers, with their contents."""
    missing = limit
    while missing and (batch := list(islice(numbers, max(missing, _BATCH)))):
        records = session.log.pick("messages", batch)
        found = [(number, records[number]) for number in batch if number in records and is_entry(records[number])]
        for number, record in found[:missing]:
            yield number, session.whole(record)
        missing -= len(found[:missing])


_LONGEST_SUMMARY = 20_000
"""Longest summary accepted, in characters; it is shortened to fit."""


@dataclass(frozen=True, slots=True)
class NewEntry:
    """An entry to store, with checked arguments."""

    role: Role
    raw: str
    summary: str
    tags: Mapping[str, str]
    request: str
    """Digest of the request's id, or empty."""

    @classmethod
    def from_arguments(cls, raw: Any, summary: Any, tags: Any, role: Any, request_id: Any) -> "NewEntry":
        if not isinstance(raw, str) or not raw.strip():
            raise InvalidInput("raw_entry must be a non-empty text: the message, word for word")
        known = arguments.tags(tags)
        speaker = arguments.role(known.get("role", role) if role == "user" else role)
        short = "" if summary is None else arguments.text("summary", summary, _LONGEST_SUMMARY, empty=True).strip()
        request = arguments.request_id(request_id)
        return cls(speaker, raw, short, known, _digest(request) if request else "")  # type: ignore[arg-type]  # checked

    @property
    def digest(self) -> str:
        """Digest of the entry's content."""
        return _digest(json.dumps([self.role, self.raw, self.summary, sorted(self.tags.items())]))

    def find_stored(self, session: Session) -> int | None:
        """Return the message that the same request already stored; raises Conflict if its content differs."""
        known = session.state.derived.collected.requests.get(self.request)
        if known is not None and known.said != self.digest:
            raise Conflict(
                f"request_id was already used for entry {known.number} with other content: use a new one for each entry"
            )
        return known.number if known else None

    def records(self, session: Session, now: datetime, written: str = "") -> tuple[list[Record], list[Record]]:
        """Return the message and its event, which refer to each other; `written` is a model's summary."""
        screen = TurnRedactor(session.redaction)
        number, message = session.next_message, Message(self.role, self.raw)
        shown = screen.message(message)
        record = screen.record(
            message,
            shown,
            round=session.rounds([message])[-1],
            entry=session.state.sequence["events"] + 1,
            request={"id": self.request, "said": self.digest} if self.request else None,
        )
        raw = RawMessage(number, self.role, shown.text, timestamp(now))
        given = self.summary or written
        summary = fit_summary(given) if given else summarise_message(raw, session.state.documents.text)
        event = {"type": "entry", "message": number, "summary": screen.text(str(summary))}
        by = "agent" if self.summary else "model" if written else "rules"
        return [record], [{**event, "tags": screen.value(dict(self.tags)), "by": by, "ctx": {}}]


def metadata_event(title: str, memory_type: str, description: str, screen: TurnRedactor) -> Record:
    texts = {"title": screen.text(title), "description": screen.text(description)}
    return {"type": "memory", **texts, "memory_type": memory_type, "ctx": {}}


def ordered_time(session: Session, now: datetime) -> datetime:
    """Return now, or the time of the newest record if that is later: paging needs ordered times."""
    try:
        return max(now, datetime.fromisoformat(session.state.derived.updated_at))
    except (TypeError, ValueError):
        return now


def _digest(text: str) -> str:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def search_entries(session: Session, query: str, top_k: int) -> Findings:
    hits = _hits(session, query, top_k)
    best, score = best_version(read_versions(session), query)
    return Findings(
        entries=tuple(hits),
        count=len(hits),
        bestContext=best,
        bestContextScore=round(score, 4),
        latestContext=newest_version(session.state.documents),
    )


def _hits(session: Session, query: str, top_k: int) -> list[Hit]:
    passages = {each.number: each for each in session.search(query, top_k)}
    records = session.log.pick("messages", passages)
    found = [(number, session.whole(records[number])) for number in passages if number in records]
    return [
        Hit(
            entry=entry,
            score=round(passage.score, 4),
            passage=replace_surrogates(passage.text),
            reasons=passage.reasons,
        )
        for entry in entries_of(session, found)
        if (passage := passages[int(entry.entryId)])
    ]


def best_version(documents: Sequence[ContextDocument], query: str) -> tuple[ContextDocument | None, float]:
    """Return the version with the largest share of a query's words, and the share; the newest of equals."""
    words = set(terms_of(query))
    best: tuple[ContextDocument | None, float] = None, 0.0
    for each in documents:
        share = len(words & set(terms_of(each.content))) / len(words) if words else 0.0
        if share > best[1]:
            best = each, share
    return best


_SHORTEST = 40
"""Shorter repetitions may be coincidence."""

_NEWEST = 200
"""Number of newest entries whose summaries are always compared."""

_LINES, _HITS = 40, 5
"""Number of new lines to search for among older entries, and of search results to compare per line."""


def reject_summaries(session: Session, content: str, before: str) -> None:
    """Raise InvalidInput if the lines of `content` that are not in `before` repeat the summary of an entry."""
    known = set(before.splitlines())
    new = [line for line in content.splitlines() if len(line) >= _SHORTEST and line not in known]
    text = _plain("\n".join(line for line in content.splitlines() if line not in known))
    if len(text) < _SHORTEST:
        return
    for entry in _likely_entries(session, new):
        repeated = _repeated(entry, text)
        if repeated:
            raise InvalidInput(
                f"the context repeats the summary of entry {entry.entryId} ({repeated[:60]!r}…): write it from raw "
                "entries (rawEntry) only, never from summaries"
            )


def _likely_entries(session: Session, lines: Iterable[str]) -> Iterator[Entry]:
    newest = page_before(session, None, _NEWEST).records
    yield from entries_of(session, newest)
    if len(newest) < _NEWEST:
        return
    seen = {number for number, _ in newest}
    for line in islice(lines, _LINES):
        numbers = {each.number for each in session.search(line, _HITS)} - seen
        seen |= numbers
        found = session.log.pick("messages", numbers) if numbers else {}
        yield from entries_of(
            session, [(number, session.whole(each)) for number, each in found.items() if is_entry(each)]
        )


def _repeated(entry: Entry, text: str) -> str:
    """Return the first part of a summary that a text repeats and the raw entry does not have."""
    raw = _plain(entry.rawEntry)
    pieces = (_plain(piece).strip(" .…") for piece in (entry.summary, *sentences_in(entry.summary)))
    return next((each for each in pieces if len(each) >= _SHORTEST and each in text and each not in raw), "")


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())
