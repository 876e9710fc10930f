"""Tests that users wrote with respx go on working when their client is wrapped."""

import asyncio
import json
from pathlib import Path

import httpx
import openai
import respx

import ctxwrap
from ctxwrap.testing.practice.answer import Answer
from tests.providers.replies import SPEAKERS
from tests.support import assert_clean, said

URL = "https://api.example.com/v1"
TRAILER = '\n\n<<<CONTEXT>>>\n{"memory": {"core": []}}'


def mocked(text: str) -> httpx.Response:
    return httpx.Response(200, json=SPEAKERS[0].whole(Answer(text)), headers={"x-request-id": "req_1"})


@respx.mock
def test_a_mocked_provider_answers_a_wrapped_client(home: Path) -> None:
    route = respx.post(f"{URL}/chat/completions").mock(return_value=mocked("Hello." + TRAILER))
    client = ctxwrap.wrap(openai.OpenAI(api_key="x", base_url=URL), session="s", store=home)
    reply = client.chat.completions.create(model="m", messages=[{"role": "user", "content": "hi"}])
    assert reply.choices[0].message.content == "Hello."
    assert reply._request_id == "req_1"
    assert_clean(repr(reply))
    assert "<ctxwrap-context>" in json.loads(route.calls[0].request.content)["messages"][-1]["content"]
    assert said(home, "s") == [("user", "hi"), ("assistant", "Hello.")]


def test_a_mocked_provider_answers_an_async_client(home: Path) -> None:
    async def call() -> str | None:
        with respx.mock:
            respx.post(f"{URL}/chat/completions").mock(return_value=mocked("Hello." + TRAILER))
            client = ctxwrap.wrap(openai.AsyncOpenAI(api_key="x", base_url=URL), session="s", store=home)
            reply = await client.chat.completions.create(model="m", messages=[{"role": "user", "content": "hi"}])
            return reply.choices[0].message.content

    assert asyncio.run(call()) == "Hello."
    assert said(home, "s") == [("user", "hi"), ("assistant", "Hello.")]


@respx.mock
def test_a_clients_own_transport_hooks_and_headers_are_kept(home: Path) -> None:
    seen: list[str] = []
    http_client = httpx.Client(
        event_hooks={"request": [lambda request: seen.append(request.headers["x-mine"])]}, headers={"x-mine": "yes"}
    )
    respx.post(f"{URL}/chat/completions").mock(return_value=mocked("Hello."))
    client = openai.OpenAI(api_key="x", base_url=URL, http_client=http_client)
    wrapped = ctxwrap.wrap(client, session="s", store=home)
    wrapped.chat.completions.create(model="m", messages=[{"role": "user", "content": "hi"}])
    assert seen == ["yes"]
    wrapped.close()
    assert http_client.is_closed
