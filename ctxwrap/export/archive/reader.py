"""Reads untrusted archives: checks the names, sizes and digests of their members, and parses their records."""

import errno
import hashlib
import json
import os
import stat
import struct
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO, Any
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile, ZipInfo

from ctxwrap.errors import CtxwrapError, InvalidArchive, NotFound
from ctxwrap.export.archive.format import (
    LOG_MEMBERS,
    MANIFEST,
    SMALL,
    ArchiveLimits,
    ArchiveManifest,
    is_content,
    is_member_name,
    member_name,
)
from ctxwrap.session.blobs import blobs_in
from ctxwrap.stores.memory import MemoryFiles
from ctxwrap.types import Record

_CHUNK = 1 << 20
_END_RECORD, _LOCATOR, _END_RECORD_64 = 22, 20, 56
"""Lengths of the records at the end of a zip; only a zip64 file has the last two."""

_DIRECTORY_ENTRY = 512
"""Bytes allowed per member in the zip's central directory."""

_NOT_A_ZIP = (BadZipFile, EOFError, IndexError, NotImplementedError, OverflowError, RuntimeError, ValueError)

_MANIFEST_BYTES = 256
"""Bytes of the manifest allowed per member, with 1000 members as the minimum."""


@contextmanager
def open_archive(file: str | os.PathLike[str], limits: ArchiveLimits) -> Iterator["Archive"]:
    """Open an archive whose number, sizes and names of members are within the limits."""
    with open_zip(file, limits) as members:
        yield Archive(members, limits)


@contextmanager
def open_zip(file: str | os.PathLike[str], limits: ArchiveLimits) -> Iterator[ZipFile]:
    """Open a zip whose directory is within the limits; errors while it is open say that it cannot be imported."""
    path = os.fspath(file)
    with _report_read_errors(path):
        handle = os.fdopen(os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)), "rb")
    with handle, _report_read_errors(path):
        if not stat.S_ISREG(os.fstat(handle.fileno()).st_mode):
            raise InvalidArchive("it is not a regular file")
        _check_directory(handle, limits)
        with ZipFile(handle) as members:
            yield members


@contextmanager
def _report_read_errors(path: str) -> Iterator[None]:
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
            f"{path!r} cannot be imported: it is not a complete zip ({error}). Copy or export it again."
        ) from error
    except OSError as error:
        if error.errno == errno.EINVAL:  # a damaged archive has an offset before its start
            raise InvalidArchive(
                f"{path!r} cannot be imported: it is not a complete zip. Copy or export it again."
            ) from error
        raise NotFound(f"cannot read {path!r}: {error.strerror or error}") from error


def _check_directory(handle: IO[bytes], limits: ArchiveLimits) -> None:
    """Check the size of the central directory before `ZipFile` reads it into memory."""
    size = handle.seek(0, os.SEEK_END)
    if size > limits.bytes:
        raise InvalidArchive(f"it is larger than {_byte_limit(limits.bytes)}")
    handle.seek(max(0, size - _END_RECORD - _LOCATOR - _END_RECORD_64))
    tail = handle.read()
    end = tail[-_END_RECORD:]
    if len(end) < _END_RECORD or not end.startswith(b"PK\x05\x06"):
        raise InvalidArchive("it is not a zip, or its end is missing. Copy or export it again")
    (length,) = struct.unpack_from("<L", end, 12)
    if tail[-_END_RECORD - _LOCATOR :].startswith(b"PK\x06\x07"):
        (length,) = struct.unpack_from("<Q", tail, 40)
    if length > limits.members * _DIRECTORY_ENTRY:
        raise InvalidArchive(f"it has more than {limits.members} members")


