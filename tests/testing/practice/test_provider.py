"""How the practice provider fails, streams, speaks HTTP and ends."""

import gc
import gzip
import http.client
import json
import socket
import threading
import time
import warnings
from collections.abc import Iterable
from typing import Any

import anthropic
import httpx
import openai
import pytest

from ctxwrap.errors import SettingsError
from ctxwrap.testing.practice import Answer, Failure, Provider, ToolCall, script, within
from ctxwrap.testing.practice import provider as provider_module
from ctxwrap.tokens import TooLong, too_long_in

TEA = Answer("Tea is a fine drink.")
WEATHER = ToolCall("call_1", "weather", '{"city": "Paris"}')
HELLO: Any = [{"role": "user", "content": "hello there"}]
SAY_HELLO: dict[str, Any] = {"model": "m", "messages": HELLO}
SAY_HELLO_A: dict[str, Any] = {**SAY_HELLO, "max_tokens": 100}


# --- failures -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (400, openai.BadRequestError),
        (401, openai.AuthenticationError),
        (429, openai.RateLimitError),
        (500, openai.InternalServerError),
        (503, openai.InternalServerError),
    ],
)
def test_failures_become_openai_errors(practice, status, error):
    made = practice(Failure(status, "no tea left", headers={"retry-after": "7"}))
    with pytest.raises(error) as caught:
        made.openai.chat.completions.create(**SAY_HELLO)
    assert caught.value.body["message"] == "no tea left"
    assert caught.value.response.headers["retry-after"] == "7"


@pytest.mark.parametrize(
    ("status", "kind"),
    [(400, "invalid_request_error"), (429, "rate_limit_error"), (500, "api_error"), (529, "overloaded_error")],
)
def test_failures_become_anthropic_errors(practice, status, kind):
    with pytest.raises(anthropic.APIStatusError) as caught:
        practice(Failure(status)).anthropic.messages.create(**SAY_HELLO_A)
    assert (caught.value.status_code, caught.value.body["error"]["type"]) == (status, kind)
    assert caught.value.request_id == "req_practice-000001"


@pytest.mark.parametrize(
    ("ask", "told"),
    [
        (lambda made: made.openai.chat.completions.create(**SAY_HELLO), TooLong(1, 9)),
        (lambda made: made.openai.chat.completions.create(**SAY_HELLO, max_tokens=7), TooLong(1, 16, 7)),
        (lambda made: made.openai.completions.create(model="m", prompt="hello there", max_tokens=7), TooLong(1, 9, 7)),
        (lambda made: made.openai.responses.create(model="m", input="hello there"), TooLong()),
        (lambda made: made.anthropic.messages.create(**SAY_HELLO_A), TooLong(1, 9)),
    ],
    ids=["chat", "chat with a reply", "completions", "responses", "messages"],
)
def test_request_over_the_context_window_gets_the_error_of_the_api(practice, ask, told):
    made = practice(TEA)
    made.provider.answer = within(1, made.provider.answer)
    with pytest.raises((openai.BadRequestError, anthropic.BadRequestError)) as caught:
        ask(made)
    assert too_long_in(caught.value) == told


def test_request_within_the_context_window_is_answered(practice):
    made = practice(TEA)
    made.provider.answer = within(109, made.provider.answer)
    assert made.anthropic.messages.create(**SAY_HELLO_A).content[0].text == TEA.text
    made.provider.answer = within(108, made.provider.answer)
    with pytest.raises(anthropic.BadRequestError, match=r"9 \+ 100 > 108") as caught:
        made.anthropic.messages.create(**SAY_HELLO_A)
    assert too_long_in(caught.value) == TooLong(108, 109, 100)


def test_client_retries_until_the_script_succeeds(practice):
    made = practice(Failure(429, headers={"retry-after-ms": "1"}), Failure(500, headers={"retry-after-ms": "1"}), TEA)
    reply = made.openai.with_options(max_retries=2).chat.completions.create(**SAY_HELLO)
    assert reply.choices[0].message.content == TEA.text
    assert [seen.headers["x-stainless-retry-count"] for seen in made.provider.seen] == ["0", "1", "2"]


