"""Writes a session to an archive: a consistent state of it, in a file readable only by its owner."""

import contextlib
import hashlib
import json
import os
import stat
import tempfile
from collections.abc import Iterable, Iterator, Set
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import IO
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile, ZipInfo

from ctxwrap.encoding import encode_json
from ctxwrap.errors import SettingsError, StoreCorrupt, StoreUnavailable
from ctxwrap.export.archive.format import (
    MANIFEST,
    SMALL,
    ArchiveLimits,
    ArchiveManifest,
    Member,
    is_content,
    is_input_name,
    member_name,
    without_store_fields,
)
from ctxwrap.session.abi import blob_name
from ctxwrap.session.clock import utc_now
from ctxwrap.session.inputs import INPUTS
from ctxwrap.session.lookup import StoreLike, key_for, open_existing
from ctxwrap.session.threads import defer_finalizers
from ctxwrap.session.verify.checker import Progress
from ctxwrap.session.verify.report import VerifyFindings
from ctxwrap.session.verify.streams import StreamCheck, lines_of
from ctxwrap.stores.base import STREAMS, Files, Log
from ctxwrap.stores.log_format import timestamp
from ctxwrap.stores.names import owner_kind
from ctxwrap.types import Record, SessionKey

_MOST_DAMAGE = 100
"""Most damage messages that a manifest lists."""


@dataclass(frozen=True, slots=True)
class Exported:
    file: str
    messages: int
    events: int
    contents: int
    bytes: int
    """Size of the archive."""
    damage: tuple[str, ...]
    """Damaged parts that were not exported."""
    left_out: tuple[str, ...]
    """Files in `context/` whose names cannot be without_store_fields."""


def export_session(
    session: str,
    file: str | os.PathLike[str],
    *,
    store: StoreLike = None,
    tenant: str = "default",
    agent: str = "default",
    overwrite: bool = False,
    incomplete: bool = False,
    progress: Progress | None = None,
) -> Exported:
    """Write a session to an archive that `import_session` reads, in any store.

    `overwrite` replaces an existing file; `incomplete` exports the intact parts of a damaged session. Derived files are
    left out, since they can be rebuilt.
    """
    target = os.path.abspath(os.fspath(file))
    if os.path.lexists(target) and not overwrite:
        raise _file_exists(target)
    key = key_for(session, tenant, agent)
    log = open_existing(key, store).log
    with defer_finalizers(), log.locked():
        state = _SessionState(key, log)
    damage = (*state.damage, *state.check_contents())
    if damage and not incomplete:
        raise StoreCorrupt(
            f"session {session!r} is damaged: {damage[0]}. Run `ctxwrap verify`; "
            "incomplete=True (--force) exports the intact parts."
        )
    with report_write_errors(target), replace_atomically(target, overwrite=overwrite) as handle:
        manifest = _write_archive(handle, state, damage, progress or (lambda done, total: None))
        size = handle.tell()
    return Exported(
        target, manifest.messages, manifest.events, manifest.contents, size, manifest.damage, manifest.left_out
    )


class _SessionState:
    """The state of a session at one time. Contents are immutable, so they are loaded only when written."""

    def __init__(self, key: SessionKey, log: Log) -> None:
        findings = VerifyFindings()
        check = StreamCheck(findings)
        self.key = key
        self.files: Files = log.files
        self.records: dict[str, list[Record]] = {}
        for stream in STREAMS:
            self.records[stream] = []
            for line, torn in lines_of(log, stream):
                check.take(stream, line, torn)
                if line.record is not None:
                    self.records[stream].append(line.record)
        check.finish(lambda writer: True)
        self.damage = tuple(
            f"{finding.where}: {finding.what}" for finding in findings.in_order() if finding.severity == "damage"
        )
        self._referenced = {name: reference.digest for name, reference in check.contents.items()}
        names = [entry.name for entry in log.files.entries("context") if entry.name.startswith(INPUTS)]
        self.inputs = {name: log.files.load(name) or b"" for name in names if is_input_name(name)}
        self.left_out = tuple(repr(name) for name in names if not is_input_name(name))
        self.contents: list[str] = []

    def check_contents(self) -> Iterator[str]:
        """Check all contents and yield the damaged ones."""
        for name, digest in self._referenced.items():
            data = self.files.load(f"raw/{name}") if is_content(f"raw/{name}") else None
            if data is not None and blob_name(data) == (name, digest):
                self.contents.append(f"raw/{name}")
            else:
                yield f"raw/{name}: it is {'missing' if data is None else 'damaged'}"

    def content(self, name: str) -> bytes:
        data = self.files.load(name)
        if data is None or f"raw/{blob_name(data)[0]}" != name:
            raise StoreCorrupt(f"{name} was changed or removed during the export: export the session again")
        return data


