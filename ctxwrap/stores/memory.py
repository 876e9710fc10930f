"""Sessions in this process's memory: for tests, and for chats that need not outlive it."""

import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from ctxwrap.stores.base import FileEntry
from ctxwrap.stores.simple import SimpleFiles, SimpleStore, ThreadLocks


class MemoryStore(SimpleStore):
    def __init__(self) -> None:
        super().__init__(ThreadLocks())
        self._streams: dict[str, dict[str, list[bytes]]] = {}
        self._files: dict[str, dict[str, tuple[bytes, float]]] = defaultdict(dict)

    def list_sessions(self) -> Iterator[str]:
        return (session for session, streams in list(self._streams.items()) if any(streams.values()))

    def read_lines(self, session: str, stream: str, start: int, count: int | None = None) -> Sequence[bytes]:
        lines = self._streams.get(session, {}).get(stream, [])
        return lines[start : None if count is None else start + count]

    def append_lines(self, session: str, batches: Mapping[str, Sequence[bytes]]) -> Mapping[str, int]:
        streams = self._streams.setdefault(session, {})
        for stream, lines in batches.items():
            streams.setdefault(stream, []).extend(lines)
        return {stream: len(streams[stream]) for stream in batches}

    def replace_lines(self, session: str, stream: str, lines: Sequence[bytes]) -> None:
        self._streams.setdefault(session, {})[stream] = list(lines)

    def list_files(self, session: str) -> list[FileEntry]:
        return [FileEntry(name, len(data), at) for name, (data, at) in list(self._files[session].items())]

    def read_file(self, session: str, name: str) -> bytes | None:
        found = self._files[session].get(name)
        return found and found[0]

    def write_file(self, session: str, name: str, data: bytes) -> None:
        self._files[session][name] = bytes(data), time.time()

    def delete_file(self, session: str, name: str) -> None:
        self._files[session].pop(name, None)


class MemoryFiles(SimpleFiles):
    """The files of a session that has nothing else."""

    def __init__(self) -> None:
        super().__init__(MemoryStore(), "")
