"""Versions of the context document: what is new since the last one, and the next."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from ctxwrap.documents.sentences import MemoryLine, RawMessage
from ctxwrap.memory.items import MemoryItem, Origin, is_passing, kind_of, least_trusted
from ctxwrap.session.documents import EXTRACT, Documents
from ctxwrap.session.redaction import FORGOTTEN, PURGED, EventRedaction
from ctxwrap.session.session import Session
from ctxwrap.types import LoggedMessage, Message, Record

END_MARKER = "<END_SESSION>"
"""A user's message that ends with it, on a line of its own, ends the session."""

_MOST = 60
"""So many messages at most are read for one version."""


class News(NamedTuple):
    """What a document does not tell yet."""

    document: str
    version: int
    raws: list[RawMessage]
    items: list[MemoryLine]
    covers: int
    """The last message that there is."""
    origin: Origin
    """The least trusted of what is in the document and what is new."""


def news_of(session: Session, newest: int = 0) -> News:
    """What was said since the newest version of the document, or so many of the newest messages; inside `locked`."""
    # its rules take a while to be compiled: no first turn waits for them
    from ctxwrap.documents.document import EMPTY, is_placeholder

    past, documents = session.state, session.state.documents
    new = past.branch.since(documents.covers)[-_MOST:]
    if not documents.covers or is_placeholder(documents.text):
        new = list(past.branch.history(0)[-_MOST:])
    if newest:
        new = list(past.branch.history(0)[-min(newest, _MOST) :])
    items = _lasting(past.memory.items.values())
    origin = least_trusted(documents.origin, past.origin_of(new), *(item.origin for item in items))
    covers = past.sequence["messages"]
    return News(documents.text or EMPTY, documents.number, raws_of(session, new), _remembered(items), covers, origin)


def next_version(session: Session) -> Record:
    """The event for the document with what was said since its newest version, inside `locked`."""
    from ctxwrap.documents.document import grown

    news, documents = news_of(session), session.state.documents
    text = grown(news.document, news.raws, news.items)
    if text == news.document:
        return documents.unchanged(news.covers)
    return documents.next(text, EXTRACT, news.covers, news.origin)


def document_without(
    session: Session, gone: EventRedaction, events: Sequence[Record], without: frozenset[int]
) -> list[Record]:
    """The document made anew, if it is an extract and what is to be forgotten changes it.

    It is made of the newest version that stays, and of what was said behind it `without` some messages: from those that
    say what was forgotten nothing grows any more.
    """
    from ctxwrap.documents.document import EMPTY, grown

    documents, left = session.state.documents, Documents()
    if documents.by != EXTRACT:
        return []
    for event in map(gone.event, events):
        left.take(event, 0)
    said = [kept for kept in session.state.branch.since(left.covers)[-_MOST:] if kept.number not in without]
    items = [item for item in _lasting(session.state.memory.items.values()) if not gone.concerns(item.as_json())]
    text = gone.lines_left(grown(left.text or EMPTY, raws_of(session, said), _remembered(items)))
    if text in (left.text or EMPTY, FORGOTTEN):
        return []
    origin = least_trusted(left.origin, session.state.origin_of(said), *(item.origin for item in items))
    made = replace(left, version=documents.version, places=documents.places)
    return [made.next(text, EXTRACT, session.state.sequence["messages"], origin)]


def _lasting(items: Iterable[MemoryItem]) -> list[MemoryItem]:
    """The items of memory that a document tells: none of those that soon pass, or that another took the place of."""
    return [
        item for item in items if item.tier in ("core", "working") and not item.successor and not is_passing(item.type)
    ]


def _remembered(items: Iterable[MemoryItem]) -> list[MemoryLine]:
    return [MemoryLine(_type_of(item), item.content) for item in items]


def _type_of(item: MemoryItem) -> str:
    """What a document calls an item: models have many words for decisions and for work that is to be done."""
    name, kind = item.type.strip().casefold(), kind_of(item.type)
    if kind == "todo" and name not in ("deadline", "question", "plan", "goal"):
        return "task"
    return "decision" if kind == "decision" else name


def raws_of(session: Session, messages: Sequence[LoggedMessage]) -> list[RawMessage]:
    """Messages as they were said, each with its time; purged ones say nothing."""
    records = session.log.pick("messages", [kept.number for kept in messages])
    return [
        RawMessage(kept.number, kept.message.role, text, _time(records.get(kept.number)), kept.message.name)
        for kept in messages
        if (text := _said(kept.message)).strip() not in ("", PURGED)
    ]


def before_end_marker(text: str) -> str | None:
    """What stands before the marker that ends a session; None if the text does not end with one."""
    before, _, last = text.rstrip().rpartition("\n")
    return before if last.strip() == END_MARKER else None


def _said(message: Message) -> str:
    before = before_end_marker(message.text)
    return message.text if before is None else before


def _time(record: Record | None) -> str:
    return str(((record or {}).get("ctx") or {}).get("time") or "")
