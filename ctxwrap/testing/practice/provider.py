"""The practice provider: an LLM provider on this machine, offline, for trying things out and for tests."""

import ipaddress
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from ctxwrap.errors import SettingsError
from ctxwrap.testing.practice.answer import Answer, Failure
from ctxwrap.testing.practice.habits import Habit, habit_of
from ctxwrap.testing.practice.model import PracticeModel
from ctxwrap.testing.practice.requests import Answering, Ask, RecordedRequest
from ctxwrap.testing.practice.server import PracticeServer
from ctxwrap.testing.practice.service import Service


class Provider:
    """Speaks OpenAI's and Anthropic's APIs on a port of the loopback interface.

    `answer` says what the model answers and may be replaced at any time; `seen` holds every request in
    the order of arrival. `habit` is a model that writes its state in a way of its own, by name (`HABITS` of
    `ctxwrap.practice.habits`) or as it is. The threads it starts end with `close()`, or with the program.
    """

    def __init__(
        self,
        answer: Answering | None = None,
        *,
        habit: str | Habit | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
        record: bool = True,
        clock: Callable[[], float] = time.time,
    ) -> None:
        if answer is not None and habit is not None:
            raise SettingsError("a provider has either an answer or a habit")
        self.answer: Answering = answer or (habit_of(habit) if habit is not None else PracticeModel())
        self.seen: list[RecordedRequest] = []
        self._address = (_loopback(host), port)
        self._record = record
        self._service = Service(lambda ask: self.answer(ask), clock)
        self._server: PracticeServer | None = None
        self._url = ""

    @property
    def url(self) -> str:
        """Where it listens, or last listened."""
        if not self._url:
            raise RuntimeError("the provider was not started: use it in a with statement, or call start()")
        return self._url

    @property
    def openai_url(self) -> str:
        """What OpenAI's client takes as `base_url`."""
        return f"{self.url}/v1"

    @property
    def anthropic_url(self) -> str:
        """What Anthropic's client takes as `base_url`."""
        return self.url

    def start(self) -> Self:
        if self._server is None:
            self._server = PracticeServer(self._address, self._service, self._remember)
            self._url = f"http://{self._address[0]}:{self._server.server_port}"
        return self

    def close(self) -> None:
        """End every connection and free the port."""
        server, self._server = self._server, None
        if server is not None:
            server.end()

    def _remember(self, seen: RecordedRequest) -> None:
        if self._record:
            self.seen.append(seen)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def script(*answers: Answer | Failure) -> Answering:
    """Gives `answers` in turn; the last one repeats."""
    if not answers:
        raise SettingsError("a script needs at least one answer")
    waiting, lock = list(answers), threading.Lock()

    def next_answer(ask: Ask) -> Answer | Failure:
        with lock:
            return waiting.pop(0) if len(waiting) > 1 else waiting[0]

    return next_answer


def _loopback(host: str) -> str:
    """`host`, if no other machine can reach it: the provider asks nobody for a key."""
    if host == "localhost":
        return "127.0.0.1"
    try:
        address = ipaddress.IPv4Address(host)
    except ValueError:
        raise SettingsError(f"host must be an IPv4 address such as 127.0.0.1, not {host!r}") from None
    if not address.is_loopback:
        raise SettingsError(f"host must be a loopback address such as 127.0.0.1, not {host!r}")
    return host
