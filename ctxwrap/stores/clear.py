"""A store without a key: whoever opens an encrypted session through it is told so, once, before anything is read."""

from collections.abc import Iterable

from ctxwrap.errors import KeyMismatch
from ctxwrap.storage import Log, Store
from ctxwrap.types import SessionKey

KEY_FILE = "key.json"
"""Beside the streams of an encrypted session, and of no other."""


class ClearStore:
    """Hands out the logs of another store as they are."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.root = getattr(store, "root", None)

    def open(self, key: SessionKey) -> Log:
        log = self._store.open(key)
        if log.files.load(KEY_FILE) is not None:
            raise KeyMismatch(
                f"session {key.session!r} is encrypted: name its key in CTXWRAP_KEY, or with open_store(place, key=...)"
            )
        return log

    def sessions(self, tenant: str, agent: str) -> Iterable[str]:
        return self._store.sessions(tenant, agent)

    def agents(self, tenant: str) -> Iterable[str]:
        return self._store.agents(tenant)

    def keys(self) -> Iterable[SessionKey]:
        return self._store.keys()

    def close(self) -> None:
        self._store.close()
