"""What the proxy is configured with: upstreams, keys, limits and settings."""

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import urlsplit

from ctxwrap.errors import SettingsError

Api = Literal["openai", "anthropic"]

DEFAULT_UPSTREAMS = ("openai=https://api.openai.com/v1", "anthropic=https://api.anthropic.com/v1")

_UPSTREAM = re.compile(r"(?P<name>[a-z0-9][a-z0-9-]{0,31})(?::(?P<api>openai|anthropic))?=(?P<url>\S+)")
_KEY = re.compile(r"(?P<name>[a-z0-9-]+)=(?P<variable>[A-Za-z_]\w*)")
RESERVED = frozenset({"v1", "health", "ready", "metrics"})


@dataclass(frozen=True, slots=True)
class Upstream:
    """A provider that the proxy sends to. `url` stands in the place of `/v1`."""

    name: str
    url: str
    api: Api
    key: str = field(default="", repr=False)
    """The server's own key; empty if clients send theirs."""


@dataclass(frozen=True, slots=True)
class Limits:
    body: int = 32 << 20
    """Bytes of a request's body."""
    memory: int = 512 << 20
    """Bytes of all bodies that a worker holds at once."""
    requests: int = 1000
    """Requests that a worker has in flight at once."""
    seconds: float = 1800.0
    """The longest time that a request may take, with its reply."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeConfig:
    upstreams: tuple[Upstream, ...]
    store: str | None = None
    tenant: str = "default"
    """The tenant of requests without a token."""
    session: str = "auto"
    """The session of requests that name none: `auto`, `user`, `token`, `none`, or `=NAME` for one of that name."""
    token_file: str | None = None
    tokens: str = field(default="", repr=False)
    """Lines of a token file, from the environment."""
    hosts: frozenset[str] = frozenset()
    """The values of Host that are served without tokens."""
    limits: Limits = Limits()
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Settings of `wrap`."""
    workers: int = 1
    drain: float = 30.0
    """Seconds that running requests have when the server stops."""
    metrics: str = ""
    """A directory in which workers count, so that each can show the sums."""

    def __post_init__(self) -> None:
        if self.session not in ("auto", "user", "token", "none") and not self.session.startswith("="):
            raise SettingsError(f"--session {self.session!r} is none of auto, user, token, none, or =NAME")


def parse_upstreams(
    texts: Iterable[str], keys: Iterable[str] = (), environment: Mapping[str, str] = os.environ
) -> tuple[Upstream, ...]:
    """Upstreams from `NAME=URL` or `NAME:API=URL`, with the keys that `NAME=VARIABLE` finds in the environment."""
    held = dict(_key(text, environment) for text in keys)
    found: dict[str, Upstream] = {}
    for text in texts:
        upstream = _upstream(text, held)
        if found.setdefault(upstream.name, upstream) is not upstream:
            raise SettingsError(f"two upstreams are called {upstream.name!r}")
    unknown = sorted(held.keys() - found.keys())
    if unknown:
        raise SettingsError(f"--key names {unknown[0]!r}, which is no upstream")
    if not found:
        raise SettingsError("the proxy needs an upstream: --upstream openai=https://api.openai.com/v1")
    return tuple(found.values())


def _upstream(text: str, keys: Mapping[str, str]) -> Upstream:
    match = _UPSTREAM.fullmatch(text)
    if match is None or match["name"] in RESERVED:
        raise SettingsError(f"--upstream {text!r} is not NAME=URL, such as openai=https://api.openai.com/v1")
    name, url = match["name"], match["url"].rstrip("/")
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.query or parts.fragment:
        raise SettingsError(
            f"the URL of upstream {name!r} must be http(s)://HOST/PATH without user, query and fragment"
        )
    is_anthropic = "anthropic" in name or parts.hostname.endswith("anthropic.com")
    api: Any = match["api"] or ("anthropic" if is_anthropic else "openai")
    return Upstream(name, url, api, keys.get(name, ""))


def _key(text: str, environment: Mapping[str, str]) -> tuple[str, str]:
    match = _KEY.fullmatch(text)
    if match is None:
        raise SettingsError(
            f"--key {text!r} is not NAME=VARIABLE: it names the variable with the key, such as openai=OPENAI_API_KEY"
        )
    key = environment.get(match["variable"], "")
    if not key:
        raise SettingsError(f"the key of upstream {match['name']!r} is not set: {match['variable']} is empty")
    return match["name"], key
