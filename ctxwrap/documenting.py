"""The context document of a wrapped chat: it grows from what was said, every few messages and once at the end.

No model is asked. What the document says is taken from raw messages only, never from summaries.
"""

import atexit
import logging
import os
import threading
import weakref
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime

from ctxwrap.entries.document import EMPTY, grown, is_placeholder
from ctxwrap.entries.raw import Raw
from ctxwrap.memory.trust import least_trusted, origin_of
from ctxwrap.session import Session
from ctxwrap.session.documents import EXTRACT
from ctxwrap.session.redaction import PURGED
from ctxwrap.threads import undisturbed
from ctxwrap.types import Kept, Record

logger = logging.getLogger("ctxwrap")

EVERY = 6
"""After so many messages the document has its next version."""

_FIRST = 10
"""So many of the newest messages a first document is made of."""

_MOST = 60
"""So many messages at most are read for one version."""


class _Behind:
    """The sessions of this process whose documents are behind, for as long as anybody else holds them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sessions: weakref.WeakSet[Session] = weakref.WeakSet()
        self._process = os.getpid()

    def note(self, session: Session, is_behind: bool) -> None:
        with self._lock:
            (self._sessions.add if is_behind else self._sessions.discard)(session)

    def taken(self, among: Iterable[Session] | None = None) -> list[Session]:
        """Those that are behind, or those of them that are `among` others; they are not so any more."""
        with self._lock:
            here = os.getpid() == self._process  # a forked child's are its parent's
            found = [each for each in self._sessions if among is None or each in among] if here else []
            self._sessions.difference_update(found)
            return found


_behind = _Behind()


def follow(session: Session, turn: str, clock: Callable[[], datetime]) -> None:
    """Let the document grow behind a turn if it is time for that. Never raises."""
    count = _unread(session)
    if count >= EVERY:
        _grow(session, turn, clock)
    else:
        _behind.note(session, count > 0)


def finish(sessions: Iterable[Session] | None = None) -> None:
    """Bring the documents of these sessions up to date, or of all that this process has at hand. Never raises."""
    for session in _behind.taken(None if sessions is None else list(sessions)):
        _grow(session, f"flush-{session.next_message}", lambda: datetime.now(UTC))


def flush() -> None:
    """Bring the context documents of this process's chats up to date; it happens by itself when the process ends."""
    finish()


atexit.register(flush)


def _unread(session: Session) -> int:
    past = session.past
    return past.sequence["messages"] - min(past.documents.covers, past.sequence["messages"])


def _grow(session: Session, turn: str, clock: Callable[[], datetime]) -> None:
    try:
        with undisturbed(), session.locked():
            if _unread(session):
                session.append(turn, [], [next_version(session)], clock(), is_edge=False)
        _behind.note(session, is_behind=False)
    except Exception as error:
        logger.warning("ctxwrap: session %r: its context document is behind: %r", session.key.session, error)


def next_version(session: Session) -> Record:
    """The event for the document with what was said since its newest version, inside `locked`."""
    past, documents = session.past, session.past.documents
    new = past.branch.since(documents.covers)[-_MOST:]
    if not documents.covers or is_placeholder(documents.text):
        new = list(past.branch.history(0)[-_FIRST:])
    before = documents.text or EMPTY
    text = grown(before, raws_of(session, new))
    covers = past.sequence["messages"]
    if text == before:
        return documents.unchanged(covers)
    origin = least_trusted(documents.origin, origin_of(kept.message for kept in new))
    return documents.next(text, EXTRACT, covers, origin)


def raws_of(session: Session, messages: Sequence[Kept]) -> list[Raw]:
    """Messages as they were said, each with its time; purged ones say nothing."""
    records = session.log.pick("messages", [kept.number for kept in messages])
    return [
        Raw(kept.number, kept.message.role, kept.message.text, _time(records.get(kept.number)), kept.message.name)
        for kept in messages
        if kept.message.text.strip() not in ("", PURGED)
    ]


def _time(record: Record | None) -> str:
    return str(((record or {}).get("ctx") or {}).get("time") or "")
