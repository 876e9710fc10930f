"""The HTTP requests of an SDK's client, which in a chat differ in nothing but their bodies.

The SDK and its HTTP library put each request together anew: they join URLs, and merge headers several times. Here a
request is an earlier one with another body, if nothing has changed that they depend on.
"""

import logging
import sys
from collections.abc import Callable, Mapping
from copy import copy
from functools import cache
from inspect import iscoroutinefunction
from operator import itemgetter
from types import FunctionType
from typing import Any, Generic, NamedTuple

from ctxwrap.clients.http import client_behind, module_of
from ctxwrap.clients.request_encoding import encode_like, encoding_of
from ctxwrap.clients.sdk_arguments import is_timeout

_MOST_KEPT = 4
"""Requests that a client keeps, such as those with and without a stream."""

_VARYING = frozenset({"json_data", "idempotency_key", "post_parser"})
"""The options that are no part of a request, or only of its body; the key is one for clients with a header for it."""


def is_sdks_own(sdk_class: Any) -> bool:
    """Whether a class and all its bases and methods are the SDK's; those of others may do anything at any time."""
    package = getattr(sdk_class, "_build_request", object).__module__.rpartition(".")[0]
    homes = [sys.modules.get(f"{package}.{name}") for name in ("_client", "_base_client")]
    bases = set(sdk_class.__mro__) - {Generic, object}
    return all(
        any(getattr(home, base.__name__, None) is base for home in homes)
        and all(_is_defined_in(package, member) for member in vars(base).values())
        for base in bases
    )


def _is_defined_in(package: str, member: Any) -> bool:
    names = ("fget", "func", "__func__")  # of properties, cached properties, and static and class methods
    function = next((getattr(member, name) for name in names if getattr(member, name, None)), member)
    if isinstance(function, FunctionType):
        return str(function.__globals__["__name__"]).startswith(f"{package}.")
    return isinstance(function, type) or not callable(function)


def keep_requests(client_class: Any, sdk_class: Any) -> None:
    """Let the clients of `client_class`, which wraps an SDK's own class, make their requests of earlier ones."""
    build_by_sdk = sdk_class._build_request
    async_library: Any = str
    if iscoroutinefunction(sdk_class.post):  # a header tells the library that awaits the call
        package = build_by_sdk.__module__.rpartition(".")[0]
        async_library = getattr(sys.modules.get(f"{package}._utils"), "get_async_library", None)
    if async_library is not None:
        client_class._ctxwrap_requests = ()
        client_class._build_request = _keeping_requests(build_by_sdk, async_library)


def _keeping_requests(build_by_sdk: Any, async_library: Callable[[], Any]) -> Any:
    log, encode = (build_by_sdk.__globals__.get(name) for name in ("log", "openapi_dumps"))

    def build(self: Any, options: Any, *, retries_taken: int = 0) -> Any:
        if not self._ctxwrap_requests:
            self._ctxwrap_requests = [None]
        basis = None if log.isEnabledFor(logging.DEBUG) else _basis_of(self, options, retries_taken, async_library)
        if basis is None:
            return build_by_sdk(self, options, retries_taken=retries_taken)
        kept: list[_KeptRequest | None] = self._ctxwrap_requests
        known = next((each for each in kept if each is not None and each.basis == basis), None)
        if known is not None and known.is_sure:
            return known.with_body(options.json_data)
        request = build_by_sdk(self, options, retries_taken=retries_taken)
        is_sure = known is not None and known.is_like(request, options.json_data)
        others = [each for each in kept if each is not known]
        kept[:] = [_KeptRequest(basis, request, encode, is_sure=is_sure), *others][:_MOST_KEPT]
        return request

    return build


class _Basis(NamedTuple):
    """All that a request depends on beside its body."""

    client: dict[str, Any]
    options: dict[str, Any]
    http: tuple[Any, ...]
    rest: tuple[Any, ...]

    def can_be_kept(self, library: str) -> bool:
        """Whether its changes are seen, and the HTTP library makes a request of headers and JSON alone of it."""
        client, build, build_of_instance, params, *_ = self.client, *self.http
        return (
            not any(map(self.options.get, ("extra_json", "content", "files", "params")))
            and not any((client["_custom_query"], client["_idempotency_header"], build_of_instance, params))
            and not any(type(value) is not dict and isinstance(value, Mapping) for value in client.values())
            and _is_defined_in(library, build)
        )

    def copied(self) -> "_Basis":
        return self._replace(client=_copied(self.client), options=_copied(self.options))


