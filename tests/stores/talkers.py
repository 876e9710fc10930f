"""Processes that chat through one store, and tell of every turn whether its answer was acknowledged as saved."""

import json
import logging
import os
import select
import signal
import subprocess
import sys
from itertools import count
from typing import Any, NamedTuple

import openai

import ctxwrap
from ctxwrap.stores.postgres import PostgresStore

LIFETIME = 1.0
"""Seconds without a heartbeat after which others consider a process dead."""
PATIENCE = 2.0
DEADLINE = 120.0


class Outcome(NamedTuple):
    """A turn as its caller saw it."""

    session: str
    said: str
    answer: str
    is_saved: bool
    fault: str = ""
    """What was told instead."""


class Talkers:
    """A context manager around the processes; stop, resume and hear them."""

    def __init__(self, provider: str, database: str, processes: int) -> None:
        self.outcomes: list[Outcome] = []
        self._command = [sys.executable, "-m", __name__, provider, database, str(processes)]
        self._processes = processes
        self._rest = b""
        self.pids: list[int] = []

    def __enter__(self) -> "Talkers":
        self._parent = subprocess.Popen(self._command, stdout=subprocess.PIPE, start_new_session=True)
        self.pids = [int(self._line()) for _ in range(self._processes)]
        return self

    def __exit__(self, *_: object) -> None:
        if self._parent.poll() is None:
            os.killpg(self._parent.pid, signal.SIGKILL)
            self._parent.wait()
        assert self._parent.stdout is not None
        self._parent.stdout.close()

    def hear(self, turns: int = 1) -> list[Outcome]:
        """The next turns that ended."""
        told = [Outcome(*json.loads(self._line())) for _ in range(turns)]
        self.outcomes += told
        return told

    def send(self, signum: signal.Signals, *pids: int) -> None:
        for pid in pids or self.pids:
            os.kill(pid, signum)

    def end(self) -> None:
        """Let every turn that has begun come to its end."""
        self.send(signal.SIGTERM)
        while line := self._line():
            self.outcomes.append(Outcome(*json.loads(line)))
        assert self._parent.wait(DEADLINE) == 0

    def _line(self) -> bytes:
        assert self._parent.stdout is not None
        pipe = self._parent.stdout.fileno()
        told = select.poll()  # select() takes no descriptor above 1023, and a process of many tests has these
        told.register(pipe, select.POLLIN)
        while b"\n" not in self._rest:
            assert told.poll(1000 * DEADLINE), "nobody told of a turn any more"
            read = os.read(pipe, 65536)
            if not read:
                return b""
            self._rest += read
        line, _, self._rest = self._rest.partition(b"\n")
        return line


def chat(name: int, provider: str, database: str) -> None:
    """Turns in a session of one's own and in those of all, one after the other, until told to end."""
    ends: list[int] = []
    signal.signal(signal.SIGTERM, lambda signum, _: ends.append(signum))
    tell(os.getpid())
    store = PostgresStore(database, lifetime=LIFETIME, patience=PATIENCE)
    bare = openai.OpenAI(api_key="k", base_url=provider, max_retries=0)
    client: Any = ctxwrap.wrap(bare, store=store, on_busy="wait", busy_timeout=60, context_document=False)
    for number in count():
        if ends:
            break
        tell(turn(client, f"shared-{number % 2}" if number % 3 == 0 else f"own-{name}", f"said-{name}-{number}."))
    store.close()


def turn(client: Any, session: str, said: str) -> Outcome:
    answer = ""
    try:
        messages = [{"role": "user", "content": said}]
        stream = client.chat.completions.create(model="m", stream=True, messages=messages, session=session)
        for chunk in stream:
            answer += (chunk.choices[0].delta.content or "") if chunk.choices else ""
        call = ctxwrap.turn_of(stream)
    except Exception as error:  # the caller was told
        return Outcome(session, said, answer, False, type(error).__name__)
    if call is None or call.mode != "enabled":
        return Outcome(session, said, answer, False, "bare")
    return Outcome(session, said, answer, not call.report.not_saved, ", ".join(call.report.not_saved))


def tell(what: object) -> None:
    os.write(1, json.dumps(what).encode() + b"\n")


def main(provider: str, database: str, processes: int) -> None:
    logging.disable()  # the test counts what is told to callers
    for name in range(processes):
        if not os.fork():
            chat(name, provider, database)
            os._exit(0)
    faults = [os.waitpid(-1, 0)[1] for _ in range(processes)]
    sys.exit(any(faults))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
