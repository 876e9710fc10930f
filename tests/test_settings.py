"""Settings: defaults, overrides, and errors that name the valid choices."""

import re
from dataclasses import fields
from datetime import datetime
from pathlib import Path
from typing import Any, get_type_hints
from uuid import UUID

import httpx
import openai
import pytest
from openai import OpenAI

import ctxwrap
from ctxwrap.retrieval.wordllama import is_installed
from ctxwrap.session.scope import Scope, ScopeNames
from ctxwrap.settings import settings_from
from ctxwrap.stores.memory import MemoryStore


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"context_mod": "disabled"}, "unknown setting 'context_mod': did you mean 'context_mode'"),
        ({"context_mode": "of"}, "known are disabled, enabled, readonly, shadow"),
        ({"context_mode": "READONLY"}, "did you mean 'readonly'"),
        ({"busy_timeout": -1}, "busy_timeout must be from 0 up"),
        ({"context_mode": None}, "unknown context_mode None"),
        ({"history": "all"}, "known are caller, log"),
        ({"history_tokens": -1}, "whole number from 0 up"),
        ({"history_tokens": True}, "whole number from 0 up"),
        ({"snapshot_reserve": 1.5}, "whole number from 0 up"),
        ({"max_reasks": -1}, "whole number from 0 up"),
        ({"on_missing": "ask"}, "known are keep, reask, rules"),
        ({"budget_messages": -1}, "whole number from 0 up"),
        ({"snapshot": "part"}, "known are delta, full"),
        ({"strict": "yes"}, "True or False"),
        ({"embeddings": 1}, "embeddings must be True or False"),
        ({"evidence": "logs"}, "did you mean 'log'"),
        ({"clock": datetime(2026, 1, 1)}, "clock must have a time zone"),
        ({"clock": "2026-01-01"}, "clock must be a datetime, or a function that returns one"),
    ],
)
def test_a_wrong_setting_is_named(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ctxwrap.SettingsError, match=message):
        settings_from(**wrong)


def test_context_mode_has_a_second_spelling() -> None:
    assert settings_from(contextMode="shadow") == ctxwrap.Settings(context_mode="shadow")


def test_overrides_come_before_the_base_and_leave_it_alone() -> None:
    base = ctxwrap.Settings(strict=True)
    assert settings_from(base, record=False) == ctxwrap.Settings(strict=True, record=False)
    assert base == ctxwrap.Settings(strict=True)


def test_the_environment_sets_the_processes_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CTXWRAP_MODE", "readonly")
    assert settings_from().context_mode == "readonly"
    assert settings_from(ctxwrap.Settings()).context_mode == "enabled"
    monkeypatch.setenv("CTXWRAP_MODE", "onn")
    with pytest.raises(ctxwrap.SettingsError, match=r"unknown context_mode 'onn'.*CTXWRAP_MODE"):
        settings_from()


def test_settings_are_frozen() -> None:
    with pytest.raises(AttributeError):
        ctxwrap.Settings().strict = True  # type: ignore[misc]


@pytest.mark.skipif(is_installed(), reason="the extra is installed")
def test_embeddings_without_their_extra_are_refused_before_anything_is_wrapped() -> None:
    for use in (ctxwrap.Settings, settings_from, lambda **given: ctxwrap.wrap(OpenAI(api_key="x"), **given)):
        with pytest.raises(ctxwrap.SettingsError, match=r"pip install 'ctxwrap\[embeddings\]'"):
            use(embeddings=True)


@pytest.mark.parametrize(
    ("thing", "described"),
    [
        (None, "an object of type builtins.NoneType"),
        ("sk-secret", "an object of type builtins.str"),
        (OpenAI, "the class openai.OpenAI, which is no client yet"),
        (openai, "the module openai"),
        (print, "the function print"),
        (OpenAI(api_key="x").chat, "an object of type openai.resources.chat.chat.Chat"),
    ],
)
def test_what_is_no_client_is_refused(thing: object, described: str) -> None:
    with pytest.raises(ctxwrap.UnsupportedClient, match=f"cannot wrap {described}: pass an OpenAI or Anthropic client"):
        ctxwrap.wrap(thing, store="memory:")


