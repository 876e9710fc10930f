"""Cost of a session's log: opening and turns in long sessions, appends against raw writes, several processes.

    python benchmarks/session.py [--quick] [--home DIRECTORY]

All comparisons alternate within one run. Opening and turns are in CPU time, also as multiples of a session of 100
messages. Appends are per second, against the same bytes written to an open file: per second of CPU time for `os`, which
does not wait for the disk, and of wall time for `turn` and `always`, which do.
"""

import argparse
import multiprocessing
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from ctxwrap.memory.items import MemoryItem
from ctxwrap.session.session import Session
from ctxwrap.stores.files.store import FileLog, FileStore
from ctxwrap.stores.log_format import as_record
from ctxwrap.types import Message, Record, Request, Runtime, SessionKey

NOW = datetime(2026, 2, 20, 18, 30, tzinfo=UTC)
MOMENT = "2026-02-20T18:30:00.000000Z"
TEXT = "Here is an answer of some length. " * 12
BATCH = 500
PROCESSES = 8


def conversation(turn: int) -> tuple[Message, Message]:
    return Message("user", f"question {turn}: " + "some words " * 20), Message("assistant", f"{TEXT}{turn}")


def remembered(turn: int) -> MemoryItem:
    return MemoryItem(
        id=f"core-{turn % 40}",
        type="fact",
        content=f"The user said something in round {turn}.",
        tags=("said",),
        tier="core",
        decay=0.1,
        anchor=turn,
        first=turn,
        last=turn,
        since=turn,
        importance=0.1,
    )


def past(turns: int) -> Iterator[tuple[list[Record], list[Record]]]:
    """The messages and events of `turns` turns."""
    for turn in range(1, turns + 1):
        item = remembered(turn)
        change = {"kind": "add", "id": item.id, "tier": item.tier, "item": item.as_json()}
        events = [
            {"type": "start", "runtime": Runtime(turn, MOMENT, MOMENT).as_json()},
            {"type": "snapshot", "round": turn, "status": "clean", "operations": [change], "trailer": TEXT},
            {"type": "done", "status": "ok"},
        ]
        yield (
            [
                as_record(message, id=f"019{turn:018x}-{2 * turn - at}", round=turn)
                for at, message in zip((1, 0), conversation(turn), strict=True)
            ],
            [
                {**event, "ctx": {"id": f"019{turn:018x}-{3 * turn - 2 + at}", "messages": 2 * turn}}
                for at, event in enumerate(events)
            ],
        )


def take_turn(session: Session, turn: str, sent: Sequence[Message], answered: Message) -> None:
    """Do what a turn does to the log."""
    with session.locked():
        opening = session.open_turn(Request(tuple(sent)), NOW)
        asked = [as_record(message, round=number) for message, number in opening.new]
        assert len(asked) == 1, "only the question is new"
        session.append(turn, asked, [{"type": "start", "runtime": opening.runtime.as_json(), "ctx": {}}], NOW)
    with session.locked():
        answer = as_record(answered, round=opening.runtime.round)
        session.append(turn, [answer], [{"type": "done", "status": "ok", "ctx": {}}], NOW)


class Subject:
    """A session of `messages` messages, and its caller."""

    def __init__(self, store: FileStore, messages: int) -> None:
        self.messages, self.turns = messages, messages // 2
        self.key = SessionKey("bench", "agent", f"with-{messages}")
        self.log = store.open(self.key)
        self._write()
        self.session = self.opened()
        self.turn()

    def _write(self) -> None:
        turns = past(self.turns)
        with self.log.locked():
            while batch := list(islice(turns, BATCH)):
                messages, events = ([record for part in parts for record in part] for parts in zip(*batch, strict=True))
                self.log.append({"messages": messages, "events": events})

    def opened(self) -> Session:
        session = Session(self.key, self.log)
        session.refresh()
        return session

    def replayed(self) -> Session:
        """Open it without its checkpoint."""
        path = self.log.directory / ".checkpoint"
        aside = path.rename(path.with_suffix(".aside"))
        try:
            return self.opened()
        finally:
            aside.rename(path)

    def turn(self, sends: int = 1) -> None:
        """Run a turn in which the caller sends its newest `sends` messages."""
        self.turns += 1
        first = self.turns - sends // 2
        *sent, answered = [message for turn in range(first, self.turns + 1) for message in conversation(turn)]
        take_turn(self.session, f"{self.turns:021x}", sent, answered)


def medians(works: Sequence[Callable[[], Any]], rounds: int, clock: Callable[[], float]) -> list[float]:
    """Median seconds of each, alternating."""
    spent: list[list[float]] = [[] for _ in works]
    for _ in range(rounds):
        for work, times in zip(works, spent, strict=True):
            start = clock()
            work()
            times.append(clock() - start)
    return [statistics.median(times) for times in spent]


