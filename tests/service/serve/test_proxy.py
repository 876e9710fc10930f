"""The official SDKs see through the proxy what they see without it, and nothing of ctxwrap's."""

import asyncio
import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import anthropic
import httpx
import openai
import pytest

from ctxwrap.protocol.instructions import asks_for_trailer
from ctxwrap.testing.practice import Answer, ToolCall
from tests.clients import openai_cases as cases
from tests.clients import test_anthropic_surfaces as claude
from tests.clients.openai_cases import CHAT, HELLO, SAID, TEXT, Surface, each_of, looked, mode_sent
from tests.clients.running import at_once
from tests.service.mcp.doors import node_modules
from tests.service.serve.conftest import Stage
from tests.support import Told, assert_clean, said

JSON_TYPE = {"content_type": "application/json"}
OUR_HEADERS = frozenset({"x-ctxwrap-session", "transfer-encoding", "connection"})


@pytest.fixture
def session() -> str:
    return f"s-{uuid4().hex[:12]}"


@pytest.fixture(autouse=True)
def _other_headers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cases, "CHANGED_HEADERS", cases.CHANGED_HEADERS | OUR_HEADERS)


@pytest.fixture
def openais(stage: Stage, session: str) -> Iterator[tuple[Any, Any]]:
    """A client of the proxy, and one of the provider."""
    stage.answer(Told(TEXT))
    options: dict[str, Any] = {"api_key": "k", "max_retries": 0}
    with (
        openai.OpenAI(
            base_url=f"{stage.proxy.url}/v1", default_headers={"x-ctxwrap-session": session}, **options
        ) as ours,
        openai.OpenAI(base_url=stage.direct.openai_url, **options) as theirs,
    ):
        yield ours, theirs


@pytest.fixture
def anthropics(stage: Stage, session: str) -> Iterator[tuple[Any, Any]]:
    stage.answer(Told(claude.TEXT))
    options: dict[str, Any] = {"api_key": "k", "max_retries": 0}
    headers = {"x-ctxwrap-session": session}
    with (
        anthropic.Anthropic(base_url=stage.proxy.url, default_headers=headers, **options) as ours,
        anthropic.Anthropic(base_url=stage.direct.anthropic_url, **options) as theirs,
    ):
        yield ours, theirs


@each_of(cases.SURFACES)
def test_every_surface_of_openai_is_the_same_through_the_proxy(
    stage: Stage, openais: tuple[Any, Any], session: str, surface: Surface
) -> None:
    ours, theirs = (at_once(looked(client, surface)) for client in openais)
    assert theirs.values
    assert ours.values == theirs.values
    assert_clean(*ours.texts)
    assert {mode_sent(seen) for seen in stage.provider.seen} == {"enabled"}
    assert said(stage.home, session)[:2] == HELLO


@pytest.mark.parametrize("use", claude.SURFACES, ids=claude.name_of)
def test_every_surface_of_anthropic_is_the_same_through_the_proxy(
    stage: Stage, anthropics: tuple[Any, Any], session: str, use: claude.Use
) -> None:
    ours, theirs = (at_once(use(client)) for client in anthropics)
    assert_clean(*ours)
    assert claude.view(ours) == claude.view(theirs)
    assert asks_for_trailer(claude.asked(stage.provider.seen[-1]).system)
    assert said(stage.home, session) == [("user", "Hi there"), ("assistant", claude.TEXT)]


def test_async_streams_are_the_same_through_the_proxy(stage: Stage, session: str) -> None:
    stage.answer(Told(TEXT))

    async def read(url: str) -> Any:
        headers = {"x-ctxwrap-session": session}
        async with openai.AsyncOpenAI(api_key="k", base_url=url, max_retries=0, default_headers=headers) as client:
            return (await looked(client, cases.chat_helper)).values

    assert asyncio.run(read(f"{stage.proxy.url}/v1")) == asyncio.run(read(stage.direct.openai_url))


TOOL = {"type": "function", "function": {"name": "weather", "strict": True, "parameters": {"type": "object"}}}


