"""The cookie that says who is signed in: signed, for a while, and not beyond a change of password."""

import hmac
import time

from .settings import Settings

SECONDS = 12 * 60 * 60
"""How long one stays signed in."""


class Signing:
    def __init__(self, settings: Settings) -> None:
        self._secret = settings.secret.get_secret_value().encode()
        self.users = settings.known_users()
        self.is_https = settings.origin.startswith("https:")

    @property
    def cookie(self) -> str:
        """Its name; with the prefix browsers take it from this host alone, and over https."""
        return "__Host-chat" if self.is_https else "chat"

    def signed(self, name: str, until: float | None = None) -> str:
        expires = int(time.time() + SECONDS if until is None else until)
        return f"{name}.{expires}.{self._signature(name, expires)}"

    def user_in(self, token: str) -> str | None:
        """Who is signed in by a cookie; nobody if it is forged, too old, or from before the password was changed."""
        name, _, rest = token.partition(".")
        expires, _, signature = rest.partition(".")
        if name not in self.users or not (expires.isascii() and expires.isdecimal() and len(expires) < 16):
            return None
        genuine = hmac.compare_digest(signature.encode(), self._signature(name, int(expires)).encode())
        return name if genuine and int(expires) > time.time() else None

    def _signature(self, name: str, expires: int) -> str:
        return hmac.digest(self._secret, f"{name}.{expires}.{self.users[name]}".encode(), "sha256").hex()
