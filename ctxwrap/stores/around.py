"""A store around another one: it has the same sessions, and hands out their logs in a way of its own."""

from collections.abc import Iterable

from ctxwrap.storage import Store
from ctxwrap.types import SessionKey


class StoreAround:
    def __init__(self, store: Store) -> None:
        self._store = store
        self.root = getattr(store, "root", None)

    def sessions(self, tenant: str, agent: str) -> Iterable[str]:
        return self._store.sessions(tenant, agent)

    def agents(self, tenant: str) -> Iterable[str]:
        return self._store.agents(tenant)

    def keys(self) -> Iterable[SessionKey]:
        return self._store.keys()

    def close(self) -> None:
        self._store.close()
