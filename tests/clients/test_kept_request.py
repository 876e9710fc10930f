"""Requests that are made of earlier ones are those that the SDK makes, whatever has changed since."""

import asyncio
import json
import logging
import time
from collections import UserDict
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import ctxwrap
from ctxwrap.clients.http import client_behind, module_of
from ctxwrap.clients.kept_request import headers_class, is_sdks_own, place_of_length
from ctxwrap.clients.request_encoding import encode_like
from ctxwrap.clients.sdk_arguments import PlainBody

CLIENTS = [
    *(("openai", "OpenAI"), ("openai", "AsyncOpenAI"), ("anthropic", "Anthropic"), ("anthropic", "AsyncAnthropic")),
    *(("groq", "Groq"), ("groq", "AsyncGroq")),
]
every_client = pytest.mark.parametrize(("sdk", "name"), CLIENTS)


class Twins:
    """A client and the same one wrapped. They share default headers and their HTTP client."""

    def __init__(self, sdk: str, name: str) -> None:
        self.sdk = pytest.importorskip(sdk)
        self.headers: dict[str, Any] = {"x-default": "1"}
        own = getattr(self.sdk, name)(api_key="x", default_headers=self.headers)
        self.clients = own, ctxwrap.wrap(own, store="memory:")
        self.http = client_behind(self.clients[1]._client)
        self.library = module_of(self.http)
        self.options: dict[str, Any] = {}
        self.retries, self.is_awaited = 0, False
        self.body = 0

    def timeout(self, seconds: float) -> Any:
        return self.library.Timeout(seconds, connect=5)

    def assert_same_request(self, **changes: Any) -> None:
        self.body += 1
        given = {"json_data": {"number": "9" * self.body}, **self.options, **changes}
        models = import_module(f"{self.sdk.__name__}._models")
        made = []
        for client in self.clients:
            options = models.FinalRequestOptions.construct(**{"method": "post", "url": "/path", **given})
            made.append(self.run(lambda client=client, options=options: self.request_of(client, options)))
        theirs, ours = made
        assert type(ours) is type(theirs)
        assert (ours.method, str(ours.url), ours.content) == (theirs.method, str(theirs.url), theirs.content)
        assert ours.headers.raw == theirs.headers.raw
        assert repr(ours.extensions) == repr(theirs.extensions)
        assert b"".join(ours.stream) == theirs.content
        ours.headers["x-hook"] = "an event hook may change requests"
        ours.extensions["timeout"]["read"] = 77

    def request_of(self, client: Any, options: Any) -> Any:
        return client._build_request(options, retries_taken=self.retries)

    def run(self, make: Callable[[], Any]) -> Any:
        async def awaited() -> Any:
            return make()

        return asyncio.run(awaited()) if self.is_awaited else make()


def for_both(change: Callable[[Any, Any], None]) -> Callable[[Twins, Any], None]:
    def apply(twins: Twins, value: Any) -> None:
        for client in twins.clients:
            change(client, value)

    return apply


def set_default_header(twins: Twins, value: str) -> None:
    twins.headers["x-default"] = value


def set_http_header(twins: Twins, value: str) -> None:
    twins.http.headers["x-http"] = value


def set_cookies(twins: Twins, header: str) -> None:
    request = twins.library.Request("POST", str(twins.clients[0].base_url))
    twins.http.cookies.extract_cookies(twins.library.Response(200, headers={"set-cookie": header}, request=request))


def expire_cookies(twins: Twins, seconds: int | None) -> None:
    for cookie in twins.http.cookies.jar:
        cookie.expires = None if seconds is None else int(time.time()) + seconds


def set_option(twins: Twins, option: tuple[str, Any]) -> None:
    name, value = option
    twins.options[name] = value(twins) if callable(value) else value


