"""Sessions in this process's memory: for tests, and for chats that need not outlive it."""

import copy
import json
import threading
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from ctxwrap.types import Change, Checkpoint, Record, SessionKey


class MemoryStore:
    def __init__(self) -> None:
        self._logs: dict[SessionKey, MemoryLog] = {}

    def open(self, key: SessionKey) -> "MemoryLog":
        return self._logs.setdefault(key, MemoryLog())

    def sessions(self, tenant: str, agent: str) -> Iterator[str]:
        begun = [key for key, log in self._logs.items() if log.begun]
        yield from sorted(key.session for key in begun if key[:2] == (tenant, agent))


class MemoryLog:
    def __init__(self) -> None:
        self._streams: dict[str, list[Record]] = defaultdict(list)
        self._lock = threading.Lock()
        self._checkpoint: str | None = None
        self._edition = 0

    def edition(self) -> int:
        return self._edition

    @property
    def begun(self) -> bool:
        """Whether anything was written; a log that was only looked for is no session."""
        return any(self._streams.values())

    @contextmanager
    def locked(self) -> Iterator[None]:
        with self._lock:
            yield

    def read(self, stream: str, after: int = 0) -> tuple[list[Record], int]:
        records = self._streams[stream]
        return copy.deepcopy(records[after:]), len(records)

    def append(self, batches: Mapping[str, Sequence[Record]]) -> dict[str, int]:
        for stream, records in batches.items():
            self._streams[stream].extend(copy.deepcopy(list(records)))
        return {stream: len(self._streams[stream]) for stream in batches}

    def rewrite(self, stream: str, change: Change, new: Sequence[Record] = (), banned: Sequence[str] = ()) -> None:
        records = copy.deepcopy([*map(change, self._streams[stream]), *new])
        self._edition += 1
        self._checkpoint = None
        self._streams[stream] = records

    def load_checkpoint(self) -> Checkpoint | None:
        return None if self._checkpoint is None else Checkpoint(*json.loads(self._checkpoint))

    def save_checkpoint(self, checkpoint: Checkpoint) -> None:
        self._checkpoint = json.dumps(checkpoint)
