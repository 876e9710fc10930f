"""From a client's request to one upstream: its URL, its headers, and what is refused on the way."""

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from starlette.types import Scope

from ctxwrap.service.serve.config import Api, ServeConfig, Upstream

RawHeaders = list[tuple[bytes, bytes]]

METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"})

_PATH = re.compile(
    rb"(?:/(?!\.{1,2}(?:/|\Z))(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%(?!2[eEfF]|5[cC]|[01][0-9A-Fa-f])[0-9A-Fa-f]{2})+)+/?"
)
"""Segments that no server reads as another path: no empty ones, no dots alone, no encoded dots, slashes, controls."""

_ONE_HOP = frozenset(
    {
        *(b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-authorization", b"proxy-connection"),
        *(b"te", b"trailer", b"transfer-encoding", b"upgrade", b"expect", b"http2-settings"),
    }
)
"""Headers that end at each server on the way (RFC 9110, section 7.6.1)."""

_OWN = frozenset({b"host", b"content-length", b"forwarded", b"x-real-ip", b"via"})
_ONCE = frozenset(
    {
        b"host",
        b"content-length",
        b"transfer-encoding",
        b"authorization",
        b"x-api-key",
        b"content-type",
        b"content-encoding",
    }
)
_CREDENTIALS = frozenset({b"authorization", b"x-api-key"})

_STATELESS = {
    "POST": re.compile(
        r"/(?:chat/completions|completions|responses|responses/input_tokens|messages|messages/count_tokens|embeddings"
        r"|moderations|images/generations|audio/speech|audio/transcriptions)"
    ),
    "GET": re.compile(r"/models(?:/[^/]+)*"),
    "HEAD": re.compile(r"/models(?:/[^/]+)*"),
}
"""What clients may call with the server's key: nothing that shows what others stored under it."""

_URL_KEYS = frozenset({"baseurl", "apibase", "apiurl", "baseuri", "endpoint", "apiendpoint", "azureendpoint", "proxy"})
_CONTENT = frozenset({"messages", "input", "prompt", "tools", "functions", "system", "instructions", "response_format"})
_DEPTH = 4


class RefusedRequest(Exception):
    """A request that is not sent on."""

    def __init__(self, status: int, message: str, kind: str = "invalid_request_error", **headers: str) -> None:
        super().__init__(message)
        self.status, self.kind, self.headers = status, kind, headers

    def body(self, api: Api) -> dict[str, Any]:
        """The error in the form of an API."""
        error = {"type": self.kind, "message": f"ctxwrap: {self}"}
        return {"type": "error", "error": error} if api == "anthropic" else {"error": {**error, "code": None}}


class Route(NamedTuple):
    upstream: Upstream
    target: bytes
    """The path and query for the upstream, behind its URL's own path."""


def api_of(scope: Scope) -> Api:
    """The API that a client speaks."""
    is_anthropic = any(name == b"anthropic-version" for name, _ in scope["headers"])
    return "anthropic" if is_anthropic or "/messages" in scope["path"] else "openai"


def route(scope: Scope, config: ServeConfig) -> Route:
    """The upstream of a request, by the first segment of its path or by the API it speaks."""
    raw: bytes = scope.get("raw_path") or scope["path"].encode()
    if scope["method"] not in METHODS:
        raise RefusedRequest(405, f"the method {scope['method'][:20]!r} is not served")
    if not raw.startswith(b"/") or not _PATH.fullmatch(raw):
        raise RefusedRequest(400, "the path is not served: send a plain path such as /v1/chat/completions")
    named, _, rest = raw[1:].partition(b"/")
    upstream = next((each for each in config.upstreams if each.name.encode() == named), None)
    if upstream is None:
        wanted, rest = api_of(scope), raw[1:]
        upstream = next((each for each in config.upstreams if each.api == wanted), None)
    if upstream is None or not rest.startswith(b"v1/"):
        raise RefusedRequest(404, "no upstream serves this path: paths begin with /v1/ or /NAME/v1/", "not_found_error")
    tail = rest[2:]
    pattern = _STATELESS.get(scope["method"])
    if upstream.key and (pattern is None or not pattern.fullmatch(tail.decode("ascii"))):
        raise RefusedRequest(403, "this path is not served with the server's own key", "permission_error")
    query: bytes = scope["query_string"]
    return Route(upstream, tail + (b"?" + query if query else b""))


def check_headers(headers: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """The headers by name; refuses a request that two servers could read differently."""
    found: dict[str, str] = {}
    for name, value in headers:
        text = name.decode("latin-1")
        if text in found and (name in _ONCE or text.startswith("x-ctxwrap-")):
            raise RefusedRequest(400, f"the header {text} occurs twice")
        found[text] = value.decode("latin-1")
    if "content-length" in found and "transfer-encoding" in found:
        raise RefusedRequest(400, "a request has content-length or transfer-encoding, not both")
    return found


def upstream_headers(given: RawHeaders, upstream: Upstream, *, drops_credentials: bool) -> RawHeaders:
    """The headers for the upstream: the client's, without those of this hop and those of ctxwrap."""
    dropped = _ONE_HOP | _OWN | _nominated(given) | (_CREDENTIALS if drops_credentials or upstream.key else frozenset())
    kept = [
        (name, value)
        for name, value in given
        if name not in dropped and not name.startswith((b"x-ctxwrap-", b"x-forwarded-"))
    ]
    if upstream.key and upstream.api == "anthropic":
        kept.append((b"x-api-key", upstream.key.encode()))
    elif upstream.key:
        kept.append((b"authorization", b"Bearer " + upstream.key.encode()))
    return kept


def reply_headers(given: RawHeaders) -> RawHeaders:
    """The headers for the client: the upstream's, without those of that hop."""
    given = [(name.lower(), value) for name, value in given]
    dropped = _ONE_HOP | _nominated(given)
    return [(name, value) for name, value in given if name not in dropped]


def _nominated(headers: RawHeaders) -> frozenset[bytes]:
    """The headers that `Connection` says are for one hop; never one that frames or names the message."""
    listed = b",".join(value for name, value in headers if name == b"connection").lower().split(b",")
    return frozenset(name.strip() for name in listed) - {b"content-length", b"content-type", b"content-encoding"}


def check_urls(body: Mapping[str, Any]) -> None:
    """Refuse a body that asks the provider's side to send somewhere else; its contents may name any URL."""
    for name, value in body.items():
        if name not in _CONTENT:
            _check_key(name, value)
            _check_nested(value, _DEPTH)


def _check_nested(value: Any, depth: int) -> None:
    if depth == 0:
        return
    if isinstance(value, list):
        for item in value:
            _check_nested(item, depth - 1)
    elif isinstance(value, dict):
        for name, item in value.items():
            _check_key(name, item)
            _check_nested(item, depth - 1)


def _check_key(name: str, value: Any) -> None:
    if isinstance(value, str) and name.lower().replace("_", "").replace("-", "") in _URL_KEYS:
        raise RefusedRequest(
            400, f"the field {name[:40]!r} is not served: the operator of the proxy chooses its upstreams"
        )
