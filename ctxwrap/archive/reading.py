"""Importing a session: all of it is checked, then written so that a crash leaves nothing that looks whole."""

import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ctxwrap.archive.checking import Archive, ArchiveFiles, opened
from ctxwrap.archive.form import Limits, carried
from ctxwrap.errors import InvalidArchive, SettingsError, StoreUnavailable
from ctxwrap.session import Session
from ctxwrap.session.finding import Place, key_for
from ctxwrap.session.verifying import Progress, folded
from ctxwrap.stores import given_store
from ctxwrap.threads import undisturbed
from ctxwrap.types import Record, SessionKey

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
    store: Place = None,
    tenant: str = "default",
    agent: str = "default",
    trusted: bool = False,
    limits: Limits | None = None,
    progress: Progress | None = None,
) -> Imported:
    """Bring a session from an archive into a store, under its own name or another one.

    Whose it was there gives it no right to be anybody's here: tenant and agent are the caller's word. Pinned texts,
    budget and policy are an operator's word: they are left out unless the archive is `trusted`. `limits` says how much
    an archive may hold, else 128 MB. An import that was interrupted can simply be asked for again.
    """
    with opened(file, limits or Limits()) as archive:
        manifest = archive.manifest
        key = key_for(manifest.key.session if session is None else session, tenant, agent)
        target = Session(key, given_store(store).open(key))
        inputs = archive.inputs if trusted else ()
        work = _Work(archive, progress or (lambda done, total: None))
        log = work.checked()
        _begin_or_resume(target, log)
        try:
            with undisturbed(), target.locked():
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