def _write_archive(
    handle: IO[bytes], state: _SessionState, damage: tuple[str, ...], progress: Progress
) -> ArchiveManifest:
    """Write the archive; members that compress beyond the import's ratio limit are stored uncompressed."""
    uncompressed: set[str] = set()
    while True:
        handle.seek(0)
        handle.truncate()
        with ZipFile(handle, "w") as archive:
            writer = _ArchiveWriter(archive, utc_now(), uncompressed)
            manifest = _write_all(writer, state, damage, progress)
        repetitive = {info.filename for info in archive.infolist() if _looks_like_bomb(info)} - uncompressed
        if not repetitive:
            handle.seek(0, os.SEEK_END)
            return manifest
        uncompressed |= repetitive


def _looks_like_bomb(info: ZipInfo) -> bool:
    return info.file_size > SMALL and info.file_size > ArchiveLimits().ratio * info.compress_size


def _write_all(
    writer: "_ArchiveWriter", state: _SessionState, damage: tuple[str, ...], progress: Progress
) -> ArchiveManifest:
    total = sum(map(len, state.records.values())) + len(state.contents) + len(state.inputs)
    done = 0
    for stream in STREAMS:
        writer.add(
            member_name(stream),
            (encode_json(without_store_fields(record)) + b"\n" for record in state.records[stream]),
        )
        done += len(state.records[stream])
        progress(done, total)
    for name in state.contents:
        writer.add(name, [state.content(name)])
        done += 1
        progress(done, total)
    for name, data in state.inputs.items():
        writer.add(name, [data])
    progress(total, total)
    manifest = ArchiveManifest(
        key=state.key._replace(agent=owner_kind(state.key.agent) or state.key.agent),
        created=timestamp(writer.now),
        messages=len(state.records["messages"]),
        events=len(state.records["events"]),
        contents=len(state.contents),
        damage=damage[:_MOST_DAMAGE],
        left_out=state.left_out,
        members=dict(writer.members),
    )
    writer.add(MANIFEST, [json.dumps(manifest.as_json(), indent=1).encode()])
    return manifest


class _ArchiveWriter:
    def __init__(self, archive: ZipFile, now: datetime, uncompressed: Set[str]) -> None:
        self._archive = archive
        self._uncompressed = uncompressed
        self.now = now
        self.members: dict[str, Member] = {}

    def add(self, name: str, pieces: Iterable[bytes]) -> None:
        info = ZipInfo(name, self.now.timetuple()[:6])
        info.compress_type = ZIP_STORED if name in self._uncompressed else ZIP_DEFLATED
        info.external_attr = (stat.S_IFREG | 0o600) << 16
        digest, size = hashlib.sha256(), 0
        with self._archive.open(info, "w", force_zip64=True) as member:
            for piece in pieces:
                digest.update(piece)
                size += len(piece)
                member.write(piece)
        self.members[name] = Member(digest.hexdigest(), size)


@contextmanager
def replace_atomically(target: str, *, overwrite: bool) -> Iterator[IO[bytes]]:
    """Yield a temporary file that moves to `target` once all of it is durable, or is removed."""
    descriptor, temporary = tempfile.mkstemp(".new", ".ctxwrap-", os.path.dirname(target))
    try:
        with open(descriptor, "w+b") as handle:
            yield handle
            handle.flush()
            os.fsync(handle.fileno())
        _move_into_place(temporary, target, overwrite=overwrite)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)


def _move_into_place(temporary: str, target: str, *, overwrite: bool) -> None:
    if overwrite:
        os.replace(temporary, target)
        return
    try:
        os.link(temporary, target)  # unlike os.rename, os.link never replaces a file
    except FileExistsError:
        raise _file_exists(target) from None
    except OSError:  # a file system without hard links
        os.rename(temporary, target)


def _file_exists(target: str) -> SettingsError:
    return SettingsError(f"{target} already exists: choose another file, or overwrite it (overwrite=True, --force)")


@contextmanager
def report_write_errors(target: str) -> Iterator[None]:
    """Turn an OSError about `target` into a StoreUnavailable that says what to check."""
    try:
        yield
    except OSError as error:
        raise StoreUnavailable(
            f"cannot write {target}: {error.strerror or error}. "
            "Check that its directory exists, is writable and has free space."
        ) from error
