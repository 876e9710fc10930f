"""Copies sessions from one store to another, verifies each record, and resumes an interrupted copy."""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from ctxwrap.errors import Conflict, NotFound, StoreCorrupt
from ctxwrap.export.archive.format import is_content, is_input_name, without_store_fields
from ctxwrap.session.lookup import StoreLike, key_for, open_existing
from ctxwrap.session.owner import owner_keys
from ctxwrap.session.session import Session
from ctxwrap.session.threads import defer_finalizers
from ctxwrap.stores import resolve_store
from ctxwrap.stores.base import Log, Store
from ctxwrap.types import Record, SessionKey

_BATCH = 500

_ORDER = ("events", "messages")
"""Events first: they record the number of messages, so a partial copy is detectable."""

Progress = Callable[[int, int], None]
"""Called with the work done and the total."""


class Copied(NamedTuple):
    key: SessionKey
    messages: int
    events: int
    contents: int
    """Large contents and input files in `context/`."""
    new: int
    """Number of records that the target did not have."""


def copy_sessions(
    source: StoreLike,
    target: StoreLike,
    *,
    session: str | None = None,
    tenant: str = "default",
    agent: str = "default",
    progress: Progress | None = None,
) -> Iterator[Copied]:
    """Copy one session, or all sessions, users and teams of all tenants, under the same names, and yield each copy.

    Records that the target already has are compared, not copied again. This resumes an interrupted copy and updates
    an older one. Raises Conflict if the target has different records. Derived files are rebuilt in the target.
    """
    source_store, target_store = resolve_store(source), resolve_store(target)
    if session is not None:
        keys = [key_for(session, tenant, agent)]
    else:
        keys = [*sorted(source_store.keys()), *owner_keys(source_store)]
    if not keys:
        raise NotFound("there is no session to copy")
    for key in keys:
        yield _SessionCopy(key, source_store, target_store, progress or (lambda done, total: None)).run()


class _SessionCopy:
    def __init__(self, key: SessionKey, source: Store, target: Store, progress: Progress) -> None:
        self._key = key
        self._source = open_existing(key, source)
        self._target = Session(key, target.open(key))
        self._progress = progress
        self._heads = dict(self._source.state.sequence)
        self._done, self._new = 0, 0

    def run(self) -> Copied:
        target = self._target
        with defer_finalizers(), target.log.locked():
            contents = self._copy_files()
            for stream in _ORDER:
                for first in range(1, self._heads[stream] + 1, _BATCH):
                    self._copy_records(stream, first, min(first + _BATCH - 1, self._heads[stream]))
                target.log.unsynced()()
            target.refresh()
            target.rebuild()
        return Copied(self._key, self._heads["messages"], self._heads["events"], contents, self._new)

    def _copy_files(self) -> int:
        files, copies = self._source.log.files, self._target.log.files
        names = [entry.name for entry in files.entries() if is_content(entry.name) or is_input_name(entry.name)]
        for name in names:
            data = files.load(name)
            if data is not None and copies.load(name) != data:
                copies.save(name, data, lasting=True)
                if copies.load(name) != data:
                    raise StoreCorrupt(
                        f"session {self._key.session!r}: the copy of {name} differs from what was written"
                    )
        return len(names)

    def _copy_records(self, stream: str, first: int, last: int) -> None:
        wanted = self._read(self._source.log, stream, first, last)
        if len(wanted) < last - first + 1:
            raise StoreCorrupt(
                f"session {self._key.session!r} lacks some {stream} from {first} to {last}: run `ctxwrap verify`. "
                "The remaining records can be exported (ctxwrap export --force) and imported"
            )
        existing = self._read(self._target.log, stream, first, last)
        self._check(stream, first, existing, wanted[: len(existing)])
        new = wanted[len(existing) :]
        if new:
            self._target.log.append({stream: new}, lasting=True)
            self._check(stream, first, self._read(self._target.log, stream, first, last), wanted)
        self._new += len(new)
        self._done += len(wanted)
        self._progress(self._done, sum(self._heads.values()))

    def _read(self, log: Log, stream: str, first: int, last: int) -> list[Record]:
        return [without_store_fields(record) for record in log.between(stream, first, last)]

    def _check(self, stream: str, first: int, existing: Sequence[Record], wanted: Sequence[Record]) -> None:
        for number, (copy, original) in enumerate(zip(existing, wanted, strict=False), first):
            if copy != original:
                raise Conflict(
                    f"session {self._key.session!r}: {stream} {number} in the target is a different record. Either "
                    "something was forgotten since the last copy, or the target has another session of this name: "
                    "remove the session from the target first"
                )
        if len(existing) < len(wanted):
            raise StoreCorrupt(
                f"session {self._key.session!r}: {stream} from {first + len(existing)} are missing from the copy"
            )
