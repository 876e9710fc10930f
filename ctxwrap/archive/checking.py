"""Reading an archive that anybody may have made: nothing of it is believed before it was looked at."""

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

from ctxwrap.archive.form import LOG, MANIFEST, SMALL, Limits, Manifest, is_content, is_member, member_of
from ctxwrap.errors import CtxwrapError, InvalidArchive, NotFound
from ctxwrap.session.blobs import blobs_in
from ctxwrap.stores.memory import MemoryFiles
from ctxwrap.types import Record

_PIECE = 1 << 20
_END, _LOCATOR, _END_64 = 22, 20, 56
"""The lengths of what a zip closes with; the last two are there only if it is a large one."""

_ENTRY = 512
"""So many bytes of a zip's directory are allowed for each member."""

_NOT_A_ZIP = (BadZipFile, EOFError, IndexError, NotImplementedError, OverflowError, RuntimeError, ValueError)

_MANIFEST_BYTES = 256
"""So many bytes of the manifest are allowed for each member, and as many thousands in any case."""


@contextmanager
def opened(file: str | os.PathLike[str], limits: Limits) -> Iterator["Archive"]:
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


def _check_directory(handle: IO[bytes], limits: Limits) -> None:
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
    def __init__(self, archive: ZipFile, limits: Limits) -> None:
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

    def _read_manifest(self) -> Manifest:
        if MANIFEST not in self._infos:
            raise InvalidArchive("it is no archive of a session: it has no manifest.json")
        if self._infos[MANIFEST].file_size > _MANIFEST_BYTES * (len(self._infos) + 1000):
            raise InvalidArchive("its manifest is too large")
        value = _parsed(b"".join(self._pieces(MANIFEST)), MANIFEST, self._limits.depth)
        manifest = Manifest.from_json(value)
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


def _checked(infos: list[ZipInfo], limits: Limits) -> dict[str, ZipInfo]:
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


def _check_member(info: ZipInfo, limits: Limits) -> None:
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