@each_of(cases.named(cases.chat_create, cases.chat_stream))
def test_tool_calls_and_their_results_are_the_same(
    stage: Stage, openais: tuple[Any, Any], session: str, surface: Surface
) -> None:
    stage.answer(lambda ask: Answer(tool_calls=(ToolCall("call_1", "weather", '{"city": "Paris"}'),)))
    ours, theirs = (at_once(looked(client, surface, tools=[TOOL])) for client in openais)
    assert ours.values == theirs.values
    stage.answer(Told(TEXT))
    call = {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Paris"}'}}
    asked = [
        {"role": "user", "content": SAID},
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_1", "content": "Sunny."},
    ]
    ours, theirs = (at_once(looked(client, surface, messages=asked, tools=[TOOL])) for client in openais)
    assert ours.values == theirs.values
    assert said(stage.home, session) == [("user", SAID), ("assistant", ""), ("tool", "Sunny."), ("assistant", TEXT)]


# --- byte for byte ------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [True, False])
def test_disabled_mode_is_byte_identical_both_ways(stage: Stage, session: str, stream: bool) -> None:
    stage.answer(lambda ask: Answer(TEXT + " — 日本語"))
    body = json.dumps({**CHAT, "stream": stream}, indent=2).encode()
    named = {"x_ctxwrap_session": session, "x_ctxwrap_mode": "disabled"}
    ours = stage.proxy.ask("POST", "/v1/chat/completions", body, **JSON_TYPE, **named)
    theirs = httpx.post(
        f"{stage.direct.openai_url}/chat/completions",
        content=body,
        headers={"content-type": "application/json", "accept-encoding": "identity"},
    )
    assert stage.provider.seen[0].body == stage.direct.seen[0].body == body
    assert ours.body == theirs.content
    assert "x-ctxwrap-session" not in ours.headers
    assert said(stage.home, session) == [("user", SAID), ("assistant", TEXT + " — 日本語")]


def test_events_that_do_not_change_keep_their_bytes(stage: Stage, session: str) -> None:
    stage.answer(Told("Words that stay.", reasoning="Thoughts that stay, too."))
    body = json.dumps({**CHAT, "stream": True}).encode()
    ours = stage.proxy.ask("POST", "/v1/chat/completions", body, **JSON_TYPE, x_ctxwrap_session=session).body
    theirs = httpx.post(f"{stage.direct.openai_url}/chat/completions", content=body).content
    assert set(theirs.split(b"\n\n")) - set(ours.split(b"\n\n")) <= {
        frame for frame in theirs.split(b"\n\n") if b'"usage"' in frame
    }


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "/v1/models", b""),
        ("POST", "/v1/embeddings", b'{"model": "m", "input": "x"}'),
        ("POST", "/v1/messages/count_tokens", json.dumps(claude.HELLO).encode()),
        ("POST", "/v1/chat/completions", b"{this is no json"),
        ("DELETE", "/v1/responses/resp_1", b""),
        ("GET", "/openai/v1/models?limit=2&after=%41", b""),
    ],
)
def test_everything_else_passes_unchanged(stage: Stage, method: str, path: str, body: bytes) -> None:
    ours = stage.proxy.ask(method, path, body, **JSON_TYPE, x_own="1")
    plain = path.replace("/openai/v1", "/v1")
    theirs = httpx.request(
        method,
        f"{stage.direct.url}{plain}",
        content=body,
        headers={"content-type": "application/json", "accept-encoding": "identity"},
    )
    (seen,) = stage.provider.seen
    assert (seen.method, seen.path, seen.body, seen.headers["x-own"]) == (method, plain, body, "1")
    assert (ours.status, ours.body) == (theirs.status_code, theirs.content)


def test_compressed_replies_reach_the_client(stage: Stage, session: str) -> None:
    stage.answer(Told(TEXT, gzip=True))
    for mode in ("enabled", "disabled"):
        headers = {"accept-encoding": "br;q=1, gzip", "x-ctxwrap-session": session, "x-ctxwrap-mode": mode}
        reply = httpx.post(f"{stage.proxy.url}/v1/chat/completions", json=CHAT, headers=headers)
        assert reply.json()["choices"][0]["message"]["content"] == TEXT
    assert {seen.headers["accept-encoding"] for seen in stage.provider.seen} == {"gzip"}


# --- other languages ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def node() -> Callable[..., Any]:
    """Runs sdk.mjs with the official SDKs for Node."""
    modules = node_modules(("openai@7.55.0", "@anthropic-ai/sdk@1.9.0"))

    def run(*arguments: str) -> Any:
        script = Path(__file__).with_name("sdk.mjs")
        command = ["node", str(script), str(modules), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run


@pytest.mark.parametrize("api", ["openai", "anthropic"])
def test_node_sdks_see_the_same_through_the_proxy(
    stage: Stage, session: str, node: Callable[..., Any], api: str
) -> None:
    stage.answer(Told(TEXT))
    ours = node(api, stage.proxy.url, session)
    theirs = node(api, stage.direct.url, session)
    assert_clean(json.dumps(ours))
    assert cases.tidy(ours) == cases.tidy(theirs)
    assert said(stage.home, session)[:2] == HELLO
