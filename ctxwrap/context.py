"""What a wrapped client is bound to: its store, settings and default names; and whom one call is for."""

import warnings
from typing import Any, NamedTuple

from ctxwrap import scope
from ctxwrap.errors import NoSessionWarning
from ctxwrap.session import Session
from ctxwrap.settings import Mode, Settings, check_mode
from ctxwrap.stores.names import check_id
from ctxwrap.types import SessionKey, Store

_OPEN_SESSIONS = 1024
"""How many sessions are kept at hand; others are read from their log again."""


class Target(NamedTuple):
    """Whose call this is, and in which mode it was asked to run."""

    key: SessionKey | None
    mode: Mode


class Context:
    def __init__(
        self,
        *,
        store: Store,
        settings: Settings,
        session: str | None = None,
        tenant: str = "default",
        agent: str = "default",
    ) -> None:
        self.store = store
        self.settings = settings
        self._tenant = check_id("tenant", tenant)
        self._agent = check_id("agent", agent)
        self._session = None if session is None else check_id("session", session)
        self._sessions: dict[SessionKey, Session] = {}
        self._warned = False

    def changed(self, **changes: Any) -> "Context":
        """The same with other names, store or settings."""
        own = {"store": self.store, "settings": self.settings}
        names = {"session": self._session, "tenant": self._tenant, "agent": self._agent}
        return Context(**{**own, **names, **changes})

    def target(self, session: str | None = None, mode: str | None = None) -> Target:
        """The call's own words come first, then `using(...)`, then what the client was wrapped with."""
        here = scope.current()
        chosen_mode = check_mode(mode) if mode is not None else here.context_mode or self.settings.context_mode
        name = session if session is not None else here.session if here.session is not None else self._session
        if name is None:
            if chosen_mode != "disabled":
                self._warn()
            return Target(None, chosen_mode)
        tenant = self._tenant if here.tenant is None else check_id("tenant", here.tenant)
        agent = self._agent if here.agent is None else check_id("agent", here.agent)
        return Target(SessionKey(tenant, agent, check_id("session", name)), chosen_mode)

    def session(self, key: SessionKey) -> Session:
        session = self._sessions.get(key)
        if session is None:
            session = self._sessions.setdefault(key, Session(key, self.store.open(key)))
            while len(self._sessions) > _OPEN_SESSIONS:
                self._sessions.pop(next(iter(self._sessions)), None)
        return session

    def _warn(self) -> None:
        if not self._warned:
            self._warned = True
            warnings.warn(
                "this call names no session, so it runs without memory; name one with session=..., "
                "with ctxwrap.using(session=...), or in wrap(client, session=...)",
                NoSessionWarning,
                stacklevel=6,
            )
