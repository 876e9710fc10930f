"""Opening an existing session by its key; nothing here creates one."""

import os

from ctxwrap.errors import NotFound, SettingsError
from ctxwrap.session.background import background
from ctxwrap.session.session import Session
from ctxwrap.settings import Settings
from ctxwrap.stores import resolve_store
from ctxwrap.stores.base import STREAMS, Log, Store
from ctxwrap.stores.names import OWNERS, check_id, owner_kind
from ctxwrap.types import SessionKey

StoreLike = Store | str | os.PathLike[str] | None
"""A store or its location; None is the default store."""


def key_for(session: str, tenant: str = "default", agent: str = "default") -> SessionKey:
    """Check the names and return them as a key."""
    return SessionKey(check_id("tenant", tenant), check_id("agent", agent), check_id("session", session))


def named_key(
    session: str | None, tenant: str = "default", agent: str = "default", *, user: str | None, team: str | None
) -> SessionKey:
    """The key of the session, of the user's log or of the team's, whichever is named."""
    named = {kind: name for kind, name in (("session", session), ("user", user), ("team", team)) if name is not None}
    if len(named) != 1:
        raise SettingsError("name either a session, a user or a team")
    ((kind, name),) = named.items()
    return key_for(name, tenant, agent) if kind == "session" else owner_key(kind, name, tenant)


def owner_key(kind: str, name: str, tenant: str = "default") -> SessionKey:
    """The key of the log of a user or a team."""
    return SessionKey(check_id("tenant", tenant), OWNERS[kind], check_id(kind, name))


def finish_background_work(log: Log) -> None:
    """Wait until this process has written the pending derived files of the session that `log` belongs to."""
    place = log.place
    background.finish(lambda session: session.log.place == place)


def open_existing(
    key: SessionKey, store: StoreLike = None, settings: Settings | None = None, *, keeps_all: bool = False
) -> Session:
    """Return the session, read to its end, after this process's pending writes; raise NotFound if it is empty."""
    session = Session(key, resolve_store(store).open(key), settings, keeps_all=keeps_all)
    finish_background_work(session.log)
    session.refresh()
    if session.is_empty:
        if kind := owner_kind(key.agent):
            raise NotFound(f"there is no {kind} {key.session!r} of tenant {key.tenant!r}")
        raise NotFound(f"there is no session {key.session!r} of tenant {key.tenant!r} and agent {key.agent!r}")
    return session


def holds_anything(log: Log) -> bool:
    """Whether the log has a record, without reading all of it."""
    return any(log.pick(stream, [1]) or log.read(stream)[0] for stream in STREAMS)
