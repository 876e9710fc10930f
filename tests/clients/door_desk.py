"""A bare client and one with context, of an SDK that takes an HTTP client: through the HTTP door, or by `wrap`."""

from collections.abc import Callable, Coroutine
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import ctxwrap
from tests.clients.running import run_and_close
from tests.providers.loopback import Format, Loopback, Told

TEXT = "Hello, world."
HELLO = [("user", "Say hello."), ("assistant", TEXT)]


class DoorDesk:
    """Each client has a provider of its own, which speaks in one API's format."""

    library = "httpx"
    wraps = False
    """Whether clients get their context by `wrap`."""

    def __init__(self, is_async: bool, home: Path, stack: ExitStack, format: Format) -> None:
        self.is_async, self.home = is_async, home
        self.bare_provider, self.provider = (
            stack.enter_context(Loopback(format, lambda asked: Told(TEXT))) for _ in range(2)
        )
        self._made: list[Any] = []

    def make(self, url: str, http_client: Any) -> Any:
        raise NotImplementedError

    def held(self, client: Any) -> Any:
        """The HTTP client that a client of the SDK holds."""
        raise NotImplementedError

    def bare(self) -> Any:
        return self.make(self.bare_provider.url, self._http_client())

    def _http_client(self) -> Any:
        module = __import__(self.library)
        cls = module.AsyncClient if self.is_async else module.Client
        return self._closed_later(cls(verify=False))

    def wrapped(self, **settings: Any) -> Any:
        door: Any = ctxwrap.async_http_client if self.is_async else ctxwrap.http_client
        options = {"store": self.home, "session": "s", **settings}
        if self.wraps:
            made = ctxwrap.wrap(self.make(self.provider.url, self._http_client()), **options)
            self._closed_later(self.held(made))
            return made
        client = door(library=self.library, client_options={"verify": False}, **options)
        return self.make(self.provider.url, self._closed_later(client))

    def answer(self, answering: Callable[..., Any] | Told) -> None:
        answer = (lambda asked: answering) if isinstance(answering, Told) else answering
        self.bare_provider.answer = self.provider.answer = answer

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        run_and_close(work, self._made, is_async=self.is_async)

    def _closed_later(self, client: Any) -> Any:
        self._made.append(client)
        return client
