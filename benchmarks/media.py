"""Storage media for benchmarks: raw writes and store writes, by several clients at once.

Each client is a process with its own session. It repeats one kind of work as often as requested and reports each
duration. The caller alternates kinds of work, so that noise affects all of them equally.
"""

import multiprocessing
import os
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

from session import NOW, conversation

from ctxwrap.session.queue import TurnTicket, this_caller
from ctxwrap.session.session import Session
from ctxwrap.settings import Settings
from ctxwrap.stores.base import Store
from ctxwrap.stores.files.store import FileStore
from ctxwrap.stores.log_format import as_record, encode_batch
from ctxwrap.stores.memory import MemoryStore
from ctxwrap.types import Message, Record, Request, SessionKey

MODEL = "practice"


class Medium(NamedTuple):
    kind: str
    level: str
    """Durability level, in the medium's own terms."""
    place: str = ""
    """A directory, or a database URL."""

    @property
    def lasts(self) -> bool:
        """Whether a write waits for the disk."""
        return self.level in ("turn, always", "synchronous_commit on")

    @property
    def settings(self) -> Settings:
        return Settings(durability="turn" if self.lasts else "os")

    def store(self) -> Store:
        if self.kind == "memory":
            return MemoryStore()
        if self.kind == "files":
            return FileStore(self.place)
        from ctxwrap.stores.postgres import PostgresStore

        return PostgresStore(self.place, lifetime=3600)  # no renewal during the measurement


def media(home: Path, url: str | None) -> list[Medium]:
    found = [Medium("memory", "-"), Medium("files", "os", str(home)), Medium("files", "turn, always", str(home))]
    if url is not None:
        for value in ("off", "on"):
            options = f"options=-csynchronous_commit%3D{value}"
            found.append(Medium("PostgreSQL", f"synchronous_commit {value}", f"{url}&{options}"))
    return found


# raw writes

BARE_TABLE = "CREATE TABLE IF NOT EXISTS bare (session text, pos bigint, body bytea, PRIMARY KEY (session, pos))"
BARE_INSERT = "INSERT INTO bare (session, pos, body) VALUES (%s, %s, %s), (%s, %s, %s)"


def bare_write(medium: Medium, name: str, lines: Sequence[bytes]) -> Callable[[], None]:
    """Write two records directly, synced if the medium is durable."""
    if medium.kind == "files":
        return _bare_file(medium, name, b"".join(lines))
    return _bare_rows(medium, name, lines)


def _bare_file(medium: Medium, name: str, data: bytes) -> Callable[[], None]:
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    handle = os.open(f"{medium.place}/bare-{name}-{medium.lasts}", flags, 0o600)

    def write() -> None:
        os.write(handle, data)
        if medium.lasts:
            os.fdatasync(handle)

    return write


def _bare_rows(medium: Medium, name: str, lines: Sequence[bytes]) -> Callable[[], None]:
    import psycopg

    connection = psycopg.connect(medium.place, autocommit=True, prepare_threshold=None)
    name, position = f"{name}-{medium.level}", 0

    def write() -> None:
        nonlocal position
        with connection.pipeline():
            connection.execute("BEGIN")
            connection.execute(BARE_INSERT, (name, position, lines[0], name, position + 1, lines[1]))
            connection.execute("COMMIT")
        position += 2

    return write


# store writes


def two_records(turn: int) -> list[Record]:
    """The messages of a turn."""
    return [
        as_record(message, id=f"019{turn:018x}-{at}", seq=2 * turn + at, round=turn)
        for at, message in enumerate(conversation(turn))
    ]


