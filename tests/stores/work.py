"""Turns of a session as far as its store sees them, and what has to be left of them afterwards."""

import json
import logging
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from ctxwrap.stores.base import Checkpoint, Log
from ctxwrap.stores.files.store import FileStore
from ctxwrap.stores.log_format import is_intact
from ctxwrap.types import Record, SessionKey

KEY = SessionKey("tenant", "agent", "session")

STREAMS = ("messages", "events")

Acks = dict[str, list[str]]
"""The ids of records of each stream, in order."""


def entry(id: str, size: int = 0) -> Record:
    return {"content": "é" * (size // 2), "ctx": {"v": 1, "id": id}}


def ids(records: Sequence[Record]) -> list[str]:
    return [record["ctx"]["id"] for record in records]


class Worker:
    """Takes turns, and tells of every record that was acknowledged."""

    def __init__(self, log: Log, name: str, tell: Callable[[Acks], object], *, lasting: bool = True) -> None:
        self.log, self.name, self._tell, self._lasting = log, name, tell, lasting
        self._read = dict.fromkeys(STREAMS, 0)

    def turn(self, number: int, size: int = 40) -> None:
        turn = f"{self.name}-{number}"
        with self._acknowledged(turn, "asked", "start"):
            for stream in STREAMS:
                _, self._read[stream] = self.log.read(stream, self._read[stream])
            self.log.append(
                {"messages": [entry(f"{turn}-asked", size)], "events": [entry(f"{turn}-start")]}, lasting=self._lasting
            )
        with self._acknowledged(turn, "answered", "snapshot", "done"):
            answer, events = entry(f"{turn}-answered", size), [entry(f"{turn}-snapshot", size), entry(f"{turn}-done")]
            self.log.append({"messages": [answer], "events": events}, lasting=self._lasting)

    def tidy(self, number: int) -> None:
        """What is done now and then beside the log."""
        with self.log.locked():
            positions = {stream: self.log.read(stream)[1] for stream in STREAMS}
            self.log.save_checkpoint(Checkpoint(positions, {"turn": number}))
            self.log.files.save("context/small", b"%d" % number)
            self.log.files.save("context/large", b"%d" % number * 6000)
            self.log.files.save("pinned/lasting", b"%d" % number * 6000, lasting=True)
        self._tell({"files": [str(number)]})

    @contextmanager
    def _acknowledged(self, turn: str, message: str, *events: str) -> Iterator[None]:
        with self.log.locked():
            yield
            wait = self.log.unsynced()
        wait()
        self._tell({"messages": [f"{turn}-{message}"], "events": [f"{turn}-{event}" for event in events]})


def merged(acks: Sequence[Acks]) -> Acks:
    return {name: [id for each in acks for id in each.get(name, [])] for name in (*STREAMS, "files")}


class Complaints(logging.Handler):
    """What the store reports as damaged."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.told: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.told.append(record.getMessage())


@contextmanager
def complaints() -> Iterator[list[str]]:
    handler, logger = Complaints(), logging.getLogger("ctxwrap")
    logger.addHandler(handler)
    was, logger.propagate = logger.propagate, False
    try:
        yield handler.told
    finally:
        logger.propagate = was
        logger.removeHandler(handler)


def recovered(root: Path) -> Acks:
    """What a new process finds after a crash. Nothing is damaged, and it can go on writing."""
    log = FileStore(root).open(KEY)
    whole = {stream: [*filter(is_intact, _bytes(log.directory, stream).split(b"\n"))] for stream in STREAMS}
    with complaints() as told:
        found = {stream: ids(log.read(stream)[0]) for stream in STREAMS}
        before = {stream: _bytes(log.directory, stream) for stream in STREAMS}  # reading restores what the redo log has
        for stream in STREAMS:
            assert set(whole[stream]) <= set(before[stream].split(b"\n"))
        for stream in STREAMS:
            faults = [line.fault for line in log.lines(stream) if line.fault]
            assert faults in ([], ["it was cut short by a crash"])
        with log.locked():
            log.append({stream: [entry("next")] for stream in STREAMS})
        again = FileStore(root).open(KEY)
        assert {stream: ids(again.read(stream)[0]) for stream in STREAMS} == {
            stream: [*found[stream], "next"] for stream in STREAMS
        }
    assert told == []
    for stream in STREAMS:
        assert [line.fault for line in again.lines(stream) if line.fault] == []
        torn = b"".join(path.read_bytes() for path in log.directory.glob(f"{stream}.jsonl.torn-*"))
        assert _bytes(log.directory, stream).startswith(before[stream].removesuffix(torn))
    lasting = log.files.load("pinned/lasting")
    return {**found, "files": [] if lasting is None else [str(lasting[:1], "ascii")]}


def _bytes(directory: Path, stream: str) -> bytes:
    path = directory / f"{stream}.jsonl"
    return path.read_bytes() if path.exists() else b""


def lost(acked: Acks, found: Acks) -> list[str]:
    """What was acknowledged and is not there once and in order, and batches of which only a part is there."""
    wrong = []
    for stream in STREAMS:
        wanted = set(acked[stream])
        if [id for id in found[stream] if id in wanted] != acked[stream]:
            wrong += [id for id in acked[stream] if found[stream].count(id) != 1] or [f"the order of {stream}"]
    batches = [{id.rpartition("-")[0] for id in found["events"] if id.endswith(end)} for end in ("snapshot", "done")]
    wrong += batches[0] ^ batches[1]
    return wrong + (["pinned/lasting"] if acked["files"][-1:] > found["files"] else [])


def told_by(pipe: int) -> list[Acks]:
    """What came through a pipe until its other end was closed; a last line that is not whole was never said."""
    with os.fdopen(pipe, "rb") as lines:
        return [json.loads(line) for line in lines if line.endswith(b"\n")]


def telling(pipe: int) -> Callable[[Acks], object]:
    return lambda acks: os.write(pipe, json.dumps(acks).encode() + b"\n")


def three_turns(worker: Worker) -> None:
    for number in range(3):
        worker.turn(number)
        worker.tidy(number)


if __name__ == "__main__":
    three_turns(Worker(FileStore(sys.argv[1]).open(KEY), "w", telling(1)))
