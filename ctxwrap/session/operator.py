"""Operator actions: pin memory items, resolve missing context."""

from typing import Literal

from ctxwrap.errors import NotFound, unknown_name
from ctxwrap.memory.decay import rehydrate
from ctxwrap.memory.items import MemoryItem
from ctxwrap.memory.memory import Memory
from ctxwrap.session.clock import new_turn_id, utc_now
from ctxwrap.session.lookup import StoreLike, key_for, open_existing
from ctxwrap.session.missing import missing_history, open_in, settlement_event
from ctxwrap.session.threads import defer_finalizers
from ctxwrap.stores.base import Store
from ctxwrap.types import MissingContext, Operation, SessionKey


def pin(session: str, item: str, *, store: StoreLike = None, tenant: str = "default", agent: str = "default") -> None:
    """Pin a memory item: it does not decay and does not leave memory. An item in swap is brought back."""
    _set_pinned(key_for(session, tenant, agent), item, store, pinned=True)


def unpin(session: str, item: str, *, store: StoreLike = None, tenant: str = "default", agent: str = "default") -> None:
    """Let a pinned memory item decay again, from now on."""
    _set_pinned(key_for(session, tenant, agent), item, store, pinned=False)


def _set_pinned(key: SessionKey, id: str, store: StoreLike, *, pinned: bool) -> None:
    known = open_existing(key, store, keeps_all=True)
    with defer_finalizers(), known.locked():
        item = known.memory.named(id)
        if item is None:
            raise NotFound(f"session {key.session!r} has no memory item {id!r}: `ctxwrap memory` lists the ids")
        if item.pinned != pinned:
            reason = "pinned" if pinned else "unpinned"
            changed = _pinned(item, known.memory) if pinned else _unpinned(item, known.memory)
            operation = Operation("update", id, changed.tier, changed.as_json(), reason)
            event = {"type": "pin", "round": known.memory.round, "operations": [operation.as_json()], "ctx": {}}
            known.append(new_turn_id(), [], [event], utc_now())


def _pinned(item: MemoryItem, memory: Memory) -> MemoryItem:
    back = rehydrate(item, memory.round, memory.rules) if item.tier == "swap" else item
    return back._replace(pinned=True)


def _unpinned(item: MemoryItem, memory: Memory) -> MemoryItem:
    now = max(memory.round, item.anchor)
    return item._replace(pinned=False, anchor=now, since=now)


_STATUSES = ("resolved", "declined")


def missing_in(store: Store, key: SessionKey, *, everything: bool = False) -> tuple[MissingContext, ...]:
    """Return open missing context, oldest first; with `everything` also closed entries."""
    known = open_existing(key, store)
    return missing_history(known.records("events")) if everything else open_in(known.state.missing)


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
    """Close an entry of missing context as resolved or declined.

    A resolved source that is still not sent is detected again by the next call; a declined source is not. A declined
    question stays declined when the model asks it again.
    """
    if status not in _STATUSES:
        raise unknown_name("status", status, _STATUSES)
    known = open_existing(key_for(session, tenant, agent), store)
    with defer_finalizers(), known.locked():
        event = settlement_event(known.state.missing, id, status, note or "by hand", session)
        if event is None:
            raise NotFound(f"session {session!r} has no missing context {id!r}")
        known.append(new_turn_id(), [], [event], utc_now())
