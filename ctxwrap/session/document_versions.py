"""Versions of the context document: what is new since the last one, and the next."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from ctxwrap.documents.sentences import MemoryLine, RawMessage
from ctxwrap.memory.items import MemoryItem, Origin, is_passing, kind_of, least_trusted
from ctxwrap.session.documents import EXTRACT, Documents
from ctxwrap.session.redaction import FORGOTTEN, PURGED, EventRedaction
from ctxwrap.session.session import Session
from ctxwrap.types import LoggedMessage, Record

END_MARKER = "<END_SESSION>"
"""A user message that ends with this line ends the session."""

_MOST = 60
"""The most messages read for one version."""


class News(NamedTuple):
    """What is new for a document."""

    document: str
    version: int
    raws: list[RawMessage]
    items: list[MemoryLine]
    covers: int
    """The number of the last message."""
    origin: Origin
    """The least trusted origin of the document and the new messages."""


def news_of(session: Session, newest: int = 0) -> News:
    """What was said since the newest version, or the `newest` messages; call inside `locked`."""
    # compiling its patterns takes a while: no first turn waits for that
    from ctxwrap.documents.document import EMPTY, is_placeholder

    past, documents = session.state, session.state.documents
    new = past.branch.since(documents.covers)[-_MOST:]
    if not documents.covers or is_placeholder(documents.text):
        new = list(past.branch.history(0)[-_MOST:])
    if newest:
        new = list(past.branch.history(0)[-min(newest, _MOST) :])
    items = _lasting(past.memory.items.values())
    origin = least_trusted(documents.origin, past.origin_of(new), *{item.origin for item in items})
    covers = past.sequence["messages"]
    return News(documents.text or EMPTY, documents.number, raws_of(session, new), _remembered(items), covers, origin)


def next_version(session: Session) -> Record:
    """The event of the next version by rules; call inside `locked`."""
    from ctxwrap.documents.document import grow

    news, documents = news_of(session), session.state.documents
    text = grow(news.document, news.raws, news.items)
    if text == news.document:
        return documents.unchanged(news.covers)
    return documents.next(text, EXTRACT, news.covers, news.origin)


def document_without(
    session: Session, gone: EventRedaction, events: Sequence[Record], without: frozenset[int]
) -> list[Record]:
    """The event of a version without erased text, if the document is by rules and changes.

    It starts from the newest version that stays and adds what was said since, `without` the messages that hold the
    erased text.
    """
    from ctxwrap.documents.document import EMPTY, grow

    documents, left = session.state.documents, Documents()
    if documents.by != EXTRACT:
        return []
    for event in map(gone.event, events):
        left.take(event, 0)
    said = [kept for kept in session.state.branch.since(left.covers)[-_MOST:] if kept.number not in without]
    items = [item for item in _lasting(session.state.memory.items.values()) if not gone.concerns(item.as_json())]
    text = gone.lines_left(grow(left.text or EMPTY, raws_of(session, said), _remembered(items)))
    if text in (left.text or EMPTY, FORGOTTEN):
        return []
    origin = least_trusted(left.origin, session.state.origin_of(said), *(item.origin for item in items))
    made = replace(left, version=documents.version, places=documents.places)
    return [made.next(text, EXTRACT, session.state.sequence["messages"], origin)]


def _lasting(items: Iterable[MemoryItem]) -> list[MemoryItem]:
    """The memory items for a document: without short-lived and superseded ones."""
    return [
        item for item in items if item.tier in ("core", "working") and not item.successor and not is_passing(item.type)
    ]


def _remembered(items: Iterable[MemoryItem]) -> list[MemoryLine]:
    return [MemoryLine(_type_of(item), item.content) for item in items]


def _type_of(item: MemoryItem) -> str:
    """The document's word for an item's type: models have many for decisions and tasks."""
    name, kind = item.type.strip().casefold(), kind_of(item.type)
    if kind == "todo" and name not in ("deadline", "question", "plan", "goal"):
        return "task"
    return "decision" if kind == "decision" else name


def raws_of(session: Session, messages: Sequence[LoggedMessage]) -> list[RawMessage]:
    """Raw messages with their times, without purged ones."""
    records = session.pick(kept.number for kept in messages)
    raws = []
    for number, message, _ in messages:
        text, record = message.text, records.get(number) or {}
        if END_MARKER in text:
            before = before_end_marker(text)
            text = text if before is None else before
        if text.strip() not in ("", PURGED):
            time = str((record.get("ctx") or {}).get("time") or "")
            raws.append(RawMessage(number, message.role, text, time, message.name))
    return raws


def before_end_marker(text: str) -> str | None:
    """The text before the end marker; None if it does not end with one."""
    if END_MARKER not in text:
        return None
    before, _, last = text.rstrip().rpartition("\n")
    return before if last.strip() == END_MARKER else None
