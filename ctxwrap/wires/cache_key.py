"""A key for the provider's prompt cache: requests of one session go where their beginning is known."""

import json
import re
from collections.abc import Callable
from hashlib import sha256

from ctxwrap.types import Body, Injection, Reply, Request, Rewriter, SessionKey, TextStream, Wire

FIELD = "prompt_cache_key"

_OWN = re.compile(r"ctxwrap-[0-9a-f]{40}")


def cache_key(key: SessionKey) -> str:
    """The same for the same session in every process; it does not tell the session's names."""
    return f"ctxwrap-{sha256(json.dumps(key).encode()).hexdigest()[:40]}"


def is_cache_key(value: object) -> bool:
    """Whether a key is one of ours, not the caller's."""
    return isinstance(value, str) and _OWN.fullmatch(value) is not None


class CacheKeyed:
    """A wire whose requests name a session's cache, unless the caller named one; those that pass as they are do not."""

    def __init__(self, wire: Wire, key: SessionKey) -> None:
        self.name = wire.name
        self._wire = wire
        self._key = cache_key(key)

    def read(self, body: Body) -> Request:
        return self._wire.read(body)

    def inject(self, body: Body, injection: Injection) -> Body:
        changed = self._wire.inject(body, injection)
        return changed if FIELD in body else {**changed, FIELD: self._key}

    def rewriter(self, body: Body, streams: Callable[[], TextStream]) -> Rewriter:
        return self._wire.rewriter(body, streams)

    def ask_again(self, body: Body, reply: Reply, question: str, reserve: int) -> Body:
        return self._wire.ask_again(body, reply, question, reserve)
