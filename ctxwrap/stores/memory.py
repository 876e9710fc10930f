"""Sessions in this process's memory: for tests, and for chats that need not outlive it."""

import copy
import json
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial

from ctxwrap.stores.base import CACHE, Checkpoint, FileEntry, RecordChange, StreamLine
from ctxwrap.stores.log_format import number_in, numbered
from ctxwrap.stores.names import file_parts
from ctxwrap.types import Record, SessionKey


class MemoryStore:
    def __init__(self) -> None:
        self._logs: dict[SessionKey, MemoryLog] = {}

    def open(self, key: SessionKey) -> "MemoryLog":
        return self._logs.setdefault(key, MemoryLog())

    def sessions(self, tenant: str, agent: str) -> Iterator[str]:
        for key in self.keys():
            if key[:2] == (tenant, agent):
                yield key.session

    def agents(self, tenant: str) -> Iterator[str]:
        yield from sorted({key.agent for key in self.keys() if key.tenant == tenant})

    def keys(self) -> Iterator[SessionKey]:
        yield from sorted(key for key, log in self._logs.items() if log.begun)

    def close(self) -> None:
        """Nothing: it ends with the process."""


class MemoryFiles:
    def __init__(self) -> None:
        self._files: dict[str, tuple[bytes, float]] = {}

    def entries(self, under: str = "") -> list[FileEntry]:
        prefix = f"{under}/" if under else ""
        return [
            FileEntry(name, len(data), modified)
            for name, (data, modified) in sorted(self._files.items())
            if name.startswith(prefix) and "/." not in f"/{name.removeprefix(prefix)}"
        ]

    def load(self, name: str, size: int | None = None, start: int = 0) -> bytes | None:
        file_parts(name)
        return self._files[name][0][start:][:size] if name in self._files else None

    def save(self, name: str, data: bytes, *, lasting: bool = False) -> None:
        file_parts(name)
        self._files[name] = bytes(data), time.time()

    def extend(self, name: str, data: bytes, after: int) -> bool:
        known = self.load(name) or b""
        there = len(known) - after
        if not 0 <= there <= len(data):
            return False
        self.save(name, known + data[there:])
        return True

    def link(self, name: str, other: str) -> None:
        if name in self._files:
            self._files.setdefault(other, self._files[name])

    def leftovers(self) -> list[FileEntry]:
        return []

    def remove(self, name: str) -> None:
        self._files.pop(name, None)

    def remove_strays(self, name: str, may: Callable[[str], bool]) -> list[str]:
        return []


class MemoryLog:
    writer = "here"

    def __init__(self) -> None:
        self._streams: dict[str, list[Record]] = defaultdict(list)
        self._lock = threading.Lock()
        self._taking = threading.Lock()
        self._turn: object = None
        """Whose turn it is."""
        self._checkpoint: str | None = None
        self._edition = 0
        self.files = MemoryFiles()

    @property
    def place(self) -> "MemoryLog":
        return self

    def edition(self) -> int:
        return self._edition

    @property
    def begun(self) -> bool:
        """Whether anything was written; a log that was only looked for is no session."""
        return any(self._streams.values())

    @contextmanager
    def locked(self, *, redoable: bool = False) -> Iterator[None]:
        with self._lock:
            yield

    def read(self, stream: str, after: int = 0) -> tuple[list[Record], int]:
        records = self._streams[stream]
        return copy.deepcopy(records[after:]), len(records)

    def between(self, stream: str, first: int, last: int) -> list[Record]:
        records = numbered(self._streams[stream])
        return copy.deepcopy([record for number, record in records if first <= number <= last])

    def pick(self, stream: str, numbers: Iterable[int]) -> dict[int, Record]:
        records = self._streams[stream]
        found = ((number, _numbered_so(records, number)) for number in numbers)
        return {number: copy.deepcopy(record) for number, record in found if record is not None}

    def lines(self, stream: str) -> Iterator[StreamLine]:
        for at, record in enumerate(self.read(stream)[0]):
            yield StreamLine(at + 1, at, at + 1, record, checked=False)

    def append(self, batches: Mapping[str, Sequence[Record]], *, lasting: bool = False) -> dict[str, int]:
        for stream, records in copy.deepcopy({stream: list(records) for stream, records in batches.items()}).items():
            self._streams[stream].extend(records)
        return {stream: len(self._streams[stream]) for stream, records in batches.items() if records}

    def unsynced(self) -> Callable[[], None]:
        return lambda: None

    def settled(self) -> Callable[[], None]:
        return lambda: None

    def lease(self) -> Callable[[], None] | None:
        mine = object()
        with self._taking:
            self._turn = self._turn or mine
        return partial(self._give_back, mine) if self._turn is mine else None

    def _give_back(self, turn: object) -> None:
        with self._taking:
            self._turn = None if self._turn is turn else self._turn

    def is_alive(self, writer: str) -> bool:
        return writer == self.writer

    def rewrite(
        self, stream: str, change: RecordChange, new: Sequence[Record] = (), banned: Sequence[str] = ()
    ) -> None:
        records = copy.deepcopy([*map(change, self._streams[stream]), *new])
        self._edition += 1
        self._checkpoint = None
        for entry in self.files.entries(CACHE):
            self.files.remove(entry.name)
        self._streams[stream] = records

    def load_checkpoint(self) -> Checkpoint | None:
        return None if self._checkpoint is None else Checkpoint(*json.loads(self._checkpoint))

    def save_checkpoint(self, checkpoint: Checkpoint) -> None:
        self._checkpoint = json.dumps(checkpoint)


def _numbered_so(records: Sequence[Record], number: int) -> Record | None:
    """The record that says it has this number; most stand where it says."""
    if 0 < number <= len(records) and number_in(records[number - 1]) == number:
        return records[number - 1]
    return next((record for record in records if number_in(record) == number), None)
