"""What the proxy refuses: other places to send to, requests that two servers read differently, too much of anything."""

import gzip
import json
import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from threading import Event
from typing import Any

import httpx
import pytest

from ctxwrap.errors import SettingsError
from ctxwrap.service.serve.config import parse_upstreams
from ctxwrap.service.web import HttpConnection
from ctxwrap.testing.practice import Failure, Provider
from tests.clients.openai_cases import CHAT
from tests.service.serve.conftest import Stage
from tests.service.serve.serving import PATIENCE, Proxy, proxy, upstreams_of
from tests.support import Told, said

JSON_TYPE = {"content_type": "application/json"}


@pytest.fixture(scope="module")
def canary() -> Iterator[Provider]:
    """A server that nobody may reach."""
    with Provider(Told()) as provider:
        yield provider


def nested(name: str, value: str, depth: int) -> dict[str, Any]:
    inner: dict[str, Any] = {name: value}
    for level in range(depth - 1):
        inner = {f"level_{level}": [inner] if level % 2 else inner}
    return inner


@pytest.mark.parametrize("depth", [1, 2, 3, 4])
@pytest.mark.parametrize("name", ["base_url", "api_base", "baseURL", "azure_endpoint"])
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/embeddings"])
def test_fields_that_name_another_place_are_refused(
    stage: Stage, canary: Provider, path: str, name: str, depth: int
) -> None:
    body = {**CHAT, **nested(name, canary.openai_url, depth)}
    reply = stage.proxy.ask("POST", path, json.dumps(body).encode(), **JSON_TYPE)
    assert reply.status == 400
    assert b"the operator of the proxy chooses its upstreams" in reply.body
    assert stage.provider.seen == canary.seen == []


def test_compressed_bodies_are_read_too(stage: Stage, canary: Provider) -> None:
    coded = {**JSON_TYPE, "content_encoding": "gzip", "x_ctxwrap_session": "gzip"}
    body = gzip.compress(json.dumps({**CHAT, "api_base": canary.openai_url}).encode())
    assert stage.proxy.ask("POST", "/v1/chat/completions", body, **coded).status == 400
    assert stage.provider.seen == canary.seen == []
    assert (
        stage.proxy.ask("POST", "/v1/chat/completions", gzip.compress(json.dumps(CHAT).encode()), **coded).status == 200
    )
    assert said(stage.home, "gzip")[0] == ("user", "Say hello.")


def test_messages_and_tools_may_name_any_field(stage: Stage, canary: Provider) -> None:
    schema = {"type": "object", "properties": {"base_url": {"type": "string", "default": canary.url}}}
    tools = [{"type": "function", "function": {"name": "fetch", "parameters": schema}}]
    body = {**CHAT, "tools": tools}
    assert stage.proxy.ask("POST", "/v1/chat/completions", json.dumps(body).encode(), **JSON_TYPE).status == 200
    assert canary.seen == []


