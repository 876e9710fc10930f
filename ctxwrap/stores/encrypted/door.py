"""The way into one encrypted session: its own key, which is made with it and opened by a master key."""

import os

from ctxwrap.errors import KeyMismatch
from ctxwrap.storage import STREAMS, Log
from ctxwrap.stores.clear import KEY_FILE
from ctxwrap.stores.encrypted.cipher import SECRET, Cipher
from ctxwrap.stores.encrypted.keys import MasterKeys
from ctxwrap.types import SessionKey


class Door:
    """Whoever opens the session comes by here once; a KeyMismatch if the keys are not those of the session."""

    def __init__(self, session: SessionKey, log: Log, keys: MasterKeys) -> None:
        self.session = session
        self._log = log
        self._keys = keys
        self._cipher: Cipher | None = None
        self._check()

    @property
    def cipher(self) -> Cipher | None:
        """None as long as the session has not begun, here or elsewhere."""
        if self._cipher is None and (data := self._log.files.load(KEY_FILE)) is not None:
            self._cipher = Cipher(self._keys.unwrapped(data, self.session), self.session)
        return self._cipher

    @property
    def begun(self) -> Cipher:
        cipher = self.cipher
        assert cipher is not None, "records are written inside `locked`"
        return cipher

    def begin(self) -> None:
        """Make the session's key, inside its lock, unless it has one."""
        if self.cipher is None:
            self._check()
            secret = os.urandom(SECRET)
            self._log.files.save(KEY_FILE, self._keys.wrapped(secret, self.session), lasting=True)
            self._cipher = Cipher(secret, self.session)

    def forget(self) -> None:
        """Look for the session's key again before it is used."""
        self._cipher = None

    def rewrap(self) -> bool:
        """Let the first master key wrap the session's key, inside its lock; whether another one did so far."""
        data = self._log.files.load(KEY_FILE)
        if data is None or self._keys.wraps(data, self.session):
            return False
        secret = self._keys.unwrapped(data, self.session)
        self._log.files.save(KEY_FILE, self._keys.wrapped(secret, self.session), lasting=True)
        return True

    def _check(self) -> None:
        has_records = self.cipher is None and any(self._has_records(stream) for stream in STREAMS)
        if has_records and self.cipher is None:  # still: another one may have begun the session meanwhile
            name = self.session.session
            raise KeyMismatch(
                f"session {name!r} is not encrypted, or its {KEY_FILE} is lost. To encrypt it, export it without the "
                f"key (env -u CTXWRAP_KEY ctxwrap export {name} -o FILE) and import it with the key, under another name"
            )

    def _has_records(self, stream: str) -> bool:
        """Any line counts; most sessions have a first record, which is found without reading the others."""
        return bool(self._log.pick(stream, [1])) or next(iter(self._log.lines(stream)), None) is not None
