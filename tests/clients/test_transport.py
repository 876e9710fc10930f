"""The HTTP door: under OpenAI's and Anthropic's SDKs it does what `wrap` does, and it touches nothing else."""

import asyncio
import gzip
import hashlib
import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import httpx2
import openai
import pytest

import ctxwrap
from ctxwrap.providers import adapter_at
from ctxwrap.testing.practice import Answer, Failure, PracticeModel, Provider, ToolCall, script
from tests.clients import openai_cases as cases
from tests.clients import test_anthropic_surfaces as claude
from tests.clients.openai_cases import CHAT, HELLO, TEXT, Desk, Surface, both, each_of, looked, mode_sent, named
from tests.clients.running import each, got
from tests.support import Told, assert_clean, events, messages, said

JSON_TYPE = {"content-type": "application/json"}


def door(is_async: bool, **options: Any) -> Any:
    options = {"client_options": {"verify": False}, **options}
    return ctxwrap.async_http_client(**options) if is_async else ctxwrap.http_client(**options)


class DoorDesk(Desk):
    """The wrapped client of this desk is a bare one with the door as its HTTP client."""

    def wrapped(self, session: str | None = "s", *, options: Any = None, **settings: Any) -> Any:
        http_client = self.closed_later(door(self.is_async, store=self.home, session=session, **settings))
        return self.client(**{"http_client": http_client, **(options or {})})

    def by_wrap(self, session: str) -> Any:
        return super().wrapped(session)


class DoorTwins(claude.Twins):
    def wrap(self, *, client: dict[str, Any] | None = None, **names: Any) -> Any:
        library = claude.http_module().__name__
        options = {"store": self.home, "session": "s", **names}
        return self.client(self.ours, http_client=door(self.is_async, library=library, **options), **(client or {}))


@pytest.fixture(params=["sync", "async"])
def desk(request: pytest.FixtureRequest, home: Path) -> Iterator[DoorDesk]:
    with ExitStack() as stack:
        yield DoorDesk(request.param, home, stack)


@pytest.fixture(params=["sync", "async"])
def twins(request: pytest.FixtureRequest, home: Path) -> Iterator[DoorTwins]:
    with ExitStack() as stack:
        yield DoorTwins(request.param, home, stack)


