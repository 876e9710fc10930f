"""The store in a directory: JSON lines, shared by all processes of one machine."""

import contextlib
import json
import logging
import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property, partial
from pathlib import Path
from threading import get_ident

from ctxwrap.encoding import encode_json
from ctxwrap.errors import StoreCorrupt, StoreUnavailable, UnknownFormat
from ctxwrap.stores.base import CACHE, STREAMS, Checkpoint, RecordChange, StreamLine
from ctxwrap.stores.files import disk
from ctxwrap.stores.files.format import FORMAT, format_number_in
from ctxwrap.stores.files.handles import close_idle
from ctxwrap.stores.files.journal import Journal, Written
from ctxwrap.stores.files.locks import FileLock, ProcessName, exclusive, try_lock
from ctxwrap.stores.files.redo import LARGEST, RedoLog, is_missing, restore
from ctxwrap.stores.files.tree import FileTree
from ctxwrap.stores.log_format import CHECKSUM_LENGTH, encode_batch, with_checksums
from ctxwrap.stores.names import INDEX, owner_kind, safe_name
from ctxwrap.types import Record, SessionKey

_LISTED = 1000
"""How many sessions the list names; the directory has them all."""


def add(sessions: Path, name: str) -> None:
    """Put a new session at the top of the list and make it the current one."""
    directory = f"{sessions}/{INDEX}"
    disk.make_directory(directory)
    with exclusive(f"{directory}/.lock"):
        listed = [each for each in _lines(f"{directory}/list") if each != name][: _LISTED - 1]
        disk.replace(f"{directory}/list", "".join(f"{each}\n" for each in (name, *listed)).encode(), lasting=False)
        disk.replace(f"{directory}/current", f"{name}\n".encode(), lasting=False)


def _lines(path: str) -> list[str]:
    with contextlib.suppress(FileNotFoundError, UnicodeDecodeError):
        return Path(path).read_text("ascii").splitlines()
    return []


logger = logging.getLogger("ctxwrap")


class FileStore:
    """`<root>/home/<tenant>/agent/<agent>/session/<session>/`, readable by the process's user only.

    The logs of users and teams are in `<root>/home/<tenant>/user/<user>/` and `<root>/home/<tenant>/team/<team>/`.
    """

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self.root = Path(root)
        self._home = str(self.root / "home")
        self._process = ProcessName(f"{self.root}/.writers")

    def open(self, key: SessionKey) -> "FileLog":
        return FileLog(f"{self._sessions_of(key.tenant, key.agent)}/{safe_name(key.session)}", key, self._process)

    def sessions(self, tenant: str, agent: str) -> Iterator[str]:
        for key in _keys_in(self._sessions_of(tenant, agent)):
            yield key.session

    def agents(self, tenant: str) -> Iterator[str]:
        for directory in sorted(self.root.glob(f"home/{safe_name(tenant)}/agent/*/session")):
            known = next(_keys_in(directory), None)
            if known is not None and known.tenant == tenant:
                yield known.agent

    def keys(self) -> Iterator[SessionKey]:
        for directory in sorted(self.root.glob("home/*/agent/*/session")):
            yield from _keys_in(directory)

    def close(self) -> None:
        """Close what stays open between uses; the kernel releases locks when a process ends."""
        close_idle(str(self.root))

    def _sessions_of(self, tenant: str, agent: str) -> str:
        place = owner_kind(agent) or f"agent/{safe_name(agent)}/session"
        return f"{self._home}/{safe_name(tenant)}/{place}"


def _keys_in(directory: Path | str) -> Iterator[SessionKey]:
    try:
        names = sorted(os.listdir(directory))
    except OSError:
        return
    for name in names:
        key = None
        with suppress(OSError):
            key = _key_in(f"{directory}/{name}/meta.json")
        if key is not None and safe_name(key.session) == name:
            yield key


def _key_in(meta: str) -> SessionKey | None:
    try:
        with disk.opened(meta, os.O_RDONLY | os.O_NONBLOCK) as handle:
            known = json.loads(disk.read_all(handle))
        key = SessionKey(known["tenant"], known["agent"], known["session"])
    except (ValueError, RecursionError, LookupError, TypeError):
        return None
    return key if all(isinstance(name, str) for name in key) else None


def _is_whole(meta: str) -> bool:
    """Whether it is valid JSON and was synced: a power cut may leave it truncated or filled with zeros."""
    try:
        with disk.opened(meta, os.O_RDONLY) as handle:
            json.loads(disk.read_all(handle))
            return not disk.is_doubtful(os.fstat(handle))
    except FileNotFoundError:
        return False
    except (ValueError, RecursionError):
        logger.warning("%s was incomplete and is written again", meta)
        return False


