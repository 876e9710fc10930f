"""A store that encrypts the sessions of another store."""

from collections.abc import Sequence

from ctxwrap.errors import NotFound
from ctxwrap.stores.base import KEY_FILE, Store, StoreWrapper
from ctxwrap.stores.encrypted.keys import MasterKeys, SessionKeys
from ctxwrap.stores.encrypted.log import EncryptedLog
from ctxwrap.types import SessionKey


class EncryptedStore(StoreWrapper):
    """The first key is used for new sessions; every key opens the sessions whose keys it wrapped."""

    def __init__(self, store: Store, keys: str | Sequence[str]) -> None:
        super().__init__(store)
        self._keys = MasterKeys(keys)

    def open(self, key: SessionKey) -> EncryptedLog:
        log = self._store.open(key)
        return EncryptedLog(log, SessionKeys(key, log, self._keys))

    def rekey(self, key: SessionKey) -> bool:
        """Wrap the session's own key, which stays, with the first key; False if it already is."""
        log = self._store.open(key)
        keys = SessionKeys(key, log, self._keys)
        if log.files.load(KEY_FILE) is None:
            raise NotFound(f"there is no session {key.session!r} of tenant {key.tenant!r} and agent {key.agent!r}")
        with log.locked():
            return keys.rewrap()