def sent(desk: Desk) -> list[Any]:
    """The bodies that the provider got, without times and names of sessions."""
    texts = [seen.body.decode() for seen in desk.provider.seen]
    return [json.loads(re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+Z", "TIME", text)) for text in texts]


# --- the same as wrap ---------------------------------------------------------------------------------


DOOR_SURFACES = {name: each for name, each in cases.SURFACES.items() if name != "chat_with_http_client"}


@each_of(DOOR_SURFACES)
@both
async def test_every_surface_of_openai_gives_the_bare_clients_result(desk: DoorDesk, surface: Surface) -> None:
    bare = await looked(desk.bare(), surface)
    ours = await looked(desk.wrapped(), surface)
    assert bare.values
    assert ours.values == bare.values
    assert_clean(*ours.texts)
    assert {mode_sent(seen) for seen in desk.provider.seen} == {"enabled"}
    assert said(desk.home, "s")[:2] == HELLO


@pytest.mark.parametrize("use", claude.SURFACES, ids=claude.name_of)
def test_every_surface_of_anthropic_gives_the_bare_clients_result(twins: DoorTwins, use: claude.Use) -> None:
    claude.assert_same_but_asked_for_more(twins, use)
    assert twins.said() == [("user", "Hi there"), ("assistant", claude.TEXT)]
    assert twins.done() == ["ok"]


@pytest.mark.parametrize("use", claude.MAIN_SURFACES, ids=claude.name_of)
def test_thinking_and_tools_of_anthropic_equal_the_bare_clients(twins: DoorTwins, use: claude.Use) -> None:
    twins.answer(Told("Let me see.", reasoning="Höflich.", tool_calls=(claude.WEATHER,), gzip=True))
    claude.assert_same_but_asked_for_more(twins, use)
    assert [call["name"] for call in messages(twins.home, "s")[-1]["tool_calls"]] == ["weather"]


TOOL = {
    "type": "function",
    "function": {"name": "weather", "strict": True, "parameters": {"type": "object", "properties": {}}},
}


@each_of(named(cases.chat_create, cases.chat_stream, cases.chat_helper))
@both
async def test_tool_calls_of_openai_equal_the_bare_clients(desk: DoorDesk, surface: Surface) -> None:
    desk.answer(lambda ask: Answer(tool_calls=(ToolCall("call_1", "weather", "{}"),)))
    bare = await looked(desk.bare(), surface, tools=[TOOL])
    assert (await looked(desk.wrapped(), surface, tools=[TOOL])).values == bare.values
    assert [call["name"] for call in messages(desk.home, "s")[-1]["tool_calls"]] == ["weather"]


@each_of(named(cases.chat_create, cases.chat_stream, cases.response_create, cases.text_stream))
@both
async def test_requests_and_log_equal_those_of_wrap(desk: DoorDesk, surface: Surface) -> None:
    for client in (desk.wrapped("door"), desk.by_wrap("wrap")):
        await looked(client, surface)
        await looked(client, surface)
    bodies = sent(desk)
    assert bodies[:2] == bodies[2:]
    assert said(desk.home, "door") == said(desk.home, "wrap")
    kinds = [[event["type"] for event in events(desk.home, session)] for session in ("door", "wrap")]
    assert kinds[0] == kinds[1]


@both
async def test_a_damaged_snapshot_is_asked_for_again(desk: DoorDesk) -> None:
    desk.answer(script(Answer(f'{TEXT}\n\n<<<CONTEXT>>>\n{{"note": 1}}'), Answer('{"memory": {"core": []}}')))
    reply = await got(desk.wrapped().chat.completions.create(**CHAT, extra_headers={"idempotency-key": "k"}))
    assert reply.choices[0].message.content == TEXT
    first, again = desk.provider.seen
    assert (first.headers.get("idempotency-key"), again.headers.get("idempotency-key")) == ("k", None)
    assert again.headers["authorization"] == first.headers["authorization"]


LONG = "This model's maximum context length is 2000 tokens, however you requested 9000 tokens."


@both
async def test_a_request_that_is_too_long_is_sent_smaller(desk: DoorDesk) -> None:
    client = desk.wrapped(retry_window=0)
    for number in range(6):
        asked = [{"role": "user", "content": f"{number} " + "word " * 400}]
        await got(client.chat.completions.create(model="m", messages=asked))
    before = len(desk.provider.seen)
    told, failure = Told(TEXT), Failure(400, LONG, code="context_length_exceeded")
    answers = iter([failure])
    desk.provider.answer = lambda ask: next(answers, None) or told(ask)
    reply = await got(client.chat.completions.create(**CHAT))
    assert reply.choices[0].message.content == TEXT
    large, small = desk.provider.seen[before:]
    assert len(small.body) < len(large.body)


# --- names --------------------------------------------------------------------------------------------


@both
async def test_headers_name_session_and_mode_and_do_not_leave(desk: DoorDesk) -> None:
    client = desk.wrapped(None)
    headers = {"X-Ctxwrap-Session": "mine", "x-ctxwrap-mode": "readonly", "x-ctxwrap-other": "1", "x-own": "kept"}
    await got(client.chat.completions.create(**CHAT, extra_headers=headers))
    (seen,) = desk.provider.seen
    assert mode_sent(seen) == "readonly"
    assert [name for name in seen.headers if "ctxwrap" in name] == []
    assert seen.headers["x-own"] == "kept"
    assert said(desk.home, "mine") == HELLO


@both
async def test_a_block_names_the_session(desk: DoorDesk) -> None:
    client = desk.wrapped("default")
    with ctxwrap.using(session="inner", tenant="acme"):
        await got(client.chat.completions.create(**CHAT))
    assert said(desk.home, "inner", tenant="acme") == HELLO
    assert said(desk.home, "default") == []


@both
async def test_a_wrapped_client_over_the_door_has_one_turn(desk: DoorDesk) -> None:
    client = ctxwrap.wrap(desk.wrapped("door"), store=desk.home, session="wrap")
    await got(client.chat.completions.create(**CHAT))
    assert said(desk.home, "wrap") == HELLO
    assert said(desk.home, "door") == []
    assert desk.provider.seen[-1].body.count(b"<ctxwrap-protocol") == 1


@both
async def test_the_turn_of_a_stream_is_known(desk: DoorDesk) -> None:
    stream = await got(desk.wrapped().chat.completions.create(**CHAT, stream=True))
    record = ctxwrap.turn_of(stream)
    assert record is not None
    assert (record.session, record.round) == ("s", 1)
    assert [piece async for piece in each(stream)]


def test_the_turn_of_a_response_of_httpx_is_known(provider: Provider, home: Path) -> None:
    with door(False, store=home, session="s") as client:
        record = ctxwrap.turn_of(client.post(f"{provider.openai_url}/chat/completions", json=CHAT))
    assert record is not None
    assert record.report.status == "complete"


# --- disabled, and what is no model call ----------------------------------------------------------------


@pytest.mark.parametrize("record", [True, False])
@both
async def test_disabled_mode_sends_and_returns_the_callers_bytes(desk: DoorDesk, record: bool) -> None:
    desk.provider.answer = desk.bare_provider.answer = lambda ask: Answer(TEXT)
    content = json.dumps(CHAT, indent=3).encode()
    replies = []
    for provider, client in (
        (desk.bare_provider, desk.http_client()),
        (desk.provider, desk.closed_later(door(desk.is_async, store=desk.home, session="s", context_mode="disabled"))),
    ):
        url = f"{provider.openai_url}/chat/completions"
        replies.append((await got(client.post(url, content=content, headers=JSON_TYPE))).content)
    assert desk.provider.seen[0].body == desk.bare_provider.seen[0].body == content
    assert replies[0] == replies[1]
    assert said(desk.home, "s") == HELLO


@both
async def test_other_requests_pass_unchanged(desk: DoorDesk) -> None:
    client = desk.closed_later(door(desk.is_async, store=desk.home, session="s"))
    url = desk.provider.openai_url
    chat = json.dumps(CHAT).encode()
    await got(client.get(f"{url}/models"))
    await got(client.post(f"{url}/embeddings", json={"model": "m", "input": "x"}))
    await got(client.post(f"{url}/chat/completions", content=b"[1, 2]", headers=JSON_TYPE))
    await got(client.post(f"{url}/chat/completions", content=b"{no json", headers=JSON_TYPE))
    await got(client.post(f"{url}/chat/completions", content=chat, headers={"content-type": "text/plain"}))
    await got(client.post(f"{url}/chat/completions", content=chat, headers={**JSON_TYPE, "content-encoding": "br"}))
    bodies = [seen.body for seen in desk.provider.seen]
    assert bodies == [b"", b'{"model":"m","input":"x"}', b"[1, 2]", b"{no json", chat, chat]
    assert said(desk.home, "s") == []


@both
async def test_a_compressed_request_is_read_and_sent_plain(desk: DoorDesk) -> None:
    client = desk.closed_later(door(desk.is_async, store=desk.home, session="s"))
    content = gzip.compress(json.dumps(CHAT).encode())
    url = f"{desk.provider.openai_url}/chat/completions"
    reply = await got(client.post(url, content=content, headers={**JSON_TYPE, "content-encoding": "gzip"}))
    (seen,) = desk.provider.seen
    assert mode_sent(seen) == "enabled"
    assert "content-encoding" not in seen.headers
    assert int(seen.headers["content-length"]) == len(seen.body)
    assert_clean(reply.text)
    assert said(desk.home, "s") == HELLO


@both
async def test_stored_replies_are_fetched_without_trailer(desk: DoorDesk) -> None:
    client = desk.wrapped()
    response = await got(client.responses.create(**cases.INPUT, store=True))
    stored = await got(client.responses.retrieve(response.id))
    assert stored.output_text == TEXT
    assert_clean(repr(stored))


@pytest.mark.parametrize(
    ("path", "known"),
    [
        ("/v1/chat/completions", "chat"),
        ("/openai/deployments/gpt/chat/completions", "chat"),
        ("/v1beta/openai/chat/completions", "chat"),
        ("/chat/completions", "chat"),
        ("/v1/completions", "completions"),
        ("/openai/deployments/gpt/completions", "completions"),
        ("/v1/fim/completions", None),
        ("/v1/responses", "responses"),
        ("/openai/responses", "responses"),
        ("/v1/responses/resp_1/cancel", None),
        ("/forms/7/responses", None),
        ("/v1/messages", "messages"),
        ("/anthropic/v1/messages", "messages"),
        ("/v1/messages/count_tokens", None),
        ("/v1/threads/thread_1/messages", None),
        ("/v1beta/models/gemini-2.5-pro:generateContent", "google"),
        ("/v1beta/models/gemini-2.5-pro:streamGenerateContent", "google"),
        ("/v1beta/models/gemini-2.5-pro:countTokens", None),
        ("/api/chat", "ollama"),
        ("/v2/chat", "cohere"),
        ("/v1/chat", None),
    ],
)
def test_apis_are_recognised_by_their_path(path: str, known: str | None) -> None:
    adapter = adapter_at(path)
    assert (adapter and adapter.name) == (known and known_name(known))


def known_name(api: str) -> str:
    paths = {
        "chat": "/v1/chat/completions",
        "completions": "/v1/completions",
        "responses": "/v1/responses",
        "messages": "/v1/messages",
        "google": "/v1/models/m:generateContent",
        "ollama": "/api/chat",
        "cohere": "/v2/chat",
    }
    adapter = adapter_at(paths[api])
    assert adapter is not None
    return adapter.name


def test_an_unknown_model_api_is_reported_once(
    provider: Provider, home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with door(False, store=home, session="s") as client:
        for _ in range(2):
            client.post(f"{provider.url}/api/generate", json=CHAT)
    assert [record.message for record in caplog.records if "/api/generate" in record.message] == [
        "ctxwrap: it does not know the API at /api/generate: such calls have no context"
    ]


SIGNATURES = [
    {"authorization": "AWS4-HMAC-SHA256 Credential=A/20260101/us-east-1/bedrock/aws4_request, Signature=0"},
    {"x-amz-content-sha256": hashlib.sha256(b"").hexdigest()},
    {"content-md5": "x"},
]


@pytest.mark.parametrize("headers", SIGNATURES, ids=lambda headers: next(iter(headers)))
@both
async def test_a_signed_body_is_refused_before_it_is_sent(desk: DoorDesk, headers: dict[str, str]) -> None:
    client = desk.closed_later(door(desk.is_async, store=desk.home, session="s"))
    with pytest.raises(ctxwrap.UnsupportedClient, match="ctxwrap cannot add to it"):
        await got(client.post(f"{desk.provider.openai_url}/chat/completions", json=CHAT, headers=headers))
    assert desk.provider.seen == []
    assert said(desk.home, "s") == []


def test_a_bedrock_client_is_refused_with_the_reason(home: Path) -> None:
    anthropic = pytest.importorskip("anthropic")
    pytest.importorskip("boto3")
    library = claude.http_module().__name__
    client = anthropic.AnthropicBedrock(
        aws_access_key="a",
        aws_secret_key="b",
        aws_region="us-east-1",
        max_retries=0,
        http_client=door(False, library=library, store=home, session="s"),
    )
    with pytest.raises(anthropic.APIConnectionError) as raised:
        client.messages.create(**claude.HELLO)
    assert isinstance(raised.value.__cause__, ctxwrap.UnsupportedClient)


# --- retries --------------------------------------------------------------------------------------------


def once_failing(failure: Failure) -> Callable[[Any], Any]:
    told, answers = Told(TEXT), iter([failure])
    return lambda ask: next(answers, None) or told(ask)


def turns(home: Path, session: str = "s") -> list[tuple[int, str]]:
    """The round and end of each turn."""
    told = events(home, session)
    rounds = [event["runtime"]["round"] for event in told if event["type"] == "start"]
    return list(zip(rounds, [event["status"] for event in told if event["type"] == "done"], strict=True))


@pytest.mark.parametrize("status", [429, 500])
@both
async def test_a_retry_of_openais_sdk_is_the_same_turn(desk: DoorDesk, status: int) -> None:
    desk.provider.answer = once_failing(Failure(status, headers={"retry-after-ms": "1"}))
    client = desk.wrapped(options={"max_retries": 2})
    reply = await got(client.chat.completions.create(**CHAT))
    assert reply.choices[0].message.content == TEXT
    assert [seen.headers["x-stainless-retry-count"] for seen in desk.provider.seen] == ["0", "1"]
    assert desk.provider.seen[0].body == desk.provider.seen[1].body
    assert turns(desk.home) == [(1, "ok")]
    assert said(desk.home, "s") == HELLO


def test_a_retry_of_anthropics_sdk_is_the_same_turn(twins: DoorTwins) -> None:
    twins.ours.answer = once_failing(Failure(529, headers={"retry-after-ms": "1"}))
    client = twins.wrap(client={"max_retries": 2})
    twins.do(claude.MAIN_SURFACES[1], client)
    assert len(twins.ours.seen) == 2
    assert turns(twins.home) == [(1, "ok")]


@pytest.mark.parametrize("headers", [{}, {"idempotency-key": "k"}], ids=["body", "idempotency key"])
@both
async def test_a_retry_without_a_number_is_known_by_key_or_body(desk: DoorDesk, headers: dict[str, str]) -> None:
    desk.provider.answer = once_failing(Failure(503))
    client = desk.closed_later(door(desk.is_async, store=desk.home, session="s"))
    url = f"{desk.provider.openai_url}/chat/completions"
    statuses = [(await got(client.post(url, json=CHAT, headers=headers))).status_code for _ in range(2)]
    assert statuses == [503, 200]
    assert turns(desk.home) == [(1, "ok")]


@both
async def test_a_new_call_after_the_sdk_gave_up_does_not_wait(desk: DoorDesk) -> None:
    client = desk.wrapped(busy_timeout=0.0)
    desk.provider.answer = once_failing(Failure(500))
    with pytest.raises(openai.InternalServerError):
        await got(client.chat.completions.create(**CHAT))
    await got(client.chat.completions.create(**CHAT))
    assert [status for _, status in turns(desk.home)] == ["error", "ok"]


@both
async def test_a_call_that_is_not_tried_again_ends_with_the_client(desk: DoorDesk) -> None:
    http_client = door(desk.is_async, store=desk.home, session="s")
    desk.provider.answer = lambda ask: Failure(500)
    with pytest.raises(openai.InternalServerError):
        await got(desk.client(http_client=http_client).chat.completions.create(**CHAT))
    assert [event["type"] for event in events(desk.home, "s") if event["type"] == "done"] == []
    await got(http_client.aclose() if desk.is_async else http_client.close())
    assert [status for _, status in turns(desk.home)] == ["error"]


def test_a_call_that_is_not_tried_again_ends_when_its_time_is_over(home: Path) -> None:
    with (
        Provider(lambda ask: Failure(500)) as provider,
        door(False, store=home, session="s", retry_window=0.01) as http,
    ):
        http.post(f"{provider.openai_url}/chat/completions", json=CHAT)
        for thread in threading.enumerate():
            if thread.name == "ctxwrap-retries":
                thread.join(10)
        assert [status for _, status in turns(home)] == ["error"]


@both
async def test_an_error_that_is_not_retried_ends_the_turn_at_once(desk: DoorDesk) -> None:
    desk.provider.answer = lambda ask: Failure(401)
    with pytest.raises(openai.AuthenticationError):
        await got(desk.wrapped().chat.completions.create(**CHAT))
    assert [status for _, status in turns(desk.home)] == ["error"]


# --- transports -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("module", [httpx, httpx2], ids=["httpx", "httpx2"])
def test_a_transport_wraps_another(provider: Provider, home: Path, module: Any) -> None:
    url = f"{provider.openai_url}/chat/completions"
    with module.Client(transport=ctxwrap.transport(module.HTTPTransport(), store=home, session="s")) as client:
        assert_clean(client.post(url, json=CHAT).text)

    async def call() -> str:
        inner = module.AsyncHTTPTransport()
        async with module.AsyncClient(transport=ctxwrap.async_transport(inner, store=home, session="a")) as client:
            text: str = (await client.post(url, json=CHAT)).text
            return text

    assert_clean(asyncio.run(call()))
    assert said(home, "s") == said(home, "a") == HELLO


def test_a_redirect_stays_in_its_turn(home: Path) -> None:
    with Provider(Told(TEXT)) as provider:
        seen = []

        def answer(request: httpx.Request) -> httpx.Response:
            seen.append(request)
            if request.url.host == "old.example":
                return httpx.Response(307, headers={"location": f"{provider.openai_url}/chat/completions"})
            return httpx.Client().send(request)

        door_ = ctxwrap.transport(httpx.MockTransport(answer), store=home)
        with httpx.Client(transport=door_, follow_redirects=True) as client:
            headers = {"x-ctxwrap-session": "s", "x-stainless-retry-count": "0"}
            reply = client.post("https://old.example/v1/chat/completions", json=CHAT, headers=headers)
    assert_clean(reply.text)
    assert len(seen) == 2
    assert turns(home) == [(1, "ok")]


def test_an_environment_s_proxy_has_the_door_too(
    provider: Provider, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", provider.url)
    monkeypatch.delenv("NO_PROXY", raising=False)
    with door(False, store=home, session="s") as client:
        client.post("http://model.example/v1/chat/completions", json=CHAT)
    assert provider.seen[-1].path == "http://model.example/v1/chat/completions"
    assert mode_sent(provider.seen[-1]) == "enabled"


def test_door_takes_a_user(home: Path, provider: Provider) -> None:
    provider.answer = PracticeModel()
    for session, text in (("monday", "My name is Ada."), ("tuesday", "What is my name?")):
        with ctxwrap.http_client(store=str(home), session=session, user="ada") as http:
            client = openai.OpenAI(api_key="x", base_url=provider.openai_url, http_client=http)
            reply = client.chat.completions.create(model="m", messages=[{"role": "user", "content": text}])
    assert reply.choices[0].message.content == "Your name is Ada."
