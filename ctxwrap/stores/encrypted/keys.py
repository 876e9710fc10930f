"""Keys: master keys, the key of each session, and the cipher that uses it."""

import base64
import binascii
import hashlib
import json
import os
import re
from collections.abc import Sequence

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, AESSIV
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from ctxwrap.errors import KeyMismatch, SettingsError
from ctxwrap.stores.base import KEY_FILE, STREAMS, Log
from ctxwrap.types import SessionKey

SECRET = 32
"""How long a key is, in bytes."""

NONCE, TAG = 12, 16
"""What stands before and behind a ciphertext. Nonces are random: up to 2**32 records and frames of one session, the
chance that two of them are the same is below 2**-32."""


class Cipher:
    def __init__(self, secret: bytes, session: SessionKey) -> None:
        self._contents = AESGCM(_derived(secret, b"ctxwrap contents", 32))
        self._names = AESSIV(_derived(secret, b"ctxwrap names", 64))
        self._session = session

    def seal(self, data: bytes, *place: str | int | None) -> bytes:
        nonce = os.urandom(NONCE)
        return nonce + self._contents.encrypt(nonce, data, self._bound(place))

    def open(self, sealed: bytes, *place: str | int | None) -> bytes | None:
        """What was sealed for this place of this session; None if it was not, or was changed."""
        try:
            return self._contents.decrypt(sealed[:NONCE], sealed[NONCE:], self._bound(place))
        except (InvalidTag, ValueError):
            return None

    def hide(self, name: str) -> str:
        """Another name, the same for the same: letters of one case and digits, for every file system."""
        sealed = self._names.encrypt(name.encode("utf-8", "surrogatepass"), None)
        return base64.b32encode(sealed).decode().rstrip("=").lower()

    def shown(self, hidden: str) -> str | None:
        """The name that `hide` hid, or None if it hid none."""
        text = hidden.upper()
        try:
            name = self._names.decrypt(base64.b32decode(text + "=" * (-len(text) % 8)), None)
            found = name.decode("utf-8", "surrogatepass")
        except (InvalidTag, binascii.Error, ValueError):
            return None
        return found if self.hide(found) == hidden else None

    def _bound(self, place: tuple[str | int | None, ...]) -> bytes:
        return json.dumps(["ctxwrap", *self._session, *place]).encode()


def _derived(secret: bytes, purpose: bytes, length: int) -> bytes:
    return HKDF(algorithm=SHA256(), length=length, salt=None, info=purpose).derive(secret)


_HEX = re.compile(r"[0-9A-Fa-f]{64}")


class MasterKeys:
    """The first one wraps, all of them unwrap. No text made of this shows any of them."""

    def __init__(self, given: str | Sequence[str]) -> None:
        spelled = given.split(",") if isinstance(given, str) else given
        keys = [_parsed(each, place) for place, each in enumerate(spelled, 1)]
        if not keys:
            raise SettingsError("no key is given: leave key= out, or name one that `ctxwrap key` made")
        self._ciphers = {_id(key): AESGCM(key) for key in keys}
        self.first = next(iter(self._ciphers))
        """A short name of the first one."""

    def wrapped(self, secret: bytes, session: SessionKey) -> bytes:
        """A session's key as it may lie beside its streams."""
        nonce = os.urandom(NONCE)
        sealed = nonce + self._ciphers[self.first].encrypt(nonce, secret, _bound(session))
        known = {"v": 1, "key": self.first, "sealed": base64.b64encode(sealed).decode()}
        return json.dumps(known).encode() + b"\n"

    def unwrapped(self, data: bytes, session: SessionKey) -> bytes:
        """What `wrapped` was given; a KeyMismatch if no key opens it, or it is another session's."""
        name, sealed = _read(data, session)
        cipher = self._ciphers.get(name)
        if cipher is None:
            given = ", ".join(self._ciphers)
            raise KeyMismatch(
                f"session {session.session!r} is encrypted under the key {name}, and given is {given}: add its key to "
                "CTXWRAP_KEY, behind a comma, or to open_store(place, key=...)"
            )
        try:
            return cipher.decrypt(sealed[:NONCE], sealed[NONCE:], _bound(session))
        except (InvalidTag, ValueError):
            raise _changed(session) from None

    def wraps(self, data: bytes, session: SessionKey) -> bool:
        """Whether the first key wrapped it."""
        return _read(data, session)[0] == self.first


def _read(data: bytes, session: SessionKey) -> tuple[str, bytes]:
    try:
        known = json.loads(data)
        name, sealed = known["key"], base64.b64decode(known["sealed"], validate=True)
    except (ValueError, RecursionError, LookupError, TypeError):
        raise _changed(session) from None
    if not isinstance(name, str) or not name.isalnum() or len(name) > len(_id(b"")):
        raise _changed(session)
    return name, sealed


def _changed(session: SessionKey) -> KeyMismatch:
    return KeyMismatch(
        f"{KEY_FILE} of session {session.session!r} is not what was written there, so that nothing of it can be read: "
        "restore the file from a backup"
    )


def _bound(session: SessionKey) -> bytes:
    return json.dumps(["ctxwrap", "key", *session]).encode()


def _id(key: bytes) -> str:
    """A name that tells keys apart and nothing of them: they are random."""
    return hashlib.sha256(b"ctxwrap master key" + key).hexdigest()[:12]


def _parsed(spelled: object, place: int) -> bytes:
    text = spelled.strip() if isinstance(spelled, str) else ""
    if _HEX.fullmatch(text):
        return bytes.fromhex(text)
    plain = text.rstrip("=").replace("-", "+").replace("_", "/")
    try:
        key = base64.b64decode(plain + "=" * (-len(plain) % 4), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if len(key) != SECRET:  # and not a character of it in the message
        raise SettingsError(
            f"key {place} of CTXWRAP_KEY or key= is none: a key is {SECRET} bytes in base64 or hex, and `ctxwrap key` "
            "makes one"
        )
    return key


class SessionKeys:
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
