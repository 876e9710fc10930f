"""Swap on request: what left the prompt window is found by its words and brought back as it was said."""

from dataclasses import replace

from ctxwrap.errors import NotFound, SettingsError
from ctxwrap.memory.decay import rehydrated
from ctxwrap.memory.items import Item
from ctxwrap.memory.likeness import telling_words
from ctxwrap.memory.memory import Memory
from ctxwrap.session import Session
from ctxwrap.session.clock import new_turn_id, utc_now
from ctxwrap.session.finding import Place, existing, key_for
from ctxwrap.session.swapped import Entry, Hit, Returned, entry_of, messages_of, returned_item, search
from ctxwrap.threads import undisturbed
from ctxwrap.types import Operation

__all__ = ["Entry", "Hit", "Returned", "bring_back", "search_swap"]


def search_swap(
    session: str,
    query: str | None = None,
    *,
    limit: int = 10,
    store: Place = None,
    tenant: str = "default",
    agent: str = "default",
) -> tuple[Hit, ...]:
    """What lies in swap and holds the most of the query's words; without a query the newest of it."""
    if query is not None and not telling_words(query):
        raise SettingsError("a query needs a word to look for")
    return search(existing(key_for(session, tenant, agent), store), query, limit)


def bring_back(
    session: str, id: str, *, store: Place = None, tenant: str = "default", agent: str = "default"
) -> tuple[Returned, ...]:
    """What an entry of swap stands for, by its id or that of a memory item: messages as they were said, or the item.

    A memory item is at hand again afterwards, from whom it always was; messages are read, and stay where they are.
    """
    key = key_for(session, tenant, agent)
    known = existing(key, store)
    if id in known.memory.items:
        return (returned_item(known.memory.items[id]),)
    entry = entry_of(known, id)
    if not entry.item:
        return messages_of(known, entry)
    with undisturbed(), known.locked():
        swapped = known.memory.named(entry.item) or existing(key, store, keeps_all=True).memory.named(entry.item)
        if swapped is None:
            raise NotFound(f"session {session!r} no longer remembers {entry.item!r}")
        if swapped.tier == "swap":
            _recall(known, swapped)
        return (returned_item(known.memory.named(entry.item) or swapped),)


def _recall(known: Session, item: Item) -> None:
    operation = Operation(
        "update", item.id, "ephemeral", _back(item, known.memory).as_json(), "brought back on request"
    )
    recall = {"type": "recall", "round": known.memory.round, "operations": [operation.as_json()], "ctx": {}}
    known.append(new_turn_id(), [], [recall], utc_now())


def _back(item: Item, memory: Memory) -> Item:
    """The item out of swap; where nothing fades it weighs what it did."""
    if not memory.evolves:
        return replace(item, tier="ephemeral")
    return rehydrated(item, memory.round, memory.rules)
