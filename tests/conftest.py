"""Fixtures for every test: a provider on loopback, a home for sessions, no environment of the machine's."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from ctxwrap.testing.practice import Provider
from tests.support import PROFILE, Told

# no deadline: the speed of a machine says nothing about what is tested
for _profile, _examples in (("ci", 40), ("thorough", 100)):
    settings.register_profile(
        _profile, max_examples=_examples, deadline=None, suppress_health_check=[HealthCheck.too_slow]
    )
settings.load_profile(PROFILE)


_IN_MEMORY = Path("/dev/shm")
_NEEDED = 2 * 1024**3


def pytest_configure(config: pytest.Config) -> None:
    """Keep temporary directories in memory where there is enough of it: on a disk, a turn mostly waits for fsync."""
    if os.access(_IN_MEMORY, os.W_OK) and shutil.disk_usage(_IN_MEMORY).free >= _NEEDED:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(_IN_MEMORY))


@pytest.fixture(scope="session", autouse=True)
def _free_memory(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Remove the directories at the end, not after each test: work behind a turn may still write there."""
    yield
    if not request.session.testsfailed:
        shutil.rmtree(tmp_path_factory.getbasetemp(), ignore_errors=True)


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
    # every client loads all certificates, which takes longer than a whole test; no test uses TLS
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path))
    monkeypatch.setenv("CTXWRAP_HOME", str(tmp_path / "default-home"))