class Client:
    """One session in one medium, and the kinds of work on it by name."""

    def __init__(self, medium: Medium, name: str) -> None:
        self.medium, self.name, self.turns = medium, name, 0
        self._store = medium.store()
        self._log = self._store.open(self._key("section"))
        key = self._key("turn")
        self._session = Session(key, self._store.open(key), medium.settings)
        self.work: dict[str, Callable[[], Any]] = {"section": self.section, "turn": self.turn}
        if medium.kind != "memory":
            bare = bare_write(medium, name, [encode_batch([record], 0) for record in two_records(0)])
            self.work |= {"bare section": bare, "bare turn": lambda: (bare(), bare())}

    def _key(self, what: str) -> SessionKey:
        return SessionKey(f"bench-{self.medium.level}", self.name, what)

    def section(self) -> None:
        """Write two records in one section of the store."""
        self.turns += 1
        with self._log.locked(redoable=True):
            self._log.append({"messages": two_records(self.turns)}, lasting=self.medium.lasts)
            wait = self._log.unsynced()
        wait()

    def turn(self) -> None:
        """Do what a turn does to the log: take the lease, write its opening and its end."""
        self.turns += 1
        take_turn(self._session, f"{self.turns:021x}", *conversation(self.turns))

    def call(self, url: str) -> None:
        """Add calls to a provider, wrapped and bare."""
        import openai

        import ctxwrap

        bare = openai.OpenAI(api_key="x", base_url=f"{url}/v1", max_retries=0)
        wrapped = ctxwrap.wrap(
            bare,
            store=self._store,
            tenant=f"bench-{self.medium.level}",
            agent=self.name,
            session="call",
            settings=self.medium.settings,
        )
        self.work |= {"call": lambda: self._call(wrapped), "bare call": lambda: self._call(bare)}

    def _call(self, client: Any) -> None:
        self.turns += 1
        asked = {"role": "user", "content": conversation(self.turns)[0].content}
        client.chat.completions.create(model=MODEL, messages=[asked])


def take_turn(session: Session, turn: str, asked: Message, answered: Message) -> None:
    place = TurnTicket(session.line, this_caller())

    def opened() -> int:
        assert place.take(), "no other turn has the session"
        opening = session.open_turn(Request((asked,)), NOW)
        new = [as_record(message, round=number) for message, number in opening.new]
        start = {"type": "start", "run": turn, "runtime": opening.runtime.as_json(), "ctx": {}}
        session.append(turn, new, [start], NOW, part="o")
        return opening.runtime.round

    def ended() -> None:
        answer = as_record(answered, round=round)
        session.append(turn, [answer], [{"type": "done", "run": turn, "status": "ok", "ctx": {}}], NOW, part="c")
        place.give_back()

    round = session.transaction(opened)
    session.transaction(ended)
    place.leave()


# several clients


class Job(NamedTuple):
    medium: Medium
    work: str
    times: int
    provider: str = ""


class Spent(NamedTuple):
    began: float
    ended: float
    each: list[float]


def serve(pipe: Connection, name: str) -> None:
    clients: dict[Medium, Client] = {}
    while (job := pipe.recv()) is not None:
        client = clients.get(job.medium) or clients.setdefault(job.medium, Client(job.medium, name))
        if job.provider and "call" not in client.work:
            client.call(job.provider)
        pipe.send(_spent(client.work[job.work], job.times))


def _spent(work: Callable[[], Any], times: int) -> Spent:
    each, began = [], time.monotonic()
    for _ in range(times):
        start = time.perf_counter()
        work()
        each.append(time.perf_counter() - start)
    return Spent(began, time.monotonic(), each)


class Measured(NamedTuple):
    per_second: float
    each: list[float]


class Clients:
    """A pool of `count` client processes; use it as a context manager."""

    def __init__(self, count: int) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipes, self._processes = [], []
        for name in range(count):
            here, there = context.Pipe()
            process = context.Process(target=serve, args=(there, f"client-{name}"), daemon=True)
            process.start()
            self._pipes.append(here)
            self._processes.append(process)

    def __enter__(self) -> "Clients":
        return self

    def __exit__(self, *_: object) -> None:
        for pipe in self._pipes:
            pipe.send(None)
        for process in self._processes:
            process.join(10)

    def do(self, job: Job, count: int) -> Measured:
        """Run a job in `count` clients at once."""
        pipes = self._pipes[:count]
        for pipe in pipes:
            pipe.send(job)
        spent: list[Spent] = [pipe.recv() for pipe in pipes]
        took = max(each.ended for each in spent) - min(each.began for each in spent)
        return Measured(count * job.times / took, [one for each in spent for one in each.each])
