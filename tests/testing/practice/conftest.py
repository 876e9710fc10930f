"""A practice provider and clients for it, closed when the test ends."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import anthropic
import httpx
import openai
import pytest

from ctxwrap.testing.practice import Answer, Failure, Provider, script


class Practice:
    """A provider that gives the answers it was made with, and clients for it."""

    def __init__(self, stack: ExitStack, *answers: Answer | Failure) -> None:
        self.provider = stack.enter_context(
            Provider(script(*answers) if answers else None, clock=lambda: 1_700_000_000.9)
        )
        self._stack = stack

    @property
    def openai(self) -> openai.OpenAI:
        client = openai.OpenAI(api_key="k", base_url=self.provider.openai_url, max_retries=0)
        return self._stack.enter_context(client)

    @property
    def anthropic(self) -> anthropic.Anthropic:
        client = anthropic.Anthropic(api_key="k", base_url=self.provider.anthropic_url, max_retries=0)
        return self._stack.enter_context(client)

    @property
    def http(self) -> httpx.Client:
        return self._stack.enter_context(httpx.Client(base_url=self.provider.url))


@pytest.fixture
def practice() -> Iterator[Callable[..., Practice]]:
    with ExitStack() as stack:
        yield lambda *answers: Practice(stack, *answers)
