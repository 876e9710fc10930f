"""The signed session cookie; it expires, and becomes invalid when the password changes."""

import hmac
import time

from .settings import Settings

SECONDS = 12 * 60 * 60
"""Lifetime of the cookie."""


class Signing:
    def __init__(self, settings: Settings) -> None:
        self._secret = settings.secret.get_secret_value().encode()
        self.users = settings.known_users()
        self.is_https = settings.origin.startswith("https:")

    @property
    def cookie(self) -> str:
        """The cookie's name; browsers accept the `__Host-` prefix only from this host and over https."""
        return "__Host-chat" if self.is_https else "chat"

    def signed(self, name: str, until: float | None = None) -> str:
        expires = int(time.time() + SECONDS if until is None else until)
        return f"{name}.{expires}.{self._signature(name, expires)}"

    def user_in(self, token: str) -> str | None:
        """The user of a cookie; None if it is forged, expired, or older than a password change."""
        name, _, rest = token.partition(".")
        expires, _, signature = rest.partition(".")
        if name not in self.users or not (expires.isascii() and expires.isdecimal() and len(expires) < 16):
            return None
        genuine = hmac.compare_digest(signature.encode(), self._signature(name, int(expires)).encode())
        return name if genuine and int(expires) > time.time() else None

    def _signature(self, name: str, expires: int) -> str:
        return hmac.digest(self._secret, f"{name}.{expires}.{self.users[name]}".encode(), "sha256").hex()
