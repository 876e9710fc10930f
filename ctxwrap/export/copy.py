"""Copying sessions from one store to another: record by record, looked at again, and gone on with where it stopped."""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from ctxwrap.errors import Conflict, NotFound, StoreCorrupt
from ctxwrap.export.archive.format import carried, is_content, is_input
from ctxwrap.session.lookup import StoreLike, key_for, open_existing
from ctxwrap.session.session import Session
from ctxwrap.session.threads import defer_finalizers
from ctxwrap.stores import given_store
from ctxwrap.stores.base import Log, Store
from ctxwrap.types import Record, SessionKey

_AT_A_TIME = 500
"""So many records are copied in one step."""

_ORDER = ("events", "messages")
"""Events first: they tell how many messages there are, and so that some are missing."""

Progress = Callable[[int, int], None]
"""Takes how much is done, and of how much."""


class Copied(NamedTuple):
    key: SessionKey
    messages: int
    events: int
    contents: int
    """Large contents, and what somebody put into `context/`."""
    new: int
    """How many of the records were not there yet."""


def copy_sessions(
    source: StoreLike,
    target: StoreLike,
    *,
    session: str | None = None,
    tenant: str = "default",
    agent: str = "default",
    progress: Progress | None = None,
) -> Iterator[Copied]:
    """Copy a session, or every session of everybody, under the same names; each is told when it is there.

    What was copied before is looked at and not copied again, so that a copy that was interrupted goes on, and one of a
    session that has grown since catches up. A Conflict if the target has other records. What follows from the log is
    made anew.
    """
    here, there = given_store(source), given_store(target)
    keys = [key_for(session, tenant, agent)] if session is not None else sorted(here.keys())
    if not keys:
        raise NotFound("there is no session to copy")
    for key in keys:
        yield _Copying(key, here, there, progress or (lambda done, total: None)).done()


class _Copying:
    def __init__(self, key: SessionKey, source: Store, target: Store, progress: Progress) -> None:
        self._key = key
        self._source = open_existing(key, source)
        self._target = Session(key, target.open(key))
        self._progress = progress
        self._heads = dict(self._source.state.sequence)
        self._done, self._new = 0, 0

    def done(self) -> Copied:
        target = self._target
        with defer_finalizers(), target.log.locked():
            contents = self._copy_files()
            for stream in _ORDER:
                for first in range(1, self._heads[stream] + 1, _AT_A_TIME):
                    self._copy_records(stream, first, min(first + _AT_A_TIME - 1, self._heads[stream]))
                target.log.unsynced()()
            target.refresh()
            target.rebuild()
        return Copied(self._key, self._heads["messages"], self._heads["events"], contents, self._new)

    def _copy_files(self) -> int:
        files, copies = self._source.log.files, self._target.log.files
        names = [entry.name for entry in files.entries() if is_content(entry.name) or is_input(entry.name)]
        for name in names:
            data = files.load(name)
            if data is not None and copies.load(name) != data:
                copies.save(name, data, lasting=True)
                if copies.load(name) != data:
                    raise StoreCorrupt(f"session {self._key.session!r}: the copy of {name} is not what was written")
        return len(names)

    def _copy_records(self, stream: str, first: int, last: int) -> None:
        wanted = self._read(self._source.log, stream, first, last)
        if len(wanted) < last - first + 1:
            raise StoreCorrupt(
                f"session {self._key.session!r} lacks some {stream} from {first} to {last}: look at it with `ctxwrap "
                "verify`; what is left of it can be exported (ctxwrap export --force) and imported"
            )
        there = self._read(self._target.log, stream, first, last)
        self._check(stream, first, there, wanted[: len(there)])
        rest = wanted[len(there) :]
        if rest:
            self._target.log.append({stream: rest}, lasting=True)
            self._check(stream, first, self._read(self._target.log, stream, first, last), wanted)
        self._new += len(rest)
        self._done += len(wanted)
        self._progress(self._done, sum(self._heads.values()))

    def _read(self, log: Log, stream: str, first: int, last: int) -> list[Record]:
        return [carried(record) for record in log.between(stream, first, last)]

    def _check(self, stream: str, first: int, there: Sequence[Record], wanted: Sequence[Record]) -> None:
        for number, (copy, original) in enumerate(zip(there, wanted, strict=False), first):
            if copy != original:
                raise Conflict(
                    f"session {self._key.session!r}: {stream} {number} in the target is another record. Something was "
                    "forgotten since it was copied, or it is another session of the same name: remove it there first"
                )
        if len(there) < len(wanted):
            raise StoreCorrupt(f"session {self._key.session!r}: {stream} from {first + len(there)} are not in the copy")
