"""Settings: defaults, overrides, and errors that name the valid choices."""

from typing import Any

import pytest
from openai import OpenAI

import ctxwrap
from ctxwrap.retrieval.wordllama import is_installed
from ctxwrap.settings import settings_from


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"context_mod": "disabled"}, "unknown setting 'context_mod': did you mean 'context_mode'"),
        ({"context_mode": "of"}, "known are disabled, enabled, readonly, shadow"),
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
    with pytest.raises(ctxwrap.SettingsError, match="unknown context_mode 'onn'"):
        settings_from()


def test_settings_are_frozen() -> None:
    with pytest.raises(AttributeError):
        ctxwrap.Settings().strict = True  # type: ignore[misc]


@pytest.mark.skipif(is_installed(), reason="the extra is installed")
def test_embeddings_without_their_extra_are_refused_before_anything_is_wrapped() -> None:
    for use in (ctxwrap.Settings, settings_from, lambda **given: ctxwrap.wrap(OpenAI(api_key="x"), **given)):
        with pytest.raises(ctxwrap.SettingsError, match=r"pip install 'ctxwrap\[embeddings\]'"):
            use(embeddings=True)


@pytest.mark.parametrize("thing", [object(), "client", None, print])
def test_what_is_no_client_is_refused(thing: object) -> None:
    with pytest.raises(ctxwrap.UnsupportedClient, match="pass an OpenAI or Anthropic client"):
        ctxwrap.wrap(thing, store="memory:")
