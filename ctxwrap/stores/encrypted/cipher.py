"""One session's cipher: bytes that open only where they were sealed, and names that nobody else reads."""

import base64
import binascii
import json
import os

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, AESSIV
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

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