_META = 16 * 1024
"""How many bytes of `meta.json` are read: it has three names and a number."""


class FileLog:
    """One session's `messages.jsonl` and `events.jsonl`, and its files."""

    def __init__(self, directory: Path | str, key: SessionKey, process: ProcessName) -> None:
        self._place = str(directory)
        self._lock_path = f"{self._place}/.lock"
        self._key = key
        self._process = process
        self._journals = {stream: Journal(stream, f"{self._place}/{stream}.jsonl") for stream in STREAMS}
        self._checked = False
        self._is_read = False
        """Whether the format is known to be readable."""
        self._placed = False
        """Whether the session's directory is known to be on the medium."""
        self._named: set[int] = set()
        """The inodes of streams whose names are known to be on the medium."""
        self._holder = 0
        """The thread that holds the lock."""
        self._edition: int | None = None
        """The edition, while the lock is held."""
        self._unsynced: list[Written] = []
        self._redo = RedoLog(f"{self._place}/.redo")
        self._settled: set[str] = set()
        """The contents, which never change, that are known to be on the medium."""
        self._explained = _Explanations(self._unavailable).__getitem__
        self.files = FileTree(self._place, self._explained, self._sync_place)

    @cached_property
    def directory(self) -> Path:
        return Path(self._place)

    def upgrade(self) -> bool:
        """Convert the session's files to the present format; False if they have it."""
        with self._explained("upgrade"), exclusive(self._lock_path):
            found = self._format()
            if found > FORMAT:
                raise self._unreadable(found)
            if found == FORMAT:
                return False
            if found == 0:
                self._begin_edition()
                for journal in self._journals.values():
                    if journal.is_of_format_0():
                        journal.upgrade()
            self._save_meta(lasting=True)
        return True

    def _format(self) -> int:
        """The session's format; the present one if there is no session yet."""
        try:
            with disk.opened(str(self._meta_path), os.O_RDONLY) as handle:
                number = format_number_in(disk.read_all(handle, end=_META))
        except FileNotFoundError:
            return FORMAT
        if number is not None:
            return number
        return 0 if any(journal.is_of_format_0() for journal in self._journals.values()) else 1

    def _check_format(self) -> None:
        """Raise UnknownFormat if this version cannot read the session."""
        if self._is_read:
            return
        found = self._format()
        if not 0 < found <= FORMAT:
            raise self._unreadable(found)
        self._restore()
        self._is_read = self._meta_path.exists()

    def _restore(self) -> None:
        """Write again what a power cut lost of the streams and the redo log has."""
        if is_missing(self._redo.entries(), self._stream_path):
            with exclusive(self._lock_path):
                restore(self._redo.entries(), self._stream_path)

    def _stream_path(self, stream: str) -> str:
        return self._journals[stream].path

    def _unavailable(self, verb: str, error: OSError) -> StoreUnavailable:
        """An error of the system as one that says what could not be done to the session."""
        return StoreUnavailable(
            f"cannot {verb} session {self._key.session!r} in {self.directory}: {error.strerror or error}. "
            "Check that the directory is writable and its disk is not full, or choose another with store=."
        )

    def _unreadable(self, found: int) -> UnknownFormat:
        what = f"session {self._key.session!r} in {self.directory} has format {found}"
        remedy = "install a newer ctxwrap" if found > FORMAT else "run `ctxwrap upgrade`"
        return UnknownFormat(f"{what}, and this ctxwrap reads 1 to {FORMAT}: {remedy}")

    def _save_meta(self, *, lasting: bool = False) -> None:
        meta = {**self._key._asdict(), "format": FORMAT}
        disk.replace(str(self._meta_path), encode_json(meta) + b"\n", lasting=lasting)

    @cached_property
    def place(self) -> str:
        return os.path.realpath(self._place)

    @contextmanager
    def locked(self, *, redoable: bool = False) -> Iterator[None]:
        try:
            if not self._checked:
                self._create()
            lock = FileLock(self._lock_path)
            try:
                lock.acquire(wait=True)
                self._holder, self._edition = get_ident(), lock.size
                for journal in self._journals.values():
                    journal.is_current = False
                yield
            finally:
                self._holder, self._edition = 0, None
                lock.release()
        except OSError as error:
            raise self._unavailable("lock", error) from error

    def edition(self) -> int:
        """The length of the lock file, which grows by a byte with every rewriting."""
        if self._edition is not None:
            return self._edition
        with self._explained("read"):
            try:
                return os.stat(self._lock_path).st_size
            except FileNotFoundError:
                return 0

    def read(self, stream: str, after: int = 0) -> tuple[list[Record], int]:
        try:
            if not self._is_read:
                self._check_format()
            return self._journals[stream].read(after, is_locked=self._holder == get_ident())
        except OSError as error:
            raise self._unavailable("read", error) from error

    def between(self, stream: str, first: int, last: int) -> list[Record]:
        with self._explained("read"):
            self._check_format()
            return self._journals[stream].between(first, last)

    def pick(self, stream: str, numbers: Iterable[int]) -> dict[int, Record]:
        with self._explained("read"):
            self._check_format()
            return self._journals[stream].pick(numbers)

    def lines(self, stream: str) -> Iterator[StreamLine]:
        with self._explained("read"):
            self._check_format()
            yield from self._journals[stream].lines()

    def append(self, batches: Mapping[str, Sequence[Record]], *, lasting: bool = False) -> dict[str, int]:
        ends: dict[str, int] = {}
        waiting: list[Written] = []
        uses_redo = False
        try:
            batches = {stream: records for stream, records in batches.items() if records}
            covered = self._redo.covered(self._edition) if lasting else {}
            uses_redo = bool(batches) and covered.keys() >= batches.keys()
            for stream, records in batches.items():
                journal = self._journals[stream]
                written = journal.append(records, lasting=lasting, waits=lasting and not uses_redo)
                ends[stream] = journal.end
                if written is not None:
                    waiting.append(written)
            if uses_redo and sum(end - covered[stream] for stream, end in ends.items()) <= LARGEST:
                waiting.append(self._enter({stream: covered[stream] for stream in ends}))
            elif lasting:
                others = [each for stream, each in self._journals.items() if uses_redo or stream not in ends]
                waiting += [whole for journal in others if (whole := journal.whole()) is not None]
        except BaseException as error:
            _close(waiting)
            if uses_redo:
                self._redo.take_back()
            for stream in ends:
                self._journals[stream].take_back()
            if isinstance(error, OSError):
                raise self._unavailable("write to", error) from error
            raise
        self._unsynced += waiting
        return ends

    def _enter(self, covered: Mapping[str, int]) -> Written:
        """Enter in the redo log what was appended to these streams since positions that it covers."""
        journals = {stream: self._journals[stream] for stream in covered}
        pieces = {stream: journal.appended_since(covered[stream]) for stream, journal in journals.items()}
        return Written(self._redo.append(pieces), [journal.state() for journal in journals.values()], is_redo=True)

    def unsynced(self) -> Callable[[], None]:
        if not self._unsynced:
            return _wait_for_nothing
        written, self._unsynced = self._unsynced, []
        return partial(self._sync, written, self._edition)

    def settled(self) -> Callable[[], None]:
        with self._explained("write to"):
            written = [whole for journal in self._journals.values() if (whole := journal.whole()) is not None]
        contents = [entry.name for entry in self.files.entries("raw") if entry.name not in self._settled]
        edition = self._edition

        def wait() -> None:
            self.files.sync(contents)
            self._settled.update(contents)
            self._sync(written, edition)

        return wait

    def lease(self) -> Callable[[], None] | None:
        try:
            if not self._checked:
                self._create()
            return try_lock(f"{self._place}/.turn")
        except OSError as error:
            raise self._unavailable("lock", error) from error

    @property
    def writer(self) -> str:
        try:
            return self._process.name
        except OSError as error:
            raise self._unavailable("write to", error) from error

    def is_alive(self, writer: str) -> bool:
        with self._explained("read"):
            return self._process.is_alive(writer)

    def rewrite(
        self, stream: str, change: RecordChange, new: Sequence[Record] = (), banned: Sequence[str] = ()
    ) -> None:
        with self._explained("rewrite"):
            self._journals[stream].rewrite(change, new, banned, self._begin_edition)
            for torn in self.directory.glob(f"{stream}.jsonl.torn-*"):
                torn.unlink()

    def load_checkpoint(self) -> Checkpoint | None:
        try:
            with disk.opened(self._checkpoint_path, os.O_RDONLY) as handle:
                line = disk.read_all(handle)
            known = json.loads(line)
            positions = known.pop("ctx")["positions"]
            if line == with_checksums(line[:-CHECKSUM_LENGTH], self._foundation(positions)):
                return Checkpoint(positions, known)
            logger.debug("session %r: the checkpoint does not belong to its log", self._key.session)
        except FileNotFoundError:
            pass
        except Exception as error:
            logger.debug("session %r: the checkpoint cannot be read: %r", self._key.session, error)
        return None

    def save_checkpoint(self, checkpoint: Checkpoint) -> None:
        record = {**checkpoint.known, "ctx": {"positions": dict(checkpoint.positions)}}
        with self._explained("write to"):
            line = encode_batch([record], self._foundation(checkpoint.positions))
            disk.overwrite(self._checkpoint_path, line)

    def _foundation(self, positions: Mapping[str, int]) -> int:
        """A checksum of this session's log up to these positions: each last line covers all lines before it."""
        check = zlib.crc32(encode_json(self._key._asdict()))
        for stream, position in sorted(positions.items()):
            check = zlib.crc32(self._journals[stream].end_at(position), check)
        return check

    def _begin_edition(self) -> None:
        """Tell readers that the log is about to change, and remove its caches, checkpoint and redo log."""
        for journal in self._journals.values():
            if (whole := journal.whole()) is not None:
                whole.wait()
        self._redo.clear()
        with disk.opened(self._lock_path, os.O_WRONLY | os.O_APPEND) as handle:
            os.write(handle, b".")
            self._edition = None
            os.fsync(handle)
        for path in (self._checkpoint_path, f"{self._checkpoint_path}.new"):
            with suppress(FileNotFoundError):
                os.unlink(path)
        self.files.clear(CACHE)

    def _sync(self, written: Sequence[Written], edition: int | None) -> None:
        with self._explained("write to"):
            try:
                for each in written:
                    each.wait()
            finally:
                _close(written)
            if new := {each.file for each in written} - self._named:
                disk.sync_directory(self._place)
                self._sync_place()
                self._named |= new
            for each in written:
                if not each.is_redo:
                    for journal, _, end in each.journals:
                        self._redo.note_synced(edition, journal.stream, end)

    def _sync_place(self) -> None:
        if not self._placed:
            self._checked = False  # until all of it succeeds
            with disk.opened(str(self._meta_path), os.O_RDONLY) as handle:
                disk.sync(handle)
            disk.sync_names(os.path.dirname(self._place))
            self._checked = self._placed = True

    @property
    def _meta_path(self) -> Path:
        return self.directory / "meta.json"

    @property
    def _checkpoint_path(self) -> str:
        return f"{self._place}/.checkpoint"

    def _create(self) -> None:
        """Create the session's directory, and check that it belongs to this session."""
        disk.make_directory(self._place)
        root = str(self.directory.parents[_LEVELS - 1])
        if disk.is_open_to_all(root):
            raise StoreUnavailable(f"any user may write to {root}, so sessions are not safe there: chmod o-w {root}")
        if not _is_whole(str(self._meta_path)):
            with exclusive(self._lock_path):
                add(self.directory.parent, self.directory.name)
                self._save_meta()
        if _key_in(str(self._meta_path)) != self._key:
            raise StoreCorrupt(
                f"{self._meta_path} does not name session {self._key.session!r}: move the directory away"
            )
        self._check_format()
        if self._format() < FORMAT:  # later writes may need the present format
            with exclusive(self._lock_path):
                self._save_meta()
        self._checked = True


class _Explained:
    """A block whose errors of the system become those that say what could not be done to a session.

    The steps of each call, which seldom have one, catch it instead: entering and leaving a block costs more.
    """

    def __init__(self, unavailable: Callable[[str, OSError], StoreUnavailable], verb: str) -> None:
        self._unavailable, self._verb = unavailable, verb

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, OSError):
            raise self._unavailable(self._verb, error) from error


class _Explanations(dict[str, _Explained]):
    """Such blocks by their verbs, made when they are first needed."""

    def __init__(self, unavailable: Callable[[str, OSError], StoreUnavailable]) -> None:
        super().__init__()
        self._unavailable = unavailable

    def __missing__(self, verb: str) -> _Explained:
        self[verb] = block = _Explained(self._unavailable, verb)
        return block


def _wait_for_nothing() -> None:
    pass


def _close(written: Iterable[Written]) -> None:
    for each in written:
        each.close()


_LEVELS = len(("session", "<agent>", "agent", "<tenant>", "home", "<root>"))
"""How many levels a session's directory is below the parent of the root."""
