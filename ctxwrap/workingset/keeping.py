"""The manifest's file: read without trust, and written in one step, by the operator's commands alone."""

import contextlib
import fcntl
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from ctxwrap.errors import InvalidManifest, StoreUnavailable
from ctxwrap.stores.disk import opened, sync_directory, write_all
from ctxwrap.workingset import plain
from ctxwrap.workingset.manifest import Manifest, read_manifest
from ctxwrap.workingset.reading import FileBytes, Unread, read_bytes
from ctxwrap.workingset.writing import written

_READ = plain.MAX_BYTES
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL
_PATIENCE = 5.0
"""So many seconds one waits for others who write."""


@dataclass(frozen=True, slots=True)
class Kept:
    """A manifest as it was found."""

    manifest: Manifest
    text: str = ""
    """The file's text; empty if there is none, or none that can be used."""
    problem: str = ""
    """Why the manifest is empty although there is a file."""
    missing: bool = False
    """Whether there is no file."""


def look(path: str | os.PathLike[str]) -> Kept:
    """The manifest in that file, and nothing else happens; without a file it is empty."""
    directory, name = os.path.split(os.fspath(path))
    found = read_bytes(directory or ".", name, _READ)
    if isinstance(found, FileBytes):
        try:
            return Kept(read_manifest(found.data), found.data.decode("utf-8-sig"))
        except InvalidManifest as refused:
            return Kept(Manifest(), problem=f"{name!r} cannot be used: {refused}")
    if not isinstance(found, Unread) or found.trouble == "missing":
        return Kept(Manifest(), missing=True)
    return Kept(Manifest(), problem=f"{name!r} cannot be used: {found.reason}")


def save(path: str | os.PathLike[str], manifest: Manifest, kept: Kept) -> str:
    """Put a manifest in the place of the one that was kept there, in one step; the text that is there now.

    StoreUnavailable if somebody else changed it meanwhile, or the medium refuses.
    """
    path = os.fspath(path)
    with _alone(path):
        return _saved(path, manifest, kept)


@contextmanager
def _alone(path: str) -> Iterator[None]:
    """Others wait for a while; the lock is the directory's own, so that nothing is left behind."""
    try:
        handle = os.open(os.path.dirname(path) or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise StoreUnavailable(f"{path!r} was not written: {error.strerror or error}") from error
    try:
        _lock(handle, path)
        yield
    finally:
        with contextlib.suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_UN)  # a forked child may have the handle for a moment, too
        os.close(handle)


def _lock(handle: int, path: str) -> None:
    """A file system without locks has to do without."""
    from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_random

    waiting = Retrying(
        retry=retry_if_exception_type(BlockingIOError),
        stop=stop_after_delay(_PATIENCE),
        wait=wait_random(0.001, 0.01),
        reraise=True,
    )
    try:
        waiting(fcntl.flock, handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise StoreUnavailable(f"{path!r} was not written: somebody else has it; try again") from None
    except OSError:
        return


def _saved(path: str, manifest: Manifest, kept: Kept) -> str:
    now = look(path)
    if now.problem or now.text != kept.text:
        why = now.problem or "it was changed meanwhile"
        raise StoreUnavailable(f"{path!r} was not written: {why}; look at it and try again")
    text = written(manifest, kept.text)
    try:
        _replace(path, text.encode())
    except OSError as error:
        raise StoreUnavailable(f"{path!r} was not written: {error.strerror or error}") from error
    return text


def _replace(path: str, data: bytes) -> None:
    directory, name = os.path.split(path)
    temporary = os.path.join(directory, f".{name}.{secrets.token_hex(4)}.new")
    try:
        with opened(temporary, _NEW) as handle:
            write_all(handle, data)
            os.fchmod(handle, _mode(path))
            os.fsync(handle)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise
    sync_directory(os.path.realpath(directory))


def _mode(path: str) -> int:
    """The permissions that a file has, or those that only its owner has."""
    try:
        return os.stat(path, follow_symlinks=False).st_mode & 0o777
    except FileNotFoundError:
        return 0o600
