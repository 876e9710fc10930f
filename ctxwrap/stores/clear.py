"""A store without a key: whoever opens an encrypted session through it is told so, once, before anything is read."""

from ctxwrap.errors import KeyMismatch
from ctxwrap.storage import Log
from ctxwrap.stores.around import StoreAround
from ctxwrap.types import SessionKey

KEY_FILE = "key.json"
"""Beside the streams of an encrypted session, and of no other."""


class ClearStore(StoreAround):
    """Hands out the logs of another store as they are."""

    def open(self, key: SessionKey) -> Log:
        log = self._store.open(key)
        if log.files.load(KEY_FILE) is not None:
            raise KeyMismatch(
                f"session {key.session!r} is encrypted: name its key in CTXWRAP_KEY, or with open_store(place, key=...)"
            )
        return log
