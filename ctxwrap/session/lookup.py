"""Opening an existing session by its key; nothing here creates one."""

import os

from ctxwrap.errors import NotFound
from ctxwrap.session.background import background
from ctxwrap.session.session import Session
from ctxwrap.settings import Settings
from ctxwrap.stores import resolve_store
from ctxwrap.stores.base import STREAMS, Log, Store
from ctxwrap.stores.names import check_id
from ctxwrap.types import SessionKey

StoreLike = Store | str | os.PathLike[str] | None
"""A store or its location; None is the default store."""


def key_for(session: str, tenant: str = "default", agent: str = "default") -> SessionKey:
    """Check the names and return them as a key."""
    return SessionKey(check_id("tenant", tenant), check_id("agent", agent), check_id("session", session))


def finish_background_work(key: SessionKey) -> None:
    """Wait until this process has written the session's pending derived files."""
    background.finish(lambda session: session.key == key)


def open_existing(
    key: SessionKey, store: StoreLike = None, settings: Settings | None = None, *, keeps_all: bool = False
) -> Session:
    """Return the session, read to its end, after this process's pending writes; raise NotFound if it is empty."""
    finish_background_work(key)
    session = Session(key, resolve_store(store).open(key), settings, keeps_all=keeps_all)
    session.refresh()
    if session.is_empty:
        raise NotFound(f"there is no session {key.session!r} of tenant {key.tenant!r} and agent {key.agent!r}")
    return session


def holds_anything(log: Log) -> bool:
    """Whether the log has a record, without reading all of it."""
    return any(log.pick(stream, [1]) or log.read(stream)[0] for stream in STREAMS)
