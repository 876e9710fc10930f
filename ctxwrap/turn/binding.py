"""What a wrapped client is bound to (store, settings, default names), and the scope of one call."""

import sys
import time
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from copy import copy
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple

from ctxwrap.errors import NoSessionWarning
from ctxwrap.session.clock import clock_of
from ctxwrap.session.scope import Scope, current
from ctxwrap.settings import Mode, Purpose, Quotas, Settings, check_mode, check_purpose
from ctxwrap.stores.base import Store
from ctxwrap.stores.names import check_id
from ctxwrap.types import Message, SessionKey

if TYPE_CHECKING:
    from ctxwrap.session.owner import Owner
    from ctxwrap.session.session import Session
    from ctxwrap.workingset.requests import Decision, FileRequest
    from ctxwrap.workingset.working_set import WorkingSet, WorkingSetView


_RECOUNT = 60.0
"""The seconds after which sessions are counted again, since other processes begin and delete sessions too."""

_TENANTS = 1024

UNCHANGED_MODES = ("disabled", "shadow")
"""The modes in which the caller's request is sent as it is."""


class SessionCounts:
    """The number of sessions per tenant, without asking the store for each new session.

    Sessions of this process count at once; those of others within a minute.
    """

    def __init__(self, count: Callable[[str], int], clock: Callable[[], float] = time.monotonic) -> None:
        self._count, self._clock = count, clock
        self._lock = Lock()
        self._known: dict[str, tuple[int, float]] = {}
        """The number, and the time until which it is valid."""

    def add(self, tenant: str, quotas: Quotas) -> None:
        """Count one more session; raise QuotaExceeded if the tenant may have no more."""
        with self._lock:
            known = self._known.get(tenant)
        if known is None or known[1] <= self._clock():
            counted = self._count(tenant), self._clock() + _RECOUNT
            with self._lock:
                if len(self._known) >= _TENANTS:
                    self._known.clear()
                self._known[tenant] = counted
        with self._lock:
            number, until = self._known.get(tenant, (0, 0.0))
            quotas.check_memory(number)
            self._known[tenant] = number + 1, until


_NOT_THE_CALLER = frozenset({"ctxwrap", "openai", "anthropic", "litellm", "botocore"})

_SCOPES = 256

_OPEN_SESSIONS = 1024
"""How many sessions stay in memory; others are read from their log again."""


class CallScope(NamedTuple):
    """The session of a call, if it has one, and the mode it was asked to run in."""

    key: SessionKey | None
    mode: Mode
    owners: tuple[SessionKey, ...] = ()
    """The keys of the logs of its user and its team."""
    purpose: Purpose | None = None


class SessionNames(NamedTuple):
    """The session, mode, user, team and purpose that were named in one place, if any."""

    session: str | None = None
    mode: str | None = None
    user: str | None = None
    team: str | None = None
    purpose: str | None = None


NO_SESSION_NAMES = SessionNames()


