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

KEY_LENGTH = 32
"""The length of a key in bytes."""

NONCE, TAG = 12, 16
"""The lengths of what precedes and follows a ciphertext. Nonces are random: with up to 2**32 records and frames in a
session, the chance of a collision is below 2**-32."""


class Cipher:
    """Encrypts the contents and file names of one session."""

    def __init__(self, secret: bytes, session: SessionKey) -> None:
        self._contents = AESGCM(_derive(secret, b"ctxwrap contents", 32))
        self._names = AESSIV(_derive(secret, b"ctxwrap names", 64))
        self._session = session

    def seal(self, data: bytes, *place: str | int | None) -> bytes:
        nonce = os.urandom(NONCE)
        return nonce + self._contents.encrypt(nonce, data, self._associated_data(place))

    def open(self, sealed: bytes, *place: str | int | None) -> bytes | None:
        """What was sealed for this place of this session; None if it was sealed elsewhere or changed."""
        try:
            return self._contents.decrypt(sealed[:NONCE], sealed[NONCE:], self._associated_data(place))
        except (InvalidTag, ValueError):
            return None

    def encrypt_name(self, name: str) -> str:
        """Encrypt a name deterministically, to lower-case letters and digits that every file system accepts."""
        sealed = self._names.encrypt(name.encode("utf-8", "surrogatepass"), None)
        return base64.b32encode(sealed).decode().rstrip("=").lower()

    def decrypt_name(self, encrypted: str) -> str | None:
        """The inverse of `encrypt_name`; None for any other text."""
        text = encrypted.upper()
        try:
            name = self._names.decrypt(base64.b32decode(text + "=" * (-len(text) % 8)), None)
            found = name.decode("utf-8", "surrogatepass")
        except (InvalidTag, binascii.Error, ValueError):
            return None
        return found if self.encrypt_name(found) == encrypted else None

    def _associated_data(self, place: tuple[str | int | None, ...]) -> bytes:
        return json.dumps(["ctxwrap", *self._session, *place]).encode()


def _derive(secret: bytes, purpose: bytes, length: int) -> bytes:
    return HKDF(algorithm=SHA256(), length=length, salt=None, info=purpose).derive(secret)


_HEX = re.compile(r"[0-9A-Fa-f]{64}")


class MasterKeys:
    """The first key wraps session keys, all of them unwrap. No text of this object shows a key."""

    def __init__(self, given: str | Sequence[str]) -> None:
        spelled = given.split(",") if isinstance(given, str) else given
        keys = [_parse(each, place) for place, each in enumerate(spelled, 1)]
        if not keys:
            raise SettingsError("no key is given: leave key= out, or pass one made by `ctxwrap key`")
        self._ciphers = {_id(key): AESGCM(key) for key in keys}
        self.first = next(iter(self._ciphers))
        """The id of the first key."""

    def wrap(self, secret: bytes, session: SessionKey) -> bytes:
        """The content of the file with a session's wrapped key."""
        nonce = os.urandom(NONCE)
        sealed = nonce + self._ciphers[self.first].encrypt(nonce, secret, _associated_data(session))
        known = {"v": 1, "key": self.first, "sealed": base64.b64encode(sealed).decode()}
        return json.dumps(known).encode() + b"\n"

    def unwrap(self, data: bytes, session: SessionKey) -> bytes:
        """The inverse of `wrap`; KeyMismatch if no key fits, or it belongs to another session."""
        name, sealed = _parse_key_file(data, session)
        cipher = self._ciphers.get(name)
        if cipher is None:
            given = ", ".join(self._ciphers)
            raise KeyMismatch(
                f"session {session.session!r} is encrypted under the key {name}, and given is {given}: add its key to "
                "CTXWRAP_KEY after a comma, or to open_store(place, key=...)"
            )
        try:
            return cipher.decrypt(sealed[:NONCE], sealed[NONCE:], _associated_data(session))
        except (InvalidTag, ValueError):
            raise _invalid_key_file(session) from None

    def wraps(self, data: bytes, session: SessionKey) -> bool:
        """Whether the first key wrapped it."""
        return _parse_key_file(data, session)[0] == self.first


