"""What the service writes: an entry as a message with its event, and the metadata of a memory."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from hashlib import blake2b
from typing import Any

from ctxwrap.entries.raw import Raw
from ctxwrap.entries.summary import fitted, summary_of
from ctxwrap.errors import Conflict, InvalidInput
from ctxwrap.records import timestamp
from ctxwrap.screening import Screen
from ctxwrap.service import checking
from ctxwrap.session import Session
from ctxwrap.types import Message, Record, Role

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
        known = checking.tags(tags)
        said = checking.role(known.get("role", role) if role == "user" else role)
        short = "" if summary is None else checking.text("summary", summary, _SUMMARY, empty=True).strip()
        request = checking.request_id(request_id)
        return cls(said, raw, short, known, _digest(request) if request else "")  # type: ignore[arg-type]  # checked

    @property
    def said(self) -> str:
        """A digest of all that is to be stored."""
        return _digest(json.dumps([self.role, self.raw, self.summary, sorted(self.tags.items())]))

    def stored(self, session: Session) -> int | None:
        """The number of the message, if the same request stored it already; a Conflict if it stored something else."""
        known = session.past.derived.collected.requests.get(self.request)
        if known is not None and known.said != self.said:
            raise Conflict(
                f"request_id was used for entry {known.number}, which says something else: each entry has its own"
            )
        return known.number if known else None

    def records(self, session: Session, now: datetime, asked: str = "") -> tuple[list[Record], list[Record]]:
        """The message and the event that belongs to it; each says where the other is. `asked` is a model's summary."""
        screen = Screen(session.redaction)
        number, message = session.next_message, Message(self.role, self.raw)
        shown = screen.message(message)
        record = screen.record(
            message,
            shown,
            round=session.rounds([message])[-1],
            entry=session.past.sequence["events"] + 1,
            request={"id": self.request, "said": self.said} if self.request else None,
        )
        raw = Raw(number, self.role, shown.text, timestamp(now))
        given = self.summary or asked
        summary = fitted(given) if given else summary_of(raw, session.past.documents.text)
        event = {"type": "entry", "message": number, "summary": screen.text(str(summary))}
        by = "agent" if self.summary else "model" if asked else "rules"
        return [record], [{**event, "tags": screen.value(dict(self.tags)), "by": by, "ctx": {}}]


def metadata(title: str, memory_type: str, description: str, screen: Screen) -> Record:
    said = {"title": screen.text(title), "description": screen.text(description)}
    return {"type": "memory", **said, "memory_type": memory_type, "ctx": {}}


def no_earlier(session: Session, now: datetime) -> datetime:
    """Now, or the time of the newest record: the times of entries never go back."""
    try:
        return max(now, datetime.fromisoformat(session.past.derived.updated_at))
    except (TypeError, ValueError):
        return now


def _digest(text: str) -> str:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
