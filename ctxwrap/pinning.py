"""Pinning: memory items that the operator keeps, whatever a model does with them."""

from dataclasses import replace

from ctxwrap.errors import NotFound
from ctxwrap.memory.decay import rehydrated
from ctxwrap.memory.items import Item
from ctxwrap.memory.memory import Memory
from ctxwrap.session.clock import new_turn_id, utc_now
from ctxwrap.session.finding import Place, existing, key_for
from ctxwrap.threads import undisturbed
from ctxwrap.types import Operation


def pin(session: str, item: str, *, store: Place = None, tenant: str = "default", agent: str = "default") -> None:
    """Keep the memory item of that id: it neither fades nor leaves; from swap it comes back first."""
    _set(session, item, True, store, tenant, agent)


def unpin(session: str, item: str, *, store: Place = None, tenant: str = "default", agent: str = "default") -> None:
    """Let the memory item of that id age again, from now on."""
    _set(session, item, False, store, tenant, agent)


def _set(session: str, id: str, pinned: bool, store: Place, tenant: str, agent: str) -> None:
    known = existing(key_for(session, tenant, agent), store, keeps_all=True)
    with undisturbed(), known.locked():
        item = known.memory.named(id)
        if item is None:
            raise NotFound(f"session {session!r} remembers no {id!r}: `ctxwrap memory` lists the ids there are")
        if item.pinned != pinned:
            reason = "pinned" if pinned else "unpinned"
            changed = _pinned(item, known.memory) if pinned else _unpinned(item, known.memory)
            operation = Operation("update", id, changed.tier, changed.as_json(), reason)
            event = {"type": "pin", "round": known.memory.round, "operations": [operation.as_json()], "ctx": {}}
            known.append(new_turn_id(), [], [event], utc_now())


def _pinned(item: Item, memory: Memory) -> Item:
    back = rehydrated(item, memory.round, memory.rules) if item.tier == "swap" else item
    return replace(back, pinned=True)


def _unpinned(item: Item, memory: Memory) -> Item:
    now = max(memory.round, item.anchor)
    return replace(item, pinned=False, anchor=now, since=now)
