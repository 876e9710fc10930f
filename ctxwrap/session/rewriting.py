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
    before = _used(session.log)
    added = session.numbered("events", turn, "", new, timestamp(now))

    def rewrite() -> int:
        session.log.rewrite("events", change, added, banned)
        return session.next_message

    indexed.outlived(session.log, rewrite)
    for name in before - _used(session.log):
        session.log.files.remove(f"raw/{name}")
    session.refresh()
    session.rebuild()


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
    used = _used(session.log)
    for entry in session.log.files.entries("raw"):
        if entry.name.removeprefix("raw/") not in used:
            session.log.files.remove(entry.name)
    session.refresh()
    session.rebuild()


def _used(log: Log) -> set[str]:
    """The names of the contents that records refer to."""
    records = (record for stream in STREAMS for record in log.read(stream)[0])
    return {blob["id"] for record in records for blob in blobs.blobs_in(record) if is_legal_name(blob["id"])}
