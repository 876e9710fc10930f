"""The backend of the examples as it is run: a supervisor and its workers, in processes of their own."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from ctxwrap.stores import open_store
from ctxwrap.types import Record, SessionKey
from examples.backend.passwords import hashed
from tests.examples.sse import Event, Events

ROOT = Path(__file__).parents[2]
PATIENCE = 60.0
SECRET = "a secret that only the tests know!"
PASSWORD = "swordfish"
QUICK = hashed(PASSWORD, b"sixteen bytes of", (2**10, 8, 1))
"""A hash that costs little: there are many people here."""


def until(condition: Callable[[], bool], what: str, seconds: float = PATIENCE) -> None:
    """Look again and again, since another process does it."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"never: {what}"
        time.sleep(0.02)


def said_in(place: str, user: str) -> list[Record]:
    """What a user's session holds, read by somebody who is no worker."""
    return open_store(place).open(SessionKey("default", "default", f"user-{user}")).read("messages")[0]


class Backend:
    """Use it as a context manager: it is ready then, and gone afterwards."""

    def __init__(self, directory: Path, place: str, *, names: tuple[str, ...] = ("ada", "bob"), **variables: str):
        directory.mkdir(parents=True, exist_ok=True)
        self.users, self._log = directory / "users", directory / "log"
        self.users.write_text("".join(f"{name}:{QUICK}\n" for name in names))
        self.place = place
        self._environment = environment(
            STORE=place, USERS=str(self.users), SECRET=SECRET, PORT="0", WORKERS="2", **variables
        )

    def __enter__(self) -> "Backend":
        with open(self._log, "wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "backend"],
                cwd=ROOT / "examples",
                env=self._environment,
                stdout=log,
                stderr=log,
                start_new_session=True,  # so that its workers can be killed with it
            )
        try:
            until(lambda: self.has_ended or self.log.count("startup complete") == 2, "two workers start")
            assert not self.has_ended, self.log
        except BaseException:
            self._kill()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if not self.has_ended:
            self._process.terminate()
        try:
            self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self._kill()

    def _kill(self) -> None:
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    @property
    def log(self) -> str:
        return self._log.read_text()

    @property
    def url(self) -> str:
        found = re.search(r"running on (http://\S+)", self.log)
        assert found, self.log
        return found[1]

    @property
    def workers(self) -> list[int]:
        """All that there ever were."""
        return [int(pid) for pid in re.findall(r"Started server process \[(\d+)\]", self.log)]

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def terminate(self) -> None:
        self._process.terminate()

    def exit_code(self) -> int:
        return self._process.wait(PATIENCE)

    def descriptors(self) -> int:
        """How many files and connections the workers that run have open."""
        return sum(len(os.listdir(f"/proc/{pid}/fd")) for pid in self.workers if os.path.exists(f"/proc/{pid}"))

    def ready(self) -> httpx.Response:
        return httpx.get(f"{self.url}/ready", timeout=PATIENCE, trust_env=False)


def environment(**variables: str) -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("CHAT_")}
    given = {f"CHAT_{name}": value for name, value in variables.items()}
    return {**inherited, "PYTHONPATH": str(ROOT), **given}


class Person:
    """Somebody with a browser."""

    def __init__(self, backend: Backend, name: str) -> None:
        self.http = httpx.Client(base_url=backend.url, timeout=PATIENCE, trust_env=False)
        self.signed_in = self.http.post("/sign-in", json={"name": name, "password": PASSWORD})

    @contextmanager
    def hearing(self, text: str, mode: str = "enabled") -> Iterator[Iterator[Event]]:
        """The events of an answer, one at a time; who leaves the block has closed the connection."""
        with self.http.stream("POST", "/chat", json={"text": text, "contextMode": mode}) as response:
            assert response.status_code == 200, response.read()
            assert response.headers["content-type"].startswith("text/event-stream")
            yield Events().of(response.iter_lines())

    def says(self, text: str, mode: str = "enabled") -> list[Event]:
        with self.hearing(text, mode) as events:
            return list(events)
