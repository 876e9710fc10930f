"""Counting without a network, and without litellm's files."""

import importlib.machinery
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ctxwrap.tokens import models
from ctxwrap.tokens.counting import forget_counters, forget_encodings
from ctxwrap.tokens.models import forget_windows


@pytest.fixture(autouse=True)
def _no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: Any, **keywords: Any) -> None:
        raise AssertionError("counting tokens asked for the network")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


def _forget() -> None:
    forget_encodings()
    forget_counters()
    forget_windows()


@pytest.fixture
def afresh() -> Iterator[None]:
    """Nothing loaded before the test, nothing left of it."""
    _forget()
    yield
    _forget()


@pytest.fixture
def litellm_at(monkeypatch: pytest.MonkeyPatch, afresh: None) -> Callable[[Path | None], None]:
    """Let litellm be installed in another directory, or not at all."""

    def place(directory: Path | None) -> None:
        spec = importlib.machinery.ModuleSpec("litellm", None, is_package=True) if directory else None
        if spec and directory:
            spec.submodule_search_locations = [str(directory)]
        monkeypatch.setattr(models.util, "find_spec", lambda name: spec)

    return place