def test_absolute_urls_in_the_request_line_are_refused(stage: Stage, canary: Provider) -> None:
    host = f"127.0.0.1:{stage.proxy.port}"
    for target in (f"{canary.url}/v1/models", f"//{canary.url[7:]}/v1/models", "evil:443", "*"):
        reply = stage.proxy.send_raw(f"GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        assert reply.split(b" ", 2)[1] in (b"400", b"404"), (target, reply)
    assert stage.provider.seen == canary.seen == []


@pytest.mark.parametrize(
    "path",
    [
        "/v1/../v1/models",
        "/v1/%2e%2e/models",
        "/v1/..%2fmodels",
        "/v1//models",
        "/v1/models%00",
        "/v1/models%5c..",
        "/v2/models",
        "/other/v1/models",
        "/",
        "/@evil.example/v1/models",
    ],
)
def test_paths_with_a_second_meaning_are_refused(stage: Stage, path: str) -> None:
    assert stage.proxy.ask("GET", path).status in (400, 404)
    assert stage.provider.seen == []


def test_methods_that_no_api_has_are_refused(stage: Stage) -> None:
    for method in ("TRACE", "CONNECT", "OPTIONS", "PROPFIND"):
        assert stage.proxy.ask(method, "/v1/models").status in (400, 405)
    assert stage.provider.seen == []


@pytest.mark.parametrize(
    "headers",
    [
        "Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
        "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n",
        "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
        "Authorization: Bearer a\r\nAuthorization: Bearer b\r\nContent-Length: 2\r\n\r\n{}",
        "X-Ctxwrap-Session: a\r\nX-Ctxwrap-Session: b\r\nContent-Length: 2\r\n\r\n{}",
        "Host: other.example\r\nContent-Length: 2\r\n\r\n{}",
        "X-Own: a\r\n b\rc: d\r\nContent-Length: 2\r\n\r\n{}",
        "Content-Length: +2\r\n\r\n{}",
        "Content-Length: 2\r\nX Y: 1\r\n\r\n{}",
    ],
)
def test_headers_that_servers_read_differently_are_refused(stage: Stage, headers: str) -> None:
    host = f"Host: 127.0.0.1:{stage.proxy.port}\r\n"
    start = f"POST /v1/chat/completions HTTP/1.1\r\n{host}Content-Type: application/json\r\n"
    reply = stage.proxy.send_raw((start + headers).encode())
    assert reply.split(b" ", 2)[1] in (b"400", b"501"), reply
    assert stage.provider.seen == []


def test_a_second_request_inside_a_body_stays_in_the_body(stage: Stage) -> None:
    inner = b"GET /v1/secret HTTP/1.1\r\nHost: x\r\n\r\n"
    assert stage.proxy.ask("POST", "/v1/embeddings", inner).status == 400
    (seen,) = stage.provider.seen
    assert (seen.path, seen.body) == ("/v1/embeddings", inner)


def test_headers_of_one_hop_and_of_ctxwrap_do_not_leave(stage: Stage) -> None:
    stage.proxy.ask(
        "GET",
        "/v1/models",
        connection="close, X-Secret",
        x_secret="1",
        te="trailers",
        proxy_authorization="Basic x",
        x_forwarded_for="10.0.0.1",
        x_ctxwrap_token="t",
        keep_alive="1",
        upgrade="h2c",
        x_own="kept",
    )
    (seen,) = stage.provider.seen
    assert seen.headers["x-own"] == "kept"
    assert seen.headers["host"] == stage.provider.url.removeprefix("http://")
    assert {*seen.headers} <= {"host", "accept-encoding", "x-own", "connection"}
    assert seen.headers.get("connection") is None


def test_redirects_of_an_upstream_are_not_followed(stage: Stage, canary: Provider) -> None:
    stage.provider.answer = lambda ask: Failure(307, headers={"location": f"{canary.openai_url}/chat/completions"})
    reply = stage.proxy.ask("POST", "/v1/chat/completions", json.dumps(CHAT).encode(), **JSON_TYPE)
    assert reply.status == 307
    assert canary.seen == []


def test_pages_and_names_of_others_are_refused_without_tokens(stage: Stage) -> None:
    assert stage.proxy.ask("GET", "/v1/models", host="evil.example").status == 421
    assert stage.proxy.ask("GET", "/v1/models", origin="https://evil.example").status == 403
    assert stage.proxy.ask("GET", "/v1/models", sec_fetch_site="cross-site").status == 403
    assert stage.provider.seen == []


def test_signed_requests_are_refused_with_the_reason(stage: Stage) -> None:
    body = json.dumps(CHAT).encode()
    named = {"x_ctxwrap_session": "signed", "content_md5": "x"}
    reply = stage.proxy.ask("POST", "/v1/chat/completions", body, **JSON_TYPE, **named)
    assert reply.status == 400
    assert "is a digest of the request's body" in json.loads(reply.body)["error"]["message"]
    assert stage.provider.seen == []


def test_a_wrong_mode_is_refused_in_the_form_of_the_api(stage: Stage) -> None:
    named = {"x_ctxwrap_session": "s", "x_ctxwrap_mode": "wrong"}
    for path in ("/v1/chat/completions", "/v1/messages"):
        reply = stage.proxy.ask("POST", path, json.dumps(CHAT).encode(), **JSON_TYPE, **named)
        error = json.loads(reply.body)
        assert (reply.status, error["error"]["type"]) == (400, "invalid_request_error")
        assert error.get("type") == ("error" if path == "/v1/messages" else None)


# --- limits -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Proxy, Provider]]:
    home = tmp_path_factory.mktemp("small")
    with (
        Provider(Told()) as provider,
        proxy(home, *upstreams_of(provider), limits={"body": 1000, "memory": 1500, "requests": 1}) as at,
    ):
        yield at, provider


def test_long_bodies_are_refused_by_their_length_and_by_what_arrives(small: tuple[Proxy, Provider]) -> None:
    at, provider = small
    host = f"Host: 127.0.0.1:{at.port}\r\n"
    assert at.ask("POST", "/v1/embeddings", b"x" * 1001).status == 413
    announced = f"POST /v1/embeddings HTTP/1.1\r\n{host}Content-Length: 99999999999\r\n\r\n"
    assert at.send_raw(announced.encode()).startswith(b"HTTP/1.1 413 ")
    chunk = b"%x\r\n%s\r\n" % (600, b"x" * 600)
    chunked = f"POST /v1/embeddings HTTP/1.1\r\n{host}Transfer-Encoding: chunked\r\n\r\n".encode() + 3 * chunk
    assert at.send_raw(chunked).startswith(b"HTTP/1.1 413 ")
    assert provider.seen == []


def test_requests_beyond_the_limit_are_refused_and_held_bytes_are_freed(small: tuple[Proxy, Provider]) -> None:
    at, _ = small
    begun = f"POST /v1/embeddings HTTP/1.1\r\nHost: 127.0.0.1:{at.port}\r\nContent-Length: 900\r\n\r\n".encode()
    with socket.create_connection(("127.0.0.1", at.port), timeout=PATIENCE) as first:
        first.sendall(begun + b"x" * 800)
        at.wait_for_metric("ctxwrap_requests_in_flight 1")
        reply = at.ask("POST", "/v1/embeddings", b"x")
        assert (reply.status, reply.headers["retry-after"]) == (503, "1")
    for _ in range(3):
        at.wait_for_metric("ctxwrap_requests_in_flight 0")
        assert at.ask("POST", "/v1/embeddings", b"x" * 900).status != 503


def test_slow_bodies_end_with_the_connection(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HttpConnection, "SECONDS", 0.05)
    begun = f"POST /v1/embeddings HTTP/1.1\r\nHost: 127.0.0.1:{stage.proxy.port}\r\nContent-Length: 900\r\n\r\n{{"
    with socket.create_connection(("127.0.0.1", stage.proxy.port), timeout=PATIENCE) as slow:
        slow.sendall(begun.encode())
        with suppress(ConnectionResetError):
            assert slow.recv(100) == b""
    assert stage.provider.seen == []


def test_a_request_that_takes_too_long_is_answered(tmp_path: Path) -> None:
    gate = Event()
    with Provider(lambda ask: Failure(500, hang=gate.wait)) as provider:
        with proxy(tmp_path, *upstreams_of(provider), limits={"seconds": 0.2}) as at:
            body = json.dumps(CHAT).encode()
            assert at.ask("POST", "/v1/chat/completions", body, **JSON_TYPE, x_ctxwrap_session="s").status == 504
            gate.set()
        assert said(tmp_path, "s") == [("user", "Say hello.")]


@pytest.mark.parametrize(
    "text",
    [
        "openai",
        "openai=ftp://host",
        "openai=https://user@host/v1",
        "openai=https://host/v1?x=1",
        "v1=https://host",
        "Open AI=https://host",
    ],
)
def test_upstreams_that_are_no_plain_url_are_refused(text: str) -> None:
    with pytest.raises(SettingsError):
        parse_upstreams([text])


def test_an_upstream_is_known_by_its_name_or_api() -> None:
    found = parse_upstreams(["anthropic=https://a/v1", "ollama=http://o/v1/", "mine:anthropic=https://m"])
    assert [(each.name, each.url, each.api) for each in found] == [
        ("anthropic", "https://a/v1", "anthropic"),
        ("ollama", "http://o/v1", "openai"),
        ("mine", "https://m", "anthropic"),
    ]


def test_an_upstream_that_is_away_is_a_502(tmp_path: Path) -> None:
    with Provider() as provider:
        upstreams = upstreams_of(provider)
    with proxy(tmp_path, *upstreams) as at:
        reply = httpx.post(f"{at.url}/v1/chat/completions", json=CHAT, headers={"x-ctxwrap-session": "s"})
    assert reply.status_code == 502
    assert "cannot be reached" in reply.json()["error"]["message"]