def _parse_key_file(data: bytes, session: SessionKey) -> tuple[str, bytes]:
    try:
        known = json.loads(data)
        name, sealed = known["key"], base64.b64decode(known["sealed"], validate=True)
    except (ValueError, RecursionError, LookupError, TypeError):
        raise _invalid_key_file(session) from None
    if not isinstance(name, str) or not name.isalnum() or len(name) > len(_id(b"")):
        raise _invalid_key_file(session)
    return name, sealed


def _invalid_key_file(session: SessionKey) -> KeyMismatch:
    return KeyMismatch(
        f"{KEY_FILE} of session {session.session!r} was changed, so the session cannot be read: "
        "restore the file from a backup"
    )


def _associated_data(session: SessionKey) -> bytes:
    return json.dumps(["ctxwrap", "key", *session]).encode()


def _id(key: bytes) -> str:
    """An id that reveals nothing about a key, because keys are random."""
    return hashlib.sha256(b"ctxwrap master key" + key).hexdigest()[:12]


def _parse(spelled: object, place: int) -> bytes:
    text = spelled.strip() if isinstance(spelled, str) else ""
    if _HEX.fullmatch(text):
        return bytes.fromhex(text)
    plain = text.rstrip("=").replace("-", "+").replace("_", "/")
    try:
        key = base64.b64decode(plain + "=" * (-len(plain) % 4), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if len(key) != KEY_LENGTH:  # the message must not contain any of it
        raise SettingsError(
            f"key {place} of CTXWRAP_KEY or key= is not a key: it must be {KEY_LENGTH} bytes in base64 or hex; "
            "`ctxwrap key` makes one"
        )
    return key


class SessionKeys:
    """Finds or creates the key of a session; KeyMismatch if the master keys do not fit."""

    def __init__(self, session: SessionKey, log: Log, keys: MasterKeys) -> None:
        self.session = session
        self._log = log
        self._keys = keys
        self._cipher: Cipher | None = None
        self._check()

    @property
    def cipher(self) -> Cipher | None:
        """None until a process has created the session's key."""
        if self._cipher is None and (data := self._log.files.load(KEY_FILE)) is not None:
            self._cipher = Cipher(self._keys.unwrap(data, self.session), self.session)
        return self._cipher

    @property
    def cipher_in_lock(self) -> Cipher:
        cipher = self.cipher
        assert cipher is not None, "records are written inside `locked`"
        return cipher

    def create(self) -> None:
        """Create the session's key, inside its lock, unless it has one."""
        if self.cipher is None:
            self._check()
            secret = os.urandom(KEY_LENGTH)
            self._log.files.save(KEY_FILE, self._keys.wrap(secret, self.session), lasting=True)
            self._cipher = Cipher(secret, self.session)

    def forget(self) -> None:
        """Load the session's key again before its next use."""
        self._cipher = None

    def rewrap(self) -> bool:
        """Wrap the session's key with the first master key, inside its lock; False if it already is."""
        data = self._log.files.load(KEY_FILE)
        if data is None or self._keys.wraps(data, self.session):
            return False
        secret = self._keys.unwrap(data, self.session)
        self._log.files.save(KEY_FILE, self._keys.wrap(secret, self.session), lasting=True)
        return True

    def _check(self) -> None:
        has_records = self.cipher is None and any(self._has_records(stream) for stream in STREAMS)
        if has_records and self.cipher is None:  # again: another process may have created the key meanwhile
            name = self.session.session
            raise KeyMismatch(
                f"session {name!r} is not encrypted, or its {KEY_FILE} is lost. To encrypt it, export it without the "
                f"key (env -u CTXWRAP_KEY ctxwrap export {name} -o FILE) and import it with the key, under another name"
            )

    def _has_records(self, stream: str) -> bool:
        """Any line counts; most sessions have a record 1, which `pick` finds without reading the others."""
        return bool(self._log.pick(stream, [1])) or next(iter(self._log.lines(stream)), None) is not None
