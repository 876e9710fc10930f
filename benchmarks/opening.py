"""What a long past costs: opening a session and taking a turn in it, after 1 000 and after 100 000 events.

    python benchmarks/opening.py [--rounds 60]

The logs are written through the store in large batches, as turns of two messages and three events; one ordinary turn
then leaves a checkpoint. Both sessions are measured in turns, in the same run, and the medians of CPU time compared.
`replayed` is opening without the checkpoint. A turn is all that the log sees of it: the caller's newest message, or
its newest 40, aligned and appended, then the answer.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

from ctxwrap.memory.items import Item
from ctxwrap.records import as_record
from ctxwrap.session import Session
from ctxwrap.stores.files import FileLog, FileStore
from ctxwrap.types import Message, Record, Request, Runtime, SessionKey

SIZES = (1_000, 100_000)
NOW = datetime(2026, 2, 20, 18, 30, tzinfo=UTC)
MOMENT = "2026-02-20T18:30:00.000000Z"
TEXT = "Here is an answer of some length. " * 12
BATCH = 500


def conversation(turn: int) -> tuple[Message, Message]:
    return Message("user", f"question {turn}: " + "some words " * 20), Message("assistant", f"{TEXT}{turn}")


def turns(count: int) -> Iterator[tuple[list[Record], list[Record]]]:
    for turn in range(1, count + 1):
        item = Item(
            id=f"core-{turn % 40}",
            type="fact",
            content=f"The user said something in round {turn}.",
            tags=("said",),
            tier="core",
            decay=0.1,
            anchor=turn,
            first=turn,
            last=turn,
        )
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


class Subject:
    """A session with so many events, and a caller of it."""

    def __init__(self, store: FileStore, events: int) -> None:
        self.events, self.turns = events, events // 3
        self.key = SessionKey("bench", "agent", f"with-{events}")
        self.log: FileLog = store.open(self.key)
        self._write()
        self.session = self.opened()
        self.turn(1)

    def _write(self) -> None:
        past = turns(self.turns)
        with self.log.locked():
            while batch := list(islice(past, BATCH)):
                messages, events = ([record for part in parts for record in part] for parts in zip(*batch, strict=True))
                self.log.append({"messages": messages, "events": events})

    def opened(self) -> Session:
        session = Session(self.key, self.log)
        session.refresh()
        return session

    def replayed(self) -> Session:
        path = self.checkpoint
        aside = path.rename(path.with_suffix(".aside"))
        try:
            return self.opened()
        finally:
            aside.rename(path)

    def turn(self, sends: int) -> None:
        self.turns += 1
        first = self.turns - sends // 2
        sent = [message for turn in range(first, self.turns + 1) for message in conversation(turn)][:-1]
        with self.session.locked():
            opening = self.session.open_turn(Request(tuple(sent)), NOW)
            asked = [as_record(message, round=number) for message, number in opening.new]
            assert len(asked) == 1, "only the question is new"
            start = {"type": "start", "runtime": opening.runtime.as_json(), "ctx": {}}
            self.session.append(f"{self.turns:021x}", asked, [start], NOW)
        with self.session.locked():
            answer = as_record(conversation(self.turns)[1], round=opening.runtime.round)
            self.session.append(f"{self.turns:021x}", [answer], [{"type": "done", "status": "ok", "ctx": {}}], NOW)

    @property
    def checkpoint(self) -> Path:
        return self.log.directory / ".checkpoint"


def medians(works: list[Callable[[], Any]], rounds: int, of: Callable[[list[float]], float]) -> list[float]:
    """CPU milliseconds of each, taken in turns."""
    spent: list[list[float]] = [[] for _ in works]
    for _ in range(rounds):
        for work, times in zip(works, spent, strict=True):
            start = time.thread_time()
            work()
            times.append((time.thread_time() - start) * 1e3)
    return [of(times) for times in spent]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=60)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as home:
        small, large = (Subject(FileStore(home), events) for events in SIZES)
        print(f"{'':24} {small.events:>8} {large.events:>8} {'ratio':>6}")

        def row(name: str, values: list[float]) -> None:
            print(f"{name:24} {values[0]:8.2f} {values[1]:8.2f} {values[1] / values[0]:6.2f}", flush=True)

        row("checkpoint, kB", [subject.checkpoint.stat().st_size / 1e3 for subject in (small, large)])
        row("opened, ms", medians([small.opened, large.opened], rounds, statistics.median))
        row("replayed, ms", medians([small.replayed, large.replayed], 2, min))
        for sends in (1, 40):
            both: list[Callable[[], Any]] = [lambda s=subject, n=sends: s.turn(n) for subject in (small, large)]
            row(f"turn, {sends} sent, ms", medians(both, rounds, statistics.median))
            row("  with checkpoints, ms", medians(both, 3 * rounds, statistics.mean))


if __name__ == "__main__":
    main()
