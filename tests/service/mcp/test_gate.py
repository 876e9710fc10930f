"""Nobody comes in over HTTP without a token, by another name, from a page, or to what is another tenant's."""

import hashlib
import json
import os
import re
import signal
import time
from collections.abc import Iterable
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, NamedTuple

import anyio
import pytest
from click.testing import CliRunner

from ctxwrap.cli import main
from ctxwrap.errors import SettingsError
from ctxwrap.service.mcp.auth import ENVIRONMENT, Tokens, new_token, read_access
from ctxwrap.service.mcp.http import LARGEST_BODY
from ctxwrap.service.web import Address, allowed_hosts, is_known_host, is_loopback, is_own_origin, parse_address
from tests.service.mcp.doors import TOKENS, OverHttp, http_server

ACME, OTHER = TOKENS
JSON = ("content-type", "application/json")
ACCEPT = ("accept", "application/json, text/event-stream")


class Reply(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes


def ask(
    port: int,
    *headers: tuple[str, str],
    method: str = "POST",
    path: str = "/mcp",
    body: Any = None,
    host: str | None = "",
    token: str | None = ACME,
) -> Reply:
    """One request, with just these headers and a Host, which None leaves out."""
    data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
    connection = HTTPConnection("127.0.0.1", port, timeout=20)
    connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
    own = [("host", host or f"127.0.0.1:{port}")] if host is not None else []
    own += [("authorization", f"Bearer {token}")] if token is not None else []
    own += [("content-length", str(len(data)))] if data is not None else []
    for name, value in [*own, *headers]:
        connection.putheader(name, value)
    connection.endheaders()
    if data is not None:
        connection.send(data)
    reply = connection.getresponse()
    found = Reply(reply.status, {name.lower(): value for name, value in reply.getheaders()}, reply.read())
    connection.close()
    return found


def called(method: str, number: int | None = 1, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": method, "params": params} | ({} if number is None else {"id": number})


HELLO = called("initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo={"name": "test", "version": "1"})


def with_session(session: str) -> tuple[tuple[str, str], ...]:
    return JSON, ACCEPT, ("mcp-session-id", session), ("mcp-protocol-version", "2025-06-18")


@pytest.fixture(scope="module")
def session(port: int) -> str:
    """A session of the tenant acme."""
    reply = ask(port, JSON, ACCEPT, body=HELLO)
    assert reply.status == 200
    id = reply.headers["mcp-session-id"]
    assert ask(port, *with_session(id), body=called("notifications/initialized", None)).status == 202
    return id


def test_request_with_a_valid_token_is_accepted(port: int, session: str) -> None:
    assert ask(port, *with_session(session), body=called("tools/list")).status == 200


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE", "PUT", "OPTIONS", "HEAD"])
@pytest.mark.parametrize("path", ["/mcp", "/", "/mcp/", "/docs", "//mcp", "/%6dcp"])
def test_request_without_a_token_is_rejected(port: int, method: str, path: str) -> None:
    reply = ask(port, JSON, ACCEPT, method=method, path=path, token=None, body=HELLO)
    assert reply.status == 401
    assert reply.headers["www-authenticate"] == "Bearer"
    assert not [name for name in reply.headers if name.startswith("access-control")]


@pytest.mark.parametrize(
    "token",
    [
        "",
        "wrong-token-0123456789",
        ACME[:-1],
        ACME + "0",
        ACME.upper(),
        hashlib.sha256(ACME.encode()).hexdigest(),
        "é" * 20,
        "a" * 10_000,
    ],
    ids=["empty", "wrong", "shorter", "longer", "upper", "hash", "odd", "huge"],
)
def test_request_with_an_unknown_token_is_rejected(port: int, session: str, token: str) -> None:
    assert ask(port, *with_session(session), body=called("tools/list"), token=token).status == 401


@pytest.mark.parametrize("scheme", ["Basic", "", "Bearerx"])
def test_token_must_use_the_bearer_scheme(port: int, scheme: str) -> None:
    reply = ask(port, ("authorization", f"{scheme} {ACME}".strip()), JSON, ACCEPT, body=HELLO, token=None)
    assert reply.status == 401


def test_request_with_two_authorization_headers_is_rejected(port: int) -> None:
    assert ask(port, ("authorization", f"Bearer {OTHER}"), JSON, ACCEPT, body=HELLO).status == 401


@pytest.mark.parametrize("method", ["POST", "GET", "DELETE"])
def test_mcp_session_is_rejected_with_the_token_of_another_tenant(port: int, session: str, method: str) -> None:
    body = called("tools/list") if method == "POST" else None
    foreign = ask(port, *with_session(session), method=method, body=body, token=OTHER)
    unknown = ask(port, *with_session("0" * len(session)), method=method, body=body, token=OTHER)
    assert foreign.status == unknown.status == 404
    assert foreign.body == unknown.body
    assert ask(port, *with_session(session), body=called("tools/list")).status == 200, "and it goes on for its own"


@pytest.mark.parametrize(
    "host",
    [
        *("evil.com", "evil.com:{port}", "localhost.evil.com:{port}", "127.0.0.1", "127.0.0.1:1", "localhost.:{port}"),
        *("127.0.0.1.:{port}", "127.0.0.1:{port}@evil.com", "0.0.0.0:{port}", "[::]:{port}", " ", None),
    ],
)
def test_request_with_an_unknown_host_is_rejected(port: int, host: str | None) -> None:
    reply = ask(port, JSON, ACCEPT, body=HELLO, host=host and host.format(port=port))
    assert reply.status in ((400, 421) if host in (None, " ") else (421,))


def test_request_with_two_host_headers_is_rejected(port: int) -> None:
    reply = ask(port, ("host", "evil.com"), JSON, ACCEPT, body=HELLO)
    assert reply.status in (400, 421)


@pytest.mark.parametrize("host", ["localhost:{port}", "LOCALHOST:{port}", "[::1]:{port}"])
def test_request_with_any_allowed_host_is_accepted(port: int, host: str) -> None:
    assert ask(port, JSON, ACCEPT, body=HELLO, host=host.format(port=port)).status == 200


@pytest.mark.parametrize(
    "origin", ["null", "http://evil.com", "https://127.0.0.1", "file://127.0.0.1:{port}", "http://localhost.evil.com"]
)
def test_request_from_a_foreign_origin_is_rejected(port: int, origin: str) -> None:
    assert ask(port, ("origin", origin.format(port=port)), JSON, ACCEPT, body=HELLO).status == 403


@pytest.mark.parametrize(("site", "status"), [("cross-site", 403), ("same-site", 403), ("none", 200)])
def test_browsers_say_where_a_request_is_from(port: int, site: str, status: int) -> None:
    assert ask(port, ("sec-fetch-site", site), JSON, ACCEPT, body=HELLO).status == status


def test_request_from_its_own_origin_is_accepted(port: int) -> None:
    assert ask(port, ("origin", f"http://127.0.0.1:{port}"), JSON, ACCEPT, body=HELLO).status == 200


@pytest.mark.parametrize(
    "content_type",
    ["application/x-www-form-urlencoded", "text/plain", "application/jsonx", "multipart/form-data", None],
)
def test_request_without_a_json_content_type_is_rejected(port: int, content_type: str | None) -> None:
    said = [("content-type", content_type)] if content_type else []
    assert ask(port, *said, ACCEPT, body=HELLO).status == 415


def test_only_the_mcp_path_is_served(port: int) -> None:
    for path in ("/", "/mcp/", "/mcp/x", "//mcp", "/%6dcp", "/docs"):
        assert ask(port, JSON, ACCEPT, path=path, body=HELLO).status == 404, path


def test_body_over_the_size_limit_is_rejected(port: int) -> None:
    reply = ask(port, JSON, ACCEPT, body=b'"' + b"x" * LARGEST_BODY + b'"')
    assert reply.status == 413


def test_chunked_body_over_the_size_limit_is_rejected(port: int) -> None:
    def chunks() -> Iterable[bytes]:
        yield from (b"x" * 65_536 for _ in range(LARGEST_BODY // 65_536 + 1))

    connection = HTTPConnection("127.0.0.1", port, timeout=20)
    headers = dict([JSON, ACCEPT, ("authorization", f"Bearer {ACME}"), ("host", f"127.0.0.1:{port}")])
    connection.request("POST", "/mcp", chunks(), headers, encode_chunked=True)
    assert connection.getresponse().status == 413
    connection.close()


def test_token_is_checked_before_the_body_is_read(port: int) -> None:
    """The answer comes although the body never does."""
    connection = HTTPConnection("127.0.0.1", port, timeout=20)
    connection.putrequest("POST", "/mcp")
    for name, value in (JSON, ("content-length", "1000")):
        connection.putheader(name, value)
    connection.endheaders()
    assert connection.getresponse().status == 401
    connection.close()


def test_each_tenant_has_its_own_memories(url: str) -> None:
    async def scenario() -> None:
        async with OverHttp(url, ACME).open() as acme, OverHttp(url, OTHER).open() as other:
            made = (await acme.call("create_memory", title="Secret-plans")).data["memoryId"]
            await acme.call("add_entry", raw_entry="The canary sings.", memory_id=made)
            for tool, more in READING.items():
                foreign = await other.call(tool, memory_id=made, **more)
                unknown = await other.call(tool, memory_id=_another(made), **more)
                assert foreign.failed
                assert unknown.failed
                assert foreign.text.replace(made, "?") == unknown.text.replace(_another(made), "?"), tool
            assert made not in (await other.call("list_memories")).text
            assert (await other.call("get_user")).data["userId"] == "other"
            assert not (await acme.call("get_memory", memory_id=made)).failed

    anyio.run(scenario)


READING: dict[str, dict[str, Any]] = {
    "get_memory": {},
    "list_entries": {},
    "get_context": {},
    "await_consistency": {},
    "search_memories": {"query": "canary"},
    "get_entry": {"entry_id": "1"},
    "add_entry": {"raw_entry": "Let me in."},
    "put_context": {"content": "Mine."},
}


def _another(id: str) -> str:
    """An id of the same form that is nobody's."""
    return id[:-4] + ("0000" if id[-4:] != "0000" else "1111")


def test_tool_argument_cannot_choose_the_tenant(url: str) -> None:
    async def scenario() -> None:
        async with OverHttp(url, OTHER).open() as other:
            assert (await other.call("get_user", tenant="acme")).failed

    anyio.run(scenario)


def test_server_without_tokens_generates_one_and_prints_it_once(tmp_path: Path) -> None:
    with http_server(tmp_path, "--tenant", "solo") as (url, server):
        assert server.stderr is not None
        said = re.fullmatch(r"token for tenant 'solo': (\S{40,})\n", server.stderr.readline())
        assert said is not None

        async def whose() -> str:
            async with OverHttp(url, said[1]).open() as connection:
                id: str = (await connection.call("get_user")).data["userId"]
                return id

        assert anyio.run(whose) == "solo"
    written = [path for path in tmp_path.rglob("*") if path.is_file() and said[1].encode() in path.read_bytes()]
    assert written == []


def test_server_shuts_down_cleanly_with_an_open_stream(tmp_path: Path, token_file: Path) -> None:
    with http_server(tmp_path, "--token-file", str(token_file)) as (url, server):
        port = int(url.rpartition(":")[2].partition("/")[0])
        id = ask(port, JSON, ACCEPT, body=HELLO).headers["mcp-session-id"]
        connection = HTTPConnection("127.0.0.1", port, timeout=20)
        headers = dict([*with_session(id), ("authorization", f"Bearer {ACME}"), ("host", f"127.0.0.1:{port}")])
        connection.request("GET", "/mcp", headers=headers)
        assert connection.getresponse().status == 200
        began = time.monotonic()
        server.send_signal(signal.SIGTERM)
        assert server.wait(20) in (0, -signal.SIGTERM)
        assert time.monotonic() - began < 15
        assert server.stderr is not None
        assert "Traceback" not in server.stderr.read()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--http", "0.0.0.0:0"), "set --token-file"),
        (("--http", "0.0.0.0:0", "--token-file", "{tokens}"), "--allow-host"),
        (("--http", "[::]:0", "--allow-host", "memory.example.com"), "set --token-file"),
        (("--http", "8000"), "is not HOST:PORT"),
        (("--http", "127.0.0.1:0", "--token-file", "{tokens}-missing"), "cannot be read"),
        (("--http", "127.0.0.1:0", "--allow-host", "http://x"), "is not a host name"),
        (("--token-file", "{tokens}"), "need --http"),
    ],
)
def test_server_refuses_to_start_with_unsafe_options(
    tmp_path: Path, token_file: Path, options: tuple[str, ...], said: str
) -> None:
    arguments = [option.format(tokens=token_file) for option in options]
    done = CliRunner().invoke(main, ["mcp", "--store", str(tmp_path), *arguments])
    assert done.exit_code == 1
    assert said in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize("mode", [0o644, 0o660, 0o640, 0o620, 0o604])
def test_token_file_must_be_private_to_its_owner(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "tokens"
    path.write_text(f"{ACME}=acme\n")
    path.chmod(mode)
    with pytest.raises(SettingsError, match="chmod 600"):
        read_access(str(path))


def test_token_file_must_be_a_regular_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "tokens", 0o600)
    with pytest.raises(SettingsError, match="not a regular file"):
        read_access(str(tmp_path / "tokens"))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
def test_a_token_file_of_another_user_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    path.write_text(f"{ACME}=acme\n")
    path.chmod(0o600)
    os.chown(path, 12_345, 12_345)
    with pytest.raises(SettingsError, match="belongs to another user"):
        read_access(str(path))


def test_a_token_file_without_tokens_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    path.touch(0o600)
    path.write_text("# nobody yet\n")
    with pytest.raises(SettingsError, match="is empty"):
        read_access(str(path))


def test_unavailable_tenant_gets_no_details_in_the_reply(tmp_path: Path, token_file: Path) -> None:
    with http_server(tmp_path, "--token-file", str(token_file), "--no-create") as (url, server):
        reply = ask(int(url.rpartition(":")[2].partition("/")[0]), JSON, ACCEPT, body=HELLO)
        assert server.stderr is not None
        assert "there is no memory 'notes'" in server.stderr.readline()
    assert reply.status == 503
    assert b"notes" not in reply.body


@pytest.mark.parametrize("line", ["short=acme", f"{ACME}", f"{ACME}=", "=acme", "a b c d e f g h i j=acme"])
def test_invalid_token_line_is_reported_without_its_text(line: str) -> None:
    with pytest.raises(SettingsError, match=f"line 2 of {ENVIRONMENT}") as raised:
        read_access(None, {ENVIRONMENT: f"{OTHER}=other\n{line}"})
    assert ACME not in str(raised.value)


def test_token_belongs_to_one_tenant() -> None:
    with pytest.raises(SettingsError, match="second tenant"):
        read_access(None, {ENVIRONMENT: f"{ACME}=acme\n{ACME}=other"})


def test_tokens_are_kept_as_hashes_only() -> None:
    made = new_token()
    tokens = Tokens({made: "acme"})
    assert tokens.tenant_of(f"Bearer {made}".encode()) == "acme"
    assert made not in repr(vars(tokens))
    assert tokens.tenant_of(b"") is None
    assert Tokens({}).tenant_of(b"Bearer " + b"x" * 20) is None


def test_tokens_may_end_like_base64() -> None:
    assert read_access(None, {ENVIRONMENT: f"{ACME}===acme\n{OTHER}=a tenant = with all"}).tokens == {
        f"{ACME}==": "acme",
        OTHER: "a tenant = with all",
    }


def test_allowed_hosts_include_configured_names_only() -> None:
    hosts = allowed_hosts(Address("0.0.0.0", 8000), ["Memory.example.com", "[2001:db8::1]:443"], loopback=False)
    assert hosts == {"memory.example.com", "memory.example.com:8000", "[2001:db8::1]:443"}
    assert is_known_host(b"MEMORY.example.com", hosts)
    assert not is_known_host(b"memory.example.com.", hosts)
    assert not is_known_host(b"127.0.0.1:8000", hosts)
    assert is_own_origin(b"https://memory.example.com", hosts)
    assert not is_own_origin(b"memory.example.com", hosts)


@pytest.mark.parametrize(
    "text", ["", "8000", ":8000", "host", "host:", "::1:80", "127.0.0.1:70000", "a b:80", "h:80/x"]
)
def test_invalid_address_raises_a_settings_error(text: str) -> None:
    with pytest.raises(SettingsError, match="HOST:PORT"):
        parse_address(text)


def test_addresses_are_parsed_and_loopback_is_recognised() -> None:
    assert str(parse_address("[::1]:8000")) == "[::1]:8000"
    assert is_loopback("127.0.0.2")
    assert is_loopback("::1")
    assert not is_loopback("0.0.0.0")
    assert not is_loopback("::")


def test_user_line_sets_the_profile_of_a_tenant() -> None:
    access = read_access(None, {ENVIRONMENT: f"{ACME}=acme\nuser acme = Ada Lovelace <ada@example.com>\nuser b=<b@c>"})
    assert access.tokens == {ACME: "acme"}
    assert access.users == {
        "acme": {"name": "Ada Lovelace", "email": "ada@example.com"},
        "b": {"name": "", "email": "b@c"},
    }


@pytest.mark.parametrize("user", ["", "Ada <ada>", "Ada <ada@example.com", "Ada <a@b> and more", "<a b@c>"])
def test_user_line_without_a_valid_name_is_an_error(user: str) -> None:
    with pytest.raises(SettingsError, match=f"line 2 of {ENVIRONMENT} is not a name"):
        read_access(None, {ENVIRONMENT: f"{ACME}=acme\nuser acme={user}"})
