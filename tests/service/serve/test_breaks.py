"""What breaks: the upstream, the client, the store, the server itself; and what the metrics say of it."""

import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import openai
import pytest
from click.testing import CliRunner

import ctxwrap
from ctxwrap.cli import main
from ctxwrap.service.serve.metrics import Metrics
from ctxwrap.testing import Gate
from ctxwrap.testing.practice import Answer, Provider
from tests.clients.openai_cases import CHAT, HELLO, SAID, TEXT
from tests.service.serve.conftest import Stage
from tests.service.serve.serving import PATIENCE, Proxy, proxy, upstreams_of
from tests.support import Told, assert_clean, said

STREAM = {**CHAT, "stream": True}


def test_an_upstream_that_dies_in_a_stream_breaks_the_clients_connection(stage: Stage) -> None:
    stage.answer(lambda ask: Answer("One two three four.", cut_after=2))
    headers = {"x-ctxwrap-session": "dies"}
    with httpx.stream("POST", f"{stage.proxy.url}/v1/chat/completions", json=STREAM, headers=headers) as reply:
        chunks: list[bytes] = []
        with pytest.raises(httpx.RemoteProtocolError):
            chunks.extend(reply.iter_raw())
    received = b"".join(chunks)
    assert b"One" in received
    assert b"[DONE]" not in received
    assert_clean(received)
    assert said(stage.home, "dies") == [("user", SAID), ("assistant", "One two")]
    stage.proxy.wait_for_metric('ctxwrap_streams_cut_total{by="upstream"} 1')


def test_a_client_that_leaves_a_stream_ends_its_turn(stage: Stage) -> None:
    gate = Gate(before=2)
    stage.answer(lambda ask: Answer("One two three four.", pause=gate))
    headers = {"x-ctxwrap-session": "leaves"}
    with httpx.stream("POST", f"{stage.proxy.url}/v1/chat/completions", json=STREAM, headers=headers) as reply:
        next(piece for piece in reply.iter_text() if "two" in piece)
    stage.proxy.wait_for_metric('ctxwrap_streams_cut_total{by="client"} 1')
    stage.proxy.wait_for_metric("ctxwrap_requests_in_flight 0")
    gate.open()
    assert said(stage.home, "leaves") == [("user", SAID), ("assistant", "One two")]
    stage.answer(Told(TEXT))
    reply = httpx.post(f"{stage.proxy.url}/v1/chat/completions", json=CHAT, headers=headers)
    assert reply.status_code == 200


def test_a_stream_is_not_delayed(stage: Stage) -> None:
    gate = Gate(before=1)
    stage.answer(lambda ask: Answer("One two three.", pause=gate))
    headers = {"x-ctxwrap-session": "prompt"}
    with httpx.stream("POST", f"{stage.proxy.url}/v1/chat/completions", json=STREAM, headers=headers) as reply:
        pieces = reply.iter_text()
        next(piece for piece in pieces if "One" in piece)
        gate.wait()
        gate.open()
        assert "three" in "".join(pieces)


@pytest.fixture
def broken(tmp_path: Path, provider: Provider) -> Iterator[Proxy]:
    """A proxy whose store is gone: its directory is a file."""
    home = tmp_path / "store"
    with proxy(home, *upstreams_of(provider)) as at:
        assert at.ask("GET", "/ready").status == 200
        shutil.rmtree(home, ignore_errors=True)
        home.write_text("in the way")
        yield at


def test_without_its_store_the_proxy_goes_on_and_is_not_ready(broken: Proxy, provider: Provider) -> None:
    headers = {"x-ctxwrap-session": "s"}
    reply = httpx.post(f"{broken.url}/v1/chat/completions", json=CHAT, headers=headers)
    assert reply.json()["choices"][0]["message"]["content"] == TEXT
    assert provider.seen[-1].json == CHAT
    assert httpx.post(f"{broken.url}/v1/chat/completions", json=CHAT).status_code == 200
    assert (broken.ask("GET", "/ready").status, broken.ask("GET", "/health").status) == (503, 200)
    broken.wait_for_metric('ctxwrap_turns_total{outcome="not_saved"} 1')


def test_in_strict_mode_a_call_without_its_store_is_refused(tmp_path: Path, provider: Provider) -> None:
    home = tmp_path / "store"
    with proxy(home, *upstreams_of(provider), settings={"strict": True}) as at:
        shutil.rmtree(home, ignore_errors=True)
        home.write_text("in the way")
        for headers in ({"x-ctxwrap-session": "s"}, {}):
            assert httpx.post(f"{at.url}/v1/chat/completions", json=CHAT, headers=headers).status_code == 503
    assert provider.seen == []


def test_running_streams_end_before_the_server_does(tmp_path: Path) -> None:
    gate = Gate(before=1)
    with (
        Provider(lambda ask: Answer("One two.", pause=gate)) as provider,
        proxy(tmp_path, *upstreams_of(provider), session="=s") as at,
        httpx.stream("POST", f"{at.url}/v1/chat/completions", json=STREAM) as reply,
    ):
        pieces = reply.iter_text()
        next(pieces)
        gate.wait()
        at.server.should_exit = True
        gate.open()
        assert "[DONE]" in "".join(pieces)
    assert said(tmp_path, "s") == [("user", SAID), ("assistant", "One two.")]


