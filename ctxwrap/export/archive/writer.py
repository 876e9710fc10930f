"""Writing a session to an archive: one state of it, whole, and in a file that only its owner reads."""

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

from ctxwrap.errors import SettingsError, StoreCorrupt, StoreUnavailable
from ctxwrap.export.archive.format import (
    MANIFEST,
    SMALL,
    ArchiveLimits,
    ArchiveManifest,
    Member,
    carried,
    is_content,
    is_input,
    member_of,
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
from ctxwrap.stores.checksums import encoded
from ctxwrap.stores.log_format import timestamp
from ctxwrap.types import Record, SessionKey

_DAMAGES = 100
"""So much of what is damaged stands in a manifest."""


@dataclass(frozen=True, slots=True)
class Exported:
    file: str
    messages: int
    events: int
    contents: int
    bytes: int
    """How large the archive is."""
    damage: tuple[str, ...]
    """What could not be exported since it is damaged."""
    left_out: tuple[str, ...]
    """Files in `context/` whose names cannot be carried."""


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

    `overwrite` takes the place of a file that is there; `incomplete` exports what is left of a damaged session. What
    follows from the log is left out, since it can be made anew.
    """
    target = os.path.abspath(os.fspath(file))
    if os.path.lexists(target) and not overwrite:
        raise _exists(target)
    key = key_for(session, tenant, agent)
    log = open_existing(key, store).log
    with defer_finalizers(), log.locked():
        taken = _Taken(key, log)
    damage = (*taken.damage, *taken.bad_contents())
    if damage and not incomplete:
        raise StoreCorrupt(
            f"session {session!r} is damaged: {damage[0]}. Look at it with `ctxwrap verify`; "
            "incomplete=True (--force) exports what is left of it."
        )
    with explained(target), put_in_place(target, overwrite=overwrite) as handle:
        manifest = _written(handle, taken, damage, progress or (lambda done, total: None))
        size = handle.tell()
    return Exported(
        target, manifest.messages, manifest.events, manifest.contents, size, manifest.damage, manifest.left_out
    )


class _Taken:
    """A session as it was at one moment. Contents never change, so that they are loaded when they are needed."""

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
        self._wanted = {name: reference.digest for name, reference in check.contents.items()}
        names = [entry.name for entry in log.files.entries("context") if entry.name.startswith(INPUTS)]
        self.inputs = {name: log.files.load(name) or b"" for name in names if is_input(name)}
        self.left_out = tuple(repr(name) for name in names if not is_input(name))
        self.contents: list[str] = []

    def bad_contents(self) -> Iterator[str]:
        """Look at all contents; those that cannot be exported."""
        for name, digest in self._wanted.items():
            data = self.files.load(f"raw/{name}") if is_content(f"raw/{name}") else None
            if data is not None and blob_name(data) == (name, digest):
                self.contents.append(f"raw/{name}")
            else:
                yield f"raw/{name}: it is {'missing' if data is None else 'not what it was'}"

    def content(self, name: str) -> bytes:
        data = self.files.load(name)
        if data is None or f"raw/{blob_name(data)[0]}" != name:
            raise StoreCorrupt(f"{name} was changed or removed meanwhile: export the session again")
        return data


def _written(handle: IO[bytes], taken: _Taken, damage: tuple[str, ...], progress: Progress) -> ArchiveManifest:
    """Write the archive; what is so repetitive that whoever reads it might take it for an attack is not packed."""
    plain: set[str] = set()
    while True:
        handle.seek(0)
        handle.truncate()
        with ZipFile(handle, "w") as archive:
            writer = _Writer(archive, utc_now(), plain)
            manifest = _write_all(writer, taken, damage, progress)
        suspect = {info.filename for info in archive.infolist() if _is_suspect(info)} - plain
        if not suspect:
            handle.seek(0, os.SEEK_END)
            return manifest
        plain |= suspect


def _is_suspect(info: ZipInfo) -> bool:
    return info.file_size > SMALL and info.file_size > ArchiveLimits().ratio * info.compress_size


def _write_all(writer: "_Writer", taken: _Taken, damage: tuple[str, ...], progress: Progress) -> ArchiveManifest:
    total = sum(map(len, taken.records.values())) + len(taken.contents) + len(taken.inputs)
    done = 0
    for stream in STREAMS:
        writer.add(member_of(stream), (encoded(carried(record)) + b"\n" for record in taken.records[stream]))
        done += len(taken.records[stream])
        progress(done, total)
    for name in taken.contents:
        writer.add(name, [taken.content(name)])
        done += 1
        progress(done, total)
    for name, data in taken.inputs.items():
        writer.add(name, [data])
    progress(total, total)
    manifest = ArchiveManifest(
        key=taken.key,
        created=timestamp(writer.now),
        messages=len(taken.records["messages"]),
        events=len(taken.records["events"]),
        contents=len(taken.contents),
        damage=damage[:_DAMAGES],
        left_out=taken.left_out,
        members=dict(writer.members),
    )
    writer.add(MANIFEST, [json.dumps(manifest.as_json(), indent=1).encode()])
    return manifest


class _Writer:
    def __init__(self, archive: ZipFile, now: datetime, plain: Set[str]) -> None:
        self._archive = archive
        self._plain = plain
        self.now = now
        self.members: dict[str, Member] = {}

    def add(self, name: str, pieces: Iterable[bytes]) -> None:
        info = ZipInfo(name, self.now.timetuple()[:6])
        info.compress_type = ZIP_STORED if name in self._plain else ZIP_DEFLATED
        info.external_attr = (stat.S_IFREG | 0o600) << 16
        digest, size = hashlib.sha256(), 0
        with self._archive.open(info, "w", force_zip64=True) as member:
            for piece in pieces:
                digest.update(piece)
                size += len(piece)
                member.write(piece)
        self.members[name] = Member(digest.hexdigest(), size)


@contextmanager
def put_in_place(target: str, *, overwrite: bool) -> Iterator[IO[bytes]]:
    """A file to write to, which takes its place when all of it is on the medium, or never."""
    descriptor, temporary = tempfile.mkstemp(".new", ".ctxwrap-", os.path.dirname(target))
    try:
        with open(descriptor, "w+b") as handle:
            yield handle
            handle.flush()
            os.fsync(handle.fileno())
        _take_place(temporary, target, overwrite=overwrite)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)


def _take_place(temporary: str, target: str, *, overwrite: bool) -> None:
    if overwrite:
        os.replace(temporary, target)
        return
    try:
        os.link(temporary, target)  # unlike renaming, it takes no other file's place
    except FileExistsError:
        raise _exists(target) from None
    except OSError:  # a file system without hard links
        os.rename(temporary, target)


def _exists(target: str) -> SettingsError:
    return SettingsError(f"{target} is there already: name another file, or overwrite it (overwrite=True, --force)")


@contextmanager
def explained(target: str) -> Iterator[None]:
    """What the file system says against a file, in one sentence."""
    try:
        yield
    except OSError as error:
        raise StoreUnavailable(
            f"cannot write {target}: {error.strerror or error}. "
            "Check that its directory is there, can be written to and has room."
        ) from error