def test_a_failure_can_hang(practice):
    waiting = threading.Event()
    made = practice(Failure(500, hang=lambda: waiting.wait(10)))
    with pytest.raises(openai.APITimeoutError):
        made.openai.chat.completions.create(**SAY_HELLO, timeout=0.05)
    waiting.set()


def test_exception_of_an_answer_function_reaches_the_client(practice):
    made = practice()
    made.provider.answer = lambda ask: 1 / 0
    with pytest.raises(openai.InternalServerError, match="ZeroDivisionError"):
        made.openai.chat.completions.create(**SAY_HELLO)


@pytest.mark.parametrize(("path", "asked"), [("/v1/chat/completions", {}), ("/v1/messages", {}), ("/nowhere", {})])
def test_invalid_request_gets_an_error_in_the_format_of_the_api(practice, path, asked):
    reply = practice(TEA).http.post(path, json=asked)
    assert reply.status_code == (404 if path == "/nowhere" else 400)
    assert reply.json()["error"]["type"] == "invalid_request_error"
    assert ("request_id" in reply.json()) == (path == "/v1/messages")


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"\xff", b"[" * 100_000])
def test_bodies_that_are_no_json_object_are_refused(practice, body):
    reply = practice(TEA).http.post("/v1/chat/completions", content=body)
    assert reply.status_code == 400
    assert "JSON" in reply.json()["error"]["message"]


@pytest.mark.parametrize("chunked", [False, True])
def test_bodies_that_are_too_large_are_refused(practice, monkeypatch, chunked):
    monkeypatch.setattr(provider_module, "LARGEST_BODY", 1_000_000)
    body = b"x" * 2_000_000
    made = practice(TEA)
    reply = made.http.post("/v1/messages", content=iter([body]) if chunked else body)
    assert (reply.status_code, reply.json()["error"]["type"]) == (413, "request_too_large")
    assert made.provider.seen == []


# --- broken streams -----------------------------------------------------------------------------------


def read_until_broken(items: Iterable[Any]) -> tuple[list[Any], str]:
    """All that arrives, and the name of the error that ends it."""
    arrived: list[Any] = []
    try:
        arrived.extend(items)
    except Exception as error:
        return arrived, type(error).__name__
    return arrived, ""


def test_a_chat_stream_can_break_off(practice):
    client = practice(Answer("one two three", cut_after=2)).openai
    chunks, error = read_until_broken(client.chat.completions.create(**SAY_HELLO, stream=True))
    assert [chunk.choices[0].delta.content for chunk in chunks] == ["", "one", " two"]
    assert error == "RemoteProtocolError"


def test_a_messages_stream_can_break_off_before_its_first_word(practice):
    client = practice(Answer("one two three", cut_after=0)).anthropic
    events, error = read_until_broken(client.messages.create(**SAY_HELLO_A, stream=True))
    assert [event.type for event in events] == ["message_start", "content_block_start"]
    assert error == "RemoteProtocolError"


def test_a_stream_can_break_off_between_its_last_word_and_its_end(practice):
    client = practice(Answer("one two", cut_after=2)).openai
    events, error = read_until_broken(client.responses.create(model="m", input="x", stream=True))
    assert (events[-1].type, error) == ("response.output_text.delta", "RemoteProtocolError")


def test_the_connection_works_again_after_a_broken_stream(practice):
    client = practice(Answer("one two", cut_after=2), TEA).openai
    with pytest.raises(httpx.RemoteProtocolError):
        list(client.chat.completions.create(**SAY_HELLO, stream=True))
    assert client.chat.completions.create(**SAY_HELLO).choices[0].message.content == TEA.text