def _basis_of(client: Any, options: Any, retries_taken: int, async_library: Callable[[], Any]) -> _Basis | None:
    """What a request depends on; None if it has another body than JSON, or cookies that cannot be read."""
    given, http = vars(options), client_behind(client._client)
    jar = getattr(http.cookies, "jar", None)
    if not isinstance(given["json_data"], dict) or jar is None:
        return None
    cookies = [(dict(vars(cookie)), cookie.is_expired()) for cookie in jar]
    return _Basis(
        vars(client),
        {name: given[name] for name in options.model_fields_set - _VARYING},
        (type(http).build_request, vars(http).get("build_request"), http.params, http.headers.raw, cookies),
        (type(options.timeout), type(client.timeout), retries_taken, async_library()),  # 1 equals 1.0, but not as text
    )


class _KeptRequest:
    """A request without its body, and what it depends on. It is sure once the SDK has made two that are alike."""

    def __init__(self, basis: _Basis, request: Any, encode: Any, *, is_sure: bool) -> None:
        self._library = module_of(request)
        self._encode = encode or encoding_of(self._library)
        self.basis, self.is_sure = basis.copied(), is_sure and basis.can_be_kept(self._library.__name__)
        self._method, self._url = request.method, request.url
        self._headers = headers_class(self._library)(request.headers)
        self._length_at = place_of_length(self._headers)
        self._extensions = _copied(request.extensions)

    def with_body(self, body: dict[str, Any]) -> Any:
        content = encode_like(self._encode, body)
        stream, extensions = self._library.ByteStream(content), _copied(self._extensions)
        request = self._library.Request(self._method, self._url, stream=stream, extensions=extensions)
        request.headers = self._headers.with_length(len(content), self._length_at)
        request._content = content  # else `read` joins the stream
        request.read()
        return request

    def is_like(self, request: Any, body: dict[str, Any]) -> bool:
        """Whether `request` is this one with another body."""
        return self._length_at is not None and _parts_of(self.with_body(body)) == _parts_of(request)


def place_of_length(headers: Any) -> int | None:
    """Where the length of the body stands among headers; None unless there is one, in a list that can be changed."""
    places = [at for at, (_, name, _) in enumerate(getattr(headers, "_list", ())) if name == b"content-length"]
    return places[0] if len(places) == 1 else None


_NAME_AND_VALUE = itemgetter(0, 2)
"""Of a header in the library's list; between them stands the name in small letters."""


@cache
def headers_class(library: Any) -> Any:
    """The library's class of headers, which looks through all of them for each one; here they are found by name."""

    class Headers(library.Headers):  # type: ignore[misc]
        _by_name: dict[str, str] | None = None
        _expected: dict[str, str] | None = None
        """What `_by_name` will be: with the first one that is asked for, the library finds out that all are ASCII."""

        def with_length(self, length: int, at: int) -> Any:
            """A copy for a body of another length, which stands at this place."""
            made, text = Headers(self), str(length)
            made._list[at] = (*self._list[at][:2], text.encode())
            if self._by_name is None and self.encoding == "ascii":
                self._by_name = dict(self.items())
            if self._by_name is not None:
                made._expected = {**self._by_name, "content-length": text}
            return made

        @property
        def raw(self) -> list[tuple[bytes, bytes]]:
            return list(map(_NAME_AND_VALUE, self._list))

        def __getitem__(self, key: str) -> str:
            if self._by_name is None:
                if self._expected is not None:
                    self.encoding, self._by_name = "ascii", self._expected
                elif self.encoding == "ascii":
                    self._by_name = dict(self.items())
                else:  # what others say depends on it, and it may be set
                    return str(super().__getitem__(key))
            value = self._by_name.get(key.lower())
            if value is None:
                raise KeyError(key)
            return value

        def __setitem__(self, key: str, value: str) -> None:
            self._by_name = self._expected = None
            super().__setitem__(key, value)

        def __delitem__(self, key: str) -> None:
            self._by_name = self._expected = None
            super().__delitem__(key)

        def update(self, headers: Any = None) -> None:
            super().update(headers)
            self._by_name = self._expected = None

    return Headers


def _parts_of(request: Any) -> tuple[Any, ...]:
    return type(request), request.method, request.url, request.headers.raw, request.extensions, request.read()


def _copied(values: dict[str, Any]) -> dict[str, Any]:
    """A copy of `values`, with copies of those that may be changed."""
    return {name: copy(value) if type(value) is dict or is_timeout(value) else value for name, value in values.items()}
