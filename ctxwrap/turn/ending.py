"""Ends a session: makes its log durable, writes the last version of the context document, logs the end.

The next call with the session's id resumes it.
"""

import logging
from collections.abc import Callable
from datetime import datetime
from typing import Literal

from ctxwrap.errors import SessionBusy
from ctxwrap.session.document_versions import before_end_marker
from ctxwrap.session.lookup import StoreLike, key_for, open_existing
from ctxwrap.session.session import Session
from ctxwrap.session.threads import defer_finalizers
from ctxwrap.turn.document_updates import update_document

logger = logging.getLogger("ctxwrap")


def end_session(session: str, *, store: StoreLike = None, tenant: str = "default", agent: str = "default") -> None:
    """End a session, as a user does whose message ends with a line `<END_SESSION>`.

    When it returns, all messages and the last version of the context document are durable. Does nothing if the session
    has ended; the next call resumes it. Raises NotFound if there is no such session, SessionBusy during a turn.
    """
    known = open_existing(key_for(session, tenant, agent), store)
    if known.state.turns.begun:
        raise SessionBusy(f"session {session!r} has a turn in progress: end the session after its reply")
    if not known.state.ended_at:
        _end(known, f"end-{known.next_message}", "caller", known.clock, has_document=True)


def end_after_turn(session: Session, turn: str, clock: Callable[[], datetime], *, has_document: bool) -> None:
    """End a session after the turn in which the user asked for it. Never raises."""
    session.is_ending = False
    try:
        if session.state.last_turn == turn:  # else the conversation went on
            _end(session, turn, "user", clock, has_document=has_document)
    except Exception as error:
        logger.warning("session %r: its end was not written to the log: %s", session.key.session, error)


def _end(
    session: Session, turn: str, by: Literal["user", "caller"], clock: Callable[[], datetime], *, has_document: bool
) -> None:
    if has_document:
        update_document(session, turn, clock)
    with defer_finalizers():
        session.transaction(lambda: session.append(turn, [], [{"type": "session_end", "by": by, "ctx": {}}], clock()))
    session.sync()


def asks_to_end(session: Session) -> bool:
    """Whether the user's newest message ends with the marker on its own line, and the reply to it is complete."""
    if session.state.turns.state != "done":
        return False
    messages = session.state.branch.newest()
    newest = next(messages, None)
    if newest is None or newest.message.role != "assistant" or newest.message.tool_calls:
        return False
    for logged in messages:
        if logged.message.role == "user":
            return before_end_marker(logged.message.text) is not None
    return False
