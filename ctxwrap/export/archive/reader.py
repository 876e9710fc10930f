"""Importing a session from an archive that is not trusted: checked completely, then written."""

import errno
import hashlib
import json
import logging
import os
import stat
import struct
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, Any, NamedTuple
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile, ZipInfo

from ctxwrap.errors import CtxwrapError, InvalidArchive, NotFound, SettingsError, StoreUnavailable
from ctxwrap.export.archive.format import (
    LOG,
    MANIFEST,
    SMALL,
    ArchiveLimits,
    ArchiveManifest,
    carried,
    is_content,
    is_member,
    member_of,
)
from ctxwrap.session.blobs import blobs_in
from ctxwrap.session.lookup import StoreLike, key_for
from ctxwrap.session.session import Session
from ctxwrap.session.threads import defer_finalizers
from ctxwrap.session.verify.checker import Progress
from ctxwrap.session.verify.report import folded
from ctxwrap.stores import given_store
from ctxwrap.stores.memory import MemoryFiles
from ctxwrap.types import Record, SessionKey

_PIECE = 1 << 20
_END, _LOCATOR, _END_64 = 22, 20, 56
"""The lengths of what a zip closes with; the last two are there only if it is a large one."""

_ENTRY = 512
"""So many bytes of a zip's directory are allowed for each member."""

_NOT_A_ZIP = (BadZipFile, EOFError, IndexError, NotImplementedError, OverflowError, RuntimeError, ValueError)

_MANIFEST_BYTES = 256
"""So many bytes of the manifest are allowed for each member, and as many thousands in any case."""


@contextmanager
def opened(file: str | os.PathLike[str], limits: ArchiveLimits) -> Iterator["Archive"]:
    """An archive whose members are known to be no more, no larger and no others than they may be."""
    path = os.fspath(file)
    with _explained(path):
        handle = os.fdopen(os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)), "rb")
    with handle, _explained(path):
        if not stat.S_ISREG(os.fstat(handle.fileno()).st_mode):
            raise InvalidArchive("it is no regular file")
        _check_directory(handle, limits)
        with ZipFile(handle) as members:
            yield Archive(members, limits)


