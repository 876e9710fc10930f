"""The store protocol: append-only streams of records, files beside them, and locks."""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol

from ctxwrap.errors import KeyMismatch, StoreError
from ctxwrap.types import Record, SessionKey

STREAMS = ("messages", "events")
"""What was said, and what happened."""

CACHE = ".index"
"""The directory beside the streams for what is made of them to be quick, and may be gone at any moment."""


class Checkpoint(NamedTuple):
    """What a reader knew after reading so far; the log says the same, but takes longer."""

    positions: Mapping[str, int]
    """How far each stream was read."""
    known: Record


RecordChange = Callable[[Record], Record]
"""Gives a record as it is to be from now on; it leaves the one it is given alone."""


class FileEntry(NamedTuple):
    """One file beside a session's streams."""

    name: str
    size: int
    modified: float
    """When it was last changed, in seconds since 1970."""


class Files(Protocol):
    """What lies beside a session's streams, by relative names such as `context/summary.md`.

    Whatever is no regular file, links above all, is not there.
    """

    def entries(self, under: str = "") -> list[FileEntry]:
        """The files in a directory and below, in the order of their names; hidden ones are left out.

        Those in a hidden directory are hidden, unless it is the one that is asked for.
        """

    def load(self, name: str, size: int | None = None, start: int = 0) -> bytes | None:
        """What a file holds from position `start` on, or `size` bytes of that, or None if there is no such file."""

    def save(self, name: str, data: bytes, *, lasting: bool = False) -> None:
        """Put `data` in the place of what a file held, inside `locked`.

        `lasting` waits until the medium has it, and whatever happens the file holds the old data or the new; without
        it a crash may leave neither.
        """

    def extend(self, name: str, data: bytes, after: int) -> bool:
        """Let `data` stand in a file from position `after` on, adding what is not there yet.

        Whether the file is of a length that this can be so; what it holds is taken on trust.
        """

    def link(self, name: str, other: str) -> None:
        """Let a file that never changes have another name, too."""

    def leftovers(self) -> list[FileEntry]:
        """What a crash left of the writing of files; `entries` has none of it."""

    def remove(self, name: str) -> None:
        """Let a file go, if there is one."""

    def remove_strays(self, name: str, may: Callable[[str], bool]) -> list[str]:
        """Let go of what is no file under a name and below, if it `may` go; what was there, directories with a slash.

        Links are never followed, and a directory goes only if it holds nothing.
        """


class StreamLine(NamedTuple):
    """One line of a stream, good or not."""

    number: int
    """From 1."""
    start: int
    """Its position in the stream."""
    end: int
    record: Record | None
    """What it says, unless it is damaged."""
    fault: str = ""
    """What is wrong with it."""
    checked: bool = True
    """Whether a checksum vouches for it; lines that others wrote have none."""


class Outdated(StoreError):
    """What a section was sure of is not so any more; nothing that it wrote is there, and it may be done again."""


class Log(Protocol):
    """One session's append-only streams of records, and the files beside them.

    Only forgetting on request rewrites a stream.
    """

    @property
    def files(self) -> Files: ...

    @property
    def place(self) -> Hashable:
        """Where the session lies: equal for all logs of it that this process has, and for those of no other."""

    def edition(self) -> int:
        """Another number after every rewriting: positions and records of an earlier edition are worth nothing."""

    def locked(self, *, redoable: bool = False) -> AbstractContextManager[None]:
        """Keep every other thread and process out, for the moment it takes to read and append.

        What is `redoable` may begin without asking whether others wrote; if they did, it is Outdated in the end.
        """

    def read(self, stream: str, after: int = 0) -> tuple[list[Record], int]:
        """The records behind position `after`, and the position behind them; damaged ones are passed over."""

    def between(self, stream: str, first: int, last: int) -> list[Record]:
        """The records of these numbers, both included, without reading the whole stream for a few of them.

        A record that says no number, or one that is none above those before it, has the one behind the last.
        """

    def pick(self, stream: str, numbers: Iterable[int]) -> dict[int, Record]:
        """The records that say they have these numbers, each found on its own, however long the stream is.

        What is damaged, or says no number, is not among them.
        """

    def lines(self, stream: str) -> Iterator[StreamLine]:
        """Every line of a stream, looked at anew; a last one that a crash cut short has a fault, too."""

    def append(self, batches: Mapping[str, Sequence[Record]], *, lasting: bool = False) -> Mapping[str, int]:
        """Add the records of each stream, each batch in one write, inside `locked`; the positions behind them.

        A batch is there altogether or not at all. `lasting` ones are to be handed to the medium by `unsynced`.
        """

    def unsynced(self) -> Callable[[], None]:
        """Call it inside `locked`, and what it gives outside: that waits until all lasting batches are on the medium.

        A StoreUnavailable if the medium does not take them: then nobody knows what it has.
        """

    def settled(self) -> Callable[[], None]:
        """The same for everything that was written to the session so far, by whomever and however lasting."""

    def lease(self) -> Callable[[], None] | None:
        """The right to be the session's only turn, as what gives it back; None while another has it.

        It ends with the process at the latest. Inside `locked` it is taken, and given back, with what is written there;
        who is not sure that it was given back may do so again.
        """

    @property
    def writer(self) -> str:
        """A name for this process, different from that of every other."""

    def is_alive(self, writer: str) -> bool:
        """Whether the process of that name still runs."""

    def rewrite(
        self, stream: str, change: RecordChange, new: Sequence[Record] = (), banned: Sequence[str] = ()
    ) -> None:
        """Change every record of the stream and add `new` ones, all at once or not at all, inside `locked`.

        No checkpoint, no cache and nothing that a crash cut short outlives it; a line that is no record stays as it is
        unless it holds one of the `banned` texts.
        """

    def load_checkpoint(self) -> Checkpoint | None:
        """The checkpoint that was saved last, if it is whole and the log up to there is still the same."""

    def save_checkpoint(self, checkpoint: Checkpoint) -> None:
        """Put a checkpoint in the place of the one before, inside `locked`; it may get lost."""


class Store(Protocol):
    """Where logs live."""

    def open(self, key: SessionKey) -> Log: ...

    def sessions(self, tenant: str, agent: str) -> Iterable[str]:
        """The ids of the sessions that one agent has for one tenant."""

    def agents(self, tenant: str) -> Iterable[str]:
        """The agents that have a session for one tenant."""

    def keys(self) -> Iterable[SessionKey]:
        """Every session of everybody; for the operator only."""

    def close(self) -> None:
        """Let go of connections, and say that this process, as far as the store knows it, is at its end.

        It comes last: by itself when the process ends, but not when a signal ends it.
        """


class StoreWrapper:
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
"""Beside the streams of an encrypted session, and of no other."""


class PlaintextGuard(StoreWrapper):
    """Hands out the logs of another store as they are."""

    def open(self, key: SessionKey) -> Log:
        log = self._store.open(key)
        if log.files.load(KEY_FILE) is not None:
            raise KeyMismatch(
                f"session {key.session!r} is encrypted: name its key in CTXWRAP_KEY, or with open_store(place, key=...)"
            )
        return log
