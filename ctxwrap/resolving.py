"""What is missing in a session, looked at and settled by hand."""

from typing import Literal

from ctxwrap.errors import NotFound, unknown_name
from ctxwrap.session.clock import new_turn_id, utc_now
from ctxwrap.session.finding import Place, existing, key_for
from ctxwrap.session.missing import history
from ctxwrap.stages.missing import open_in, settled
from ctxwrap.threads import undisturbed
from ctxwrap.types import Missing

_STATUSES = ("resolved", "declined")


def missing_in(
    session: str,
    *,
    everything: bool = False,
    store: Place = None,
    tenant: str = "default",
    agent: str = "default",
) -> tuple[Missing, ...]:
    """What is missing, the oldest first; with `everything` also what was settled, as it ended."""
    known = existing(key_for(session, tenant, agent), store)
    return history(known.records("events")) if everything else open_in(known.past.missing)


def resolve_missing(
    session: str,
    id: str,
    *,
    status: Literal["resolved", "declined"] = "resolved",
    note: str = "",
    store: Place = None,
    tenant: str = "default",
    agent: str = "default",
) -> None:
    """Say that what is missing was settled, or that nobody is going to give it; a NotFound if nothing of that id is.

    A source that is settled and still not sent is detected again with the next call; one that was declined is not,
    and a question that was declined stays so when the model asks it again.
    """
    if status not in _STATUSES:
        raise unknown_name("status", status, _STATUSES)
    known = existing(key_for(session, tenant, agent), store)
    with undisturbed(), known.locked():
        event = settled(known.past.missing, id, status, note or "by hand", session)
        if event is None:
            raise NotFound(f"nothing of the id {id!r} is missing in session {session!r}")
        known.append(new_turn_id(), [], [event], utc_now())
