"""Many users at once, some of whom leave, and a worker that dies: whatever was acknowledged is in the log, once."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import ctxwrap
from ctxwrap.inspect import memory_of
from ctxwrap.protocol.instructions import asks_for_trailer, strip_injected
from ctxwrap.testing.practice import Answer, Ask, Provider
from ctxwrap.types import Record, SessionKey
from tests.examples.load import name_of, secret_of
from tests.examples.serving import PATIENCE, ROOT, Backend, environment, until
from tests.support import item, trailer

USERS = int(os.environ.get("CTXWRAP_TEST_LOAD_USERS", "50"))
MESSAGES = int(os.environ.get("CTXWRAP_TEST_LOAD_MESSAGES", "5"))
SEED = int(os.environ.get("CTXWRAP_TEST_LOAD_SEED", "1"))
SECONDS = 240
SECRET = re.compile(r"secret-\d+-[0-9a-f]{16}")
TOKEN = re.compile(r"m-\d+-\d+")
PIECES = 20

Heard = dict[str, Any]


def told(token: str, secrets: list[str]) -> str:
    """What the model answers: long enough to leave in the middle of it, and with all secrets that it can see."""
    counted = " ".join(f"{token}-{number}" for number in range(PIECES))
    return f"To {token}: {counted}. I know {' '.join(secrets) or 'nothing'}."


def indiscreet(ask: Ask) -> Answer:
    """A model that remembers the secret that it is told, and gives away every one that it is shown."""
    secrets = sorted(set(SECRET.findall(json.dumps(ask.body))))
    token = TOKEN.findall(strip_injected(ask.last_user))[-1]
    remembered = [item(f"w-{number}", f"The secret is {secret}") for number, secret in enumerate(secrets)]
    tail = trailer(ask, remembered) if asks_for_trailer(ask.system) else ""
    return Answer(told(token, secrets) + tail, pause=slowly)


def slowly(piece: int) -> None:
    """At the pace of a model, as long as it answers; its trailer is read by nobody who could leave."""
    if piece < PIECES:
        time.sleep(0.02)


class Load:
    """The users, and what they saw so far."""

    def __init__(self, url: str) -> None:
        arguments = [url, *map(str, (USERS, MESSAGES, SEED))]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.examples.load", *arguments],
            cwd=ROOT,
            env=environment(),
            stdout=subprocess.PIPE,
            text=True,
        )
        self.heard: list[Heard] = []
        self.histories: dict[int, str] = {}

    def lines(self) -> Iterator[None]:
        """Take note of each line, and say so, until the users are done."""
        assert self._process.stdout is not None
        guard = threading.Timer(SECONDS, self._process.kill)
        guard.start()
        for line in self._process.stdout:
            seen = json.loads(line)
            if "history" in seen:
                self.histories[seen["user"]] = seen["history"]
            else:
                self.heard.append(seen)
            yield
        guard.cancel()
        assert self._process.wait(PATIENCE) == 0, "the users came to their end"

    def of(self, user: int) -> list[Heard]:
        return [heard for heard in self.heard if heard["user"] == user]


@pytest.fixture(params=["files", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return str(tmp_path / "sessions") if request.param == "files" else request.getfixturevalue("database")


def test_worker_crash_under_load_loses_duplicates_and_leaks_no_message(
    place: str, tmp_path: Path, provider: Provider
) -> None:
    provider.answer = indiscreet
    names = tuple(map(name_of, range(USERS)))
    with Backend(tmp_path / "backend", place, names=names, API_KEY="k", BASE_URL=provider.openai_url) as backend:
        load = Load(backend.url)
        for _ in load.lines():
            if len(load.heard) == USERS * MESSAGES // 3:
                os.kill(backend.workers[0], signal.SIGKILL)
        until(lambda: backend.log.count("startup complete") == 3, "another worker takes the place of the dead one")
        backend.terminate()
        assert backend.exit_code() == 0, backend.log
    outcomes = Counter(outcome(heard) for heard in load.heard)
    assert len(load.heard) == USERS * MESSAGES
    assert outcomes["cut"] > 0, "the worker died in the middle of an answer"
    assert outcomes["left"] > 0
    assert set(outcomes) <= {"done", "left", "cut"}, outcomes
    store = ctxwrap.open_store(place)
    for user in range(USERS):
        key = SessionKey("default", "default", f"user-{name_of(user)}")
        assert_kept(load.of(user), store.open(key).read("messages")[0])
        assert ctxwrap.verify(key.session, store=store).found.get("damage", 0) == 0
        assert set(SECRET.findall(json.dumps(memory_of(store, key)))) <= {secret_of(user, SEED)}
        seen = json.dumps([load.of(user), load.histories[user]])
        assert set(SECRET.findall(seen)) == {secret_of(user, SEED)}, "everybody sees their own secret, and no other"
    assert all(len(set(SECRET.findall(request.body.decode()))) <= 1 for request in provider.seen)
    store.close()


def outcome(heard: Heard) -> str:
    if heard["done"]:
        return "done"
    if heard["left"]:
        return "left"
    return "cut" if heard["error"] in ("RemoteProtocolError", "ReadError", "WriteError") else heard["error"]


def assert_kept(heard: list[Heard], log: list[Record]) -> None:
    """What the log of one user holds of what they saw."""
    said = Counter(record["content"] for record in log if record["role"] == "user")
    answers = [record for record in log if record["role"] == "assistant"]
    assert max(said.values(), default=0) <= 1, "nothing is there twice"
    assert {each["text"] for each in heard if each["accepted"]} <= set(said), "what was accepted is there"
    for each in heard:
        token = TOKEN.findall(each["text"])[0]
        found = [record for record in answers if record["content"].startswith(f"To {token}:")]
        assert len(found) <= 1, f"{token} is answered once"
        if each["done"]:
            assert [record["content"] for record in found] == [each["answer"]]
            assert found[0]["ctx"]["status"] == "complete"
        elif found:
            kept, sure = found[0]["content"], f"{told(token, []).partition(' I know')[0]} I know"
            is_said = sure.startswith(kept) or kept.startswith(sure)
            assert is_said, "what was said before somebody left, or a worker died, is as it was said"
