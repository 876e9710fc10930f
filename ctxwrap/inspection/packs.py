"""What a call of a session sent, and why."""

from dataclasses import replace

from ctxwrap.errors import NotFound
from ctxwrap.inspection.turns import turn_details
from ctxwrap.records import turn_in
from ctxwrap.session import Session
from ctxwrap.session.missing import taken
from ctxwrap.session.packs.recorded import recorded
from ctxwrap.session.packs.view import PackView
from ctxwrap.stages.missing import open_in
from ctxwrap.storage import Store
from ctxwrap.types import Missing, Record, SessionKey


def pack_of(store: Store, key: SessionKey, turn: int | str | None = None) -> PackView:
    """The pack of a turn by its number or id, else of the newest that has one; a NotFound if there is none."""
    session = Session(key, store.open(key))
    session.refresh()
    if turn is None:
        view = None if session.is_empty else session.shelf.newest(session.past)
        if view is None:
            raise NotFound(f"session {key.session!r} of tenant {key.tenant!r} has sent no pack yet")
        return view
    details = turn_details(store, key, turn)
    event: Record = {}
    for each in details.events:
        event |= each if each.get("type") in ("start", "repack") else {}
    try:
        view = recorded(key, event, _epoch(session, details.info.id), session.shelf.lookups(session.past))
    except (LookupError, TypeError, ValueError):
        raise NotFound(f"turn {turn!r} of session {key.session!r} sent no pack, or it was not written down") from None
    return replace(view, missing=_missing(session, details.info.id))


def _epoch(session: Session, turn: str) -> Record | None:
    """The memory that stood in the requests up to that turn."""
    epoch = None
    for event in session.records("events"):
        if "epoch" in event and event.get("type") in ("start", "repack"):
            if str(event.get("run")) > turn:
                break
            epoch = event["epoch"]
    return epoch


def _missing(session: Session, turn: str) -> tuple[Missing, ...]:
    """What was missing at the end of that turn."""
    known, then = tuple[Missing, ...](), tuple[Missing, ...]()
    for event in session.records("events"):
        known = taken(known, event)
        then = known if turn_in(event) == turn else then
    return open_in(then)
