"""One proxy for all tests of a module that need no settings of their own."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from ctxwrap.testing.practice import Provider
from ctxwrap.testing.practice.requests import Answering
from tests.service.serve.serving import Proxy, proxy, upstreams_of
from tests.support import Told


class Stage(NamedTuple):
    """A proxy with its provider, and a provider that is asked directly."""

    proxy: Proxy
    provider: Provider
    direct: Provider
    home: Path

    def answer(self, answering: Answering) -> None:
        self.provider.answer = self.direct.answer = answering


@pytest.fixture(scope="module")
def shared_stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    home = tmp_path_factory.mktemp("sessions")
    clock = lambda: 1_700_000_000.0  # noqa: E731
    with Provider(clock=clock) as provider, Provider(clock=clock) as direct, proxy(home, *upstreams_of(provider)) as at:
        yield Stage(at, provider, direct, home)


@pytest.fixture
def stage(shared_stage: Stage) -> Stage:
    shared_stage.provider.seen.clear()
    shared_stage.direct.seen.clear()
    shared_stage.answer(Told())
    for provider in (shared_stage.provider, shared_stage.direct):
        provider._service._requests = 0  # replies then have the same ids
    return shared_stage
