"""Read-only questions about a session, in one place for every face that asks them."""

from typing import Any

from ctxwrap.session import Session
from ctxwrap.types import SessionKey, Store


def memory_of(store: Store, key: SessionKey) -> dict[str, Any]:
    """The memory as it is now: `{"memory": {tier: [item, …]}, "capabilities": […], "active_task": "…"}`."""
    session = Session(key, store.open(key))
    session.refresh()
    return session.memory.shown()
