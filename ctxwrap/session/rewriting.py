"""Streams of a session that are changed for good, on request; nothing that was made of them outlives it."""

from collections.abc import Sequence
from datetime import datetime

from ctxwrap.records import number_in, timestamp
from ctxwrap.session import blobs, indexed
from ctxwrap.session.abi import is_legal_name
from ctxwrap.session.session import Session
from ctxwrap.storage import STREAMS, Change, Log
from ctxwrap.types import Record


def rewrite_events(
    session: Session, change: Change, turn: str, new: Sequence[Record], now: datetime, banned: Sequence[str] = ()
) -> None:
    """Change the log's events, and add `new` ones that say so, in one step; inside the session's lock."""
    session.remove_derived()
    added = session.numbered("events", turn, "", new, timestamp(now))

    def rewrite() -> int:
        session.log.rewrite("events", change, added, banned)
        return session.next_message

    indexed.outlived(session.log, rewrite)
    _made_anew(session)


def rewrite_messages(session: Session, change: Change, banned: Sequence[str] = ()) -> None:
    """Change the log's messages, and let the contents go that no record has any more; inside the session's lock."""
    changed = [session.next_message]

    def noted(record: Record) -> Record:
        new = change(record)
        changed.append(changed[0] if new is record else number_in(record) or 0)
        return new

    def rewrite() -> int:
        session.log.rewrite("messages", noted, banned=banned)
        return min(changed)

    session.remove_derived()
    indexed.outlived(session.log, rewrite)
    _made_anew(session)


def finish_rewriting(session: Session) -> None:
    """Let go of the contents that an interrupted rewriting left behind; inside the session's lock."""
    if _unused(session.log):
        session.remove_derived()
        _made_anew(session)


def _made_anew(session: Session) -> None:
    for name in _unused(session.log):
        session.log.files.remove(name)
    session.refresh()
    session.rebuild()


def _unused(log: Log) -> list[str]:
    """The contents that no record refers to."""
    used = _used(log)
    return [entry.name for entry in log.files.entries("raw") if entry.name.removeprefix("raw/") not in used]


def _used(log: Log) -> set[str]:
    """The names of the contents that records refer to."""
    records = (record for stream in STREAMS for record in log.read(stream)[0])
    return {blob["id"] for record in records for blob in blobs.blobs_in(record) if is_legal_name(blob["id"])}