def long_pasts(store: FileStore, sizes: Sequence[int], rounds: int) -> None:
    subjects = [Subject(store, size) for size in sizes]
    print(f"{'CPU ms, and times that':24}" + "".join(f"{size:>9} messages" for size in sizes))
    rows: list[tuple[str, list[Callable[[], Any]], int]] = [
        ("opened", [each.opened for each in subjects], rounds),
        ("opened, no checkpoint", [each.replayed for each in subjects], 1),
        ("turn, newest sent", [each.turn for each in subjects], rounds),
        ("turn, 40 messages sent", [partial(each.turn, 40) for each in subjects], rounds),
    ]
    for name, works, times in rows:
        spent = medians(works, times, time.thread_time)
        row = "".join(f"{each * 1e3:10.2f} {each / spent[0]:6.2f}x" for each in spent)
        print(f"{name:24}{row}", flush=True)


class Appends:
    """Writes the same bytes in the same portions, through a log and directly."""

    def __init__(self, log: FileLog, path: Path, portion: int) -> None:
        self._log, self._portion = log, portion
        self._record = as_record(conversation(1)[0], id=f"019{1:018x}-1", round=1)
        self.append(lasting=False)
        line = (log.directory / "messages.jsonl").read_bytes().splitlines(keepends=True)[-1]
        self._line, self._handle = line, os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def append(self, *, lasting: bool) -> None:
        for _ in range(self._portion):
            with self._log.locked():
                self._log.append({"messages": [self._record]}, lasting=lasting)
                wait = self._log.unsynced()
            wait()

    def write(self, *, lasting: bool) -> None:
        for _ in range(self._portion):
            os.write(self._handle, self._line)
            if lasting:
                os.fdatasync(self._handle)


def appends(store: FileStore, home: Path, rounds: int, portions: tuple[int, int]) -> None:
    print(f"{'per second':24}{'bare':>12}{'appended':>12}{'ratio':>8}")
    clocks = time.thread_time, time.perf_counter
    for name, lasting, portion, clock in zip(("os", "turn, always"), (False, True), portions, clocks, strict=True):
        both = Appends(store.open(SessionKey("bench", "agent", name)), home / f"bare-{name}", portion)
        works = [lambda: both.write(lasting=lasting), lambda: both.append(lasting=lasting)]  # noqa: B023
        bare, appended = (portion / spent for spent in medians(works, rounds, clock))
        print(f"{name:24}{bare:12,.0f}{appended:12,.0f}{bare / appended:7.2f}x", flush=True)


KEY = SessionKey("bench", "agent", "shared")


def work(home: str, name: int, turns: int) -> None:
    session = Session(KEY, FileStore(home).open(KEY))
    for turn in range(turns):
        asked = Message("user", f"{name} asks {turn}: " + "some words " * 20)
        take_turn(session, f"{name:010x}{turn:011x}", [asked], Message("assistant", f"{name}-{turn} {TEXT}"))


def spent_by(processes: int, home: str, turns: int) -> float:
    """Seconds that `processes` processes took for their turns."""
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=work, args=(home, name, turns)) for name in range(processes)]
    start = time.perf_counter()
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not any(worker.exitcode for worker in workers), "a process failed"
    return time.perf_counter() - start


def many_processes(home: Path, turns: int) -> None:
    alone = PROCESSES * turns / spent_by(1, str(home / "alone"), PROCESSES * turns)
    together = PROCESSES * turns / spent_by(PROCESSES, str(home / "together"), turns)
    log = FileStore(home / "together").open(KEY)
    said = [record["content"] for record in log.read("messages")[0]]
    answers = {text.split()[0] for text in said if not text.split()[1].startswith("asks")}
    lost = PROCESSES * turns - len(answers)
    torn = sum(bool(line.fault) for stream in ("messages", "events") for line in log.lines(stream))
    torn += len(list(log.directory.glob("*.torn-*")))
    print(f"{'turns per second':24}{'1 process':>12}{f'{PROCESSES} processes':>12}{'ratio':>8}")
    print(f"{'on one session':24}{alone:12,.0f}{together:12,.0f}{alone / together:7.2f}x   lost {lost}, torn {torn}")
    if lost or torn:
        raise SystemExit(1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="smaller sessions and fewer rounds")
    parser.add_argument("--home", help="directory for the sessions, to choose the disk")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=given.home) as place:
        home = Path(place)
        store = FileStore(home / "store")
        long_pasts(store, (100, 1_000, 10_000) if given.quick else (100, 10_000, 100_000), 15 if given.quick else 60)
        appends(store, home, 5 if given.quick else 15, (200, 10) if given.quick else (500, 40))
        many_processes(home, 40 if given.quick else 250)


if __name__ == "__main__":
    main()