# --- metrics ------------------------------------------------------------------------------------------


def test_workers_show_the_sums_of_all(tmp_path: Path) -> None:
    one, other = Metrics(["a"], str(tmp_path)), Metrics(["a"])
    other.add('ctxwrap_requests_total{upstream="a",status="2xx"}', 2)
    other.add("ctxwrap_requests_in_flight", 3)
    other.observe("ctxwrap_first_byte_seconds", 0.02)
    (tmp_path / "999999999.metrics").write_bytes(bytes(other._own))
    one.add('ctxwrap_requests_total{upstream="a",status="2xx"}')
    one.observe("ctxwrap_first_byte_seconds", 1000.0)
    lines = one.text().splitlines()
    assert 'ctxwrap_requests_total{upstream="a",status="2xx"} 3' in lines
    assert "ctxwrap_requests_in_flight 0" in lines, "the worker of the other file has ended"
    buckets = [line.rpartition(" ")[2] for line in lines if line.startswith("ctxwrap_first_byte_seconds_bucket")]
    assert buckets == ["0", *["1"] * 8, "2"]
    assert "ctxwrap_first_byte_seconds_count 2" in lines


# --- the command --------------------------------------------------------------------------------------


@contextmanager
def command(*arguments: str, **environment: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    env = {**os.environ, **environment}
    program = [sys.executable, "-m", "ctxwrap", "serve", "--listen", "127.0.0.1:0", *arguments]
    with subprocess.Popen(program, stderr=subprocess.PIPE, text=True, env=env) as server:
        assert server.stderr is not None
        line = server.stderr.readline()
        assert line.startswith("listening on "), line + server.stderr.read()
        try:
            yield line.removeprefix("listening on ").strip(), server
        finally:
            server.send_signal(signal.SIGTERM)
            assert server.wait(PATIENCE) == 0


def test_two_workers_serve_what_a_file_and_the_environment_say(tmp_path: Path, provider: Provider) -> None:
    file, home = tmp_path / "serve.toml", tmp_path / "home"
    file.write_text(
        f'workers = 2\nsession = "=all"\n[upstreams]\nopenai = "{provider.openai_url}"\n[settings]\nbudget = 9000\n'
    )
    with command("--config", str(file), "--store", str(home), CTXWRAP_SERVE_SESSION="=mine") as (url, _):
        client = openai.OpenAI(api_key="k", base_url=f"{url}/v1", max_retries=0)
        for _ in range(4):
            assert client.chat.completions.create(**CHAT).choices[0].message.content == TEXT
        shown = httpx.get(f"{url}/metrics").text
    assert 'ctxwrap_requests_total{upstream="openai",status="2xx"} 4' in shown
    assert said(home, "mine")[:2] == HELLO


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(main, ["serve", *arguments])
    return result.exit_code, result.output


def test_the_command_refuses_what_it_cannot_serve(tmp_path: Path) -> None:
    file = tmp_path / "serve.toml"
    file.write_text("listne = 1\n")
    for arguments, reason in (
        (["--listen", "0.0.0.0:0"], "can be reached from other machines"),
        (["--upstream", "x"], "is not NAME=URL"),
        (["--key", "openai=NO_SUCH_VARIABLE"], "is not set"),
        (["--session", "sometimes"], "is none of auto"),
        (["--mode", "loud"], "context_mode"),
        (["--config", str(file)], "is no option of ctxwrap serve"),
    ):
        code, output = run(*arguments)
        assert code != 0
        assert reason in output, output


def test_the_command_prints_a_token_and_its_line() -> None:
    code, output = run("--new-token", "acme ada")
    token, line = (text.split(":", 1)[1].strip() for text in output.splitlines())
    assert code == 0
    assert token.startswith("ctx-")
    assert token not in line
    assert line.split()[1:] == ["acme", "ada"]


def test_a_turn_of_the_proxy_can_be_read_from_its_store(stage: Stage) -> None:
    stage.answer(Told(TEXT))
    headers = {"x-ctxwrap-session": "readable"}
    httpx.post(f"{stage.proxy.url}/v1/chat/completions", json=CHAT, headers=headers)
    (turn,) = ctxwrap.open_session("readable", store=stage.home).turns()
    assert turn.round == 1


def test_a_half_open_connection_is_closed_at_the_end(tmp_path: Path, provider: Provider) -> None:
    with proxy(tmp_path, *upstreams_of(provider), drain=1.0) as at:
        connection = socket.create_connection(("127.0.0.1", at.port), timeout=PATIENCE)
        connection.sendall(b"POST /v1/models HTTP/1.1\r\n")
        connection.settimeout(PATIENCE)
    assert connection.recv(10) == b""
    connection.close()
