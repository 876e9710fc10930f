"""Auxiliary calls, such as those for a title, leave no trace in the conversation that they stand beside."""

import json
from collections.abc import Callable
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

import ctxwrap
from ctxwrap.clients.litellm import load_litellm
from ctxwrap.testing.practice import Provider
from tests.service.serve.serving import proxy, upstreams_of
from tests.support import events, said

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
TITLE: Any = {"model": "m", "messages": [{"role": "user", "content": "Find a title for: hi"}]}


def wrapped(provider: Provider, home: Path, **options: Any) -> openai.OpenAI:
    client = openai.OpenAI(api_key="x", base_url=provider.openai_url, max_retries=0)
    return ctxwrap.wrap(client, session="s", store=home, clock=NOON, **options)


def by_block(client: openai.OpenAI, provider: Provider, home: Path) -> Any:
    with ctxwrap.using(purpose="aux"):
        return client.chat.completions.create(**TITLE)


def by_bind(client: openai.OpenAI, provider: Provider, home: Path) -> Any:
    return ctxwrap.bind(client, purpose="aux").chat.completions.create(**TITLE)


def by_keyword(client: openai.OpenAI, provider: Provider, home: Path) -> Any:
    return client.chat.completions.create(**TITLE, purpose="aux")


def by_stream(client: openai.OpenAI, provider: Provider, home: Path) -> Any:
    return list(client.chat.completions.create(**TITLE, stream=True, purpose="aux"))


def by_header(client: openai.OpenAI, provider: Provider, home: Path) -> Any:
    return client.chat.completions.create(**TITLE, extra_headers={"X-Ctxwrap-Purpose": "aux"})


def by_door(client: openai.OpenAI, provider: Provider, home: Path) -> Any:
    with ctxwrap.http_client(session="s", store=home) as door:
        url = f"{provider.openai_url}/chat/completions"
        return door.post(url, json=TITLE, headers={"x-ctxwrap-purpose": "aux"}).raise_for_status()


def by_litellm(client: openai.OpenAI, provider: Provider, home: Path) -> Any:
    litellm = ctxwrap.wrap(load_litellm(), session="s", store=home)
    request = {**TITLE, "model": "openai/m", "api_base": provider.openai_url, "api_key": "x"}
    return litellm.completion(**request, purpose="aux")


def by_proxy(client: openai.OpenAI, provider: Provider, home: Path) -> Any:
    with proxy(home, *upstreams_of(provider)) as at:
        headers = {"x-ctxwrap-session": "s", "x-ctxwrap-purpose": "aux"}
        return httpx.post(f"{at.url}/v1/chat/completions", json=TITLE, headers=headers).raise_for_status()


WAYS = (by_block, by_bind, by_keyword, by_stream, by_header, by_door, by_litellm, by_proxy)


def requests_of_a_chat(provider: Provider, home: Path, beside: Callable[[openai.OpenAI], Any]) -> list[Any]:
    client = wrapped(provider, home)
    provider.seen.clear()
    for text in ("hi", "and now?"):
        reply = client.chat.completions.create(model="m", messages=[{"role": "user", "content": text}])
        if text == "hi":
            beside(client)
    assert ctxwrap.turn_of(reply).round == 2
    return [request.body for request in provider.seen]


@pytest.mark.parametrize("way", WAYS)
def test_auxiliary_call_changes_neither_the_log_nor_the_next_request(
    way: Callable[..., Any], provider: Provider, home: Path, tmp_path: Path
) -> None:
    alone = requests_of_a_chat(provider, home, lambda client: nullcontext())
    other = tmp_path / "other"
    first, title, second = requests_of_a_chat(provider, other, lambda client: way(client, provider, other))
    assert [first, second] == alone
    assert json.loads(title)["messages"] == TITLE["messages"]
    assert said(other, "s") == said(home, "s")
    kinds = [[event["type"] for event in events(place, "s")] for place in (home, other)]
    assert kinds[0] == kinds[1]


@pytest.mark.filterwarnings("error::ctxwrap.NoSessionWarning")
def test_auxiliary_call_says_what_it_is(provider: Provider, home: Path) -> None:
    turn = ctxwrap.turn_of(by_block(wrapped(provider, home), provider, home))
    assert (turn.round, turn.mode, turn.report.reason) == (0, "disabled", "its purpose is aux")
    assert not home.exists()


def test_auxiliary_call_is_redacted(provider: Provider, home: Path) -> None:
    client = wrapped(provider, home, redaction=ctxwrap.Redaction())
    message = {"role": "user", "content": "Find a title for: my address is ada@example.com"}
    client.chat.completions.create(model="m", messages=[message], purpose="aux")
    assert b"ada@example.com" not in provider.seen[-1].body


def test_unknown_purpose_is_refused(provider: Provider, home: Path) -> None:
    client = wrapped(provider, home)
    for ask in (
        lambda: client.chat.completions.create(**TITLE, purpose="title"),
        lambda: ctxwrap.bind(client, purpose="title"),
        lambda: ctxwrap.using(purpose="title").__enter__(),
    ):
        with pytest.raises(ctxwrap.SettingsError, match="purpose"):
            ask()
    assert provider.seen == []
