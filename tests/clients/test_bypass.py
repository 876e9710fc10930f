"""A call that uses the HTTP client of a wrapped client, but not the wrapped client, is reported once."""

import asyncio
import logging
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest

import ctxwrap
from ctxwrap.testing.practice import Provider
from tests.support import said

CHAT: Any = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}


@pytest.fixture
def client(provider: Provider, home: Path) -> openai.OpenAI:
    return ctxwrap.wrap(openai.OpenAI(api_key="x", base_url=provider.openai_url), session="s", store=home)


def reports(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


def test_bypass_is_reported_once_with_the_way_out(
    client: openai.OpenAI, provider: Provider, home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    bare = openai.OpenAI(api_key="x", base_url=provider.openai_url, http_client=client._client)
    for _ in range(2):
        assert bare.chat.completions.create(**CHAT).choices[0].message.content == "Hello, world."
    (report,) = reports(caplog)
    assert "/chat/completions" in report
    assert "pass on the wrapped client" in report
    assert said(home, "s") == []


def test_bypass_of_an_async_client_is_reported(
    provider: Provider, home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def ask() -> None:
        inner = anthropic.AsyncAnthropic(api_key="x", base_url=provider.anthropic_url)
        async with ctxwrap.wrap(inner, session="s", store=home) as wrapped:
            bare = anthropic.AsyncAnthropic(api_key="x", base_url=provider.anthropic_url, http_client=wrapped._client)
            await bare.messages.create(**CHAT, max_tokens=9)

    asyncio.run(ask())
    assert len(reports(caplog)) == 1


def test_calls_of_the_wrapped_client_are_not_reported(
    client: openai.OpenAI, provider: Provider, home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    other = openai.OpenAI(api_key="x", base_url=provider.openai_url, http_client=client._client)
    for each in (client, client.with_options(timeout=9), ctxwrap.wrap(other, session="s", store=home)):
        each.chat.completions.create(**CHAT)
        list(each.chat.completions.create(**CHAT, stream=True))
        each.chat.completions.create(**CHAT, context_mode="disabled")
        each.chat.completions.create(**CHAT, purpose="aux")
        each.models.list()
    assert reports(caplog) == []