def test_stream_can_contain_an_error_event(practice):
    made = practice(Answer("one two three", error_after=1))
    with pytest.raises(openai.APIError, match="break this stream"):
        list(made.openai.chat.completions.create(**SAY_HELLO, stream=True))
    with pytest.raises(openai.APIError, match="break this stream"):
        list(made.openai.completions.create(model="m", prompt="x", stream=True))
    with pytest.raises(anthropic.APIStatusError) as caught:
        list(made.anthropic.messages.create(**SAY_HELLO_A, stream=True))
    assert caught.value.body["error"]["type"] == "overloaded_error"
    events = list(made.openai.responses.create(model="m", input="x", stream=True))
    assert [event.type for event in events[-2:]] == ["error", "response.failed"]
    assert events[-1].response.error.code == "server_error"
    with pytest.raises(openai.NotFoundError):
        made.openai.responses.retrieve(events[-1].response.id)


# --- the wire -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [False, True])
def test_reply_is_gzipped_when_the_client_accepts_it(practice, stream):
    made = practice(Answer("Tea is fine.", gzip=True))
    asked = {**SAY_HELLO, "stream": stream}
    squeezed = made.http.post("/v1/chat/completions", json=asked)
    plain = made.http.post("/v1/chat/completions", json=asked, headers={"accept-encoding": "identity"})
    assert squeezed.headers["content-encoding"] == "gzip"
    assert "content-encoding" not in plain.headers
    assert squeezed.text.replace("000001", "000002") == plain.text


def test_a_gzipped_stream_arrives_event_by_event(practice):
    go_on = threading.Event()
    answer = Answer("one two", gzip=True, pause=lambda piece: piece == 1 and go_on.wait(10))
    stream = iter(practice(answer).openai.chat.completions.create(**SAY_HELLO, stream=True))
    assert [next(stream).choices[0].delta.content for _ in range(2)] == ["", "one"]
    go_on.set()
    assert next(stream).choices[0].delta.content == " two"


def test_pause_sees_every_piece_in_order(practice):
    pieces: list[int] = []
    client = practice(Answer("one two", tool_calls=(WEATHER,), pause=pieces.append)).anthropic
    list(client.messages.create(**SAY_HELLO_A, stream=True))
    assert pieces == [0, 1, 2, 3, 4]


def test_one_connection_serves_many_requests(practice):
    made = practice(TEA)
    connection = http.client.HTTPConnection("127.0.0.1", int(made.provider.url.rpartition(":")[2]), timeout=10)
    sockets = set()
    for stream in (True, False, True):
        body = json.dumps({**SAY_HELLO, "stream": stream})
        connection.request("POST", "/chat/completions", body)
        sockets.add(connection.sock.getsockname())
        assert b"drink" in connection.getresponse().read()
    connection.close()
    assert len(sockets) == 1


