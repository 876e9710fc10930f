"""Sessions as directories of append-only JSON lines, for every process of one machine."""

import fcntl
import json
import logging
import os
import threading
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from ctxwrap.errors import StoreCorrupt, StoreUnavailable
from ctxwrap.stores.names import safe_name
from ctxwrap.types import Change, Checkpoint, Record, SessionKey

logger = logging.getLogger("ctxwrap")

_CHECK = len(b',"c":"00000000"}}\n')


class FileStore:
    """`<root>/home/<tenant>/agent/<agent>/session/<session>/`, readable by its owner only."""

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self.root = Path(root)

    def open(self, key: SessionKey) -> "FileLog":
        return FileLog(self._sessions_of(key.tenant, key.agent) / safe_name(key.session), key)

    def sessions(self, tenant: str, agent: str) -> Iterator[str]:
        """The ids of the sessions there are, oldest name first."""
        directory = self._sessions_of(tenant, agent)
        for meta in sorted(directory.glob("*/meta.json")) if directory.is_dir() else ():
            yield str(json.loads(meta.read_bytes())["session"])

    def _sessions_of(self, tenant: str, agent: str) -> Path:
        return self.root / "home" / safe_name(tenant) / "agent" / safe_name(agent) / "session"


class FileLog:
    """One session's `messages.jsonl` and `events.jsonl`, and `context/` with what was made from them."""

    def __init__(self, directory: Path, key: SessionKey) -> None:
        self.directory = directory
        self._place = str(directory)
        self._key = key
        self._checked = False

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Others wait: processes and threads alike, since each takes the lock on a handle of its own."""
        with self._explained("lock"):
            self._create()
            handle = os.open(self._lock_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX)
                yield
            finally:
                fcntl.flock(handle, fcntl.LOCK_UN)  # closing is not enough while a forked child has the handle, too
                os.close(handle)

    def edition(self) -> int:
        """The length of the lock's file, which grows by a byte whenever the log is rewritten."""
        with self._explained("read"):
            try:
                return os.stat(self._lock_path).st_size
            except FileNotFoundError:
                return 0

    def read(self, stream: str, after: int = 0) -> tuple[list[Record], int]:
        with self._explained("read"):
            path = self._path(stream)
            try:
                if os.stat(path).st_size == after:
                    return [], after
                with open(path, "rb") as file:
                    file.seek(after)
                    data = file.read()
            except FileNotFoundError:
                return [], 0
        end = data.rfind(b"\n") + 1
        return [record for line in data[:end].split(b"\n")[:-1] if (record := self._parsed(line))], after + end

    def append(self, batches: Mapping[str, Sequence[Record]]) -> dict[str, int]:
        with self._explained("write to"):
            return {stream: self._append(stream, records) for stream, records in batches.items() if records}

    def rewrite(self, stream: str, change: Change, new: Sequence[Record] = (), banned: Sequence[str] = ()) -> None:
        with self._explained("rewrite"):
            lines = self._changed_lines(stream, change, banned)
            lines += _lines(new, _check_in(lines))
            self._begin_edition()
            for path in (self._checkpoint_path, f"{self._checkpoint_path}.new"):
                Path(path).unlink(missing_ok=True)
            for torn in self.directory.glob(f"{stream}.jsonl.torn-*"):
                torn.unlink()
            _replace(self._path(stream), lines, lasting=True)

    def load_checkpoint(self) -> Checkpoint | None:
        try:
            line = Path(self._checkpoint_path).read_bytes()
            known = json.loads(line)
            positions = known.pop("ctx")["positions"]
            head, seal = line[:-_CHECK], line[-_CHECK:]
            if seal == _seal(zlib.crc32(head, self._foundation(positions))):
                return Checkpoint(positions, known)
            logger.debug("session %r: the checkpoint is not one of its log", self._key.session)
        except FileNotFoundError:
            pass
        except Exception as error:
            logger.debug("session %r: the checkpoint cannot be read: %r", self._key.session, error)
        return None

    def save_checkpoint(self, checkpoint: Checkpoint) -> None:
        record = {**checkpoint.known, "ctx": {"positions": dict(checkpoint.positions)}}
        line = _lines([record], self._foundation(checkpoint.positions))
        with self._explained("write to"):
            (self.directory / "context").mkdir(mode=0o700, exist_ok=True)
            _replace(self._checkpoint_path, line, lasting=False)

    def _foundation(self, positions: Mapping[str, int]) -> int:
        """A checksum that this session's log has up to these positions, since the last line there seals all before."""
        check = zlib.crc32(_encoded(self._key._asdict()))
        for stream, position in sorted(positions.items()):
            check = zlib.crc32(self._end_at(stream, position), check)
        return check

    def _end_at(self, stream: str, position: int) -> bytes:
        if not position:
            return b""
        with open(self._path(stream), "rb") as file:
            file.seek(max(0, position - _CHECK))
            return file.read(min(position, _CHECK))

    def _changed_lines(self, stream: str, change: Change, banned: Sequence[str]) -> bytes:
        """The stream with every record changed and the checksums made anew; what stays keeps its bytes."""
        try:
            with open(os.open(self._path(stream), os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW), "rb") as file:
                data = file.read()
        except FileNotFoundError:
            return b""
        spellings = [spelling for text in banned for spelling in _spellings(text)]
        lines, check = [], 0
        for line in data.split(b"\n")[:-1]:
            record = self._parsed(line) or {}
            changed = change(record) if record else {}
            if not record and any(spelling in line for spelling in spellings):
                continue
            lines.append(_resealed(line, check) if changed == record else _lines([_unsealed(changed)], check))
            check = _check_in(lines[-1])
        return b"".join(lines)

    def _begin_edition(self) -> None:
        """Tell everybody who has read this log that it is about to be another."""
        handle = os.open(self._lock_path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            os.write(handle, b".")
            os.fsync(handle)
        finally:
            os.close(handle)

    def _append(self, stream: str, records: Sequence[Record]) -> int:
        handle = os.open(self._path(stream), os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            size = self._repaired_size(handle, stream)
            rest = lines = _lines(records, _check_in(os.pread(handle, _CHECK, max(0, size - _CHECK))))
            try:
                while rest:
                    rest = rest[os.write(handle, rest) :]
            except BaseException:
                os.ftruncate(handle, size)
                raise
            return size + len(lines)
        finally:
            os.close(handle)

    def _repaired_size(self, handle: int, stream: str) -> int:
        """The file's size, after a line that a crash cut short was moved aside."""
        size = os.fstat(handle).st_size
        if size == 0 or os.pread(handle, 1, size - 1) == b"\n":
            return size
        data = os.pread(handle, size, 0)
        good = data.rfind(b"\n") + 1
        Path(f"{self._path(stream)}.torn-{good}").write_bytes(data[good:])
        os.ftruncate(handle, good)
        logger.warning("%s: a line cut short by a crash was moved aside (%d bytes)", self._path(stream), size - good)
        return good

    def _path(self, stream: str) -> str:
        return f"{self._place}/{stream}.jsonl"

    @property
    def _lock_path(self) -> str:
        return f"{self._place}/.lock"

    @property
    def _checkpoint_path(self) -> str:
        return f"{self._place}/context/checkpoint.json"

    def _create(self) -> None:
        """Make the session's directory once, and make sure it is this session's."""
        if self._checked:
            return
        for directory in (*reversed(self.directory.parents), self.directory):
            if not directory.exists():
                directory.mkdir(mode=0o700, exist_ok=True)
        meta, identity = self.directory / "meta.json", self._key._asdict()
        if not meta.exists():
            temporary = self.directory / f".meta.{os.getpid()}.{threading.get_ident()}"
            temporary.write_bytes(_encoded(identity) + b"\n")
            os.chmod(temporary, 0o600)
            temporary.replace(meta)
        try:
            known = json.loads(meta.read_bytes())
        except ValueError:
            known = None
        if not isinstance(known, dict) or {name: known.get(name) for name in identity} != identity:
            raise StoreCorrupt(f"{meta} does not name session {self._key.session!r}: move the directory away")
        self._checked = True

    def _parsed(self, line: bytes) -> Record | None:
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            record = None
        if not isinstance(record, dict):
            logger.error("session %r holds a line that is no record; it is passed over", self._key.session)
            return None
        return record

    @contextmanager
    def _explained(self, verb: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise StoreUnavailable(
                f"cannot {verb} session {self._key.session!r} in {self.directory}: {error.strerror or error}. "
                "Check that the directory is writable and its disk has room, or name another with store=."
            ) from error


def _lines(records: Sequence[Record], check: int) -> bytes:
    """The records as lines, each closing, in its `ctx`, with a checksum over itself and the line before it."""
    lines = []
    for record in records:
        said = {name: value for name, value in record.items() if name != "ctx"}
        head = _encoded({**said, "ctx": record["ctx"]})[:-2]
        check = zlib.crc32(head, check)
        lines.append(head + _seal(check))
    return b"".join(lines)


def _seal(check: int) -> bytes:
    return b',"c":"%08x"}}\n' % check


def _resealed(line: bytes, check: int) -> bytes:
    """The line as it is, with its checksum, if it has one, over another line before it."""
    head, tail = line[: 1 - _CHECK], line[1 - _CHECK :]
    return head + _seal(zlib.crc32(head, check)) if tail.startswith(b',"c":"') else line + b"\n"


def _unsealed(record: Record) -> Record:
    """A record that was read, as one to be written."""
    control = record.get("ctx") or {}
    return {**record, "ctx": {"v": 1, **{name: value for name, value in control.items() if name != "c"}}}


def _check_in(lines: bytes) -> int:
    """The checksum that the last of the lines closes with, or 0."""
    tail = lines[-_CHECK:]
    try:
        return int(tail[6:14], 16) if tail.startswith(b',"c":"') else 0
    except ValueError:
        return 0


def _spellings(text: str) -> set[bytes]:
    """The text as it may stand in a file, plain or in JSON."""
    texts = {text, json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1]}
    return {spelling.encode("utf-8", "surrogatepass") for spelling in texts}


def _replace(path: str, data: bytes, *, lasting: bool) -> None:
    """Put `data` in the place of a file; whenever this stops, the old file is there or the new one.

    `lasting` waits until the medium has it, so that nothing of the old one is left after that.
    """
    temporary = f"{path}.new"
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        with open(os.open(temporary, flags, 0o600), "wb") as file:
            file.write(data)
            if lasting:
                file.flush()
                os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    if lasting:
        _sync_directory(os.path.dirname(path))


def _sync_directory(path: str) -> None:
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _encoded(record: Record) -> bytes:
    try:
        return json.dumps(record, ensure_ascii=False, separators=(",", ":"), default=str).encode()
    except UnicodeEncodeError:  # lone surrogates, which only an escape can carry
        return json.dumps(record, separators=(",", ":"), default=str).encode()