class ClientBinding:
    def __init__(
        self,
        *,
        store: Store,
        settings: Settings,
        session: str | None = None,
        tenant: str = "default",
        agent: str = "default",
        user: str | None = None,
        team: str | None = None,
        context_mode: Mode | None = None,
        purpose: Purpose | None = None,
    ) -> None:
        self.store = store
        self.settings = settings
        self.clock = clock_of(settings)
        self._set_names(session, tenant, agent, user, team, context_mode, purpose)
        self._owners: OrderedDict[SessionKey, Owner] = OrderedDict()
        self._sessions: OrderedDict[SessionKey, Session] = OrderedDict()
        """In order of use, the latest last."""
        self._counts = SessionCounts(self._sessions_of)
        self._working_set = _working_set(settings)
        if settings.redaction is not None:
            from ctxwrap.redaction.policy import redact_log_lines

            redact_log_lines(settings.redaction)
        self._warned = False

    def _set_names(
        self,
        session: str | None,
        tenant: str,
        agent: str,
        user: str | None,
        team: str | None,
        context_mode: Mode | None,
        purpose: Purpose | None,
    ) -> None:
        self._session = None if session is None else check_id("session", session)
        self._tenant = check_id("tenant", tenant)
        self._agent = check_id("agent", agent)
        self._user = None if user is None else check_id("user", user)
        self._team = None if team is None else check_id("team", team)
        self._mode = None if context_mode is None else check_mode(context_mode)
        """The mode that `bind` named; it takes precedence over that of the settings."""
        self._purpose = None if purpose is None else check_purpose(purpose)
        self._scopes: dict[tuple[SessionNames, Scope, SessionNames], CallScope] = {}
        """The scopes of calls, by what the call, `using` and the client name."""

    def files(self, scope: CallScope, model: str, session: "Session") -> "WorkingSetView | None":
        """The files that the working set offers to a call; None in `disabled` mode or without a working set."""
        if self._working_set is None or scope.key is None or scope.mode == "disabled":
            return None
        own = session.state.files if self.settings.working_set_updates else {}
        return self._working_set.offer(model, scope.key, own)

    def decide_files(self, requests: "Sequence[FileRequest]", session: "Session", round: int) -> "tuple[Decision, ...]":
        """Decide on a model's requests to the working set; nothing without one."""
        if self._working_set is None or not requests:
            return ()
        if not self.settings.working_set_updates:
            from ctxwrap.workingset.working_set import refuse_all

            return refuse_all(requests, "settings allow no updates")
        return self._working_set.decide(requests, session.state.files, round)

    def changed(self, **changes: Any) -> "ClientBinding":
        """A binding with other names, store or settings; if only names change, it shares the sessions in memory."""
        names = {
            "session": self._session,
            "tenant": self._tenant,
            "agent": self._agent,
            "user": self._user,
            "team": self._team,
            "context_mode": self._mode,
            "purpose": self._purpose,
        }
        if not changes.keys() <= names.keys():
            return ClientBinding(**{"store": self.store, "settings": self.settings, **names, **changes})
        bound = copy(self)
        bound._set_names(**{**names, **changes})
        return bound

    def call_scope(self, call: SessionNames = NO_SESSION_NAMES, client: SessionNames = NO_SESSION_NAMES) -> CallScope:
        """Precedence: the call's arguments, `using(...)`, the client's headers, `bind(...)`, `wrap(...)`."""
        here = current()
        if here.offers:  # to keep the scope would keep their texts
            return self._new_scope(call, here, client)
        names = call, here, client
        try:
            known = self._scopes.get(names)
        except TypeError:  # something that is no name, which is refused
            return self._new_scope(*names)
        if known is None:
            known = self._new_scope(*names)
            if known.key is not None:
                if len(self._scopes) >= _SCOPES:
                    self._scopes.clear()
                self._scopes[names] = known
        return known

    def _new_scope(self, call: SessionNames, here: Scope, client: SessionNames) -> CallScope:
        if here.is_apart:
            return CallScope(None, "disabled")
        mode = check_mode(_first(call.mode, here.context_mode, client.mode, self._mode, self.settings.context_mode))
        purpose = _first(call.purpose, here.purpose, client.purpose, self._purpose)
        if purpose is not None:
            return CallScope(None, mode, purpose=check_purpose(purpose))
        session = _first(call.session, here.session, client.session, self._session)
        if session is None:
            if mode != "disabled":
                self._warn()
            return CallScope(None, mode)
        tenant = check_id("tenant", _first(here.tenant, self._tenant))
        agent = check_id("agent", _first(here.agent, self._agent))
        user = _first(call.user, here.user, client.user, self._user)
        team = _first(call.team, here.team, client.team, self._team)
        key = SessionKey(tenant, agent, check_id("session", session))
        return CallScope(key, mode, _owner_keys(tenant, user, team) if user or team else ())

    def owners(self, scope: CallScope) -> "tuple[Owner, ...]":
        """The user and the team of a call."""
        return tuple(map(self._owner, scope.owners)) if scope.owners else ()

    def _owner(self, key: SessionKey) -> "Owner":
        owner = self._owners.get(key)
        if owner is None:
            from ctxwrap.session.owner import Owner

            owner = self._owners.setdefault(key, Owner(key, self.store.open(key), self.settings))
        _keep_newest(self._owners, key)
        return owner

    def session(self, key: SessionKey) -> "Session":
        session = self._sessions.get(key)
        if session is None:
            from ctxwrap.session.session import Session

            derives = self.settings.derive == "inline"
            opened = Session(key, self.store.open(key), self.settings, derives=derives)
            session = self._sessions.setdefault(key, opened)
        _keep_newest(self._sessions, key)
        return session

    def admit(self, session: "Session", messages: Iterable[Message]) -> None:
        """Raise QuotaExceeded if the session would be a new one and may not begin, or not with these messages.

        Called before anything creates the session. An existing session checks its own quotas.
        """
        quotas = self.settings.quotas
        if quotas is None or session.is_known:
            return
        from ctxwrap.session.lookup import holds_anything

        if not holds_anything(session.log):
            session.check_quotas(messages)
            self._counts.add(session.key.tenant, quotas)

    def _sessions_of(self, tenant: str) -> int:
        return sum(1 for agent in self.store.agents(tenant) for _ in self.store.sessions(tenant, agent))

    @property
    def sessions(self) -> "list[Session]":
        """The sessions in memory."""
        return list(self._sessions.values())

    def _warn(self) -> None:
        if not self._warned:
            self._warned = True
            warnings.warn(
                "this call names no session, so it runs without memory: name one with session=..., "
                "with ctxwrap.using(session=...), or in wrap(client, session=...)",
                NoSessionWarning,
                stacklevel=_depth_of_caller(),
            )


def _working_set(settings: Settings) -> "WorkingSet | None":
    if not settings.working_set:
        return None
    from ctxwrap.workingset.working_set import WorkingSet

    operators_too = settings.working_set_updates == "all"
    return WorkingSet(settings.working_set, settings.redaction, operators_too=operators_too)


def _keep_newest(opened: OrderedDict[SessionKey, Any], key: SessionKey) -> None:
    """Note that `key` is the latest in use, and evict the others beyond the limit."""
    try:
        opened.move_to_end(key)
    except KeyError:  # another thread has evicted it
        return
    while len(opened) > _OPEN_SESSIONS:
        opened.popitem(last=False)


def _owner_keys(tenant: str, user: str | None, team: str | None) -> tuple[SessionKey, ...]:
    from ctxwrap.session.lookup import owner_key

    named = (("user", user), ("team", team))
    return tuple(owner_key(kind, name, tenant) for kind, name in named if name is not None)


def _first(*values: str | None) -> str | None:
    for value in values:
        if value is not None:
            return value
    return None


def _depth_of_caller() -> int:
    """The stack depth of the nearest code that belongs neither to ctxwrap nor to an SDK."""
    frame, depth = sys._getframe(1), 1
    while frame.f_back and str(frame.f_globals.get("__name__")).partition(".")[0] in _NOT_THE_CALLER:
        frame, depth = frame.f_back, depth + 1
    return depth
