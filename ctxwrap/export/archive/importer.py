"""Imports a session from an untrusted archive: checks all of it, then writes."""

import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ctxwrap.errors import InvalidArchive, SettingsError, StoreUnavailable
from ctxwrap.export.archive.format import ArchiveLimits, without_store_fields
from ctxwrap.export.archive.reader import Archive, ArchiveFiles, open_archive
from ctxwrap.session.lookup import StoreLike, key_for
from ctxwrap.session.session import Session
from ctxwrap.session.threads import defer_finalizers
from ctxwrap.session.verify.checker import Progress
from ctxwrap.session.verify.report import folded
from ctxwrap.stores import resolve_store
from ctxwrap.types import Record, SessionKey

logger = logging.getLogger("ctxwrap")

_PROGRESS_STEP = 500


@dataclass(frozen=True, slots=True)
class Imported:
    key: SessionKey
    """The session in this store."""
    origin: SessionKey
    """The session as it was named when it was exported."""
    messages: int
    events: int
    contents: int
    damage: tuple[str, ...]
    """Damage found at export; these parts are missing."""
    left_out: tuple[str, ...] = ()
    """Operator files that were skipped because the archive is not `trusted`."""


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
    """Import a session from an archive into a store, under its own name or another one.

    The caller chooses tenant and agent; those in the archive are ignored. Pinned texts, budget and policy carry an
    operator's authority, so they are skipped unless the archive is `trusted`. `limits` bounds the archive's size, by
    default to 128 MiB. An interrupted import can be repeated. An archive of a user or a team is imported with all its
    sessions, under their own names.
    """
    from ctxwrap.export.archive.owner_archive import import_owner, is_owner_archive

    if is_owner_archive(file, limits or ArchiveLimits()):
        if session is not None:
            raise SettingsError("an archive of a user or a team has several sessions, which keep their names")
        return import_owner(file, store=store, tenant=tenant, trusted=trusted, limits=limits, progress=progress)
    with open_archive(file, limits or ArchiveLimits()) as archive:
        manifest = archive.manifest
        key = key_for(manifest.key.session if session is None else session, tenant, agent)
        target = Session(key, resolve_store(store).open(key))
        inputs = archive.inputs if trusted else ()
        work = _Import(archive, progress or (lambda done, total: None))
        log = work.check()
        _has_events(target, log)
        try:
            with defer_finalizers(), target.locked():
                _write(target, archive, (*archive.contents, *inputs), log, work)
        except (OSError, StoreUnavailable) as error:
            raise StoreUnavailable(
                f"the import of session {key.session!r} was interrupted; repeat it: {error}"
            ) from error
        work.finish()
        left_out = () if trusted else tuple(archive.inputs)
    counts = (manifest.messages, manifest.events, manifest.contents)
    return Imported(key, manifest.key, *counts, manifest.damage, left_out)


def check_archive(file: str | os.PathLike[str], limits: ArchiveLimits) -> None:
    """Raise InvalidArchive unless the archive of a session can be imported."""
    with open_archive(file, limits) as archive:
        _Import(archive, lambda done, total: None).check()


class _Log(NamedTuple):
    messages: list[Record]
    events: list[Record]


class _Import:
    """Checks an archive and reports progress: each record is read and folded, each content checked and written."""

    def __init__(self, archive: Archive, progress: Progress) -> None:
        self._archive = archive
        self._progress = progress
        manifest = archive.manifest
        self._total = 2 * (manifest.messages + manifest.events + len(archive.contents) + len(archive.inputs))
        self._done = 0

    def check(self) -> _Log:
        """Return the records, once every member is checked and the records fold into a session."""
        for name in (*self._archive.contents, *self._archive.inputs):
            self._archive.check(name)
            self.step()
        messages = [_normalise(record) for record in self._archive.records("messages", self.step)]
        events = [_normalise(record) for record in self._archive.records("events", self.step)]
        if not messages and not events:
            raise InvalidArchive("its session is empty")
        try:
            folded(ArchiveFiles(self._archive), messages, events, self.step).computed()
        except InvalidArchive:
            raise
        except Exception as error:
            raise InvalidArchive(f"its records do not form a session: {error!r}") from error
        return _Log(messages, events)

    def step(self) -> None:
        self._done += 1
        if self._done % _PROGRESS_STEP == 0:
            self._progress(self._done, max(self._done, self._total))

    def finish(self) -> None:
        self._progress(self._total, self._total)


def _normalise(record: Record) -> Record:
    """Return a record in the form of a log; one without control data is marked as unchecked."""
    bare = without_store_fields(record)
    return {**bare, "ctx": {"v": 1, **bare.get("ctx", {"unchecked": True})}}


def _has_events(target: Session, log: _Log) -> bool:
    """Whether an interrupted import of the same archive has already written the events."""
    target.refresh()
    if target.is_empty:
        return False
    existing = {stream: [_normalise(record) for record in target.log.read(stream)[0]] for stream in _Log._fields}
    if log.messages and not existing["messages"] and existing["events"] == log.events:
        return True
    key = target.key
    raise SettingsError(
        f"there is already a session {key.session!r} of tenant {key.tenant!r} and agent {key.agent!r}: "
        "choose another name with session= (--session)"
    )


def _write(target: Session, archive: Archive, names: Sequence[str], log: _Log, work: _Import) -> None:
    """Write contents, events, messages, in this order: events record the number of messages, so gaps are detectable."""
    resumes = _has_events(target, log)
    for name in names:
        target.log.files.save(name, archive.load(name), lasting=True)
        work.step()
    if not resumes:
        target.log.append({"events": log.events}, lasting=True)
        target.log.unsynced()()  # events must be durable before any message
    target.log.append({"messages": log.messages}, lasting=True)
    try:
        target.rebuild()
    except OSError as error:
        logger.warning(
            "session %r was imported, but its derived files were not written (%s): run `ctxwrap rebuild`",
            target.key.session,
            error,
        )