CHANGES: dict[str, tuple[Callable[[Twins, Any], None], list[Any]]] = {
    "key": (for_both(lambda client, value: setattr(client, "api_key", value)), ["a", "b"]),
    "base": (for_both(lambda client, value: setattr(client, "base_url", value)), ["http://a_b/v1", "http://b/v2/?c=d"]),
    "timeout": (for_both(lambda client, value: setattr(client, "timeout", value)), [5, 5.0, None]),
    "client headers": (for_both(lambda client, value: setattr(client, "_custom_headers", value)), [{}, {"x-c": "d"}]),
    "query": (for_both(lambda client, value: setattr(client, "_custom_query", value)), [{}, {"a": "b"}]),
    "default header": (set_default_header, ["1", "2"]),
    "http header": (set_http_header, ["1", "2"]),
    "http cookie": (lambda twins, value: twins.http.cookies.set("cookie", value), ["1", "2"]),
    "cookies of responses": (set_cookies, ["a=1; Path=/", "a=2; Path=/", "b=3; Max-Age=60; Secure", "b=4; Path=/no"]),
    "cookies expire": (expire_cookies, [9, None, -9]),
    "no cookies": (lambda twins, value: twins.http.cookies.clear(), [None]),
    "http query": (lambda twins, value: setattr(twins.http, "params", value), [{}, {"a": "b"}]),
    "option": (
        set_option,
        [
            *(("headers", {}), ("headers", {"x-option": "1"}), ("headers", {"Content-Type": "text/plain"})),
            *(("timeout", 5), ("timeout", 5.0), ("timeout", None), ("timeout", lambda twins: twins.timeout(9))),
            *(("params", {}), ("params", {"a": 1}), ("idempotency_key", "k"), ("url", "/other"), ("url", "http://c/d")),
            *(("extra_json", {"extra": 1}), ("json_data", {"a": [None, 0.5]}), ("json_data", None)),
        ],
    ),
    "retries": (lambda twins, value: setattr(twins, "retries", value), [0, 1]),
    "awaited": (lambda twins, value: setattr(twins, "is_awaited", value), [True, False]),
}
STEPS = st.sampled_from([(name, value) for name, (_, values) in CHANGES.items() for value in values])


@every_client
@given(steps=st.lists(STEPS, max_size=6))
def test_requests_are_those_of_the_sdk_after_every_change(sdk: str, name: str, steps: list[tuple[str, Any]]) -> None:
    twins = Twins(sdk, name)
    for change, value in [("retries", 0), *steps]:
        CHANGES[change][0](twins, value)
        for _ in range(4):
            twins.assert_same_request()


@every_client
@pytest.mark.parametrize("change", CHANGES)
def test_each_value_of_a_setting_is_told_from_the_last(sdk: str, name: str, change: str) -> None:
    twins = Twins(sdk, name)
    apply, values = CHANGES[change]
    for value in values:
        apply(twins, value)
        for _ in range(4):
            twins.assert_same_request()


@every_client
def test_a_query_that_is_changed_in_place_is_seen(sdk: str, name: str) -> None:
    twins, items = Twins(sdk, name), [1]
    twins.options["params"] = {"a": items}
    for _ in range(2):
        items.append(2)
        for _ in range(4):
            twins.assert_same_request()
    del twins.options["params"]
    for client in twins.clients:
        client._custom_query = {"a": items}
    for _ in range(2):
        items.append(2)
        for _ in range(4):
            twins.assert_same_request()


@every_client
def test_a_timeout_that_is_changed_in_place_is_seen(sdk: str, name: str) -> None:
    twins = Twins(sdk, name)
    timeout = twins.timeout(9)
    for client in twins.clients:
        client.timeout = timeout
    for seconds in (1, 2):
        timeout.read = seconds
        for _ in range(4):
            twins.assert_same_request()


def test_default_headers_of_another_type_are_read_every_time() -> None:
    openai = pytest.importorskip("openai")
    headers = UserDict({"x-default": "1"})
    wrapped = ctxwrap.wrap(openai.OpenAI(api_key="x", default_headers=headers), store="memory:")
    for value in ("1", "2"):
        headers["x-default"] = value
        assert {request_of(wrapped).headers["x-default"] for _ in range(4)} == {value}


def request_of(client: Any) -> Any:
    options = import_module("openai._models").FinalRequestOptions
    return client._build_request(options.construct(method="post", url="/path", json_data={"a": 1}))


def test_a_client_class_of_others_makes_its_own_requests() -> None:
    openai = pytest.importorskip("openai")

    class Counting(openai.OpenAI):  # type: ignore[misc, name-defined]
        count = 0

        @property
        def default_headers(self) -> Any:
            self.count += 1
            return {**super().default_headers, "x-count": str(self.count)}

    assert is_sdks_own(openai.OpenAI)
    assert not is_sdks_own(openai.AzureOpenAI)
    wrapped = ctxwrap.wrap(Counting(api_key="x"), store="memory:")
    assert len({request_of(wrapped).headers["x-count"] for _ in range(9)}) == 9


