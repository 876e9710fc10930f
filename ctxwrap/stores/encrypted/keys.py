"""Master keys: how they are spelled, and how they wrap the key of a session."""

import base64
import binascii
import hashlib
import json
import os
import re
from collections.abc import Sequence

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from ctxwrap.errors import KeyMismatch, SettingsError
from ctxwrap.stores.clear import KEY_FILE
from ctxwrap.stores.encrypted.cipher import NONCE, SECRET
from ctxwrap.types import SessionKey

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