@pytest.mark.parametrize(
    "way", ["groq, mistralai, ollama", "boto3", "OpenAI(base_url=...)", "ctxwrap.http_client()", "litellm", "serve"]
)
def test_the_refusal_of_a_client_names_the_ways_out(way: str) -> None:
    with pytest.raises(ctxwrap.UnsupportedClient, match=re.escape(way)):
        ctxwrap.wrap(object(), store="memory:")


def test_the_refusal_of_an_http_client_names_the_door() -> None:
    way = re.escape("httpx.Client(transport=ctxwrap.transport(...))")
    with httpx.Client() as client, pytest.raises(ctxwrap.UnsupportedClient, match=way):
        ctxwrap.wrap(client, store="memory:")


def test_keywords_of_wrap_are_the_settings_and_have_their_types() -> None:
    keywords, settings = get_type_hints(ctxwrap.SettingsDict), get_type_hints(ctxwrap.Settings)
    assert keywords == settings | {"contextMode": settings["context_mode"]}


def test_keywords_of_using_and_bind_are_the_names_of_a_scope() -> None:
    keywords = get_type_hints(ScopeNames)
    apart = {"is_apart", "offers"}
    assert {name: kind | None for name, kind in keywords.items() if name != "contextMode"} == {
        name: kind for name, kind in get_type_hints(Scope).items() if name not in apart
    }
    assert keywords["contextMode"] == keywords["context_mode"]


@pytest.mark.parametrize(
    ("wrong", "meant"),
    [
        ({"sesion": "s"}, "session"),
        ({"tennant": "t"}, "tenant"),
        ({"sttore": "memory:"}, "store"),
        ({"contextmode": "shadow"}, "context_mode"),
        ({"durabilty": "turn"}, "durability"),
    ],
)
def test_a_misspelt_argument_of_wrap_gets_a_suggestion(wrong: dict[str, Any], meant: str) -> None:
    for client in (OpenAI(api_key="x"), ctxwrap.wrap(OpenAI(api_key="x"), store="memory:")):
        with pytest.raises(ctxwrap.SettingsError, match=rf"unknown argument of wrap\(\).*did you mean '{meant}'"):
            ctxwrap.wrap(client, **wrong)


@pytest.mark.parametrize("name", [setting.name for setting in fields(ctxwrap.Settings)])
def test_settings_refuse_what_no_setting_takes(name: str) -> None:
    with pytest.raises(ctxwrap.SettingsError, match=name):
        settings_from(**{name: object()})


@pytest.mark.parametrize(
    ("store", "message"),
    [
        ("redis://user:secret@host/0", "no store at redis://…: use a directory"),
        ("postgresql:user:secret", "no store at postgresql:…: use a directory"),
        ("file:/sessions", "no store at file:…: use a directory"),
        (":memory:", "no store at ':memory:': use a directory.*or memory:"),
        ({"url": "secret"}, r"what open_store\(...\) returns, not an object of type dict"),
        (MemoryStore, r"what open_store\(...\) returns, not MemoryStore"),
        (Path(__file__), "it is a file; use a directory"),
    ],
)
def test_what_is_no_store_is_refused_without_its_password(store: Any, message: str) -> None:
    with pytest.raises(ctxwrap.SettingsError, match=message) as refused:
        ctxwrap.wrap(OpenAI(api_key="x"), store=store)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("session", [42, UUID(int=42), None, ""])
def test_a_session_that_is_no_text_is_refused(session: Any) -> None:
    client = ctxwrap.wrap(OpenAI(api_key="x"), store="memory:")
    hint = r": pass str\(session\)" if session else ""
    with pytest.raises(ctxwrap.InvalidId, match=f"a session id must be a text of at least one character, not .*{hint}"):
        ctxwrap.bind(client, session=session)


def test_settings_that_are_no_settings_are_refused() -> None:
    with pytest.raises(ctxwrap.SettingsError, match=r"settings must be Settings\(...\)"):
        ctxwrap.wrap(OpenAI(api_key="x"), settings={"strict": True}, store="memory:")  # type: ignore[arg-type]