def test_chunked_requests_and_http_1_0_are_understood(practice):
    made = practice(TEA)
    body = json.dumps({**SAY_HELLO, "stream": True}).encode()
    reply = made.http.post("/v1/chat/completions", content=iter([body[:10], body[10:]]))
    assert reply.text.endswith("data: [DONE]\n\n")
    assert made.provider.seen[-1].json["stream"] is True
    port = int(made.provider.url.rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port)) as old:
        old.sendall(b"POST /chat/completions HTTP/1.0\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        answer = old.makefile("rb").read()
    assert b"Transfer-Encoding" not in answer
    assert answer.endswith(b"data: [DONE]\n\n")


def test_models_and_embeddings(practice):
    made = practice(TEA)
    assert [model.id for model in made.openai.models.list()] == ["practice"]
    assert [model.id for model in made.anthropic.models.list()] == ["practice"]
    assert made.openai.models.retrieve("some/model").id == "some/model"
    vectors = made.openai.embeddings.create(model="m", input=["one", "two"]).data
    plain = made.openai.embeddings.create(model="m", input="one", encoding_format="float").data
    assert len(vectors) == 2
    assert vectors[0].embedding == plain[0].embedding


def test_every_request_is_recorded_unless_told_otherwise(practice):
    made = practice(TEA)
    made.openai.chat.completions.create(**SAY_HELLO, extra_headers={"X-Own": "1"})
    (seen,) = made.provider.seen
    assert (seen.method, seen.path, seen.headers["x-own"]) == ("POST", "/v1/chat/completions", "1")
    assert seen.json["messages"] == HELLO
    with Provider(script(TEA), record=False) as silent:
        httpx.post(f"{silent.url}/chat/completions", json=SAY_HELLO)
        assert silent.seen == []


def test_lone_surrogate_in_a_request_is_accepted(practice):
    reply = practice(Answer("tea \ud83c")).openai.chat.completions.create(**SAY_HELLO)
    assert reply.choices[0].message.content == "tea ?"


# --- its life -----------------------------------------------------------------------------------------


def test_close_is_prompt_frees_the_port_and_leaks_nothing(monkeypatch):
    monkeypatch.setattr(provider_module, "_CLOSE_SECONDS", 60)
    gc.collect()  # what other tests left behind complains now, not below
    before = set(threading.enumerate())
    with warnings.catch_warnings(record=True, action="always") as caught:
        provider = Provider(script(TEA)).start()
        with httpx.Client(base_url=provider.url) as client:
            client.post("/chat/completions", json=SAY_HELLO)
            began = time.monotonic()
            provider.close()
            provider.close()
            assert time.monotonic() - began < 30
        gc.collect()
    assert [warning for warning in caught if warning.category is ResourceWarning] == []
    assert set(threading.enumerate()) <= before
    with pytest.raises(httpx.ConnectError):
        httpx.get(provider.url)


def test_close_ends_a_stream_that_waits(monkeypatch):
    monkeypatch.setattr(provider_module, "_CLOSE_SECONDS", 0.05)
    forever = threading.Event()
    with Provider(script(Answer("one two", pause=lambda piece: piece == 1 and forever.wait(10)))) as provider:
        client = openai.OpenAI(api_key="k", base_url=provider.openai_url, max_retries=0)
        stream = iter(client.chat.completions.create(**SAY_HELLO, stream=True))
        assert [next(stream).choices[0].delta.content for _ in range(2)] == ["", "one"]
    with pytest.raises(httpx.RemoteProtocolError):
        list(stream)
    forever.set()
    client.close()


def test_disconnected_client_logs_nothing(practice, capfd):
    gone = threading.Event()
    made = practice(Answer("word " * 50_000, pause=lambda piece: piece != 1 or gone.wait(10)))
    with made.http.stream("POST", "/chat/completions", json={**SAY_HELLO, "stream": True}) as reply:
        next(reply.iter_bytes())
    gone.set()
    made.provider.close()
    captured = capfd.readouterr()
    assert (captured.out, captured.err) == ("", "")


def test_provider_can_restart_and_has_an_address_only_while_started():
    provider = Provider(script(TEA))
    with pytest.raises(RuntimeError, match="start"):
        _ = provider.url
    for _ in range(2):
        with provider:
            assert httpx.post(f"{provider.url}/chat/completions", json=SAY_HELLO).status_code == 200
    assert len(provider.seen) == 2


@pytest.mark.parametrize("host", ["0.0.0.0", "example.org", "10.0.0.1", ""])
def test_provider_listens_on_the_loopback_interface_only(host):
    with pytest.raises(SettingsError, match=r"127\.0\.0\.1"):
        Provider(host=host)


def test_invalid_arguments_are_rejected():
    with pytest.raises(SettingsError, match="did you mean 'stop'"):
        Answer(finish="stopp")
    with pytest.raises(ValueError, match="pieces"):
        Answer("tea", pieces=("te",))
    with pytest.raises(SettingsError, match="at least one"):
        script()


def test_concurrent_clients_get_distinct_ids(practice):
    made = practice(TEA)
    client, ids = made.http, list[str]()

    def talk() -> None:
        ids.extend(client.post("/chat/completions", json=SAY_HELLO).json()["id"] for _ in range(5))

    threads = [threading.Thread(target=talk) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(ids)) == len(made.provider.seen) == 40


def test_gzip_bodies_are_complete_gzip_files(practice):
    made = practice(Answer("Tea.", gzip=True))
    with made.http.stream("POST", "/chat/completions", json={**SAY_HELLO, "stream": True}) as reply:
        raw = b"".join(reply.iter_raw())
    assert gzip.decompress(raw).endswith(b"data: [DONE]\n\n")
