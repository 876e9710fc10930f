"""One request on its way through the HTTP door, and calls that wait for a retry of theirs."""

import hashlib
import threading
import zlib
from time import monotonic
from typing import Any, NamedTuple

from ctxwrap.clients.http import module_of
from ctxwrap.clients.sdk_call import with_new_idempotency_key
from ctxwrap.encoding import encode_json
from ctxwrap.providers.base import ProviderAdapter
from ctxwrap.turn.binding import CallScope
from ctxwrap.turn.lifecycle import PassthroughCall
from ctxwrap.types import Body, SessionKey

_LARGEST_BODY = 64 << 20
"""Bytes of a compressed request body after decompression; a larger one passes unchanged."""

_RETRY_COUNT, _IDEMPOTENCY_KEY = "x-stainless-retry-count", "idempotency-key"


class Exchange:
    """A request to a model: what the caller sent, and how it is sent on."""

    def __init__(self, request: Any, content: bytes, body: Body, adapter: ProviderAdapter, scope: CallScope) -> None:
        self.request, self.content, self.body = request, content, body
        self.adapter, self.scope = adapter, scope

    def plain_body(self) -> Body:
        return self.body

    def outgoing(self, call: Any, *, is_smaller: bool) -> Any:
        """The request of `call`: the caller's bytes if the body has not changed."""
        body = call.body if isinstance(call, PassthroughCall) or call.rewrites else None
        headers = _own_headers(self.request)
        if is_smaller:
            headers = list(with_new_idempotency_key({"headers": dict(headers)})["headers"].items())
        return _request(self.request, headers, self.content if body is None else encode_json(body), body is not None)

    def own_request(self, body: Body) -> Any:
        """A request of ctxwrap's own, which is no retry of the caller's."""
        headers = [each for each in _own_headers(self.request) if not each[0].lower().startswith("x-stainless-")]
        headers = [each for each in headers if each[0].lower() != _IDEMPOTENCY_KEY]
        made = _request(self.request, headers, encode_json(body), True)
        whole = self.adapter.whole_path(made.url.raw_path.decode("ascii"))
        made.url = made.url.copy_with(raw_path=whole.encode("ascii"))
        return made

    @property
    def identity(self) -> str:
        """What a retry has in common with its first request: the idempotency key, else the body."""
        key = self.request.headers.get(_IDEMPOTENCY_KEY)
        return key or hashlib.sha256(f"{self.request.url.path}\n".encode() + self.content).hexdigest()

    @property
    def says_it_is_new(self) -> bool:
        """Whether the SDK numbers its retries, and this is the first request."""
        return str(self.request.headers.get(_RETRY_COUNT, "")) == "0"


def _own_headers(request: Any) -> list[tuple[str, str]]:
    """The headers in their order and spelling, without ctxwrap's."""
    raw = [(name.decode("ascii"), value.decode("latin-1")) for name, value in request.headers.raw]
    return [(name, value) for name, value in raw if not name.lower().startswith("x-ctxwrap-")]


def _request(request: Any, headers: list[tuple[str, str]], content: bytes, is_changed: bool) -> Any:
    """A copy of `request` with other headers and other content."""
    dropped = {"content-length", "transfer-encoding", *(("content-encoding",) if is_changed else ())}
    kept = [(name.encode("ascii"), value.encode("latin-1")) for name, value in headers if name.lower() not in dropped]
    kept.append((b"Content-Length", b"%d" % len(content)))
    stream = module_of(request).ByteStream(content)
    return type(request)(request.method, request.url, headers=kept, stream=stream, extensions=request.extensions)


def without_own_headers(request: Any) -> Any:
    if not any(name.startswith("x-ctxwrap-") for name in request.headers):
        return request
    headers = [(name.encode("ascii"), value.encode("latin-1")) for name, value in _own_headers(request)]
    return type(request)(
        request.method, request.url, headers=headers, stream=request.stream, extensions=request.extensions
    )


def decoded_content(content: bytes, coding: str) -> bytes | None:
    """A request's body without its compression; None if it cannot be read."""
    coding = coding.strip().lower()
    if coding in ("", "identity"):
        return content
    if coding not in ("gzip", "deflate"):
        return None
    try:
        decoder = zlib.decompressobj(zlib.MAX_WBITS | 32)
        plain = decoder.decompress(content, _LARGEST_BODY)
    except zlib.error:
        return None
    return plain if decoder.eof else None


class _ParkedCall(NamedTuple):
    call: Any
    reason: str
    """What the log says if no retry comes."""
    is_redirect: bool
    deadline: float


class ParkedCalls:
    """Calls that failed and may be tried again. One that is not tried again in time ends its turn.

    A retry of the SDK is the same turn. SDKs of OpenAI and Anthropic number their requests: number 0 is a new call.
    Otherwise a request with the same idempotency key, else with the same body, is taken for a retry.
    """

    def __init__(self, window: float) -> None:
        self._window = window
        self._changed = threading.Condition()
        self._parked: dict[tuple[SessionKey | None, str], _ParkedCall] = {}
        self._watcher: threading.Thread | None = None

    @property
    def is_empty(self) -> bool:
        return not self._parked

    def park(self, exchange: Exchange, call: Any, reason: str, *, wait: float = 0.0, is_redirect: bool = False) -> bool:
        """Keep the call for a retry; return whether there is time for one."""
        if self._window <= 0:
            return False
        parked = _ParkedCall(call, reason, is_redirect, monotonic() + wait + self._window)
        with self._changed:
            earlier = self._parked.pop((exchange.scope.key, exchange.identity), None)
            self._parked[exchange.scope.key, exchange.identity] = parked
            if self._watcher is None:
                self._watcher = threading.Thread(target=self._watch, name="ctxwrap-retries", daemon=True)
                self._watcher.start()
            self._changed.notify()
        if earlier is not None:
            earlier.call.managed.save(earlier.reason)
        return True

    def take(self, exchange: Exchange, *, ends_others: bool) -> Any:
        """The call that `exchange` retries, or None. Other parked calls of the session end, so that it is free."""
        if self.is_empty:
            return None
        place = exchange.scope.key, exchange.identity
        with self._changed:
            found = self._parked.get(place)
            if found is not None and (found.is_redirect or not exchange.says_it_is_new):
                del self._parked[place]
                return found.call
            others = [each for each in self._parked if each[0] == place[0]] if ends_others else []
            ended = [self._parked.pop(each) for each in others]
        for each in ended:
            each.call.managed.save(each.reason)
        return None

    def end_all(self) -> None:
        with self._changed:
            ended = list(self._parked.values())
            self._parked.clear()
            self._changed.notify()
        for each in ended:
            each.call.managed.save(each.reason)

    def _watch(self) -> None:
        while True:
            with self._changed:
                late = [place for place, each in self._parked.items() if each.deadline <= monotonic()]
                ended = [self._parked.pop(place) for place in late]
                if not self._parked and not ended:
                    self._watcher = None
                    return
                if not ended:
                    self._changed.wait(min(each.deadline for each in self._parked.values()) - monotonic())
            for each in ended:
                each.call.managed.save(each.reason)