@contextmanager
def _explained(path: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise NotFound(f"there is no file {path!r}") from error
    except InvalidArchive as error:
        raise InvalidArchive(f"{path!r} cannot be imported: {error}") from error
    except CtxwrapError:
        raise
    except (*_NOT_A_ZIP, struct.error, zlib.error) as error:
        raise InvalidArchive(
            f"{path!r} cannot be imported: it is no whole zip ({error}). Copy or export it again."
        ) from error
    except OSError as error:
        if error.errno == errno.EINVAL:  # a damaged archive names a place before its own beginning
            raise InvalidArchive(
                f"{path!r} cannot be imported: it is no whole zip. Copy or export it again."
            ) from error
        raise NotFound(f"cannot read {path!r}: {error.strerror or error}") from error


def _check_directory(handle: IO[bytes], limits: ArchiveLimits) -> None:
    """Look at how much room the list of members takes, before it is read into memory."""
    size = handle.seek(0, os.SEEK_END)
    if size > limits.bytes:
        raise InvalidArchive(f"it is larger than {_raised(limits.bytes)}")
    handle.seek(max(0, size - _END - _LOCATOR - _END_64))
    tail = handle.read()
    end = tail[-_END:]
    if len(end) < _END or not end.startswith(b"PK\x05\x06"):
        raise InvalidArchive("it is no zip, or its end is missing. Copy or export it again")
    (length,) = struct.unpack_from("<L", end, 12)
    if tail[-_END - _LOCATOR :].startswith(b"PK\x06\x07"):
        (length,) = struct.unpack_from("<Q", tail, 40)
    if length > limits.members * _ENTRY:
        raise InvalidArchive(f"it has more than {limits.members} members")


class Archive:
    def __init__(self, archive: ZipFile, limits: ArchiveLimits) -> None:
        self._archive = archive
        self._limits = limits
        self._infos = _checked(archive.infolist(), limits)
        self.manifest = self._read_manifest()

    @property
    def contents(self) -> list[str]:
        return [name for name in self._infos if is_content(name)]

    @property
    def inputs(self) -> list[str]:
        return [name for name in self._infos if name not in (MANIFEST, *LOG) and not is_content(name)]

    def load(self, name: str) -> bytes:
        """A member that is what the manifest says."""
        data = b"".join(self._pieces(name))
        self._check_digest(name, hashlib.sha256(data).hexdigest())
        return data

    def check(self, name: str) -> None:
        """Whether a member is what the manifest says, and a content what its name says."""
        digest = hashlib.sha256()
        for piece in self._pieces(name):
            digest.update(piece)
        self._check_digest(name, digest.hexdigest())
        if is_content(name) and not digest.hexdigest().startswith(name.removeprefix("raw/sha256-")):
            raise InvalidArchive(f"{name} is not the content that its name says")

    def records(self, stream: str, step: Callable[[], None]) -> list[Record]:
        """The records of a stream, each of which may be written to a log."""
        name, digest, records = member_of(stream), hashlib.sha256(), list[Record]()
        with self._archive.open(self._infos[name]) as member:
            while line := member.readline(self._limits.line_bytes + 1):
                digest.update(line)
                records.append(self._record(line, f"{name}, line {len(records) + 1}"))
                step()
        self._check_digest(name, digest.hexdigest())
        wanted = getattr(self.manifest, stream)
        if len(records) != wanted:
            raise InvalidArchive(f"{name} has {len(records)} records, and its manifest says {wanted}")
        return records

    def _record(self, line: bytes, where: str) -> Record:
        if len(line) > self._limits.line_bytes:
            raise InvalidArchive(f"{where} is longer than {self._limits.line_bytes} bytes")
        record = _parsed(line, where, self._limits.depth)
        if not isinstance(record, dict) or not isinstance(record.get("ctx", {}), dict):
            raise InvalidArchive(f"{where} is no record")
        for blob in blobs_in(record):
            self._check_reference(f"raw/{blob['id']}", blob.get("digest"), where)
        return record

    def _check_reference(self, name: str, digest: object, where: str) -> None:
        if not is_content(name):
            raise InvalidArchive(f"{where} refers to {name!r}, which is no content")
        if name in self._infos and digest != f"sha256:{self.manifest.members[name].sha256}":
            raise InvalidArchive(f"{where} refers to {name} with another digest")
        if name not in self._infos and not self.manifest.damage:
            raise InvalidArchive(f"{where} refers to {name}, which is missing")

    def _read_manifest(self) -> ArchiveManifest:
        if MANIFEST not in self._infos:
            raise InvalidArchive("it is no archive of a session: it has no manifest.json")
        if self._infos[MANIFEST].file_size > _MANIFEST_BYTES * (len(self._infos) + 1000):
            raise InvalidArchive("its manifest is too large")
        value = _parsed(b"".join(self._pieces(MANIFEST)), MANIFEST, self._limits.depth)
        manifest = ArchiveManifest.from_json(value)
        differing = sorted(self._infos.keys() ^ {MANIFEST, *manifest.members})
        if differing:
            raise InvalidArchive(f"its manifest and its members differ in {differing[0]!r}")
        if not set(LOG) <= self._infos.keys():
            raise InvalidArchive("a stream of the log is missing")
        return manifest

    def _pieces(self, name: str) -> Iterator[bytes]:
        with self._archive.open(self._infos[name]) as member:
            while piece := member.read(_PIECE):
                yield piece

    def _check_digest(self, name: str, digest: str) -> None:
        if digest != self.manifest.members[name].sha256:
            raise InvalidArchive(f"{name} is not what the manifest says: it was changed or damaged")


def _checked(infos: list[ZipInfo], limits: ArchiveLimits) -> dict[str, ZipInfo]:
    """The members by name, if their number, names, kinds and sizes are what they may be."""
    if len(infos) > limits.members:
        raise InvalidArchive(f"it has {len(infos)} members, more than {limits.members}")
    found: dict[str, ZipInfo] = {}
    for info in infos:
        if info.orig_filename in found:
            raise InvalidArchive(f"it has two members {info.orig_filename!r}")
        _check_member(info, limits)
        found[info.filename] = info
    if sum(info.file_size for info in infos) > limits.bytes:
        raise InvalidArchive(f"it holds more than {_raised(limits.bytes)}")
    for name in found:
        parents = name.split("/")[:-1]
        if any("/".join(parents[:count]) in found for count in range(1, len(parents) + 1)):
            raise InvalidArchive(f"{name!r} lies in what is a file")
    return found


def _raised(limit: int) -> str:
    return f"{limit} bytes: if you trust it, allow more with limits=Limits(bytes=...) (--max-bytes)"


def _check_member(info: ZipInfo, limits: ArchiveLimits) -> None:
    name, kind = info.orig_filename, stat.S_IFMT(info.external_attr >> 16)
    if not is_member(name) or info.filename != name:
        raise InvalidArchive(f"it has a member {name[:200]!r}, which no session has")
    if kind not in (0, stat.S_IFREG):
        raise InvalidArchive(f"{name!r} is no regular file")
    if info.flag_bits & 1 or info.compress_type not in (ZIP_STORED, ZIP_DEFLATED):
        raise InvalidArchive(f"{name!r} is encrypted or packed in a way that no export uses")
    if limits.member_bytes is not None and info.file_size > limits.member_bytes:
        raise InvalidArchive(f"{name!r} is larger than {limits.member_bytes} bytes")
    if info.file_size > SMALL and info.file_size > limits.ratio * info.compress_size:
        raise InvalidArchive(f"{name!r} is more than {limits.ratio} times larger than it is packed")


def _parsed(data: bytes, where: str, depth: int) -> Any:
    try:
        text = data.decode()
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidArchive(f"{where} is no JSON that can be read") from error
    if text.count("{") + text.count("[") > depth and _is_deeper(value, depth):
        raise InvalidArchive(f"{where} is nested more deeply than {depth}")
    return value


def _is_deeper(value: Any, depth: int) -> bool:
    level = [value]
    for _ in range(depth):
        containers = [outer for outer in level if isinstance(outer, (dict, list))]
        level = [each for outer in containers for each in (outer.values() if isinstance(outer, dict) else outer)]
    return any(isinstance(each, (dict, list)) for each in level)


class ArchiveFiles(MemoryFiles):
    """The contents in an archive, for whoever asks for them by name."""

    def __init__(self, archive: Archive) -> None:
        super().__init__()
        self._archive = archive
        self._names = frozenset(archive.contents)

    def load(self, name: str, size: int | None = None, start: int = 0) -> bytes | None:
        return self._archive.load(name)[start:][:size] if name in self._names else None


logger = logging.getLogger("ctxwrap")

_EVERY = 500


@dataclass(frozen=True, slots=True)
class Imported:
    key: SessionKey
    """What it is called here."""
    origin: SessionKey
    """What it was called where it was exported."""
    messages: int
    events: int
    contents: int
    damage: tuple[str, ...]
    """What was damaged when it was exported, and so is missing."""
    left_out: tuple[str, ...] = ()
    """What the archive has of an operator, and was not `trusted` to bring."""


def import_session(
    file: str | os.PathLike[str],
    *,
    session: str | None = None,
    store: StoreLike = None,
    tenant: str = "default",
    agent: str = "default",
    trusted: bool = False,
    limits: ArchiveLimits | None = None,
    progress: Progress | None = None,
) -> Imported:
    """Bring a session from an archive into a store, under its own name or another one.

    Whose it was there gives it no right to be anybody's here: tenant and agent are the caller's word. Pinned texts,
    budget and policy are an operator's word: they are left out unless the archive is `trusted`. `limits` says how much
    an archive may hold, else 128 MB. An import that was interrupted can simply be asked for again.
    """
    with opened(file, limits or ArchiveLimits()) as archive:
        manifest = archive.manifest
        key = key_for(manifest.key.session if session is None else session, tenant, agent)
        target = Session(key, given_store(store).open(key))
        inputs = archive.inputs if trusted else ()
        work = _Work(archive, progress or (lambda done, total: None))
        log = work.checked()
        _begin_or_resume(target, log)
        try:
            with defer_finalizers(), target.locked():
                _write(target, archive, (*archive.contents, *inputs), log, work)
        except (OSError, StoreUnavailable) as error:
            raise StoreUnavailable(
                f"the import of session {key.session!r} was interrupted and can be asked for again: {error}"
            ) from error
        work.finish()
        left_out = () if trusted else tuple(archive.inputs)
    counts = (manifest.messages, manifest.events, manifest.contents)
    return Imported(key, manifest.key, *counts, manifest.damage, left_out)


class _Log(NamedTuple):
    messages: list[Record]
    events: list[Record]


class _Work:
    """What is done of an import: every record is read and folded, every content checked and written."""

    def __init__(self, archive: Archive, progress: Progress) -> None:
        self._archive = archive
        self._progress = progress
        manifest = archive.manifest
        self._total = 2 * (manifest.messages + manifest.events + len(archive.contents) + len(archive.inputs))
        self._done = 0

    def checked(self) -> _Log:
        """The archive's records, if all of it is what it should be and makes a session."""
        for name in (*self._archive.contents, *self._archive.inputs):
            self._archive.check(name)
            self.step()
        messages = [_vouched(record) for record in self._archive.records("messages", self.step)]
        events = [_vouched(record) for record in self._archive.records("events", self.step)]
        if not messages and not events:
            raise InvalidArchive("its session is empty")
        try:
            folded(ArchiveFiles(self._archive), messages, events, self.step).computed()
        except InvalidArchive:
            raise
        except Exception as error:
            raise InvalidArchive(f"its records make no session: {error!r}") from error
        return _Log(messages, events)

    def step(self) -> None:
        self._done += 1
        if self._done % _EVERY == 0:
            self._progress(self._done, max(self._done, self._total))

    def finish(self) -> None:
        self._progress(self._total, self._total)


def _vouched(record: Record) -> Record:
    """A record as a log takes it; one that came without control data says that nobody vouched for it so far."""
    left = carried(record)
    return {**left, "ctx": {"v": 1, **left.get("ctx", {"unchecked": True})}}


def _begin_or_resume(target: Session, log: _Log) -> bool:
    """Whether the events are there already, since an import of the same was interrupted behind them."""
    target.refresh()
    if target.is_empty:
        return False
    there = {stream: [_vouched(record) for record in target.log.read(stream)[0]] for stream in _Log._fields}
    if log.messages and not there["messages"] and there["events"] == log.events:
        return True
    key = target.key
    raise SettingsError(
        f"there is a session {key.session!r} of tenant {key.tenant!r} and agent {key.agent!r} already: "
        "name another with session= (--session)"
    )


def _write(target: Session, archive: Archive, names: Sequence[str], log: _Log, work: _Work) -> None:
    """Contents, then events, then messages: events tell how many messages there are, and that these are missing."""
    has_events = _begin_or_resume(target, log)
    for name in names:
        target.log.files.save(name, archive.load(name), lasting=True)
        work.step()
    if not has_events:
        target.log.append({"events": log.events}, lasting=True)
        target.log.unsynced()()  # on the medium before any message is
    target.log.append({"messages": log.messages}, lasting=True)
    try:
        target.rebuild()
    except OSError as error:
        logger.warning(
            "session %r was imported, but what follows from it was not written (%s): ctxwrap rebuild makes it",
            target.key.session,
            error,
        )
