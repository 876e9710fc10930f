"""The store protocol: append-only streams of records, files beside them, and locks.

`ctxwrap.stores.simple` implements most of it for a backend of eight methods.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol

from ctxwrap.errors import KeyMismatch, StoreError
from ctxwrap.types import Record, SessionKey

STREAMS = ("messages", "events")
"""The two logs of a session: what was said, and what happened."""

CACHE = ".index"
"""The directory for caches; they may be deleted at any moment."""


class Checkpoint(NamedTuple):
    """A reader's state after reading the log up to some positions; reading the log again gives the same state."""

    positions: Mapping[str, int]
    """The position in each stream up to which it was read."""
    known: Record


RecordChange = Callable[[Record], Record]
"""Returns the new version of a record without changing the one it is given."""


class FileEntry(NamedTuple):
    """One file beside a session's streams."""

    name: str
    size: int
    modified: float
    """Time of the last change, in seconds since 1970."""


class Files(Protocol):
    """The files of a session, by relative names such as `context/summary.md`.

    Only regular files exist here: a link counts as absent.
    """

    def entries(self, under: str = "") -> list[FileEntry]:
        """The files in a directory and below, sorted by name, without hidden ones.

        Files in a hidden directory are hidden, unless `under` is that directory.
        """

    def load(self, name: str, size: int | None = None, start: int = 0) -> bytes | None:
        """The content of a file from position `start` on, or `size` bytes of it; None if there is no such file."""

    def save(self, name: str, data: bytes, *, lasting: bool = False) -> None:
        """Create or replace a file, inside `locked`.

        `lasting` waits until the data is on the medium, and after a crash the file holds the old data or the new one.
        Otherwise a crash may leave neither.
        """

    def extend(self, name: str, data: bytes, after: int) -> bool:
        """Make `data` the content of a file from position `after` on, by appending the missing part.

        False if the file's length does not allow that. The present content is not compared.
        """

    def link(self, name: str, other: str) -> None:
        """Give a file that never changes a second name, unless that name is taken."""

    def leftovers(self) -> list[FileEntry]:
        """Temporary files that a crash left behind; `entries` does not list them."""

    def remove(self, name: str) -> None:
        """Remove a file, if there is one."""

    def remove_strays(self, name: str, may: Callable[[str], bool]) -> list[str]:
        """Remove links, devices and empty directories at a name and below, if `may` allows; return their names.

        Directories are named with a slash. Links are not followed.
        """


class StreamLine(NamedTuple):
    """One line of a stream, intact or damaged."""

    number: int
    """Counted from 1."""
    start: int
    """Its position in the stream."""
    end: int
    record: Record | None
    """None if the line is damaged."""
    fault: str = ""
    """What is wrong with the line, or nothing."""
    checked: bool = True
    """Whether it has a checksum; lines written by other programs have none."""


class Outdated(StoreError):
    """Others wrote to the session during a redoable transaction: nothing of it is stored, and it may be retried."""


class Log(Protocol):
    """One session's append-only streams of records, and its files.

    A stream is rewritten only to erase something on request.
    """

    @property
    def files(self) -> Files: ...

    @property
    def place(self) -> Hashable:
        """Identifies the session in this process: equal for all its logs, different for other sessions."""

    def edition(self) -> int:
        """A number that every rewriting changes: positions and records of an earlier edition are invalid."""

    def locked(self, *, redoable: bool = False) -> AbstractContextManager[None]:
        """Keep out other threads and processes while this one reads and appends.

        A `redoable` transaction may begin without checking whether others wrote; if they did, it ends with Outdated.
        """

    def read(self, stream: str, after: int = 0) -> tuple[list[Record], int]:
        """The records behind position `after`, and the position behind them; damaged ones are skipped."""

    def between(self, stream: str, first: int, last: int) -> list[Record]:
        """The records numbered `first` to `last`, without reading the whole stream for a few of them.

        A record without a number, or with one not above those before it, has the number after the last.
        """

    def pick(self, stream: str, numbers: Iterable[int]) -> dict[int, Record]:
        """The records with these numbers in their `ctx`, each looked up alone, however long the stream is.

        Damaged records and records without a number are not among them.
        """

    def lines(self, stream: str) -> Iterator[StreamLine]:
        """Every line of a stream, read and checked again; an incomplete last line has a fault."""

    def append(self, batches: Mapping[str, Sequence[Record]], *, lasting: bool = False) -> Mapping[str, int]:
        """Append records to streams, inside `locked`; return the positions behind them.

        A batch is stored as a whole or not at all. `lasting` batches are durable after the wait of `unsynced`.
        """

    def unsynced(self) -> Callable[[], None]:
        """Call it inside `locked` and its result outside: that waits until all lasting batches are on the medium.

        It raises StoreUnavailable if the medium fails: then it is unknown what was stored.
        """

    def settled(self) -> Callable[[], None]:
        """The same for everything written to the session so far, by any process, lasting or not."""

    def lease(self) -> Callable[[], None] | None:
        """Take the lease of the session's running turn and return the function that releases it, or None.

        It is None while another turn has the lease, which ends with its process at the latest. Inside `locked`, it is
        taken and released together with the writes there. Releasing it twice has no effect.
        """

    @property
    def writer(self) -> str:
        """A unique name of this process."""

    def is_alive(self, writer: str) -> bool:
        """Whether the process of that name still runs."""

    def rewrite(
        self, stream: str, change: RecordChange, new: Sequence[Record] = (), banned: Sequence[str] = ()
    ) -> None:
        """Change every record of the stream and append `new` ones, all or nothing, inside `locked`.

        Checkpoint, caches and incomplete lines are removed. A line that is not a record stays, unless it contains one
        of the `banned` texts.
        """

    def load_checkpoint(self) -> Checkpoint | None:
        """The last checkpoint, if it is intact and the log up to its positions has not changed."""

    def save_checkpoint(self, checkpoint: Checkpoint) -> None:
        """Replace the checkpoint, inside `locked`; a crash may lose it."""


class Store(Protocol):
    """A place for sessions."""

    def open(self, key: SessionKey) -> Log: ...

    def sessions(self, tenant: str, agent: str) -> Iterable[str]:
        """The ids of the sessions of a tenant and agent; for an area of `stores.names.OWNERS`, the users or teams."""

    def agents(self, tenant: str) -> Iterable[str]:
        """The agents that have sessions of a tenant, without the areas of users and teams."""

    def keys(self) -> Iterable[SessionKey]:
        """All sessions of all tenants, without the logs of users and teams; for operators only."""

    def close(self) -> None:
        """Release connections and leases, and end this process's registration.

        Runs by itself when the process ends, unless a signal kills it.
        """


class StoreWrapper:
    """A store over another one."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.root = getattr(store, "root", None)

    def sessions(self, tenant: str, agent: str) -> Iterable[str]:
        return self._store.sessions(tenant, agent)

    def agents(self, tenant: str) -> Iterable[str]:
        return self._store.agents(tenant)

    def keys(self) -> Iterable[SessionKey]:
        return self._store.keys()

    def close(self) -> None:
        self._store.close()


KEY_FILE = "key.json"
"""The file with the wrapped key; only encrypted sessions have it."""


class PlaintextGuard(StoreWrapper):
    """A store without a key: refuses encrypted sessions."""

    def open(self, key: SessionKey) -> Log:
        log = self._store.open(key)
        if log.files.load(KEY_FILE) is not None:
            raise KeyMismatch(
                f"session {key.session!r} is encrypted: set its key in CTXWRAP_KEY, or pass open_store(place, key=...)"
            )
        return log