def test_a_patched_class_makes_its_own_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    openai = pytest.importorskip("openai")
    for method in ("_build_headers", "_prepare_url", "request"):
        with monkeypatch.context() as patch:
            patch.setattr(openai.OpenAI, method, lambda self, *args, **keywords: None)
            assert not is_sdks_own(openai.OpenAI)
    assert is_sdks_own(openai.OpenAI)


@pytest.mark.parametrize("where", ["instance", "class"])
def test_an_http_client_that_builds_its_own_requests_is_asked(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one that starts to do so later."""
    openai = pytest.importorskip("openai")
    wrapped = ctxwrap.wrap(openai.OpenAI(api_key="x"), store="memory:")
    http = client_behind(wrapped._client)
    original, count = http.build_request, 0

    def build(*arguments: Any, **keywords: Any) -> Any:
        nonlocal count
        count += 1
        return original(*arguments[where == "class" :], **keywords)

    for _ in range(4):
        request_of(wrapped)
    monkeypatch.setattr(http if where == "instance" else type(http), "build_request", build)
    for _ in range(4):
        request_of(wrapped)
    assert count == 4


def test_requests_are_logged_if_the_caller_logs_them(caplog: pytest.LogCaptureFixture) -> None:
    openai = pytest.importorskip("openai")
    wrapped = ctxwrap.wrap(openai.OpenAI(api_key="x"), store="memory:")
    for _ in range(4):
        request_of(wrapped)
    with caplog.at_level(logging.DEBUG, logger="openai._base_client"):
        for _ in range(4):
            request_of(wrapped)
    assert len(caplog.messages) == 4


def test_a_key_that_is_asked_for_in_every_call_is_sent() -> None:
    openai = pytest.importorskip("openai")
    keys, sent = iter(range(9)), []

    def answer(request: Any) -> Any:
        sent.append(request.headers["authorization"])
        return library.Response(200, json={})

    library = module_of(openai.DefaultHttpxClient())
    http = library.Client(transport=library.MockTransport(answer))
    own = openai.OpenAI(api_key=lambda: f"key-{next(keys)}", http_client=http)
    wrapped = ctxwrap.wrap(own, store="memory:", context_mode="disabled", session="s")
    for _ in range(5):
        wrapped.chat.completions.create(model="m", messages=[{"role": "user", "content": "Hi."}])
    assert sent == [f"Bearer key-{number}" for number in range(5)]


@every_client
def test_the_sdk_is_asked_for_two_requests_of_a_kind(sdk: str, name: str) -> None:
    """Whatever the kinds in between; nothing of a body stays."""
    twins = Twins(sdk, name)
    wrapped, kinds = twins.clients[1], ({}, {"timeout": 5}, {"url": "/other"})
    for _ in range(4):
        for kind in kinds:
            twins.assert_same_request(**kind)
    assert [each.is_sure for each in wrapped._ctxwrap_requests if each] == [True] * 3
    assert b"9" * twins.body not in repr([vars(each) for each in wrapped._ctxwrap_requests if each]).encode()


NAMES = st.sampled_from(("Accept", "accept", "X-A", "x-a", "X-B"))
VALUES = st.sampled_from(("1", "2, 3", "ü", ""))
STEPS = st.one_of(
    st.tuples(st.just("get"), NAMES),
    st.tuples(st.just("__setitem__"), NAMES, VALUES),
    st.tuples(st.just("pop"), NAMES, st.none()),
    st.tuples(st.just("setdefault"), NAMES, VALUES),
    st.tuples(st.just("update"), st.lists(st.tuples(NAMES, VALUES), max_size=3)),
)


@pytest.mark.parametrize("library", ["httpx", "httpx2"])
@given(st.lists(st.tuples(NAMES, VALUES), max_size=4), st.lists(STEPS, max_size=6))
def test_headers_found_by_name_are_those_of_the_library(
    library: str, given: list[tuple[str, str]], steps: list[tuple[Any, ...]]
) -> None:
    module = pytest.importorskip(library)
    plain = module.Headers([(name, value.encode()) for name, value in given])
    quick = headers_class(module)(plain)
    assert isinstance(quick, module.Headers)
    for method, *arguments in steps:
        assert outcome(quick, method, arguments) == outcome(plain, method, arguments)
        assert dict(quick) == dict(plain)
        assert (quick.raw, quick.encoding, repr(quick)) == (plain.raw, plain.encoding, repr(plain))


@pytest.mark.parametrize("library", ["httpx", "httpx2"])
@given(st.lists(st.tuples(NAMES, VALUES), max_size=4), st.lists(STEPS, max_size=6), st.integers(0, 1 << 40))
def test_headers_for_another_body_are_those_of_the_library(
    library: str, given: list[tuple[str, str]], steps: list[tuple[Any, ...]], length: int
) -> None:
    """Also in what they refuse, which depends on whether somebody has asked for one before."""
    module = pytest.importorskip(library)
    plain = module.Headers([("Content-Length", "7"), *((name, value.encode()) for name, value in given)])
    kept = headers_class(module)(plain)
    plain["Content-Length"] = str(length)
    for _ in range(2):
        expected, made = module.Headers(plain), kept.with_length(length, place_of_length(kept))
        assert made.raw == expected.raw
        for method, *arguments in steps:
            assert outcome(made, method, arguments) == outcome(expected, method, arguments)
            assert made.raw == expected.raw
        assert (dict(made), made.encoding, repr(made)) == (dict(expected), expected.encoding, repr(expected))
        assert made.get("content-length") == expected.get("content-length") == str(length)


def outcome(headers: Any, method: str, arguments: list[Any]) -> object:
    try:
        return getattr(headers, method)(*arguments)
    except UnicodeEncodeError as error:  # of a name or a value that the encoding lacks
        return type(error)


def encoders() -> dict[str, Callable[[Any], bytes]]:
    """The encoders of the SDKs and HTTP libraries that are installed, and two that write JSON in another way."""
    found: dict[str, Callable[[Any], bytes]] = {
        "spaced": lambda body: json.dumps(body, ensure_ascii=False).encode(),
        "ascii": lambda body: json.dumps(body, separators=(",", ":")).encode(),
    }
    for library in ("httpx", "httpx2"):
        with suppress(ImportError):
            make = import_module(library).Request
            found[library] = lambda body, make=make: make("POST", "http://a", json=body).content
    for sdk in ("openai", "anthropic", "groq"):
        with suppress(ImportError, AttributeError):
            found[sdk] = import_module(f"{sdk}._utils._json").openapi_dumps
    return found


SCALARS = st.one_of(
    *(st.none(), st.booleans(), st.integers(), st.floats(), st.text()),
    *(st.text(st.characters(codec=None)), st.sampled_from((1e-5, 1e16, 1e22, 0.7, 5e-324, -0.0, 1e15))),
)
NESTED = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner), st.dictionaries(st.text(), inner), st.tuples(inner)),
    max_leaves=8,
)


@pytest.mark.parametrize(("name", "encode"), encoders().items())
@given(body=st.dictionaries(st.text(), NESTED), is_plain=st.booleans())
def test_bodies_are_encoded_as_by_the_sdk(
    name: str, encode: Callable[[Any], bytes], body: dict[str, Any], is_plain: bool
) -> None:
    body = PlainBody(body) if is_plain else body
    try:
        expected = encode(body)
    except ValueError as error:
        with pytest.raises(type(error)):
            encode_like(encode, body)
    else:
        assert encode_like(encode, body) == expected


@pytest.mark.parametrize(("name", "encode"), encoders().items())
def test_bodies_nested_deeply_are_encoded_as_by_the_sdk(name: str, encode: Callable[[Any], bytes]) -> None:
    for depth in (10, 300, 100_000):
        value: list[Any] = []
        for _ in range(depth):
            value = [value]
        try:
            expected = encode({"a": value})
        except RecursionError:
            with pytest.raises(RecursionError):
                encode_like(encode, PlainBody(a=value))
        else:
            assert encode_like(encode, PlainBody(a=value)) == expected


def test_requests_with_cookies_are_kept_until_one_changes_or_expires() -> None:
    """Providers behind Cloudflare, as OpenAI, set cookies with the first response."""
    twins = Twins("openai", "OpenAI")
    for changes, known in ((("a=1; Path=/", "b=1; Path=/; Max-Age=60"), 1), (("b=2; Path=/; Max-Age=60",), 2)):
        for header in changes:
            set_cookies(twins, header)
        for _ in range(3):
            twins.assert_same_request()
        kept = [each for each in twins.clients[1]._ctxwrap_requests if each]
        assert [each.is_sure for each in kept] == [True] * known
    cookies = {cookie.name: cookie for cookie in twins.http.cookies.jar}
    assert "b=2" in request_of(twins.clients[1]).headers["cookie"]
    cookies["b"].expires = int(time.time()) - 9
    assert request_of(twins.clients[1]).headers["cookie"] == "a=1"
