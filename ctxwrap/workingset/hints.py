"""Hints from `hot.yml` and `cold.yml`: advice about files, never an order."""

from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any, NamedTuple

from ctxwrap.errors import InvalidManifest
from ctxwrap.workingset import plain
from ctxwrap.workingset.reading import FileBytes, Unread, read_bytes

HOT, COLD = "hot.yml", "cold.yml"

_MOST = 200
_LONGEST = 256


class Hints(NamedTuple):
    hot: tuple[str, ...] = ()
    """Paths and patterns of files to keep near."""
    cold: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    """Where they were read."""

    def heat(self, path: str) -> int:
        """1 for hot, -1 for cold, 0 for neither or both."""
        return _any_matches(self.hot, path) - _any_matches(self.cold, path)


def load_hints(root: str) -> Hints:
    """The hints in a directory; files that are not there give none."""
    hot, cold = _load(root, HOT), _load(root, COLD)
    return Hints(hot.hot, cold.cold, hot.problems + cold.problems, hot.files + cold.files)


def read_hints(text: str | bytes) -> Hints:
    """The hints in one file, in either way of writing them; InvalidManifest if it cannot be trusted."""
    source = plain.mapping_in(text)
    levels = source.get("priority")
    near = [source.get("keep"), *(_levels(levels) if isinstance(levels, dict) else ())]
    far = [source.get("evict"), source.get("deprioritized")]
    hot, cold = tuple(_patterns(near)), tuple(_patterns(far))
    is_long = len(hot) > _MOST or len(cold) > _MOST
    return Hints(hot[:_MOST], cold[:_MOST], (f"only the first {_MOST} hints are read",) if is_long else ())


def _load(root: str, name: str) -> Hints:
    found = read_bytes(root, name, plain.MAX_BYTES)
    if isinstance(found, Unread):
        return Hints() if found.trouble == "missing" else Hints(problems=(f"{name}: {found.reason}",))
    return _understood(name, found.data) if isinstance(found, FileBytes) else Hints()


@lru_cache(maxsize=16)
def _understood(name: str, data: bytes) -> Hints:
    try:
        return read_hints(data)._replace(files=(name,))
    except InvalidManifest as refused:
        return Hints(problems=(f"{name}: {refused}",))


def _levels(levels: Mapping[str, Any]) -> Iterator[Any]:
    """Of four levels the upper two are hot; the lower ones only say that a file is known."""
    yield from (levels.get("critical"), levels.get("high"))


def _patterns(lists: list[Any]) -> Iterator[str]:
    for found in lists:
        for entry in found if isinstance(found, list) else ():
            pattern = entry.get("path") if isinstance(entry, dict) else entry
            if isinstance(pattern, str) and 0 < len(pattern) <= _LONGEST:
                yield pattern


def _any_matches(patterns: tuple[str, ...], path: str) -> bool:
    return any(_matches(pattern, path) for pattern in patterns)


def _matches(pattern: str, path: str) -> bool:
    """A path itself, a directory with a slash behind it, or a pattern with stars."""
    pattern = pattern.removeprefix("./")
    if pattern.endswith("/"):
        return path.startswith(pattern) or fnmatchcase(path, f"{pattern}*")
    return path == pattern or fnmatchcase(path, pattern) or fnmatchcase(f"/{path}", pattern.replace("**/", "*/", 1))
