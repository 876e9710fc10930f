"""The files beside a session's streams: names in one table, pieces of their content in another.

Inside a transaction, files are cached until another process writes to the session.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager

from ctxwrap.errors import StoreUnavailable
from ctxwrap.stores.base import FileEntry
from ctxwrap.stores.names import file_parts
from ctxwrap.stores.postgres import statements as sql
from ctxwrap.stores.postgres.cache import KnownFiles
from ctxwrap.stores.postgres.connection import Rows, SqlStatement
from ctxwrap.stores.postgres.transaction import Bind, SessionTransaction

_LONGEST = 2000
"""How many bytes of a name fit into an index."""

_ALL = 1 << 62


class PostgresFiles:
    def __init__(
        self,
        bind: Bind,
        ask: Callable[[SqlStatement], Rows],
        known: Callable[[], KnownFiles | None],
        written: Callable[[], AbstractContextManager[SessionTransaction]],
    ) -> None:
        """`known` returns the cache of this thread's transaction, if it has one; `written` opens one if it has none."""
        self._bind, self._ask, self._known, self._writing = bind, ask, known, written

    def entries(self, under: str = "") -> list[FileEntry]:
        known = self._known() or KnownFiles()
        if under not in known.entries:
            known.entries[under] = sorted(self._found(under))
        return list(known.entries[under])

    def leftovers(self) -> list[FileEntry]:
        """None: a transaction that was not committed leaves nothing."""
        return []

    def load(self, name: str, size: int | None = None, start: int = 0) -> bytes | None:
        known = self._known() or KnownFiles()
        if name in known.contents:
            data = known.contents[name]
            return None if data is None else data[start:][:size]
        data = self._loaded(name, start, _ALL if size is None else start + size)
        if not start and size is None:
            known.take_read(name, data)
        return data

    def save(self, name: str, data: bytes, *, lasting: bool = False) -> None:
        with self._writing() as transaction:
            transaction.save(_named(name), bytes(data))
            transaction.known.files.take(name, bytes(data))

    def extend(self, name: str, data: bytes, after: int) -> bool:
        with self._writing() as transaction:
            known = transaction.known.files
            size = self._size(name, known)
            there = (size or 0) - after
            if not 0 <= there <= len(data):
                return False
            if size is None:
                self.save(name, data)
            elif rest := bytes(data[there:]):
                extend = self._bind(sql.EXTEND_CONTENT, name=_named(name), body=rest)
                transaction.write(extend, self._bind(sql.GROW_FILE, name=_named(name), length=len(rest)))
                known.forget(name)
                known.sizes[name] = after + len(data)
        return True

    def link(self, name: str, other: str) -> None:
        with self._writing() as transaction:
            transaction.write(self._bind(sql.LINK_FILE, name=_named(name), other=_named(other)))
            transaction.known.files.forget(other)

    def remove(self, name: str) -> None:
        self.remove_all([name])

    def remove_all(self, names: Sequence[str]) -> None:
        with self._writing() as transaction:
            values = {"names": [_named(name) for name in names]}
            transaction.write(self._bind(sql.DROP_CONTENTS, **values), self._bind(sql.DELETE_FILES, **values))
            for name in names:
                transaction.known.files.take(name, None)

    def remove_strays(self, name: str, may: Callable[[str], bool]) -> list[str]:
        return []

    def clear(self, under: str) -> None:
        """Remove every file in a directory, also hidden ones."""
        if names := [entry.name for entry in self._all(under)]:
            self.remove_all(names)

    def _size(self, name: str, known: KnownFiles) -> int | None:
        if name not in known.sizes:
            found = self._ask(self._bind(sql.FILE_SIZE, name=_named(name)))
            known.sizes[name] = found[0][0] if found else None
        return known.sizes[name]

    def _loaded(self, name: str, first: int, last: int) -> bytes | None:
        pieces = self._ask(self._bind(sql.LOAD_FILE, name=_named(name), first=first, last=last))
        return b"".join(body for (body,) in pieces if body) if pieces else None

    def _found(self, under: str) -> Iterator[FileEntry]:
        prefix = f"{under}/" if under else ""
        return (entry for entry in self._all(under) if "/." not in f"/{entry.name.removeprefix(prefix)}")

    def _all(self, under: str) -> list[FileEntry]:
        first, last = (_named(under) + end if under else end for end in ((b"/", b"0") if under else (b"", b"\xff")))
        found = self._ask(self._bind(sql.ENTRIES, first=first, last=last))
        return [FileEntry(str(name, "utf-8", "surrogatepass"), size, modified) for name, size, modified in found]


def _named(name: str) -> bytes:
    file_parts(name)
    data = name.encode("utf-8", "surrogatepass")
    if len(data) > _LONGEST:
        raise StoreUnavailable(f"the file name {name[:40]!r}… has {len(data)} bytes; the limit is {_LONGEST}")
    return data
