"""Entries of a memory: pages, writes and search."""

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
from ctxwrap.documents.summary import fitted, summary_of
from ctxwrap.errors import Conflict, InvalidInput
from ctxwrap.language.words import terms_of
from ctxwrap.service import arguments
from ctxwrap.service.models import ContextDocument, Entry, Findings, Hit, entries_of, newest, sendable, versions
from ctxwrap.session.session import Session
from ctxwrap.stores.log_format import timestamp
from ctxwrap.turn.redactor import TurnRedactor
from ctxwrap.types import Message, Record, Role

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


def _some(session: Session, numbers: Iterator[int], limit: int) -> Iterator[tuple[int, Record]]:
    """The first entries of these numbers, with their contents."""
    missing = limit
    while missing and (batch := list(islice(numbers, max(missing, _AT_A_TIME)))):
        records = session.log.pick("messages", batch)
        found = [(number, records[number]) for number in batch if number in records and is_entry(records[number])]
        for number, record in found[:missing]:
            yield number, session.whole(record)
        missing -= len(found[:missing])


_SUMMARY = 20_000
"""A summary may be so long, in characters, to be made to fit."""


@dataclass(frozen=True, slots=True)
class NewEntry:
    """An entry that somebody wants to be stored, as far as it can be checked without its memory."""

    role: Role
    raw: str
    summary: str
    tags: Mapping[str, str]
    request: str
    """A digest of the request's id, or nothing."""

    @classmethod
    def checked(cls, raw: Any, summary: Any, tags: Any, role: Any, request_id: Any) -> "NewEntry":
        if not isinstance(raw, str) or not raw.strip():
            raise InvalidInput("raw_entry must be a text that is not empty: the message, word for word")
        known = arguments.tags(tags)
        said = arguments.role(known.get("role", role) if role == "user" else role)
        short = "" if summary is None else arguments.text("summary", summary, _SUMMARY, empty=True).strip()
        request = arguments.request_id(request_id)
        return cls(said, raw, short, known, _digest(request) if request else "")  # type: ignore[arg-type]  # checked

    @property
    def said(self) -> str:
        """A digest of all that is to be stored."""
        return _digest(json.dumps([self.role, self.raw, self.summary, sorted(self.tags.items())]))

    def stored(self, session: Session) -> int | None:
        """The number of the message, if the same request stored it already; a Conflict if it stored something else."""
        known = session.state.derived.collected.requests.get(self.request)
        if known is not None and known.said != self.said:
            raise Conflict(
                f"request_id was used for entry {known.number}, which says something else: each entry has its own"
            )
        return known.number if known else None

    def records(self, session: Session, now: datetime, asked: str = "") -> tuple[list[Record], list[Record]]:
        """The message and the event that belongs to it; each says where the other is. `asked` is a model's summary."""
        screen = TurnRedactor(session.redaction)
        number, message = session.next_message, Message(self.role, self.raw)
        shown = screen.message(message)
        record = screen.record(
            message,
            shown,
            round=session.rounds([message])[-1],
            entry=session.state.sequence["events"] + 1,
            request={"id": self.request, "said": self.said} if self.request else None,
        )
        raw = RawMessage(number, self.role, shown.text, timestamp(now))
        given = self.summary or asked
        summary = fitted(given) if given else summary_of(raw, session.state.documents.text)
        event = {"type": "entry", "message": number, "summary": screen.text(str(summary))}
        by = "agent" if self.summary else "model" if asked else "rules"
        return [record], [{**event, "tags": screen.value(dict(self.tags)), "by": by, "ctx": {}}]


def metadata(title: str, memory_type: str, description: str, screen: TurnRedactor) -> Record:
    said = {"title": screen.text(title), "description": screen.text(description)}
    return {"type": "memory", **said, "memory_type": memory_type, "ctx": {}}


def no_earlier(session: Session, now: datetime) -> datetime:
    """Now, or the time of the newest record: the times of entries never go back."""
    try:
        return max(now, datetime.fromisoformat(session.state.derived.updated_at))
    except (TypeError, ValueError):
        return now


def _digest(text: str) -> str:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def found(session: Session, query: str, top_k: int) -> Findings:
    hits = _hits(session, query, top_k)
    best, score = best_of(versions(session), query)
    return Findings(
        entries=tuple(hits),
        count=len(hits),
        bestContext=best,
        bestContextScore=round(score, 4),
        latestContext=newest(session.state.documents),
    )


def _hits(session: Session, query: str, top_k: int) -> list[Hit]:
    passages = {each.number: each for each in session.search(query, top_k)}
    records = session.log.pick("messages", passages)
    there = [(number, session.whole(records[number])) for number in passages if number in records]
    return [
        Hit(entry=entry, score=round(told.score, 4), passage=sendable(told.text), reasons=told.reasons)
        for entry in entries_of(session, there)
        if (told := passages[int(entry.entryId)])
    ]


def best_of(documents: Sequence[ContextDocument], query: str) -> tuple[ContextDocument | None, float]:
    """The version with the largest share of a query's words, of equals the newest; none if none has any."""
    words = set(terms_of(query))
    best: tuple[ContextDocument | None, float] = None, 0.0
    for each in documents:
        share = len(words & set(terms_of(each.content))) / len(words) if words else 0.0
        if share > best[1]:
            best = each, share
    return best


_SHORTEST = 40
"""From that length on, words that are the same are no accident."""

_NEWEST = 200
"""The summaries of so many of the newest entries are looked at in any case."""

_LINES, _HITS = 40, 5
"""So many new lines are looked for among all entries, with so many of the likeliest for each."""


def refuse_summaries(session: Session, content: str, before: str) -> None:
    """An InvalidInput if what `content` has beyond the version `before` repeats the summary of an entry."""
    known = set(before.splitlines())
    new = [line for line in content.splitlines() if len(line) >= _SHORTEST and line not in known]
    told = _plain("\n".join(line for line in content.splitlines() if line not in known))
    if len(told) < _SHORTEST:
        return
    for entry in _likely(session, new):
        repeated = _repeated(entry, told)
        if repeated:
            raise InvalidInput(
                f"the context repeats the summary of entry {entry.entryId} ({repeated[:60]!r}…): it may be made of "
                "what entries say themselves (rawEntry) only, never of their summaries"
            )


def _likely(session: Session, lines: Iterable[str]) -> Iterator[Entry]:
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


def _repeated(entry: Entry, told: str) -> str:
    """The first piece of a summary that is told again and not in the words of the entry itself."""
    raw = _plain(entry.rawEntry)
    pieces = (_plain(piece).strip(" .…") for piece in (entry.summary, *sentences_in(entry.summary)))
    return next((each for each in pieces if len(each) >= _SHORTEST and each in told and each not in raw), "")


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())
