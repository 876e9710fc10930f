"""Users and teams: logs of their own, whose memory all sessions that name them share.

An owner's log has the format of a session's and lies in the same store. Three events connect the two:

- `join` in the owner's log: a session belongs to the owner. Written before the session's first turn with that owner.
- `contribution` in the session's log: what a turn gives to the owner, written with the end of the turn.
- `merge` in the owner's log: the operations that a contribution led to, and the number of that event in its session.

A contribution that was not merged, because the process died or the store failed, is merged by the session's next turn.
No session's lock is taken while an owner's log is locked.
"""

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from ctxwrap.memory.memory import rules_as_json
from ctxwrap.memory.owned import MARKS, is_said, merge, merge_steps, recalled_items, shown_items, without_repetitions
from ctxwrap.session.background import background
from ctxwrap.session.clock import new_turn_id, utc_now
from ctxwrap.session.lookup import open_existing, owner_key
from ctxwrap.session.session import Session
from ctxwrap.session.threads import defer_finalizers
from ctxwrap.settings import MemoryRules, Settings
from ctxwrap.stores.base import Log, Store
from ctxwrap.stores.names import OWNERS, owner_kind
from ctxwrap.types import OwnerView, Record, SessionKey, TurnInputs

OWNER_RULES = MemoryRules()
"""Owners' memory does not follow a client's settings: clients with different ones share it."""

_CONNECTION = "m"
"""The part of a turn under which its contribution stands in an owner's log."""


def owners_in(store: Store, tenant: str, kind: str) -> list[str]:
    """The users, or the teams, of a tenant."""
    return sorted(store.sessions(tenant, OWNERS[kind]))


def owner_keys(store: Store) -> list[SessionKey]:
    """The keys of all users and teams of all tenants; for operators only."""
    tenants = sorted({key.tenant for key in store.keys()})  # noqa: SIM118  # a store is no mapping
    return [
        owner_key(kind, name, tenant)
        for tenant in tenants
        for kind in OWNERS
        for name in owners_in(store, tenant, kind)
    ]


def members_of(store: Store, key: SessionKey) -> tuple[SessionKey, ...]:
    """The sessions of an owner, in the order in which they joined."""
    return tuple(SessionKey(key.tenant, *session) for session in open_existing(key, store).state.members)


class Owner:
    """One user or team. Its methods may be called from any thread, outside the lock of a session."""

    def __init__(self, key: SessionKey, log: Log, settings: Settings | None = None) -> None:
        self.key, self.kind, self.name = key, owner_kind(key.agent), key.session
        settings = replace(settings or Settings(), memory=OWNER_RULES, evolution="decay", quotas=None)
        self._writes = self.kind == "user" or settings.team_writes
        self.session = Session(key, log, settings, derives=False)
        self._derives = settings.derive
        self._lock = threading.RLock()
        self._shown: tuple[object, list[dict[str, Any]], dict[str, int]] = (None, [], {})

    # Read

    def read(self) -> None:
        """Read what other processes appended."""
        with self._lock:
            self.session.refresh()

    @property
    def sessions(self) -> list[SessionKey]:
        """The owner's sessions, in the order in which they joined."""
        with self._lock:
            return [SessionKey(self.key.tenant, *session) for session in self.session.state.members]

    def view(self, session: SessionKey, said: str) -> tuple[OwnerView, list[dict[str, Any]]]:
        """What a turn of `session`, in which the user says this, is shown, as of the last `read`."""
        with self._lock:
            state, memory = self.session.state, self.session.memory
            if self._shown[0] != (version := (self.session.edition, state.sequence["events"])):
                self._shown = (version, *shown_items(memory))
            _, items, touched = self._shown
            recalled = recalled_items(memory, said)
            if recalled:
                items = [*items, *({**item.shown(item.decay), "round": 0} for item in recalled)]
                touched = {**touched, **{item.id: item.last for item in recalled}}
            return OwnerView(self.key, self.kind, touched, self._writes, state.members.get(session[1:], 0)), items

    def knows(self, content: str) -> bool:
        """Whether the owner's memory has this fact."""
        with self._lock:
            return self.session.memory.find_same(content) is not None

    def is_behind(self, session: Session) -> bool:
        """Whether the log lacks the session, or something that the session has contributed."""
        with self._lock:
            merged = self.session.state.members.get(session.key[1:])
        return merged is None or any(number > merged for number, _ in session.state.contributions.get(self.kind, ()))

    # Write

    def catch_up_with(
        self, key: SessionKey, contributions: Iterable[tuple[int, Record]], said: Mapping[str, str]
    ) -> None:
        """Register the session and merge what it contributed, as far as the log lacks it.

        `said` has the user's words by turn, as far as they are known.
        """
        contributions = list(contributions)
        with self._lock, defer_finalizers():
            self.session.transaction(lambda: self._catch_up_with(key, contributions, said))
        if self._derives == "behind":
            background.schedule(self.session, self._derive)
        else:
            self._derive()

    def _catch_up_with(self, key: SessionKey, contributions: list[tuple[int, Record]], said: Mapping[str, str]) -> None:
        state = self.session.state
        if key[1:] not in state.members:
            control = {"from": [*key[1:], 0]}
            rules = rules_as_json(OWNER_RULES, evolves=True)
            self.session.append(new_turn_id(), [], [{"type": "join", "rules": rules, "ctx": control}], utc_now())
        for number, event in contributions:
            if number > state.members[key[1:]]:
                self._merge(key, number, event, said.get(event["run"], ""))

    def _merge(self, key: SessionKey, number: int, event: Record, said: str) -> None:
        """Append what a contribution changes. Only the last event counts as its merge: an interrupted one is repeated.

        Repeating is harmless, since a fact that memory has is not added again.
        """
        memory, turn = self.session.memory, str(event["run"])
        steps = merge_steps(event, MARKS[self.kind])
        base = event["ctx"].get("base") or {}
        for at, (group, operations) in enumerate(steps, 1):
            told = [each for each in operations if not self._is_forgotten(each.item, said)]
            changes = merge(memory, group, told, f"session:{key.session}", base, said)
            made: Record = {"type": "merge", "round": memory.round + 1}
            made["operations"] = [operation.as_json() for operation in changes]
            made["ctx"] = {"from": [*key[1:], number]} if at == len(steps) else {}
            self.session.append(turn, [], [made], utc_now(), part=f"{_CONNECTION}{at}-")

    def _is_forgotten(self, item: Mapping[str, Any] | None, said: str) -> bool:
        """Whether this fact was forgotten on request, and the user does not state it anew."""
        if item is None or not self.session.state.is_forgotten(str(item["content"])):
            return False
        return not is_said(str(item["content"]), said)

    def _derive(self) -> None:
        with self._lock:
            self.session.catch_up()


def with_owners(
    inputs: TurnInputs, views: Iterable[tuple[OwnerView, list[dict[str, Any]]]], knows: list[Callable[[str], bool]]
) -> TurnInputs:
    """The inputs of a turn, with the owners' items before the session's own; what both have is shown once."""
    views = list(views)
    shown = [item for _, items in views for item in items]
    core = [*shown, *without_repetitions(inputs, knows)]
    state = {**inputs.state, "memory": {**inputs.state["memory"], "core": core}}
    return inputs._replace(state=state, owners=tuple(view for view, _ in views))
