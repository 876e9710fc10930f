"""Context windows: by any name of a model, a default for unknown models, the caller's windows first."""

from collections.abc import Callable
from pathlib import Path

import pytest

from ctxwrap.tokens import ContextWindow, reply_reserve, window_of
from ctxwrap.tokens.models import _sizes, model_row, model_rows, spellings

KNOWN = {
    "gpt-4o": (128_000, 16_384),
    "openai/gpt-4o": (128_000, 16_384),
    "azure/gpt-4o-2024-08-06": (128_000, 16_384),
    "ft:gpt-4o-mini-2024-07-18:acme::x1": (128_000, 16_384),
    "GPT-4": (8_192, 4_096),
    "gpt-4-0613": (8_192, 4_096),
    "gpt-3.5-turbo": (16_385, 4_096),
    "o3-2025-04-16": (200_000, 100_000),
    "gpt-4.1": (1_047_576, 32_768),
    "claude-sonnet-4-5": (200_000, 64_000),
    "bedrock/us.anthropic.claude-3-5-sonnet-20241022-v2:0": (200_000, 8_192),
    "gemini/gemini-2.5-pro": (1_048_576, 65_536),
    "deepseek/deepseek-chat": (131_072, 8_192),
}
TAKEN = {
    "anthropic/claude-3-5-sonnet-20241022": 200_000,
    "claude-3-5-sonnet-latest": 200_000,
    "openrouter/anthropic/claude-3.5-sonnet:beta": 200_000,
    "vertex_ai/claude-opus-4@20250514": 200_000,
    "us-gov.anthropic.claude-sonnet-4-5-20250929-v1:0": 200_000,
    "my-gateway/gpt-4o-latest": 128_000,
    "gemini-2.5-pro-preview-05-06": 1_048_576,
    "groq/llama-3.3-70b-versatile": 128_000,
}


@pytest.mark.parametrize(("model", "sizes"), KNOWN.items())
def test_window_has_input_and_output_tokens(model: str, sizes: tuple[int, int]) -> None:
    assert window_of(model) == ContextWindow(*sizes, known=True)


@pytest.mark.parametrize(("model", "taken"), TAKEN.items())
def test_window_is_found_by_shorter_names(model: str, taken: int) -> None:
    window = window_of(model)
    assert (window.input_tokens, window.known) == (taken, True)


@pytest.mark.parametrize(
    "model", ["", "some-model", "foo/bar", "sample_spec", "dall-e-3", "/", ":", "ft:", "@", "a.b.c"]
)
def test_unknown_models_get_a_default_window(model: str) -> None:
    assert window_of(model) == ContextWindow(8192, 4096, known=False)


def test_names_are_shortened_step_by_step() -> None:
    assert list(spellings("azure/us/gpt-4o-2024-08-06")) == [
        "azure/us/gpt-4o-2024-08-06",
        "azure/us/gpt-4o",
        "us/gpt-4o-2024-08-06",
        "us/gpt-4o",
        "gpt-4o-2024-08-06",
        "gpt-4o",
    ]
    assert list(spellings("eu.anthropic.claude-3-haiku-20240307-v1:0"))[-1] == "claude-3-haiku"
    assert "gpt-4" not in spellings("gpt-4.1"), "a version is no suffix"


def test_callers_windows_take_precedence() -> None:
    own: dict[str, int | ContextWindow] = {"GPT-4o": 5000, "house-model": ContextWindow(70_000, 9_000, known=True)}
    assert window_of("azure/gpt-4o-2024-08-06", own) == ContextWindow(5000, 4096, known=True)
    assert window_of("house-model", own) == ContextWindow(70_000, 9_000, known=True)
    assert window_of("gpt-4", own) == window_of("gpt-4")
    assert reply_reserve(window_of("house-model", own), 20_000) == 9_000


@pytest.mark.parametrize(
    ("model", "asked_for", "reserve"),
    [
        ("gpt-4o", None, 4096),
        ("gpt-4o", 0, 4096),
        ("gpt-4o", 100, 100),
        ("gpt-4o", 16_000, 16_000),
        ("gpt-4o", 90_000, 16_384),
        ("gpt-4", None, 2048),
        ("some-model", None, 2048),
        ("some-model", 5000, 5000),
        ("some-model", 50_000, 8192),
    ],
)
def test_reply_reserve_is_the_limit_within_the_window(model: str, asked_for: int, reserve: int) -> None:
    assert reply_reserve(window_of(model), asked_for) == reserve


@pytest.mark.parametrize("table", [None, b"", b"[]", b'{"gpt-4o": 5, "gpt-4": {"max_input_tokens": "many"}}'])
def test_windows_are_defaults_without_a_table(
    litellm_at: Callable[[Path | None], None], tmp_path: Path, table: bytes | None
) -> None:
    if table is not None:
        (tmp_path / "model_prices_and_context_window_backup.json").write_bytes(table)
    litellm_at(tmp_path)
    assert not window_of("gpt-4o").known
    litellm_at(None)
    assert not window_of("gpt-4").known


def test_row_with_one_size_is_read(litellm_at: Callable[[Path | None], None], tmp_path: Path) -> None:
    rows = '{"old": {"max_tokens": 2048, "mode": "chat"}, "new": {"max_tokens": 99, "max_input_tokens": 5000}}'
    (tmp_path / "model_prices_and_context_window_backup.json").write_text(rows)
    litellm_at(tmp_path)
    assert window_of("old") == ContextWindow(2048, 2048, known=True)
    assert window_of("new") == ContextWindow(5000, 99, known=True)


def test_row_found_in_the_text_equals_the_parsed_row() -> None:
    rows = {name.lower(): row for name, row in model_rows().items()}
    for name in list(rows)[::60]:
        found = model_row(name)
        assert found is None or _sizes(found) == _sizes(rows[name])
    assert _sizes(model_row("gpt-4o")) == _sizes(rows["gpt-4o"]) is not None
    assert model_row("sample_spec") is model_row("no such model") is model_row('"') is None
