"""The key of the prompt cache: one for each session, for OpenAI itself, and never in the caller's way."""

import json
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
import respx
from hypothesis import given
from hypothesis import strategies as st

import ctxwrap
from ctxwrap.pack.injection import body_hash
from ctxwrap.providers.messages import cache_key, is_cache_key
from ctxwrap.testing.practice.answer import Answer
from ctxwrap.testing.practice.provider import Provider
from ctxwrap.types import SessionKey
from tests.providers.replies import SPEAKERS
from tests.support import Told, events

OPENAI = "https://api.openai.com/v1"
HELLO: Any = [{"role": "user", "content": "hi"}]
KEY = SessionKey("default", "default", "s")
TRAILER = '\n\n<<<CONTEXT>>>\n{"memory": {"core": []}}'


def echoing(request: httpx.Request) -> httpx.Response:
    """A provider that repeats the request's key, as Responses do."""
    body, is_chat = json.loads(request.content), "chat" in request.url.path
    speaker = next(each for each in SPEAKERS if each.api == ("chat" if is_chat else "responses"))
    echo = {} if is_chat else {"prompt_cache_key": body.get("prompt_cache_key")}
    return httpx.Response(200, json={**speaker.whole(Answer("Hello." + TRAILER)), **echo})


@pytest.fixture
def sent() -> Any:
    """The bodies that a mocked provider gets at any address."""
    with respx.mock(assert_all_called=False) as router:
        router.post(url__regex=r".*/(chat/completions|responses).*").mock(side_effect=echoing)
        router.get(url__regex=r".*/responses/.*").mock(
            return_value=httpx.Response(200, json={"id": "x", "prompt_cache_key": cache_key(KEY)})
        )
        yield lambda: [json.loads(call.request.content) for call in router.calls if call.request.method == "POST"]


def wrapped(home: Path, url: str = OPENAI, **how: Any) -> Any:
    return ctxwrap.wrap(openai.OpenAI(api_key="x", base_url=url), **{"session": "s", "store": home, **how})


@pytest.mark.parametrize("url", [OPENAI, "https://eu.api.openai.com/v1"])
def test_openai_requests_carry_a_cache_key_per_session(home: Path, sent: Any, url: str) -> None:
    client = wrapped(home, url)
    for session in ("s", "s", "t"):
        reply = client.chat.completions.create(model="gpt-5", messages=HELLO, session=session)
        client.responses.create(model="gpt-5", input="hi", session=session)
        assert reply.choices[0].message.content == "Hello."
    ours, other = cache_key(KEY), cache_key(KEY._replace(session="t"))
    assert [body["prompt_cache_key"] for body in sent()] == [ours] * 4 + [other] * 2


def test_recorded_hash_includes_the_cache_key(home: Path, sent: Any) -> None:
    reply = wrapped(home).chat.completions.create(model="gpt-5", messages=HELLO)
    (start,) = (event for event in events(home, "s") if event["type"] == "start")
    assert body_hash(sent()[0]) == start["sha256"] == ctxwrap.turn_of(reply).report.sha256


def test_preview_shows_the_cache_key(home: Path) -> None:
    view = ctxwrap.preview(wrapped(home), model="gpt-5", messages=HELLO)
    assert view.body["prompt_cache_key"] == cache_key(KEY)


@pytest.mark.parametrize("how", [{"prompt_cache_key": "mine"}, {"extra_body": {"prompt_cache_key": "mine"}}])
def test_callers_cache_key_is_kept(home: Path, sent: Any, how: dict[str, Any]) -> None:
    client = wrapped(home)
    client.chat.completions.create(model="gpt-5", messages=HELLO, **how)
    assert client.responses.create(model="gpt-5", input="hi", **how).prompt_cache_key == "mine"
    assert [body["prompt_cache_key"] for body in sent()] == ["mine"] * 2


def test_cache_key_is_not_echoed_to_the_caller(home: Path, sent: Any) -> None:
    client = wrapped(home)
    assert client.responses.create(model="gpt-5", input="hi").prompt_cache_key is None
    assert client.responses.retrieve("x").prompt_cache_key is None


@pytest.mark.parametrize(
    ("url", "settings"),
    [
        ("https://api.example.com/v1", {}),
        ("https://api.openai.com.example.com/v1", {}),
        ("https://notapi.openai.com.example/v1", {}),
        ("https://mine.openai.azure.com/openai/v1", {}),
        (OPENAI, {"cache_key": False}),
        (OPENAI, {"context_mode": "disabled"}),
        (OPENAI, {"context_mode": "shadow"}),
    ],
)
def test_other_providers_and_settings_get_no_cache_key(
    home: Path, sent: Any, url: str, settings: dict[str, Any]
) -> None:
    client = wrapped(home, url, **settings)
    client.chat.completions.create(model="gpt-5", messages=HELLO)
    client.responses.create(model="gpt-5", input="hi")
    assert not any("prompt_cache_key" in body for body in sent())


@pytest.mark.parametrize("mode", ["enabled", "readonly"])
def test_cache_key_setting_gives_any_provider_a_key(home: Path, sent: Any, mode: str) -> None:
    client = wrapped(home, "https://api.example.com/v1", cache_key=True, context_mode=mode)
    client.chat.completions.create(model="gpt-5", messages=HELLO)
    assert [body["prompt_cache_key"] for body in sent()] == [cache_key(KEY)]


def test_local_server_gets_no_cache_key(provider: Provider, home: Path) -> None:
    provider.answer = Told()
    wrapped(home, provider.openai_url).chat.completions.create(model="m", messages=HELLO)
    assert "prompt_cache_key" not in provider.seen[0].json


def test_cache_key_setting_must_be_a_bool_or_none() -> None:
    with pytest.raises(ctxwrap.SettingsError, match="cache_key must be True, False or None"):
        ctxwrap.Settings(cache_key="yes")  # type: ignore[arg-type]


NAMES = st.builds(SessionKey, st.text(), st.text(), st.text())


@given(NAMES, NAMES)
def test_cache_keys_are_short_and_differ_by_session(one: SessionKey, other: SessionKey) -> None:
    assert (cache_key(one) == cache_key(other)) == (one == other)
    assert len(cache_key(one)) <= 64
    assert is_cache_key(cache_key(one))
