"""Operator actions: pinning memory items, resolving missing context."""

from dataclasses import replace
from typing import Literal

from ctxwrap.errors import NotFound, unknown_name
from ctxwrap.memory.decay import rehydrated
from ctxwrap.memory.items import MemoryItem
from ctxwrap.memory.memory import Memory
from ctxwrap.session.clock import new_turn_id, utc_now
from ctxwrap.session.lookup import StoreLike, key_for, open_existing
from ctxwrap.session.missing import history, open_in, settled
from ctxwrap.session.threads import defer_finalizers
from ctxwrap.stores.base import Store
from ctxwrap.types import MissingContext, Operation, SessionKey


def pin(session: str, item: str, *, store: StoreLike = None, tenant: str = "default", agent: str = "default") -> None:
    """Keep the memory item of that id: it neither fades nor leaves; from swap it comes back first."""
    _set(session, item, True, store, tenant, agent)


def unpin(session: str, item: str, *, store: StoreLike = None, tenant: str = "default", agent: str = "default") -> None:
    """Let the memory item of that id age again, from now on."""
    _set(session, item, False, store, tenant, agent)


def _set(session: str, id: str, pinned: bool, store: StoreLike, tenant: str, agent: str) -> None:
    known = open_existing(key_for(session, tenant, agent), store, keeps_all=True)
    with defer_finalizers(), known.locked():
        item = known.memory.named(id)
        if item is None:
            raise NotFound(f"session {session!r} remembers no {id!r}: `ctxwrap memory` lists the ids there are")
        if item.pinned != pinned:
            reason = "pinned" if pinned else "unpinned"
            changed = _pinned(item, known.memory) if pinned else _unpinned(item, known.memory)
            operation = Operation("update", id, changed.tier, changed.as_json(), reason)
            event = {"type": "pin", "round": known.memory.round, "operations": [operation.as_json()], "ctx": {}}
            known.append(new_turn_id(), [], [event], utc_now())


def _pinned(item: MemoryItem, memory: Memory) -> MemoryItem:
    back = rehydrated(item, memory.round, memory.rules) if item.tier == "swap" else item
    return replace(back, pinned=True)


def _unpinned(item: MemoryItem, memory: Memory) -> MemoryItem:
    now = max(memory.round, item.anchor)
    return replace(item, pinned=False, anchor=now, since=now)


_STATUSES = ("resolved", "declined")


def missing_in(store: Store, key: SessionKey, *, everything: bool = False) -> tuple[MissingContext, ...]:
    """Return open missing context, oldest first; with `everything` also closed entries."""
    known = open_existing(key, store)
    return history(known.records("events")) if everything else open_in(known.state.missing)


def resolve_missing(
    session: str,
    id: str,
    *,
    status: Literal["resolved", "declined"] = "resolved",
    note: str = "",
    store: StoreLike = None,
    tenant: str = "default",
    agent: str = "default",
) -> None:
    """Say that what is missing was settled, or that nobody is going to give it; a NotFound if nothing of that id is.

    A source that is settled and still not sent is detected again with the next call; one that was declined is not,
    and a question that was declined stays so when the model asks it again.
    """
    if status not in _STATUSES:
        raise unknown_name("status", status, _STATUSES)
    known = open_existing(key_for(session, tenant, agent), store)
    with defer_finalizers(), known.locked():
        event = settled(known.state.missing, id, status, note or "by hand", session)
        if event is None:
            raise NotFound(f"nothing of the id {id!r} is missing in session {session!r}")
        known.append(new_turn_id(), [], [event], utc_now())