class Archive:
    def __init__(self, archive: ZipFile, limits: ArchiveLimits) -> None:
        self._archive = archive
        self._limits = limits
        self._infos = _check_members(archive.infolist(), limits)
        self.manifest = self._read_manifest()

    @property
    def contents(self) -> list[str]:
        return [name for name in self._infos if is_content(name)]

    @property
    def inputs(self) -> list[str]:
        return [name for name in self._infos if name not in (MANIFEST, *LOG_MEMBERS) and not is_content(name)]

    def load(self, name: str) -> bytes:
        """Return a member; raises InvalidArchive if its digest differs from the manifest."""
        data = b"".join(self._pieces(name))
        self._check_digest(name, hashlib.sha256(data).hexdigest())
        return data

    def check(self, name: str) -> None:
        """Check a member against its digest in the manifest, and a content against the digest in its name."""
        digest = hashlib.sha256()
        for piece in self._pieces(name):
            digest.update(piece)
        self._check_digest(name, digest.hexdigest())
        if is_content(name) and not digest.hexdigest().startswith(name.removeprefix("raw/sha256-")):
            raise InvalidArchive(f"{name} does not match the digest in its name")

    def records(self, stream: str, step: Callable[[], None]) -> list[Record]:
        """Return the checked records of a stream."""
        name, digest, records = member_name(stream), hashlib.sha256(), list[Record]()
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
        record = _parse(line, where, self._limits.depth)
        if not isinstance(record, dict) or not isinstance(record.get("ctx", {}), dict):
            raise InvalidArchive(f"{where} is not a record")
        for blob in blobs_in(record):
            self._check_reference(f"raw/{blob['id']}", blob.get("digest"), where)
        return record

    def _check_reference(self, name: str, digest: object, where: str) -> None:
        if not is_content(name):
            raise InvalidArchive(f"{where} refers to {name!r}, which is not the name of a content")
        if name in self._infos and digest != f"sha256:{self.manifest.members[name].sha256}":
            raise InvalidArchive(f"{where} refers to {name} with a different digest")
        if name not in self._infos and not self.manifest.damage:
            raise InvalidArchive(f"{where} refers to {name}, which is missing")

    def _read_manifest(self) -> ArchiveManifest:
        if MANIFEST not in self._infos:
            raise InvalidArchive("it is not a session archive: it has no manifest.json")
        if self._infos[MANIFEST].file_size > _MANIFEST_BYTES * (len(self._infos) + 1000):
            raise InvalidArchive("its manifest is too large")
        value = _parse(b"".join(self._pieces(MANIFEST)), MANIFEST, self._limits.depth)
        manifest = ArchiveManifest.from_json(value)
        differing = sorted(self._infos.keys() ^ {MANIFEST, *manifest.members})
        if differing:
            raise InvalidArchive(f"its manifest and its members disagree about {differing[0]!r}")
        if not set(LOG_MEMBERS) <= self._infos.keys():
            raise InvalidArchive("a stream of the log is missing")
        return manifest

    def _pieces(self, name: str) -> Iterator[bytes]:
        with self._archive.open(self._infos[name]) as member:
            while piece := member.read(_CHUNK):
                yield piece

    def _check_digest(self, name: str, digest: str) -> None:
        if digest != self.manifest.members[name].sha256:
            raise InvalidArchive(f"{name} does not match its digest in the manifest: it was changed or damaged")


def _check_members(infos: list[ZipInfo], limits: ArchiveLimits) -> dict[str, ZipInfo]:
    """Return the members by name, once their number, names, types and sizes are checked."""
    if len(infos) > limits.members:
        raise InvalidArchive(f"it has {len(infos)} members, more than {limits.members}")
    found: dict[str, ZipInfo] = {}
    for info in infos:
        if info.orig_filename in found:
            raise InvalidArchive(f"it has two members {info.orig_filename!r}")
        _check_member(info, limits)
        found[info.filename] = info
    if sum(info.file_size for info in infos) > limits.bytes:
        raise InvalidArchive(f"it holds more than {_byte_limit(limits.bytes)}")
    for name in found:
        parents = name.split("/")[:-1]
        if any("/".join(parents[:count]) in found for count in range(1, len(parents) + 1)):
            raise InvalidArchive(f"{name!r} is inside a member that is a file")
    return found


def _byte_limit(limit: int) -> str:
    return f"{limit} bytes: if you trust it, allow more with limits=ArchiveLimits(bytes=...) (--max-bytes)"


def _check_member(info: ZipInfo, limits: ArchiveLimits) -> None:
    name, kind = info.orig_filename, stat.S_IFMT(info.external_attr >> 16)
    if not is_member_name(name) or info.filename != name:
        raise InvalidArchive(f"it has a member {name[:200]!r}, which does not belong in a session archive")
    if kind not in (0, stat.S_IFREG):
        raise InvalidArchive(f"{name!r} is not a regular file")
    if info.flag_bits & 1 or info.compress_type not in (ZIP_STORED, ZIP_DEFLATED):
        raise InvalidArchive(f"{name!r} is encrypted, or has a compression method that ctxwrap does not use")
    if limits.member_bytes is not None and info.file_size > limits.member_bytes:
        raise InvalidArchive(f"{name!r} is larger than {limits.member_bytes} bytes")
    if info.file_size > SMALL and info.file_size > limits.ratio * info.compress_size:
        raise InvalidArchive(f"{name!r} unpacks to more than {limits.ratio} times its packed size")


def _parse(data: bytes, where: str, depth: int) -> Any:
    try:
        text = data.decode()
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidArchive(f"{where} is not valid JSON") from error
    if text.count("{") + text.count("[") > depth and _is_nested_deeper(value, depth):
        raise InvalidArchive(f"{where} is nested more deeply than {depth}")
    return value


def _is_nested_deeper(value: Any, depth: int) -> bool:
    level = [value]
    for _ in range(depth):
        containers = [outer for outer in level if isinstance(outer, (dict, list))]
        level = [each for outer in containers for each in (outer.values() if isinstance(outer, dict) else outer)]
    return any(isinstance(each, (dict, list)) for each in level)


class ArchiveFiles(MemoryFiles):
    """The contents of an archive as session files."""

    def __init__(self, archive: Archive) -> None:
        super().__init__()
        self._archive = archive
        self._names = frozenset(archive.contents)

    def load(self, name: str, size: int | None = None, start: int = 0) -> bytes | None:
        return self._archive.load(name)[start:][:size] if name in self._names else None
