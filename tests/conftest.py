"""Fixtures for every test: a provider on loopback, a home for sessions, no environment of the machine's."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from ctxwrap.testing.practice import Provider
from tests.support import Told

# the machines that run this are slow at times, which says nothing about what is tested
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home-of-sessions"


@pytest.fixture
def provider() -> Iterator[Provider]:
    """Answers "Hello, world."; a test sets `provider.answer` to say something else."""
    with Provider(Told()) as provider:
        yield provider


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("CTXWRAP_MODE", "OPENAI_BASE_URL", "ANTHROPIC_BASE_URL", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("CTXWRAP_KEY", raising=False)
    monkeypatch.delenv("TIKTOKEN_CACHE_DIR", raising=False)  # litellm sets it once it counts
    monkeypatch.setenv("CTXWRAP_HOME", str(tmp_path / "default-home"))
