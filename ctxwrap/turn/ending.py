"""The end of a session: what was said is made durable, the context document gets its last version, an event says so.

A session that ended is not closed: the next call with its id resumes it.
"""

import logging
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Literal

from ctxwrap.errors import SessionBusy
from ctxwrap.session.document_versions import before_end_marker
from ctxwrap.session.lookup import StoreLike, key_for, open_existing
from ctxwrap.session.session import Session
from ctxwrap.session.threads import defer_finalizers
from ctxwrap.turn.document_updates import grow

logger = logging.getLogger("ctxwrap")


def end_session(session: str, *, store: StoreLike = None, tenant: str = "default", agent: str = "default") -> None:
    """End a session, as a user does whose message ends with a line `<END_SESSION>`; a NotFound if there is none.

    When it returns, everything that was said and the last version of the context document are on the medium. A
    SessionBusy if a turn is under way. A session that has ended stays so, until the next call resumes it.
    """
    known = open_existing(key_for(session, tenant, agent), store)
    if known.state.turns.begun:
        raise SessionBusy(f"session {session!r} has a turn under way: end it when its answer is there")
    if not known.state.derived.ended_at:
        _end(known, f"end-{known.next_message}", "caller", lambda: datetime.now(UTC), has_document=True)


def end_behind(session: Session, turn: str, clock: Callable[[], datetime], *, has_document: bool) -> None:
    """End a session behind the turn in which the user asked for it. Never raises."""
    session.is_ending = False
    try:
        if session.state.last_turn == turn:  # else the conversation went on
            _end(session, turn, "user", clock, has_document=has_document)
    except Exception as error:
        logger.warning("session %r: its end was not written: %s", session.key.session, error)


def _end(
    session: Session, turn: str, by: Literal["user", "caller"], clock: Callable[[], datetime], *, has_document: bool
) -> None:
    if has_document:
        grow(session, turn, clock)
    with defer_finalizers():
        session.transaction(lambda: session.append(turn, [], [{"type": "session_end", "by": by, "ctx": {}}], clock()))
    session.sync()


def asks_to_end(session: Session) -> bool:
    """Whether the user's newest message ends with the marker on a line of its own, and the answer to it is whole."""
    if session.state.turns.state != "done":
        return False
    said = reversed(session.state.branch.history(0))
    newest = next(said, None)
    if newest is None or newest.message.role != "assistant" or newest.message.tool_calls:
        return False
    text = next((kept.message.text for kept in said if kept.message.role == "user"), "")
    return before_end_marker(text) is not None
