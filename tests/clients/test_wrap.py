"""`wrap`: what is named counts, and wrapping again changes only what is named."""

from enum import Enum
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest

import ctxwrap
from ctxwrap.clients.litellm import load_litellm
from ctxwrap.settings import Settings
from ctxwrap.stores.memory import MemoryStore
from ctxwrap.testing.practice import Provider
from ctxwrap.turn.binding import ClientBinding
from ctxwrap.types import SessionKey, TurnRecord
from tests.support import said


def ask(client: openai.OpenAI) -> TurnRecord:
    turn = ctxwrap.turn_of(client.chat.completions.create(model="m", messages=[{"role": "user", "content": "hi"}]))
    assert turn is not None
    return turn


@pytest.fixture
def client(provider: Provider) -> openai.OpenAI:
    return openai.OpenAI(api_key="x", base_url=provider.openai_url)


@pytest.mark.parametrize("session", ["default", "s", "None"])
def test_a_session_may_have_any_name(client: openai.OpenAI, home: Path, session: str) -> None:
    assert ask(ctxwrap.wrap(client, session=session, store=home)).session == session


class Role(str, Enum):  # noqa: UP042  # a StrEnum is its value as text, too
    """As smolagents writes roles."""

    USER = "user"


def test_role_that_is_an_enum_is_logged_by_its_value(client: openai.OpenAI, home: Path) -> None:
    wrapped = ctxwrap.wrap(client, session="s", store=home)
    messages: Any = [{"role": Role.USER, "content": [{"type": "text", "text": "hi"}]}]
    wrapped.chat.completions.create(model="m", messages=messages)
    assert [role for role, _ in said(home, "s")] == ["user", "assistant"]


def test_rewrapping_changes_only_the_given_settings(client: openai.OpenAI, home: Path) -> None:
    first = ctxwrap.wrap(client, session="one", tenant="acme", store=home, context_mode="readonly")
    second = ctxwrap.wrap(first, session="two")
    third = ctxwrap.wrap(second, context_mode="enabled")
    assert ctxwrap.wrap(first) is first
    turns = [ask(wrapped) for wrapped in (first, second, third)]
    assert [(turn.session, turn.tenant, turn.mode) for turn in turns] == [
        ("one", "acme", "readonly"),
        ("two", "acme", "readonly"),
        ("two", "acme", "enabled"),
    ]
    assert len(said(home, "two", tenant="acme")) == 4


def test_rewrapping_can_change_the_store(client: openai.OpenAI, home: Path, tmp_path: Path) -> None:
    wrapped = ctxwrap.wrap(client, session="s", store=home)
    ask(ctxwrap.wrap(wrapped, store=tmp_path / "other"))
    assert said(home, "s") == []
    assert len(said(tmp_path / "other", "s")) == 2


def test_least_recently_used_session_is_evicted_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ctxwrap.turn.binding._OPEN_SESSIONS", 2)
    binding = ClientBinding(store=MemoryStore(), settings=Settings())
    first, second, third = (SessionKey("t", "a", name) for name in "abc")
    known = binding.session(first)
    binding.session(second)
    assert binding.session(first) is known
    binding.session(third)
    assert [session.key for session in binding.sessions] == [first, third]


MODE_IN_BODY: Any = {"contextMode": "disabled", "top_k": 3}
HELLO: Any = [{"role": "user", "content": "hi"}]


def by_openai(provider: Provider, home: Path, **extra: Any) -> Any:
    client = ctxwrap.wrap(openai.OpenAI(api_key="x", base_url=provider.openai_url), session="s", store=home)
    return client.chat.completions.create(model="m", messages=HELLO, **extra)


def by_anthropic(provider: Provider, home: Path, **extra: Any) -> Any:
    client = ctxwrap.wrap(anthropic.Anthropic(api_key="x", base_url=provider.url), session="s", store=home)
    return client.messages.create(model="m", max_tokens=9, messages=HELLO, **extra)


def by_litellm(provider: Provider, home: Path, **extra: Any) -> Any:
    wrapped: Any = ctxwrap.wrap(load_litellm(), session="s", store=home)
    return wrapped.completion("openai/m", HELLO, api_base=provider.openai_url, api_key="x", **extra)


@pytest.mark.parametrize("call", [by_openai, by_anthropic, by_litellm])
def test_mode_in_the_extra_body_applies_and_is_not_sent(call: Any, provider: Provider, home: Path) -> None:
    reply = call(provider, home, extra_body=dict(MODE_IN_BODY))
    turn = ctxwrap.turn_of(reply)
    assert turn is not None
    assert turn.mode == "disabled"
    sent = provider.seen[-1].json
    assert sent["top_k"] == 3
    assert not {"contextMode", "context_mode"} & sent.keys()


@pytest.mark.parametrize("call", [by_openai, by_anthropic, by_litellm])
def test_mode_keyword_overrides_the_mode_in_the_extra_body(call: Any, provider: Provider, home: Path) -> None:
    reply = call(provider, home, context_mode="readonly", extra_body=dict(MODE_IN_BODY))
    turn = ctxwrap.turn_of(reply)
    assert turn is not None
    assert turn.mode == "readonly"
    assert "contextMode" not in provider.seen[-1].json


def test_an_unknown_mode_in_the_extra_body_is_an_error(provider: Provider, home: Path) -> None:
    with pytest.raises(ctxwrap.SettingsError, match="context_mode"):
        by_openai(provider, home, extra_body={"contextMode": "of"})
