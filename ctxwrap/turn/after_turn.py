"""The work that follows a saved turn: a warning, the summary, the context document, the derived files."""

import logging
from collections.abc import Callable
from datetime import datetime
from functools import partial

from ctxwrap.session.background import background
from ctxwrap.session.open_turns import MANY
from ctxwrap.session.session import Session
from ctxwrap.settings import Mode, Settings
from ctxwrap.turn.binding import UNCHANGED_MODES
from ctxwrap.turn.document_updates import update_document_if_due, write_by_model
from ctxwrap.turn.ending import asks_to_end, end_after_turn
from ctxwrap.turn.summariser import summarise_if_due
from ctxwrap.turn.turn import Turn

logger = logging.getLogger("ctxwrap")


def after_turn(
    session: Session, turn: Turn, mode: Mode, settings: Settings, clock: Callable[[], datetime], *, interrupted: bool
) -> None:
    """Do, or schedule, the work that follows a turn in `mode`.

    An interrupted turn may be saved while an object is being collected, when no thread can start.
    """
    compliance = session.state.compliance
    if compliance.in_a_row == MANY and compliance.alarms == 1 and turn.missed_snapshot:
        _warn_of_misses(session, turn)
    if settings.summariser is not None and not interrupted and mode == "enabled":
        document = partial(write_by_model, session, settings.summariser, turn.id, clock)
        then = document if settings.context_document else lambda: None
        summarise_if_due(session, settings.summariser, turn.id, clock, then)
    _catch_up(session, turn, mode, settings, clock, interrupted=interrupted)


def _warn_of_misses(session: Session, turn: Turn) -> None:
    """Warn, once in a session, that the model leaves out its snapshots."""
    logger.warning(
        "session %r: the last %d replies of %r have no snapshot, so memory has only what rules find in the "
        'user\'s words. Set on_missing="reask" or use another model; `ctxwrap check --model %s` shows how well '
        'a model does. context_mode="readonly" asks for no snapshots',
        session.key.session,
        MANY,
        turn.model,
        turn.model,
    )


def _catch_up(
    session: Session, turn: Turn, mode: Mode, settings: Settings, clock: Callable[[], datetime], *, interrupted: bool
) -> None:
    """Bring the context document and the derived files up to date, and end the session if the user asked for that."""
    has_document = settings.context_document and mode == "enabled" and not interrupted
    ends = session.is_ending = not interrupted and mode not in UNCHANGED_MODES and asks_to_end(session)
    turn_id = turn.id  # the work waits for minutes: it must not keep the turn

    def work() -> None:
        if ends:
            end_after_turn(session, turn_id, clock, has_document=settings.context_document)
        elif has_document:
            update_document_if_due(session, turn_id, clock)
        session.catch_up()

    if settings.derive == "behind":
        # the pending work of an earlier turn may be to write the document
        background.schedule(session, work, replaces=ends or has_document, starts=not interrupted, is_urgent=ends)
    else:
        work()
